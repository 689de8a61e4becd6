"""The rows of partitions, as values, by their values and by predicates; and the lock of the table that has them."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import ExchangePartitions
from catalog_ext.metastore.errors import TableNotFoundError
from catalog_ext.metastore.index.database.keys import key_row
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.schema import ALIVE, KEY_COLUMNS, files, living, partitions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.predicate_sql import predicate_sql
from catalog_ext.metastore.index.tables.table_rows import load_row_by_id
from catalog_ext.metastore.index.write.deferred_deletes import require_complete
from catalog_ext.metastore.index.write.table_lock import LOCK, locked_row
from catalog_ext.metastore.index.write.transaction_rows import ask_locked_row
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import format_partition_name, metastore_obstacle, partition_values
from catalog_ext.metastore.model.tables import DataFile, Partition
from catalog_ext.metastore.model.typed_values import claim_hash, typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.changes import AddPartition
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Value
    from catalog_ext.metastore.predicates.tree import Predicate

_AT_ONCE = 200
_STREAMED_AT_ONCE = 5000


def partition_of(row: Mapping[str, Any]) -> Partition:
    """Return the partition of a row."""
    return Partition(
        row["partition_id"], row["name"], row["location"], row["begin_version"], bool(row["in_metastore"]),
        row["n_files"], row["n_bytes"], row["n_rows"], row["descriptor_id"],
    )  # fmt: skip


class LivingPartitions:
    """The partitions of a table's newest version."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def changed_after(self, table: Table, names: Sequence[str]) -> dict[str, int]:
        """Return which of the names came, changed or went after the table's version, and the last version that did it.

        Raises:
            TableNotFoundError: The table is gone.
        """
        with self._database.reading() as connection:
            row = load_row_by_id(connection, table.table_id)
            return changed_after(connection, row, names, table.version)

    def of_values(self, table: Table, names: Sequence[str]) -> list[Partition]:
        """Return the living partitions whose typed values are those of one of the names."""
        with self._database.reading() as connection:
            return [
                partition_of(row) for row in by_values(connection, table, names, living(partitions, table.table_id))
            ]

    def matching(self, table: Table, predicate: Predicate, limit: int | None = None) -> list[Partition]:
        """Return the living partitions that a bound predicate is true for, or so many of them; no order is promised."""
        with self._database.reading() as connection:
            if limit is None:
                return [partition_of(row) for row in matching(connection, table, predicate)]
            statement, exact = _matching_statement(connection, table, predicate, partitions.c)
            evaluator = Evaluator(predicate, table.definition.keys)
            streamed = {"yield_per": min(limit, _STREAMED_AT_ONCE)}
            with connection.execute(statement.limit(limit) if exact else statement, execution_options=streamed) as rows:
                keys = table.definition.keys
                found: Iterator[Any] = (
                    r for r in rows.mappings() if exact or evaluator.matches(typed_values(r["name"], keys))
                )
                return [partition_of(row) for row in islice(found, limit)]

    def files(self, partition_ids: Sequence[int]) -> dict[int, list[DataFile]]:
        """Return the living files of some partitions, by partition and in a stable order; without their statistics."""
        f = files.c
        statement = sa.select(f.partition_id, f.path, f.size, f.modified_ms, f.n_rows, f.etag_hash).where(
            f.partition_id.in_(partition_ids), f.end_version == ALIVE
        )
        found: dict[int, list[DataFile]] = {}
        with self._database.reading() as connection:
            ordered = statement.order_by(f.partition_id, f.file_id)
            for partition_id, path, size, at, rows, etag in connection.execute(ordered):
                found.setdefault(partition_id, []).append(DataFile(path, size, at, rows, etag=etag))
        return found


def changed_after(
    connection: sa.Connection, table: Mapping[str, Any], names: Sequence[str], version: int
) -> dict[str, int]:
    """Return those of the names whose partitions came, changed or went after a version, with the last that did it.

    Where versions above it have expired, a partition that is not there counts as gone with the last of them.

    Args:
        connection: Of the index.
        table: The table's row.
        names: Names of partitions as they are spelled.
        version: One that the table has had.
    """
    p, oldest, floor = partitions.c, table["oldest_version"], table["floor_version"]
    changed: dict[str, int] = {}
    for some in batched(names, _AT_ONCE):
        hashes = {name_hash(name): name for name in some}
        rows = connection.execute(
            sa.select(p.name_hash, p.begin_version, p.end_version).where(
                p.table_id == table["table_id"], p.name_hash.in_(hashes), p.end_version > version
            )
        )
        last: dict[str, int] = {hashes[h]: 0 for h in hashes} if oldest > version else {}
        for row in rows:
            name = hashes[row.name_hash]
            ended = row.end_version
            if ended == ALIVE:
                # A deferred delete gives the row its end later.
                ended = floor if row.begin_version < floor else 0
            last[name] = max(last.get(name, 0), row.begin_version, ended)
        changed |= {name: found or oldest for name, found in last.items() if found == 0 or found > version}
    return changed


