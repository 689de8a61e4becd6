"""The queries that a table's readers run: its files, its partitions, and which of some names it has.

Each query also selects one *mark*: a row from ``tables``, with the partition id -1. When it is missing, the table was
dropped after the statement had loaded it, and an answer without its rows must not pass for an empty table. It also says
which version is the oldest that is still whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from catalog_ext.metastore.errors import TableNotFoundError, VersionExpiredError
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.column_types import ExactText
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    KEY_COLUMNS,
    file_statistics,
    files,
    partition_ids,
    partitions,
    tables,
)
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.enough_files import enough_files
from catalog_ext.metastore.index.read.predicate_sql import is_bounded, predicate_sql
from catalog_ext.metastore.index.read.spellings import other_spellings
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.typed_values import sort_key, typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import TRUE, Predicate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.clauses import Condition
    from catalog_ext.metastore.model.tables import Table

PLAN_SCHEMA = pa.schema([
    pa.field("partition_id", pa.int64(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("path", pa.string(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("modified_ms", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
])  # fmt: skip
"""One row a file: ``tables/plan`` of the service contract."""

DETAILED_SCHEMA = pa.schema([
    *PLAN_SCHEMA,
    pa.field("version", pa.int64(), nullable=False),
    pa.field("statistics", pa.string()),
])  # fmt: skip
"""``PLAN_SCHEMA`` with the version that added the file and its statistics (JSON)."""

KNOWN_SCHEMA = pa.schema([*PLAN_SCHEMA, pa.field("etag_hash", pa.int64())])
"""``PLAN_SCHEMA`` with the hash of each object's ETag: what a listing is compared with."""

