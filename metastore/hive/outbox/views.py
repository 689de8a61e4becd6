"""Writes views to the metastore in the form that Hive uses; their partitions have no storage descriptor."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError, MetastoreRefusedError, TableNotFoundError
from catalog_ext.metastore.hive.mapping.conversion import hive_column, partition_values_of, unrepresentable_reason
from catalog_ext.metastore.hive.mapping.hive_types import hive_key_type, hive_type
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, SMALL_BATCH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.messages import DropView, PutView, SyncPartitions
    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.model.views import ViewQuery

_log = logging.getLogger(__name__)

_NO_STORAGE = HiveStorage(
    "org.apache.hadoop.mapred.SequenceFileInputFormat", "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat", ""
)
"""The storage that Hive itself writes for a view; without these class names DESCRIBE fails in Hive."""


def to_hive_view(definition: TableDefinition, query: ViewQuery) -> HiveTable:
    """Return the view as the metastore stores it.

    Raises:
        MetastoreRefusedError: The metastore cannot hold the view (``unrepresentable_reason``).
    """
    reason = unrepresentable_reason(definition)
    if reason is not None:
        raise MetastoreRefusedError(
            f"The view {definition.identifier} cannot be kept in the Hive Metastore: {reason}.",
            {"view": str(definition.identifier)},
        )
    # Import here, because this loads an SQL parser that only views need.
    from catalog_ext.metastore.hive.outbox.view_text import hive_text

    keys = definition.partition_columns
    return HiveTable(
        database=definition.identifier.namespace, name=definition.identifier.name, table_type=VIRTUAL_VIEW, location="",
        columns=tuple(hive_column(c, hive_type(c.data_type) or "") for c in definition.columns),
        partition_columns=tuple(hive_column(c, hive_key_type(c.data_type)) for c in keys), storage=_NO_STORAGE,
        parameters=dict(definition.properties) | ({"comment": definition.comment} if definition.comment else {}),
        owner=definition.owner, view_original_text=query.text, view_expanded_text=hive_text(definition, query),
    )  # fmt: skip


def put_view(metastore: HiveMetastore, message: PutView) -> None:
    """Create the view, or alter an existing one; its partitions stay.

    Raises:
        MetastoreRefusedError: The metastore has a table of that name.
    """
    view = to_hive_view(message.definition, message.query)
    try:
        found = metastore.get_table(view.database, view.name)
    except TableNotFoundError:
        metastore.create_table(view)
        return
    if found.table_type != VIRTUAL_VIEW:
        raise MetastoreRefusedError(
            f"The metastore has a table {view} already, which the index's view of that name cannot replace. Rename or "
            "drop one of the two.",
            {"view": str(view)},
        )
    if found.partition_columns == view.partition_columns:
        metastore.alter_table(view)
    else:
        # Recreate the view, because the metastore refuses to alter partition columns. No partitions are lost: the index
        # allows this change only for a view without partitions.
        metastore.drop_table(view.database, view.name)
        metastore.create_table(view)


def view_differs(found: HiveTable, definition: TableDefinition, query: ViewQuery) -> bool:
    """Return whether the metastore's view differs from the index's; parameters that only the metastore has are ignored.

    Raises:
        MetastoreRefusedError: The metastore cannot hold the view.
    """
    wanted = to_hive_view(definition, query)
    kept = {name: found.parameters.get(name) for name in wanted.parameters}
    return (kept, _as_defined(found)) != (dict(wanted.parameters), _as_defined(wanted))


def _as_defined(view: HiveTable) -> object:
    columns = [[(c.name, c.type, c.comment or "") for c in some] for some in (view.columns, view.partition_columns)]
    return columns, view.view_original_text, view.view_expanded_text


def drop_view(metastore: HiveMetastore, message: DropView) -> None:
    """Drop the view if it exists; a table of the same name stays."""
    database, name = message.view.namespace, message.view.name
    try:
        found = metastore.get_table(database, name)
    except TableNotFoundError:
        _log.debug("the view %s.%s is not in the metastore", database, name)
        return
    if found.table_type != VIRTUAL_VIEW:
        _log.warning("The metastore's %s.%s is a table and not the dropped view: it stays.", database, name)
        return
    metastore.drop_table(database, name)


def sync_view_partitions(metastore: HiveMetastore, view: HiveTable, message: SyncPartitions) -> None:
    """Drop and add the partitions of a view."""
    wanted = (*message.added, *message.altered)
    for start in range(0, len(message.dropped), SMALL_BATCH):
        values = _representable(view, message.dropped[start : start + SMALL_BATCH])
        metastore.drop_partitions(view.database, view.name, [view.name_of(v) for v in values])
    for start in range(0, len(wanted), DEFAULT_BATCH):
        values = _representable(view, [partition.name for partition in wanted[start : start + DEFAULT_BATCH]])
        metastore.add_partitions(view.database, view.name, [HivePartition(v, "") for v in values])


def _representable(view: HiveTable, names: Sequence[str]) -> list[tuple[str, ...]]:
    values: list[tuple[str, ...]] = []
    for name in names:
        try:
            values.append(partition_values_of(view, name))
        except InvalidPartitionNameError as error:
            _log.warning("Left out of the metastore's view %s: %s", view, error.message)
    return values
