"""The write transactions of an index. Each change of a state is made only in the expected previous state."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.plan import Create
from catalog_ext.metastore.commit.transaction import PlannedFormat, State, Transaction
from catalog_ext.metastore.errors import ConflictError, IndexDatabaseError, InvalidInputError
from catalog_ext.metastore.index.database.clock import NOW_MS, now_ms
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.prepared import Prepared, together
from catalog_ext.metastore.index.database.rows import table_from_row
from catalog_ext.metastore.index.database.schema import tables, transaction_locations, transactions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.tables.table_rows import find_relation
from catalog_ext.metastore.index.write import transaction_rows as rows
from catalog_ext.metastore.index.write.outbox import ascii_safe
from catalog_ext.metastore.model.identifiers import TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from catalog_ext.metastore.model.tables import Table


_BEFORE_COMMIT = (State.OPEN, State.RESERVED, State.ABORTING)
_ERROR_LENGTH = 4000

_TABLE_ROW = (
    sa.select(tables.c.location, tables.c.format, tables.c.options, NOW_MS.label("now_ms"))
    .where(tables.c.table_id == sa.bindparam("table_id"))
    .with_for_update(read=True, of=tables)
)
_DEAD = sa.select(transactions.c.transaction_id).where(
    transactions.c.state.in_([str(state) for state in rows.IN_FLIGHT]), transactions.c.expires_at_ms < NOW_MS
)
_TABLE = Prepared(_TABLE_ROW)
_TABLE_AND_DEAD = Prepared(_TABLE_ROW.add_columns(_DEAD.limit(1).scalar_subquery().label("dead")))


class DeadWritersError(Exception):
    """Raised by ``begin`` if a writer's lease is over: the caller must recover that transaction and begin again."""


def replaced_meanwhile(table: str) -> ConflictError:
    """Return the error for a statement that creates a table whose name has been given to another table since."""
    return ConflictError(
        f"The table {table} was created, replaced, renamed or dropped by another statement since this one looked at "
        "it. Nothing was written; run the statement again.",
        {"table": table},
    )


def _same_request(known: Transaction, asked: Transaction) -> Transaction:
    """Return the stored transaction if the repeated request is about the same write.

    Raises:
        InvalidInputError: The transaction with this id is another write.
    """
    of_both = [(each.table, each.operation, each.plan.asked.kind) for each in (known, asked)]
    if of_both[0] != of_both[1]:
        raise InvalidInputError(
            f"The transaction {known.transaction_id} is a write to table {known.table} ({known.operation}): begin this "
            "one with an id of its own.",
            {"transaction": known.transaction_id, "table": known.table},
        )
    return known


def _check_table(
    connection: sa.Connection, transaction: Transaction, planned: PlannedFormat | None, *, looks: bool
) -> int | None:
    """Check that the table still has the planned location and format; return the database's time.

    Returns None if the table is gone: the reservation reports this.

    Raises:
        DeadWritersError: A writer's lease is over (only with ``looks``).
        ConflictError: The table's location or format has changed.
    """
    # The query locks the table's row: a concurrent change of location or format either commits before, and is seen
    # here, or waits, sees this transaction and is refused.
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
    changed_setting = planned and planned.changes(PlannedFormat(row["format"], json.loads(row["options"])))
    if changed_setting:
        raise ConflictError(
            f"The table {transaction.table} has changed since this statement was planned: "
            f"{changed_setting}. Nothing was written; run the statement again.",
            {"table": transaction.table},
        )
    return int(row["now_ms"])


