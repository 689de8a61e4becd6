"""The file lists of transactions: staged files (written, but not visible yet), and files to be deleted."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.json import staged_file_from_dict, staged_file_to_dict
from catalog_ext.metastore.errors import InvalidInputError, StagedFileMissingError
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.prepared import Prepared, insert_rows
from catalog_ext.metastore.index.database.schema import transaction_files
from catalog_ext.metastore.index.write.transaction_rows import load_open_row
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.json import JsonObject


FILES_PER_DOCUMENT = 500
"""The most staged files, or files to delete, in one row of ``transaction_files`` or ``waiting_files``."""

_COLUMNS = ("transaction_id", "number", "removal", "n_files", "payload")


class TransactionFiles(IndexPart):
    """Reads and writes the lists of files that transactions have staged."""

    def record(self, transaction_id: str, files: Sequence[StagedFile], recorded: int | None = None) -> None:
        """Add files to the list of the files that an open transaction has staged.

        Args:
            transaction_id: The transaction.
            files: The files.
            recorded: The number of files that the writer had recorded before this call. If the call is repeated after a
                lost answer, the files are then not recorded twice. None if the writer never repeats a call.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is not open any more.
            StagedFileMissingError: The index lost files that were recorded before.
            InvalidInputError: The call is repeated with other files.
        """

        def work(connection: sa.Connection) -> None:
            row = load_open_row(connection, transaction_id, "take more files")
            if recorded is not None:
                there = _count(connection, transaction_id)
                if there >= recorded + len(files):
                    known = islice(staged_within(connection, transaction_id), recorded, recorded + len(files))
                    if list(known) != list(files):
                        raise other_files(transaction_id, row["table_name"])
                    return
                check_remembered(there, recorded, row["table_name"])
            add_files(connection, transaction_id, files)

        # Not durable: the transaction's reservation makes the list durable. If the writer dies before, its files are
        # only to be removed.
        self._database.write(work, durable=False)

    def replace(self, transaction_id: str, files: Sequence[StagedFile]) -> None:
        """Replace the recorded staged files of an open transaction by these.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is not open any more.
        """

        def work(connection: sa.Connection) -> None:
            load_open_row(connection, transaction_id, "take more files")
            FORGET_STAGED.run(connection, {"id": transaction_id})
            add_files(connection, transaction_id, files, none_before=True)

        self._database.write(work, durable=False)

    def staged_count(self, transaction_id: str) -> int:
        """Return the number of files in the transaction's list of staged files."""
        with self._database.reading() as connection:
            return _count(connection, transaction_id)

    def staged_files(self, transaction_id: str) -> Iterator[StagedFile]:
        """Yield the staged files in the order in which they were recorded, a document at a time."""
        for payload in documents(self._database, transaction_id, removal=False):
            yield from map(staged_file_from_dict, json.loads(payload))


def documents(database: Database, transaction_id: str, *, removal: bool) -> Iterator[str]:
    """Yield the JSON documents of a transaction's staged files, or of its files to delete, read one by one."""
    yield from _documents(database.reading, transaction_id, removal=removal)


def other_files(transaction_id: str, table: str) -> InvalidInputError:
    """Return the error for a repeated request that sends other files."""
    return InvalidInputError(
        f"The transaction {transaction_id} on table {table} has got other files in the place of these: a request "
        "that is repeated must bring the same ones. Those of the first stay.",
        {"transaction": transaction_id, "table": table},
    )


def check_remembered(count: int, total: int, table: str) -> None:
    """Check that the index has as many files as the writer has staged.

    Raises:
        StagedFileMissingError: The index has another number of files.
    """
    if count != total:
        raise StagedFileMissingError(
            f"The index remembers {count} of the {total} files that the write of table {table} has staged: its "
            "database was restarted and has lost the last of them. Nothing was written; run the statement again.",
            {"table": table, "count": str(total - count)},
        )


