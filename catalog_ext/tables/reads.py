"""Reads tables: their files and partitions, at their newest version or at a query's version."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from catalog_ext.display import as_rows
from catalog_ext.metastore.commit.rules import not_found
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.read.history import Removals
from catalog_ext.metastore.index.read.partition_groups import WantedGroups
from catalog_ext.metastore.model.partition_names import DeclaredNames
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.conditions import (
    EVERYWHERE,
    NO_CLAUSES,
    Among,
    PartitionClauses,
    Where,
    bound_to,
    bound_where,
    key_named,
)
from catalog_ext.metastore.predicates.partition_specs import (
    ANY_SESSION,
    Session,
    full_spec,
    require_partitioned,
    spec_condition,
)
from catalog_ext.tables.lookups import in_words
from catalog_ext.tables.time_travel import TimeTravel

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.errors import IndexRestoredError
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.as_of import Version
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.tables.freshness import Freshness, Staleness


logger = logging.getLogger(__name__)

_REMEMBERED_TABLES = 1024
_PARTITION, _LOCATION = "partition", "location"


class TableReads:
    """Plans reads of tables. It caches loaded tables, so that a query's plan needs one database query less."""

    def __init__(self, context: Context, freshness: Freshness) -> None:
        self._context = context
        self._freshness = freshness
        self._time_travel = TimeTravel(context)
        # A cached entry cannot become stale: columns, keys and location never change for the same id and version.
        self._tables: OrderedDict[tuple[int, int], Table] = OrderedDict()
        self._lock = Lock()

    @property
    def behind(self) -> IndexRestoredError | None:
        """The error that says that the index was restored, and reads see an older state; None for a current index."""
        return self._context.counter.behind

    def predicate(self, table: Table, where: Where) -> Predicate | None:
        """Return the bound predicate of a condition or partition spec over the table's partition columns.

        Raises:
            InvalidPredicateError: The text is not a condition, or names a column that is not a partition column.
            InvalidValueError: A value does not fit its column's type.
        """
        return bound_where(table, where)

    def partitions(self, table: str, where: Where = None, *, version: Version | None = None) -> pa.Table:
        """Return the registered partitions, sorted by typed values with NULL first; columns as in ``partitions/list``.

        Args:
            table: ``namespace.table``.
            where: A condition or a partition spec that the partitions satisfy.
            version: The number of a version, the name of a tag, or a time with a zone; None for the newest version.

        Raises:
            TableNotFoundError: There is no table of that name.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            VersionNotFoundError, VersionExpiredError: The table has no such version, or no longer.
            InvalidInputError: ``version`` is a time without zone.
        """
        target = self._time_travel.load_named(table, version)
        found = self._context.index.partitions.all(target, bound_where(target, where))
        return as_rows(declared_batches(target, found).read_all())

    def files(self, table: str, where: Where = None, *, version: Version | None = None) -> pa.Table:
        """Return the registered files, with the columns of ``tables/plan`` (``docs/spec/service.md``).

        At an earlier version these are the files that it had, also those that were deleted since.

        Args:
            table: ``namespace.table``.
            where: A condition or a partition spec that the files' partitions satisfy.
            version: The number of a version, the name of a tag, or a time with a zone; None for the newest version.

        Raises:
            TableNotFoundError: There is no table of that name.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            VersionNotFoundError, VersionExpiredError: The table has no such version, or no longer.
            InvalidInputError: ``version`` is a time without zone.
        """
        target = self._time_travel.load_named(table, version)
        found = self._context.index.files.plan(target, bound_where(target, where))
        return as_rows(declared_batches(target, found).read_all())

    def remember(self, table: Table) -> Table:
        """Put a loaded table into the cache, so that plans at its version need not load it; return the table."""
        with self._lock:
            key = (table.table_id, table.version)
            self._tables[key] = table
            self._tables.move_to_end(key)
            while len(self._tables) > _REMEMBERED_TABLES:
                self._tables.popitem(last=False)
        return table

    def plan_files(
        self, table_id: int, version: int, condition: Predicate | None = None,
        clauses: PartitionClauses = NO_CLAUSES, among: Among = EVERYWHERE, rows: int | None = None,
        bounds: Sequence[str] = (), staleness: Staleness | None = None, descriptor: int | None = None, *,
        unmeasured: bool = False,
    ) -> pa.RecordBatchReader:  # fmt: skip
        """Return the files of a table at a version that may match an unbound predicate.

        Args:
            table_id: The table's number.
            version: The version.
            condition: The predicate, None for all.
            clauses: PARTITION clauses; a file's partition must match one of them.
            among: Limits the search to some partitions.
            rows: Stop when the files have this number of rows; None for all files. A file with an unknown row count
                counts as 0 rows.
            bounds: Data columns whose indexed bounds in each file are returned.
            staleness: The required freshness of the partitions; None for no check. Files on the store that the index
                lacked are returned too.
            descriptor: The number of the descriptor (format and settings) that the partitions must have, 0 for the
                table's own; None for any.
            unmeasured: Only the files whose row count is unknown, or whose columns were never measured.

        Raises:
            TableNotFoundError: There is no table of that number.
            InvalidPredicateError, InvalidValueError: The condition is not valid over the table's partition columns.
            InvalidPartitionSpecError: A clause does not fit the partition columns.
            StorageError, MassDropError: As ``Freshness.bring_in_sync`` raises them.
            ConflictError: Descriptors of partitions changed while they were compared with the store.
        """
        table = self._at(table_id, version)
        bound = among.within(table, clauses.bound(table, condition))
        index = self._context.index
        moved = {} if staleness is None else self._freshness.bring_in_sync(table, bound, among.ids, staleness)
        if not moved:
            return index.files.plan(table, bound, among.ids, rows, bounds, descriptor, unmeasured=unmeasured)
        self._require_known_descriptors(table, set(moved.values()))

        def read(at: Table, ids: Sequence[int] | None) -> pa.RecordBatchReader:
            if ids is not None and among.ids is not None:
                ids = sorted(set(ids).intersection(among.ids))
            within = among.ids if ids is None else ids
            return index.files.plan(at, bound, within, None, bounds, descriptor, unmeasured=unmeasured)

        return read_moved(index, table, moved, read)

    def _require_known_descriptors(self, table: Table, versions: Collection[int]) -> None:
        """Check that partitions at these versions have no descriptor (format, settings) that the query does not know.

        Raises:
            ConflictError: A partition has a new descriptor: the query would skip its files, or read them in the table's
                format.
        """
        index = self._context.index
        now = index.tables.load_by_id(table.table_id)
        if not now.has_descriptors:
            return
        known = set(index.descriptors.of_table(replace(now, version=table.version)))
        for version in versions:
            if set(index.descriptors.of_table(replace(now, version=version))) - known:
                raise ConflictError(
                    f"A partition of table {table.identifier} changed its format while the query was planned. Run the "
                    "query again.",
                    {"table": str(table.identifier)},
                )

    def descriptors(self, table: Table) -> dict[int, PartitionDescriptor]:
        """Return the descriptors (format and settings) of partitions that differ from their table, by number.

        The numbers are those of the argument ``descriptor`` of ``plan_files``.
        """
        return self._context.index.descriptors.of_table(table)

    def groups(
        self, table_id: int, version: int, condition: Predicate | None = None, keys: Sequence[str] = (),
        wanted: WantedGroups = WantedGroups.VALUES, among: Among = EVERYWHERE, staleness: Staleness | None = None,
    ) -> pa.RecordBatchReader:  # fmt: skip
        """Return the partitions that match an unbound predicate, grouped by some keys.

        Args:
            table_id: The table's number.
            version: The version.
            condition: The predicate, None for all.
            keys: Partition columns.
            wanted: The requested content of each group.
            among: Values of keys that the partitions must have.
            staleness: As in ``plan_files``. If partitions are read at later versions, each partition is a group.

        Raises:
            TableNotFoundError: There is no table of that number.
            InvalidPredicateError, InvalidValueError: The condition, or a key, does not fit the table's partition
                columns.
            StorageError, MassDropError: As in ``plan_files``.
        """
        table = self._at(table_id, version)
        named = [key_named(table, key) for key in keys]
        bound = among.within(table, bound_to(table, condition))
        index = self._context.index
        moved = {} if staleness is None else self._freshness.bring_in_sync(table, bound, None, staleness)
        if not moved:
            return index.partition_groups.groups(table, bound, named, wanted)
        return read_moved(
            index, table, moved, lambda at, _: index.partition_groups.groups(at, bound, named, WantedGroups.EACH)
        )

    def list_partitions(
        self, table_id: int, version: int, condition: Predicate | None = None, clauses: PartitionClauses = NO_CLAUSES
    ) -> pa.RecordBatchReader:
        """Return the partitions of a table or view at a version that match an unbound predicate; None matches all.

        A partition also has to match one of the PARTITION clauses.

        Raises:
            TableNotFoundError, InvalidPredicateError, InvalidValueError: As in ``plan_files``.
            InvalidPartitionSpecError: A clause does not fit the partition columns, or the table has no partition
                columns.
        """
        table = self._at(table_id, version)
        require_partitioned(table)
        return declared_batches(table, self._context.index.partitions.all(table, clauses.bound(table, condition)))

    def partition(
        self, table_id: int, version: int, spec: Mapping[str, str | None], session: Session = ANY_SESSION
    ) -> pa.RecordBatchReader:
        """Return the directories of the partition that a full spec names, as rows; a partition of a table has only one.

        Raises:
            TableNotFoundError: There is no table of that number.
            InvalidPartitionSpecError, InvalidValueError: The spec does not fit the table's partition columns.
            PartitionNotFoundError: There is no such partition.
        """
        table = self._at(table_id, version)
        condition = spec_condition(table, full_spec(table, spec, session))
        found = self._context.index.partitions.all(table, bound_to(table, condition)).read_all()
        if not found.num_rows:
            raise not_found(table, in_words(condition))
        return declared_batches(table, found.to_reader())

    def changes(
        self, table_id: int, after: int, upto: int, removals: Removals = Removals.IGNORE
    ) -> pa.RecordBatchReader:
        """Return the files that commits have added after one version and up to another version.

        Raises:
            TableNotFoundError: There is no table of that number.
            VersionExpiredError: The index no longer has one of the versions.
            IndexRestoredError: A version is newer than the table, or of an incarnation that was given up.
            StreamChangedError: A commit removed files, and ``removals`` refuses that.
        """
        return self._context.index.changes.between(table_id, after, upto, removals)

    def _at(self, table_id: int, version: int) -> Table:
        with self._lock:
            table = self._tables.get((table_id, version))
        if table is None:
            table = self._context.index.tables.load_by_id(table_id)
            if table.definition.table_type is not TableType.VIEW:  # do not cache views: their keys may change
                self.remember(table)
            if version != table.version:
                self._context.index.incarnations.require_version(table_id, version)
                table = self._context.index.definition_history.at(table, version)
        self._context.counter.look_for_query()
        behind = self._context.counter.behind
        if behind is not None:
            logger.warning("Table %s is planned as it was. %s", table.identifier, behind.message)
        return table


