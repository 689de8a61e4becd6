"""Paths that queries name instead of tables: the common schema of a path's files, and the files that a query reads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from catalog_ext.conf.keys import SAMPLE_FILES
from catalog_ext.metastore.errors import CatalogExtError, LocationNotFoundError, UnsupportedFormatError
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.metastore.model.definition_checks import check_columns, check_format
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import parse_fields
from catalog_ext.metastore.predicates.tree import bind
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.patterns import parse_pattern
from catalog_ext.scan.file_formats import format_of_name
from catalog_ext.scan.location_pattern import common_root
from catalog_ext.scan.path_keys import CastKey, Pruner, agreed_names, keys_of, partition_name, pruning_keys
from catalog_ext.scan.walk import Walk
from catalog_ext.scan.walk_states import EVERYTHING, FoundFile, WalkState, begin, step
from catalog_ext.tables.schema_inference import infer_columns, without_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.patterns import Alternative
    from catalog_ext.metastore.storage.store import Storage

T = TypeVar("T")

DEFAULT_SAMPLE_FILES = 10
DEFAULT_FORMAT = "parquet"

MAX_LOOKS = 200
"""The most directories that are listed one by one for a sample; then the whole tree is listed in parallel."""
_BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class PathRequest:
    """A path as a query names it.

    Attributes:
        path: A location, with or without wildcards.
        format: One of ``catalog_ext.metastore.model.tables.FORMATS``; None derives it from the files' suffixes.
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
    """The common properties of a path's files: format, columns, keys.

    Attributes:
        root: The directory above all possible matches of the path.
    """

    path: str
    root: Location
    format: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    options: Mapping[str, str]


def load_path(storage: Storage, request: PathRequest) -> PathTable:
    """Return the path as a table, after reading a few of its files.

    Raises:
        InvalidPatternError: The path is malformed.
        PathNotFoundError: There is no file under it.
        PathLayoutError: A file's path has a key twice.
        UnsupportedFormatError: The format is not supported, or the files have different formats.
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
    """The plan of a query on a path: which files it reads.

    Attributes:
        path: A location, with or without wildcards.
        keys: The table's partition columns; None if keys in the path are ignored.
        casts: Keys cast to other types, which the predicate may name.
        predicate: An unbound predicate on keys and casts.
    """

    path: str
    keys: Sequence[str] | None
    casts: Sequence[CastKey] = ()
    predicate: Predicate | None = None

    def run(self, storage: Storage) -> Iterator[pa.RecordBatch]:
        """Return rows of ``PLAN_SCHEMA``, one for each file. Files of a directory are contiguous.

        Raises:
            InvalidPatternError: The path is malformed.
            PathNotFoundError: A named path does not exist, or there is no file; pruned paths are not checked.
            PathLayoutError: The files have different keys.
            StorageError: The store refuses or does not answer.
        """
        keys, predicate = self.keys or (), self.predicate
        try:
            alternatives = parse_pattern(self.path)
            if predicate is not None:
                predicate = bind(predicate, pruning_keys(keys, self.casts), self.path)
            matches = Walk(storage, alternatives, Pruner(predicate, keys, self.casts), keys=len(keys)).run()
            matches.check(self.path, alternatives)
            rows = list(self._file_rows(matches.files.values()))
        except CatalogExtError as error:
            raise _about(error, self.path) from error
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
        files_by_format = ", ".join(f"{form} ({shown(str(file.location))})" for form, file in sorted(found.items()))
        raise UnsupportedFormatError(
            f"The path {shown(request.path)} has files of several formats: {files_by_format}. Narrow it to one, as by "
            "*.parquet at its end, or give the option 'format'.",
            {"path": request.path, "format": ",".join(sorted(found))},
        )
    return next(iter(found), DEFAULT_FORMAT)


def _keys(sample: Sequence[FoundFile]) -> tuple[Column, ...]:
    """Return all keys in the sample's paths. That all files have them is checked later, for the files that are read."""
    names: dict[str, str] = {}
    for directory in dict.fromkeys(file.directory for file in sample):
        found = [name for name, _ in keys_of(directory)]
        partition_name(directory, found)
        for name in found:
            # Spellings of a key that differ in case are the same key. Take the smallest, so that the result does not
            # depend on the order of files.
            names[name.lower()] = min(names.get(name.lower(), name), name)
    return tuple(Column(name, "string") for name in names.values())


def _about(error: CatalogExtError, path: str) -> CatalogExtError:
    """Return the error, with the path in its message."""
    if path in error.message or repr(path) in error.message:
        return error
    return error.about(f"The path {shown(path)} cannot be read", {"path": path})


class _TooManyLooksError(Exception):
    """The sample would need too many listings of single directories."""


class Sampler:
    """Draws a sample of files from different parts of the tree, by listing only a few directories.

    Args:
        pattern: The user's text, for messages.
        alternatives: The pattern, with lists and ranges expanded.
    """

    def __init__(self, storage: Storage, pattern: str, alternatives: list[Alternative]) -> None:
        self._storage = storage
        self._pattern = pattern
        self._alternatives = alternatives
        self._looks = 0

    def draw(self, wanted: int | None) -> list[FoundFile]:
        """Return up to ``wanted`` files in path order, at least one; None for all.

        Raises:
            PathNotFoundError: There is no file, or the pattern names only missing paths.
            StorageError: The store refuses or does not answer.
        """
        if wanted is not None:
            try:
                if drawn := self._of_states(begin(self._alternatives), wanted):
                    return sorted(drawn)
            except _TooManyLooksError:
                pass
        matches = Walk(self._storage, self._alternatives, Pruner(None)).run()
        if not matches.files:
            matches.check(self._pattern, self._alternatives)
        return list(spread(sorted(matches.files.values()), wanted or len(matches.files)))[:wanted]

    def _of_states(self, states: Sequence[WalkState], wanted: int) -> list[FoundFile]:
        drawn: list[FoundFile] = []
        left = len(states)
        for state in spread(states, wanted):
            if len(drawn) >= wanted:
                break
            drawn += self._of_state(state, max(1, (wanted - len(drawn)) // left))
            left -= 1
        return drawn

    def _of_state(self, state: WalkState, wanted: int) -> list[FoundFile]:
        self._looks += 1
        if self._looks > MAX_LOOKS:
            raise _TooManyLooksError
        state = state.passing_literals()
        if not state.rest:
            entry = self._storage.stat(state.at)
            if entry is None:
                return []
            if entry.kind is EntryKind.FILE:
                return [FoundFile(state.at.parent, state.at.name, entry.size, entry.modified_ms)]
            state = replace(state, rest=EVERYTHING)
        try:
            entries = self._storage.list_directory(state.at)
        except LocationNotFoundError as error:
            if is_missing_bucket(error):
                raise
            return []
        steps = [step(state, entry) for entry in sorted(entries, key=lambda entry: entry.location)]
        files = [each for each in steps if isinstance(each, FoundFile)]
        drawn = list(spread(files, wanted))[:wanted]
        if len(drawn) < wanted:
            drawn += self._of_states([each for each in steps if isinstance(each, WalkState)], wanted - len(drawn))
        return drawn


def spread(items: Sequence[T], wanted: int) -> Iterator[T]:
    """Yield all items; the first ``wanted`` of them are at equal distances."""
    count = len(items)
    first = dict.fromkeys(number * count // wanted for number in range(min(wanted, count))) if count else {}
    if count <= wanted:
        first = dict.fromkeys(range(count))
    for number in first:
        yield items[number]
    for number in range(count):
        if number not in first:
            yield items[number]
