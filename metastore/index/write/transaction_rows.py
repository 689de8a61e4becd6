"""Writes, loads and locks the rows of write transactions, within a database transaction; and their statements."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.json import outcome_from_dict, outcome_to_dict, plan_from_dict, plan_to_dict
from catalog_ext.metastore.commit.partition_plans import CheckedDrop, DataDeletion, DropPartitions
from catalog_ext.metastore.commit.plan import Promotion, WritePlan
from catalog_ext.metastore.commit.transaction import State, Transaction, new_transaction_id
from catalog_ext.metastore.errors import TransactionNotFoundError, TransactionStateError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.migration import require_same, revision_column
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import (
    applications,
    namespaces,
    tables,
    transaction_claims,
    transaction_files,
    transaction_locations,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.outbox import ascii_safe
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Mapping


IN_FLIGHT = (State.OPEN, State.RESERVED, State.COMMITTED, State.ABORTING)

MOVES = '%"moves":true%'
"""A pattern for the plans of partition commands that move files."""

_DELETION_LEASE_MS = 600_000

FORGOTTEN_KEPT_MS = 30 * 24 * 3_600_000
"""How long the id of a removed transaction, or the row of a DROP TABLE, is kept if no vacuum looks for leftover
files."""

_AS_THEY_ARE = (
    "transaction_id", "table_id", "operation", "base_version", "began_at_ms", "expires_at_ms", "ended_at_ms", "app_id",
    "app_version", "version", "error",
)  # fmt: skip
"""The fields of a transaction that are columns of the same name."""

INSERT = Prepared(sa.insert(transactions))


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """The newest batch of a streaming application that a table contains."""

    app_version: int
    version: int
    transaction_id: str


def insert_deletion(
    connection: sa.Connection, table_id: int, shown: str, location: str, deletes: DataDeletion, *,
    operation: str, state: State, owner: str, staging: str, version: int, now_ms: int,
) -> str:  # fmt: skip
    """Insert the row of a file deletion by vacuum or DROP TABLE, and return its id; it drops no partition.

    The plan in the row says by ``deletes`` whether all files lie in the directory ``location``. The state is
    ``committed`` until the files are deleted, then ``finished``. ``operation`` and ``owner`` (the process) are for
    messages.
    """
    promotion = Promotion.UPLOAD if location.startswith("s3a:") else Promotion.RENAME
    plan = WritePlan(CheckedDrop(DropPartitions(TRUE, deletes)), location, staging, location, promotion)
    deletion = Transaction(
        new_transaction_id(), table_id, shown, operation, state, owner, version, now_ms, now_ms + _DELETION_LEASE_MS,
        plan, ended_at_ms=now_ms, version=version,
    )  # fmt: skip
    INSERT.run(connection, {**to_row(deletion), "replaces": None})
    return deletion.transaction_id


def to_row(transaction: Transaction) -> dict[str, Any]:
    """Return the row for a transaction."""
    return {
        **{name: getattr(transaction, name) for name in _AS_THEY_ARE},
        "table_name": transaction.table,
        "state": str(transaction.state),
        "owner": ascii_safe(transaction.owner),
        "plan": to_json(plan_to_dict(transaction.plan)),
        "outcome": to_json({} if transaction.outcome is None else outcome_to_dict(transaction.outcome)),
        "reserved": int(transaction.reserved),
    }


def from_row(row: Mapping[str, Any]) -> Transaction:
    """Return the transaction for a row of ``transactions``."""
    return Transaction(
        **{name: row[name] for name in _AS_THEY_ARE},
        table=row["table_name"],
        state=State(row["state"]),
        owner=row["owner"],
        plan=plan_from_dict(json.loads(row["plan"]), checked=row["state"] != State.OPEN),
        outcome=outcome_from_dict(outcome) if (outcome := json.loads(row["outcome"])) else None,
        reserved=bool(row["reserved"]),
    )


def with_locations(connection: sa.Connection, transaction: Transaction) -> Transaction:
    """Return the transaction with all partition locations that it needs, also those that its tasks asked for.

    They are stored apart from the plan: a plan is one value, and could become too large for a database.
    """
    plan = transaction.plan
    if not plan.asks_locations:
        return transaction
    asked = _asked_locations(connection, transaction.transaction_id)
    return replace(transaction, plan=replace(plan, locations={**plan.locations, **asked}))


def _asked_locations(connection: sa.Connection, transaction_id: str) -> dict[str, str]:
    return {row["name"]: row["location"] for row in _LOCATIONS.rows(connection, {"id": transaction_id})}


_LOCATIONS = Prepared(
    sa.select(transaction_locations.c.name, transaction_locations.c.location).where(
        transaction_locations.c.transaction_id == sa.bindparam("id")
    )
)


def keep_locations(connection: sa.Connection, transaction_id: str, own: Mapping[str, str]) -> None:
    """Store the locations that a reserved transaction needs, except those that its tasks have stored already."""
    known = _asked_locations(connection, transaction_id)
    add_locations(connection, transaction_id, {name: place for name, place in own.items() if name not in known})


def add_locations(connection: sa.Connection, transaction_id: str, new: Mapping[str, str]) -> None:
    """Store locations of partitions, given by name, of which the transaction has none stored yet."""
    rows = [
        {"transaction_id": transaction_id, "name_hash": name_hash(name), "name": name, "location": location}
        for name, location in new.items()
    ]
    if rows:
        connection.execute(sa.insert(transaction_locations), rows)


def forget_locations(connection: sa.Connection, transaction_id: str) -> None:
    """Remove the locations stored by ``record_locations`` and ``keep_locations``, since the transaction has ended."""
    _FORGET_LOCATIONS.run(connection, {"id": transaction_id})


_FORGET_LOCATIONS = Prepared(
    sa.delete(transaction_locations).where(transaction_locations.c.transaction_id == sa.bindparam("id"))
)


def load_row(connection: sa.Connection, transaction_id: str, *, lock: bool = False) -> Mapping[str, Any]:
    """Return the transaction's row with the database's time (``now_ms``); with ``lock``, lock the row.

    Raises:
        TransactionNotFoundError: There is no transaction with this id.
        IndexNotAtHeadError: The index has been migrated since this process opened it.
    """
    return usable(find_row(connection, transaction_id, lock=lock), transaction_id)


def load_open_row(connection: sa.Connection, transaction_id: str, what: str) -> Mapping[str, Any]:
    """Lock and return the row of an open transaction; ``what`` completes the error message for another state.

    Raises:
        TransactionNotFoundError: There is no transaction with this id.
        IndexNotAtHeadError: The index has been migrated since this process opened it.
        TransactionStateError: The transaction is not open any more.
    """
    row = load_row(connection, transaction_id, lock=True)
    if row["state"] != State.OPEN:
        raise wrong_state(row, what)
    return row


def usable(row: Mapping[str, Any] | None, transaction_id: str) -> Mapping[str, Any]:
    """Check that a row was found and that this release can read its plan, and return it.

    Raises:
        TransactionNotFoundError: There is no row.
        IndexNotAtHeadError: The index has been migrated since this process opened it.
    """
    if row is None:
        raise TransactionNotFoundError(
            f"The index has no transaction {transaction_id[:64]!r}: it never was, or vacuum has removed it.",
            {"transaction": transaction_id[:64]},
        )
    require_same(row["revision"])
    return row


def find_row(connection: sa.Connection, transaction_id: str, *, lock: bool = False) -> Mapping[str, Any] | None:
    """Return the row of a transaction, or None if it does not exist."""
    return (LOCKED_ROW if lock else _ROW).row(connection, {"id": transaction_id})


ROW = sa.select(transactions, NOW_MS.label("now_ms"), revision_column().label("revision")).where(
    transactions.c.transaction_id == sa.bindparam("id")
)
"""The query of a transaction's row, with the database's time and the index's schema revision."""
_ROW, LOCKED_ROW = Prepared(ROW), Prepared(ROW.with_for_update())


