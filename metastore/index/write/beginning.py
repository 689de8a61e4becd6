"""The begin of a transaction: its table must be where and as it was when the statement was planned."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import PlannedFormat, Transaction
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidInputError,
)
from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.schema import (
    tables,
    transactions,
)
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT


class DeadWritersError(Exception):
    """A writer's lease is over: the new write begins after the recovery of that transaction."""


def replaced_meanwhile(table: str) -> ConflictError:
    """Return the error of a statement that makes a table under a name that has changed its meaning."""
    return ConflictError(
        f"The table {table} was created, replaced, renamed or dropped by another statement since this one looked at "
        "it. Nothing was written; run the statement again.",
        {"table": table},
    )


def _what(transaction: Transaction) -> tuple[str, str, str]:
    return transaction.table, transaction.operation, transaction.plan.asked.kind


def same_request(known: Transaction, asked: Transaction) -> Transaction:
    """Return the known transaction if both are the same write; ``InvalidInputError`` otherwise."""
    if _what(known) != _what(asked):
        raise InvalidInputError(
            f"The transaction {known.transaction_id} is a write to table {known.table} ({known.operation}): begin this "
            "one with an id of its own.",
            {"transaction": known.transaction_id, "table": known.table},
        )
    return known


def check_table(
    connection: sa.Connection, transaction: Transaction, planned: PlannedFormat | None, *, looks: bool
) -> int | None:
    """Return the database's time if the table is where and as it was; None if it is gone, as the reservation finds."""
    # Locked, so that an alteration of location or format comes before this, or sees the transaction and is refused.
    with together(connection):
        asked = (_TABLE_AND_DEAD if looks else _TABLE).asked(connection, {"table_id": transaction.table_id})
    (row,) = asked() or (None,)
    if row is None:
        return None
    if looks and row["dead"]:
        raise DeadWritersError
    location = row["location"]
    if location != transaction.plan.location:
        raise ConflictError(
            f"The location of table {transaction.table} has just changed from {transaction.plan.location} to "
            f"{location}. Nothing was written; run the statement again.",
            {"table": transaction.table},
        )
    changed = planned and planned.changes(PlannedFormat(row["format"], json.loads(row["options"])))
    if changed:
        raise ConflictError(
            f"The table {transaction.table} is read otherwise by now than when this statement was planned: {changed}. "
            "Nothing was written; run the statement again.",
            {"table": transaction.table},
        )
    return int(row["now_ms"])


def _table_statement(dialect: str, *, looks: bool) -> sa.Select[Any]:
    now = database_now_ms(dialect).scalar_subquery()
    t = tables.c
    columns = sa.select(t.location, t.format, t.options, now.label("now_ms"))
    columns = columns.where(t.table_id == sa.bindparam("table_id"))
    if looks:
        of = transactions.c
        over = sa.select(of.transaction_id).where(of.state.in_([str(s) for s in IN_FLIGHT]), of.expires_at_ms < now)
        columns = columns.add_columns(over.limit(1).scalar_subquery().label("dead"))
    return columns.with_for_update(read=True, of=tables)


_TABLE = Prepared(partial(_table_statement, looks=False))

_TABLE_AND_DEAD = Prepared(partial(_table_statement, looks=True))
