"""Ad-hoc paths as tables: what a path's files have in common, and which of them a query reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.conf.keys import SAMPLE_FILES
from catalog_ext.metastore.errors import CatalogExtError, UnsupportedFormatError
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.metastore.model.definition_checks import check_columns, check_format
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import parse_fields
from catalog_ext.metastore.predicates.tree import bind
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.patterns import parse_pattern
from catalog_ext.paths.sampling import Sampler
from catalog_ext.scan.file_formats import format_of_name
from catalog_ext.scan.location_pattern import common_root
from catalog_ext.scan.path_keys import CastKey, Pruner, agreed_names, keys_of, partition_name, pruning_keys
from catalog_ext.scan.walk import Walk
from catalog_ext.tables.schema_inference import infer_columns, without_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.walk_states import FoundFile

DEFAULT_SAMPLE_FILES = 10
DEFAULT_FORMAT = "parquet"

_BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class PathRequest:
    """A path as a query names it.

    Attributes:
        path: A location, with or without wildcards.
        format: One of ``catalog_ext.metastore.model.tables.FORMATS``; None goes by the files' suffixes.
        schema: The columns as DDL; None reads them from a sample of files.
        options: Spark's reader options of the format, and ``schema.sample-files``.
        partitioning: Whether keys in the path are columns (``use_hive_partitioning``).
    """

    path: str
    format: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partitioning: bool = True


@dataclass(frozen=True, slots=True)
class PathTable:
    """What a path's files have in common.

    Attributes:
        root: The directory above everything that the path can match.
    """

    path: str
    root: Location
    format: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    options: Mapping[str, str]


def load_path(storage: Storage, request: PathRequest) -> PathTable:
    """Return the path as a table, after a look at a few of its files.

    Raises:
        InvalidPatternError: The path cannot be read.
        PathNotFoundError: There is no file under it.
        PathLayoutError: A file's path has a key twice.
        UnsupportedFormatError: The format is none that is read, or the files have different ones.
        SchemaConflictError, InvalidInputError: The files' columns cannot be read or reconciled.
        StorageError: The store refuses or does not answer.
    """
    try:
        alternatives = parse_pattern(request.path)
        sample = Sampler(storage, request.path, alternatives).draw(_sample_files(request.options))
        options = {key: text for key, text in request.options.items() if key.lower() != SAMPLE_FILES.key}
        file_format = _format(request, sample)
        keys = _keys(sample) if request.partitioning else ()
        if request.schema is not None:
            given = (Column(f.name, str(f.type), f.nullable, f.comment) for f in parse_fields(request.schema))
            columns = check_columns(given)
        else:
            files = [(file.location, file.size) for file in sample]
            columns = without_keys(infer_columns(storage, files, file_format, options), keys)
        return PathTable(request.path, common_root(alternatives), file_format, columns, keys, options)
    except CatalogExtError as error:
        raise _about(error, request.path) from error


@dataclass(frozen=True, slots=True)
class PathPlan:
    """Which files of a path a query reads.

    Attributes:
        path: A location, with or without wildcards.
        keys: The table's partition columns; None where keys are not looked at.
        casts: Keys as other types, which the predicate may name.
        predicate: An unbound predicate on keys and casts.
    """

    path: str
    keys: Sequence[str] | None
    casts: Sequence[CastKey] = ()
    predicate: Predicate | None = None

    def run(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        """Return the rows of ``PLAN_SCHEMA``: files, those of a directory together.

        Raises:
            InvalidPatternError: The path cannot be read.
            PathNotFoundError: A path that it names, or any file, is not there; what is pruned is not looked at.
            PathLayoutError: The files disagree on the keys.
            StorageError: The store refuses or does not answer.
        """
        try:
            return self._run(storage)
        except CatalogExtError as error:
            raise _about(error, self.path) from error

    def _run(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        alternatives = parse_pattern(self.path)
        keys = self.keys or ()
        predicate = self.predicate
        if predicate is not None:
            predicate = bind(predicate, pruning_keys(keys, self.casts), self.path)
        pruner = Pruner(predicate, keys, self.casts)
        matches = Walk(storage, alternatives, pruner, keys=len(keys)).run()
        matches.check(self.path, alternatives)
        rows = list(self._file_rows(matches.files.values()))
        starts = range(0, len(rows), _BATCH_ROWS)
        return iter([_batch(rows[start : start + _BATCH_ROWS]) for start in starts])

    def _file_rows(self, files: Iterable[FoundFile]) -> Iterator[tuple[object, ...]]:
        by_directory: dict[Location, list[FoundFile]] = {}
        for file in files:
            by_directory.setdefault(file.directory, []).append(file)
        names = dict.fromkeys(by_directory, "")
        if self.keys is not None:
            names = agreed_names(sorted(by_directory), self.keys)
        for number, directory in enumerate(sorted(by_directory)):
            for file in sorted(by_directory[directory]):
                yield number, names[directory], str(directory), file.name, file.size, file.modified_ms, None


def _batch(rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, each.type) for values, each in zip(columns, PLAN_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PLAN_SCHEMA)


def _sample_files(options: Mapping[str, str]) -> int | None:
    text = next((text for key, text in options.items() if key.lower() == SAMPLE_FILES.key), None)
    return DEFAULT_SAMPLE_FILES if text is None else SAMPLE_FILES.value_of(text)


def _format(request: PathRequest, sample: Sequence[FoundFile]) -> str:
    if request.format is not None:
        return check_format(request.format, request.path)
    found = {form: file for file in reversed(sample) if (form := format_of_name(file.name))}
    if len(found) > 1:
        shown_files = ", ".join(f"{form} ({shown(str(file.location))})" for form, file in sorted(found.items()))
        raise UnsupportedFormatError(
            f"The path {shown(request.path)} has files of several formats: {shown_files}. Narrow it to one, as by "
            "*.parquet at its end, or give the option 'format'.",
            {"path": request.path, "format": ",".join(sorted(found))},
        )
    return next(iter(found), DEFAULT_FORMAT)


def _keys(sample: Sequence[FoundFile]) -> tuple[Column, ...]:
    """Return all keys of the sample's paths. Whether all files have them shows when it is known which are read."""
    names: dict[str, str] = {}
    for directory in dict.fromkeys(file.directory for file in sample):
        found = [name for name, _ in keys_of(directory)]
        partition_name(directory, found)
        for name in found:
            # Spellings that differ in case are one key; which comes first must not decide.
            names[name.lower()] = min(names.get(name.lower(), name), name)
    return tuple(Column(name, "string") for name in names.values())


def _about(error: CatalogExtError, path: str) -> CatalogExtError:
    """Return the error, saying which path it is about where it does not."""
    if path in error.message or repr(path) in error.message:
        return error
    return error.about(f"The path {shown(path)} cannot be read", {"path": path})