PARTITION_SCHEMA = pa.schema([
    pa.field("partition_id", pa.int64(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("files", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("created_ms", pa.int64(), nullable=False),
])  # fmt: skip
"""One row a partition: ``partitions/list`` of the service contract."""

_MARK = -1
_ZERO = sa.literal(0)
_OLDEST = tables.c.oldest_version
_NAMES_AT_ONCE = 500


class Partitions:
    """The partitions and files of tables, at one version each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def files(
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
        """Return the files of the partitions that satisfy a predicate, at the table's version, partition by partition.

        Args:
            table: The table.
            predicate: A bound predicate, None for all.
            ids: The numbers of the partitions among which alone to look; None for all.
            rows: How many rows of theirs the caller wants, who leaves the files after those; None: all.
            bounds: Data columns; what the index knows of each in each file follows the other columns (``with_bounds``).
            descriptor: The number of the descriptor that the partitions are to have, 0 for their table's; None: any.
            unmeasured: Only the files whose row count is unknown, or whose columns were never measured.

        Raises:
            TableNotFoundError: The table has been dropped.
            VersionExpiredError: Vacuum has forgotten the version.
            IndexUnavailableError: The database is gone or locked.
        """
        d = partitions.c.descriptor_id
        only = None if descriptor is None else d == descriptor if descriptor else d.is_(None)
        statement, exact = plan_statement(
            self._database.dialect, table, predicate, ids=ids, bounds=bounds, only=only, unmeasured=unmeasured
        )
        check = Check(table, None if exact else predicate)

        def enough(batch: pa.RecordBatch) -> bool:
            return rows is not None and (pc.sum(batch.column("rows")).as_py() or 0) >= rows

        schema = with_bounds(bounds)
        plan = arrow_rows.stream(
            self._database, statement, schema, check.step, check.finish, elsewhere=True, enough=enough
        )
        return plan if rows is None else enough_files(plan, rows)

    def detailed_files(
        self,
        table: Table,
        predicate: Predicate | None,
        *,
        detailed: bool = True,
        only: sa.ColumnElement[bool] | None = None,
    ) -> pa.RecordBatchReader:
        """Return what ``files`` does; with ``detailed``, also what planning does not need (``DETAILED_SCHEMA``).

        Of the files those alone for which ``only`` holds, a clause on their columns.
        """
        statement, exact = plan_statement(self._database.dialect, table, predicate, detailed=detailed, only=only)
        check, schema = Check(table, None if exact else predicate), DETAILED_SCHEMA if detailed else PLAN_SCHEMA
        return arrow_rows.stream(self._database, statement, schema, check.step, check.finish, elsewhere=True)

    def known_files(
        self, table: Table, predicate: Predicate | None, ids: Sequence[int] | None = None
    ) -> pa.RecordBatchReader:
        """Return what ``plan_files`` does, with the hash of each object's ETag (``KNOWN_SCHEMA``)."""
        statement, exact = plan_statement(self._database.dialect, table, predicate, ids=ids, with_etags=True)
        check = Check(table, None if exact else predicate)
        return arrow_rows.stream(self._database, statement, KNOWN_SCHEMA, check.step, check.finish, elsewhere=True)

    def all(
        self, table: Table, predicate: Predicate | None, only: sa.ColumnElement[bool] | None = None
    ) -> pa.RecordBatchReader:
        """Return the partitions that satisfy a predicate at the table's version, by values (NULL first), then by name.

        Those alone for which ``only`` holds, a clause on the columns of ``partitions``.

        Raises:
            TableNotFoundError: The table has been dropped.
            VersionExpiredError: Vacuum has forgotten the version.
            IndexUnavailableError: The database is gone or locked.
        """
        statement, exact = partitions_statement(self._database.dialect, table, predicate, only)
        check = Check(table, None if exact else predicate)
        reader = arrow_rows.stream(self._database, statement, PARTITION_SCHEMA, check.step, check.finish)
        return _sorted_by_values(reader, table) if check.has_long_keys else reader

    def unordered(
        self,
        table: Table,
        predicate: Predicate | None,
        columns: Collection[str],
        only: sa.ColumnElement[bool] | None = None,
    ) -> pa.RecordBatchReader:
        """Return what ``all`` does, in any order: of ``PARTITION_SCHEMA`` the columns of those names alone."""
        condition = condition_of(self._database.dialect, table, predicate)
        p = partitions.c
        # The check looks for the oldest version in the fifth column of the mark, and for names in the second.
        every = {
            "partition_id": p.partition_id, "partition": raw(p.name), "location": raw(p.location), "files": p.n_files,
            "bytes": p.n_bytes, "rows": p.n_rows, "created_ms": p.created_at_ms,
        }  # fmt: skip
        needed = {"partition_id", *columns} | (set() if condition.exact else {"partition"})
        missing = {"partition": _text(""), "location": sa.null()}
        rows = (
            sa.select(*(column if name in needed else missing.get(name, _ZERO) for name, column in every.items()))
            .select_from(source_of(condition))
            .where(*(at_version if is_bounded(predicate or TRUE) else in_order)(partitions, table), condition.clause)
            .where(sa.true() if only is None else only)
        )
        mark = marked(
            table, name=_text(""), at=sa.null(), n_files=_ZERO, n_bytes=_OLDEST, n_rows=sa.null(), created_at_ms=_ZERO
        )
        check = Check(table, None if condition.exact else predicate)
        statement: sa.CompoundSelect[Any] = sa.union_all(mark, rows)
        return arrow_rows.stream(self._database, statement, PARTITION_SCHEMA, check.step, check.finish, elsewhere=True)

    def existing(self, table: Table, names: Sequence[str]) -> set[str]:
        """Return those of the names that are partitions of the table at its version."""
        found: set[str] = set()
        with self._database.reading() as connection:
            for some in batched(names, _NAMES_AT_ONCE):
                hashes = {name_hash(name): name for name in some}
                asked = {**_at_values(table), "hashes": list(hashes)}
                found.update(hashes[row["name_hash"]] for row in _NAMED.rows(connection, asked))
        return found

    def within(self, locations: Collection[str]) -> list[tuple[int, str, str]]:
        """Return the partitions with a location of their own among these: table number, name, location."""
        p, found = partitions.c, []
        with self._database.reading() as connection:
            for some in batched(locations, _NAMES_AT_ONCE):
                rows = connection.execute(
                    sa.select(p.table_id, p.name, p.location).where(
                        p.location.is_not(None), p.end_version == ALIVE, p.location.in_(some)
                    )
                )
                found += [(row.table_id, row.name, row.location) for row in rows]
        return found

    def named(self, table: Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield those of the named partitions that are there at the table's version (``PARTITION_SCHEMA``).

        Raises:
            TableNotFoundError, VersionExpiredError, IndexUnavailableError: As ``all``.
        """
        for some in batched(names, _NAMES_AT_ONCE):
            hashes = [name_hash(name) for name in some]
            yield from self.all(table, None, partitions.c.name_hash.in_(hashes))

    def located(self, table: Table, predicate: Predicate | None = None) -> dict[str, str]:
        """Return the locations of the partitions that are not at ``<table location>/<name>`` at the table's version.

        Args:
            table: The table.
            predicate: A bound predicate that limits them, or None.
        """
        return dict(self.located_for_write(table, predicate, None).locations)

    def locations_ever(self, table: Table, since: int = 0) -> set[str]:
        """Return the locations of their own that partitions have in the versions from ``since`` on."""
        p = partitions.c
        own = (p.table_id == table.table_id, p.location.is_not(None), p.end_version > since)
        statement = sa.select(p.location).where(*own).distinct()
        with self._database.reading() as connection:
            return set(connection.execute(statement).scalars())

    def located_for_write(self, table: Table, predicate: Predicate | None, limit: int | None) -> LocatedPartitions:
        """Return the located partitions that satisfy a predicate; or, unread, that there are more than ``limit``."""
        asked = _at_values(table)
        with self._database.reading() as connection:
            if limit is None:
                rows = _ALL_LOCATED.rows(connection, asked)
            else:
                rows = _SOME_LOCATED.rows(connection, {**asked, "enough": limit + 1})
        located = {row["name"]: row["location"] for row in rows}
        if predicate is None or not located:
            # Hardly any table has some: its million partitions need not be read for that.
            are_all = limit is None or len(located) <= limit
            return LocatedPartitions(bool(located), are_all, located if are_all else {})
        found: dict[str, str] = {}
        for batch in self.all(table, predicate):
            some = batch.filter(pc.is_valid(batch.column("location")))
            found.update(zip(some.column("partition").to_pylist(), some.column("location").to_pylist(), strict=True))
            if limit is not None and len(found) > limit:
                return LocatedPartitions(exist=True, are_all=False, locations={})
        return LocatedPartitions(exist=True, are_all=True, locations=found)

    def at(self, table: Table, locations: Collection[str]) -> dict[str, set[str]]:
        """Return the names of the table's partitions that lie in one of the directories, by its URI.

        A partition that has a directory by another name (a link, another address of one HDFS) lies there, too.
        """
        found: dict[str, set[str]] = {}
        with self._database.reading() as connection:
            wanted = {place: {place} for place in locations}
            for place, others in other_spellings(connection, locations).items():
                for other in others:
                    wanted.setdefault(other, set()).add(place)
            for known, names in partitions_at_within(connection, table, wanted).items():
                for place in wanted[known]:
                    found.setdefault(place, set()).update(names)
        return found

    def relocation_ids(self, table_id: int, base: str) -> set[str]:
        """Return the names of the directories in ``base`` that have partitions of the table, ended ones too."""
        p, prefix = partitions.c, f"{base}/"
        located = sa.select(p.location).where(p.table_id == table_id, p.location.startswith(prefix, autoescape=True))
        with self._database.reading(streams=True) as connection:
            return {location.removeprefix(prefix).split("/")[0] for location in connection.execute(located).scalars()}

    def locations(self, table: Table, names: Collection[str]) -> dict[str, str]:
        """Return the locations of those of the named partitions that are not at ``<table location>/<name>``."""
        found: dict[str, str] = {}
        with self._database.reading() as connection:
            for some in batched(names, _NAMES_AT_ONCE):
                hashes = [name_hash(name) for name in some]
                rows = connection.execute(located_statement(table).where(partitions.c.name_hash.in_(hashes)))
                found |= {row.name: row.location for row in rows}
        return found


def plan_statement(
    dialect: str,
    table: Table,
    predicate: Predicate | None,
    *,
    detailed: bool = False,
    ids: Sequence[int] | None = None,
    only: sa.ColumnElement[bool] | None = None,
    bounds: Sequence[str] = (),
    unmeasured: bool = False,
    with_etags: bool = False,
) -> tuple[arrow_rows.Query, bool]:
    """Return the one query of planning, and whether it answers the predicate exactly."""
    condition = condition_of(dialect, table, predicate)
    # SQLite must start from the partitions, whatever its statistics say: the sum hides their index from the other way.
    partition_id = partitions.c.partition_id + 0 if dialect == "sqlite" else partitions.c.partition_id
    source = source_of(condition).join(files, files.c.partition_id == partition_id)
    more: tuple[sa.ColumnElement[Any], ...] = ()
    unmarked: dict[str, sa.ColumnElement[Any]] = {}
    s = file_statistics.c
    if detailed or bounds or unmeasured:
        of_file = sa.and_(s.partition_id == files.c.partition_id, s.file_id == files.c.file_id)
        source = source.outerjoin(file_statistics, of_file)
    if detailed:
        more = (files.c.begin_version, raw(s.statistics))
        unmarked = {"begin_version": _ZERO, "statistics": sa.null()}
    if with_etags:
        more += (files.c.etag_hash,)
        unmarked["etag_hash"] = sa.null()
    for i, column in enumerate(bounds):
        more += (_known_of(dialect, table, column).label(f"bounds_{i}"),)
        unmarked[f"bounds_{i}"] = sa.null()
    chosen = at_version if ids is None and is_bounded(predicate or TRUE) else in_order
    rows = (
        sa.select(
            partitions.c.partition_id, raw(partitions.c.name), raw(partitions.c.location),
            raw(files.c.path), files.c.size, files.c.modified_ms, files.c.n_rows, *more,
        )
        .select_from(source)
        .where(*chosen(partitions, table), condition.clause, *(() if ids is None else (_among(dialect, ids),)))
        .where(files.c.begin_version <= table.version, files.c.end_version > table.version)
        .where(sa.true() if only is None else only)
        .where(sa.or_(files.c.n_rows.is_(None), s.file_id.is_(None)) if unmeasured else sa.true())
        .prefix_with("STRAIGHT_JOIN", dialect="mysql")
        .prefix_with("STRAIGHT_JOIN", dialect="mariadb")
    )  # fmt: skip
    mark = marked(
        table, name=_text(""), at=sa.null(), path=_text(""), size=_OLDEST, modified_ms=_ZERO, n_rows=sa.null(),
        **unmarked,
    )  # fmt: skip
    union: sa.CompoundSelect[Any] = sa.union_all(mark, rows)
    # The other two find each partition's files in turn; PostgreSQL may join by hashing, in any order.
    return (union.order_by(union.selected_columns[0]) if dialect == "postgresql" else union), condition.exact


def partitions_statement(
    dialect: str, table: Table, predicate: Predicate | None, only: sa.ColumnElement[bool] | None = None
) -> tuple[arrow_rows.Query, bool]:
    """Return the query of a list of partitions, and whether it answers the predicate exactly."""
    condition = condition_of(dialect, table, predicate)
    names = [f"k{i + 1}" for i in range(min(len(table.definition.partition_columns), KEY_COLUMNS))]
    p = partitions.c
    rows = (
        sa.select(
            p.partition_id, raw(p.name), raw(p.location), p.n_files, p.n_bytes, p.n_rows, p.created_at_ms,
            *(raw(p[name]) for name in names),
        )
        .select_from(source_of(condition))
        .where(*at_version(partitions, table), condition.clause, sa.true() if only is None else only)
    )  # fmt: skip
    long_keys = sa.cast(tables.c.has_long_keys, sa.BigInteger)
    # The mark comes first, whose keys alone are NULL. Ordering the union itself, not a query of it, lets SQLite read
    # its halves in the order of the index, in constant memory.
    mark = marked(
        table, name=_text(""), at=sa.null(), n_files=long_keys, n_bytes=_OLDEST, n_rows=sa.null(), created_at_ms=_ZERO,
        **dict.fromkeys(names, sa.null()),
    )  # fmt: skip
    union: sa.CompoundSelect[Any] = sa.union_all(mark, rows)
    order = [union.selected_columns[name] for name in (*names, "name")]
    return union.order_by(*((c.nulls_first() for c in order) if dialect == "postgresql" else order)), condition.exact


def _at(rows: sa.FromClause) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the clauses of ``at_version``, whose numbers are the parameters of ``_at_values``."""
    at: sa.BindParameter[int] = sa.bindparam("at")
    return (
        rows.c.table_id == sa.bindparam("table_id"),
        rows.c.end_version > at,
        rows.c.begin_version <= at,
        rows.c.begin_version >= sa.bindparam("floor"),
    )


def _at_values(table: Table) -> dict[str, Any]:
    return {"table_id": table.table_id, "at": table.version, "floor": table.begins_at}


_NAMED = Prepared(
    sa.select(partitions.c.name_hash).where(
        *_at(partitions), partitions.c.name_hash.in_(sa.bindparam("hashes", expanding=True))
    )
)
_LOCATED = sa.select(partitions.c.name, partitions.c.location).where(
    *_at(partitions), partitions.c.location.is_not(None)
)
_ALL_LOCATED, _SOME_LOCATED = Prepared(_LOCATED), Prepared(_LOCATED.limit(sa.bindparam("enough")))


@dataclass(frozen=True, slots=True)
class LocatedPartitions:
    """Partitions with locations of their own, as a write needs to know them.

    Attributes:
        exist: Whether the table has any.
        are_all: Whether ``locations`` has all that satisfy the predicate: there are no more than the limit.
        locations: By name.
    """

    exist: bool
    are_all: bool
    locations: Mapping[str, str]


def partitions_at_within(connection: sa.Connection, table: Table, locations: Collection[str]) -> dict[str, set[str]]:
    """As ``partitions_at``, within a transaction."""
    location = table.definition.location
    root = f"{location}/"
    found: dict[str, set[str]] = {}
    for some in batched(locations, _NAMES_AT_ONCE):
        own = connection.execute(located_statement(table).where(partitions.c.location.in_(some)))
        for row in own:
            found.setdefault(row.location, set()).add(row.name)
        # An unpartitioned table has one partition, without a name, in its own directory.
        hashes = [name_hash(f"{uri}/".removeprefix(root)[:-1]) for uri in some if f"{uri}/".startswith(root)]
        usual = sa.select(partitions.c.name).where(
            *at_version(partitions, table), partitions.c.location.is_(None), partitions.c.name_hash.in_(hashes)
        )
        for name in connection.execute(usual).scalars() if hashes else ():
            found.setdefault(table.directory(name), set()).add(name)
    return found


def located_statement(table: Table) -> sa.Select[Any]:
    """Return the query of partitions with locations of their own; it has an index, for every write asks it."""
    return sa.select(partitions.c.name, partitions.c.location).where(
        *at_version(partitions, table), partitions.c.location.is_not(None)
    )


def at_version(rows: sa.FromClause, table: Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the clauses that choose the table's rows of ``partitions``, or of an alias of it, at its version."""
    return (
        rows.c.table_id == table.table_id,
        rows.c.end_version > table.version,
        rows.c.begin_version <= table.version,
        *_above_floor(rows, table),
    )


def in_order(rows: sa.FromClause, table: Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return ``at_version``, for ``files`` too, of a query that reads most of the table: as the rows lie."""
    low, high = partition_ids(table.table_id)
    return (
        rows.c.partition_id >= low,
        rows.c.partition_id < high,
        rows.c.end_version > table.version,
        rows.c.begin_version <= table.version,
        *_above_floor(rows, table),
    )


def _above_floor(rows: sa.FromClause, table: Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the clause that leaves out what a DELETE or overwrite of everything has ended, until it is settled."""
    return (rows.c.begin_version >= table.begins_at,) if table.begins_at else ()


def _among(dialect: str, ids: Sequence[int]) -> sa.ColumnElement[bool]:
    """Return that a partition is among those of these numbers, as one value where parameters are limited."""
    number = partitions.c.partition_id
    if dialect == "postgresql":
        return number == sa.any_(sa.bindparam(None, list(ids), type_=postgresql.ARRAY(sa.BigInteger)))
    if dialect == "sqlite":
        each = sa.func.json_each(sa.bindparam(None, list(ids), type_=sa.JSON)).table_valued("value")
        return number.in_(sa.select(each.c.value))
    return number.in_(ids)


def condition_of(dialect: str, table: Table, predicate: Predicate | None) -> Condition:
    """Return the condition under which a partition satisfies the predicate at the table's version."""
    return predicate_sql(
        predicate or TRUE, table.definition.keys, dialect, lambda rows: at_version(rows, table), partitions
    )


def source_of(condition: Condition) -> sa.FromClause:
    """Return ``partitions``, after the few ids where there are such: MariaDB joins in the order that is written."""
    if condition.ids is None:
        return partitions
    return condition.ids.join(partitions, partitions.c.partition_id == condition.ids.c.partition_id)


def marked(table: Table, **columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Return the query of the mark, with the columns that follow its partition id."""
    named = (column.label(name) for name, column in columns.items())
    return sa.select(sa.literal(_MARK).label("partition_id"), *named).where(tables.c.table_id == table.table_id)


def raw(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the column as the driver gives it: text is decoded a batch at a time."""
    return sa.type_coerce(column, sa.types.NullType())


def with_bounds(columns: Sequence[str]) -> pa.Schema:
    """Return ``PLAN_SCHEMA`` with a field ``bounds_0``, … for each of some data columns.

    Its value is JSON, as ``file_statistics`` has it (``{"min": "1.50", "max": "9.00", "nulls": 0}``), or NULL where
    nobody has looked.
    """
    return pa.schema([*PLAN_SCHEMA, *(pa.field(f"bounds_{i}", pa.string()) for i in range(len(columns)))])


def _known_of(dialect: str, table: Table, column: str) -> sa.ColumnElement[Any]:
    """Return what a file's statistics have of a column, as text; nothing where they may be another column's."""
    member = _member(dialect, file_statistics.c.statistics, column)
    after = next((c.statistics_after for c in table.definition.columns if c.name == column), None)
    return member if after is None else raw(sa.case((files.c.begin_version > after, member), else_=sa.null()))


def _member(dialect: str, statistics: sa.ColumnElement[str], column: str) -> sa.ColumnElement[Any]:
    """Return what statistics have of a column, as text."""
    if dialect == "postgresql":
        return sa.cast(sa.cast(statistics, postgresql.JSON)[column], sa.Text)
    if set(column) & set('"\\'):
        # Not every database's paths can name them.
        return sa.null()
    return raw(sa.func.json_extract(statistics, f"$.{json.dumps(column, ensure_ascii=False)}"))


def _text(value: str) -> sa.ColumnElement[Any]:
    return raw(sa.literal(value, ExactText()))


def version_expired(table: str, version: int, oldest: int) -> VersionExpiredError:
    """Return the error that says that a version is not whole any more."""
    return VersionExpiredError(
        f"Version {version} of the table {table} was removed by vacuum, or by other types of partition columns; the "
        f"oldest that is kept is {oldest}. Read a newer version, or give vacuum a longer vacuum.retention.",
        {"table": table, "version": str(version), "oldest": str(oldest)},
    )


class Check:
    """Takes the mark out of the batches of one query, and the partitions that a superset has too many."""

    def __init__(self, table: Table, predicate: Predicate | None) -> None:
        self._table = table
        self._keys = table.definition.keys
        self._evaluator = Evaluator(predicate, self._keys) if predicate is not None else None
        self._found = False
        self._last: tuple[str, bool] | None = None
        self.has_long_keys = False

    def step(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without the mark and what does not match."""
        if not self._found:
            marks = pc.equal(batch.column(0), _MARK)
            if pc.any(marks).as_py():
                self._found = True
                mark = batch.filter(marks)
                self.has_long_keys = mark.column(3)[0].as_py() == 1
                self._require_kept(mark.column(4)[0].as_py())
                batch = batch.filter(pc.invert(marks))
        if self._evaluator is None:
            return batch
        matching = self._matching(self._evaluator, batch.column(1).to_pylist())
        return batch.filter(pa.array(matching, pa.bool_()))

    def _require_kept(self, oldest: int) -> None:
        if self._table.version < oldest:
            raise version_expired(str(self._table.identifier), self._table.version, oldest)

    def finish(self) -> None:
        """Return when the mark was there.

        Raises:
            TableNotFoundError: It was not.
        """
        if not self._found:
            raise TableNotFoundError(
                f"The table {self._table.identifier} was dropped while it was being read. Load it again.",
                {"table": str(self._table.identifier)},
            )

    def _matching(self, evaluator: Evaluator, names: Sequence[str]) -> Iterator[bool]:
        for name in names:
            if self._last is None or self._last[0] != name:
                self._last = (name, evaluator.matches(typed_values(name, self._keys)))
            yield self._last[1]


def _sorted_by_values(reader: pa.RecordBatchReader, table: Table) -> pa.RecordBatchReader:
    # Truncated keys, and those after the eighth, leave the order to us; this is the one list that is held in memory.
    rows = reader.read_all()
    names = rows.column("partition").to_pylist()
    keys = table.definition.keys
    order = sorted(range(len(names)), key=lambda i: (sort_key(typed_values(names[i], keys), keys), names[i]))
    return rows.take(pa.array(order, pa.int64())).to_reader(max_chunksize=arrow_rows.BATCH_ROWS)
