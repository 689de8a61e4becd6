"""Applies outbox messages to the metastore. Every operation is idempotent."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from catalog_ext.metastore.errors import (
    InvalidPartitionNameError,
    MetastoreRefusedError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.identity import with_id
from catalog_ext.metastore.hive.mapping.conversion import (
    hive_partition_name,
    to_hive,
    to_hive_database,
)
from catalog_ext.metastore.hive.mapping.descriptors import described_partition, has_descriptor, with_secrets_of
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.model import (
    VIRTUAL_VIEW,
    HiveDatabase,
    HivePartition,
    HiveTable,
)
from catalog_ext.metastore.hive.mapping.statistics_parameters import with_statistics, without_sparks_statistics
from catalog_ext.metastore.hive.outbox.alter_table import alter_table, make_database, rename_table
from catalog_ext.metastore.hive.outbox.compare import found_by_values
from catalog_ext.metastore.hive.outbox.ownership import check_location
from catalog_ext.metastore.hive.outbox.views import drop_view, put_view, sync_view_partitions
from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, SMALL_BATCH, HiveMetastore
from catalog_ext.metastore.messages import (
    AlterNamespace,
    AlterTable,
    AlterTableStatistics,
    CreateNamespace,
    CreateTable,
    DropNamespace,
    DropTable,
    DropView,
    Message,
    PutView,
    RenameTable,
    SyncPartitions,
)
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.metastore.model.tables import TableDefinition

Item = TypeVar("Item")

_SHOWN = 200
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Undelivered:
    """The rest of a message that cannot be delivered before a user resolves a conflict.

    Attributes:
        message: The partitions that the metastore has at other locations than the index.
        error: The conflict, and what the user can do.
    """

    message: SyncPartitions
    error: str


def carry_out(metastore: HiveMetastore, message: Message) -> Undelivered | None:
    """Apply the message to the metastore; this is idempotent. Return the part that could not be applied, or None.

    Raises:
        MetastoreError: The metastore cannot be used, or does not accept the message.
        NotFoundError: The table, view or namespace of the message is not in the metastore.
    """
    match message:
        case CreateNamespace(namespace):
            make_database(metastore, to_hive_database(namespace))
        case AlterNamespace(namespace):
            _alter_namespace(metastore, to_hive_database(namespace))
        case DropNamespace(name):
            _drop_namespace(metastore, name)
        case CreateTable(definition):
            _create_table(metastore, to_hive(definition))
        case AlterTable():
            alter_table(metastore, message)
        case RenameTable():
            rename_table(metastore, message)
        case DropTable(definition):
            _drop_table(metastore, definition)
        case SyncPartitions():
            return _sync_partitions(metastore, message)
        case AlterTableStatistics():
            _alter_table_statistics(metastore, message)
        case PutView():
            put_view(metastore, message)
        case DropView():
            drop_view(metastore, message)
    return None


def _alter_namespace(metastore: HiveMetastore, database: HiveDatabase) -> None:
    try:
        metastore.alter_database(with_id(metastore, database))
    except NamespaceNotFoundError:
        make_database(metastore, database)


def _drop_namespace(metastore: HiveMetastore, name: str) -> None:
    try:
        metastore.drop_database(name)
    except NamespaceNotFoundError:
        _log.debug("the namespace %s is not in the metastore", name)


def _create_table(metastore: HiveMetastore, table: HiveTable) -> None:
    try:
        _create_in_database(metastore, table)
    except TableAlreadyExistsError as error:
        found = metastore.get_table(table.database, table.name)
        if not same_location(found.location, table.location):
            raise MetastoreRefusedError(
                f"The metastore has a table {table} already, at {found.location or 'no location'}, and the index's "
                f"table is at {table.location}. Rename or drop one of the two.",
                {"table": str(table), "location": table.location, "metastore_location": found.location},
            ) from error


def _create_in_database(metastore: HiveMetastore, table: HiveTable) -> None:
    try:
        metastore.create_table(table)
    except NamespaceNotFoundError:
        # The namespace is missing if it was created while no metastore was configured. Create it now.
        make_database(metastore, HiveDatabase(table.database))
        metastore.create_table(table)


def _drop_table(metastore: HiveMetastore, definition: TableDefinition) -> None:
    database, name = definition.identifier.namespace, definition.identifier.name
    try:
        found = metastore.get_table(database, name)
        if not same_location(found.location, definition.location):
            _log.warning(
                "The metastore's table %s.%s is at %s, not at %s where the dropped one was: it stays.",
                database, name, found.location, definition.location,
            )  # fmt: skip
            return
        metastore.drop_table(database, name)
    except TableNotFoundError:
        _log.debug("the table %s.%s is not in the metastore", database, name)


def _own_table(metastore: HiveMetastore, message: SyncPartitions | AlterTableStatistics) -> HiveTable:
    found = metastore.get_table(message.table.namespace, message.table.name)
    check_location(found, [message.location])
    return found


def _sync_partitions(metastore: HiveMetastore, message: SyncPartitions) -> Undelivered | None:
    table = _own_table(metastore, message)
    if not table.partition_columns:
        return None
    if table.table_type == VIRTUAL_VIEW:
        sync_view_partitions(metastore, table, message)
        return None
    names = _convertible(table, message.dropped, lambda name: hive_partition_name(table, name))
    freed = frozenset(names)
    chosen = {partition.name: partition for partition in (*message.added, *message.altered)}
    wanted: dict[tuple[str, ...], _Wanted] = {}
    for each in _convertible(table, list(chosen), lambda name: _Wanted(name, described_partition(table, chosen[name]))):
        # If this message also drops the same values under another spelling, the metastore's old location of the
        # partition is no conflict, so treat the partition as moved.
        each.moved = chosen[each.name].moved or table.name_of(each.hive.values) in freed
        wanted.setdefault(each.hive.values, each)
    unmoved = [each for each in wanted.values() if not each.moved]
    if names and unmoved:
        # RENAME drops one name and adds another. If the new name is in conflict, do not drop the old one yet: its rows
        # would disappear from the metastore.
        elsewhere = [e for chunk in batched(unmoved, DEFAULT_BATCH) for e in _looked_up(metastore, table, chunk)[1]]
        if elsewhere:
            return _undelivered(table, message, elsewhere)
    # Drop before adding: two spellings of the same values are one partition in the metastore.
    for batch in batched(names, SMALL_BATCH):
        metastore.drop_partitions(table.database, table.name, batch)
    elsewhere = []
    for chunk in batched(list(wanted.values()), DEFAULT_BATCH):
        elsewhere += _put_partitions(metastore, table, chunk)
    parameters = without_sparks_statistics(table.parameters)
    if parameters != table.parameters:
        metastore.alter_table(replace(table, parameters=parameters))
    left = {each.name for each, _ in elsewhere}
    rest = replace(
        message, dropped=(), added=tuple(p for p in message.added if p.name in left),
        altered=tuple(p for p in message.altered if p.name in left),
    )  # fmt: skip
    return _undelivered(table, rest, elsewhere) if elsewhere else None


@dataclass(slots=True)
class _Wanted:
    """A partition of a message: its name in the index, and the partition as the metastore stores it."""

    name: str
    hive: HivePartition
    moved: bool = False


_Elsewhere: TypeAlias = "list[tuple[_Wanted, HivePartition]]"
"""Pairs of a wanted partition and the metastore's partition with the same values, which a Hive engine put elsewhere."""


