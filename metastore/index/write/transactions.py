"""The rows of transactions: every step from one state to the next compares the state before it sets it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.json import outcome_from_dict, outcome_to_dict
from catalog_ext.metastore.commit.plan import Create
from catalog_ext.metastore.commit.plan_json import plan_from_dict, plan_to_dict
from catalog_ext.metastore.commit.transaction import PlannedFormat, State, Transaction
from catalog_ext.metastore.errors import (
    ConflictError,
    IndexDatabaseError,
    InvalidInputError,
    TransactionNotFoundError,
    TransactionStateError,
)
from catalog_ext.metastore.index.database.clock import database_now_ms, now_ms
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.migration import require_same, revision_column
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.rows import table_from_row
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
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table


IN_FLIGHT = (State.OPEN, State.RESERVED, State.COMMITTED, State.ABORTING)
_BEFORE_COMMIT = (State.OPEN, State.RESERVED, State.ABORTING)
_ERROR_LENGTH = 4000
MOVES = '%"moves":true%'
"""What the plans of commands have that move files."""
_INSERT = Prepared(sa.insert(transactions))


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """The newest batch of an application that a table has."""

    app_version: int
    version: int
    transaction_id: str


class DeadWritersError(Exception):
    """Somebody's lease is over: what was to begin is to wait until that is recovered."""