def lock_table(connection: sa.Connection, table_id: int, shown: str) -> Mapping[str, Any]:
    """Return the table's row, which nobody else changes before the transaction ends; with ``namespace`` and ``now_ms``.

    A deferred delete is completed first: rows of its partitions that have no end are alive.

    Raises:
        TableNotFoundError: It is gone.
    """
    row = locked_row(connection, table_id)
    if row is None:
        raise gone_meanwhile(shown)
    require_complete(table_id, row["floor_version"])
    return row


def lock_with_transaction(
    connection: sa.Connection, transaction: Transaction, *more: tuple[Prepared, Mapping[str, Any]]
) -> tuple[Mapping[str, Any], Mapping[str, Any], list[list[Mapping[str, Any]]]]:
    """Return the row of a transaction's table as ``lock_table`` does, its own one, and what other queries say then.

    The queries are asked with the locks held, together with them.

    Raises:
        TableNotFoundError: The table is gone.
        TransactionNotFoundError: There is no such transaction.
        IndexNotAtHeadError: As ``transactions.load_row``.
    """
    with together(connection):
        table = LOCK.asked(connection, {"table_id": transaction.table_id})
        row = ask_locked_row(connection, transaction.transaction_id)
        others = [query.asked(connection, parameters) for query, parameters in more]
    (locked,) = table() or (None,)
    if locked is None:
        raise gone_meanwhile(transaction.table)
    require_complete(locked["table_id"], locked["floor_version"])
    return locked, row(), [other() for other in others]


def gone_meanwhile(table: str) -> TableNotFoundError:
    """Return the error for a table that is gone when what was begun on it is to be finished."""
    return TableNotFoundError(
        f"The table {table} was dropped or replaced while it was being written. Nothing was written.",
        {"table": table},
    )


