"""Other types for partition columns: every key is encoded anew, and versions read with the old types expire."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import ConflictError, InvalidValueError
from catalog_ext.metastore.index.database.clock import insert_version
from catalog_ext.metastore.index.database.rows import definition_to_row, has_long_key, key_row
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    KEY_COLUMNS,
    partitions,
    tables,
    transaction_claims,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.write.outbox import enqueue
from catalog_ext.metastore.index.write.partition_rows import lock_table
from catalog_ext.metastore.index.write.partition_sums import sum_anew
from catalog_ext.metastore.messages import AlterTable
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.typed_values import checked_values
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.model.values import Key

_AT_ONCE = 2000
_SHOWN = 5


class Retyping:
    """Gives partition columns other types, within a transaction of the database."""

    def __init__(self, connection: sa.Connection, table: Table, types: Mapping[str, str]) -> None:
        self._connection = connection
        self._row = lock_table(connection, table.table_id, str(table.identifier))
        self._before = self._row.table
        self._definition = _retyped(self._before.definition, types)

    def run(self, *, deliver: bool) -> Table:
        """Return the table, at a new version; see ``Alterations.change_key_types``."""
        if self._definition == self._before.definition:
            return self._before
        self._require_quiet()
        long_keys = self._encode(self._definition.keys)
        table_id, version = self._before.table_id, self._before.version + 1
        self._connection.execute(
            sa.update(tables)
            .where(tables.c.table_id == table_id)
            .values(
                **definition_to_row(self._definition), version=version, oldest_version=version, claims_from=version,
                has_long_keys=int(long_keys),
            )
        )  # fmt: skip
        sum_anew(self._connection, table_id, version, len(self._definition.keys))
        # Claims are hashes of typed values.
        self._connection.execute(sa.delete(transaction_claims).where(transaction_claims.c.table_id == table_id))
        described = {column.name: column.type for column in self._definition.partition_columns}
        summary = to_json({"types": described, "user": current_user()})
        insert_version(
            self._connection, table_id, version, "SET PARTITION COLUMNS", summary, first_file_id=self._row.next_file
        )
        if deliver:
            enqueue(self._connection, AlterTable(self._definition, retype=True), table_id)
        return replace(self._before, definition=self._definition, version=version)

    def _require_quiet(self) -> None:
        t = transactions.c
        reserved = sa.select(t.transaction_id).where(
            t.table_id == self._before.table_id, t.state == str(State.RESERVED)
        )
        found = self._connection.execute(reserved.limit(1)).scalar()
        if found is not None:
            raise ConflictError(
                f"The partition columns of table {self._before.identifier} cannot change while the transaction {found} "
                "writes to it. Try again later; CALL <catalog>.system.recover finishes what dead writers left.",
                {"table": str(self._before.identifier), "transaction": found},
            )

    def _encode(self, keys: Sequence[Key]) -> bool:
        """Encode the keys of every living partition anew; return whether one of them is long."""
        p = partitions.c
        columns = [f"k{i}" for i in range(1, KEY_COLUMNS + 1)]
        statement = (
            sa.update(partitions)
            .where(p.partition_id == sa.bindparam("p"), p.begin_version == sa.bindparam("b"))
            .values({name: sa.bindparam(f"new_{name}") for name in columns})
        )
        shown = str(self._before.identifier)
        unfit: list[str] = []
        count, long_keys = 0, False
        # Files of streams that wait make partitions of their own when they are due.
        for name in self._connection.execute(self._waiting()).scalars():
            try:
                checked_values(name, keys, shown)
            except InvalidValueError:
                count += 1
                unfit += [name] if len(unfit) < _SHOWN else []
        for page in self._pages():
            rows: list[dict[str, Any]] = []
            for partition_id, begin, name in page:
                try:
                    values = checked_values(name, keys, shown)
                except InvalidValueError:
                    count += 1
                    unfit += [name] if len(unfit) < _SHOWN else []
                    continue
                long_keys = long_keys or has_long_key(values, keys)
                encoded = {f"new_{c}": k for c, k in zip(columns, key_row(values, keys), strict=True)}
                rows.append({"p": partition_id, "b": begin, **encoded})
            if rows and not count:
                self._connection.execute(statement, rows)
        if count:
            described = ", ".join(f"{key.name} {str(key.type).upper()}" for key in keys)
            raise InvalidValueError(
                f"The partition columns of table {shown} cannot become {described}: {count} of its partitions have "
                f"values that do not fit, such as {', '.join(repr(name[:200]) for name in unfit)}. Nothing was "
                "changed; drop or rename these first (what a stream keeps waiting: let it end).",
                {"table": shown, "partitions": str(count)},
            )
        return long_keys

    def _waiting(self) -> sa.Select[Any]:
        w = waiting_files.c
        return sa.select(w.name).where(w.table_id == self._before.table_id).distinct()

    def _pages(self) -> Iterator[Sequence[Any]]:
        p = partitions.c
        after = -1
        statement = sa.select(p.partition_id, p.begin_version, p.name).where(
            p.table_id == self._before.table_id, p.end_version == ALIVE
        )
        while True:
            page = self._connection.execute(
                statement.where(p.partition_id > after).order_by(p.partition_id).limit(_AT_ONCE)
            ).all()
            if not page:
                return
            yield page
            after = page[-1].partition_id


def _retyped(definition: TableDefinition, types: Mapping[str, str]) -> TableDefinition:
    columns = tuple(replace(c, type=types.get(c.name, c.type)) for c in definition.partition_columns)
    return replace(definition, partition_columns=columns)
