"""Applies alterations and renames of tables to the metastore. Every operation is idempotent."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    MetastoreRefusedError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.hive.mapping.conversion import as_read, column_key, to_hive, user_parameters
from catalog_ext.metastore.hive.mapping.descriptors import (
    Descriptors,
    columns_of_descriptor,
    has_descriptor,
    storage_of_descriptor,
)
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.model import (
    EXTERNAL_TABLE,
    MANAGED_TABLE,
    HiveDatabase,
    HivePartition,
    HiveTable,
)
from catalog_ext.metastore.hive.mapping.spark_schema import (
    PROVIDER,
    describes_columns,
    is_schema_parameter,
    keeps_columns_from_hive,
    read_schema,
)
from catalog_ext.metastore.hive.mapping.statistics_parameters import without_sparks_statistics
from catalog_ext.metastore.hive.outbox.ownership import check_location
from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, SMALL_BATCH
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.tables import Column, TableType

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.messages import AlterTable, RenameTable
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import TableDefinition

_log = logging.getLogger(__name__)
_EXTERNAL = "EXTERNAL"


def make_database(metastore: HiveMetastore, database: HiveDatabase) -> None:
    """Create the database, unless a database of that name exists."""
    try:
        metastore.create_database(database)
    except NamespaceAlreadyExistsError:
        _log.debug("the namespace %s is in the metastore already", database.name)


def alter_table(metastore: HiveMetastore, message: AlterTable) -> None:
    """Set the properties of the metastore's table, and its columns and location if the message changes them.

    Raises:
        MetastoreRefusedError: The metastore's table of this name is a different table, or the metastore cannot hold the
            altered table.
    """
    identifier = message.definition.identifier
    found = metastore.get_table(identifier.namespace, identifier.name)
    ours = message.definition.location
    check_location(found, [ours, message.previous_location or ours])
    wanted = altered(found, message)
    if message.kept:
        _replace_columns_but(metastore, found, wanted, message)
    elif wanted.columns != found.columns:
        _replace_columns(metastore, found, wanted)
    elif wanted != found:
        metastore.alter_table(wanted)


def altered(found: HiveTable, message: AlterTable) -> HiveTable:
    """Return the metastore's table with the message's changes; parameters that only the metastore has stay."""
    definition = message.definition
    wanted = rebuilt(found, definition) if message.rebuild else found
    if message.retype:
        wanted = retyped(found, definition)
    if message.settings:
        settings = {**wanted.storage.serde_parameters, **message.settings}
        wanted = replace(wanted, storage=replace(wanted.storage, serde_parameters=settings))
    parameters = {k: v for k, v in wanted.parameters.items() if k not in message.removed}
    # Do not send Spark's statistics: those in the index may be older than the metastore's own.
    parameters |= without_sparks_statistics(user_parameters(definition.properties))
    return replace(wanted, parameters=parameters)


def _replace_columns(metastore: HiveMetastore, found: HiveTable, wanted: HiveTable) -> None:
    """Replace the columns of the table and of all its partitions, in one call if the metastore accepts that."""
    try:
        metastore.alter_table(wanted, cascade=True)
    except MetastoreRefusedError as error:
        pairs = list(zip(found.columns, wanted.columns, strict=False))
        same = [new for _, new in takewhile(lambda pair: pair[0].type == pair[1].type, pairs)]
        if len(same) == len(pairs):
            raise
        # The metastore refuses a different type at the position of an existing column. So first drop all columns from
        # the first difference on, then set all wanted columns.
        _log.info("The columns of %s change in two steps: %s", wanted, error.message)
        metastore.alter_table(replace(wanted, columns=tuple(same)), cascade=True)
        metastore.alter_table(wanted, cascade=True)


def _replace_columns_but(metastore: HiveMetastore, found: HiveTable, wanted: HiveTable, message: AlterTable) -> None:
    """Replace the columns of the table and of its partitions, except partitions with a descriptor of their own."""
    if wanted != found:
        metastore.alter_table(wanted)
    own = [
        HivePartition((), "", {}, storage_of_descriptor(kept["hive"]), columns_of_descriptor(kept["hive"]))
        for kept in message.kept
    ]
    descriptors = Descriptors(wanted, message.definition)
    types = [(c.name, c.type) for c in wanted.columns]
    for names in batched(metastore.partition_names(wanted.database, wanted.name), DEFAULT_BATCH):
        partitions = metastore.partitions_by_names(wanted.database, wanted.name, names)
        behind = [
            replace(partition, columns=wanted.columns)
            for partition in partitions
            if [(c.name, c.type) for c in partition.columns] != types
            and not any(has_descriptor(partition, each) for each in own)
            and descriptors.reading(partition).problem is None
        ]
        for some in batched(behind, SMALL_BATCH):
            metastore.alter_partitions(wanted.database, wanted.name, some)


def rename_table(metastore: HiveMetastore, message: RenameTable) -> None:
    """Give the metastore's table its new name, and leave its files where they are.

    Raises:
        MetastoreRefusedError: The metastore has another table under the new name.
    """
    definition = message.definition
    renamed = _renamed(metastore, definition) or _rename(metastore, message.previous, definition)
    if renamed is not None and definition.table_type is TableType.MANAGED and renamed.table_type != MANAGED_TABLE:
        parameters = {k: v for k, v in renamed.parameters.items() if k != _EXTERNAL}
        metastore.alter_table(replace(renamed, table_type=MANAGED_TABLE, parameters=parameters))


def _renamed(metastore: HiveMetastore, definition: TableDefinition) -> HiveTable | None:
    """Return the metastore's table under the new name, if it is the renamed one; None if no table has the new name.

    Raises:
        MetastoreRefusedError: A different table has the new name.
    """
    identifier = definition.identifier
    try:
        found = metastore.get_table(identifier.namespace, identifier.name)
    except TableNotFoundError:
        return None
    if same_location(found.location, definition.location):
        return found
    raise MetastoreRefusedError(
        f"A table cannot be renamed to {identifier} in the metastore, which has another of that name at "
        f"{found.location or 'no location'}. Rename or drop one of the two.",
        {"table": str(identifier), "location": definition.location, "metastore_location": found.location},
    )


def _rename(metastore: HiveMetastore, previous: TableIdentifier, definition: TableDefinition) -> HiveTable | None:
    try:
        found = metastore.get_table(previous.namespace, previous.name)
    except TableNotFoundError:
        _log.warning("The table %s is not in the metastore: nothing is renamed there.", previous)
        return None
    if not same_location(found.location, definition.location):
        _log.warning("The metastore's table %s is at %s: it is another, and keeps its name.", found, found.location)
        return None
    if found.table_type == MANAGED_TABLE:
        # Make the table external first: the metastore would move a managed table's directory while it is read and
        # written.
        found = replace(found, table_type=EXTERNAL_TABLE, parameters={**found.parameters, _EXTERNAL: "TRUE"})
        metastore.alter_table(found)
    to = definition.identifier
    try:
        metastore.get_database(to.namespace)
    except NamespaceNotFoundError:
        make_database(metastore, HiveDatabase(to.namespace))
    metastore.rename_table(previous.namespace, previous.name, to.namespace, to.name)
    return replace(found, database=to.namespace, name=to.name)


def rebuilt(found: HiveTable, definition: TableDefinition) -> HiveTable:
    """Return the metastore's table with the columns and the location of an altered definition; everything else stays.

    A table that a Hive engine created gets no Spark schema beside its columns.

    Raises:
        MetastoreRefusedError: The metastore cannot hold the altered table.
    """
    wanted = to_hive(definition)
    parameters = dict(found.parameters)
    if any(map(is_schema_parameter, parameters)) and _schema_differs(found, wanted):
        # Keep Spark's parameters on buckets, their order and Spark's release: the index's definition does not contain
        # them.
        provider = {PROVIDER: parameters[PROVIDER]} if PROVIDER in parameters else {}
        of_spark = {k: v for k, v in wanted.parameters.items() if is_schema_parameter(k) and k != PROVIDER}
        parameters = {k: v for k, v in parameters.items() if not describes_columns(k)} | of_spark | provider
    settings = dict(found.storage.serde_parameters)
    moved = not same_location(found.location, wanted.location)
    if moved and "path" in settings:
        settings["path"] = wanted.location
    return replace(
        found,
        location=wanted.location if moved else found.location,
        columns=_kept_columns(found, wanted.columns),
        storage=replace(found.storage, serde_parameters=settings),
        parameters=parameters,
    )


def retyped(found: HiveTable, definition: TableDefinition) -> HiveTable:
    """Return the metastore's table with the partition column types of an altered definition.

    Raises:
        MetastoreRefusedError: The metastore cannot hold the altered table.
    """
    return replace(
        rebuilt(found, definition), columns=found.columns, partition_columns=to_hive(definition).partition_columns
    )


def _schema_differs(found: HiveTable, wanted: HiveTable) -> bool:
    try:
        spark = read_schema(found.parameters, str(found))
        if spark is not None:
            spark = as_read(found.storage, spark[0]), spark[1]
        return spark != read_schema(wanted.parameters, str(wanted))
    except UnsupportedFormatError:
        return True


def _kept_columns(found: HiveTable, wanted: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the wanted columns, with the metastore's spelling of the names of existing columns."""
    if keeps_columns_from_hive(found.parameters.get(PROVIDER, "hive").lower(), found.columns):
        return found.columns
    read = zip(as_read(found.storage, found.columns), found.columns, strict=True)
    known = {column_key(column): declared for column, declared in read}
    return tuple(known.get(column_key(column), column) for column in wanted)