def wrong_state(row: Mapping[str, Any], action: str) -> TransactionStateError:
    """Return the error for a transaction whose state does not allow an action; ``action`` names the action."""
    state = row["state"]
    undone = state in (State.ABORTING, State.ABORTED)
    why = (
        f" It was undone{': ' + row['error'] if row['error'] else ', as when its lease is over'}. Run the statement "
        "again; a longer transaction.lease keeps slow writers from being taken for dead."
        if undone
        else ""
    )
    return TransactionStateError(
        f"The transaction {row['transaction_id']} on table {row['table_name']} is {state} and cannot {action}.{why}",
        {"transaction": row["transaction_id"], "table": row["table_name"], "state": state},
    )


def application(connection: sa.Connection, table_id: int, app_id: str) -> ApplicationVersion | None:
    """Return the newest committed batch of a streaming application in a table, within a database transaction."""
    row = _APPLICATION.row(connection, {"table_id": table_id, "app_hash": name_hash(app_id)})
    return None if row is None else ApplicationVersion(row["app_version"], row["version"], row["transaction_id"])


_APPLICATION = Prepared(
    sa.select(applications.c.app_version, applications.c.version, applications.c.transaction_id).where(
        applications.c.table_id == sa.bindparam("table_id"), applications.c.app_hash == sa.bindparam("app_hash")
    )
)


