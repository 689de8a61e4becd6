"""Reads a table's partitions at a version: their rows, their locations, and which of some names exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import KEY_COLUMNS, partitions, tables
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.marked_rows import (
    ZERO,
    Check,
    at_version,
    condition_of,
    in_order,
    marked,
    raw,
    source_of,
    text,
)
from catalog_ext.metastore.index.read.predicate_sql import is_bounded
from catalog_ext.metastore.index.read.spellings import by_name, other_spellings
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.typed_values import sort_key, typed_values
from catalog_ext.metastore.predicates.tree import TRUE, Predicate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.model.tables import Table

PARTITION_SCHEMA = pa.schema([
    pa.field("partition_id", pa.int64(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("files", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("created_ms", pa.int64(), nullable=False),
])  # fmt: skip
"""One row per partition: ``partitions/list`` of the service contract."""

_NAMES_AT_ONCE = 500


class Partitions(IndexPart):
    """Reads the partitions of a table at one of its versions."""

    def all(
        self, table: Table, predicate: Predicate | None, only: sa.ColumnElement[bool] | None = None
    ) -> pa.RecordBatchReader:
        """Return the partitions that satisfy a predicate at the table's version, by values (NULL first), then by name.

        ``only`` is a further condition on the columns of ``partitions``; None for no condition.

        Raises:
            TableNotFoundError: The table has been dropped.
            VersionExpiredError: Vacuum has removed the version.
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
        """Return the partitions that satisfy a predicate, in any order, with only some columns of ``PARTITION_SCHEMA``.

        ``only`` is a further condition on the columns of ``partitions``; None for no condition.
        """
        condition = condition_of(self._database.dialect, table, predicate)
        p = partitions.c
        # The columns stay in this order: ``Check`` reads the partition names in the second one.
        every = {
            "partition_id": p.partition_id, "partition": raw(p.name), "location": raw(p.location), "files": p.n_files,
            "bytes": p.n_bytes, "rows": p.n_rows, "created_ms": p.created_at_ms,
        }  # fmt: skip
        needed = {"partition_id", *columns} | (set() if condition.exact else {"partition"})
        missing = {"partition": text(""), "location": sa.null()}
        rows = (
            sa.select(*(column if name in needed else missing.get(name, ZERO) for name, column in every.items()))
            .select_from(source_of(condition))
            .where(*(at_version if is_bounded(predicate or TRUE) else in_order)(partitions, table), condition.clause)
            .where(sa.true() if only is None else only)
        )
        check = Check(table, None if condition.exact else predicate)
        statement: sa.CompoundSelect[Any] = sa.union_all(marked(table, PARTITION_SCHEMA), rows)
        return arrow_rows.stream(self._database, statement, PARTITION_SCHEMA, check.step, check.finish, spills=True)

    def existing(self, table: Table, names: Sequence[str]) -> set[str]:
        """Return those of the names that are partitions of the table at its version."""
        found: set[str] = set()
        with self._database.reading() as connection:
            for some in batched(names, _NAMES_AT_ONCE):
                hashes = {name_hash(name): name for name in some}
                found.update(hashes[row["name_hash"]] for row in _NAMED.rows(connection, {
                    "table_id": table.table_id, "at": table.version, "begins_at": table.begins_at,
                    "hashes": list(hashes),
                }))  # fmt: skip
        return found

    def within(self, locations: Collection[str]) -> list[tuple[int, str, str]]:
        """Return the partitions of all tables whose own location is in ``locations``: table number, name, location."""
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
        """Yield the partitions of these names that exist at the table's version (``PARTITION_SCHEMA``).

        Raises:
            TableNotFoundError: The table has been dropped.
            VersionExpiredError: Vacuum has removed the version.
            IndexUnavailableError: The database is gone or locked.
        """
        for some in batched(names, _NAMES_AT_ONCE):
            hashes = [name_hash(name) for name in some]
            yield from self.all(table, None, partitions.c.name_hash.in_(hashes))

    def located(self, table: Table) -> dict[str, str]:
        """Return, by name, the locations of partitions that are not at ``<table location>/<name>``."""
        return dict(self.located_for_write(table, None, None).locations)

    def locations_ever(self, table: Table, since: int = 0) -> set[str]:
        """Return the own (not default) locations that partitions have in any version from ``since`` on."""
        p = partitions.c
        own = (p.table_id == table.table_id, p.location.is_not(None), p.end_version > since)
        statement = sa.select(p.location).where(*own).distinct()
        with self._database.reading() as connection:
            return set(connection.execute(statement).scalars())

    def located_for_write(self, table: Table, predicate: Predicate | None, limit: int | None) -> LocatedPartitions:
        """Return the partitions with their own location that satisfy a predicate, unless there are more than ``limit``.

        If there are more, the locations are not read.
        """
        with self._database.reading() as connection:
            rows = connection.execute(located_statement(table).limit(None if limit is None else limit + 1))
            located = {row.name: row.location for row in rows}
        if predicate is None or not located:
            # Without a predicate, or (as usual) without located partitions, the answer is known: do not read the
            # table's partitions, which may be a million.
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
        """Return, by directory URI, the names of the table's partitions that lie in one of the directories.

        A partition also counts if it has the directory by another name (a link, another address of the same HDFS).
        """
        found: dict[str, set[str]] = {}
        with self._database.reading() as connection:
            wanted = by_name(locations, other_spellings(connection, locations))
            for known, names in partitions_at_within(connection, table, wanted).items():
                for place in wanted[known]:
                    found.setdefault(place, set()).update(names)
        return found

    def relocation_ids(self, table_id: int, base: str) -> set[str]:
        """Return the names of the subdirectories of ``base`` that contain current or ended partitions of a table."""
        p, prefix = partitions.c, f"{base}/"
        located = sa.select(p.location).where(p.table_id == table_id, p.location.startswith(prefix, autoescape=True))
        with self._database.reading(streams=True) as connection:
            return {location.removeprefix(prefix).split("/")[0] for location in connection.execute(located).scalars()}

    def locations(self, table: Table, names: Collection[str]) -> dict[str, str]:
        """Return the locations of the named partitions that are not at ``<table location>/<name>``, by name."""
        found: dict[str, str] = {}
        with self._database.reading() as connection:
            for some in batched(names, _NAMES_AT_ONCE):
                hashes = [name_hash(name) for name in some]
                rows = connection.execute(located_statement(table).where(partitions.c.name_hash.in_(hashes)))
                found |= {row.name: row.location for row in rows}
        return found


