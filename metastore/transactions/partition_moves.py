"""Moves the files of RENAME, EXCHANGE and LOAD DATA, and moves them back in an undo."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_plans import CheckedExchange, CheckedRename, RenamePartition
from catalog_ext.metastore.commit.plan import Promotion
from catalog_ext.metastore.commit.rules import moves_files
from catalog_ext.metastore.commit.staged_files import FILES_AT_ONCE
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CatalogExtError, ConflictError, LocationNotFoundError, TableNotFoundError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import ReplaceFiles
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.moving import Mover, name_beside
from catalog_ext.metastore.storage.promotion import OvertakenError, is_moved
from catalog_ext.metastore.transactions.deletion_gate import named_directories
from catalog_ext.metastore.transactions.moves import moving_partitions
from catalog_ext.metastore.transactions.staging_locations import DATA, StagingLocations, below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.metastore.storage.moving import Displaced
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)


class PartitionMoves:
    """Moves the files of partition commands and of LOAD DATA.

    Before each step of a file's move it asks the index whether the transaction still moves files in this direction.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._index = resources.index
        self._storage = resources.storage

    def promote(self, transaction: Transaction, files: Sequence[StagedLocation]) -> None:
        """Move the files to their targets; other errors are those of ``Mover.promote``.

        Raises:
            OvertakenError: The transaction is not reserved any more.
            CatalogExtError: The store or the index failed, or another file is in the way.
        """
        mover = self._mover(transaction, (State.RESERVED,))
        mover.promote(files)
        mover.tidy()

    def require_unshared(self, transaction: Transaction, staged: Sequence[StagedFile] | None) -> None:
        """Check that no partition and no other transaction has the files of a reserved LOAD DATA.

        If two loads copied one file (on S3), both would show its rows. The transaction that is reserved last finds the
        other one; if both were reserved before either looked, both fail. ``staged`` are all files of the load; None to
        read them from the index.

        Raises:
            ConflictError: A partition has one of the files, or another transaction registers or loads it.
            IndexDatabaseError: The index does not answer.
        """
        if not transaction.plan.moves_user_files:
            return
        files = self._resources.recorded_files(transaction.transaction_id) if staged is None else staged
        own = {file.source for file in files if file.source is not None}
        others = self._resources.in_states((State.RESERVED, State.COMMITTED))
        self._require_unregistered(transaction, own, others)
        # A renamed file can be taken only once, so only loads that copy files can conflict.
        copies = transaction.plan.promotion is Promotion.UPLOAD
        loads = (other for other in others if copies and other.plan.moves_user_files)
        for other in loads:
            if other.transaction_id == transaction.transaction_id:
                continue
            taken = self._resources.recorded_files(other.transaction_id)
            shared = next((file.source for file in taken if file.source in own), None)
            if shared is not None:
                raise ConflictError(
                    f"The file {shown(shared)} is being loaded into table {other.table} by the write "
                    f"{other.transaction_id}. Nothing was loaded into table {transaction.table}; run the statement "
                    "again if the file is still there.",
                    {"table": transaction.table, "location": shared, "transaction": other.transaction_id},
                )

    def _require_unregistered(
        self, transaction: Transaction, sources: Collection[str], others: Iterable[Transaction]
    ) -> None:
        """Check that no partition has a file that a reserved load moves, and no reserved command will register one.

        The files may be outside every table, so no lock on a table orders the command before or after ``reserve`` of
        the load. A command that reserves after the load finds the load in its own commit.
        """
        commands = {
            place: f"the {one.operation} {one.transaction_id} of table {one.table}"
            for one in others
            if one.state is State.RESERVED
            for place in named_directories(self._index, one)
        }
        # The commands were read before the users of the files: if a command has ended since, its files are in the index
        # by now.
        found = {
            uri: user_of_file for uri in sources if (user_of_file := commands.get(uri.rpartition("/")[0])) is not None
        }
        users = self._index.needed_files.users(sources)
        found |= {uri: f"partition {shown(user.partition)} of table {user.table}" for uri, user in users.items()}
        if found:
            uri, user_of_file = min(found.items())
            raise ConflictError(
                f"LOAD DATA would move the file {shown(uri)} into table {transaction.table}, which {user_of_file} "
                "uses too. Nothing was changed; run the statement again, or copy the rows with INSERT … SELECT.",
                {"table": transaction.table, "location": uri},
            )

    def make_directories(self, transaction: Transaction) -> None:
        """Create the new directories of moved partitions without files: without a directory, a repair would drop them.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        plan = transaction.plan
        locations = StagingLocations(transaction.transaction_id, plan)
        if not isinstance(plan.change, CheckedRename | CheckedExchange):
            return
        if not self._storage.store_has_directories(locations.location):
            return
        names = {partition.partition_id: partition.name for partition in plan.change.partitions}
        filled = {file.partition for file in self._resources.recorded_files(transaction.transaction_id)}
        if filled.issuperset(names.values()):
            return
        source = self._source_table(transaction)
        made: set[Location] = set()
        for partition in self._moving(transaction, source):
            name = names.get(partition.partition_id)
            if name is not None and name not in filled and moves_files(source, partition):
                place = locations.directory(name)
                self._storage.create_directory(place)
                while locations.location.contains(place) and place not in made:
                    made.add(place)
                    place = place.parent
        self._storage.sync_directories({*made, locations.location} if made else ())

    def restore(self, transaction: Transaction, unrecorded: Sequence[StagedFile] = ()) -> list[StagedLocation]:
        """Move the files of a command that is being undone back to their sources; return all of them.

        If another file has the old name by now, the file gets another name in the same directory. If the old directory
        cannot be written, the partition gets a directory of the transaction. The index then records the new places.

        ``unrecorded``: files that may be missing in the index.

        Raises:
            CatalogExtError: A file could not be moved back; the call may be repeated.
        """
        states: tuple[State, ...] = (State.ABORTING,)
        if not self._storage.store_has_directories(Location.parse(transaction.plan.location)):
            # On S3 also undo copies that a late process made after the undo: a copy carries the transaction's mark and
            # is removed.
            states = (*states, State.ABORTED)
        elif transaction.state is State.ABORTED:
            self.return_strays(transaction)
            return []
        mover = self._mover(transaction, states)
        everything: list[StagedLocation] = []
        displaced: list[Displaced] = []
        try:
            for batch in batched(self._files(transaction, unrecorded), FILES_AT_ONCE):
                displaced += mover.restore(batch)
                everything += batch
        except OvertakenError:
            # Another process has moved all files back.
            return []
        if displaced and transaction.plan.moves_user_files:
            _report_displaced(displaced)
        elif displaced:
            self._record_displaced(transaction, mover, everything, displaced)
        mover.tidy()
        return everything

    def with_strays(self, commands: Sequence[Transaction]) -> list[Transaction]:
        """Return the ended commands for which a process left a directory with moved files; takes one listing per table.

        Directories that cannot be listed are logged and skipped.
        """
        places = [below(Location.parse(command.plan.location), command.plan.staging) for command in commands]
        left = {place: self._names(place) for place in set(places) if self._storage.store_has_directories(place)}
        return [one for one, place in zip(commands, places, strict=True) if one.transaction_id in left.get(place, ())]

    def _names(self, directory: Location) -> set[str]:
        try:
            return {entry.location.name for entry in self._storage.list_directory(directory)}
        except LocationNotFoundError:
            return set()
        except CatalogExtError as error:
            logger.warning("What late movers left at %s could not be looked at: %s", directory, error.message)
            return set()

    def return_strays(self, transaction: Transaction) -> None:
        """Move back the files of an ended command that a late process took and did not return before it died.

        Raises:
            CatalogExtError: The store refuses or does not answer.
        """
        if not self._storage.store_has_directories(Location.parse(transaction.plan.location)):
            return
        mover = self._mover(transaction, ())
        if mover.has_strays():
            mover.return_strays(list(self._files(transaction)))
        mover.tidy()

    def tidy(self, transaction: Transaction) -> None:
        """Remove the empty directories through which the transaction's files were moved.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        self._mover(transaction, ()).tidy()

    def _files(self, transaction: Transaction, unrecorded: Sequence[StagedFile] = ()) -> Iterator[StagedLocation]:
        locations = StagingLocations(transaction.transaction_id, transaction.plan)
        seen: set[str | None] = set()
        for file in chain(self._resources.recorded_files(transaction.transaction_id), unrecorded):
            if not unrecorded or file.source not in seen:
                seen.add(file.source)
                yield locations.locate(file)

    def _mover(self, transaction: Transaction, states: Collection[State]) -> Mover:
        number, plan = transaction.transaction_id, transaction.plan
        root = Location.parse(plan.location)
        origin = Location.parse(plan.change.source_location) if isinstance(plan.change, CheckedExchange) else root

        def exile(file: StagedLocation) -> Location:
            assert file.source is not None, "commands move files"
            if plan.moves_user_files:
                # These are the user's own files: they may get another name, but must stay in the user's directory.
                return name_beside(file.source, file)
            return below(origin, f"{DATA}/{number}/{file.source.relative_to(origin)}")

        return Mover(
            self._storage,
            below(root, f"{plan.staging}/{number}"),
            root,
            wanted=lambda: self._resources.is_in(number, states),
            exile=exile,
            threads=self._resources.threads,
        )

    def _record_displaced(
        self,
        transaction: Transaction,
        mover: Mover,
        everything: Sequence[StagedLocation],
        displaced: Sequence[Displaced],
    ) -> None:
        """Record in the index the new locations of files that could not be moved back under their names.

        Raises:
            StorageError: A directory cannot be written, and some of its files are back there: the partition would be in
                two places.
        """
        exiled: set[Location] = set()
        for one in displaced:
            if one.refusal is not None or one.place == mover.exile(one.file):
                exiled.add(_directory(one.file))
                if one.refusal is not None and self._any_back(everything, _directory(one.file)):
                    raise one.refusal
        for one in displaced:
            if _directory(one.file) in exiled:
                mover.place(one, mover.exile(one.file))
        try:
            table = self._source_table(transaction)
        except TableNotFoundError:
            return
        changes = self._changes(transaction, table, mover, displaced, exiled)
        self._index.commits.apply_changes(
            table.table_id,
            changes,
            operation=f"UNDO {transaction.operation}",
            summary={"undone": transaction.transaction_id},
            deliver=self._resources.delivers(table.definition),
        )

    def _any_back(self, everything: Sequence[StagedLocation], directory: Location) -> bool:
        own = [file for file in everything if _directory(file) == directory]
        there = self._storage.stat_many([file.source for file in own if file.source is not None])
        return any(is_moved(file, entry) for file, entry in zip(own, there, strict=True))

    def _changes(
        self,
        transaction: Transaction,
        table: Table,
        mover: Mover,
        displaced: Sequence[Displaced],
        exiled: Collection[Location],
    ) -> list[ReplaceFiles]:
        living = {
            Location.parse(table.directory_of(partition)): partition for partition in self._moving(transaction, table)
        }
        changes: list[ReplaceFiles] = []
        for directory in sorted({_directory(one.file) for one in displaced}):
            partition = living.get(directory)
            if partition is None:
                # An earlier undo has recorded this partition's new location already.
                continue
            here = [one for one in displaced if _directory(one.file) == directory]
            if directory in exiled:
                place = str(mover.exile(here[0].file).parent)
                changes.append(ReplaceFiles(partition.name, location=place))
                logger.warning("%s takes no files: partition %s lies at %s now.", directory, partition.name, place)
                continue
            files = self._index.living_partitions.files([partition.partition_id])
            known = {file.path: file for file in files.get(partition.partition_id, ())}
            names = {one.file.source.name: one.place.name for one in here if one.file.source is not None}
            renamed = {old: new for old, new in names.items() if old in known}
            for old, new in renamed.items():
                logger.warning(
                    "%s/%s was written by another process: the file that had that name is %s now.", directory, old, new
                )
            added = tuple(replace(known[old], path=new) for old, new in renamed.items())
            if added:
                changes.append(ReplaceFiles(partition.name, added, tuple(renamed)))
        return changes

    def _moving(self, transaction: Transaction, table: Table) -> list[Partition]:
        asked = transaction.plan.asked
        names = [asked.name] if isinstance(asked, RenamePartition) else []
        return moving_partitions(self._index, transaction, table, names)

    def _source_table(self, transaction: Transaction) -> Table:
        """Return the table that loses partitions in an EXCHANGE; for other commands the transaction's table."""
        return self._resources.table_of(transaction.plan.source_id or transaction.table_id or 0)


def _report_displaced(displaced: Sequence[Displaced]) -> None:
    """Log the new places of user files that could not be moved back under their names.

    Raises:
        CatalogExtError: A directory cannot be written. The undo can finish when it is writable again.
    """
    for one in displaced:
        if one.refusal is not None:
            raise one.refusal
        logger.warning(
            "%s was written by another process: the file that had that name is %s now.", one.file.source, one.place
        )


def _directory(file: StagedLocation) -> Location:
    assert file.source is not None, "commands move files"
    return file.source.parent