_T = transactions.c
OF_TABLE = "of_table_"
_OF_TABLE = {**tables.c, "namespace": namespaces.c.name}
WITH_TABLE = ROW.add_columns(*(column.label(f"{OF_TABLE}{name}") for name, column in _OF_TABLE.items())).select_from(
    transactions.outerjoin(tables, tables.c.table_id == transactions.c.table_id).outerjoin(
        namespaces, namespaces.c.namespace_id == tables.c.namespace_id
    )
)
"""The query of a transaction's row joined with its table's row, whose column names get the prefix ``OF_TABLE``."""


@cache
def move_query(*, ends: bool, fails: bool) -> Prepared:
    """Return the UPDATE statement that changes a transaction's state if it is in one of some states.

    ``ends`` also sets the transaction's end, and ``fails`` its error text.
    """
    values: dict[str, Any] = {"state": sa.bindparam("to")}
    if ends:
        values["ended_at_ms"] = NOW_MS
        # Registrations find ended transactions by the database index of the lease's end. So the lease must not end
        # before the transaction.
        values["expires_at_ms"] = sa.case((_T.expires_at_ms < NOW_MS, NOW_MS), else_=_T.expires_at_ms)
    if fails:
        values["error"] = sa.bindparam("why")
    from_ = _T.state.in_(sa.bindparam("from", expanding=True))
    return Prepared(sa.update(transactions).where(_T.transaction_id == sa.bindparam("id"), from_).values(**values))


def _of_one(rows: sa.Table, *, unless_moving: bool) -> Prepared:
    """Return the statement that deletes one transaction's rows of a table.

    With ``unless_moving``, rows of a partition command that moves files stay.
    """
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
    # Two SELECTs instead of an OR: each reads a range of an index, which the databases would not do for an OR.
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
"""The query of ``IndexedTransactions.uncommitted_ids``: transactions with files that are not visible at a version."""


_MOVING = _T.plan.like(MOVES)
_HAS_STAGED = _T.transaction_id.in_(
    sa.select(transaction_files.c.transaction_id).where(transaction_files.c.removal == 0)
)
_STATE: sa.ColumnElement[str] = sa.func.coalesce(_T.state, "")
"""The state as an expression, so that no database index on it is used: ended transactions are found by their file lists
instead."""

MOVING = sa.union_all(
    sa.select(transactions).where(_MOVING, _T.state.in_(sa.bindparam("in_flight", expanding=True))),
    sa.select(transactions).where(_MOVING, _STATE.in_(sa.bindparam("ended", expanding=True)), _HAS_STAGED),
)
"""The query of ``IndexedTransactions.moving_commands``: partition commands that move files, in some states."""


@dataclass(frozen=True, slots=True)
class AtWork:
    """Rare activities of other processes that can change files while a table's directories are listed.

    Attributes:
        cleans: Whether a committed write, to any table, may still have to delete replaced files.
        moves: Whether an uncommitted command, of any table, may be moving files (``moving_commands``).
    """

    cleans: bool
    moves: bool


_CLEANS = sa.exists().where(_T.state == str(State.COMMITTED))
_MOVES = sa.or_(
    sa.exists().where(_MOVING, _T.state.in_([str(State.RESERVED), str(State.ABORTING)])),
    sa.exists().where(_MOVING, _STATE.in_([str(State.ABORTED)]), _HAS_STAGED),
)
AT_WORK = sa.select(sa.case((_CLEANS, 1), else_=0).label("cleans"), sa.case((_MOVES, 1), else_=0).label("moves"))
"""The query of ``IndexedTransactions.at_work``: whether any transaction may be deleting or moving files."""