def add_files(
    connection: sa.Connection, transaction_id: str, files: Sequence[StagedFile], *, none_before: bool = False
) -> None:
    """Append staged files to ``transaction_files``; ``none_before`` says that the transaction has no rows there."""
    chunks = batched(files, FILES_PER_DOCUMENT)
    documents = ((len(chunk), to_json([staged_file_to_dict(file) for file in chunk])) for chunk in chunks)
    add_documents(connection, transaction_id, documents, removal=False, none_before=none_before)


def add_documents(
    connection: sa.Connection, transaction_id: str, documents: Iterable[tuple[int, str]], *, removal: bool,
    none_before: bool = False,
) -> None:  # fmt: skip
    """Append documents (file count and JSON text) to ``transaction_files``.

    ``none_before`` says that the transaction has no rows there, which saves a query.
    """
    last: int | None = None
    if not none_before:
        last = _LAST.scalar(connection, {"id": transaction_id})
    start = 0 if last is None else last + 1
    rows = [
        (transaction_id, number, int(removal), count, payload)
        for number, (count, payload) in enumerate(documents, start=start)
    ]
    insert_rows(connection, transaction_files, _COLUMNS, rows)


def _count(connection: sa.Connection, transaction_id: str) -> int:
    return int(_STAGED.scalar(connection, {"id": transaction_id}))


FORGET_STAGED = Prepared(
    sa.delete(transaction_files).where(
        transaction_files.c.transaction_id == sa.bindparam("id"), transaction_files.c.removal == 0
    )
)
"""The statement that deletes a transaction's documents of staged files."""

_MINE = transaction_files.c.transaction_id == sa.bindparam("id")
_LAST = Prepared(sa.select(sa.func.max(transaction_files.c.number).label("number")).where(_MINE))
_STAGED = Prepared(
    sa.select(sa.func.coalesce(sa.func.sum(transaction_files.c.n_files), 0).label("n_files")).where(
        _MINE, transaction_files.c.removal == 0
    )
)


def _documents(
    reading: Callable[[], AbstractContextManager[sa.Connection]], transaction_id: str, *, removal: bool
) -> Iterator[str]:
    asked: dict[str, Any] = {"id": transaction_id, "removes": int(removal), "after": -1}
    while True:
        with reading() as connection:
            row = _NEXT_DOCUMENT.row(connection, asked)
        if row is None:
            return
        yield row["payload"]
        if row["number"] == row["last"]:
            return
        asked["after"] = row["number"]


_F = transaction_files.c
_OF_KIND = (_MINE, _F.removal == sa.bindparam("removes"))
_LAST_OF_KIND = sa.select(sa.func.max(_F.number)).where(*_OF_KIND).correlate(None).scalar_subquery()
_NEXT_DOCUMENT = Prepared(
    sa.select(_F.number, _F.payload, _LAST_OF_KIND.label("last"))
    .where(*_OF_KIND, _F.number > sa.bindparam("after"))
    .order_by(_F.number)
    .limit(1)
)

ANY_STAGED = Prepared(sa.select(_F.number).where(_MINE, _F.removal == 0).limit(1))
"""The query that finds out whether a transaction has staged files."""


def staged_within(connection: sa.Connection, transaction_id: str) -> Iterator[StagedFile]:
    """Yield a transaction's staged files, within a database transaction."""
    yield from map(staged_file_from_dict, _staged_values(connection, transaction_id))


def staged_names(connection: sa.Connection, transaction_id: str) -> Iterator[tuple[str, str]]:
    """Yield the partition and name of each staged file, within a database transaction, without parsing statistics."""
    yield from ((value["partition"], value["name"]) for value in _staged_values(connection, transaction_id))


def _staged_values(connection: sa.Connection, transaction_id: str) -> Iterator[JsonObject]:
    for payload in documents_within(connection, transaction_id, removal=False):
        yield from json.loads(payload)


def documents_within(connection: sa.Connection, transaction_id: str, *, removal: bool) -> Iterator[str]:
    """Yield the JSON documents of staged files, or of files to delete, within a database transaction."""
    yield from _documents(lambda: nullcontext(connection), transaction_id, removal=removal)