def lock_tables(
    connection: sa.Connection, transaction: Transaction
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """Return the locked row of a transaction's table, and of an exchange its source's; in the order of their numbers.

    Raises:
        TableNotFoundError: One of them is gone.
    """
    asked, table_id = transaction.plan.asked, transaction.table_id or 0
    if not isinstance(asked, ExchangePartitions):
        return lock_table(connection, table_id, transaction.table), None
    if asked.source_id < table_id:
        source = lock_table(connection, asked.source_id, asked.source)
        return lock_table(connection, table_id, transaction.table), source
    locked = lock_table(connection, table_id, transaction.table)
    return locked, lock_table(connection, asked.source_id, asked.source)


def by_values(
    connection: sa.Connection, table: Table, names: Sequence[str], clause: sa.ColumnElement[bool]
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of partitions whose typed values are those of one of the names, whatever their own names are."""
    keys = table.definition.keys
    seen: set[tuple[int, int]] = set()
    # Sorted, so that names with the same first keys come together.
    for chunk in batched(sorted(names), _AT_ONCE):
        values = [typed_values(name, keys) for name in chunk]
        wanted = {claim_hash(v, keys) for v in values}
        rows: Sequence[Any] = connection.execute(by_values_statement(table, values, clause)).mappings().all()
        for row in rows:
            version = (row["partition_id"], row["begin_version"])
            if version not in seen and claim_hash(typed_values(row["name"], keys), keys) in wanted:
                seen.add(version)
                yield row


def by_values_statement(
    table: Table, values: Sequence[Sequence[Value]], clause: sa.ColumnElement[bool]
) -> sa.Select[Any]:
    """Return the query of ``by_values``; it finds some rows more where values are long or many."""
    keys = table.definition.keys
    columns = [partitions.c[f"k{i + 1}"] for i in range(min(len(keys), KEY_COLUMNS))]
    same = _any_of(columns, [key_row(v, keys)[: len(columns)] for v in values])
    return sa.select(partitions).where(partitions.c.table_id == table.table_id, same, clause)


def _any_of(columns: Sequence[sa.Column[Any]], encoded: Sequence[Sequence[str | None]]) -> sa.ColumnElement[bool]:
    """Return whether the columns are one of the rows: a list of last keys for each combination of the others."""
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
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of partitions that a predicate is true for: the living ones, or those that a clause chooses.

    They are views of tuples: as dictionaries a million of them would take a gigabyte more.
    """
    statement, exact = _matching_statement(connection, table, predicate, partitions.c, clause)
    keys = table.definition.keys
    evaluator = Evaluator(predicate, keys)
    rows: Sequence[Any] = connection.execute(statement).mappings().all()
    for row in rows:
        if exact or evaluator.matches(typed_values(row["name"], keys)):
            yield row


def _matching_statement(
    connection: sa.Connection,
    table: Table,
    predicate: Predicate,
    columns: Iterable[sa.Column[Any]],
    clause: sa.ColumnElement[bool] | None = None,
) -> tuple[sa.Select[Any], bool]:
    """Return the query of ``matching``, and whether all that it finds match."""

    def scope(chosen: sa.FromClause) -> tuple[sa.ColumnElement[bool], ...]:
        alive = living(chosen, table.table_id) if clause is None else sa.true()
        return (chosen.c.table_id == table.table_id, alive)

    dialect = "mysql" if connection.dialect.name == "mariadb" else connection.dialect.name
    condition = predicate_sql(predicate, table.definition.keys, dialect, scope, partitions)
    chosen = (*scope(partitions), condition.within(partitions), sa.true() if clause is None else clause)
    return sa.select(*columns).where(*chosen), condition.exact


def matching_numbers(connection: sa.Connection, table: Table, predicate: Predicate) -> array[int]:
    """Return the numbers of the living partitions that a predicate is true for: eight bytes each."""
    keys = table.definition.keys
    evaluator = Evaluator(predicate, keys)
    statement, exact = _matching_statement(connection, table, predicate, (partitions.c.partition_id, partitions.c.name))
    numbers = array("q")
    # Streamed to its end before anything is changed: MySQL has no second statement before that.
    with connection.execute(statement, execution_options={"yield_per": _STREAMED_AT_ONCE}) as rows:
        for some in rows.partitions():
            numbers.extend(number for number, name in some if exact or evaluator.matches(typed_values(name, keys)))
    return numbers


def living_rows(connection: sa.Connection, numbers: Sequence[int]) -> list[Mapping[str, Any]]:
    """Return the rows of living partitions, given by their numbers, by name."""
    p = partitions.c
    statement = sa.select(partitions).where(p.partition_id.in_(numbers), p.end_version == ALIVE)
    rows: Sequence[Any] = connection.execute(statement).mappings().all()
    return sorted(rows, key=lambda row: str(row["name"]))


def mark_in_metastore(
    connection: sa.Connection, table: Table, adds: Sequence[AddPartition], dropped: Iterable[Mapping[str, Any]]
) -> list[AddPartition]:
    """Return the new partitions, kept from the metastore where another one has the same values there.

    Args:
        connection: In a transaction.
        table: The table.
        adds: Partitions that come.
        dropped: The rows of those that the same commit drops.
    """
    gone = {row["name"] for row in dropped}
    names = [add.name for add in adds if add.name]
    held = {
        partition_values(row["name"])
        for row in by_values(connection, table, names, partitions.c.end_version == ALIVE)
        if row["in_metastore"] and row["name"] not in gone
    }
    marked: list[AddPartition] = []
    for add in adds:
        values = partition_values(add.name)
        fits = add.in_metastore and values not in held and not metastore_obstacle(add.name)
        marked.append(replace(add, in_metastore=fits))
        if fits:
            held.add(values)
    return marked


def heirs(
    connection: sa.Connection, table: Table, names: Sequence[str]
) -> dict[tuple[str | None, ...], Mapping[str, Any]]:
    """Return the living partition that the metastore is to have of each of the names' values, if it can have one.

    It is the one that it has already; where it has none, as when that one has ended, the one that Hive would write, or
    else the first by its name.

    Args:
        connection: Of the index.
        table: The table.
        names: Names of partitions, living or not.
    """
    wanted = {partition_values(name) for name in names if name}
    columns = [key.name for key in table.definition.keys]
    found: dict[tuple[str | None, ...], list[Mapping[str, Any]]] = {}
    alive = living(partitions, table.table_id)
    for row in by_values(connection, table, sorted({name for name in names if name}), alive):
        values = partition_values(row["name"])
        if values in wanted and not metastore_obstacle(row["name"]):
            found.setdefault(values, []).append(row)

    def rank(row: Mapping[str, Any]) -> tuple[bool, bool, str]:
        name: str = row["name"]
        return (not row["in_metastore"], name != format_partition_name(columns, partition_values(name)), name)

    return {values: min(rows, key=rank) for values, rows in found.items()}


def has_untold(connection: sa.Connection, table: Table) -> bool:
    """Return whether the table has a living partition that the metastore has not, as the twin of another one."""
    p = partitions.c
    untold = sa.select(p.partition_id).where(p.table_id == table.table_id, p.end_version == ALIVE, p.in_metastore == 0)
    return connection.execute(untold.limit(1)).one_or_none() is not None


def give_to_metastore(connection: sa.Connection, partition_ids: Sequence[int]) -> None:
    """Note that the metastore has living partitions, which it had not."""
    p = partitions.c
    for chunk in batched(partition_ids, _AT_ONCE):
        given = sa.update(partitions).where(p.partition_id.in_(chunk), p.end_version == ALIVE)
        connection.execute(given.values(in_metastore=1))
