"""Finds files on the store that no version of a table needs: leftovers of writes, pending uploads, and relocated files.

Every file of a write has the id of its transaction in its name, and the index knows the transaction's state. Files of a
transaction that can still commit stay, and so do files without an id. Other indexes may have tables at the same
location, so files with an id that this index does not know stay, too. Copies of LOAD DATA LOCAL have no id: they are in
a directory of their own, and their age decides.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.commit.transaction import State, transaction_id_in
from catalog_ext.metastore.errors import CatalogExtError, LocationNotFoundError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.entries import ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.new_files import uncommitted
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumEntry
from catalog_ext.metastore.transactions.staging_locations import DATA, copies_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.index.read.ended_files import EndedFile
    from catalog_ext.metastore.index.write.expire_versions import KnownTransaction
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.entries import Listed
    from catalog_ext.metastore.storage.uploads import PendingUpload
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)

Seen = TypeVar("Seen")

_ABORTED = "leftover of write {}, which was aborted"
_LEFT = "leftover of write {}, which has ended and did not commit this file"
_COPIED = "copy of a local file for a LOAD DATA LOCAL that ended before it loaded the copy"
_NOT_OURS = "staged by write {}, which is not in this index"
_HOW = "--unknown-writes on the command line, unknown_writes => true in CALL, unknown_writes=True in Python"
_UNKNOWN = (
    "staged by write {}, which is not in this index. Another index that has a table at this location may still commit "
    f"the write. If no other index has a table here, delete the file with {_HOW}"
)
_UNNAMED = "written by the relocating overwrite {}; no kept version of the table uses this file"
_UNNAMED_STAYS = (
    "written by the relocating overwrite {}; no kept version of the table uses these files. DROP PARTITION or SET "
    "LOCATION removed the directory from the table, or another index wrote the files. To use the rows again, run ADD "
    f"PARTITION … LOCATION with this directory. If no other index uses the files, delete them with {_HOW}"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A path on the store that vacuum reports, and may remove.

    Attributes:
        entry: The line of the report.
        upload: The id of a pending upload.
        replaced: The replaced file, as the index has recorded it.
        is_data: Whether a relocating overwrite wrote the file: the metastore may have a partition in its directory.
    """

    entry: VacuumEntry
    upload: str | None = None
    replaced: EndedFile | None = None
    is_data: bool = False