def _looked_up(
    metastore: HiveMetastore, table: HiveTable, wanted: Sequence[_Wanted]
) -> tuple[dict[tuple[str, ...], HivePartition], _Elsewhere]:
    """Look up partitions with one call; return them by values, and those that the metastore has at other locations."""
    found = found_by_values(metastore, table, [each.hive.values for each in wanted])
    both = [(each, found[each.hive.values]) for each in wanted if not each.moved and each.hive.values in found]
    return found, [(each, there) for each, there in both if not same_location(there.location, each.hive.location)]


def _undelivered(table: HiveTable, rest: SyncPartitions, elsewhere: _Elsewhere) -> Undelivered:
    """Return the conflict: Hive and the index have the same partition in two directories, each with its own rows."""
    wanted, there = elsewhere[0]
    several = f" and {len(elsewhere) - 1:,} more" if len(elsewhere) > 1 else ""
    name = table.name_of(wanted.hive.values)[:_SHOWN]
    return Undelivered(
        rest,
        f"The metastore has partition {name} of {table} at {there.location}, where a Hive engine has put it, and the "
        f"index has it at {wanted.hive.location}{several}. Both stay as they are. Rename the metastore's partition (in "
        "Hive: ALTER TABLE … PARTITION (…) RENAME TO PARTITION (…)): then the index's is delivered, and the follower "
        f"takes the renamed one. Or give one side up: catalog-ext publish {table} moves the metastore's partition to "
        "the index's directory; files stay in both.",
    )


