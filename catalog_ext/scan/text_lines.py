"""Reads the first lines of text files, plain or compressed, and the reader options that CSV, JSON and text share."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

_CODECS = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd"}
FOREIGN_CODECS = (".snappy", ".lz4", ".deflate", ".lzo")
_LINE_END = re.compile(r"\r\n|\n|\r")


class ReaderOptions:
    """Spark's reader options of a table; names are case-insensitive."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {key.lower(): value for key, value in options.items()}

    def text(self, *names: str, default: str) -> str:
        """Return the value of the first name that is set, else the default."""
        return next((self._options[n.lower()] for n in names if n.lower() in self._options), default)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean option.

        Raises:
            InvalidConfigurationError: The value is neither ``true`` nor ``false``.
        """
        value = self._options.get(name.lower(), str(default)).strip().lower()
        if value not in ("true", "false"):
            raise InvalidConfigurationError(f"The option {name!r} is {value[:60]!r}; it must be true or false.")
        return value == "true"

    def encoding(self) -> str:
        """Return the Python name of ``encoding`` (or ``charset``).

        Raises:
            InvalidConfigurationError: There is no such encoding.
        """
        encoding = self.text("encoding", "charset", default="UTF-8")
        try:
            return codecs.lookup(encoding).name
        except LookupError as error:
            raise InvalidConfigurationError(f"The option 'encoding' names no encoding: {encoding[:60]!r}.") from error


@dataclass(frozen=True, slots=True)
class Head:
    """The first part of a file.

    Attributes:
        location: The file.
        text: The decoded text; bytes that are invalid in the encoding become U+FFFD.
        complete: Whether it is the whole file.
    """

    location: Location
    text: str
    complete: bool

    def lines(self, separator: str | None = None) -> list[str]:
        """Return the lines. The last line is omitted if the limit has cut it off, unless it is the only one."""
        found = self.text.split(separator) if separator else _LINE_END.split(self.text)
        return found if self.complete or len(found) == 1 else found[:-1]


def read_head(storage: Storage, location: Location, limit: int, encoding: str) -> Head:
    """Return the first ``limit`` bytes of a file, decompressed by the file's extension (as Spark does it).

    Raises:
        InvalidInputError: The codec is not supported, or the data is damaged.
        StorageError: The file cannot be read.
    """
    name = str(location).lower()
    codec = next((codec for suffix, codec in _CODECS.items() if name.endswith(suffix)), None)
    if name.endswith(FOREIGN_CODECS):
        raise InvalidInputError(
            f"The schema cannot be read from {location}: its compression is not supported here. Give the schema.",
            {"file": str(location)},
        )
    with storage.open_input_file(location) as raw:
        try:
            data = _read(raw if codec is None else pa.CompressedInputStream(raw, codec), limit + 1)
        except (pa.ArrowException, OSError) as error:
            if codec is None and not isinstance(error, pa.ArrowException):
                raise storage.translate(error, location, "read") from error
            raise InvalidInputError(
                f"{location} is damaged or not compressed as its name says: {str(error)[:200]}. Remove it, or give the "
                "schema.",
                {"file": str(location)},
            ) from error
    # Hadoop's line reader, and so Spark, skips a byte order mark.
    text = data[:limit].decode(encoding, "replace").removeprefix("\ufeff")
    return Head(location, text, len(data) <= limit)


def _read(stream: pa.NativeFile, size: int) -> bytes:
    parts: list[bytes] = []
    while size > 0 and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
