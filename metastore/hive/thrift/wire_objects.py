"""Converts databases, tables, partitions and locks to thrift's types, and back.

The client library has the types of release 2.3. A server replaces an altered table as a whole, so fields that releases
3 and 4 have added and the library does not know would be lost; the owner's type, for example, would become USER.
``_FIELDS`` adds these fields to the library's types.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as service
from hmsclient.genthrift.hive_metastore import ttypes as wire
from thrift.Thrift import TType

from catalog_ext.metastore.errors import HiveLockLostError
from catalog_ext.metastore.hive.mapping.model import (
    HiveDatabase,
    HivePartition,
    HiveStorage,
    HiveTable,
    LockState,
    LockType,
    ShownLock,
)
from catalog_ext.metastore.model.tables import Column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from thrift.protocol.TProtocol import TProtocolBase

    from catalog_ext.metastore.hive.mapping.model import LockComponent

Spec = tuple[Any, ...]

_FIELDS: dict[type, tuple[tuple[int, int, str], ...]] = {
    wire.Table: ((18, TType.I32, "ownerType"),),
    wire.SerDeInfo: (
        (4, TType.STRING, "description"),
        (5, TType.STRING, "serializerClass"),
        (6, TType.STRING, "deserializerClass"),
        (7, TType.I32, "serdeType"),
    ),
}
_READ_AND_WRITTEN = (
    wire.StorageDescriptor, wire.Table, wire.Partition, wire.PartitionSpecWithSharedSD, wire.GetTableResult,
    service.create_table_args, service.get_table_result, service.alter_table_with_environment_context_args,
)  # fmt: skip
"""Types and calls that contain the extended types, inner ones first: each holds the field list of the type inside."""


def keep_newer_fields() -> None:
    """Add the newer fields to the client library's types; a second call changes nothing."""
    for kind, fields in _FIELDS.items():
        kind.thrift_spec = _extended(kind.thrift_spec, fields)  # type: ignore[attr-defined]
        for _, _, name in fields:
            if not hasattr(kind, name):
                setattr(kind, name, None)
        kind.read, kind.write = _read, _write  # type: ignore[attr-defined]
    for holder in _READ_AND_WRITTEN:
        for field in filter(None, holder.thrift_spec):
            _renew(field[3])


def _extended(spec: Spec, fields: tuple[tuple[int, int, str], ...]) -> Spec:
    """Return thrift's description of a type, indexed by field number, with additional fields."""
    places = [*spec, *[None] * (max(number for number, _, _ in fields) + 1 - len(spec))]
    for number, kind, name in fields:
        places[number] = (number, kind, name, "UTF8" if kind == TType.STRING else None, None)
    return tuple(places)


def _renew(held: object) -> None:
    """Make thrift's description of a field, or of a list's elements, refer to the extended types."""
    if isinstance(held, list) and held and isinstance(held[0], type):
        held[1] = held[0].thrift_spec  # type: ignore[attr-defined]
    elif isinstance(held, tuple):
        for each in held:
            _renew(each)


def _read(self: wire.Table, protocol: TProtocolBase) -> None:
    protocol.readStruct(self, self.thrift_spec)


def _write(self: wire.Table, protocol: TProtocolBase) -> None:
    protocol.writeStruct(self, self.thrift_spec)


# Extend the types at import: an object that is read without the newer fields would be written back without them.
keep_newer_fields()


def database_of(found: wire.Database) -> HiveDatabase:
    """Return the database from thrift's object."""
    return HiveDatabase(found.name, found.locationUri or None, found.description or None, dict(found.parameters or {}))


def wire_database(database: HiveDatabase) -> wire.Database:
    """Return thrift's object for the database."""
    return wire.Database(
        name=database.name,
        description=database.comment or "",
        locationUri=database.location,
        parameters=dict(database.parameters),
    )


def _columns(fields: Sequence[wire.FieldSchema] | None) -> tuple[Column, ...]:
    return tuple(Column(f.name, f.type, comment=f.comment or None) for f in fields or ())


def _fields(columns: Sequence[Column]) -> list[wire.FieldSchema]:
    return [wire.FieldSchema(c.name, c.type, c.comment or "") for c in columns]