def read_moved(
    index: Index,
    table: Table,
    moved: Mapping[str, int],
    read: Callable[[Table, Sequence[int] | None], pa.RecordBatchReader],
) -> pa.RecordBatchReader:
    """Return the rows of ``read`` for a table of which some partitions are read at later versions.

    ``moved`` has these versions by partition name. ``read`` gets the table at a version, and the numbers of the
    partitions to read (None: all). Its rows have a column ``partition``, and those of a partition are contiguous.
    """
    by_version: dict[int, list[str]] = {}
    for name, version in moved.items():
        by_version.setdefault(version, []).append(name)
    first = read(table, None)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from _chosen(first, list(moved), kept=False)
        for version, names in sorted(by_version.items()):
            at = replace(table, version=version)
            found = index.partitions.named(at, names)
            if ids := [number for batch in found for number in batch.column("partition_id").to_pylist()]:
                yield from _chosen(read(at, ids), names, kept=True)

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _chosen(reader: pa.RecordBatchReader, names: Collection[str], *, kept: bool) -> Iterator[pa.RecordBatch]:
    values = pa.array(names, pa.string())
    with reader:
        for batch in reader:
            among = pc.is_in(batch.column("partition"), value_set=values)
            yield batch.filter(among if kept else pc.invert(among))