class Transactions:
    """The rows of transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(
        self,
        transaction: Transaction,
        replaced: int | None = None,
        planned: PlannedFormat | None = None,
        *,
        looks: bool = False,
    ) -> Transaction:
        """Write the row of a new transaction and return it; of one that replaces a table, also which table that is now.

        It begins now, by the database's clock, and so does its lease. Where there is one of its id, that one is
        returned: the writer asks again, because it had no answer.

        Args:
            transaction: The transaction; its times are not looked at.
            replaced: Of one that makes a table, the number of the table that it found under the name, and its plan is
                of; None where it found none.
            planned: What the files of one that brings some are like.
            looks: Whether it is to begin only if nobody's lease is over; not for one that makes a table.

        Raises:
            DeadWritersError: Somebody's is. Nothing was done.
            InvalidInputError: The one of its id writes another table.
            ConflictError: The table's location has changed since it was loaded, or it is read otherwise than the files
                of the write are, or another table has its name.
        """

        def inserted(connection: sa.Connection) -> Transaction:
            replaces, now = None, None
            if transaction.plan.definition is not None:
                replaces = table_id_of(connection, TableIdentifier.parse(transaction.table))
                # Another table of the name has the same versions; the one that was found may be renamed, at its place.
                if replaces != replaced and not isinstance(transaction.plan.asked, Create):
                    raise replaced_meanwhile(transaction.table)
            else:
                now = _check_table(connection, transaction, planned, looks=looks)
            if now is None:
                now = now_ms(connection)
            begun = replace(transaction, began_at_ms=now, expires_at_ms=now + transaction.plan.lease_ms)
            _INSERT.run(connection, {**_to_row(begun), "replaces": replaces})
            return begun

        # Hardly anybody asks again: the database says of those who do that the id is taken.
        try:
            return self._database.write(inserted)
        except (ConflictError, IndexDatabaseError) as error:
            if isinstance(error, IndexDatabaseError) and not (error.__cause__ and is_duplicate(error.__cause__)):
                raise
            # What the first call has begun stands, whatever has become of the table since.
            with self._database.reading() as connection:
                row = _find_row(connection, transaction.transaction_id)
            if row is None:
                raise
            return _same(from_row(row), transaction)

    def begin_among_living(self, transaction: Transaction, planned: PlannedFormat | None = None) -> Transaction | None:
        """Return the same for one that makes no table; None, and do nothing, where the lease of another is over."""
        try:
            return self.begin(transaction, planned=planned, looks=True)
        except DeadWritersError:
            return None

    def finish(self, transaction_id: str) -> bool:
        """Return whether the transaction was committed and now is finished: what it had to delete is forgotten."""
        return self.move(transaction_id, (State.COMMITTED,), State.FINISHED)

    def load(self, transaction_id: str) -> Transaction:
        """Return the transaction of this id.

        Raises:
            TransactionNotFoundError: There is none, or vacuum has forgotten it.
        """
        with self._database.reading() as connection:
            return load_within(connection, transaction_id)

    def load_with_table(self, transaction_id: str) -> tuple[Transaction, Table | None]:
        """Return the transaction of this id, and its table as it is now; None where it has none, or no longer.

        Raises:
            TransactionNotFoundError: There is none, or vacuum has forgotten it.
        """
        with self._database.reading() as connection:
            found = _WITH_TABLE.row(connection, {"id": transaction_id})
            row = _usable(found, transaction_id)
            table = {name.removeprefix(_OF_TABLE): row[name] for name in row if name.startswith(_OF_TABLE)}
            transaction = with_locations(connection, from_row(row))
        return transaction, None if table["table_id"] is None else table_from_row(table)

    def record_locations(self, transaction_id: str, own: Mapping[str, str]) -> dict[str, str]:
        """Keep where an open transaction puts files of partitions, and return it; what it had before stays as it was.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not open any more.
        """

        def work(connection: sa.Connection) -> dict[str, str]:
            row = load_row(connection, transaction_id, lock=True)
            if row["state"] != State.OPEN:
                raise wrong_state(row, "put files anywhere")
            a, hashes = transaction_locations.c, {name_hash(name): name for name in own}
            mine = sa.select(a.name, a.location).where(a.transaction_id == transaction_id, a.name_hash.in_(hashes))
            known = {found.name: found.location for found in connection.execute(mine)}
            new = [
                {"transaction_id": transaction_id, "name_hash": digest, "name": name, "location": own[name]}
                for digest, name in hashes.items()
                if name not in known
            ]
            if new:
                connection.execute(sa.insert(transaction_locations), new)
            return {**own, **known}

        # Whoever dies before the reservation has only files to be removed.
        return self._database.write(work, durable=False)

    def state_of(self, transaction_id: str) -> State | None:
        """Return the transaction's state now; None where there is no such transaction."""
        with self._database.reading() as connection:
            state: str | None = _STATE.scalar(connection, {"id": transaction_id})
        return None if state is None else State(state)

    def while_in_state(self, transaction_id: str, state: State, work: Callable[[], object]) -> bool:
        """Do some work while nobody moves the transaction out of a state; return False, and do nothing, in another one.

        Args:
            transaction_id: The transaction's.
            state: The one that the work is right in.
            work: Is short, and may be called again.
        """
        t = transactions.c
        held = sa.select(t.transaction_id).where(t.transaction_id == transaction_id, t.state == state).with_for_update()

        def locked(connection: sa.Connection) -> bool:
            if connection.execute(held).scalar() is None:
                return False
            work()
            return True

        return self._database.write(locked)

    def all(
        self,
        table_id: int | None = None,
        *,
        states: Collection[State] | None = None,
        expired: bool = False,
        limit: int | None = None,
    ) -> list[Transaction]:
        """Return transactions, newest first: of a table, in some states, with a lease that is over."""
        asked: dict[str, Any] = {}
        if table_id is not None:
            asked["table_id"] = table_id
        if states is not None:
            asked["states"] = [str(state) for state in states]
        if limit is not None:
            asked["limit"] = limit
        with self._database.reading() as connection:
            found = [from_row(row) for row in _listed(frozenset(asked), expired=expired).rows(connection, asked)]
            return [with_locations(connection, transaction) for transaction in found]

    def extend_lease(self, transaction_id: str, until_ms: int, *, undoing: bool = False) -> bool:
        """Return whether the transaction is in flight; its lease then lasts until ``until_ms``."""
        living = [str(state) for state in IN_FLIGHT if undoing or state is not State.ABORTING]
        statement = (
            sa.update(transactions)
            .where(transactions.c.transaction_id == transaction_id, transactions.c.state.in_(living))
            .values(expires_at_ms=until_ms)
        )
        return self._database.write(lambda connection: connection.execute(statement).rowcount == 1, durable=False)

    def claim_recovery(self, transaction: Transaction, until_ms: int) -> bool:
        """Return whether the lease is the one that was loaded; it then lasts until ``until_ms``."""
        t = transactions.c
        statement = (
            sa.update(transactions)
            .where(t.transaction_id == transaction.transaction_id, t.expires_at_ms == transaction.expires_at_ms)
            .values(expires_at_ms=until_ms)
        )
        return self._database.write(lambda connection: connection.execute(statement).rowcount == 1)

    def move(self, transaction_id: str, from_: Collection[State], to: State, *, error: str | None = None) -> bool:
        """Return whether the transaction was in one of the states and now is in the other."""
        mine = {"id": transaction_id}
        moved: dict[str, Any] = {**mine, "from": [str(state) for state in from_], "to": str(to)}
        if error is not None:
            moved["why"] = ascii_safe(error)[:_ERROR_LENGTH]

        def work(connection: sa.Connection) -> bool:
            if _moved(ends=to is State.ABORTED, fails=error is not None).changed(connection, moved) != 1:
                return False
            if to in (State.ABORTING, State.ABORTED):
                # Files are still to be moved back: until then the partitions are nobody else's.
                (_END_CLAIMS_UNLESS_MOVING if to is State.ABORTING else _END_CLAIMS).run(connection, mine)
            if to in (State.ABORTED, State.FINISHED):
                forget_locations(connection, transaction_id)
                # A slow mover may have died with one of a command's files: that is to be put back, too.
                _FORGET_FILES_UNLESS_MOVING.run(connection, mine)
            return True

        # What is finished twice is finished: a clean-up finds nothing more to remove.
        return self._database.write(work, durable=to is not State.FINISHED)

    def suspect_reservation(self, transaction_id: str) -> None:
        """Have an open transaction count as one that was reserved: the index may have forgotten that it was.

        Its files are then nobody else's wherever they are, and are removed from there if it is undone.

        Raises:
            TransactionNotFoundError: There is no such transaction.
        """

        def work(connection: sa.Connection) -> None:
            row = load_row(connection, transaction_id, lock=True)
            if row["state"] == State.OPEN:
                mine = transactions.c.transaction_id == transaction_id
                connection.execute(sa.update(transactions).where(mine).values(reserved=1))

        self._database.write(work)

    def remember_undone(self, transaction: Transaction, error: str) -> Transaction:
        """Return a transaction whose reservation the index has forgotten, as it then is: being undone, as reserved.

        So it is recovered like any other from then on, and no repair takes its files for somebody's. One that is
        committed after all stays as it is.

        Args:
            transaction: As its owner has reserved it, and has acknowledged nothing of.
            error: Why it is undone.
        """
        plan = transaction.plan
        asked = _to_row(replace(transaction, plan=replace(plan, locations={}) if plan.asks_locations else plan))
        undone = {"plan": asked["plan"], "error": ascii_safe(error)[:_ERROR_LENGTH], "reserved": 1}

        def work(connection: sa.Connection) -> Transaction:
            row = _find_row(connection, transaction.transaction_id, lock=True)
            if row is None:
                _INSERT.run(connection, {**asked, **undone, "state": str(State.ABORTING), "replaces": None})
            elif row["state"] == State.OPEN or not row["reserved"]:
                state = State.ABORTING if row["state"] == State.OPEN else row["state"]
                mine = transactions.c.transaction_id == transaction.transaction_id
                connection.execute(sa.update(transactions).where(mine).values(**undone, state=str(state)))
            if plan.asks_locations:
                keep_locations(connection, transaction.transaction_id, plan.locations)
            return replace(from_row(load_row(connection, transaction.transaction_id)), plan=plan)

        return self._database.write(work)

    def find_application(self, table_id: int, app_id: str) -> ApplicationVersion | None:
        """Return the newest committed batch of the application in the table."""
        with self._database.reading() as connection:
            return application(connection, table_id, app_id)

    def uncommitted_ids(self, table_id: int, version: int) -> dict[str, State]:
        """Return the transactions whose files the version does not show, in whole (or, while files wait, in part).

        Those of all tables are among them while they can be undone or were, and those that make a table: other tables
        may be at the same location or around it, and a replacement belongs to no table before its commit.

        One that was never reserved has no visible files: where a store shows some, the index has been restored to a
        time before it was, and cannot know that it was not committed.
        """
        with self._database.reading() as connection:
            rows = _UNCOMMITTED.rows(connection, {"table_id": table_id, "version": version})
        return {row["transaction_id"]: State(row["state"]) for row in rows}

    def moving_commands(
        self, states: Collection[State] = (State.RESERVED, State.ABORTING, State.ABORTED)
    ) -> list[Transaction]:
        """Return the partition commands in these states that move files: those not committed, unless others are named.

        Of those that have ended only if they staged some.

        Plans are long, and those that have ended are many: they are found by the lists of files that such commands
        alone keep.
        """
        ended = [str(state) for state in states if state not in _BEFORE_COMMIT]
        in_flight = [str(state) for state in states if state in _BEFORE_COMMIT]
        with self._database.reading() as connection:
            found = _MOVING.rows(connection, {"in_flight": in_flight, "ended": ended})
        return [from_row(row) for row in found]

    def at_work(self) -> AtWork:
        """Return whether others may be deleting or moving files that a listing finds."""
        with self._database.reading() as connection:
            (row,) = _AT_WORK.rows(connection)
        return AtWork(bool(row["cleans"]), bool(row["moves"]))

    def relocations(self, table_id: int) -> set[int]:
        """Return the versions that relocating overwrites have made."""
        with self._database.reading() as connection:
            return set(_RELOCATIONS.scalars(connection, {"table_id": table_id}))


