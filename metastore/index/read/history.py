"""The metadata tables ``history`` and ``transactions``, and the files that a range of versions added."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import PartitionDescriptorError, StreamChangedError, TableNotFoundError
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.clock import correct_future_dates
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import (
    files,
    namespaces,
    partitions,
    table_versions,
    tables,
    transaction_files,
    transactions,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.read.marked_rows import raw, version_expired
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.metastore.index.tables.definition_history import ALTER_TABLE
from catalog_ext.metastore.index.tables.incarnations import Incarnations
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from catalog_ext.metastore.model.tables import Table


_COUNT = pa.int64()
_TIME = pa.timestamp("ms", tz="UTC")
_PAGE = 5000
_IN_QUERY = 500
_COUNTS = (
    "partitions_added", "partitions_removed", "partitions_changed", "files_added", "files_removed", "rows", "bytes",
    "rows_removed", "bytes_removed",
)  # fmt: skip

HISTORY_SCHEMA = pa.schema([
    pa.field("version", _COUNT, nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("committed_at", _TIME, nullable=False),
    pa.field("transaction", pa.string()),
    *(pa.field(name, _COUNT) for name in _COUNTS),
    pa.field("user", pa.string()),
    pa.field("summary", pa.string(), nullable=False),
])  # fmt: skip
"""The metadata table ``history``: one row per version."""

TRANSACTIONS_SCHEMA = pa.schema([
    pa.field("transaction", pa.string(), nullable=False),
    pa.field("operation", pa.string(), nullable=False),
    pa.field("state", pa.string(), nullable=False),
    pa.field("owner", pa.string(), nullable=False),
    pa.field("began_at", _TIME, nullable=False),
    pa.field("expires_at", _TIME, nullable=False),
    pa.field("ended_at", _TIME),
    pa.field("base_version", _COUNT, nullable=False),
    pa.field("version", _COUNT),
    pa.field("app_id", pa.string()),
    pa.field("app_version", _COUNT),
    pa.field("files", _COUNT),
    pa.field("error", pa.string()),
])  # fmt: skip
"""The metadata table ``transactions``: one row per transaction."""


class History(IndexPart):
    """Reads the versions and transactions of tables."""

    def rows(self, table: Table) -> pa.RecordBatchReader:
        """Return the versions of a table, newest first (``HISTORY_SCHEMA``), in bounded memory."""
        v = table_versions.c
        select = sa.select(
            v.version, v.operation, v.committed_at_ms.label("committed_at"), v.transaction_id.label("transaction"),
            v.summary,
        ).where(v.table_id == table.table_id)  # fmt: skip

        def pages() -> Iterator[pa.RecordBatch]:
            before = ALIVE
            while True:
                with self._database.reading() as connection:
                    next_ones = select.where(v.version < before).order_by(v.version.desc()).limit(_PAGE)
                    page = connection.execute(next_ones).mappings().all()
                if not page:
                    return
                yield pa.RecordBatch.from_pylist(list(map(_history_row, page)), schema=HISTORY_SCHEMA)
                before = page[-1]["version"]

        return pa.RecordBatchReader.from_batches(HISTORY_SCHEMA, pages())

    def transactions(self, table: Table) -> pa.RecordBatchReader:
        """Return the transactions of a table that vacuum has not removed, newest first (``TRANSACTIONS_SCHEMA``)."""
        t, f = transactions.c, transaction_files.c
        staged = (
            sa.select(f.transaction_id, sa.func.sum(f.n_files).label("files"))
            .where(f.removal == 0)
            .group_by(f.transaction_id)
            .subquery()
        )
        select = (
            sa.select(
                t.transaction_id.label("transaction"), t.operation, t.state, t.owner, t.began_at_ms.label("began_at"),
                t.expires_at_ms.label("expires_at"), t.ended_at_ms.label("ended_at"), t.base_version, t.version,
                t.app_id, t.app_version, sa.cast(staged.c.files, sa.BigInteger).label("files"), t.error,
            )
            .select_from(transactions.outerjoin(staged, staged.c.transaction_id == t.transaction_id))
            .where(t.table_id == table.table_id)
            .order_by(t.began_at_ms.desc(), t.transaction_id.desc())
        )  # fmt: skip

        def pages() -> Iterator[pa.RecordBatch]:
            with self._database.streaming(), self._database.reading(streams=True) as connection:
                result = connection.execution_options(stream_results=True, max_row_buffer=_PAGE).execute(select)
                for page in result.mappings().partitions(_PAGE):
                    yield pa.RecordBatch.from_pylist([dict(row) for row in page], schema=TRANSACTIONS_SCHEMA)

        return pa.RecordBatchReader.from_batches(TRANSACTIONS_SCHEMA, pages())

    def version_at(self, table_id: int, at_ms: int) -> int:
        """Return the newest version that, like all earlier versions, was committed by a time; 0 without such a version.

        The time is in milliseconds since the epoch, UTC. Recorded commit times that are far in the future, because
        a clock was wrong, are corrected in the index first.
        """
        correct_future_dates(self._database, table_id)
        v, later = table_versions.c, table_versions.alias().c
        # Take the version before the first one with a later date. A wrong clock may have dated a later version in the
        # past: it must not count, since versions before it are too young.
        younger = sa.select(sa.func.min(later.version)).where(later.table_id == table_id, later.committed_at_ms > at_ms)
        first = sa.func.coalesce(younger.scalar_subquery(), ALIVE)
        statement = sa.select(sa.func.max(v.version)).where(v.table_id == table_id, v.version < first)
        with self._database.reading() as connection:
            return connection.execute(statement).scalar() or 0

    def version_times(self, table_id: int, versions: Collection[int]) -> dict[int, int]:
        """Return the commit times of versions (milliseconds since the epoch, UTC), without removed versions."""
        v = table_versions.c
        times: dict[int, int] = {}
        with self._database.reading() as connection:
            for some in batched(sorted(versions), _IN_QUERY):
                statement = sa.select(v.version, v.committed_at_ms).where(v.table_id == table_id, v.version.in_(some))
                times.update((version, at_ms) for version, at_ms in connection.execute(statement))
        return times

    def last_change(self, table: Table) -> tuple[int, int] | None:
        """Return the last version that may have changed partitions, up to the table's, and its commit time.

        The time is in milliseconds since the epoch, UTC. None if vacuum has removed the version.
        """
        v = table_versions.c
        statement = sa.select(v.version, v.committed_at_ms).where(
            v.table_id == table.table_id, v.version <= table.version, v.operation != ALTER_TABLE
        )
        with self._database.reading() as connection:
            row = connection.execute(statement.order_by(v.version.desc()).limit(1)).one_or_none()
        return None if row is None else (row.version, row.committed_at_ms)


def _history_row(row: sa.RowMapping) -> dict[str, Any]:
    counts = json.loads(row["summary"])
    return {**{name: counts.get(name) for name in (*_COUNTS, "user")}, **row}


_COUNT = pa.int64()

CHANGES_SCHEMA = pa.schema([
    *PLAN_SCHEMA,
    pa.field("version", _COUNT, nullable=False),
    pa.field("position", _COUNT, nullable=False),
])  # fmt: skip
"""One row per file that a version added: ``tables/changes`` of the service contract."""


class Removals(StrEnum):
    """How a stream treats versions that removed files whose rows it has already read."""

    IGNORE = "ignore"
    """The files that these versions added are returned, like the files of all other versions."""
    REFUSE = "refuse"
    SKIP = "skip"
    """These versions are left out, with the files that they added."""


class Changes(IndexPart):
    """Reads the files that versions of a table have added, for streams."""

    def between(
        self, table_id: int, after: int, upto: int, removals: Removals = Removals.IGNORE
    ) -> pa.RecordBatchReader:
        """Return the files that the versions above ``after`` up to ``upto`` added, in order (``CHANGES_SCHEMA``).

        Raises:
            TableNotFoundError: The table is gone.
            VersionExpiredError: Vacuum has removed one of the versions.
            IndexRestoredError: ``after`` or ``upto`` is newer than the table, or was made by an index that was since
                replaced by a restored backup.
            PartitionDescriptorError: One of the versions added or changed a partition that has another format or schema
                than its table.
            StreamChangedError: A version removed files, and ``removals`` is ``REFUSE``.
        """
        for version in (after, upto):
            Incarnations(self._database).require_version(table_id, version)
        first_file = self._require_whole(table_id, after, upto)
        removing = {} if removals is Removals.IGNORE else self._removing(table_id, after, upto)
        if removing and removals is Removals.REFUSE:
            raise self._stream_changed(table_id, *min(removing.items()))
        statement = changes_statement(table_id, after, upto, first_file)

        def check() -> None:
            self._require_whole(table_id, after, upto)

        return arrow_rows.stream(self._database, statement, CHANGES_SCHEMA, _Positions(removing).step, check)

    def _removing(self, table_id: int, after: int, upto: int) -> dict[int, str]:
        """Return the operations of the versions above ``after`` up to ``upto`` that removed files, or are rollbacks.

        A rollback that only brings files back adds rows that a stream has read before.
        """
        v = table_versions.c
        statement = sa.select(v.version, v.operation, v.summary).where(
            v.table_id == table_id, v.version > after, v.version <= upto
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        found = ((row, json.loads(row.summary)) for row in rows)
        return {row.version: row.operation for row, s in found if s.get("files_removed") or "restored_from" in s}

    def _stream_changed(self, table_id: int, version: int, operation: str) -> StreamChangedError:
        statement = (
            sa.select(namespaces.c.name.label("namespace"), tables.c.name)
            .join_from(tables, namespaces, namespaces.c.namespace_id == tables.c.namespace_id)
            .where(tables.c.table_id == table_id)
        )
        with self._database.reading() as connection:
            row = connection.execute(statement).one_or_none()
        table = f"{row.namespace}.{row.name}" if row else f"with the id {table_id}"
        return StreamChangedError(
            f"Version {version} of table {table} ({operation}) removed files, and a stream that has read their rows "
            "cannot take them back. Set the option 'skipChangeCommits' to true to pass over versions that remove "
            "files, those that replace them by others too; or start the query with a new checkpoint.",
            {"table": table, "version": str(version), "operation": operation},
        )

    def _require_whole(self, table_id: int, after: int, upto: int) -> int | None:
        """Check that the versions are complete and readable by a stream.

        Returns the number of the first file that the versions can have added, or None if the history does not have it.
        """
        v = table_versions.c
        first = sa.select(v.first_file_id).where(v.table_id == table_id, v.version == after + 1).scalar_subquery()
        with self._database.reading() as connection:
            row = connection.execute(
                sa.select(tables.c.oldest_version, tables.c.has_descriptors, first.label("first")).where(
                    tables.c.table_id == table_id
                )
            ).one_or_none()
            described = row is not None and row.has_descriptors and _described(connection, table_id, after, upto)
        if row is None:
            raise TableNotFoundError(f"The table with the id {table_id} does not exist in the index any more.")
        if upto > after and after + 1 < row.oldest_version:
            raise version_expired(f"with the id {table_id}", after + 1, row.oldest_version)
        if described:
            raise PartitionDescriptorError(
                f"Partition {described[:200]!r} of the table with the id {table_id}, which came or changed after "
                f"version {after}, is not read as its table: a stream cannot read it. INSERT OVERWRITE the partition, "
                "which gives it the table's format, and start the query with a new checkpoint.",
                {"table_id": str(table_id), "partition": described[:200]},
            )
        found: int | None = row.first
        return found


def changes_statement(table_id: int, after: int, upto: int, first_file: int | None) -> sa.Select[Any]:
    """Return the query for the files that a range of versions added (``Changes.between``).

    ``first_file`` is the lowest number that a file of these versions can have, or None if unknown.
    """
    p, f = partitions.c, files.c
    in_range = [p.begin_version > after, p.begin_version <= upto]
    if first_file is not None:
        # File numbers ascend with the versions. The bound lets the primary key skip files that a partition had before.
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
    """Replaces each file's number by its position within its version, and drops the files of skipped versions."""

    def __init__(self, skipped: Collection[int]) -> None:
        self._skipped = pa.array(sorted(skipped), _COUNT)
        self._version = -1
        self._next = 0

    def step(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        positions: list[int] = []
        for version in batch.column("version").to_pylist():
            if version != self._version:
                self._version, self._next = version, 0
            positions.append(self._next)
            self._next += 1
        batch = batch.set_column(batch.num_columns - 1, CHANGES_SCHEMA.field("position"), pa.array(positions, _COUNT))
        if not len(self._skipped):
            return batch
        return batch.filter(pc.invert(pc.is_in(batch.column("version"), value_set=self._skipped)))


def _described(connection: sa.Connection, table_id: int, after: int, upto: int) -> str | None:
    """Return a partition that a version added with another format or schema than its table's, or None."""
    p = partitions.c
    statement = sa.select(p.name).where(
        p.table_id == table_id, p.descriptor_id.is_not(None), p.begin_version > after, p.begin_version <= upto
    )
    found: str | None = connection.execute(statement.limit(1)).scalar()
    return found