def declared_batches(table: Table, found: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the batches; names in the column ``partition`` get the key spelling of the table's definition.

    A partition whose stored name differs in case gets an explicit ``location``, because its directory has the stored
    name.
    """
    names = [key.name for key in table.definition.partition_columns]
    if not names:
        return found

    def batches() -> Iterator[pa.RecordBatch]:
        with found:
            for batch in found:
                yield _declared(table, DeclaredNames(names), batch)

    return pa.RecordBatchReader.from_batches(found.schema, batches())


def _declared(table: Table, names: DeclaredNames, batch: pa.RecordBatch) -> pa.RecordBatch:
    stored = batch.column(_PARTITION)
    # Fast path: a regular expression over the whole batch finds out that no name changes, without a Python loop over
    # the names.
    if pc.all(pc.match_substring_regex(stored, names.pattern), min_count=0).as_py():
        return batch
    shown = pa.array([names.of(name) for name in stored.to_pylist()], stored.type)
    if shown.equals(stored):
        return batch
    columns = {name: batch.column(name) for name in batch.schema.names} | {_PARTITION: shown}
    if _LOCATION in columns:
        there = pc.binary_join_element_wise(pa.scalar(table.definition.location), stored, "/")
        own = pc.if_else(pc.equal(shown, stored), pa.scalar(None, pa.string()), there)
        columns[_LOCATION] = pc.coalesce(columns[_LOCATION], own)
    return pa.RecordBatch.from_pydict(columns, schema=batch.schema)