def _storage(descriptor: wire.StorageDescriptor) -> HiveStorage:
    serde = descriptor.serdeInfo or wire.SerDeInfo()
    return HiveStorage(
        input_format=descriptor.inputFormat or "",
        output_format=descriptor.outputFormat or "",
        serde=serde.serializationLib or "",
        serde_parameters=dict(serde.parameters or {}),
        bucket_columns=tuple(descriptor.bucketCols or ()),
        bucket_count=-1 if descriptor.numBuckets is None else descriptor.numBuckets,
        skewed_columns=tuple(descriptor.skewedInfo.skewedColNames or ()) if descriptor.skewedInfo else (),
        skewed_directories=bool(descriptor.storedAsSubDirectories),
    )


def table_of(found: wire.Table) -> HiveTable:
    """Return the table from thrift's object."""
    return HiveTable(
        database=found.dbName, name=found.tableName, table_type=found.tableType or "", location=found.sd.location or "",
        columns=_columns(found.sd.cols), partition_columns=_columns(found.partitionKeys), storage=_storage(found.sd),
        parameters=_present(found.parameters), owner=found.owner or "",
        view_original_text=found.viewOriginalText or None, view_expanded_text=found.viewExpandedText or None,
    )  # fmt: skip


def _present(parameters: Mapping[str, str | None] | None) -> dict[str, str]:
    # In some metastore databases (Oracle) Hive stores an empty parameter as null. Both mean ''.
    return {key: value or "" for key, value in (parameters or {}).items()}


def partition_of(found: wire.Partition) -> HivePartition:
    """Return the partition from thrift's object."""
    if found.sd is None:
        return HivePartition(tuple(found.values), "", _present(found.parameters))
    return HivePartition(
        values=tuple(found.values),
        location=found.sd.location or "",
        parameters=_present(found.parameters),
        storage=_storage(found.sd),
        columns=_shared_columns(_names_and_types(found.sd.cols)),
    )


def _names_and_types(fields: Sequence[wire.FieldSchema] | None) -> tuple[tuple[str, str], ...]:
    return tuple((f.name, f.type) for f in fields or ())


@lru_cache(maxsize=64)
def _shared_columns(fields: tuple[tuple[str, str], ...]) -> tuple[Column, ...]:
    """Return the columns of a partition's descriptor; cached, because most partitions of a table have equal columns."""
    return tuple(Column(name, kind) for name, kind in fields)


def overlay(target: wire.Table, table: HiveTable) -> wire.Table:
    """Return ``target`` (thrift's) with the attributes of ``table``; thrift's other attributes (privileges …) stay."""
    target.dbName, target.tableName, target.tableType = table.database, table.name, table.table_type
    target.owner = table.owner or target.owner or ""
    target.parameters = dict(table.parameters)
    target.partitionKeys = _fields(table.partition_columns)
    target.createTime, target.lastAccessTime = target.createTime or 0, target.lastAccessTime or 0
    target.retention = target.retention or 0
    target.sd = _overlay_storage(target.sd or wire.StorageDescriptor(compressed=False), table.storage)
    target.sd.cols = _fields(table.columns)
    target.sd.location = table.location or None
    target.viewOriginalText, target.viewExpandedText = table.view_original_text, table.view_expanded_text
    return target


def _overlay_storage(descriptor: wire.StorageDescriptor, storage: HiveStorage) -> wire.StorageDescriptor:
    serde = descriptor.serdeInfo or wire.SerDeInfo()
    serde.serializationLib, serde.parameters = storage.serde or None, dict(storage.serde_parameters)
    descriptor.serdeInfo = serde
    descriptor.inputFormat, descriptor.outputFormat = storage.input_format, storage.output_format
    descriptor.bucketCols, descriptor.numBuckets = list(storage.bucket_columns), storage.bucket_count
    descriptor.sortCols = descriptor.sortCols or []
    descriptor.parameters = descriptor.parameters or {}
    return descriptor


def overlay_partition(target: wire.Partition, partition: HivePartition) -> wire.Partition:
    """Set all attributes of ``partition`` in thrift's object ``target``, and return ``target``."""
    target.parameters = dict(partition.parameters)
    target.sd.location = partition.location
    if partition.storage is not None:
        target.sd = _overlay_storage(target.sd, partition.storage)
        if partition.columns and partition.columns != _shared_columns(_names_and_types(target.sd.cols)):
            target.sd.cols = _fields(partition.columns)
    return target


