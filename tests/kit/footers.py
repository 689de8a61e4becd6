"""Edits footers of Parquet and ORC files, to get files of other writers and of older libraries.

Both codecs are generic: a struct of Thrift is a map of field numbers to ``(type, value)``, a message of Protocol
Buffers a list of ``(field, wire type, value)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Struct = dict[int, tuple[int, Any]]
Message = list[tuple[int, int, Any]]
CREATED_BY, ROW_GROUPS = 6, 4
MAX, MIN, NULL_COUNT, MAX_VALUE, MIN_VALUE, MAX_IS_EXACT = 1, 2, 3, 5, 6, 7
VALUES, INT_STATISTICS, HAS_NULL = 1, 2, 10


def change_parquet(
    path: Path,
    statistics: Callable[[int, str, Struct], Struct | None] | None = None,
    created_by: str | None = "",
) -> None:
    """Rewrite a footer.

    Args:
        path: The file.
        statistics: Gets the row group's number, the column's name and its statistics; returns what takes their place.
        created_by: The writer; None for a footer without one, empty to leave it.
    """
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = _read_struct(TCompactProtocol(TMemoryBuffer(data[-8 - length : -8])))
    if created_by is None:
        del footer[CREATED_BY]
    elif created_by:
        footer[CREATED_BY] = (TType.STRING, created_by.encode())
    for number, group in enumerate(footer[ROW_GROUPS][1][1]):
        for chunk in group[1][1][1]:
            column = chunk[3][1]
            name = column[3][1][1][0].decode()
            if statistics is not None:
                changed = statistics(number, name, column.get(12, (TType.STRUCT, {}))[1])
                column.pop(12, None)
                if changed is not None:
                    column[12] = (TType.STRUCT, changed)
    buffer = TMemoryBuffer()
    _write_struct(TCompactProtocol(buffer), footer)
    new = buffer.getvalue()
    path.write_bytes(data[: -8 - length] + new + len(new).to_bytes(4, "little") + b"PAR1")


def change_orc(
    path: Path,
    statistics: Callable[[int, Message], Message] | None = None,
    *,
    footer: Callable[[Message], Message] = lambda found: found,
    writer_version: int | None = None,
) -> None:
    """Rewrite the footer of a file that is not compressed.

    Args:
        path: The file.
        statistics: Gets a column's number (0 is the root's) and its statistics; returns what takes their place.
        footer: Returns what takes the footer's place.
        writer_version: As the postscript has it.
    """
    data = path.read_bytes()
    postscript = _read_message(data[-1 - data[-1] : -1])
    length = next(value for field, _, value in postscript if field == 1)
    end = len(data) - 1 - data[-1]
    found, number = _read_message(data[end - length : end]), 0
    for i, (field, wire, value) in enumerate(found):
        if field == 7 and statistics is not None:
            found[i] = (field, wire, write_message(statistics(number, _read_message(value))))
            number += 1
    new = write_message(footer(found))
    changed = {1: len(new)} | ({} if writer_version is None else {6: writer_version})
    tail = write_message([(f, wire, changed.get(f, value)) for f, wire, value in postscript])
    path.write_bytes(data[: end - length] + new + tail + bytes([len(tail)]))


def without(message: Message, *fields: int) -> Message:
    """The message without some of its fields."""
    return [part for part in message if part[0] not in fields]


def within(message: Message, field: int, change: Callable[[Message], Message]) -> Message:
    """The message with another one in a field."""
    return [
        (number, wire, write_message(change(_read_message(value))) if number == field else value)
        for number, wire, value in message
    ]


def _read_struct(protocol: Any) -> Struct:
    fields: Struct = {}
    protocol.readStructBegin()
    while True:
        _, kind, number = protocol.readFieldBegin()
        if kind == TType.STOP:
            protocol.readStructEnd()
            return fields
        fields[number] = (kind, _read(protocol, kind))
        protocol.readFieldEnd()


def _read(protocol: Any, kind: int) -> Any:
    if kind == TType.STRUCT:
        return _read_struct(protocol)
    if kind == TType.LIST:
        item, size = protocol.readListBegin()
        items = [_read(protocol, item) for _ in range(size)]
        protocol.readListEnd()
        return item, items
    return getattr(protocol, f"read{_SCALARS[kind]}")()


def _write_struct(protocol: Any, fields: Struct) -> None:
    protocol.writeStructBegin("")
    for number, (kind, value) in sorted(fields.items()):
        protocol.writeFieldBegin("", kind, number)
        _write(protocol, kind, value)
        protocol.writeFieldEnd()
    protocol.writeFieldStop()
    protocol.writeStructEnd()


def _write(protocol: Any, kind: int, value: Any) -> None:
    if kind == TType.STRUCT:
        _write_struct(protocol, value)
    elif kind == TType.LIST:
        item, items = value
        protocol.writeListBegin(item, len(items))
        for each in items:
            _write(protocol, item, each)
        protocol.writeListEnd()
    else:
        getattr(protocol, f"write{_SCALARS[kind]}")(value)


_SCALARS = {
    TType.BOOL: "Bool", TType.BYTE: "Byte", TType.I16: "I16", TType.I32: "I32", TType.I64: "I64",
    TType.DOUBLE: "Double", TType.STRING: "Binary",
}  # fmt: skip


def _read_message(data: bytes) -> Message:
    at, found = 0, []
    while at < len(data):
        key, at = _read_number(data, at)
        value: Any
        if key & 7 == 0:
            value, at = _read_number(data, at)
        else:
            size, at = (8, at) if key & 7 == 1 else (4, at) if key & 7 == 5 else _read_number(data, at)
            value, at = data[at : at + size], at + size
        found.append((key >> 3, key & 7, value))
    return found


def write_message(message: Message) -> bytes:
    """The bytes of a message."""
    found = bytearray()
    for field, wire, value in message:
        found += _number(field << 3 | wire)
        if wire == 0:
            found += _number(value)
        else:
            found += (_number(len(value)) if wire == 2 else b"") + value
    return bytes(found)


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at


def _number(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])
