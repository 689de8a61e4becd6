"""Staged files that wait for their partition to be due."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.json import staged_file_from_dict
from catalog_ext.metastore.index.database.schema import transactions, waiting_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.index.database.database import Database


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