def without_path(serde: wire.SerDeInfo) -> wire.SerDeInfo:
    """Return the table's serde for its partitions, without the path: Spark stores the table's location there."""
    parameters = {k: v for k, v in (serde.parameters or {}).items() if k != "path"}
    return wire.SerDeInfo(name=serde.name, serializationLib=serde.serializationLib, parameters=parameters)


def wire_view_partition(database: str, view: str, partition: HivePartition) -> wire.Partition:
    """Return thrift's object for a partition of a view.

    The partition gets an empty storage descriptor. Hive itself writes no descriptor, but then a metastore that keeps a
    notification log cannot add the partition, because its listener reads the location from the descriptor. No engine
    reads the empty descriptor.
    """
    empty = wire.StorageDescriptor(
        cols=[], compressed=False, numBuckets=-1, serdeInfo=wire.SerDeInfo(parameters={}), bucketCols=[], sortCols=[],
        parameters={},
    )  # fmt: skip
    return _wire_partition(database, view, partition, empty)


def wire_partition(
    database: str, table: str, partition: HivePartition, descriptor: wire.StorageDescriptor, serde: wire.SerDeInfo
) -> wire.Partition:
    """Return thrift's object for a new partition of a table with this storage descriptor and serde."""
    own = wire.StorageDescriptor(
        cols=descriptor.cols, location=partition.location, inputFormat=descriptor.inputFormat,
        outputFormat=descriptor.outputFormat, compressed=descriptor.compressed, numBuckets=descriptor.numBuckets,
        serdeInfo=serde, bucketCols=descriptor.bucketCols, sortCols=descriptor.sortCols,
        parameters=descriptor.parameters, skewedInfo=_skewed(descriptor.skewedInfo),
        storedAsSubDirectories=descriptor.storedAsSubDirectories,
    )  # fmt: skip
    if partition.storage is not None:
        own.serdeInfo = wire.SerDeInfo(name=serde.name)
        own = _overlay_storage(own, partition.storage)
        own.cols = _fields(partition.columns) if partition.columns else own.cols
    return _wire_partition(database, table, partition, own)


def _skewed(table: wire.SkewedInfo | None) -> wire.SkewedInfo | None:
    """Return the table's skew information without directories: each partition has its own directories."""
    return None if table is None else wire.SkewedInfo(table.skewedColNames, table.skewedColValues, {})


def _wire_partition(
    database: str, table: str, partition: HivePartition, descriptor: wire.StorageDescriptor
) -> wire.Partition:
    return wire.Partition(
        values=list(partition.values), dbName=database, tableName=table, createTime=0, lastAccessTime=0, sd=descriptor,
        parameters=dict(partition.parameters),
    )  # fmt: skip


_GONE = (wire.NoSuchLockException, wire.NoSuchTxnException, wire.TxnAbortedException)
_TYPES = {one.value: one.name for one in LockType}


def wire_component(component: LockComponent) -> wire.LockComponent:
    """Return thrift's object for a component of a lock request."""
    level = wire.LockLevel.PARTITION if component.partition else wire.LockLevel.TABLE
    return wire.LockComponent(
        type=int(component.lock_type), level=level, dbname=component.database, tablename=component.table,
        partitionname=component.partition or None, operationType=int(component.operation), isAcid=False,
        isDynamicPartitionWrite=False,
    )  # fmt: skip


def shown_lock(found: wire.ShowLocksResponseElement) -> ShownLock:
    """Return a lock of thrift's answer to SHOW LOCKS."""
    return ShownLock(
        number=int(found.lockid), database=found.dbname or "", table=found.tablename or "",
        partition=found.partname or "", state=LockState(found.state), lock_type=_TYPES.get(found.type, str(found.type)),
        user=found.user or "", host=found.hostname or "", agent=found.agentInfo or "",
        transaction=int(found.txnid or 0), blocked_by=None if not found.blockedByExtId else int(found.blockedByExtId),
    )  # fmt: skip


@contextmanager
def lost_where_gone(number: int) -> Iterator[None]:
    """Raise ``HiveLockLostError`` if a call in this context reports that the server no longer has the lock."""
    try:
        yield
    except _GONE as error:
        raise HiveLockLostError(
            f"The metastore does not know the lock {number} any more.", {"lock": str(number)}
        ) from error
