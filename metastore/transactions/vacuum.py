"""Vacuum: removes files that no kept version needs and no writer will commit, and forgets old versions.

Every file of a write carries the id of its transaction in its name, which is how files are told apart that nobody
registered: those of a transaction that can still commit stay, and so does whatever carries no id. Other indexes may
have tables at the same location: what carries the id of a transaction that this index does not know stays, too. Files
that LOAD DATA LOCAL has copied carry none: they lie in a directory of their own, and go by their age.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CatalogExtError, LocationNotFoundError, MetastoreError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.listing import ListedFile, ListingFailure, list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.identity import is_same_file
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumEntry, VacuumReport
from catalog_ext.metastore.transactions.staging_locations import DATA, copies_directory, transaction_id_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.read.ended_files import EndedFile
    from catalog_ext.metastore.index.write.forgotten_transactions import KnownTransaction
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.listing import Listed
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup

    StillNamed = Callable[[Sequence[str], Sequence[str]], Sequence[str]]

logger = logging.getLogger(__name__)

Seen = TypeVar("Seen")

_AT_ONCE = 1000
_REPLACED = "replaced by version {}, which is older than the retention"
_ABORTED = "left by write {}, which was aborted"
_LEFT = "left by write {}, which has ended"
_COPIED = "copied by a LOAD DATA LOCAL that did not end"
_NOT_OURS = "left by write {}, which this index does not know"
_UNKNOWN = (
    "staged by write {}, which this index does not know: another index with a table here may have it under way. Where "
    "none has, remove it by --unknown-writes on the command line, unknown_writes => true in CALL, unknown_writes=True "
    "in Python"
)
_BEHIND = (
    "The metastore has not taken all changes of table {}: Hive engines may still read the files that they replaced. "
    "Run catalog-ext outbox to see why; when they are delivered, run vacuum again."
)
_NAMED = (
    "The metastore still has partitions of table {} at {}, where the index has none any more: Hive engines read the "
    "files that are to be deleted. A change was skipped, or made without the metastore. Run catalog-ext publish {}, "
    "then vacuum again."
)
_AT_COMMIT_MS = 60_000
"""How much later than its version a commit's message to the metastore may have been enqueued."""


