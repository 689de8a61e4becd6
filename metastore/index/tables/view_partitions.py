"""The partitions of views in the index: rows without files or locations, and the source partitions of each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import PartitionNotFoundError
from catalog_ext.metastore.index.database.prepared import insert_rows
from catalog_ext.metastore.index.database.rows import PARTITION, partition_of
from catalog_ext.metastore.index.database.schema import PARTITION_NUMBER_BITS, partitions, view_partition_dependencies
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.index.write.applier import Applier
from catalog_ext.metastore.index.write.outbox import PartitionChanges
from catalog_ext.metastore.index.write.version_record import record
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import AddPartition, AppliedChanges
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.partition_names import metastore_obstacle
from catalog_ext.metastore.model.views import Dependency, PartitionDependency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.model.tables import Partition

_AT_ONCE = 500
_COLUMNS = ("partition_id", "number", "relation", "partitions")


def set_partitions(
    connection: sa.Connection, table_id: int, wanted: Mapping[str, Sequence[Dependency]], *, deliver: bool
) -> AppliedChanges:
    """Set the partitions of a view, and their dependencies, to exactly ``wanted``, within a transaction.

    Other partitions of the view are dropped.
    """
    commit = ViewCommit(connection, table_id)
    living = {partition.name: partition for partition in _living(connection, table_id)}
    gone = [partition for name, partition in living.items() if name not in wanted]
    kept = {name: partition.partition_id for name, partition in living.items() if name in wanted}
    _renew(connection, table_id, kept, wanted)
    new = {name: dependencies for name, dependencies in wanted.items() if name not in living}
    return commit.make(new, gone, "REFRESH PARTITIONS", deliver=deliver)


class ViewCommit:
    """A commit that changes the partitions of a view; it locks the view's row."""

    def __init__(self, connection: sa.Connection, table_id: int) -> None:
        self._connection = connection
        table_rows.lock(connection, table_id)
        row = table_rows.load_row_by_id(connection, table_id)
        self._version = row.table.version
        self.name = str(row.table.identifier)
        self.applier = Applier(connection, row.raised())

    def make(
        self, new: Mapping[str, Sequence[Dependency]], gone: Sequence[Partition], operation: str, *,
        deliver: bool,
    ) -> AppliedChanges:  # fmt: skip
        """Add and drop the view's partitions, and return the changes; without any change, no version is made."""
        if not new and not gone:
            return AppliedChanges(version=self._version)
        applier = self.applier
        applier.drop(gone)
        _forget(self._connection, [partition.partition_id for partition in gone])
        applier.add(AddPartition(name, (), in_metastore=not metastore_obstacle(name)) for name in new)
        applier.flush()
        ids = {name: partition.partition_id for name, partition in applier.alive(list(new)).items()}
        _write(self._connection, ids, new)
        deliveries = record(applier, operation, {}, deliver=deliver)
        return AppliedChanges(
            applier.version, applier.partitions_added, applier.partitions_removed, deliveries=deliveries
        )


def _write(connection: sa.Connection, ids: Mapping[str, int], wanted: Mapping[str, Sequence[Dependency]]) -> None:
    rows = [
        (ids[name], number, d.relation, to_json(list(d.partitions)))
        for name in ids
        for number, d in enumerate(wanted[name])
    ]
    insert_rows(connection, view_partition_dependencies, _COLUMNS, rows)


def _forget(connection: sa.Connection, ids: Sequence[int]) -> None:
    d = view_partition_dependencies
    for chunk in batched(ids, _AT_ONCE):
        connection.execute(sa.delete(d).where(d.c.partition_id.in_(chunk)))


def _renew(
    connection: sa.Connection, table_id: int, kept: Mapping[str, int],
    wanted: Mapping[str, Sequence[Dependency]],
) -> None:  # fmt: skip
    """Replace the dependencies of existing partitions whose dependencies have changed."""
    had: dict[int, list[Dependency]] = {}
    for row in connection.execute(_dependencies(table_id)):
        had.setdefault(row.partition_id, []).append(Dependency(row.relation, tuple(json.loads(row.partitions))))
    changed = {name: i for name, i in kept.items() if had.get(i, []) != list(wanted[name])}
    _forget(connection, list(changed.values()))
    _write(connection, changed, wanted)


def _dependencies(table_id: int) -> sa.Select[Any]:
    d = view_partition_dependencies
    low = table_id << PARTITION_NUMBER_BITS
    return (
        sa.select(d)
        .where(d.c.partition_id >= low, d.c.partition_id < low + (1 << PARTITION_NUMBER_BITS))
        .order_by(d.c.partition_id, d.c.number)
    )


def list_dependencies(connection: sa.Connection, table_id: int) -> list[PartitionDependency]:
    """Return the dependencies of each partition of a view, in the order in which the partitions were added."""
    p = partitions.c
    living = sa.select(p.partition_id, p.name).where(p.table_id == table_id, p.end_version == ALIVE)
    names = {row.partition_id: row.name for row in connection.execute(living)}
    return [
        PartitionDependency(names[row.partition_id], Dependency(row.relation, tuple(json.loads(row.partitions))))
        for row in connection.execute(_dependencies(table_id)).all()
        if row.partition_id in names
    ]


def all_as_added(connection: sa.Connection, table_id: int) -> PartitionChanges:
    """Return all partitions of a view that the metastore can hold, as added partitions, to publish the whole view."""
    return PartitionChanges(added=[found for found in _living(connection, table_id) if found.in_metastore])


def _living(connection: sa.Connection, table_id: int) -> list[Partition]:
    p = partitions.c
    statement = sa.select(*PARTITION).where(p.table_id == table_id, p.end_version == ALIVE).order_by(p.partition_id)
    return [partition_of(row) for row in connection.execute(statement)]


def no_partition(view: str, what: str) -> PartitionNotFoundError:
    """Return the error that a partition spec matches no partition of a view."""
    return PartitionNotFoundError(
        f"The view {view} has no partition {what[:200]}. Nothing was dropped; SHOW PARTITIONS {view} lists them, and "
        "IF EXISTS overlooks this.",
        {"view": view, "partition": what[:200]},
    )
