"""Waiting files: staged files that a stream holds back until their partition is due."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.json import staged_file_from_dict
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import transactions, waiting_files
from catalog_ext.metastore.index.write.partition_rows import lock_table
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from catalog_ext.metastore.commit.staged_files import StagedFile


_ORIGINS_AT_ONCE = 500
_WAITING_AT_ONCE = 20
"""The most documents of waiting files that are held in memory at a time."""


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """Staged files of one partition, held back until it is due, and the transaction committed without them.

    Attributes:
        since_ms: The time since which they are held back, in milliseconds since the epoch, UTC.
    """

    transaction_id: str
    partition: str
    since_ms: int
    files: tuple[StagedFile, ...]


class WaitingLists(IndexPart):
    """Reads the lists of files that streams hold back until their partitions are due, and removes entries."""

    def tables(self) -> list[int]:
        """Return the numbers of the tables in which a stream holds back files until their partitions are due."""
        w = waiting_files.c
        with self._database.reading() as connection:
            return list(connection.execute(sa.select(w.table_id).distinct().order_by(w.table_id)).scalars())

    def discard(self, table_id: int, lost: Collection[tuple[str, str, str]]) -> int:
        """Remove files (transaction, partition, name) from the lists of held back files; return their number."""
        gone, origins = set(lost), sorted({transaction_id for transaction_id, _, _ in lost})
        w = waiting_files.c

        def work(connection: sa.Connection) -> int:
            # Lock the table: a concurrent commit that makes held back files visible either comes first, or no longer
            # finds the removed files.
            lock_table(connection, table_id, str(table_id))
            count = 0
            for some in batched(origins, _ORIGINS_AT_ONCE):
                statement = sa.select(waiting_files).where(w.table_id == table_id, w.transaction_id.in_(some))
                for row in connection.execute(statement).mappings().all():
                    count += _discard_from(connection, row, gone)
            return count

        return self._database.write(work)

    def all(self, table_id: int, app_id: str | None = None) -> Iterator[WaitingFiles]:
        """Yield the files that a table's streams, or one of them, hold back, by partition, some documents at a time."""
        w = waiting_files.c
        keys = (w.name_hash, w.transaction_id, w.number)
        after: tuple[Any, ...] | None = None
        while True:
            statement = sa.select(waiting_files).where(w.table_id == table_id).order_by(*keys).limit(_WAITING_AT_ONCE)
            if app_id is not None:
                statement = statement.join(transactions, transactions.c.transaction_id == w.transaction_id)
                statement = statement.where(transactions.c.app_id == app_id)
            if after is not None:
                last = [sa.literal(value, key.type) for value, key in zip(after, keys, strict=True)]
                # The condition on the first column alone is redundant, but MySQL and MariaDB use no index range for a
                # comparison of tuples.
                statement = statement.where(w.name_hash >= last[0], sa.tuple_(*keys) > sa.tuple_(*last))
            with self._database.reading() as connection:
                rows = connection.execute(statement).mappings().all()
            for row in rows:
                files = tuple(staged_file_from_dict(value) for value in json.loads(row["payload"]))
                yield WaitingFiles(row["transaction_id"], row["name"], row["since_ms"], files)
                after = (row["name_hash"], row["transaction_id"], row["number"])
            if len(rows) < _WAITING_AT_ONCE:
                return


def _discard_from(connection: sa.Connection, row: sa.RowMapping, gone: Collection[tuple[str, str, str]]) -> int:
    files = json.loads(row["payload"])
    left = [file for file in files if (row["transaction_id"], row["name"], file["name"]) not in gone]
    if len(left) == len(files):
        return 0
    w = waiting_files.c
    this = (
        w.table_id == row["table_id"], w.name_hash == row["name_hash"], w.transaction_id == row["transaction_id"],
        w.number == row["number"],
    )  # fmt: skip
    if left:
        connection.execute(sa.update(waiting_files).where(*this).values(payload=to_json(left), n_files=len(left)))
    else:
        connection.execute(sa.delete(waiting_files).where(*this))
    return len(files) - len(left)
