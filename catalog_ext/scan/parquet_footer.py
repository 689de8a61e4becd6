"""Reads the footer of a Parquet file as leniently as Spark.

Arrow refuses a file whose maps have optional keys, which Presto, Athena and Hive write and Spark reads. This module
changes the bytes that mark the keys as optional, in a copy of the footer, and gives that copy to Arrow.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"
"""The last bytes of a Parquet file whose footer is encrypted: a reader with the key may read it."""

_TAIL_BYTES = 8
_SCHEMA_FIELD, _REPETITION_FIELD, _CHILDREN_FIELD, _CONVERTED_FIELD, _LOGICAL_FIELD = 2, 3, 5, 6, 10
_LOGICAL_MAP = 2
_CONVERTED_MAPS = (1, 2)
_REQUIRED, _OPTIONAL = 0, 2
"""Parquet's repetition types ``REQUIRED`` and ``OPTIONAL``, encoded as zigzag varints."""

_BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _LISTS, _MAP, _STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11, 12
_MOST_DEPTH = 64
_MOST_BITS = 63
"""The most bits of a varint. Without this limit a damaged footer of megabytes could be read as one number, for
hours."""


def read_footer(file: pa.NativeFile) -> pq.FileMetaData | None:
    """Return the metadata of a Parquet file; None if its footer is encrypted.

    Raises:
        pa.ArrowException, OSError, ValueError: The file is not a Parquet file, or damaged.
    """
    size = file.size()
    file.seek(max(0, size - _TAIL_BYTES))
    tail = file.read()
    if tail[-4:] == ENCRYPTED_MAGIC:
        return None
    file.seek(0)
    try:
        return pq.read_metadata(file)
    except pa.ArrowInvalid:
        footer = _footer(file, size, tail)
        patched = bytearray(footer)
        for repetition, at in map_keys(footer) if footer else ():
            if repetition == _OPTIONAL:
                patched[at] = _REQUIRED
        if patched == footer:
            raise
        whole = b"".join((_MAGIC, bytes(patched), struct.pack("<I", len(patched)), _MAGIC))
        return pq.read_metadata(pa.BufferReader(whole))


def _footer(file: pa.NativeFile, size: int, tail: bytes) -> bytes:
    length = struct.unpack("<I", tail[:4])[0] if len(tail) == _TAIL_BYTES else size
    if tail[4:] != _MAGIC or length + _TAIL_BYTES > size:
        return b""
    file.seek(size - _TAIL_BYTES - length)
    return bytes(file.read(length))


def map_keys(footer: bytes) -> list[tuple[int, int]]:
    """Return, for each map, the repetition type of its key and the position of that type in the footer.

    Raises:
        ValueError: The bytes are not a Parquet footer.
    """
    elements = list(_Compact(footer).schema_elements())
    # A map is a group that contains one repeated group, whose first field is the key.
    return [
        (key.repetition, key.repetition_at)
        for outer, entry, key in zip(elements, elements[1:], elements[2:], strict=False)
        if outer.is_map and outer.children == 1 and entry.children > 0
    ]


class _Element:
    """A node of the schema, with the attributes that show whether it is a map and whether it is optional."""

    def __init__(self) -> None:
        self.children = 0
        self.is_map = False
        self.repetition = _REQUIRED
        self.repetition_at = 0


class _Compact:
    """A parser for structures of Thrift's compact protocol, with only what a Parquet schema needs.

    Raises:
        ValueError: The bytes do not follow the protocol.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def schema_elements(self) -> Iterator[_Element]:
        """Yield the schema nodes at the beginning of a FileMetaData structure, in the order of the file."""
        for field, kind in self._fields():
            if field == _SCHEMA_FIELD and kind in _LISTS:
                count, _ = self._list_header()
                for _ in range(count):
                    yield self._element()
                return
            self._skip(kind)

    def _element(self) -> _Element:
        element = _Element()
        for field, kind in self._fields():
            at = self._at
            if field == _REPETITION_FIELD:
                element.repetition, element.repetition_at = self._varint(), at
            elif field == _CHILDREN_FIELD:
                element.children = self._varint() // 2
            elif field == _CONVERTED_FIELD:
                element.is_map |= self._varint() // 2 in _CONVERTED_MAPS
            elif field == _LOGICAL_FIELD and kind == _STRUCT:
                for choice, chosen in self._fields():
                    element.is_map |= choice == _LOGICAL_MAP
                    self._skip(chosen)
            else:
                self._skip(kind)
        return element

    def _fields(self) -> Iterator[tuple[int, int]]:
        """Yield the number and the type of each field of a structure; the caller reads or skips its value."""
        number = 0
        while (head := self._byte()) != 0:
            delta, kind = head >> 4, head & 0x0F
            if delta:
                number += delta
            else:
                zigzag = self._varint()
                number = (zigzag >> 1) ^ -(zigzag & 1)
            yield number, kind

    def _list_header(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        return self._count(self._varint() if count == 15 else count), head & 0x0F

    def _skip(self, kind: int, depth: int = 0, *, in_list: bool = False) -> None:
        if depth > _MOST_DEPTH:
            raise ValueError("the footer nests too deeply")
        if kind in _BOOLEANS:
            self._at += int(in_list)
        elif kind == _BYTE:
            self._at += 1
        elif kind in _INTEGERS:
            self._varint()
        elif kind == _DOUBLE:
            self._at += 8
        elif kind == _BINARY:
            length = self._varint()
            self._at += length
        elif kind in _LISTS:
            count, element = self._list_header()
            for _ in range(count):
                self._skip(element, depth + 1, in_list=True)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind == _MAP:
            self._skip_map(depth)
        else:
            raise ValueError(f"the footer has a field of the unknown type {kind}")

    def _skip_map(self, depth: int) -> None:
        count = self._count(self._varint())
        kinds = self._byte() if count else 0
        for _ in range(count):
            self._skip(kinds >> 4, depth + 1, in_list=True)
            self._skip(kinds & 0x0F, depth + 1, in_list=True)

    def _count(self, count: int) -> int:
        if count > len(self._data):
            raise ValueError("the footer has a list that is longer than the footer")
        return count

    def _byte(self) -> int:
        if self._at >= len(self._data):
            raise ValueError("the footer ends too early")
        self._at += 1
        return self._data[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            part = self._byte()
            value |= (part & 0x7F) << shift
            shift += 7
            if part < 0x80:
                return value
            if shift > _MOST_BITS:
                raise ValueError("the footer has a number that is too long")
