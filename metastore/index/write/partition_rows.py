"""Reads the rows of partitions by name, by value or by predicate; and locks the row of their table."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.partition_plans import ExchangePartitions
from catalog_ext.metastore.errors import TableNotFoundError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.rows import (
    FILE,
    LOCK,
    PARTITION,
    file_of,
    key_row,
    locked_row,
    partition_of,
    table_row_of,
)
from catalog_ext.metastore.index.database.schema import KEY_COLUMNS, files, living, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.partitions import partitions_at_within
from catalog_ext.metastore.index.read.predicate_sql import predicate_sql
from catalog_ext.metastore.index.read.spellings import by_name, other_spellings
from catalog_ext.metastore.index.tables.table_rows import load_row_by_id
from catalog_ext.metastore.index.write.deferred_deletes import require_complete
from catalog_ext.metastore.index.write.transaction_rows import LOCKED_ROW, usable
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import format_partition_name, metastore_obstacle, partition_values
from catalog_ext.metastore.model.typed_values import claim_hash, typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.model.changes import AddPartition
    from catalog_ext.metastore.model.tables import DataFile, Partition, Table
    from catalog_ext.metastore.model.values import Value
    from catalog_ext.metastore.predicates.tree import Predicate

_AT_ONCE = 200
_STREAMED_AT_ONCE = 5000

_LIVING_NAMED = Prepared(
    sa.select(*PARTITION).where(
        partitions.c.table_id == sa.bindparam("table_id"),
        partitions.c.name_hash.in_(sa.bindparam("hashes", expanding=True)),
        partitions.c.end_version == ALIVE,
    )
)
"""The query of ``living_named``: current partitions, found by the hashes of their names."""


class LivingPartitions(IndexPart):
    """Reads the current partitions of a table: those of its newest version."""

    def changed_after(self, table: Table, names: Sequence[str]) -> dict[str, int]:
        """Return which names were added, changed or dropped after the table's version, with the last such version."""
        with self._database.reading() as connection:
            row = load_row_by_id(connection, table.table_id)
            return changed_after(connection, row, names, table.version)

    def of_values(self, table: Table, names: Sequence[str]) -> list[Partition]:
        """Return the current partitions whose typed values equal those of one of the names."""
        with self._database.reading() as connection:
            return list(by_values(connection, table, names, living(partitions, table.table_id)))

    def matching(self, table: Table, predicate: Predicate, limit: int | None = None) -> list[Partition]:
        """Return the current partitions for which a bound predicate is true, at most ``limit``, in any order."""
        with self._database.reading() as connection:
            if limit is None:
                return list(matching(connection, table, predicate))
            statement, exact = _matching_statement(connection, table, predicate, PARTITION)
            streamed = {"yield_per": min(limit, _STREAMED_AT_ONCE)}
            with connection.execute(statement.limit(limit) if exact else statement, execution_options=streamed) as rows:
                return list(islice(_matched(rows, table, predicate, exact=exact), limit))

    def files(self, partition_ids: Sequence[int]) -> dict[int, list[DataFile]]:
        """Return the current files of some partitions, by partition, in a stable order and without their statistics."""
        with self._database.reading() as connection:
            return living_files(connection, partition_ids)

    def files_at(self, table: Table, directories: Collection[str]) -> dict[str, list[DataFile]]:
        """Return the current files of the partitions in some directories, by the directories' URIs in the index.

        A partition also counts if it has the directory by another name (a link, another address of the same HDFS).
        """
        found: dict[str, list[DataFile]] = {}
        with self._database.reading() as connection:
            wanted = by_name(directories, other_spellings(connection, directories))
            names = {name for there in partitions_at_within(connection, table, wanted).values() for name in there}
            there = by_values(connection, table, sorted(names), living(partitions, table.table_id))
            places = {partition.partition_id: table.directory_of(partition) for partition in there}
            for some in batched(places, _STREAMED_AT_ONCE):
                for number, files_there in living_files(connection, some).items():
                    found.setdefault(places[number], []).extend(files_there)
        return found


