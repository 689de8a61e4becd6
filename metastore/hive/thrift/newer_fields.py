"""Fields of thrift's types that releases 3 and 4 of the metastore have added, and that must come back to it.

The client's types are of release 2.3. A server takes an altered table as a whole: what its release says of it and the
client does not know, it would lose. The owner's type is read by the server as USER then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as service
from hmsclient.genthrift.hive_metastore import ttypes as wire
from thrift.Thrift import TType

if TYPE_CHECKING:
    from thrift.protocol.TProtocol import TProtocolBase

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
"""What holds the types, from the inside out, on the way of a table that is altered or a partition that is."""


def keep_newer_fields() -> None:
    """Have the client's types carry them; again, it changes nothing."""
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
    """Return the description of a type, whose places are the numbers of its fields, with more fields."""
    places = [*spec, *[None] * (max(number for number, _, _ in fields) + 1 - len(spec))]
    for number, kind, name in fields:
        places[number] = (number, kind, name, "UTF8" if kind == TType.STRING else None, None)
    return tuple(places)


def _renew(held: object) -> None:
    """Let a field's description, or that of a list's elements, name the types as they are now."""
    if isinstance(held, list) and held and isinstance(held[0], type):
        held[1] = held[0].thrift_spec  # type: ignore[attr-defined]
    elif isinstance(held, tuple):
        for each in held:
            _renew(each)


def _read(self: wire.Table, protocol: TProtocolBase) -> None:
    protocol.readStruct(self, self.thrift_spec)


def _write(self: wire.Table, protocol: TProtocolBase) -> None:
    protocol.writeStruct(self, self.thrift_spec)