def partitions_statement(
    dialect: str, table: Table, predicate: Predicate | None, only: sa.ColumnElement[bool] | None = None
) -> tuple[arrow_rows.Query, bool]:
    """Return the query of a list of partitions, and whether it evaluates the predicate exactly."""
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
    # The mark row comes first, because only its keys are NULL. The ORDER BY is on the UNION itself, not on a query of
    # it: so SQLite reads both halves in the order of the index, in constant memory.
    mark = marked(table, PARTITION_SCHEMA, files=long_keys, **dict.fromkeys(names, sa.null()))
    union: sa.CompoundSelect[Any] = sa.union_all(mark, rows)
    order = [union.selected_columns[name] for name in (*names, "partition")]
    return union.order_by(*((c.nulls_first() for c in order) if dialect == "postgresql" else order)), condition.exact


@dataclass(frozen=True, slots=True)
class LocatedPartitions:
    """Partitions with their own location (not ``<table location>/<name>``), as a write needs to know them.

    Attributes:
        exist: Whether the table has such partitions.
        are_all: Whether ``locations`` is complete; it is empty if more partitions than the limit match.
        locations: The locations by partition name.
    """

    exist: bool
    are_all: bool
    locations: Mapping[str, str]


def partitions_at_within(connection: sa.Connection, table: Table, locations: Collection[str]) -> dict[str, set[str]]:
    """Return, by directory URI, the names of the table's partitions that lie in one of the directories.

    Only the given spelling of each URI is looked up.
    """
    location = table.definition.location
    root = f"{location}/"
    found: dict[str, set[str]] = {}
    for some in batched(locations, _NAMES_AT_ONCE):
        own = connection.execute(located_statement(table).where(partitions.c.location.in_(some)))
        for row in own:
            found.setdefault(row.location, set()).add(row.name)
        # An unpartitioned table has one partition, with an empty name, in the table's own directory.
        hashes = [name_hash(f"{uri}/".removeprefix(root)[:-1]) for uri in some if f"{uri}/".startswith(root)]
        usual = sa.select(partitions.c.name).where(
            *at_version(partitions, table), partitions.c.location.is_(None), partitions.c.name_hash.in_(hashes)
        )
        for name in connection.execute(usual).scalars() if hashes else ():
            found.setdefault(table.directory(name), set()).add(name)
    return found


def located_statement(table: Table) -> sa.Select[Any]:
    """Return the query of partitions with their own location. Every write runs it, so a partial index serves it."""
    return sa.select(partitions.c.name, partitions.c.location).where(
        *at_version(partitions, table), partitions.c.location.is_not(None)
    )


def _sorted_by_values(reader: pa.RecordBatchReader, table: Table) -> pa.RecordBatchReader:
    # Sort here: the database cannot order by truncated keys, or by keys after the eighth. Only in this case is the
    # whole list held in memory.
    rows = reader.read_all()
    names = rows.column("partition").to_pylist()
    keys = table.definition.keys
    order = sorted(range(len(names)), key=lambda i: (sort_key(typed_values(names[i], keys), keys), names[i]))
    return rows.take(pa.array(order, pa.int64())).to_reader(max_chunksize=arrow_rows.BATCH_ROWS)


_AT: sa.BindParameter[int] = sa.bindparam("at")
_NAMED = Prepared(
    sa.select(partitions.c.name_hash).where(
        partitions.c.table_id == sa.bindparam("table_id"),
        partitions.c.end_version > _AT,
        partitions.c.begin_version <= _AT,
        partitions.c.begin_version >= sa.bindparam("begins_at"),
        partitions.c.name_hash.in_(sa.bindparam("hashes", expanding=True)),
    )
)
"""The query of ``existing``, which every append runs. It is compiled once: building it took longer than running it."""
