"""The rows of transactions: every step from one state to the next compares the state before it sets it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.json import (
    outcome_from_dict,
    outcome_to_dict,
    staged_file_from_dict,
    staged_file_to_dict,
)
from catalog_ext.metastore.commit.plan_json import plan_from_dict, plan_to_dict
from catalog_ext.metastore.commit.transaction import State, Transaction
from catalog_ext.metastore.errors import ConflictError, TransactionNotFoundError, TransactionStateError
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import (
    applications,
    namespaces,
    tables,
    transaction_claims,
    transaction_files,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.outbox import ascii_safe
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.index.database.database import Database

FILES_PER_DOCUMENT = 500
"""Staged files, or names of files to delete, in one row of ``transaction_files`` or ``waiting_files``."""

IN_FLIGHT = (State.OPEN, State.RESERVED, State.COMMITTED, State.ABORTING)
_ERROR_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class ApplicationVersion:
    """The newest batch of an application that a table has."""

    app_version: int
    version: int
    transaction_id: str


_WAITING_AT_ONCE = 20
"""Documents of waiting files that are held in memory."""


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """Staged files of one partition that wait for it to be due, of the transaction that was committed without them.

    Attributes:
        since_ms: When they were kept back.
    """

    transaction_id: str
    partition: str
    since_ms: int
    files: tuple[StagedFile, ...]


def begin(database: Database, transaction: Transaction) -> None:
    """Writes the row of a new transaction; of one that replaces a table, also which table that is now.

    Raises:
        ConflictError: The table's location has changed since it was loaded.
    """

    def work(connection: sa.Connection) -> None:
        replaces = None
        if transaction.plan.definition is not None:
            replaces = table_id_of(connection, TableIdentifier.parse(transaction.table))
        else:
            _check_location(connection, transaction)
        connection.execute(sa.insert(transactions), {**_to_row(transaction), "replaces": replaces})

    database.write(work)


def _check_location(connection: sa.Connection, transaction: Transaction) -> None:
    # Locked, so that an alteration of the location comes before this, or sees the transaction and is refused.
    statement = sa.select(tables.c.location).where(tables.c.table_id == transaction.table_id)
    now = connection.execute(statement.with_for_update(read=True)).scalar()
    if now is not None and now != transaction.plan.location:
        raise ConflictError(
            f"The location of table {transaction.table} has just changed from {transaction.plan.location} to {now}. "
            "Nothing was written; run the statement again.",
            {"table": transaction.table},
        )


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
    )


def load(database: Database, transaction_id: str) -> Transaction:
    """Return the transaction of this id.

    Raises:
        TransactionNotFoundError: There is none, or vacuum has forgotten it.
    """
    with database.reading() as connection:
        return from_row(load_row(connection, transaction_id))


def load_row(connection: sa.Connection, transaction_id: str, *, lock: bool = False) -> Mapping[str, Any]:
    """Return the transaction's row; ``lock`` keeps everybody else from moving it."""
    statement = sa.select(transactions).where(transactions.c.transaction_id == transaction_id)
    row = connection.execute(statement.with_for_update() if lock else statement).mappings().one_or_none()
    if row is None:
        raise TransactionNotFoundError(
            f"The index has no transaction {transaction_id[:64]!r}: it never was, or vacuum has removed it.",
            {"transaction": transaction_id[:64]},
        )
    return dict(row)


def list_all(
    database: Database,
    table_id: int | None,
    *,
    states: Collection[State] | None,
    expired_before_ms: int | None,
    limit: int | None,
) -> list[Transaction]:
    """Transactions, newest first."""
    t = transactions.c
    statement = sa.select(transactions).order_by(t.began_at_ms.desc(), t.transaction_id.desc()).limit(limit)
    if table_id is not None:
        statement = statement.where(t.table_id == table_id)
    if states is not None:
        statement = statement.where(t.state.in_([str(s) for s in states]))
    if expired_before_ms is not None:
        statement = statement.where(t.expires_at_ms < expired_before_ms)
    with database.reading() as connection:
        return [from_row(dict(row)) for row in connection.execute(statement).mappings()]


