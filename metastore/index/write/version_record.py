"""Records the version that a commit makes: the table's counters, the history, the messages for the metastore."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import insert_version, version_date
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import partitions, tables
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.write.outbox import enqueue_changes, mark_published
from catalog_ext.metastore.index.write.partition_rows import successors
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from catalog_ext.metastore.index.write.applier import Applier
    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.model.tables import Table

logger = logging.getLogger(__name__)

_FEW_NAMES = 1000
"""For more names, a test whether the table has unpublished partitions at all is cheaper than a look-up of each name's
values."""

COUNTS = ("partitions_added", "partitions_removed", "partitions_changed", "files_added", "files_removed")
"""The counts of an applier that are in the history of every commit."""

_ADDED = ("total_partitions", "total_files", "total_bytes", "counted_rows", "uncounted_partitions")
"""The columns of ``tables`` to which ``PartitionSums.totals`` are added, in that order."""

_SET = ("version", "next_partition_number", "next_file_id", "has_long_keys", "has_descriptors")
_NEW: dict[str, Any] = {name: sa.bindparam(f"new_{name}") for name in (*_ADDED, *_SET)}
_UPDATE_TABLE = Prepared(
    sa.update(tables)
    .where(tables.c.table_id == sa.bindparam("id"))
    .values({**_NEW, **{name: tables.c[name] + _NEW[name] for name in _ADDED}})
)


def _write_counters(applier: Applier) -> None:
    """Write the totals and counters of the table after the commit."""
    new = (applier.version, applier.next_partition, applier.next_file, applier.has_long_keys, applier.is_described)
    values = zip((*_ADDED, *_SET), map(int, (*applier.sums.totals, *new)), strict=True)
    asked = {"id": applier.table.table_id, **{f"new_{name}": value for name, value in values}}
    _UPDATE_TABLE.run(applier.connection, asked)


def record(
    applier: Applier, operation: str, summary: Summary, *, deliver: bool, transaction_id: str | None = None
) -> int:
    """Write the table's counters and the history of a version; return the number of messages for the metastore."""
    _write_counters(applier)
    _publish_successors(applier)
    _move_replaced(applier)
    counts = {
        **{name: getattr(applier, name) for name in COUNTS},
        "rows": applier.come.rows,
        "bytes": applier.come.bytes,
        "rows_removed": applier.gone.rows,
        "bytes_removed": applier.gone.bytes,
        "user": current_user(),
    }
    if applier.carried:
        counts["partitions_carried"] = len(applier.carried)
        _log_carried(applier, operation)
    insert_version(
        applier.connection, applier.table.table_id, applier.version, operation, to_json({**counts, **summary}),
        transaction_id=transaction_id, first_file_id=applier.row.next_file,
    )  # fmt: skip
    if not deliver:
        return 0
    if transaction_id is not None and applier.kept_back:
        _log_kept_back(applier)
    has_statistics = applier.published.added or applier.published.altered
    # Take the version's date from the history: the follower recognizes this delivery in the metastore by the same date.
    # ``applier.now`` is older, since it was read before the rows were written.
    at_ms = version_date(applier.connection, applier.table.table_id, applier.version) if has_statistics else 0
    return enqueue_changes(applier.connection, applier.table, applier.published, at_ms)


def _publish_successors(applier: Applier) -> None:
    """If a dropped partition was published, publish an unpublished one with equal values in its place.

    The metastore can have only one partition with the same values, the index several. One message moves the metastore's
    partition from the one directory to the other.
    """
    dropped = applier.published.dropped
    if not dropped or not applier.table.definition.keys:
        return
    published = {partition_values(found.name) for found in (*applier.published.added, *applier.published.altered)}
    gone = [name for name in dropped if partition_values(name) not in published]
    if len(gone) > _FEW_NAMES and not _has_unpublished(applier.connection, applier.table):
        return
    found = successors(applier.connection, applier.table, gone)
    new = [successor.partition_id for successor in found.values() if not successor.in_metastore]
    mark_published(applier.connection, new)
    applier.published.altered.extend(found.values())
    applier.published.moved.update(successor.name for successor in found.values())
    dropped[:] = [name for name in dropped if partition_values(name) not in found]


def _move_replaced(applier: Applier) -> None:
    """Mark added partitions as moved if they replace a dropped one of equal values that was never published.

    The metastore may have that partition all the same, from another engine.
    """
    if not applier.published.ended_apart or not applier.table.definition.keys:
        return
    ended = {partition_values(name) for name in applier.published.ended_apart}
    applier.published.moved.update(p.name for p in applier.published.added if partition_values(p.name) in ended)


def _log_kept_back(applier: Applier) -> None:
    logger.warning(
        "Hive engines do not see %d new partitions of table %s, the first %r: the metastore cannot hold them, "
        "or has another directory of the same values. INSERT OVERWRITE of such a partition brings both together.",
        len(applier.kept_back), applier.table.identifier, applier.kept_back[0],
    )  # fmt: skip


def _log_carried(applier: Applier, operation: str) -> None:
    logger.warning(
        "The %s of table %s keeps files in %d partitions, the first %r: another engine wrote them, and a repair or "
        "the follower registered them, after the statement was checked. They are in the table.",
        operation, applier.table.identifier, len(applier.carried), applier.carried[0],
    )  # fmt: skip


def _has_unpublished(connection: sa.Connection, table: Table) -> bool:
    """Return whether a current partition is unpublished, as the metastore may have another with equal values."""
    p = partitions.c
    apart = sa.select(p.partition_id).where(p.table_id == table.table_id, p.end_version == ALIVE, p.in_metastore == 0)
    return connection.execute(apart.limit(1)).one_or_none() is not None
