"""The metadata table ``partition_history``: the states that partitions had in the versions of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import partitions, table_versions, tables, version_holds
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.read.marked_rows import IN_FORCE, Check, marked, raw, source_of
from catalog_ext.metastore.index.read.metadata_rows import columns_of, directories
from catalog_ext.metastore.index.read.predicate_sql import predicate_sql
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

PARTITION_HISTORY_SCHEMA = pa.schema([
    pa.field("partition", pa.string(), nullable=False),
    pa.field("version", pa.int64(), nullable=False),
    pa.field("until_version", pa.int64()),
    pa.field("committed_at", pa.timestamp("ms", tz="UTC")),
    pa.field("operation", pa.string()),
    pa.field("user", pa.string()),
    pa.field("files", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("location", pa.string(), nullable=False),
])  # fmt: skip
"""One row per state of a partition. The state was made by ``version`` and held until before ``until_version``, which is
NULL for the present state. The commit's columns are NULL if vacuum has removed the version."""

_READ_SCHEMA = pa.schema([
    pa.field("partition_id", pa.int64(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("version", pa.int64(), nullable=False),
    pa.field("until_version", pa.int64(), nullable=False),
    pa.field("files", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("committed_ms", pa.int64()),
    pa.field("operation", pa.string()),
    pa.field("summary", pa.string()),
])  # fmt: skip


class PartitionHistory(IndexPart):
    """Reads the states that a table's partitions had in the versions that vacuum has kept."""

    def rows(
        self, table: Table, predicate: Predicate | None = None, columns: Collection[str] | None = None
    ) -> pa.RecordBatchReader:
        """Return the states of the partitions that satisfy a predicate, in bounded memory and in no order.

        ``columns`` are the names of the wanted columns of ``PARTITION_HISTORY_SCHEMA``, None for all. States that ended
        at or before the oldest version are left out, unless a tagged version has them.

        Raises:
            TableNotFoundError: The table has been dropped.
            IndexUnavailableError: The database is gone or locked.
        """
        statement, exact = history_statement(self._database.dialect, table, predicate)
        check = Check(table, None if exact else predicate)
        schema, root = columns_of(PARTITION_HISTORY_SCHEMA, columns), table.definition.location
        found = arrow_rows.stream(self._database, statement, _READ_SCHEMA, check.step, check.finish, spills=True)

        def batches() -> Iterator[pa.RecordBatch]:
            with found:
                for batch in found:
                    yield _shown(batch, root, schema)

        return pa.RecordBatchReader.from_batches(schema, batches())


def history_statement(dialect: str, table: Table, predicate: Predicate | None) -> tuple[arrow_rows.Query, bool]:
    """Return the query for the states of partitions, and whether it evaluates the predicate exactly."""
    condition = predicate_sql(
        predicate or TRUE, table.definition.keys, dialect, lambda rows: (rows.c.table_id == table.table_id,), partitions
    )
    p, v = partitions.c, table_versions.c
    # A deferred delete removes all older rows at once, and sets their end version later.
    deferred = sa.and_(p.begin_version < table.begins_at, p.end_version > table.begins_at)
    until = sa.case((deferred, table.begins_at), else_=p.end_version) if table.begins_at else p.end_version
    oldest = sa.select(tables.c.oldest_version).where(tables.c.table_id == table.table_id).scalar_subquery()
    h = version_holds.c
    held = sa.exists().where(h.table_id == p.table_id, h.version >= p.begin_version, h.version < until, IN_FORCE)
    source = source_of(condition).outerjoin(
        table_versions, sa.and_(v.table_id == p.table_id, v.version == p.begin_version)
    )
    rows = (
        sa.select(
            p.partition_id, raw(p.name), raw(p.location), p.begin_version, until, p.n_files, p.n_bytes, p.n_rows,
            v.committed_at_ms, raw(v.operation), raw(v.summary),
        )
        .select_from(source)
        .where(p.table_id == table.table_id, sa.or_(until > oldest, held), condition.clause)
    )  # fmt: skip
    return sa.union_all(marked(table, _READ_SCHEMA), rows), condition.exact


def _shown(batch: pa.RecordBatch, root: str, schema: pa.Schema) -> pa.RecordBatch:
    if not schema.names:
        # A batch without columns keeps its number of rows only if they are taken away from one with a column.
        return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], ["nothing"]).select([])

    def column(field: pa.Field) -> pa.Array:
        match field.name:
            case "until_version":
                ended = batch.column("until_version")
                return pc.if_else(pc.less(ended, ALIVE), ended, pa.scalar(None, pa.int64()))
            case "committed_at":
                return batch.column("committed_ms").cast(field.type)
            case "user":
                # All partitions of a version have its summary: parse each text once.
                summaries = batch.column("summary").dictionary_encode()
                users = pa.array(map(_user, summaries.dictionary.to_pylist()), pa.string())
                return users.take(summaries.indices)
            case "location":
                return directories(batch, root)
            case name:
                return batch.column(name)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def _user(summary: str) -> str | None:
    user: str | None = json.loads(summary).get("user")
    return user