def _insert(
    connection: sa.Connection, transaction: Transaction, replaced: int | None, planned: PlannedFormat | None, *,
    looks: bool,
) -> Transaction:  # fmt: skip
    """Insert the row of a transaction, dated by the database's clock, after checks of its table.

    Arguments and errors are those of ``IndexedTransactions.begin``.
    """
    replaces, now = None, None
    if transaction.plan.definition is not None:
        current = find_relation(connection, TableIdentifier.parse(transaction.table))
        replaces = None if current is None else current.table_id
        # Compare the number, not the name: another table may have got the name since, with the same version numbers.
        if replaces != replaced and not isinstance(transaction.plan.asked, Create):
            raise replaced_meanwhile(transaction.table)
    else:
        now = _check_table(connection, transaction, planned, looks=looks)
    if now is None:
        now = now_ms(connection)
    begun = replace(transaction, began_at_ms=now, expires_at_ms=now + transaction.plan.lease_ms)
    rows.INSERT.run(connection, {**rows.to_row(begun), "replaces": replaces})
    return begun


class IndexedTransactions(IndexPart):
    """Reads and changes the rows of transactions.

    A method that loads a transaction raises ``TransactionNotFoundError`` if there is no row (any more).
    """

    def begin(
        self, transaction: Transaction, replaced: int | None = None, planned: PlannedFormat | None = None, *,
        looks: bool = False,
    ) -> Transaction:  # fmt: skip
        """Insert the row of a new transaction and return it.

        The transaction and its lease begin now, by the database's clock. If the id exists, the existing transaction is
        returned: the writer repeats the call because it got no answer.

        Args:
            transaction: The transaction; its times are ignored.
            replaced: The number of the table that a creation found under its name, and that its plan refers to; None if
                it found no table.
            planned: The format of the write's files, if the write has files.
            looks: Whether to begin only if no writer's lease is over; not for a creation.

        Raises:
            DeadWritersError: A writer's lease is over. Nothing is changed.
            InvalidInputError: The transaction with this id writes another table.
            ConflictError: The table's location has changed since it was loaded, its format differs from the write's
                files, or another table has its name.
        """
        # Insert without looking the id up first: repeated calls are rare, and the database reports the duplicate.
        try:
            return self._database.write(
                lambda connection: _insert(connection, transaction, replaced, planned, looks=looks)
            )
        except (ConflictError, IndexDatabaseError) as error:
            if isinstance(error, IndexDatabaseError) and not (error.__cause__ and is_duplicate(error.__cause__)):
                raise
            # The call is a repetition: return the transaction of the first call, also if the table has changed since.
            with self._database.reading() as connection:
                row = rows.find_row(connection, transaction.transaction_id)
            if row is None:
                raise
            return _same_request(rows.from_row(row), transaction)

    def finish(self, transaction_id: str) -> bool:
        """Mark a committed transaction as finished, and remove its deletion list; return whether it was committed.

        Its end is set to now, after the last deletion: a registration that began before then compares its files with
        the store again.
        """
        return self.move(transaction_id, (State.COMMITTED,), State.FINISHED)

    def load(self, transaction_id: str) -> Transaction:
        """Return the transaction with this id."""
        with self._database.reading() as connection:
            return rows.with_locations(connection, rows.from_row(rows.load_row(connection, transaction_id)))

    def load_with_table(self, transaction_id: str) -> tuple[Transaction, Table | None]:
        """Return the transaction with this id, and its current table; None if it has no table, or the table is gone."""
        with self._database.reading() as connection:
            found: Any = connection.execute(rows.WITH_TABLE, {"id": transaction_id}).mappings()
            row = rows.usable(found.one_or_none(), transaction_id)
            table = {name.removeprefix(rows.OF_TABLE): row[name] for name in row if name.startswith(rows.OF_TABLE)}
            transaction = rows.with_locations(connection, rows.from_row(row))
        return transaction, None if table["table_id"] is None else table_from_row(table)

    def record_locations(self, transaction_id: str, own: Mapping[str, str]) -> dict[str, str]:
        """Store directories for an open transaction's partitions; return the valid ones. Earlier ones stay unchanged.

        Raises:
            TransactionStateError: The transaction is not open any more.
        """

        def work(connection: sa.Connection) -> dict[str, str]:
            rows.load_open_row(connection, transaction_id, "put files anywhere")
            a, hashes = transaction_locations.c, list(map(name_hash, own))
            mine = sa.select(a.name, a.location).where(a.transaction_id == transaction_id, a.name_hash.in_(hashes))
            known = {found.name: found.location for found in connection.execute(mine)}
            new = {name: place for name, place in own.items() if name not in known}
            rows.add_locations(connection, transaction_id, new)
            return {**own, **known}

        # Not durable: if the writer dies before the reservation, its files are only to be removed.
        return self._database.write(work, durable=False)

    def state_of(self, transaction_id: str) -> State | None:
        """Return the transaction's current state; None if it does not exist."""
        with self._database.reading() as connection:
            mine = sa.select(transactions.c.state).where(transactions.c.transaction_id == transaction_id)
            state = connection.execute(mine).scalar()
        return None if state is None else State(state)

    def while_in_state(self, transaction_id: str, state: State, work: Callable[[], object]) -> bool:
        """Run ``work`` while the transaction's row is locked in a state; in another state do nothing, return False.

        ``work`` must be short, and is called again if the database transaction is retried.
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
        self, table_id: int | None = None, *, states: Collection[State] | None = None, expired: bool = False,
        limit: int | None = None,
    ) -> list[Transaction]:  # fmt: skip
        """Return transactions, newest first; optionally of one table, in some states, or with an expired lease."""
        t = transactions.c
        statement = sa.select(transactions).order_by(t.began_at_ms.desc(), t.transaction_id.desc()).limit(limit)
        if table_id is not None:
            statement = statement.where(t.table_id == table_id)
        if states is not None:
            statement = statement.where(t.state.in_([str(state) for state in states]))
        if expired:
            statement = statement.where(t.expires_at_ms < NOW_MS)
        with self._database.reading() as connection:
            found: Any = connection.execute(statement).mappings().all()
            loaded = [rows.from_row(row) for row in found]
            return [rows.with_locations(connection, transaction) for transaction in loaded]

    def extend_lease(self, transaction_id: str, until_ms: int, *, undoing: bool = False) -> bool:
        """Extend the lease of a transaction in flight until ``until_ms``; return False if it is not in flight.

        A transaction that is being undone counts as in flight only with ``undoing``.
        """
        living = [str(state) for state in rows.IN_FLIGHT if undoing or state is not State.ABORTING]
        statement = (
            sa.update(transactions)
            .where(transactions.c.transaction_id == transaction_id, transactions.c.state.in_(living))
            .values(expires_at_ms=until_ms)
        )
        return self._database.change(statement, durable=False) == 1

    def claim_recovery(self, transaction: Transaction, until_ms: int) -> bool:
        """Extend the lease until ``until_ms`` for a recovery; return False if another process has extended it."""
        t = transactions.c
        statement = (
            sa.update(transactions)
            .where(t.transaction_id == transaction.transaction_id, t.expires_at_ms == transaction.expires_at_ms)
            .values(expires_at_ms=until_ms)
        )
        return self._database.change(statement) == 1

    def move(self, transaction_id: str, from_: Collection[State], to: State, *, error: str | None = None) -> bool:
        """Change the state of a transaction that is in one of the states ``from_``; return whether it was."""
        mine = {"id": transaction_id}
        moved: dict[str, Any] = {**mine, "from": [str(state) for state in from_], "to": str(to)}
        if error is not None:
            moved["why"] = ascii_safe(error)[:_ERROR_LENGTH]

        def work(connection: sa.Connection) -> bool:
            ends = to in (State.ABORTED, State.FINISHED)
            if rows.move_query(ends=ends, fails=error is not None).changed(connection, moved) != 1:
                return False
            if to in (State.ABORTING, State.ABORTED):
                # While a command is being undone, keep its claims: its files must be moved back first, and until then
                # no other writer may use the partitions.
                (rows.END_CLAIMS_UNLESS_MOVING if to is State.ABORTING else rows.END_CLAIMS).run(connection, mine)
            if ends:
                rows.forget_locations(connection, transaction_id)
                # Keep the file list of a command that moves files: a slow process may have died with one of the files,
                # and recovery must put that back too.
                rows.FORGET_FILES_UNLESS_MOVING.run(connection, mine)
            return True

        # The state FINISHED need not be durable: if it is lost in a power failure, the clean-up is repeated and finds
        # nothing to remove.
        return self._database.write(work, durable=to is not State.FINISHED)

    def suspect_reservation(self, transaction_id: str) -> None:
        """Mark an open transaction as reserved, because the index may have lost the reservation in a restart.

        If the transaction is undone, its files are then removed wherever they are, also under their final names.
        """

        def work(connection: sa.Connection) -> None:
            row = rows.load_row(connection, transaction_id, lock=True)
            if row["state"] == State.OPEN:
                mine = transactions.c.transaction_id == transaction_id
                connection.execute(sa.update(transactions).where(mine).values(reserved=1))

        self._database.write(work)

    def remember_undone(self, transaction: Transaction, error: str) -> Transaction:
        """Record a reserved transaction that the index has lost as ``aborting``, with the reason, and return it.

        From then on it is recovered like any other, and no repair registers its files. If the index has it as
        committed, it stays unchanged.
        """
        plan = transaction.plan
        asked = rows.to_row(replace(transaction, plan=replace(plan, locations={}) if plan.asks_locations else plan))
        undone = {"plan": asked["plan"], "error": ascii_safe(error)[:_ERROR_LENGTH], "reserved": 1}

        def work(connection: sa.Connection) -> Transaction:
            row = rows.find_row(connection, transaction.transaction_id, lock=True)
            if row is None:
                rows.INSERT.run(connection, {**asked, **undone, "state": str(State.ABORTING), "replaces": None})
            elif row["state"] == State.OPEN or not row["reserved"]:
                state = State.ABORTING if row["state"] == State.OPEN else row["state"]
                mine = transactions.c.transaction_id == transaction.transaction_id
                connection.execute(sa.update(transactions).where(mine).values(**undone, state=str(state)))
            if plan.asks_locations:
                rows.keep_locations(connection, transaction.transaction_id, plan.locations)
            return replace(rows.from_row(rows.load_row(connection, transaction.transaction_id)), plan=plan)

        return self._database.write(work)

    def find_application(self, table_id: int, app_id: str) -> rows.ApplicationVersion | None:
        """Return the newest committed batch of a streaming application in the table; None without one."""
        with self._database.reading() as connection:
            return rows.application(connection, table_id, app_id)

    def uncommitted_ids(self, table_id: int, version: int) -> dict[str, State]:
        """Return the transactions with files that are not visible at the version: uncommitted, undone or held back.

        Transactions of all tables that can still be undone or were undone, and transactions that create a table, are
        included: other tables may be at, in or around the same location, and a creation belongs to no table before its
        commit.

        A transaction that was never reserved is left out, because it has no visible files. If the store has some, the
        index was restored to a time before the reservation, and cannot know whether the transaction was committed.
        """
        with self._database.reading() as connection:
            found = connection.execute(rows.UNCOMMITTED, {"table_id": table_id, "version": version}).all()
        return {row.transaction_id: State(row.state) for row in found}

    def moving_commands(
        self, states: Collection[State] = (State.RESERVED, State.ABORTING, State.ABORTED)
    ) -> list[Transaction]:
        """Return the partition commands in these states that move files; by default, those that are not committed.

        Ended commands are included only if they still have a list of staged files. Only commands that move files keep
        it, so they are found by these lists: plans are long, and ended commands are many.
        """
        ended = [str(state) for state in states if state not in _BEFORE_COMMIT]
        in_flight = [str(state) for state in states if state in _BEFORE_COMMIT]
        with self._database.reading() as connection:
            found: Any = connection.execute(rows.MOVING, {"in_flight": in_flight, "ended": ended}).mappings().all()
        return [rows.from_row(row) for row in found]

    def at_work(self) -> rows.AtWork:
        """Return whether other processes may be deleting or moving files while this one lists directories."""
        with self._database.reading() as connection:
            row = connection.execute(rows.AT_WORK).one()
        return rows.AtWork(bool(row.cleans), bool(row.moves))
