"""What the versions of a table say: its history, the files that each one added, and what only old ones still need."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import StreamChangedError, TableNotFoundError
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    PARTITION_NUMBER_BITS,
    file_statistics,
    files,
    namespaces,
    partitions,
    table_versions,
    tables,
    transaction_claims,
    transaction_files,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.reader import PLAN_SCHEMA, raw, version_expired
from catalog_ext.metastore.index.write.claims import forget_claims
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

_COUNT = pa.int64()
_TIME = pa.timestamp("ms", tz="UTC")

CHANGES_SCHEMA = pa.schema([
    *PLAN_SCHEMA,
    pa.field("version", _COUNT, nullable=False),
    pa.field("position", _COUNT, nullable=False),
])  # fmt: skip
"""One row a file that a version added: ``tables/changes`` of the service contract."""

_COUNTS = (
    "partitions_added", "partitions_removed", "partitions_changed", "files_added", "files_removed", "rows", "bytes",
)  # fmt: skip
HISTORY_SCHEMA = pa.schema([
    pa.field("version", _COUNT, nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("committed_ms", _TIME, nullable=False),
    pa.field("transaction", pa.string()),
    *(pa.field(name, _COUNT) for name in _COUNTS),
    pa.field("summary", pa.string(), nullable=False),
])  # fmt: skip
"""One row a version: the metadata table ``history``."""

TRANSACTIONS_SCHEMA = pa.schema([
    pa.field("transaction", pa.string(), nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("state", pa.string(), nullable=False),
    pa.field("owner", pa.string(), nullable=False),
    pa.field("began_ms", _TIME, nullable=False),
    pa.field("expires_ms", _TIME, nullable=False),
    pa.field("ended_ms", _TIME),
    pa.field("base_version", _COUNT, nullable=False),
    pa.field("version", _COUNT),
    pa.field("app_id", pa.string()),
    pa.field("app_version", _COUNT),
    pa.field("files", _COUNT),
    pa.field("error", pa.string()),
])  # fmt: skip
"""One row a transaction: the metadata table ``transactions``."""

ENDED_SCHEMA = pa.schema([
    pa.field("uri", pa.string(), nullable=False),
    pa.field("size", _COUNT, nullable=False),
    pa.field("ended_version", _COUNT, nullable=False),
    pa.field("ended_ms", _COUNT, nullable=False),
])  # fmt: skip
"""One row a file that no kept version needs: what ``vacuum`` deletes, unless somebody has written it again since it
ended (``ended_ms``: milliseconds since the epoch, UTC)."""

_PAGE = 5000
_NAMES_AT_ONCE = 500


class Removals(StrEnum):
    """Says what becomes of versions that removed files, whose rows a reader of the changes has seen."""

    IGNORE = "ignore"
    """They tell what they added, as others do."""
    REFUSE = "refuse"
    SKIP = "skip"
    """They are passed over, with what they added."""


def changes(
    database: Database, table_id: int, after: int, upto: int, removals: Removals = Removals.IGNORE
) -> pa.RecordBatchReader:
    """Return the files that the versions above ``after`` up to ``upto`` added, in order (``CHANGES_SCHEMA``).

    Raises:
        TableNotFoundError: The table is gone.
        VersionExpiredError: Vacuum has forgotten one of the versions.
        StreamChangedError: A version removed files, which ``removals`` refuses.
    """
    first_file = _require_whole(database, table_id, after, upto)
    removing = {} if removals is Removals.IGNORE else _removing(database, table_id, after, upto)
    if removing and removals is Removals.REFUSE:
        raise _stream_changed(database, table_id, *min(removing.items()))
    statement = changes_statement(table_id, after, upto, first_file)

    def check() -> None:
        _require_whole(database, table_id, after, upto)

    return arrow_rows.stream(database, statement, CHANGES_SCHEMA, _Positions(removing).step, check)


def _removing(database: Database, table_id: int, after: int, upto: int) -> dict[int, str]:
    """Return the operations of the versions above ``after`` up to ``upto`` that removed files."""
    v = table_versions.c
    statement = sa.select(v.version, v.operation, v.summary).where(
        v.table_id == table_id, v.version > after, v.version <= upto
    )
    with database.reading() as connection:
        rows = connection.execute(statement).all()
    return {row.version: row.operation for row in rows if json.loads(row.summary).get("files_removed")}


def _stream_changed(database: Database, table_id: int, version: int, operation: str) -> StreamChangedError:
    statement = (
        sa.select(namespaces.c.name.label("namespace"), tables.c.name)
        .join_from(tables, namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
        .where(tables.c.table_id == table_id)
    )
    with database.reading() as connection:
        row = connection.execute(statement).one_or_none()
    table = f"{row.namespace}.{row.name}" if row else f"with the id {table_id}"
    return StreamChangedError(
        f"Version {version} of table {table} ({operation}) removed files, and a stream that has read their rows cannot "
        "take them back. Set the option 'skipChangeCommits' to true to pass over versions that remove files, those "
        "that replace them by others too; or start the query with a new checkpoint.",
        {"table": table, "version": str(version), "operation": operation},
    )


def changes_statement(table_id: int, after: int, upto: int, first_file: int | None) -> sa.Select[Any]:
    """Return the query of ``changes``.

    ``first_file`` is the lowest number that a file of them can have, where it is known.
    """
    p, f = partitions.c, files.c
    in_range = [p.begin_version > after, p.begin_version <= upto]
    if first_file is not None:
        # Numbers are given out in order: the primary key passes over what a partition had before.
        in_range.append(f.file_id >= first_file)
    return (
        sa.select(
            p.partition_id, raw(p.name), raw(p.location), raw(f.path), f.size, f.modified_ms, f.n_rows,
            f.begin_version, f.file_id,
        )
        .select_from(partitions.join(files, f.partition_id == p.partition_id))
        .where(p.table_id == table_id, f.begin_version == p.begin_version, *in_range)
        .order_by(f.begin_version, f.file_id)
    )  # fmt: skip


class _Positions:
    """Replaces the number of each file by its place among those of its version; leaves out versions passed over."""

    def __init__(self, skipped: Collection[int]) -> None:
        self._skipped = pa.array(sorted(skipped), _COUNT)
        self._version = -1
        self._next = 0

    def step(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        places: list[int] = []
        for version in batch.column("version").to_pylist():
            if version != self._version:
                self._version, self._next = version, 0
            places.append(self._next)
            self._next += 1
        batch = batch.set_column(batch.num_columns - 1, CHANGES_SCHEMA.field("position"), pa.array(places, _COUNT))
        if not len(self._skipped):
            return batch
        return batch.filter(pc.invert(pc.is_in(batch.column("version"), value_set=self._skipped)))


def _require_whole(database: Database, table_id: int, after: int, upto: int) -> int | None:
    """Return the number of the first file that the versions can have added, where the history knows it."""
    v = table_versions.c
    first = sa.select(v.first_file_id).where(v.table_id == table_id, v.version == after + 1).scalar_subquery()
    with database.reading() as connection:
        row = connection.execute(
            sa.select(tables.c.oldest_version, first.label("first")).where(tables.c.table_id == table_id)
        ).one_or_none()
    if row is None:
        raise TableNotFoundError(f"The table with the id {table_id} does not exist in the index any more.")
    if upto > after and after + 1 < row.oldest_version:
        raise version_expired(f"with the id {table_id}", after + 1, row.oldest_version)
    found: int | None = row.first
    return found


def history_rows(database: Database, table: Table) -> pa.RecordBatchReader:
    """Yield the versions of a table, newest first (``HISTORY_SCHEMA``), in bounded memory."""
    v = table_versions.c
    select = sa.select(v.version, v.operation, v.committed_at_ms, v.transaction_id, v.summary).where(
        v.table_id == table.table_id
    )

    def pages() -> Iterator[pa.RecordBatch]:
        before = ALIVE
        while True:
            with database.reading() as connection:
                page = connection.execute(
                    select.where(v.version < before).order_by(v.version.desc()).limit(_PAGE)
                ).all()
            if not page:
                return
            yield pa.RecordBatch.from_pylist([_history_row(*row) for row in page], schema=HISTORY_SCHEMA)
            before = page[-1].version

    return pa.RecordBatchReader.from_batches(HISTORY_SCHEMA, pages())


def _history_row(
    version: int, operation: str, committed_ms: int, transaction_id: str | None, summary: str
) -> dict[str, Any]:
    counts = json.loads(summary)
    return {
        "version": version,
        "operation": operation,
        "committed_ms": committed_ms,
        "transaction": transaction_id,
        **{name: counts.get(name) for name in _COUNTS},
        "summary": summary,
    }


def transaction_rows(database: Database, table: Table) -> pa.RecordBatchReader:
    """Yield the transactions of a table that the index still knows, newest first (``TRANSACTIONS_SCHEMA``)."""
    t, f = transactions.c, transaction_files.c
    staged = (
        sa.select(f.transaction_id, sa.func.sum(f.n_files).label("files"))
        .where(f.removal == 0)
        .group_by(f.transaction_id)
        .subquery()
    )
    select = (
        sa.select(
            t.transaction_id.label("transaction"), t.operation, t.state, t.owner, t.began_at_ms.label("began_ms"),
            t.expires_at_ms.label("expires_ms"), t.ended_at_ms.label("ended_ms"), t.base_version, t.version, t.app_id,
            t.app_version, sa.cast(staged.c.files, sa.BigInteger).label("files"), t.error,
        )
        .select_from(transactions.outerjoin(staged, staged.c.transaction_id == t.transaction_id))
        .where(t.table_id == table.table_id)
        .order_by(t.began_at_ms.desc(), t.transaction_id.desc())
    )  # fmt: skip

    def pages() -> Iterator[pa.RecordBatch]:
        with database.reading() as connection:
            result = connection.execution_options(stream_results=True, max_row_buffer=_PAGE).execute(select)
            for page in result.mappings().partitions(_PAGE):
                yield pa.RecordBatch.from_pylist([dict(row) for row in page], schema=TRANSACTIONS_SCHEMA)

    return pa.RecordBatchReader.from_batches(TRANSACTIONS_SCHEMA, pages())


def version_at(database: Database, table_id: int, at_ms: int) -> int:
    """Return the newest version committed at or before a time (milliseconds since the epoch, UTC).

    0 when there is none.
    """
    v = table_versions.c
    statement = (
        sa.select(v.version)
        .where(v.table_id == table_id, v.committed_at_ms <= at_ms)
        .order_by(v.version.desc())
        .limit(1)
    )
    with database.reading() as connection:
        return connection.execute(statement).scalar() or 0


def ended_files(database: Database, table: Table, before_version: int) -> pa.RecordBatchReader:
    """Return the files that writes have replaced and only versions below ``before_version`` need (``ENDED_SCHEMA``).

    What repair or DDL took out of the index is not among them: it is not ours to delete. Nor is a file that a kept
    version knows under any partition.
    """
    return pa.RecordBatchReader.from_batches(ENDED_SCHEMA, _Ended(database, table, before_version).batches())


class _Ended:
    def __init__(self, database: Database, table: Table, before_version: int) -> None:
        self._database = database
        self._table = table
        self._before = before_version

    def batches(self) -> Iterator[pa.RecordBatch]:
        moved = self._moved()
        after: tuple[int, int] = (0, 0)
        while True:
            page = self._page(*after)
            if not page:
                return
            after = (page[-1]["partition_id"], page[-1]["file_id"])
            needed = self._needed(page, moved)
            rows = [
                {
                    "uri": uri,
                    "size": row["size"],
                    "ended_version": row["end_version"],
                    "ended_ms": row["committed_at_ms"],
                }
                for row in page
                if (uri := f"{self._directory(row)}/{row['path']}") not in needed
            ]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=ENDED_SCHEMA)

    def _page(self, partition_id: int, file_id: int) -> Sequence[Mapping[str, Any]]:
        p, f, v = partitions.c, files.c, table_versions.c
        low, high = _partition_ids(self._table.table_id)
        statement = (
            sa.select(
                f.partition_id, f.file_id, f.path, f.size, f.end_version, p.name, p.location, v.committed_at_ms
            )
            .join(
                partitions,
                # The row that held when the file was last there: the partition may have moved since.
                sa.and_(
                    p.partition_id == f.partition_id, p.begin_version < f.end_version, p.end_version >= f.end_version
                ),
            )
            .join(table_versions, sa.and_(v.table_id == p.table_id, v.version == f.end_version))
            .where(
                f.partition_id >= max(low, partition_id), f.partition_id < high,
                sa.or_(f.partition_id > partition_id, f.file_id > file_id),
                f.end_version <= self._before, v.transaction_id.is_not(None),
            )
            .order_by(f.partition_id, f.file_id)
            .limit(_PAGE)
        )  # fmt: skip
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def _moved(self) -> dict[str, set[int]]:
        """Partitions with a location of their own in kept versions, by location."""
        p = partitions.c
        statement = sa.select(p.location, p.partition_id).where(
            p.table_id == self._table.table_id, p.end_version > self._before, p.location.is_not(None)
        )
        moved: dict[str, set[int]] = {}
        with self._database.reading() as connection:
            for location, partition_id in connection.execute(statement):
                moved.setdefault(location, set()).add(partition_id)
        return moved

    def _needed(self, page: Sequence[Mapping[str, Any]], moved: Mapping[str, set[int]]) -> set[str]:
        """Return the files in the page's directories that kept versions know."""
        directories = {self._directory(row) for row in page}
        names = sorted({row["name"] for row in page})
        ids = {partition_id for directory in directories for partition_id in moved.get(directory, ())}
        p = partitions.c
        needed: set[str] = set()
        with self._database.reading() as connection:
            for chunk in batched(names, _NAMES_AT_ONCE):
                same_name = sa.select(p.partition_id).where(
                    p.table_id == self._table.table_id,
                    p.name_hash.in_([name_hash(n) for n in chunk]),
                    p.end_version > self._before,
                )
                ids.update(connection.execute(same_name).scalars())
            for some in batched(sorted(ids), _NAMES_AT_ONCE):
                needed.update(self._kept_files(connection, some))
        return needed

    def _kept_files(self, connection: sa.Connection, partition_ids: Sequence[int]) -> Iterator[str]:
        p, f = partitions.c, files.c
        statement = (
            sa.select(p.name, p.location, f.path)
            .join(
                files,
                sa.and_(
                    f.partition_id == p.partition_id, f.begin_version < p.end_version, f.end_version > p.begin_version
                ),
            )
            .where(p.partition_id.in_(partition_ids), p.end_version > self._before, f.end_version > self._before)
        )
        for row in connection.execute(statement).mappings():
            yield f"{self._directory(dict(row))}/{row['path']}"

    def _directory(self, row: Mapping[str, Any]) -> str:
        root = self._table.definition.location
        location: str | None = row["location"]
        return location or (f"{root}/{row['name']}" if row["name"] else root)