def extend_lease(database: Database, transaction_id: str, until_ms: int) -> bool:
    """Return whether the transaction is in flight; its lease then lasts until ``until_ms``."""
    statement = (
        sa.update(transactions)
        .where(transactions.c.transaction_id == transaction_id, transactions.c.state.in_([str(s) for s in IN_FLIGHT]))
        .values(expires_at_ms=until_ms)
    )
    return database.write(lambda connection: connection.execute(statement).rowcount == 1)


def record_files(database: Database, transaction_id: str, files: Sequence[StagedFile]) -> None:
    """Adds to the list of the files that an open transaction has staged.

    Raises:
        TransactionNotFoundError: There is no such transaction.
        TransactionStateError: It is not open any more.
    """
    documents = [to_json([staged_file_to_dict(f) for f in chunk]) for chunk in batched(files, FILES_PER_DOCUMENT)]

    def work(connection: sa.Connection) -> None:
        row = load_row(connection, transaction_id, lock=True)
        if row["state"] != State.OPEN:
            raise wrong_state(row, "take more files")
        counts = [len(chunk) for chunk in batched(files, FILES_PER_DOCUMENT)]
        add_documents(connection, transaction_id, zip(counts, documents, strict=True), removal=False)

    database.write(work)


def add_documents(
    connection: sa.Connection, transaction_id: str, documents: Iterable[tuple[int, str]], *, removal: bool
) -> None:
    """Appends rows (count and JSON text) to ``transaction_files``."""
    t = transaction_files.c
    last = connection.execute(sa.select(sa.func.max(t.number)).where(t.transaction_id == transaction_id)).scalar()
    start = 0 if last is None else last + 1
    rows = [
        {
            "transaction_id": transaction_id,
            "number": number,
            "removal": int(removal),
            "n_files": count,
            "payload": payload,
        }
        for number, (count, payload) in enumerate(documents, start=start)
    ]
    if rows:
        connection.execute(sa.insert(transaction_files), rows)


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


def staged_count(database: Database, transaction_id: str) -> int:
    """Return how many files the transaction has staged and not yet committed."""
    t = transaction_files.c
    statement = sa.select(sa.func.coalesce(sa.func.sum(t.n_files), 0)).where(
        t.transaction_id == transaction_id, t.removal == 0
    )
    with database.reading() as connection:
        return int(connection.execute(statement).scalar_one())


def staged_files(database: Database, transaction_id: str) -> Iterator[StagedFile]:
    """Yield the staged files in the order in which they were recorded, a document at a time."""
    for payload in _documents(database, transaction_id, removal=False):
        for value in json.loads(payload):
            yield staged_file_from_dict(value)


def removals(database: Database, transaction_id: str) -> Iterator[str]:
    """Yield the absolute URIs of the files that a committed transaction still has to delete, a document at a time."""
    for payload in _documents(database, transaction_id, removal=True):
        yield from json.loads(payload)


def _documents(database: Database, transaction_id: str, *, removal: bool) -> Iterator[str]:
    after: int | None = -1
    while after is not None:
        with database.reading() as connection:
            number, payload = next_document(connection, transaction_id, after, removal=removal)
        if payload is not None:
            yield payload
        after = number


def next_document(
    connection: sa.Connection, transaction_id: str, after: int, *, removal: bool
) -> tuple[int | None, str | None]:
    """Return the number and text of the next row of ``transaction_files``, or None twice."""
    t = transaction_files.c
    statement = (
        sa.select(t.number, t.payload)
        .where(t.transaction_id == transaction_id, t.number > after, t.removal == int(removal))
        .order_by(t.number)
        .limit(1)
    )
    row = connection.execute(statement).one_or_none()
    return (None, None) if row is None else (row.number, row.payload)


def staged_within(connection: sa.Connection, transaction_id: str) -> Iterator[Mapping[str, Any]]:
    """Yield the staged files as JSON values, within a transaction."""
    after: int | None = -1
    while after is not None:
        after, payload = next_document(connection, transaction_id, after, removal=False)
        if payload is not None:
            yield from json.loads(payload)