def living_files(connection: sa.Connection, partition_ids: Sequence[int]) -> dict[int, list[DataFile]]:
    """Return the current files of some partitions, by partition, ordered by file number."""
    f = files.c
    statement = sa.select(f.partition_id, *FILE).where(f.partition_id.in_(partition_ids), f.end_version == ALIVE)
    found: dict[int, list[DataFile]] = {}
    for partition_id, *row in connection.execute(statement.order_by(f.partition_id, f.file_id)):
        found.setdefault(partition_id, []).append(file_of(row))
    return found


def changed_after(connection: sa.Connection, row: TableRow, names: Sequence[str], version: int) -> dict[str, int]:
    """Return the names whose partitions were added, changed or dropped after a version, and the last such version.

    If versions after it have expired, a missing partition counts as dropped in the last expired version.
    """
    p, oldest, deleted_before = partitions.c, row.oldest_version, row.table.deleted_before_version
    changed: dict[str, int] = {}
    for some in batched(names, _AT_ONCE):
        hashes = {name_hash(name): name for name in some}
        found = connection.execute(
            sa.select(p.name_hash, p.begin_version, p.end_version).where(
                p.table_id == row.table.table_id, p.name_hash.in_(hashes), p.end_version > version
            )
        )
        last: dict[str, int] = {hashes[h]: 0 for h in hashes} if oldest > version else {}
        for name_hashed, begin, ended in found:
            name = hashes[name_hashed]
            if ended == ALIVE:
                # The row has no end version yet because of a deferred delete, whose version is ``deleted_before``.
                ended = deleted_before if begin < deleted_before else 0
            last[name] = max(last.get(name, 0), begin, ended)
        changed |= {name: at or oldest for name, at in last.items() if at == 0 or at > version}
    return changed


def lock_table(connection: sa.Connection, table_id: int, shown: str) -> TableRow:
    """Lock the table's row until the end of the transaction, and return it.

    A deferred delete is completed first, so that afterwards each partition row without an end version is current.

    Raises:
        TableNotFoundError: The table is gone.
    """
    row = locked_row(connection, table_id)
    if row is None:
        raise gone_meanwhile(shown)
    require_complete(table_id, row.table.deleted_before_version)
    return row


def lock_with_transaction(
    connection: sa.Connection, transaction: Transaction, *more: tuple[Prepared, Mapping[str, Any]]
) -> tuple[TableRow, Mapping[str, Any], list[list[Mapping[str, Any]]]]:
    """Lock the rows of a transaction and its table, in one round trip; a deferred delete is completed first.

    Returns the table's row, the transaction's row, and the results of the further queries ``more``, which run with the
    locks held.

    Raises:
        TableNotFoundError: The table is gone.
        TransactionNotFoundError: The transaction has no row.
        IndexNotAtHeadError: The index has been migrated since this process opened it.
    """
    with together(connection):
        table = LOCK.asked(connection, {"table_id": transaction.table_id})
        own = LOCKED_ROW.asked(connection, {"id": transaction.transaction_id})
        others = [query.asked(connection, parameters) for query, parameters in more]
    (found,) = table() or (None,)
    if found is None:
        raise gone_meanwhile(transaction.table)
    locked = table_row_of(found)
    require_complete(locked.table.table_id, locked.table.deleted_before_version)
    (row,) = own() or (None,)
    return locked, usable(row, transaction.transaction_id), [other() for other in others]


def gone_meanwhile(table: str) -> TableNotFoundError:
    """Return the error for a table that was dropped while a write to it was running."""
    return TableNotFoundError(
        f"The table {table} was dropped or replaced while it was being written. Nothing was written.",
        {"table": table},
    )


def lock_tables(connection: sa.Connection, transaction: Transaction) -> tuple[TableRow, TableRow | None]:
    """Lock the row of a transaction's table, and of an exchange's source table, in the order of the tables' numbers.

    The order avoids deadlocks.

    Raises:
        TableNotFoundError: One of the tables is gone.
    """
    asked, table_id = transaction.plan.asked, transaction.table_id or 0
    if not isinstance(asked, ExchangePartitions):
        return lock_table(connection, table_id, transaction.table), None
    both = sorted({table_id: transaction.table, asked.source_id: asked.source}.items())
    locked = {number: lock_table(connection, number, shown) for number, shown in both}
    return locked[table_id], locked[asked.source_id]