def insert_within(connection: sa.Connection, transaction: Transaction) -> None:
    """Write the row of a transaction that is new and in whatever state."""
    _INSERT.run(connection, {**_to_row(transaction), "replaces": None})


def replaced_meanwhile(table: str) -> ConflictError:
    """Return the error of a statement that makes a table under a name that has changed its meaning."""
    return ConflictError(
        f"The table {table} was created, replaced, renamed or dropped by somebody else since this statement looked at "
        "it. Nothing was written; run the statement again.",
        {"table": table},
    )


def _what(transaction: Transaction) -> tuple[str, str, str]:
    return transaction.table, transaction.operation, transaction.plan.asked.kind


def _same(known: Transaction, asked: Transaction) -> Transaction:
    if _what(known) != _what(asked):
        raise InvalidInputError(
            f"The transaction {known.transaction_id} is a write to table {known.table} ({known.operation}): begin this "
            "one with an id of its own.",
            {"transaction": known.transaction_id, "table": known.table},
        )
    return known


def _check_table(
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


def table_id_of(connection: sa.Connection, identifier: TableIdentifier) -> int | None:
    """Return the number of the table that has this name now."""
    statement = (
        sa.select(tables.c.table_id)
        .join(namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
        .where(namespaces.c.name == identifier.namespace, tables.c.name == identifier.name)
    )
    found: int | None = connection.execute(statement).scalar()
    return found


def _to_row(transaction: Transaction) -> dict[str, Any]:
    return {
        "transaction_id": transaction.transaction_id,
        "table_id": transaction.table_id,
        "table_name": transaction.table,
        "operation": transaction.operation,
        "state": str(transaction.state),
        "owner": ascii_safe(transaction.owner),
        "base_version": transaction.base_version,
        "began_at_ms": transaction.began_at_ms,
        "expires_at_ms": transaction.expires_at_ms,
        "ended_at_ms": transaction.ended_at_ms,
        "plan": to_json(plan_to_dict(transaction.plan)),
        "app_id": transaction.app_id,
        "app_version": transaction.app_version,
        "version": transaction.version,
        "outcome": to_json({} if transaction.outcome is None else outcome_to_dict(transaction.outcome)),
        "error": transaction.error,
        "reserved": int(transaction.reserved),
    }


def from_row(row: Mapping[str, Any]) -> Transaction:
    """Return the transaction of a row of ``transactions``."""
    return Transaction(
        transaction_id=row["transaction_id"],
        table_id=row["table_id"],
        table=row["table_name"],
        operation=row["operation"],
        state=State(row["state"]),
        owner=row["owner"],
        base_version=row["base_version"],
        began_at_ms=row["began_at_ms"],
        expires_at_ms=row["expires_at_ms"],
        plan=plan_from_dict(json.loads(row["plan"]), checked=row["state"] != State.OPEN),
        ended_at_ms=row["ended_at_ms"],
        app_id=row["app_id"],
        app_version=row["app_version"],
        version=row["version"],
        outcome=outcome_from_dict(outcome) if (outcome := json.loads(row["outcome"])) else None,
        error=row["error"],
        reserved=bool(row["reserved"]),
    )


def load_within(connection: sa.Connection, transaction_id: str) -> Transaction:
    """Return the same as ``load``, within a transaction."""
    return with_locations(connection, from_row(load_row(connection, transaction_id)))


def with_locations(connection: sa.Connection, transaction: Transaction) -> Transaction:
    """Return the transaction with the locations that its tasks have asked for, and those that it needs besides.

    There may be so many that a plan, which is one value, could not be sent to a database.
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
    """Keep all that a reserved transaction needs, besides what its tasks have asked for."""
    known = _asked_locations(connection, transaction_id)
    new = [
        {"transaction_id": transaction_id, "name_hash": name_hash(name), "name": name, "location": location}
        for name, location in own.items()
        if name not in known
    ]
    if new:
        connection.execute(sa.insert(transaction_locations), new)


def forget_locations(connection: sa.Connection, transaction_id: str) -> None:
    """Remove what ``record_locations`` and ``keep_locations`` have kept: the transaction has ended."""
    _FORGET_LOCATIONS.run(connection, {"id": transaction_id})


_FORGET_LOCATIONS = Prepared(
    sa.delete(transaction_locations).where(transaction_locations.c.transaction_id == sa.bindparam("id"))
)


_STATE = Prepared(sa.select(transactions.c.state).where(transactions.c.transaction_id == sa.bindparam("id")))


def load_row(connection: sa.Connection, transaction_id: str, *, lock: bool = False) -> Mapping[str, Any]:
    """Return the transaction's row, and the database's time (``now_ms``); ``lock`` keeps all others from moving it.

    Raises:
        TransactionNotFoundError: There is none.
        IndexNotAtHeadError: The index has been migrated since this process has opened it.
    """
    return _usable(_find_row(connection, transaction_id, lock=lock), transaction_id)


def _usable(row: Mapping[str, Any] | None, transaction_id: str) -> Mapping[str, Any]:
    if row is None:
        raise TransactionNotFoundError(
            f"The index has no transaction {transaction_id[:64]!r}: it never was, or vacuum has removed it.",
            {"transaction": transaction_id[:64]},
        )
    require_same(row["revision"])
    return row


def ask_locked_row(connection: sa.Connection, transaction_id: str) -> Callable[[], Mapping[str, Any]]:
    """Ask for the transaction's row as ``load_row`` with a lock; what is returned gives it, or raises what that does.

    It may be sent with others (``together``).
    """
    asked = _LOCKED_ROW.asked(connection, {"id": transaction_id})

    def answer() -> Mapping[str, Any]:
        (row,) = asked() or (None,)
        return _usable(row, transaction_id)

    return answer


def _find_row(connection: sa.Connection, transaction_id: str, *, lock: bool = False) -> Mapping[str, Any] | None:
    return (_LOCKED_ROW if lock else _ROW).row(connection, {"id": transaction_id})


def _row_statement(dialect: str, *, lock: bool) -> sa.Select[Any]:
    now = database_now_ms(dialect).scalar_subquery()
    mine = transactions.c.transaction_id == sa.bindparam("id")
    statement = sa.select(transactions, now.label("now_ms"), revision_column().label("revision")).where(mine)
    return statement.with_for_update() if lock else statement


def _with_table(dialect: str) -> sa.Select[Any]:
    row = _row_statement(dialect, lock=False)
    of_table = [column.label(f"{_OF_TABLE}{column.name}") for column in tables.c]
    of_table.append(namespaces.c.name.label(f"{_OF_TABLE}namespace"))
    joined = transactions.outerjoin(tables, tables.c.table_id == transactions.c.table_id)
    joined = joined.outerjoin(namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
    return row.add_columns(*of_table).select_from(joined)


_OF_TABLE = "of_table_"
_ROW = Prepared(partial(_row_statement, lock=False))
_LOCKED_ROW = Prepared(partial(_row_statement, lock=True))
_WITH_TABLE = Prepared(_with_table)


@cache
def _listed(asked: frozenset[str], *, expired: bool) -> Prepared:
    return Prepared(partial(_list_statement, asked=asked, expired=expired))


def _list_statement(dialect: str, *, asked: frozenset[str], expired: bool) -> sa.Select[Any]:
    t = transactions.c
    statement = sa.select(transactions).order_by(t.began_at_ms.desc(), t.transaction_id.desc())
    if "table_id" in asked:
        statement = statement.where(t.table_id == sa.bindparam("table_id"))
    if "states" in asked:
        statement = statement.where(t.state.in_(sa.bindparam("states", expanding=True)))
    if expired:
        statement = statement.where(t.expires_at_ms < database_now_ms(dialect).scalar_subquery())
    return statement.limit(sa.bindparam("limit")) if "limit" in asked else statement


def wrong_state(row: Mapping[str, Any], what: str) -> TransactionStateError:
    """Return the error that says that a transaction cannot do this any more."""
    state = row["state"]
    undone = state in (State.ABORTING, State.ABORTED)
    why = (
        f" It was undone{': ' + row['error'] if row['error'] else ', as when its lease is over'}. Run the statement "
        "again; a longer transaction.lease keeps slow writers from being taken for dead."
        if undone
        else ""
    )
    return TransactionStateError(
        f"The transaction {row['transaction_id']} on table {row['table_name']} is {state} and cannot {what}.{why}",
        {"transaction": row["transaction_id"], "table": row["table_name"], "state": state},
    )


@cache
def _moved(*, ends: bool, fails: bool) -> Prepared:
    return Prepared(partial(_move_statement, ends=ends, fails=fails))


def _move_statement(dialect: str, *, ends: bool, fails: bool) -> sa.Update:
    t = transactions.c
    values: dict[str, Any] = {"state": sa.bindparam("to")}
    if ends:
        values["ended_at_ms"] = database_now_ms(dialect).scalar_subquery()
    if fails:
        values["error"] = sa.bindparam("why")
    from_ = t.state.in_(sa.bindparam("from", expanding=True))
    return sa.update(transactions).where(t.transaction_id == sa.bindparam("id"), from_).values(**values)


def _of_one(rows: sa.Table, *, unless_moving: bool) -> Prepared:
    """Return the statement that deletes a transaction's rows; of a partition command that moves files perhaps none."""
    t = transactions.c
    id_: sa.BindParameter[str] = sa.bindparam("id")
    statement = sa.delete(rows).where(rows.c.transaction_id == id_)
    moves = sa.exists().where(t.transaction_id == id_, t.plan.like(MOVES))
    return Prepared(statement.where(~moves) if unless_moving else statement)


_END_CLAIMS = _of_one(transaction_claims, unless_moving=False)
_END_CLAIMS_UNLESS_MOVING = _of_one(transaction_claims, unless_moving=True)
_FORGET_FILES_UNLESS_MOVING = _of_one(transaction_files, unless_moving=True)


def application(connection: sa.Connection, table_id: int, app_id: str) -> ApplicationVersion | None:
    """Return the same as ``find_application``, within a transaction."""
    row = _APPLICATION.row(connection, {"table_id": table_id, "app_hash": name_hash(app_id)})
    return None if row is None else ApplicationVersion(row["app_version"], row["version"], row["transaction_id"])


_APPLICATION = Prepared(
    sa.select(applications.c.app_version, applications.c.version, applications.c.transaction_id).where(
        applications.c.table_id == sa.bindparam("table_id"), applications.c.app_hash == sa.bindparam("app_hash")
    )
)


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


_UNCOMMITTED = Prepared(_uncommitted())


def _moving() -> sa.CompoundSelect[Any]:
    t, f = transactions.c, transaction_files.c
    command = sa.select(transactions).where(t.plan.like(MOVES))
    staged = sa.select(f.transaction_id).where(f.removal == 0)
    # By an expression, which has no index: those that have ended are to be found by their lists.
    ended = sa.func.coalesce(t.state, "").in_(sa.bindparam("ended", expanding=True))
    return sa.union_all(
        command.where(t.state.in_(sa.bindparam("in_flight", expanding=True))),
        command.where(ended, t.transaction_id.in_(staged)),
    )


_MOVING = Prepared(_moving())


@dataclass(frozen=True, slots=True)
class AtWork:
    """What hardly ever is, and makes a listing of a table's directories one of a moment.

    Attributes:
        cleans: Whether a committed write, of any table, may still have to delete what it has replaced.
        moves: Whether ``moving_commands`` has one, of any table, that is not committed.
    """

    cleans: bool
    moves: bool


def _at_work() -> sa.Select[Any]:
    t, f = transactions.c, transaction_files.c
    moves = t.plan.like(MOVES)
    staged = sa.select(f.transaction_id).where(f.removal == 0)
    going = sa.exists().where(moves, t.state.in_([str(State.RESERVED), str(State.ABORTING)]))
    # As in ``_moving``.
    undone = sa.exists().where(moves, sa.func.coalesce(t.state, "") == str(State.ABORTED), t.transaction_id.in_(staged))
    cleans = sa.exists().where(t.state == str(State.COMMITTED))
    columns = {"cleans": cleans, "moves": sa.or_(going, undone)}
    return sa.select(*(sa.case((is_so, 1), else_=0).label(name) for name, is_so in columns.items()))


_AT_WORK = Prepared(_at_work())


_RELOCATIONS = Prepared(
    sa.select(transactions.c.version).where(
        transactions.c.table_id == sa.bindparam("table_id"),
        transactions.c.version.is_not(None),
        transactions.c.plan.like('%"relocate":true%'),
    )
)