def move(database: Database, transaction_id: str, from_: Collection[State], to: State, *, error: str | None) -> bool:
    """Return whether the transaction was in one of the states and now is in the other."""
    values: dict[str, Any] = {"state": str(to)}
    if to is State.ABORTED:
        values["ended_at_ms"] = now_ms()
    if error is not None:
        values["error"] = ascii_safe(error)[:_ERROR_LENGTH]
    statement = (
        sa.update(transactions)
        .where(transactions.c.transaction_id == transaction_id, transactions.c.state.in_([str(s) for s in from_]))
        .values(**values)
    )

    def work(connection: sa.Connection) -> bool:
        if connection.execute(statement).rowcount != 1:
            return False
        if to in (State.ABORTING, State.ABORTED):
            connection.execute(
                sa.delete(transaction_claims).where(transaction_claims.c.transaction_id == transaction_id)
            )
        if to in (State.ABORTED, State.FINISHED):
            _drop_files(connection, transaction_id)
        return True

    return database.write(work)


def _drop_files(connection: sa.Connection, transaction_id: str) -> None:
    connection.execute(sa.delete(transaction_files).where(transaction_files.c.transaction_id == transaction_id))


def find_application(database: Database, table_id: int, app_id: str) -> ApplicationVersion | None:
    """Return the newest committed batch of the application in the table."""
    with database.reading() as connection:
        return application(connection, table_id, app_id)


def application(connection: sa.Connection, table_id: int, app_id: str) -> ApplicationVersion | None:
    """``find_application`` within a transaction."""
    a = applications.c
    statement = sa.select(a.app_version, a.version, a.transaction_id).where(
        a.table_id == table_id, a.app_hash == name_hash(app_id)
    )
    row = connection.execute(statement).one_or_none()
    return None if row is None else ApplicationVersion(row.app_version, row.version, row.transaction_id)


def uncommitted_ids(database: Database, table_id: int, version: int) -> dict[str, State]:
    """Return the transactions whose files the version does not show, in whole (or, while files wait, in part)."""
    t = transactions.c
    not_shown = sa.and_(t.table_id == table_id, sa.or_(t.version.is_(None), t.version > version))
    waiting = (
        sa.select(t.transaction_id, t.state)
        .join(waiting_files, waiting_files.c.transaction_id == t.transaction_id)
        .where(waiting_files.c.table_id == table_id)
    )
    with database.reading() as connection:
        rows = connection.execute(sa.select(t.transaction_id, t.state).where(not_shown).union(waiting)).all()
    return {row.transaction_id: State(row.state) for row in rows}


def relocations(database: Database, table_id: int) -> set[int]:
    """Return the versions that relocating overwrites have made."""
    t = transactions.c
    statement = sa.select(t.version).where(
        t.table_id == table_id, t.version.is_not(None), t.plan.like('%"relocate":true%')
    )
    with database.reading() as connection:
        return set(connection.execute(statement).scalars())


def waiting_tables(database: Database) -> list[int]:
    """Return the numbers of the tables that have waiting files."""
    w = waiting_files.c
    with database.reading() as connection:
        return list(connection.execute(sa.select(w.table_id).distinct().order_by(w.table_id)).scalars())


def waiting(database: Database, table_id: int, app_id: str | None) -> Iterator[WaitingFiles]:
    """Yield the waiting files of a table, or of one application in it, by partition, some documents at a time."""
    w = waiting_files.c
    keys = (w.name_hash, w.transaction_id, w.number)
    after: tuple[Any, ...] | None = None
    while True:
        statement = sa.select(waiting_files).where(w.table_id == table_id).order_by(*keys).limit(_WAITING_AT_ONCE)
        if app_id is not None:
            statement = statement.join(transactions, transactions.c.transaction_id == w.transaction_id)
            statement = statement.where(transactions.c.app_id == app_id)
        if after is not None:
            hashed, transaction_id, number = after
            statement = statement.where(
                sa.or_(
                    w.name_hash > hashed,
                    sa.and_(w.name_hash == hashed, w.transaction_id > transaction_id),
                    sa.and_(w.name_hash == hashed, w.transaction_id == transaction_id, w.number > number),
                )
            )
        with database.reading() as connection:
            rows = connection.execute(statement).mappings().all()
        for row in rows:
            files = tuple(staged_file_from_dict(value) for value in json.loads(row["payload"]))
            yield WaitingFiles(row["transaction_id"], row["name"], row["since_ms"], files)
            after = (row["name_hash"], row["transaction_id"], row["number"])
        if len(rows) < _WAITING_AT_ONCE:
            return
