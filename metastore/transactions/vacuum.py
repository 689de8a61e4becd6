"""Vacuum: removes files that no kept version needs and no writer will commit, and forgets old versions.

Every file of a write carries the id of its transaction in its name, which is how files are told apart that nobody
registered: those of a transaction that can still commit stay, and so does whatever carries no id. Other indexes may
have tables at the same location: what carries the id of a transaction that this index does not know stays, too. Files
that LOAD DATA LOCAL has copied carry none: they lie in a directory of their own, and go by their age.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CatalogExtError, IndexUnavailableError, LocationNotFoundError, MetastoreError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.listing import ListedFile, ListingFailure, list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.deletion_gate import DeletionGate
from catalog_ext.metastore.transactions.identity import is_same_file
from catalog_ext.metastore.transactions.reports import KeptFiles, VacuumAction, VacuumEntry, VacuumReport
from catalog_ext.metastore.transactions.staging_locations import DATA, copies_directory, transaction_id_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.read.ended_files import EndedFile
    from catalog_ext.metastore.index.write.forgotten_transactions import KnownTransaction
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.listing import Listed
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.deletion_gate import StillNamed
    from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup

logger = logging.getLogger(__name__)

Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class _Found:
    """Something on the store that vacuum reports, and may remove.

    Attributes:
        entry: The report's line.
        upload: The id of a pending upload.
        replaced: The replaced file, as the index has it.
        is_data: Whether relocating overwrites wrote it: the metastore may have a partition there.
    """

    entry: VacuumEntry
    upload: str | None = None
    replaced: EndedFile | None = None
    is_data: bool = False


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
_UNNAMED = "rows of write {}, which no version of the table names any more"
_UNNAMED_STAYS = (
    "rows of write {}, which no version of the table names: DROP PARTITION or SET LOCATION left them, or another index "
    "wrote them. ADD PARTITION … LOCATION brings them back. Where no other index needs them, remove them by "
    "--unknown-writes on the command line, unknown_writes => true in CALL, unknown_writes=True in Python"
)
_YOUNG = "replaced by version {}, which is younger than the retention. SET LOCATION to this directory brings it back"
_NAMED_AGAIN = "replaced by version {}, and named again by a later one"
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
        self._gate = DeletionGate(index, self._table, named)
        self._unknown_writes = unknown_writes
        self._dry_run = dry_run
        self._too_young: set[str] = set()
        self._copied: list[ListedFile] = []
        self._failed = False
        self._unseen = False
        self._kept = KeptFiles()
        self._data: set[str] = set()

    def run(self) -> VacuumReport:
        """Return what was removed.

        Raises:
            IndexUnavailableError: The database is gone or locked.
        """
        version = self._index.version_at(self._table.table_id, self._before_ms)
        entries: list[VacuumEntry] = []
        for find in (partial(self._ended, version), partial(self._strays, version), self._copies, self._uploads):
            self._remove(find(), entries)
        entries.extend(self._kept.entries())
        if not (self._failed or self._dry_run or self._unseen):
            # Everything that they had left was looked at.
            self._index.drop_forgotten(self._table.table_id, self._began_ms, self._too_young)
        # The index goes on knowing why a kept file is no new one.
        version = min(version, self._kept.first_version - 1)
        if version > 0 and not self._failed:
            shown = str(self._table.identifier)
            forgotten = 1 if self._dry_run else self._index.expire_versions(self._table.table_id, version)
            if forgotten:
                reason = f"versions below {version} are older than the retention"
                entries.append(VacuumEntry(VacuumAction.FORGET, shown, 0, reason))
        self._index.expire_repairs(self._table.table_id, self._before_ms, dry_run=self._dry_run)
        name = str(self._table.identifier)
        return VacuumReport(name, tuple(replace(entry, table=name) for entry in entries), self._dry_run)

    def _remove(self, found: Iterator[_Found], entries: list[VacuumEntry]) -> None:
        """Remove what is found, in batches; what cannot be removed is reported and stops nothing else."""
        batch: list[_Found] = []
        try:
            for item in found:
                batch.append(item)
                if len(batch) == _AT_ONCE:
                    self._remove_batch(batch, entries)
                    batch = []
        except CatalogExtError as error:
            self._fail(str(self._root), error, entries)
        self._remove_batch(batch, entries)

    def _remove_batch(self, batch: list[_Found], entries: list[VacuumEntry]) -> None:
        try:
            batch = self._without_needed(batch, entries)
        except IndexUnavailableError:
            raise
        except CatalogExtError as error:
            self._fail(str(self._root), error, entries)
            return
        entries.extend(item.entry for item in batch)
        if self._dry_run or not batch:
            return
        files = [Location.parse(item.entry.path) for item in batch if item.entry.action is VacuumAction.DELETE]
        try:
            for item in batch:
                if item.upload is not None and item.entry.action is VacuumAction.ABORT_UPLOAD:
                    self._storage.abort_upload(Location.parse(item.entry.path), item.upload)
            self._storage.delete_files(files)
            directories = {file.parent for file in files}
            self._cleanup.remove_directories(self._table.table_id, directories, self._root)
            # The index forgets these files: after a power failure no later run would delete them again.
            self._storage.sync_directories(directories)
        except CatalogExtError as error:
            self._fail(batch[0].entry.path, error, entries)

    def _without_needed(self, batch: list[_Found], entries: list[VacuumEntry]) -> list[_Found]:
        """Return what may be removed, as of now; report what a partition or a statement under way needs.

        Raises:
            MetastoreError: The metastore cannot be asked.
        """
        goes = {item.entry.path: item for item in batch if item.entry.action is VacuumAction.DELETE or item.is_data}
        needs = self._gate.needs(goes)
        asked = {
            path: None if item.replaced is None else item.replaced.partition
            for path, item in goes.items()
            if item.is_data and item.entry.action is VacuumAction.DELETE and path not in needs
        }
        needs |= self._gate.named(asked)
        left: list[_Found] = []
        for item in batch:
            need = needs.get(item.entry.path)
            if need is not None and need.in_metastore:
                self._failed = True
                failed = VacuumEntry(VacuumAction.FAILED, item.entry.path.rpartition("/")[0], 0, need.reason)
                if failed not in entries:
                    entries.append(failed)
            elif need is not None:
                self._keep(item, VacuumAction.KEPT, need.reason)
            elif item.is_data and item.entry.action is VacuumAction.SKIPPED:
                self._keep(item, VacuumAction.SKIPPED, item.entry.reason)
            else:
                left.append(item)
        return left

    def _keep(self, item: _Found, action: VacuumAction, reason: str) -> None:
        version = None if item.replaced is None else item.replaced.version
        self._kept.add(action, item.entry.path, item.entry.bytes, reason, version)

    def _fail(self, path: str, error: CatalogExtError, entries: list[VacuumEntry]) -> None:
        self._failed = True
        logger.warning("Vacuum of table %s could not remove everything: %s", self._table.identifier, error.message)
        entries.append(VacuumEntry(VacuumAction.FAILED, path, 0, error.message))

    def _ended(self, version: int) -> Iterator[_Found]:
        """Yield the files that relocating overwrites up to a version have replaced, and that are still there.

        Raises:
            MetastoreError: Hive engines may still read them, because the metastore has not heard of the write.
        """
        behind = self._index.oldest_delivery_of(self._table.table_id)
        for page in self._index.ended_files(self._table, self._table.version, named_again=True):
            self._data.update(file.uri.rpartition("/")[0] for file in page)
            due = [file for file in page if file.version <= version and not file.named_again]
            self._report_kept(file for file in page if file.version > version or file.named_again)
            there = self._storage.stat_many([Location.parse(file.uri) for file in due])
            # Hive gives the same names again, and its store's clock need not be the database's.
            found = [
                file
                for file, entry in zip(due, there, strict=True)
                if entry is not None and is_same_file(entry, Removal(file.uri, file.size, file.modified_ms))
            ]
            if found and behind is not None and behind <= self._before_ms + _AT_COMMIT_MS:
                raise MetastoreError(_BEHIND.format(self._table.identifier))
            for file in found:
                entry = VacuumEntry(VacuumAction.DELETE, file.uri, file.size, _REPLACED.format(file.version))
                yield _Found(entry, replaced=file, is_data=True)

    def _report_kept(self, files: Iterable[EndedFile]) -> None:
        for file in files:
            reason = (_NAMED_AGAIN if file.named_again else _YOUNG).format(file.version)
            self._kept.add(VacuumAction.KEPT, file.uri, file.size, reason)

    def _strays(self, version: int) -> Iterator[_Found]:
        """Yield files of writes that will not commit them, and relocated files that no version names.

        Files of aborted writes are found anywhere, those of ended writes where they were staged.
        """
        for root in self._places():
            # Asked before the listing would be too early: a write may begin while it runs.
            listed = self._seen(root, partial(self._files, root))
            own = self._uncommitted()
            ids = {found for file in listed for found in (_staged_by(file), _relocated_by(file)) if found}
            known = self._index.known_transactions(ids)
            named = self._index.locations_ever(self._table, version) | self._data
            for file in listed:
                found = self._stray(root, file, own, known)
                if found is None and root == self._root:
                    found = self._unnamed(file, known, named)
                if found is not None:
                    yield found

    def _unnamed(
        self, file: ListedFile, known: Mapping[str, KnownTransaction], named: Collection[str]
    ) -> _Found | None:
        """Return a file that a relocating overwrite wrote and no kept version names; None for every other file."""
        writer = _relocated_by(file)
        if writer is None or f"{self._root}/{file.directory}" in named:
            return None
        # A repair then knows that this index wrote it.
        self._too_young.add(writer)
        is_open = writer in known and not known[writer].has_ended
        if is_open or file.modified_ms > self._before_ms:
            return None
        action = VacuumAction.DELETE if self._unknown_writes else VacuumAction.SKIPPED
        reason = (_UNNAMED if self._unknown_writes else _UNNAMED_STAYS).format(writer)
        return _Found(VacuumEntry(action, self._path(self._root, file), file.size, reason), is_data=True)

    def _copies(self) -> Iterator[_Found]:
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
            yield _Found(VacuumEntry(VacuumAction.DELETE, self._path(self._root, file), file.size, _COPIED))

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
    ) -> _Found | None:
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
        return _Found(VacuumEntry(action, self._path(root, file), file.size, reason))

    @staticmethod
    def _path(root: Location, file: ListedFile) -> str:
        return f"{root}/{file.directory}/{file.name}" if file.directory else f"{root}/{file.name}"

    def _uploads(self) -> Iterator[_Found]:
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
                    yield _Found(VacuumEntry(action, str(upload.location), 0, verdict[1]), upload.upload_id)

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
    # What lies below a hidden folder and in relocated data belongs to another table, which lies there.
    hidden = is_hidden(components[0]) and DATA not in components
    return transaction_id if hidden and transaction_id in components else None


def _relocated_by(file: ListedFile) -> str | None:
    """Return the relocating overwrite that wrote the file into the table's own data directory; None elsewhere."""
    components = file.directory.split("/")
    if len(components) < 2 or components[0] != DATA or transaction_id_in(file.name) != components[1]:
        return None
    return components[1]
