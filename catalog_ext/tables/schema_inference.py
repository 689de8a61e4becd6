"""Reads a table's columns from a sample of its files, as Spark would, and unites them by name."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, SchemaConflictError, UnsupportedFormatError
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import STRING, Field
from catalog_ext.tables.schema.columnar import read_orc_fields, read_parquet_fields
from catalog_ext.tables.schema.csv_files import csv_fields
from catalog_ext.tables.schema.json_files import json_fields
from catalog_ext.tables.schema.lines import Head, ReaderOptions, read_head
from catalog_ext.tables.schema.merge import TypeConflictError, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

    FileRef: TypeAlias = tuple[Location, int]
    """A file's location, and its size in bytes."""

MIB = 1 << 20
_THREADS = 16
_CHUNK = 256
_TEXT_BUDGET = 16 * MIB
_LARGEST_DOCUMENT = 256 * MIB
"""Bytes of the largest multi-line JSON document that is read for its schema: a part of one cannot be parsed."""

_COLUMNAR: dict[str, Callable[[Storage, Location], tuple[Field, ...]]] = {
    "parquet": read_parquet_fields,
    "orc": read_orc_fields,
}
_TEXT: dict[str, Callable[[Iterator[Head], ReaderOptions], tuple[Field, ...]]] = {
    "csv": csv_fields,
    "json": json_fields,
}


def infer_columns(
    storage: Storage,
    files: Sequence[FileRef],
    format: str,
    options: Mapping[str, str],
) -> tuple[Column, ...]:
    """Infer the columns of files: their union by name, whatever the case, in the spelling and order first met.

    Parquet and ORC are read from their footers. Of CSV and JSON the first part is read, about 16 MiB altogether and at
    most 2 MiB of a file; their types are those that Spark would infer, where STRING holds what disagrees.

    Args:
        storage: Where the files are.
        files: The sample.
        format: One of ``catalog_ext.metastore.model.tables.FORMATS``.
        options: Spark's reader options of the format.

    Raises:
        SchemaConflictError: A column has types in two files that no type holds together; both are named.
        InvalidInputError: A file is damaged or of another format, or no file holds a column.
        InvalidTypeError: A file has a column that Spark cannot read.
        InvalidConfigurationError: An option's value is none that it may have.
        StorageError: A file cannot be read.
    """
    if format == "text":
        return (Column("value", str(STRING)),)
    if format in _COLUMNAR:
        fields = _union(_read_all(files, lambda location: _COLUMNAR[format](storage, location)))
    elif format in _TEXT:
        reader = ReaderOptions(options)
        fields = _TEXT[format](_heads(storage, files, reader), reader)
    else:
        raise UnsupportedFormatError(f"A schema cannot be read from files of the format {format[:60]!r}.")
    if not fields:
        shown = str(files[0][0]) if files else "no file"
        raise InvalidInputError(
            f"No column was found in {len(files)} {format} files ({shown}, …): they are empty. Give the schema.",
            {"file": shown},
        )
    return tuple(Column(f.name, str(f.type), comment=f.comment) for f in fields)


def without_keys(columns: Iterable[Column], keys: Iterable[Column]) -> tuple[Column, ...]:
    """Drop the columns named as a partition column: the path's value is shown (``docs/spec/semantics.md``)."""
    names = {key.name.lower() for key in keys}
    return tuple(c for c in columns if c.name.lower() not in names)


def _read_all(
    files: Sequence[FileRef], read: Callable[[Location], tuple[Field, ...]]
) -> Iterator[tuple[Location, tuple[Field, ...]]]:
    """Yield the fields of each file, in the order given whoever answers first, so that the union is always the same."""
    remaining = iter(files)
    with ThreadPoolExecutor(_THREADS, "schema") as pool:
        while chunk := [location for location, _ in islice(remaining, _CHUNK)]:
            yield from zip(chunk, pool.map(read, chunk), strict=True)


def _union(files: Iterable[tuple[Location, tuple[Field, ...]]]) -> tuple[Field, ...]:
    merged: dict[str, Field] = {}
    origin: dict[str, Location] = {}
    seen: set[tuple[Field, ...]] = set()
    for location, fields in files:
        if fields in seen:
            continue
        seen.add(fields)
        _refuse_twins(location, fields)
        for f in fields:
            name = f.name.lower()
            known = merged.setdefault(name, f)
            first = origin.setdefault(name, location)
            try:
                merged[name] = Field(
                    known.name, widen(known.type, f.type, known.name), comment=known.comment or f.comment
                )
            except TypeConflictError as error:
                raise _conflict(error, first, location) from error
    return tuple(merged.values())


def _refuse_twins(location: Location, fields: tuple[Field, ...]) -> None:
    first_by_name: dict[str, str] = {}
    for f in fields:
        twin = first_by_name.setdefault(f.name.lower(), f.name)
        if twin is not f.name:
            raise SchemaConflictError(
                f"{location} has the columns {twin!r} and {f.name!r}, which differ in case only or not at all. Give "
                "the schema with the one to be read.",
                {"file": str(location), "column": f.name},
            )


def _conflict(error: TypeConflictError, first: Location, second: Location) -> SchemaConflictError:
    return SchemaConflictError(
        f"The column {error.path!r} is {str(error.left).upper()} in {first} and {str(error.right).upper()} in "
        f"{second}, and no type holds both. Give the schema, or rewrite one of the files.",
        {"column": error.path, "file": str(first), "other_file": str(second)},
    )


def _heads(storage: Storage, files: Sequence[FileRef], options: ReaderOptions) -> Iterator[Head]:
    encoding = options.encoding()
    limit = max(MIB // 16, min(2 * MIB, _TEXT_BUDGET // max(1, len(files))))
    if options.flag("multiLine"):
        limit = _LARGEST_DOCUMENT
    remaining = iter(files)
    threads = min(_THREADS, max(1, 2 * _TEXT_BUDGET // limit))
    with ThreadPoolExecutor(threads, "schema") as pool:
        # As many at a time as there are threads: what waits to be looked at is memory.
        while chunk := [location for location, _ in islice(remaining, threads)]:
            yield from pool.map(lambda location: read_head(storage, location, limit, encoding), chunk)