class Vacuum:
    """One vacuum of one table.

    Args:
        index: The index.
        storage: The stores.
        cleanup: Knows which directories are of registered partitions.
        table: The table.
        retention_s: Seconds for which versions are kept.
        named: Says which of some directories the metastore has partitions of these names at; None where there is no
            metastore.
        unknown_writes: Whether what writes have staged that this index does not know goes, too.
        dry_run: Preview only.
    """

    def __init__(
        self, index: Index, storage: Storage, cleanup: StoreCleanup, table: Table, retention_s: float,
        named: StillNamed | None, *, unknown_writes: bool = False, dry_run: bool,
    ) -> None:  # fmt: skip
        self._index = index
        self._storage = storage
        self._cleanup = cleanup
        self._table = index.load_table_by_id(table.table_id)
        self._root = Location.parse(self._table.definition.location)
        self._began_ms = index.now_ms()
        self._before_ms = self._began_ms - round(retention_s * 1000)
        self._named = named
        self._unknown_writes = unknown_writes
        self._dry_run = dry_run
        self._too_young: set[str] = set()
        self._copied: list[ListedFile] = []
        self._failed = False
        self._unseen = False

    def run(self) -> VacuumReport:
        """Return what was removed.

        Raises:
            IndexUnavailableError: The database is gone or locked.
        """
        version = self._index.version_at(self._table.table_id, self._before_ms)
        entries: list[VacuumEntry] = []
        for find in (lambda: self._ended(version), self._strays, self._copies, self._uploads):
            self._remove(find(), entries)
        if not (self._failed or self._dry_run or self._unseen):
            # Everything that they had left was looked at.
            self._index.drop_forgotten(self._table.table_id, self._began_ms, self._too_young)
        if version > 0 and not self._failed:
            shown = str(self._table.identifier)
            forgotten = 1 if self._dry_run else self._index.expire_versions(self._table.table_id, version)
            if forgotten:
                reason = f"versions below {version} are older than the retention"
                entries.append(VacuumEntry(VacuumAction.FORGET, shown, 0, reason))
        self._index.expire_repairs(self._table.table_id, self._before_ms, dry_run=self._dry_run)
        name = str(self._table.identifier)
        return VacuumReport(name, tuple(replace(entry, table=name) for entry in entries), self._dry_run)

    def _remove(self, found: Iterator[tuple[VacuumEntry, str | None]], entries: list[VacuumEntry]) -> None:
        """Remove what is found, in batches; what cannot be removed is reported and stops nothing else."""
        batch: list[tuple[VacuumEntry, str | None]] = []
        try:
            for item in found:
                batch.append(item)
                if len(batch) == _AT_ONCE:
                    self._remove_batch(batch, entries)
                    batch = []
        except CatalogExtError as error:
            self._fail(str(self._root), error, entries)
        self._remove_batch(batch, entries)

    def _remove_batch(self, batch: list[tuple[VacuumEntry, str | None]], entries: list[VacuumEntry]) -> None:
        entries.extend(entry for entry, _ in batch)
        if self._dry_run or not batch:
            return
        files = [Location.parse(entry.path) for entry, _ in batch if entry.action is VacuumAction.DELETE]
        try:
            for entry, upload in batch:
                if upload is not None and entry.action is VacuumAction.ABORT_UPLOAD:
                    self._storage.abort_upload(Location.parse(entry.path), upload)
            self._storage.delete_files(files)
            directories = {file.parent for file in files}
            self._cleanup.remove_directories(self._table.table_id, directories, self._root)
            # The index forgets them: nobody would know what came back after a power loss.
            self._storage.sync_directories(directories)
        except CatalogExtError as error:
            self._fail(batch[0][0].path, error, entries)

    def _fail(self, path: str, error: CatalogExtError, entries: list[VacuumEntry]) -> None:
        self._failed = True
        logger.warning("Vacuum of table %s could not remove everything: %s", self._table.identifier, error.message)
        entries.append(VacuumEntry(VacuumAction.FAILED, path, 0, error.message))

    def _ended(self, version: int) -> Iterator[tuple[VacuumEntry, None]]:
        """Yield the files that a write has replaced, and that are still there: those of relocating overwrites.

        Raises:
            MetastoreError: Hive engines may still read them, because the metastore has not heard of the write.
        """
        behind = self._index.oldest_delivery_of(self._table.table_id)
        for page in self._index.ended_files(self._table, version):
            there = self._storage.stat_many([Location.parse(file.uri) for file in page])
            # Hive gives the same names again, and its store's clock need not be the database's.
            found = [
                file
                for file, entry in zip(page, there, strict=True)
                if entry is not None and is_same_file(entry, Removal(file.uri, file.size, file.modified_ms))
            ]
            if found and behind is not None and behind <= self._before_ms + _AT_COMMIT_MS:
                raise MetastoreError(_BEHIND.format(self._table.identifier))
            self._check_not_named(found)
            for file in found:
                yield VacuumEntry(VacuumAction.DELETE, file.uri, file.size, _REPLACED.format(file.version)), None

    def _check_not_named(self, found: Sequence[EndedFile]) -> None:
        """Return if the metastore has no partition where the files are, which the index has elsewhere or not at all.

        Raises:
            MetastoreError: It has one, or cannot be asked.
        """
        if self._named is None or not found:
            return
        names = sorted({file.partition for file in found})
        living = self._index.partitions_of_values(self._table, names)
        left = {file.uri.rpartition("/")[0] for file in found}
        left -= {self._table.directory(partition.name, partition.location) for partition in living}
        still = self._named(names, sorted(left)) if left else []
        if still:
            shown = self._table.identifier
            raise MetastoreError(_NAMED.format(shown, still[0], shown), {"table": str(shown), "location": still[0]})

    def _strays(self) -> Iterator[tuple[VacuumEntry, None]]:
        """Yield files of writes that will not commit them: of aborted ones anywhere, of ended ones where staged."""
        for root in self._places():
            # Asked before the listing would be too early: a write may begin while it runs.
            listed = self._seen(root, partial(self._files, root))
            own = self._uncommitted()
            known = self._index.known_transactions({staged for file in listed if (staged := _staged_by(file))})
            for file in listed:
                found = self._stray(root, file, own, known)
                if found is not None:
                    yield found, None

    def _copies(self) -> Iterator[tuple[VacuumEntry, None]]:
        """Yield what LOAD DATA LOCAL has copied to be loaded and did not load: its driver died.

        A directory goes as a whole, when its newest file is old enough: some drivers copy for a long time.
        """
        copies: dict[str, list[ListedFile]] = {}
        for event in self._copied:
            copies.setdefault(str(copies_directory(event.directory)), []).append(event)
        old = [files for files in copies.values() if max(f.modified_ms for f in files) <= self._before_ms]
        if not old or self._takes_files():
            return
        for file in (file for files in old for file in files):
            yield VacuumEntry(VacuumAction.DELETE, self._path(self._root, file), file.size, _COPIED), None

    def _takes_files(self) -> bool:
        """Return whether a LOAD DATA is under way, which may have to put back what it has taken."""
        states = (State.OPEN, State.RESERVED, State.COMMITTED, State.ABORTING)
        return any(one.plan.takes for one in self._index.list_transactions(states=states))

    def _files(self, root: Location) -> list[ListedFile]:
        return [event for event in self._listed(root) if isinstance(event, ListedFile)]

    def _listed(self, root: Location) -> Iterator[Listed]:
        try:
            for event in list_tree(self._storage, root, descend=lambda _: True, depth_hint=1):
                if isinstance(event, ListingFailure):
                    raise event.error
                if root == self._root and isinstance(event, ListedFile) and copies_directory(event.directory):
                    self._copied.append(event)
                elif not isinstance(event, ListedFile) or transaction_id_in(event.name) is not None:
                    yield event
        except LocationNotFoundError:
            return

    def _stray(
        self, root: Location, file: ListedFile, own: dict[str, State], known: dict[str, KnownTransaction]
    ) -> VacuumEntry | None:
        named, staged = transaction_id_in(file.name), _staged_by(file)
        if file.modified_ms > self._before_ms:
            self._too_young |= {staged} if staged else set()
            return None
        if named is not None and own.get(named) is State.ABORTED:
            verdict: tuple[bool, str] | None = True, _ABORTED.format(named)
        else:
            verdict = self._verdict(staged, known) if staged else None
        if verdict is None:
            return None
        goes, reason = verdict
        action = VacuumAction.DELETE if goes else VacuumAction.SKIPPED
        return VacuumEntry(action, self._path(root, file), file.size, reason)

    @staticmethod
    def _path(root: Location, file: ListedFile) -> str:
        return f"{root}/{file.directory}/{file.name}" if file.directory else f"{root}/{file.name}"

    def _uploads(self) -> Iterator[tuple[VacuumEntry, str]]:
        if self._root.scheme != "s3a":
            return
        for prefix in self._places():
            uploads = self._seen(prefix, partial(self._storage.list_uploads, prefix))
            found = ((upload, transaction_id_in(upload.location.name)) for upload in uploads)
            pending = [(upload, named) for upload, named in found if named is not None]
            known = self._index.known_transactions({named for _, named in pending})
            for upload, named in pending:
                if upload.initiated_ms > self._before_ms:
                    self._too_young.add(named)
                    continue
                verdict = self._verdict(named, known)
                if verdict is not None:
                    action = VacuumAction.ABORT_UPLOAD if verdict[0] else VacuumAction.SKIPPED
                    yield VacuumEntry(action, str(upload.location), 0, verdict[1]), upload.upload_id

    def _verdict(self, transaction_id: str, known: dict[str, KnownTransaction]) -> tuple[bool, str] | None:
        """Return whether what a write has staged goes, and why or why not; None while it can be committed."""
        one = known.get(transaction_id)
        if one is None:
            reason = _NOT_OURS if self._unknown_writes else _UNKNOWN
            return self._unknown_writes, reason.format(transaction_id)
        if not one.has_ended:
            return None
        return True, (_ABORTED if one.state is State.ABORTED else _LEFT).format(transaction_id)

    def _places(self) -> list[Location]:
        """Return the table's location, and those outside of it that its partitions have, or had in a kept version."""
        own = sorted({Location.parse(uri) for uri in self._index.locations_ever(self._table)})
        return [self._root, *(place for place in own if not self._root.contains(place))]

    def _seen(self, place: Location, look: Callable[[], Iterable[Seen]]) -> Sequence[Seen]:
        """Return what lies at one of the places; nothing of one that partitions have left and that cannot be looked at.

        Raises:
            CatalogExtError: The table, or one of its partitions, lies there.
        """
        try:
            return list(look())
        except CatalogExtError as error:
            living = {Location.parse(uri) for uri in self._index.located_partitions(self._table).values()}
            if place in {self._root, *living}:
                raise
            self._unseen = True
            logger.warning("What writes to table %s may have left at %s is not known: %s", self._table.identifier,
                           place, error.message)  # fmt: skip
            return ()

    def _uncommitted(self) -> dict[str, State]:
        """Return the table's transactions whose files its newest version does not show."""
        version = self._index.load_table_by_id(self._table.table_id).version
        return self._index.uncommitted_ids(self._table.table_id, version)


def _staged_by(file: ListedFile) -> str | None:
    """Return the transaction in whose staging directory the file lies, which its name says too; None elsewhere."""
    transaction_id = transaction_id_in(file.name)
    components = file.directory.split("/")
    hidden = is_hidden(components[0]) and components[0] != DATA
    return transaction_id if hidden and transaction_id in components else None