class Strays:
    """Finds files that writes to one table left behind and that no commit will use.

    Args:
        before_ms: Younger files stay; milliseconds since the epoch, UTC.
        unknown_writes: Whether files of transactions that this index does not know are removed too.

    Attributes:
        too_young: The transactions whose leftovers stay because of their age.
        unseen: Whether a directory was not searched, because the listing failed or another table is there.
    """

    def __init__(self, resources: Resources, table: Table, before_ms: int, *, unknown_writes: bool) -> None:
        self._resources = resources
        self._index = resources.index
        self._storage = resources.storage
        self._table = table
        self._root = Location.parse(table.definition.location)
        self._before_ms = before_ms
        self._unknown_writes = unknown_writes
        self._copied: list[ListedFile] = []
        self._known: dict[str, KnownTransaction | None] = {}
        self.too_young: set[str] = set()
        self.unseen = False

    def files(self, version: int, replaced: Collection[str]) -> Iterator[Found]:
        """Yield leftover files of aborted and ended writes, and files of relocating overwrites that no version has.

        A file of an aborted write is a leftover in any directory, a file of a committed write only in that write's
        staging directory.

        Args:
            version: The oldest version that vacuum keeps. A directory that this or a later version has is no leftover.
            replaced: Directories of relocating overwrites whose files a later overwrite replaced. ``Vacuum`` deletes
                these files itself, so they are not yielded.
        """
        for root in self._places():
            # Read the running writes after the listing: a write may begin while the listing runs, and its files must
            # stay.
            listed = self._seen(root, partial(self._files, root))
            own = uncommitted(self._resources, self._table)
            ids = {found for file in listed for found in (_staged_by(file), _relocated_by(file)) if found}
            known = self._known_of(ids)
            named = self._index.partitions.locations_ever(self._table, version).union(replaced)
            for file in listed:
                found = self._stray(root, file, own, known)
                if found is None and root == self._root:
                    found = self._unnamed(file, known, named)
                if found is not None:
                    yield found

    def _unnamed(self, file: ListedFile, known: Mapping[str, KnownTransaction], named: Collection[str]) -> Found | None:
        """Return a file that a relocating overwrite wrote and no kept version refers to; None for any other file."""
        writer = _relocated_by(file)
        if writer is None or f"{self._root}/{file.directory}" in named:
            return None
        # Keep the writer's id in the index, by which a repair recognizes the file.
        self.too_young.add(writer)
        is_open = writer in known and not known[writer].has_ended
        if is_open or file.modified_ms > self._before_ms:
            return None
        action = VacuumAction.DELETE if self._unknown_writes else VacuumAction.SKIPPED
        reason = (_UNNAMED if self._unknown_writes else _UNNAMED_STAYS).format(writer)
        return Found(VacuumEntry(action, self._path(self._root, file), file.size, reason), is_data=True)

    def copies(self) -> Iterator[Found]:
        """Yield the copies of LOAD DATA LOCAL that were never loaded because the driver died.

        A directory is removed as a whole, when its newest file is old enough, because copying may take a driver long.
        """
        copies: dict[str, list[ListedFile]] = {}
        for event in self._copied:
            copies.setdefault(str(copies_directory(event.directory)), []).append(event)
        old = [files for files in copies.values() if max(f.modified_ms for f in files) <= self._before_ms]
        if not old or self._takes_files():
            return
        for file in (file for files in old for file in files):
            yield Found(VacuumEntry(VacuumAction.DELETE, self._path(self._root, file), file.size, _COPIED))

    def _takes_files(self) -> bool:
        """Return whether a LOAD DATA is in flight, which may have to move its files back."""
        states = (State.OPEN, State.RESERVED, State.COMMITTED, State.ABORTING)
        return any(one.plan.moves_user_files for one in self._resources.in_states(states))

    def _files(self, root: Location) -> list[ListedFile]:
        return [event for event in self._listed(root) if isinstance(event, ListedFile)]

    def _listed(self, root: Location) -> Iterator[Listed]:
        try:
            others = self._other_tables(root)
            # The directories of other tables are not searched, although a partition of this table may share one and
            # have a file of an aborted write. In this case the index must keep the ids of aborted writes, by which a
            # repair recognizes such files.
            self.unseen = self.unseen or bool(others)
            for event in list_tree(self._storage, root, descend=lambda place: place not in others, depth_hint=1):
                if isinstance(event, ListingFailure):
                    raise event.error
                if root == self._root and isinstance(event, ListedFile) and copies_directory(event.directory):
                    self._copied.append(event)
                elif not isinstance(event, ListedFile) or transaction_id_in(event.name) is not None:
                    yield event
        except LocationNotFoundError:
            return

    def _other_tables(self, root: Location) -> set[str]:
        """Return the directories of other tables below ``root``, relative to it; their files belong to these tables."""
        prefix = f"{root}/"
        return {
            place.removeprefix(prefix)
            for number, place in self._index.tables.locations()
            if number != self._table.table_id and place.startswith(prefix)
        }

    def _stray(
        self, root: Location, file: ListedFile, own: Mapping[str, State], known: dict[str, KnownTransaction]
    ) -> Found | None:
        named, staged = transaction_id_in(file.name), _staged_by(file)
        if file.modified_ms > self._before_ms:
            self.too_young |= {staged} if staged else set()
            return None
        if named is not None and own.get(named) is State.ABORTED:
            verdict: tuple[bool, str] | None = True, _ABORTED.format(named)
        else:
            verdict = self._verdict(staged, known) if staged else None
        if verdict is None:
            return None
        goes, reason = verdict
        action = VacuumAction.DELETE if goes else VacuumAction.SKIPPED
        return Found(VacuumEntry(action, self._path(root, file), file.size, reason))

    @staticmethod
    def _path(root: Location, file: ListedFile) -> str:
        return f"{root}/{file.directory}/{file.name}" if file.directory else f"{root}/{file.name}"

    def uploads(self) -> Iterator[Found]:
        """Yield pending uploads of writes that will not complete them."""
        if self._root.scheme != "s3a":
            return
        for prefix in self._places():
            uploads = self._seen(prefix, partial(self._pending, prefix))
            found = ((upload, transaction_id_in(upload.location.name)) for upload in uploads)
            pending = [(upload, named) for upload, named in found if named is not None]
            known = self._known_of({named for _, named in pending})
            for upload, named in pending:
                if upload.initiated_ms > self._before_ms:
                    self.too_young.add(named)
                    continue
                verdict = self._verdict(named, known)
                if verdict is not None:
                    action = VacuumAction.ABORT_UPLOAD if verdict[0] else VacuumAction.SKIPPED
                    yield Found(VacuumEntry(action, str(upload.location), 0, verdict[1]), upload.upload_id)

    def _pending(self, prefix: Location) -> Iterator[PendingUpload]:
        return self._storage.uploads_to(prefix).pending(prefix)

    def _known_of(self, ids: Collection[str]) -> dict[str, KnownTransaction]:
        """Return the transactions that the index knows; each id is looked up once and cached."""
        unasked = set(ids) - self._known.keys()
        self._known |= {**dict.fromkeys(unasked), **self._index.forgotten_transactions.known(unasked)}
        return {number: one for number in ids if (one := self._known[number]) is not None}

    def _verdict(self, transaction_id: str, known: dict[str, KnownTransaction]) -> tuple[bool, str] | None:
        """Return whether staged files of a write are removed, and the reason; None while the write can be committed."""
        one = known.get(transaction_id)
        if one is None:
            reason = _NOT_OURS if self._unknown_writes else _UNKNOWN
            return self._unknown_writes, reason.format(transaction_id)
        if not one.has_ended:
            return None
        return True, (_ABORTED if one.state is State.ABORTED else _LEFT).format(transaction_id)

    def _places(self) -> list[Location]:
        """Return the table's location, and locations elsewhere that its partitions have, or had in a kept version."""
        own = sorted({Location.parse(uri) for uri in self._index.partitions.locations_ever(self._table)})
        return [self._root, *(place for place in own if not self._root.contains(place))]

    def _seen(self, place: Location, look: Callable[[], Iterable[Seen]]) -> Sequence[Seen]:
        """Return the contents of a directory; nothing if it cannot be listed and no present partition is in it.

        Raises:
            CatalogExtError: The directory cannot be listed, and the table or one of its partitions is in it.
        """
        try:
            return list(look())
        except CatalogExtError as error:
            living = {Location.parse(uri) for uri in self._index.partitions.located(self._table).values()}
            if place in {self._root, *living}:
                raise
            self.unseen = True
            logger.warning("What writes to table %s may have left at %s is not known: %s", self._table.identifier,
                           place, error.message)  # fmt: skip
            return ()


def _staged_by(file: ListedFile) -> str | None:
    """Return the transaction in whose staging directory the file is, if the file's name has its id; otherwise None."""
    transaction_id = transaction_id_in(file.name)
    components = file.directory.split("/")
    # Check only the first levels: a hidden folder further down may contain another table, whose files have ids of its
    # own writes.
    is_staged = len(components) > 1 and is_hidden(components[0]) and components[0] != DATA
    return transaction_id if is_staged and components[1] == transaction_id else None


def _relocated_by(file: ListedFile) -> str | None:
    """Return the relocating overwrite that wrote the file into the table's data directory; None for other files."""
    components = file.directory.split("/")
    if len(components) < 2 or components[0] != DATA or transaction_id_in(file.name) != components[1]:
        return None
    return components[1]
