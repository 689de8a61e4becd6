"""The files that the versions of a table have added, as a stream reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import PartitionDescriptorError, StreamChangedError, TableNotFoundError
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import files, namespaces, partitions, table_versions, tables
from catalog_ext.metastore.index.read.marked_rows import raw, version_expired
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.metastore.index.tables.incarnations import Incarnations

if TYPE_CHECKING:
    from collections.abc import Collection


_COUNT = pa.int64()

CHANGES_SCHEMA = pa.schema([
    *PLAN_SCHEMA,
    pa.field("version", _COUNT, nullable=False),
    pa.field("position", _COUNT, nullable=False),
])  # fmt: skip
"""One row a file that a version added: ``tables/changes`` of the service contract."""


class Removals(StrEnum):
    """Says what becomes of versions that removed files, whose rows a reader of the changes has seen."""

    IGNORE = "ignore"
    """The files that they added are answered, as those of others."""
    REFUSE = "refuse"
    SKIP = "skip"
    """They are left out, with the files that they added."""


class Changes(IndexPart):
    """What versions of a table have added."""

    def between(
        self, table_id: int, after: int, upto: int, removals: Removals = Removals.IGNORE
    ) -> pa.RecordBatchReader:
        """Return the files that the versions above ``after`` up to ``upto`` added, in order (``CHANGES_SCHEMA``).

        Raises:
            TableNotFoundError: The table is gone.
            VersionExpiredError: Vacuum has forgotten one of the versions.
            IndexRestoredError: One of the two is newer than the table, or of an incarnation that was given up.
            PartitionDescriptorError: A partition of theirs is not read as its table.
            StreamChangedError: A version removed files, which ``removals`` refuses.
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
        """Return the operations of the versions above ``after`` up to ``upto`` that removed files."""
        v = table_versions.c
        statement = sa.select(v.version, v.operation, v.summary).where(
            v.table_id == table_id, v.version > after, v.version <= upto
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        return {row.version: row.operation for row in rows if json.loads(row.summary).get("files_removed")}

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
        """Return the number of the first file that the versions can have added, where the history knows it."""
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
    """Replaces the number of each file by its position among those of its version; leaves out versions passed over."""

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
    """Return the name of a partition that one of the versions began and that is not read as its table."""
    p = partitions.c
    statement = sa.select(p.name).where(
        p.table_id == table_id, p.descriptor_id.is_not(None), p.begin_version > after, p.begin_version <= upto
    )
    found: str | None = connection.execute(statement.limit(1)).scalar()
    return found
