"""Infers a table's columns from a sample of its files, as Spark would, and merges them by name."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.errors import (
    CatalogExtError,
    InvalidInputError,
    InvalidTypeError,
    LocationNotFoundError,
    SchemaConflictError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import STRING, Field
from catalog_ext.scan.file_formats import binary_format
from catalog_ext.scan.text_lines import Head, ReaderOptions, read_head
from catalog_ext.tables.schema.columnar import read_orc_fields, read_parquet_fields
from catalog_ext.tables.schema.csv_files import csv_fields
from catalog_ext.tables.schema.json_files import json_fields
from catalog_ext.tables.schema.merge import TypeConflictError, widen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

    FileRef: TypeAlias = tuple[Location, int]
    """A file's location, and its size in bytes."""

logger = logging.getLogger(__name__)

T = TypeVar("T")

MIB = 1 << 20
_SHOWN = 5
_THREADS = 16
_CHUNK = 256
_TEXT_BUDGET = 16 * MIB
_LARGEST_DOCUMENT = 256 * MIB
"""The largest multi-line JSON document, in bytes, that is read for its schema. It is read whole, since a part of it
cannot be parsed."""

_COLUMNAR: dict[str, Callable[[Storage, Location], tuple[Field, ...]]] = {
    "parquet": read_parquet_fields,
    "orc": read_orc_fields,
}
_TEXT: dict[str, Callable[[Iterator[Head], ReaderOptions], tuple[Field, ...]]] = {
    "csv": csv_fields,
    "json": json_fields,
}


def infer_columns(
    storage: Storage, files: Sequence[FileRef], format: str, options: Mapping[str, str]
) -> tuple[Column, ...]:
    """Infer the columns of files: their union by name, ignoring case, in the first spelling and order.

    Parquet and ORC are read from their footers. Of CSV and JSON the first part is read, about 16 MiB altogether and at
    most 2 MiB of a file; their types are those that Spark would infer, with STRING for conflicting types. Empty files
    have no columns. A file that is damaged, of another format or missing is left out with a warning if another file of
    the sample can be read: otherwise the random sample would decide whether a table can be registered.

    Raises:
        SchemaConflictError: A column has types in two files that no common type holds; the message names both files.
        InvalidInputError: No file can be read, or no file has a column.
        InvalidTypeError: A file has a column that Spark cannot read.
        InvalidConfigurationError: An option has an invalid value.
        LocationNotFoundError: None of the files exists.
        StorageError: A file cannot be read.
    """
    if format == "text":
        return (Column("value", str(STRING)),)
    if format in _COLUMNAR:
        fields = _union(_readable(_read_all(files, lambda location: _COLUMNAR[format](storage, location)), format))
    elif format in _TEXT:
        reader = ReaderOptions(options)
        heads = _readable(_heads(storage, files, reader), format)
        fields = _TEXT[format]((head for _, head in heads), reader)
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
    """Drop data columns with a partition column's name: queries get the path's value (``docs/spec/semantics.md``)."""
    names = {key.name.lower() for key in keys}
    return tuple(c for c in columns if c.name.lower() not in names)


def _readable(outcomes: Iterable[tuple[Location, T | CatalogExtError]], format: str) -> Iterator[tuple[Location, T]]:
    """Yield the result of each readable file; log the unreadable ones, or raise the first error if none can be read.

    Raises:
        InvalidInputError, LocationNotFoundError: No file can be read.
    """
    first: CatalogExtError | None = None
    left_out: list[Location] = []
    read = 0
    for location, outcome in outcomes:
        if isinstance(outcome, CatalogExtError):
            first = first or outcome
            left_out.append(location)
        else:
            read += 1
            yield location, outcome
    if first is None:
        return
    if not read:
        raise first
    logger.warning(
        "The columns were read without %s of %s sampled files, which are not readable %s files or have gone: %s%s. "
        "Queries that read these files fail; repair with verify names all of them.",
        len(left_out), len(left_out) + read, format, ", ".join(map(str, left_out[:_SHOWN])),
        ", …" if len(left_out) > _SHOWN else "",
    )  # fmt: skip


def _outcome(read: Callable[[Location], T], location: Location) -> T | CatalogExtError:
    """Return the result of reading a file; if it is damaged or missing, return the error instead of raising it.

    Raises:
        InvalidTypeError: Spark cannot read a column of the file.
        StorageError: The store refuses or does not answer.
    """
    try:
        return read(location)
    except InvalidTypeError:
        raise
    except (InvalidInputError, LocationNotFoundError) as error:
        return error


def _read_all(
    files: Sequence[FileRef], read: Callable[[Location], tuple[Field, ...]]
) -> Iterator[tuple[Location, tuple[Field, ...] | CatalogExtError]]:
    """Yield the result of reading each file, in the given order: the merged schema must not depend on timing."""
    remaining = iter(files)
    with ThreadPoolExecutor(_THREADS, "schema") as pool:
        while chunk := [location for location, _ in islice(remaining, _CHUNK)]:
            yield from zip(chunk, pool.map(partial(_outcome, read), chunk), strict=True)


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
        other_column = first_by_name.setdefault(f.name.lower(), f.name)
        if other_column is not f.name:
            raise SchemaConflictError(
                f"{location} has the columns {other_column!r} and {f.name!r}, which differ in case only or not at "
                "all. Give the schema with the one to be read.",
                {"file": str(location), "column": f.name},
            )


def _conflict(error: TypeConflictError, file: Location, other_file: Location) -> SchemaConflictError:
    return SchemaConflictError(
        f"The column {error.path!r} is {str(error.left).upper()} in {file} and {str(error.right).upper()} in "
        f"{other_file}, and no type holds both. Give the schema, or rewrite one of the files.",
        {"column": error.path, "file": str(file), "other_file": str(other_file)},
    )


def _heads(
    storage: Storage, files: Sequence[FileRef], options: ReaderOptions
) -> Iterator[tuple[Location, Head | CatalogExtError]]:
    encoding = options.encoding()
    limit = max(MIB // 16, min(2 * MIB, _TEXT_BUDGET // max(1, len(files))))
    if options.flag("multiLine"):
        limit = _LARGEST_DOCUMENT
    remaining = iter(files)
    threads = min(_THREADS, max(1, 2 * _TEXT_BUDGET // limit))

    def read(location: Location) -> Head:
        head = read_head(storage, location, limit, encoding)
        if (other_format := binary_format(head.text)) is not None:
            raise InvalidInputError(
                f"{location} is {other_format}. Remove it, or give the schema and the right format.",
                {"file": str(location)},
            )
        return head

    with ThreadPoolExecutor(threads, "schema") as pool:
        # Read at most one file per thread ahead: results that are not merged yet take memory.
        while chunk := [location for location, _ in islice(remaining, threads)]:
            yield from zip(chunk, pool.map(partial(_outcome, read), chunk), strict=True)