def by_values(
    connection: sa.Connection, table: Table, names: Sequence[str], clause: sa.ColumnElement[bool]
) -> Iterator[Partition]:
    """Yield the partitions whose typed values equal those of one of the names, in any spelling.

    ``clause`` is a further condition on the rows.
    """
    keys = table.definition.keys
    seen: set[tuple[int, int]] = set()
    # Sort the names, so that names with the same first values are in the same query.
    for chunk in batched(sorted(names), _AT_ONCE):
        values = [typed_values(name, keys) for name in chunk]
        wanted = {claim_hash(v, keys) for v in values}
        for row in connection.execute(by_values_statement(table, values, clause)).all():
            found = partition_of(row)
            version = (found.partition_id, found.begin_version)
            if version not in seen and claim_hash(typed_values(found.name, keys), keys) in wanted:
                seen.add(version)
                yield found


def by_values_statement(
    table: Table, values: Sequence[Sequence[Value]], clause: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """Return the query for partitions by values; if values are long or many, it finds further rows to be dropped."""
    keys = table.definition.keys
    columns = [partitions.c[f"k{i + 1}"] for i in range(min(len(keys), KEY_COLUMNS))]
    same = _any_of(columns, [key_row(v, keys)[: len(columns)] for v in values])
    return sa.select(*PARTITION).where(partitions.c.table_id == table.table_id, same, clause)


def _any_of(columns: Sequence[sa.Column[Any]], encoded: Sequence[Sequence[str | None]]) -> sa.ColumnElement[bool]:
    """Return the condition that the columns equal one of the rows of values.

    Rows that differ only in the last column are written as one IN.
    """
    if not columns:
        return sa.true()
    last: dict[tuple[str | None, ...], set[str | None]] = {}
    for row in encoded:
        last.setdefault(tuple(row[:-1]), set()).add(row[-1])
    return sa.or_(
        *(
            sa.and_(*(c == k for c, k in zip(columns, first, strict=False)), columns[-1].in_(sorted(keys, key=str)))
            for first, keys in last.items()
        )
    )


def matching(
    connection: sa.Connection, table: Table, predicate: Predicate, clause: sa.ColumnElement[bool] | None = None
) -> Iterator[Partition]:
    """Yield the current partitions that satisfy a predicate; ``clause`` selects other rows than the current ones."""
    statement, exact = _matching_statement(connection, table, predicate, PARTITION, clause)
    # Read all rows before yielding the first: MySQL cannot run another statement on the connection while rows are left.
    yield from _matched(connection.execute(statement).all(), table, predicate, exact=exact)


def _matched(rows: Iterable[sa.Row[Any]], table: Table, predicate: Predicate, *, exact: bool) -> Iterator[Partition]:
    evaluator, keys = Evaluator(predicate, table.definition.keys), table.definition.keys
    return (p for p in map(partition_of, rows) if exact or evaluator.matches(typed_values(p.name, keys)))


def _matching_statement(
    connection: sa.Connection, table: Table, predicate: Predicate, columns: Iterable[sa.Column[Any]],
    clause: sa.ColumnElement[bool] | None = None,
) -> tuple[sa.Select[Any], bool]:  # fmt: skip
    """Return the query for partitions that satisfy a predicate, and whether every row that it finds satisfies it."""

    def scope(chosen: sa.FromClause) -> tuple[sa.ColumnElement[bool], ...]:
        alive = living(chosen, table.table_id) if clause is None else sa.true()
        return (chosen.c.table_id == table.table_id, alive)

    dialect = "mysql" if connection.dialect.name == "mariadb" else connection.dialect.name
    condition = predicate_sql(predicate, table.definition.keys, dialect, scope, partitions)
    chosen = (*scope(partitions), condition.within(partitions), sa.true() if clause is None else clause)
    return sa.select(*columns).where(*chosen), condition.exact


def matching_numbers(connection: sa.Connection, table: Table, predicate: Predicate) -> array[int]:
    """Return the numbers of the current partitions for which a predicate is true, in an array (eight bytes each)."""
    keys = table.definition.keys
    evaluator = Evaluator(predicate, keys)
    statement, exact = _matching_statement(connection, table, predicate, (partitions.c.partition_id, partitions.c.name))
    numbers = array("q")
    # Read the stream to its end before the caller changes anything: MySQL cannot run another statement before that.
    with connection.execute(statement, execution_options={"yield_per": _STREAMED_AT_ONCE}) as rows:
        for some in rows.partitions():
            numbers.extend(number for number, name in some if exact or evaluator.matches(typed_values(name, keys)))
    return numbers


def living_of(connection: sa.Connection, numbers: Sequence[int]) -> list[Partition]:
    """Return the current partitions with these numbers, ordered by name."""
    p = partitions.c
    statement = sa.select(*PARTITION).where(p.partition_id.in_(numbers), p.end_version == ALIVE)
    return sorted(map(partition_of, connection.execute(statement)), key=attrgetter("name"))


def living_page(connection: sa.Connection, table: Table, after: int, size: int) -> tuple[list[Partition], int]:
    """Return the current partitions whose numbers follow ``after``, and the database's time, in milliseconds."""
    p = partitions.c
    statement = (
        sa.select(*PARTITION, NOW_MS.label("now_ms"))
        .where(p.table_id == table.table_id, living(partitions, table.table_id), p.partition_id > after)
        .order_by(p.partition_id)
        .limit(size)
    )
    rows = connection.execute(statement).all()
    return [partition_of(row[:-1]) for row in rows], rows[-1].now_ms if rows else 0


def living_pages(connection: sa.Connection, table: Table, size: int) -> Iterator[list[Partition]]:
    """Yield all partitions of the table's newest version, in pages."""
    after: int | None = -1
    while after is not None:
        page, _ = living_page(connection, table, after, size)
        yield page
        after = page[-1].partition_id if len(page) == size else None


def living_named(connection: sa.Connection, table: Table, names: Sequence[str]) -> list[Partition]:
    """Return the current partitions with exactly these names (some hundred); the caller holds the table's lock."""
    query, asked = named_query(table.table_id, names)
    return named_partitions(query.rows(connection, asked))


def named_query(table_id: int, names: Iterable[str]) -> tuple[Prepared, Mapping[str, Any]]:
    """Return the query for current partitions with these names (``living_named``), and its parameters."""
    return _LIVING_NAMED, {"table_id": table_id, "hashes": list(map(name_hash, names))}


def named_partitions(rows: Iterable[Mapping[str, Any]]) -> list[Partition]:
    """Convert the rows that the query of ``named_query`` has found to partitions."""
    return [partition_of(tuple(row.values())) for row in rows]


def mark_in_metastore(
    connection: sa.Connection, table: Table, adds: Sequence[AddPartition], dropped: Iterable[Partition]
) -> list[AddPartition]:
    """Return the new partitions; mark as unpublished those whose values another partition in the metastore has already.

    The metastore can hold only one partition with the same values. ``dropped`` partitions do not count.
    """
    gone = {partition.name for partition in dropped}
    names = [add.name for add in adds if add.name]
    held = {
        partition_values(found.name)
        for found in by_values(connection, table, names, partitions.c.end_version == ALIVE)
        if found.in_metastore and found.name not in gone
    }
    marked: list[AddPartition] = []
    for add in adds:
        values = partition_values(add.name)
        fits = add.in_metastore and values not in held and not metastore_obstacle(add.name)
        marked.append(replace(add, in_metastore=fits))
        if fits:
            held.add(values)
    return marked


def successors(
    connection: sa.Connection, table: Table, names: Sequence[str]
) -> dict[tuple[str | None, ...], Partition]:
    """Return, for the values of each name, the current partition that the metastore should have, if it can hold one.

    This is the partition that the metastore has already. If that one has been dropped, it is the partition in Hive's
    own spelling, or else the first by name.
    """
    wanted = {partition_values(name) for name in names if name}
    columns = [key.name for key in table.definition.keys]
    found: dict[tuple[str | None, ...], list[Partition]] = {}
    alive = living(partitions, table.table_id)
    for partition in by_values(connection, table, sorted({name for name in names if name}), alive):
        values = partition_values(partition.name)
        if values in wanted and not metastore_obstacle(partition.name):
            found.setdefault(values, []).append(partition)

    def rank(found: Partition) -> tuple[bool, bool, str]:
        hives = format_partition_name(columns, partition_values(found.name))
        return (not found.in_metastore, found.name != hives, found.name)

    return {values: min(alike, key=rank) for values, alike in found.items()}
