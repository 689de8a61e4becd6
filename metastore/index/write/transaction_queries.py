"""The statements of ``IndexedTransactions``: the begin, moves from state to state, and what other transactions do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import PlannedFormat, State, Transaction
from catalog_ext.metastore.errors import ConflictError, InvalidInputError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.schema import (
    namespaces,
    tables,
    transaction_claims,
    transaction_files,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT, MOVES, ROW

OF_TABLE = "of_table_"


_OF_TABLE = {**tables.c, "namespace": namespaces.c.name}
WITH_TABLE = ROW.add_columns(*(column.label(f"{OF_TABLE}{name}") for name, column in _OF_TABLE.items())).select_from(
    transactions.outerjoin(tables, tables.c.table_id == transactions.c.table_id).outerjoin(
        namespaces, namespaces.c.namespace_id == tables.c.namespace_id
    )
)
"""The query of a transaction's row with that of its table, whose columns begin with ``OF_TABLE``."""


@cache
def move_query(*, ends: bool, fails: bool) -> Prepared:
    """Return the statement of ``IndexedTransactions.move``."""
    t = transactions.c
    values: dict[str, Any] = {"state": sa.bindparam("to")}
    if ends:
        values["ended_at_ms"] = NOW_MS
        # Registrations look for ended transactions by the index of the lease, which has to end after them.
        values["expires_at_ms"] = sa.case((t.expires_at_ms < NOW_MS, NOW_MS), else_=t.expires_at_ms)
    if fails:
        values["error"] = sa.bindparam("why")
    from_ = t.state.in_(sa.bindparam("from", expanding=True))
    return Prepared(sa.update(transactions).where(t.transaction_id == sa.bindparam("id"), from_).values(**values))


def _of_one(rows: sa.Table, *, unless_moving: bool) -> Prepared:
    """Return the statement that deletes a transaction's rows; of a partition command that moves files perhaps none."""
    t = transactions.c
    id_: sa.BindParameter[str] = sa.bindparam("id")
    statement = sa.delete(rows).where(rows.c.transaction_id == id_)
    moves = sa.exists().where(t.transaction_id == id_, t.plan.like(MOVES))
    return Prepared(statement.where(~moves) if unless_moving else statement)


END_CLAIMS = _of_one(transaction_claims, unless_moving=False)

END_CLAIMS_UNLESS_MOVING = _of_one(transaction_claims, unless_moving=True)

FORGET_FILES_UNLESS_MOVING = _of_one(transaction_files, unless_moving=True)


def _uncommitted() -> sa.CompoundSelect[Any]:
    t = transactions.c
    table_id: sa.BindParameter[int] = sa.bindparam("table_id")
    columns = sa.select(t.transaction_id, t.state)
    # Two ranges of one index: databases do not see that in an OR.
    not_shown = [
        columns.where(t.table_id == table_id, condition, t.reserved == 1)
        for condition in (t.version.is_(None), t.version > sa.bindparam("version"))
    ]
    undecided = t.state.in_([str(State.RESERVED), str(State.ABORTING), str(State.ABORTED)])
    not_shown += [columns.where(condition, t.reserved == 1) for condition in (t.table_id.is_(None), undecided)]
    waiting = (
        sa.select(t.transaction_id, t.state)
        .join(waiting_files, waiting_files.c.transaction_id == t.transaction_id)
        .where(waiting_files.c.table_id == table_id)
    )
    return sa.union(*not_shown, waiting)


UNCOMMITTED = _uncommitted()
"""The query of ``IndexedTransactions.uncommitted_ids``."""


_T = transactions.c
_MOVING = _T.plan.like(MOVES)
_HAS_STAGED = _T.transaction_id.in_(
    sa.select(transaction_files.c.transaction_id).where(transaction_files.c.removal == 0)
)
_STATE: sa.ColumnElement[str] = sa.func.coalesce(_T.state, "")
"""The state as an expression, which has no index: transactions that have ended are to be found by their lists."""

MOVING = sa.union_all(
    sa.select(transactions).where(_MOVING, _T.state.in_(sa.bindparam("in_flight", expanding=True))),
    sa.select(transactions).where(_MOVING, _STATE.in_(sa.bindparam("ended", expanding=True)), _HAS_STAGED),
)
"""The query of ``IndexedTransactions.moving_commands``."""


@dataclass(frozen=True, slots=True)
class AtWork:
    """What hardly ever is, and makes a listing of a table's directories one of a moment.

    Attributes:
        cleans: Whether a committed write, of any table, may still have to delete what it has replaced.
        moves: Whether ``moving_commands`` has one, of any table, that is not committed.
    """

    cleans: bool
    moves: bool


_CLEANS = sa.exists().where(_T.state == str(State.COMMITTED))
_MOVES = sa.or_(
    sa.exists().where(_MOVING, _T.state.in_([str(State.RESERVED), str(State.ABORTING)])),
    sa.exists().where(_MOVING, _STATE.in_([str(State.ABORTED)]), _HAS_STAGED),
)
AT_WORK = sa.select(sa.case((_CLEANS, 1), else_=0).label("cleans"), sa.case((_MOVES, 1), else_=0).label("moves"))
"""The query of ``IndexedTransactions.at_work``."""


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


_TABLE_ROW = (
    sa.select(tables.c.location, tables.c.format, tables.c.options, NOW_MS.label("now_ms"))
    .where(tables.c.table_id == sa.bindparam("table_id"))
    .with_for_update(read=True, of=tables)
)
_DEAD = sa.select(transactions.c.transaction_id).where(
    transactions.c.state.in_([str(state) for state in IN_FLIGHT]), transactions.c.expires_at_ms < NOW_MS
)
_TABLE = Prepared(_TABLE_ROW)
_TABLE_AND_DEAD = Prepared(_TABLE_ROW.add_columns(_DEAD.limit(1).scalar_subquery().label("dead")))
