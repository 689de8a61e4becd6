"""The index: the one object through which everything else reads and changes the index database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import IndexDatabaseError, TableNotFoundError
from catalog_ext.metastore.index.database import migration
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.database import Database, use_write_ahead_log
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.schema import tables
from catalog_ext.metastore.index.database.urls import parse_url, public_url
from catalog_ext.metastore.index.read import (
    changes,
    ended_files,
    file_rows,
    history,
    metadata_groups,
    needed_files,
    partition_groups,
    partition_states,
    planner_statistics,
    reader,
    state,
)
from catalog_ext.metastore.index.read.enough_files import enough_files
from catalog_ext.metastore.index.read.overviews import Overviews
from catalog_ext.metastore.index.tables import alter_table, dropped, incarnations, namespaces, properties, retyping
from catalog_ext.metastore.index.tables import tables as table_rows
from catalog_ext.metastore.index.tables.followed import FollowedMetastore
from catalog_ext.metastore.index.tables.indexed_views import IndexedViews
from catalog_ext.metastore.index.write import (
    apply_changes,
    commits,
    deletion_claims,
    etags,
    expire_versions,
    file_statistics,
    forgotten_transactions,
    outbox,
    partition_descriptors,
    partition_rows,
    publishing,
    repairs,
    reservations,
    restoration,
    settling,
    transaction_files,
    transactions,
    verifications,
    waiting_files,
)
from catalog_ext.metastore.index.write.version_dates import correct_future_dates
from catalog_ext.metastore.model.changes import Change, Commit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from typing_extensions import Self

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.staged_files import StagedFile, StoredFile
    from catalog_ext.metastore.commit.transaction import PlannedFormat, Transaction
    from catalog_ext.metastore.errors import IndexRestoredError
    from catalog_ext.metastore.index.database.database import PoolState
    from catalog_ext.metastore.index.read.ended_files import EndedFile
    from catalog_ext.metastore.index.read.needed_files import FileUser
    from catalog_ext.metastore.index.read.number_predicates import NumberPredicate
    from catalog_ext.metastore.index.read.state import IndexState
    from catalog_ext.metastore.index.tables.dropped import DroppedTable
    from catalog_ext.metastore.index.tables.incarnations import IndexGuard, Position
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.metastore.index.write.file_statistics import Counted, KnownFile
    from catalog_ext.metastore.index.write.forgotten_transactions import KnownTransaction
    from catalog_ext.metastore.index.write.transactions import ApplicationVersion, AtWork
    from catalog_ext.metastore.index.write.waiting_files import WaitingFiles
    from catalog_ext.metastore.messages import Delivery, PublishedPartition
    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import DataFile, Namespace, Partition, Table, TableDefinition
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate


class Index:
    """An open index. Threads may share it; ``close`` it, or use it as a context manager.

    Every method raises ``IndexUnavailableError`` when the database is gone or locked, ``ConflictError`` when another
    transaction was first, and ``IndexDatabaseError`` when the database refuses a statement.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._guard: IndexGuard | None = None
        self._statistics = planner_statistics.StatisticsRenewal(database)
        self.views = IndexedViews(database)
        self.followed = FollowedMetastore(database)
        self.overviews = Overviews(database)

    @classmethod
    def open(cls, url: str, *, migrate: bool | None = None) -> Index:
        """Return the index at a URL.

        Args:
            url: A SQLAlchemy URL, or the path of a SQLite file.
            migrate: Whether to bring the database to the schema of this release; None does so on SQLite only, whose
                file is made when it is not there. Otherwise the database must be at that schema.

        Raises:
            InvalidConfigurationError: The URL is not one of a database that the index runs on.
            EnvironmentSetupError: The database's driver is not installed.
            IndexNotAtHeadError: The database's schema is older or newer than this release wants.
        """
        database = Database(parse_url(url))
        try:
            if database.dialect == "sqlite":
                use_write_ahead_log(database)
            at_head = migration.current_revision(database) == migration.head_revision()
            if not at_head and (migrate or (migrate is None and database.dialect == "sqlite")):
                migration.migrate(database)
            elif not at_head:
                migration.require_head(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @classmethod
    def connect(cls, url: str) -> Index:
        """Return the index at a URL, whatever the state of its schema: for ``migrate`` and ``current_revision``."""
        database = Database(parse_url(url))
        if database.dialect == "sqlite":
            use_write_ahead_log(database)
        return cls(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    @property
    def url(self) -> str:
        """The URL for people: the password is ``***``."""
        return self._database.shown

    @property
    def public_url(self) -> str:
        """The URL for everybody who can read the store: without user, password and options."""
        return public_url(self._database.url)

    def state(self) -> IndexState:
        """Return what is open and pending in the index, and how much it holds, by one cheap query.

        Raises:
            IndexNotAtHeadError: The database's schema is not that of this release.
        """
        try:
            return state.load(self._database)
        except IndexDatabaseError:
            # An older schema lacks what the query asks for, which is no reason that anybody understands.
            migration.require_head(self._database)
            raise

    @property
    def pool(self) -> PoolState:
        """The state of the connection pool."""
        return self._database.pool

    @property
    def query_count(self) -> int:
        """How many SQL statements were sent since the index was opened."""
        return self._database.query_count

    def migrate(self, revision: str = "head") -> tuple[str | None, str | None]:
        """Return the revision that the database was at, and the one it is at now.

        Raises:
            IndexNotAtHeadError: The database is newer than this release, or the revision is unknown.
        """
        if revision != "head" and migration.current_revision(self._database) == migration.head_revision():
            settling.settle_all(self._database)
        return migration.migrate(self._database, revision)

    def current_revision(self) -> str | None:
        """Return the revision that the database is at; None for one that holds no index."""
        return migration.current_revision(self._database)

    def head_revision(self) -> str:
        """Return the revision that this release wants."""
        return migration.head_revision()

    def properties(self) -> dict[str, str]:
        """Return what the index says of itself: its metastore and its warehouse."""
        return properties.load(self._database)

    def add_properties(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return what the index says of itself, after what was missing has been added."""
        return properties.add_missing(self._database, values)

    def replace_properties(self, values: Mapping[str, str], *, removed: Iterable[str] = ()) -> None:
        """Set what the index says of itself, and remove what it no longer says."""
        properties.replace(self._database, values, removed)

    def watch(self, guard: IndexGuard) -> None:
        """Have a guard asked before each change and each deletion of files whether the index was put back."""
        self._guard = guard
        self._database.require_current = guard.require_current
        self._database.on_new_connection = guard.forget

    @property
    def behind(self) -> IndexRestoredError | None:
        """The reason why the index changes nothing: it was restored; None where it is current, as far as is known."""
        return None if self._guard is None else self._guard.behind

    def require_current(self) -> None:
        """Return unless the index is older than what it once wrote.

        Raises:
            IndexRestoredError: It is.
        """
        if self._guard is not None:
            self._guard.require_current()

    def before_deleting(self) -> None:
        """Have the store know that an older copy of this index may name files that are about to go or to move.

        Raises:
            IndexRestoredError: The index is such a copy itself.
            StorageError: The store does not answer.
        """
        if self._guard is not None:
            self._guard.advance()

    def position(self) -> Position:
        """Return the incarnation and the counter."""
        return incarnations.position_of(self.properties())

    def raise_counter(self) -> None:
        """Raise the counter by one."""
        incarnations.raise_counter(self._database)

    def newest_table_number(self) -> int:
        """Return the greatest number that a table has."""
        return incarnations.newest_number(self._database)

    def require_version(self, table_id: int, version: int) -> None:
        """Return if the table has, or has had, the version; ``TableNotFoundError``, ``IndexRestoredError``."""
        incarnations.require_version(self._database, table_id, version)

    def begin_incarnation(self, position: Position, newest_table: int) -> None:
        """End every unfinished transaction and delivery without touching a file, and give no number a second time."""
        restoration.begin_incarnation(self._database, position, newest_table)

    def require_restoring(self) -> None:
        """Have every process refuse changes until ``catalog-ext restored`` has run."""
        restoration.require_restoring(self._database)

    def end_restoring(self) -> None:
        """Note that all tables were compared with the store since the incarnation began."""
        restoration.end_restoring(self._database)

    def list_namespaces(self) -> list[str]:
        """Return the names, sorted."""
        return namespaces.list_namespaces(self._database)

    def load_namespace(self, name: str) -> Namespace:
        """Return the namespace of this name, or ``NamespaceNotFoundError``."""
        return namespaces.load_namespace(self._database, name)

    def create_namespace(self, namespace: Namespace, *, deliver: bool) -> Namespace:
        """Return the namespace, now in the index, or ``NamespaceAlreadyExistsError``.

        ``deliver`` enqueues it for the metastore.
        """
        return namespaces.create_namespace(self._database, namespace, deliver=deliver)

    def alter_namespace(self, name: str, set_: Mapping[str, str], remove: Sequence[str], *, deliver: bool) -> Namespace:
        """Return the namespace with properties set and removed, or ``NamespaceNotFoundError``."""
        return namespaces.alter_namespace(self._database, name, set_, remove, deliver=deliver)

    def drop_namespace(self, name: str, *, deliver: bool) -> None:
        """Remove an empty namespace; ``NamespaceNotFoundError``, ``NamespaceNotEmptyError``."""
        namespaces.drop_namespace(self._database, name, deliver=deliver)

    def list_tables(self, namespace: str) -> list[str]:
        """Return the names of the namespace's tables, sorted, or ``NamespaceNotFoundError``."""
        return table_rows.list_tables(self._database, namespace)

    def load_table(self, identifier: TableIdentifier) -> Table:
        """Return the table at its newest version, by one query, or ``TableNotFoundError``."""
        return self._noted(table_rows.load_table(self._database, identifier))

    def load_table_by_id(self, table_id: int) -> Table:
        """Return the table at its newest version, by one query, or ``TableNotFoundError``."""
        return self._noted(table_rows.load_table_by_id(self._database, table_id))

    def _noted(self, table: Table) -> Table:
        if self._guard is not None:
            self._guard.note_version(table.table_id, table.version)
        return table

    def create_table(self, definition: TableDefinition, *, deliver: bool) -> Table:
        """Return the table, now in the index at version 0; ``TableAlreadyExistsError``, ``NamespaceNotFoundError``."""
        return table_rows.create_table(self._database, definition, deliver=deliver)

    def alter_table(
        self,
        identifier: TableIdentifier,
        change: Callable[[TableDefinition], TableDefinition],
        *,
        check: Callable[[Table], None] | None = None,
        removed: Sequence[str] = (),
        settings: Callable[[TableDefinition], Mapping[str, str]] | None = None,
        deliver: bool,
    ) -> Table:
        """Return the table with what ``change`` makes of its definition, or ``TableNotFoundError``.

        No file is touched.
        """
        return alter_table.alter_table(
            self._database, identifier, change, check=check, removed=removed, settings=settings, deliver=deliver
        )

    def rename_table(self, identifier: TableIdentifier, to: TableIdentifier, *, deliver: bool) -> Table:
        """Return the table under its new name.

        ``TableAlreadyExistsError`` and ``NamespaceNotFoundError`` of that one.
        """
        return alter_table.rename_table(self._database, identifier, to, deliver=deliver)

    def drop_table(
        self,
        identifier: TableIdentifier,
        *,
        deliver: bool,
        purge: bool = False,
        deletes: bool = False,
        keeps_files: bool = False,
    ) -> Table:
        """Return the table as it was, now gone from the index; no file is touched.

        Args:
            identifier: Its name, which is free afterwards.
            deliver: Whether to enqueue the change for the metastore.
            purge: As the statement has it.
            deletes: Whether its directory is to be deleted, by the caller: nobody gets a table there until
                ``note_deleted``.
            keeps_files: Whether all its files are to stay, also those that a stream keeps back.

        Raises:
            TableNotFoundError: There is none of that name.
            ConflictError: With ``keeps_files``, rows of a stream wait; or files of the table are being moved.
        """
        return table_rows.drop_table(
            self._database, identifier, deliver=deliver, purge=purge, deletes=deletes, keeps_files=keeps_files
        )

    def undeleted_tables(self, location: str | None = None) -> list[DroppedTable]:
        """Return the dropped tables whose directories are still to be deleted, the oldest first.

        Args:
            location: Only those that lie there, in it or around it.
        """
        return dropped.undeleted(self._database, location)

    def while_undeleted(self, table_id: int, work: Callable[[], bool]) -> bool | None:
        """Return what ``work`` does while nobody gives the dropped table's directory free; None where it is free."""
        return dropped.while_undeleted(self._database, table_id, work)

    def note_deleted(self, table_id: int) -> None:
        """Give a dropped table's directory free, once nothing is in it."""
        dropped.note_deleted(self._database, table_id)

    def overlapping_tables(self, location: str) -> list[TableIdentifier]:
        """Return the tables whose location is this one, lies in it or around it, sorted."""
        return table_rows.overlapping_tables(self._database, location)

    def table_locations(self) -> list[tuple[int, str]]:
        """Return the number and the location of each table; views have none."""
        return table_rows.table_locations(self._database)

    def known_locations(self) -> list[str]:
        """Return the locations of namespaces and tables."""
        return table_rows.known_locations(self._database)

    def partitions_in(self, locations: Collection[str]) -> list[tuple[int, str, str]]:
        """Return partitions at locations of their own that are among these: number of the table, name, location."""
        return reader.partitions_in(self._database, locations)

    def history(self, identifier: TableIdentifier) -> list[TableVersion]:
        """Return the table's commits, newest first, or ``TableNotFoundError``."""
        return table_rows.history(self._database, identifier)

    def relocation_ids(self, table_id: int, base: str) -> set[str]:
        """Return the names of the directories in ``base`` in which partitions lie, of any version that is kept."""
        return reader.directories_within(self._database, table_id, base)

    def plan_files(
        self,
        table: Table,
        predicate: Predicate | None,
        ids: Sequence[int] | None = None,
        rows: int | None = None,
        bounds: Sequence[str] = (),
        descriptor: int | None = None,
        *,
        unmeasured: bool = False,
    ) -> pa.RecordBatchReader:
        """Return the files that a bound predicate leaves at the table's version (``reader.with_bounds``): one query.

        Args:
            table: The table.
            predicate: The predicate, None for all.
            ids: The numbers of the partitions among which alone to look; None for all.
            rows: How many rows are enough; None for all.
            bounds: Data columns of which to say what is known in each file.
            descriptor: The number of the descriptor that partitions are to have, 0 for their table's; None: any.
            unmeasured: Only the files whose row count is unknown, or whose columns were never measured.
        """
        plan = reader.plan_files(self._database, table, predicate, ids, rows, bounds, descriptor, unmeasured=unmeasured)
        return plan if rows is None else enough_files(plan, rows)

    def known_files(
        self, table: Table, predicate: Predicate | None, ids: Sequence[int] | None = None
    ) -> pa.RecordBatchReader:
        """Return the files as ``plan_files`` does, with what a listing is compared with (``reader.KNOWN_SCHEMA``)."""
        return reader.known_files(self._database, table, predicate, ids)

    def descriptors(self, table: Table) -> dict[int, PartitionDescriptor]:
        """Return how partitions are read that are not read as their table, by number: no query where none is."""
        return partition_descriptors.described(self._database, table)

    def formats(self, table: Table) -> dict[str, str]:
        """Return the formats of partitions that are not read as their table, by name: no query where none is."""
        return partition_descriptors.formats(self._database, table)

    def partition_groups(
        self, table: Table, predicate: Predicate | None, keys: Sequence[Key], wanted: partition_groups.Wanted
    ) -> pa.RecordBatchReader:
        """Return partitions together that have equal keys (``partition_groups.GROUP_SCHEMA``), without their files."""
        return partition_groups.partition_groups(self._database, table, predicate, keys, wanted)

    def list_partitions(self, table: Table, predicate: Predicate | None) -> pa.RecordBatchReader:
        """Return the partitions that a bound predicate leaves, by their typed values (``reader.PARTITION_SCHEMA``)."""
        return reader.list_partitions(self._database, table, predicate)

    def unordered_partitions(
        self, table: Table, predicate: Predicate | None, columns: Collection[str]
    ) -> pa.RecordBatchReader:
        """Return what ``list_partitions`` does, in any order, which is quicker: the columns of those names alone."""
        return reader.unordered_partitions(self._database, table, predicate, columns)

    def partition_exists(self, table: Table, names: Sequence[str]) -> set[str]:
        """Return those of the names that are partitions of the table at its version."""
        return reader.partition_exists(self._database, table, names)

    def partition_rows(
        self,
        table: Table,
        predicate: Predicate | None = None,
        columns: Collection[str] | None = None,
        numbers: NumberPredicate | None = None,
    ) -> pa.RecordBatchReader:
        """Return the metadata table ``partitions`` at the table's version: what readers see and what waits."""
        located = self.located_partitions(table) if columns is None or "location" in columns else {}
        return partition_states.partition_rows(self._database, table, predicate, located, columns, numbers)

    def file_rows(
        self,
        table: Table,
        predicate: Predicate | None = None,
        columns: Collection[str] | None = None,
        numbers: NumberPredicate | None = None,
    ) -> pa.RecordBatchReader:
        """Return the metadata table ``files`` at the table's version (``file_rows.FILE_ROWS_SCHEMA``)."""
        return file_rows.file_rows(self._database, table, predicate, columns, numbers)

    def count_metadata(
        self, table: Table, name: str, predicate: Predicate | None, numbers: NumberPredicate | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows of the metadata table ``partitions`` or ``files`` without their columns."""
        return metadata_groups.count_rows(self._database, table, name, predicate, numbers)

    def group_metadata(
        self,
        table: Table,
        name: str,
        predicate: Predicate | None,
        keys: Sequence[Key] | None,
        aggregates: Sequence[metadata_groups.Aggregate],
        numbers: NumberPredicate | None = None,
    ) -> pa.RecordBatchReader:
        """Return aggregations of the rows of ``partitions`` or ``files`` (``metadata_groups.groups_schema``)."""
        return metadata_groups.metadata_groups(self._database, table, name, predicate, keys, aggregates, numbers)

    def repair_rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the metadata table ``repairs``, newest first (``repairs.REPAIRS_SCHEMA``)."""
        return repairs.repair_rows(self._database, table)

    def skipped_rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the metadata table ``skipped`` (``repairs.SKIPPED_SCHEMA``)."""
        return repairs.skipped_rows(self._database, table)

    def add_repair(self, record: repairs.RepairRecord, skipped: Sequence[repairs.SkippedPath] | None = None) -> None:
        """Keep what one repair did, and what it skipped; None leaves what the repair before skipped."""
        repairs.add_repair(self._database, record, skipped)

    def expire_repairs(self, table_id: int, before_ms: int, *, dry_run: bool = False) -> int:
        """Forget the repairs that had ended by a time (milliseconds since the epoch, UTC); returns how many.

        What was verified before that goes too.
        """
        if not dry_run:
            verifications.expire(self._database, table_id, before_ms)
        return repairs.expire_repairs(self._database, table_id, before_ms, dry_run=dry_run)

    def verified(self, table: Table, names: Sequence[str] | None) -> verifications.Verifications:
        """Return when the named partitions, and the whole table, were last compared with the store.

        Args:
            table: The table.
            names: Names of partitions; None for what is known of the whole table alone.
        """
        return verifications.verified(self._database, table, names)

    def note_verified(self, table: Table, verified: verifications.Verified, names: Sequence[str] | None) -> None:
        """Keep that partitions were compared with the store; None for all there are."""
        verifications.note_verified(self._database, table, verified, names)

    def note_etags(self, table: Table, found: Sequence[tuple[str, DataFile]]) -> None:
        """Keep the ETags of files that have none yet, given with the names of their partitions as they were listed."""
        etags.note_etags(self._database, table, found)

    def first_repairs_after(self, table: Table, names: Sequence[str] | None) -> dict[str, int]:
        """Return which partitions a repair was the first to change after the table's version, and the version it made.

        Args:
            table: The table, at a version.
            names: The partitions that matter; None for all.
        """
        return verifications.first_repairs_after(self._database, table, names)

    def named_partitions(self, table: Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield those of the named partitions that are there at the table's version (``reader.PARTITION_SCHEMA``)."""
        return reader.named_partitions(self._database, table, names)

    def located_partitions(self, table: Table, predicate: Predicate | None = None) -> dict[str, str]:
        """Return the locations of partitions that are not at their default ones, of those that a predicate leaves."""
        return reader.located_partitions(self._database, table, predicate)

    def locations_ever(self, table: Table, since: int = 0) -> set[str]:
        """Return the own locations of the table's partitions in the kept versions from ``since`` on."""
        return reader.locations_ever(self._database, table, since)

    def located_for_write(self, table: Table, predicate: Predicate | None, limit: int) -> reader.LocatedPartitions:
        """Return what ``located_partitions`` does, or that there are more than ``limit``."""
        return reader.located_for_write(self._database, table, predicate, limit)

    def partitions_at(self, table: Table, locations: Collection[str]) -> dict[str, set[str]]:
        """Return the names of the partitions that lie in one of the directories, by its URI."""
        return reader.partitions_at(self._database, table, locations)

    def locations_of(self, table: Table, names: Collection[str]) -> dict[str, str]:
        """Return the locations of those of the named partitions that are not at their default ones."""
        return reader.locations_of(self._database, table, names)

    def commit(
        self,
        table_id: int,
        changes: Sequence[Change],
        *,
        operation: str,
        summary: Summary | None = None,
        deliver: bool,
        base: Table | None = None,
        listed_at_ms: int | None = None,
    ) -> Commit:
        """Return what one transaction did, which makes the changes visible together; nothing to do makes no version.

        Args:
            table_id: The table's number.
            changes: In any order; a partition may be dropped and added, not otherwise be named twice.
            operation: What makes the commit, for the history.
            summary: Kept in the history as JSON.
            deliver: Whether to enqueue the changes for the metastore.
            base: The table as it was when the changes were found; None where nothing matters but what they presume.
            listed_at_ms: A time before the store was listed for files that are added, by the database's clock
                (``now_ms``): what statements of other tables may have deleted since is not registered. None where the
                store was not listed.

        Raises:
            TableNotFoundError: The table is gone.
            ConflictError: A partition or file is there already, or no longer; or after ``base`` a partition changed, or
                the table's location or partition columns. Nothing was changed.
            DeletedFilesError: A file that is added is being deleted, or may have been since it was listed. Nothing was
                changed.
            InvalidInputError: A name does not fit the table, or the changes contradict each other.
        """
        kept = apply_changes.worth_committing(changes)
        if not kept:
            return Commit(version=self.load_table_by_id(table_id).version)

        def work(connection: sa.Connection, *, presume_new: bool) -> Commit:
            raise_version = sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version + 1)
            if not connection.execute(raise_version).rowcount:
                raise TableNotFoundError(f"The table with the id {table_id} does not exist in the index any more.")
            row = table_rows.load_row_by_id(connection, table_id)
            settling.require_settled(table_id, row["floor_version"])
            return apply_changes.commit(
                connection, row, kept, operation=operation, summary=summary or {}, deliver=deliver, base=base,
                listed_at_ms=listed_at_ms, presume_new=presume_new,
            )  # fmt: skip

        presume_new = apply_changes.are_many_new(kept)
        try:
            outcome = self._database.write(lambda connection: work(connection, presume_new=presume_new))
        except IndexDatabaseError as error:
            if not presume_new or error.__cause__ is None or not is_duplicate(error.__cause__):
                raise
            # One of them is there: the second time each is looked for, which says which one.
            outcome = self._database.write(lambda connection: work(connection, presume_new=False))
        self._statistics.note(outcome.partitions_added + outcome.partitions_changed + outcome.files_added)
        return outcome

    def changed_after(self, table: Table, names: Sequence[str]) -> dict[str, int]:
        """Return which of the names came, changed or went after the table's version, and the last version that did it.

        Raises:
            TableNotFoundError: The table is gone.
        """
        with self._database.reading() as connection:
            row = table_rows.load_row_by_id(connection, table.table_id)
            return partition_rows.changed_after(connection, row, names, table.version)

    def partitions_of_values(self, table: Table, names: Sequence[str]) -> list[Partition]:
        """Return the partitions that are there now with the typed values of one of the names."""
        return partition_rows.partitions_of_values(self._database, table, names)

    def partitions_matching(self, table: Table, predicate: Predicate, limit: int | None = None) -> list[Partition]:
        """Return the partitions that are there now and that a bound predicate is true for, or so many."""
        return partition_rows.partitions_matching(self._database, table, predicate, limit)

    def files_of_partitions(self, partition_ids: Sequence[int]) -> dict[int, list[DataFile]]:
        """Return the files that some partitions have now, by partition, without their statistics."""
        return partition_rows.files_of_partitions(self._database, partition_ids)

    def put_statistics(self, table: Table, found: Sequence[KnownFile], *, deliver: bool) -> Counted:
        """Record row counts and bounds of files that are as they were when they were counted; no version is made."""
        return file_statistics.put(self._database, table, found, deliver=deliver)

    def enqueue_statistics(self, table: Table, predicate: Predicate | None) -> int:
        """Enqueue what is known of the partitions that a predicate leaves; return how many messages that makes."""
        return file_statistics.enqueue(self._database, table, predicate)

    def enqueue_statistics_of(self, table: Table, names: Sequence[str]) -> int:
        """Enqueue what is known of partitions of these names; return how many messages that makes."""
        return file_statistics.enqueue_named(self._database, table, names)

    def retype_keys(self, table: Table, types: Mapping[str, str], *, deliver: bool) -> Table:
        """Return the table with other types of partition columns, at a version that is the oldest then.

        ``InvalidValueError`` when values do not fit; ``ConflictError`` when somebody is writing.
        """
        return retyping.retype_keys(self._database, table, types, deliver=deliver)

    def begin_transaction(
        self, transaction: Transaction, replaced: int | None = None, planned: PlannedFormat | None = None
    ) -> Transaction:
        """Write the row of a new transaction and return it, or the one that has its id (``transactions.begin``)."""
        return transactions.begin(self._database, transaction, replaced, planned)

    def begin_among_living(self, transaction: Transaction, planned: PlannedFormat | None = None) -> Transaction | None:
        """Return the same for one that makes no table; None, and do nothing, where somebody's lease is over."""
        try:
            return transactions.begin(self._database, transaction, planned=planned, looks=True)
        except transactions.DeadWritersError:
            return None

    def load_transaction_with_table(self, transaction_id: str) -> tuple[Transaction, Table | None]:
        """Return the transaction of this id and its table as it is now, by one query; None where there is no table."""
        return transactions.load_with_table(self._database, transaction_id)

    def at_work(self) -> AtWork:
        """Return whether others may be deleting or moving files that a listing finds, by one query."""
        return transactions.at_work(self._database)

    def load_transaction(self, transaction_id: str) -> Transaction:
        """Return the transaction of this id, or ``TransactionNotFoundError``."""
        return transactions.load(self._database, transaction_id)

    def state_of(self, transaction_id: str) -> State | None:
        """Return the transaction's state now; None where there is no such transaction."""
        return transactions.state_of(self._database, transaction_id)

    def while_in_state(self, transaction_id: str, state: State, work: Callable[[], object]) -> bool:
        """Return whether work was done, while nobody moved the transaction out of a state; it was in another if not."""
        return transactions.while_in_state(self._database, transaction_id, state, work)

    def list_transactions(
        self,
        table_id: int | None = None,
        *,
        states: Collection[State] | None = None,
        expired: bool = False,
        limit: int | None = None,
    ) -> list[Transaction]:
        """Return transactions, newest first: of a table, in some states, with a lease that is over."""
        return transactions.list_all(self._database, table_id, states=states, expired=expired, limit=limit)

    def now_ms(self) -> int:
        """Return the time by which leases are judged, the database's: in milliseconds since the epoch, UTC."""
        with self._database.reading() as connection:
            return now_ms(connection)

    def claim_recovery(self, transaction: Transaction, until_ms: int) -> bool:
        """Return whether nobody else recovers the transaction or has renewed its lease since it was loaded.

        Its lease then lasts until ``until_ms``.
        """
        return transactions.claim_recovery(self._database, transaction, until_ms)

    def extend_lease(self, transaction_id: str, until_ms: int, *, undoing: bool = False) -> bool:
        """Return whether the transaction is in flight; its lease then lasts until ``until_ms``.

        One that is being undone counts as that only with ``undoing``.
        """
        return transactions.extend_lease(self._database, transaction_id, until_ms, undoing=undoing)

    def record_files(self, transaction_id: str, files: Sequence[StagedFile], staged: int | None = None) -> None:
        """Add staged files, before which so many were staged where that is given: then a repeated call adds nothing.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not open any more.
            StagedFileMissingError: The index does not remember all of those that have gone before.
        """
        transaction_files.record_files(self._database, transaction_id, files, staged)

    def record_locations(self, transaction_id: str, own: Mapping[str, str]) -> dict[str, str]:
        """Keep where an open transaction puts files of partitions, and return it; what it had before stays so."""
        return transactions.record_locations(self._database, transaction_id, own)

    def staged_files(self, transaction_id: str) -> Iterator[StagedFile]:
        """Return the files that the transaction staged and has not committed, in bounded memory."""
        return transaction_files.staged_files(self._database, transaction_id)

    def staged_count(self, transaction_id: str) -> int:
        """Return how many files ``staged_files`` has."""
        return transaction_files.staged_count(self._database, transaction_id)

    def move_transaction(
        self, transaction_id: str, from_: Collection[State], to: State, *, error: str | None = None
    ) -> bool:
        """Return whether the transaction was in one of the states and is now in the other."""
        return transactions.move(self._database, transaction_id, from_, to, error=error)

    def suspect_reservation(self, transaction_id: str) -> None:
        """Have an open transaction count as one that was reserved: the index may have forgotten that it was.

        Raises:
            TransactionNotFoundError: There is no such transaction.
        """
        transactions.suspect_reservation(self._database, transaction_id)

    def remember_undone(self, transaction: Transaction, error: str) -> Transaction:
        """Return a transaction whose reservation the index has forgotten, as it then is: being undone, as reserved.

        Args:
            transaction: As its owner has reserved it, and has acknowledged nothing of. One that is committed after all
                stays as it is.
            error: Why it is undone.
        """
        return transactions.remember_undone(self._database, transaction, error)

    def find_application(self, table_id: int, app_id: str) -> ApplicationVersion | None:
        """Return the newest committed batch of an application in the table."""
        return transactions.find_application(self._database, table_id, app_id)

    def reserve(
        self,
        transaction_id: str,
        plan: WritePlan,
        *,
        staged: int | None = None,
        brought: Sequence[StagedFile] = (),
        known: Transaction | None = None,
    ) -> Transaction | ApplicationVersion:
        """Decide conflicts and return the transaction, now reserved; or its batch if that is committed already.

        A transaction that is reserved or committed stays as it is, so that the call may be repeated.

        Args:
            transaction_id: The transaction's.
            plan: Checked.
            staged: How many files are recorded, as its writer counts them; None where nobody has counted.
            brought: Staged files that are not recorded yet, and are with the reservation.
            known: The transaction as its caller has loaded it, so that it is read once.

        Raises:
            StagedFileMissingError: The index remembers another number of those that are recorded.
            ConflictError: Another writer, a repair or a partition DDL was first.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: The table to be created is there.
            InvalidInputError: A file is staged twice, or a partition does not fit the table.
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: Somebody undid it.
        """
        return reservations.reserve(self._database, transaction_id, plan, staged, brought, known)

    def commit_transaction(
        self, transaction_id: str, *, deliver: bool | Callable[[TableDefinition], bool],
        stored: Mapping[tuple[str, str], StoredFile] | None = None, left: Sequence[Removal] = (),
        deliver_source: bool = False, tidied: bool = False, known: Transaction | None = None,
        staged: Sequence[StagedFile] | None = None,
    ) -> Transaction:  # fmt: skip
        """Return the transaction, committed now or before, with its outcome; its changes become visible together.

        Args:
            transaction_id: A reserved transaction whose files have their final names.
            deliver: Whether to enqueue the changes for the metastore, or what says so of the table's definition.
            stored: What the store says of the files, by partition and name; the time of the commit stands in for
                times that it was not asked for.
            left: What is to be deleted with what the commit replaces.
            deliver_source: Whether to enqueue those of the table that an exchange takes partitions from.
            tidied: Whether nothing but what it replaces is left to be cleaned up: finished, if it replaces nothing.
            known: The transaction as its caller has loaded it since it was reserved, so that it is read once.
            staged: All files that it has staged, of which none waits, where its caller has them at hand.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not reserved.
            TableNotFoundError: The table is gone.
            TableAlreadyExistsError: The name of the table to be created was taken meanwhile.
            ConflictError: The table to be replaced was replaced meanwhile.
        """
        done = commits.commit(
            self._database,
            transaction_id,
            deliver=deliver,
            stored=stored or {},
            left=left,
            deliver_source=deliver_source,
            tidied=tidied,
            known=known,
            staged=staged,
        )
        outcome = done.outcome
        if outcome is not None:
            self._statistics.note(outcome.files_added + outcome.partitions_added + outcome.partitions_changed)
        if self._guard is not None and done.table_id is not None and done.version is not None:
            self._guard.note_version(done.table_id, done.version)
        return done

    def removals(self, transaction_id: str) -> Iterator[Removal]:
        """Yield what a committed transaction ended and is to be deleted, by absolute URIs, in bounded memory."""
        self.settle(transaction_id)
        return transaction_files.removals(self._database, transaction_id)

    def settle(self, transaction_id: str) -> None:
        """End row by row what a committed write of everything has ended at once; any other needs nothing."""
        settling.settle_write(self._database, transaction_id)

    def forget_removals(self, transaction_id: str) -> None:
        """Forget what a committed transaction had to delete: it is deleted."""
        transaction_files.forget_removals(self._database, transaction_id)

    def finish_transaction(self, transaction_id: str) -> bool:
        """Return whether the transaction was committed and now is finished: what it had to delete is forgotten."""
        return transactions.move(self._database, transaction_id, (State.COMMITTED,), State.FINISHED, error=None)

    def claim_deletion(
        self, table: Table, removals: Sequence[Removal], owner: str, staging: str
    ) -> deletion_claims.DeletionClaim:
        """Claim files that vacuum is about to delete (``deletion_claims.claim_deletion``)."""
        return deletion_claims.claim_deletion(self._database, table, removals, owner, staging)

    def finish_claim(self, transaction_id: str) -> None:
        """Finish a claim whose files are deleted, or stay for good."""
        deletion_claims.finish_claim(self._database, transaction_id)

    def uncommitted_ids(self, table_id: int, version: int) -> dict[str, State]:
        """Return the table's transactions with files that the version does not show, or that still wait."""
        return transactions.uncommitted_ids(self._database, table_id, version)

    def known_transactions(self, ids: Collection[str]) -> dict[str, KnownTransaction]:
        """Return those of the transactions that are this index's, whatever their tables, also if it forgot their rows.

        To be called when their files were listed: a transaction is known before it has files.
        """
        return forgotten_transactions.known_transactions(self._database, ids)

    def transactions_of_table(self, table_id: int, ids: Collection[str]) -> set[str]:
        """Return those of the transactions that were writes to a table, also where their rows are forgotten."""
        return forgotten_transactions.ids_of_table(self._database, table_id, ids)

    def drop_forgotten(self, table_id: int, before_ms: int, kept: Collection[str]) -> None:
        """Remove the ids of a table's forgotten transactions, which ``known_transactions`` then does not return.

        Args:
            table_id: The table's number.
            before_ms: Only those whose rows were forgotten before this time, in milliseconds since the epoch, UTC.
            kept: But for these, which have left something.
        """
        forgotten_transactions.drop_forgotten(self._database, table_id, before_ms, kept)

    def moving_commands(
        self, states: Collection[State] = (State.RESERVED, State.ABORTING, State.ABORTED)
    ) -> list[Transaction]:
        """Return the partition commands in these states that move files; without any, those that are not committed."""
        return transactions.moving_commands(self._database, states)

    def waiting_files(self, table_id: int, app_id: str | None = None) -> Iterator[WaitingFiles]:
        """Return the staged files that wait for their partition to be due, of one application or of all."""
        return waiting_files.waiting(self._database, table_id, app_id)

    def discard_waiting(self, table_id: int, lost: Collection[tuple[str, str, str]]) -> int:
        """Forget waiting files, given by transaction, partition and name; return how many there were."""
        return waiting_files.discard(self._database, table_id, lost)

    def relocations(self, table_id: int) -> set[int]:
        """Return the versions of the table that relocating overwrites have made and vacuum has not forgotten."""
        return transactions.relocations(self._database, table_id)

    def tables_with_waiting_files(self) -> list[int]:
        """Return the numbers of the tables that ``waiting_files`` has something for."""
        return waiting_files.waiting_tables(self._database)

    def changes(
        self, table_id: int, after: int, upto: int, removals: changes.Removals = changes.Removals.IGNORE
    ) -> pa.RecordBatchReader:
        """Return the files that the versions above ``after`` up to ``upto`` added (``changes.CHANGES_SCHEMA``).

        Raises:
            TableNotFoundError: The table is gone.
            VersionExpiredError: Vacuum has forgotten one of the versions.
            StreamChangedError: A version removed files, which ``removals`` refuses.
        """
        return changes.changes(self._database, table_id, after, upto, removals)

    def history_rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the metadata table ``history``, newest version first (``history.HISTORY_SCHEMA``)."""
        return history.history_rows(self._database, table)

    def transaction_rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the metadata table ``transactions``, newest first (``history.TRANSACTIONS_SCHEMA``)."""
        return history.transaction_rows(self._database, table)

    def version_at(self, table_id: int, at_ms: int) -> int:
        """Return the newest version committed at or before a time (milliseconds since the epoch, UTC); 0 for none.

        Dates that have far from come are corrected first.
        """
        correct_future_dates(self._database, table_id)
        return history.version_at(self._database, table_id, at_ms)

    def version_times(self, table_id: int, versions: Collection[int]) -> dict[int, int]:
        """Return when versions were committed (milliseconds since the epoch, UTC); forgotten ones are left out."""
        return history.version_times(self._database, table_id, versions)

    def ended_files(self, table: Table, before_version: int, *, named_again: bool = False) -> Iterator[list[EndedFile]]:
        """Yield, in pages, the files that relocating overwrites up to a version have replaced.

        A path that a later version names again is left out, or with ``named_again`` marked where a kept version reads
        it.
        """
        versions = {version for version in self.relocations(table.table_id) if version <= before_version}
        if not versions:
            return iter(())
        settling.settle(self._database, table.table_id)
        return ended_files.ended_files(self._database, table, before_version, versions, named_again=named_again)

    def file_users(self, uris: Collection[str], besides: Collection[int] = ()) -> dict[str, FileUser]:
        """Return those of the files that living partitions of any table have, apart from some partitions by number."""
        return needed_files.file_users(self._database, uris, besides)

    def expire_versions(
        self, table_id: int, before_version: int, *, max_rows: int | None = None, aborted: bool = True
    ) -> int:
        """Forget the versions below ``before_version``, in short transactions; return how many rows were removed.

        Afterwards ``ended_files`` does not know their files any more. A version above the newest is not forgotten.
        ``max_rows`` ends it earlier, to be gone on with by another call. Without ``aborted`` the rows of aborted
        transactions stay, by which files that they left are known.
        """
        return expire_versions.expire_versions(
            self._database, table_id, before_version, max_rows=max_rows, aborted=aborted
        )

    def pending_deliveries(
        self, limit: int = 100, *, after: int = 0, named: TableIdentifier | None = None
    ) -> list[Delivery]:
        """Return the next messages for the metastore, due or not, in the order of delivery; of one table, or of all."""
        return outbox.pending_deliveries(self._database, limit, after, named)

    def deliveries_of(self, table_id: int, limit: int = 10, *, after: int = 0) -> list[Delivery]:
        """Return the next messages about a table with an ``outbox_id`` above ``after`` in order, due or not."""
        return outbox.deliveries_of(self._database, table_id, limit, after)

    def last_delivery(self, table: Table) -> int:
        """Return the number of the newest message for the metastore; 0 where there is none."""
        return publishing.last_delivery(self._database, table)

    def count_deliveries(self) -> int:
        """Return how many messages for the metastore there are, due or not."""
        return outbox.count_deliveries(self._database)

    def pending_of(self, table_id: int) -> tuple[int, str | None]:
        """Return how many messages about a table the metastore has not taken, and why the first that failed did."""
        return outbox.pending_of(self._database, table_id)

    def oldest_delivery_of(self, table_id: int) -> int | None:
        """Return when the oldest message about a table was enqueued, in milliseconds; None where there is none."""
        return outbox.oldest_delivery_of(self._database, table_id)

    def has_pending_predecessor(self, table: Table) -> bool:
        """Return whether the metastore has yet to hear that an earlier table of this name is gone."""
        return outbox.has_pending_predecessor(self._database, table)

    def published_page(self, table: Table, after: int) -> tuple[list[PublishedPartition], int | None]:
        """Return the next partitions that the metastore is to have, and where the page after them begins, if any."""
        return publishing.published_page(self._database, table, after)

    def publish(self, table: Table, publication: publishing.Publication) -> int:
        """Enqueue a table's state for the metastore, in the place of what is pending; return how many messages."""
        return publishing.publish(self._database, table, publication)

    def find_delivery(self, outbox_id: int) -> Delivery | None:
        """Return the message for the metastore of a number, or None."""
        return outbox.find_delivery(self._database, outbox_id)

    def claim_delivery(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        """Return whether the message was there and due; then ``claim`` has it for so long, by the database's clock."""
        return outbox.claim_delivery(self._database, outbox_id, claim, lease_ms)

    def keep_claim(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        """Return whether nobody else has claimed the message since; the claim then lasts for half the lease or more."""
        return outbox.keep_claim(self._database, outbox_id, claim, lease_ms)

    def delivery_done(self, outbox_id: int, claim: str) -> bool:
        """Return whether the message, which the metastore has taken, was still this claim's; it is removed then."""
        return outbox.delivery_done(self._database, outbox_id, claim)

    def delivery_failed(self, outbox_id: int, claim: str, error: str, pause_ms: int, *, refused: bool) -> None:
        """Record that the metastore did not take a message: whether it answered, and how long to wait."""
        outbox.delivery_failed(self._database, outbox_id, claim, error, pause_ms, refused=refused)

    def retry_deliveries(self, outbox_id: int | None = None) -> int:
        """Make a message, or all of them, due now, but what is being delivered; return how many."""
        return outbox.retry_deliveries(self._database, outbox_id)

    def skip_delivery(self, outbox_id: int) -> bool:
        """Return whether the message was there and nobody was delivering it; it is removed then, undelivered."""
        return outbox.skip_delivery(self._database, outbox_id)

    def analyze(self) -> None:
        """Bring the database's statistics up to date, without which it takes wrong indexes."""
        planner_statistics.analyze(self._database)