def _partition_ids(table_id: int) -> tuple[int, int]:
    low = table_id << PARTITION_NUMBER_BITS
    return low, low + (1 << PARTITION_NUMBER_BITS)


def expire(database: Database, table_id: int, before_version: int) -> int:
    """Forgets the versions below ``before_version``, in short transactions; returns how many rows were removed.

    The versions are refused to readers before the first row is gone.
    """
    t = tables.c
    raise_oldest = (
        sa.update(tables)
        .where(t.table_id == table_id, t.oldest_version < before_version, t.version >= before_version)
        .values(oldest_version=before_version)
    )
    database.write(lambda connection: connection.execute(raise_oldest))
    with database.reading() as connection:
        limit = connection.execute(sa.select(t.oldest_version).where(t.table_id == table_id)).scalar() or 0
    low, high = _partition_ids(table_id)
    removed = 0
    while low < high:
        removed_now, low = database.write(lambda connection, at=low: _expire_some(connection, at, high, limit))  # type: ignore[misc]
        removed += removed_now
    return removed + database.write(lambda connection: _expire_history(connection, table_id, limit))


def _expire_some(connection: sa.Connection, low: int, high: int, limit: int) -> tuple[int, int]:
    """Return how many dead rows of the next partitions were removed, and the number of the partition to go on with."""
    f, p = files.c, partitions.c
    next_id = sa.select(f.partition_id).where(f.partition_id >= low, f.partition_id < high).order_by(f.partition_id)
    end = connection.execute(next_id.limit(1).offset(_PAGE)).scalar()
    below = high if end is None else end + 1
    dead = sa.and_(f.partition_id >= low, f.partition_id < below, f.end_version <= limit)
    s = file_statistics.c
    of_dead = sa.exists().where(f.partition_id == s.partition_id, f.file_id == s.file_id, f.end_version <= limit)
    removed = 0
    for statement in (
        sa.delete(file_statistics).where(s.partition_id >= low, s.partition_id < below, of_dead),
        sa.delete(files).where(dead),
        sa.delete(partitions).where(p.partition_id >= low, p.partition_id < below, p.end_version <= limit),
    ):
        removed += connection.execute(statement).rowcount
    return removed, below


def _expire_history(connection: sa.Connection, table_id: int, limit: int) -> int:
    """Removes the history below the limit, and the transactions that had ended by then and that nobody asks for."""
    # Locks the table's row.
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version))
    forget_claims(connection, table_id)
    v, t = table_versions.c, transactions.c
    at = sa.select(v.committed_at_ms).where(v.table_id == table_id, v.version == limit)
    since = connection.execute(at).scalar() or 0
    removed: int = connection.execute(
        sa.delete(table_versions).where(v.table_id == table_id, v.version < limit)
    ).rowcount
    ended = sa.or_(
        sa.and_(t.state == str(State.FINISHED), t.version < limit),
        sa.and_(t.state == str(State.ABORTED), t.ended_at_ms < since),
    )
    waits = sa.exists().where(waiting_files.c.transaction_id == t.transaction_id)
    claims = sa.exists().where(transaction_claims.c.transaction_id == t.transaction_id)
    removed += connection.execute(
        sa.delete(transactions).where(t.table_id == table_id, ended, ~waits, ~claims)
    ).rowcount
    return removed