def _put_partitions(metastore: HiveMetastore, table: HiveTable, chunk: Sequence[_Wanted]) -> _Elsewhere:
    """Add and alter partitions with their locations and statistics: one call each to look them up, add and alter.

    Returns:
        The partitions that the metastore has at other locations; these are not changed.
    """
    found, elsewhere = _looked_up(metastore, table, chunk)
    left = {each.hive.values for each, _ in elsewhere}
    wanted = [each.hive for each in chunk if each.hive.values not in left]

    def with_parameters_of(present: Mapping[str, str], partition: HivePartition) -> HivePartition:
        return replace(partition, parameters=with_statistics(present, partition.parameters))

    missing = [with_parameters_of({}, p) for p in wanted if p.values not in found]
    if missing:
        metastore.add_partitions(table.database, table.name, missing)
    there = [(found[p.values], with_parameters_of(found[p.values].parameters, p)) for p in wanted if p.values in found]
    changed = [with_secrets_of(before, now) for before, now in there if not _is_the_same(before, now)]
    if changed:
        _alter_partitions(metastore, table, changed)
    return elsewhere


def _alter_partitions(metastore: HiveMetastore, table: HiveTable, changed: Sequence[HivePartition]) -> None:
    """Alter partitions in one call, so that Hive engines see all changes at once; in parts if that is refused."""
    try:
        metastore.alter_partitions(table.database, table.name, changed)
    except MetastoreRefusedError as error:
        if len(changed) <= SMALL_BATCH:
            raise
        # Release 4 on Derby puts all names into one SQL condition and fails for many names; other databases accept it.
        _log.warning("%d partitions of %s go in parts of %d: %s", len(changed), table, SMALL_BATCH, error.message)
        for batch in batched(changed, SMALL_BATCH):
            metastore.alter_partitions(table.database, table.name, batch)


def _is_the_same(found: HivePartition, wanted: HivePartition) -> bool:
    same = same_location(found.location, wanted.location) and found.parameters == wanted.parameters
    return same and has_descriptor(found, wanted)


def _alter_table_statistics(metastore: HiveMetastore, message: AlterTableStatistics) -> None:
    table = _own_table(metastore, message)
    parameters = with_statistics(table.parameters, message.parameters)
    if parameters != table.parameters:
        metastore.alter_table(replace(table, parameters=parameters))


def _convertible(table: HiveTable, names: Sequence[str], convert: Callable[[str], Item]) -> list[Item]:
    """Convert the names; names that the metastore can never hold are logged and left out."""
    converted: list[Item] = []
    for name in names:
        try:
            converted.append(convert(name))
        except InvalidPartitionNameError as error:
            _log.warning("Left out of the metastore's table %s: %s", table, error.message)
    return converted
