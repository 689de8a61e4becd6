"""Tables as pyarrow datasets, which pandas, polars, DuckDB and others read without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.conf.keys import MISSING_FILES
from catalog_ext.metastore.commit.file_identity import has_recorded_content, indexed_file
from catalog_ext.metastore.errors import (
    FilesLostError,
    InvalidInputError,
    LocationNotFoundError,
    OperationNotSupportedError,
)
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.predicates.conditions import Where, bound_where
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.transactions.staging_locations import below
from catalog_ext.tables.arrow_schema import ColumnSpellings, data_schema, existing_default, key_schema
from catalog_ext.tables.time_travel import TimeTravel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.dataset as pads

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.as_of import Version
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Value
    from catalog_ext.metastore.predicates.tree import Predicate

_OF_TABLE = 0
"""The descriptor number of partitions that are read with the table's own format and settings."""
_NAMELESS = re.compile(r"_col\d+")


@dataclass(frozen=True)
class _File:
    """A file of a table.

    Attributes:
        size: The size in bytes.
        modified_ms: The modification time, in milliseconds since the epoch, UTC.
        values: The typed values of the file's partition.
        format: The format with which the file is read.
    """

    location: Location
    size: int
    modified_ms: int
    values: Sequence[Value]
    format: pads.FileFormat


class Datasets:
    """Creates pyarrow datasets from the files that the index lists for a table."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def dataset(self, table: str, where: Where = None, *, version: Version | None = None) -> pads.Dataset:
        """Return a table of Parquet or ORC files as a ``pyarrow.dataset.Dataset``.

        It has the table's columns, then its partition columns, with the table's types. Its files are those of the
        table's newest version, or of ``version``, in the partitions that satisfy ``where``; later commits do not change
        it, but an overwrite deletes the files that it replaces. The footer of every file is read once, several at a
        time. A column that a file lacks is NULL, or has the column's default. If the files spell a column in another
        case than the table, the dataset has the spelling of the files.

        Args:
            table: ``namespace.table``.
            where: A condition on partition columns, or a partition spec. Conditions on other columns belong to the
                library that reads the dataset.
            version: The number of a version, the name of a tag, or a time with a zone; None for the newest version.

        Raises:
            TableNotFoundError: There is no table of that name.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            VersionNotFoundError, VersionExpiredError: The table has no such version, or no longer.
            OperationNotSupportedError: The table is a view or has CSV, JSON or text files, or Arrow lacks a type.
            SchemaConflictError: Files spell a column in different cases.
            InvalidInputError: A file is not of the table's format, or ``version`` is a time without zone.
            LocationNotFoundError: A file does not exist.
            FilesLostError: A file of ``version`` is gone, or was written again under its name.
            StorageError: The store refuses or does not answer.
        """
        target = TimeTravel(self._context).load_named(table, version)
        files = list(self._files(target, bound_where(target, where)))
        return _Reading(self._context, target, is_newest=version is None).dataset(files)

    def _files(self, table: Table, predicate: Predicate | None) -> Iterator[_File]:
        """Yield the table's files, except those of zero bytes, which have no rows in any format."""
        described = self._context.index.descriptors.of_table(table)
        formats = {_OF_TABLE: table.definition.format, **{number: of.format for number, of in described.items()}}
        for number, name in formats.items():
            plan = self._context.index.files.plan(table, predicate, descriptor=number if described else None)
            for batch in plan:
                for row in batch.select(["partition", "location", "path", "size", "modified_ms"]).to_pylist():
                    directory = Location.parse(table.directory(row["partition"], row["location"]))
                    values = typed_values(row["partition"], table.definition.keys)
                    if row["size"]:
                        yield _File(
                            below(directory, row["path"]), row["size"], row["modified_ms"], values,
                            _file_format(table, name),
                        )  # fmt: skip


class _Reading:
    """Opens the files of one table."""

    def __init__(self, context: Context, table: Table, *, is_newest: bool) -> None:
        self._is_newest = is_newest
        self._storage = context.storage
        self._threads = context.storage.listing_threads
        self._table = table
        self._name = str(table.identifier)
        self._keys = key_schema(table.definition)
        conf = context.settings.conf
        self._skips_missing = MISSING_FILES.read(conf, table.definition.properties) == "skip"
        self._defaults = {
            column.name: value
            for column in table.definition.columns
            if (value := existing_default(column, self._name)) is not None
        }

    def dataset(self, files: Sequence[_File]) -> pads.Dataset:
        """Return the files as a dataset: a union of one dataset for each store and format."""
        import pyarrow.dataset as pads

        definition = self._table.definition
        data = data_schema(definition, definition.format)
        self._check_formats(data, files)
        if not self._is_newest:
            self._check_unchanged(files)
        opened = [(f, p) for f, p in zip(files, in_parallel(self._open, files, self._threads), strict=True) if p]
        spellings = ColumnSpellings(data, self._name)
        for file, fragment in opened:
            spellings.add(str(file.location), fragment.physical_schema)
        spelled = spellings.schema()
        schema = pa.schema([*spelled, *self._keys])
        renamed = dict(zip(data.names, spelled.names, strict=True))
        defaults = {renamed[name]: value for name, value in self._defaults.items()}
        parts: dict[tuple[str, str, str], list[tuple[_File, pads.Fragment]]] = {}
        for file, fragment in opened:
            of = file.location
            parts.setdefault((of.scheme, of.bucket, file.format.default_extname), []).append((file, fragment))
        together = [
            pads.FileSystemDataset(
                [self._with_defaults(file, fragment, defaults) for file, fragment in part],
                schema, part[0][0].format, self._storage.filesystem(part[0][0].location),
            )
            for part in parts.values()
        ]  # fmt: skip
        if not together:
            return pads.FileSystemDataset(
                [], schema, _file_format(self._table, definition.format),
                self._storage.filesystem(Location.parse(definition.location)),
            )  # fmt: skip
        return together[0] if len(together) == 1 else pads.dataset(together)

    def _check_formats(self, data: pa.Schema, files: Sequence[_File]) -> None:
        for name in {file.format.default_extname for file in files}:
            if data_schema(self._table.definition, name) != data:
                raise OperationNotSupportedError(
                    f"Table {self._name} has partitions in ORC and in Parquet, and a TIMESTAMP column: it is a local "
                    "time in the one and an instant in the other. Choose partitions of one format with where=.",
                    {"table": self._name},
                )

    def _check_unchanged(self, files: Sequence[_File]) -> None:
        """Check that no file of an earlier version was written again under its name, as Hive's INSERT OVERWRITE does.

        Raises:
            FilesLostError: A file has another size or time than the version's.
        """
        for file, there in zip(files, self._storage.identify_many([file.location for file in files]), strict=True):
            recorded = indexed_file(str(file.location), DataFile(file.location.name, file.size, file.modified_ms))
            if there is not None and not has_recorded_content(recorded, there.size, there.modified_ms, there.etag):
                raise self._lost(file, "was written again since then")

    def _lost(self, file: _File, fate: str) -> FilesLostError:
        return FilesLostError(
            f"Version {self._table.version} of table {self._name} had the file {file.location}, which {fate}, by an "
            "overwrite, a delete or another program. Choose a newer version, or other partitions with where=.",
            {"table": self._name, "version": str(self._table.version), "file": str(file.location)},
        )

    def _open(self, file: _File) -> pads.Fragment | None:
        """Return the file with its footer read; None for a missing file that may be left out."""
        try:
            fragment = self._fragment(file, self._guarantees(file.values))
            # Read the schema now, so that an error is raised here as an error of catalog-ext. pyarrow keeps it for
            # later.
            _ = fragment.physical_schema
        except OSError as error:
            failure = self._storage.translate(error, file.location, "read")
            if not isinstance(failure, LocationNotFoundError):
                raise failure from error
            if self._skips_missing:
                return None
            if not self._is_newest:
                raise self._lost(file, "is gone") from error
            raise LocationNotFoundError(
                f"Table {self._name} has the file {file.location}, which is not on the store any more. Repair the "
                f"table (catalog.repair_partitions({self._name!r})) and call dataset() again.",
                {"table": self._name, "file": str(file.location)},
            ) from error
        except pa.ArrowException as error:
            # The file has a damaged footer, has another format, or is encrypted.
            raise InvalidInputError(
                f"{file.location} of table {self._name} cannot be read as {file.format.default_extname}: "
                f"{str(error)[:300].rstrip('. ')}. Take the file away and repair the table.",
                {"table": self._name, "file": str(file.location)},
            ) from error
        self._check_names(file, fragment.physical_schema)
        return fragment

    def _check_names(self, file: _File, schema: pa.Schema) -> None:
        """Check that the file has column names. Old releases of Hive wrote ORC files without them (HIVE-4243).

        Raises:
            OperationNotSupportedError: The file's columns have only numbered names (``_col0``).
        """
        if file.format.default_extname == "orc" and all(_NAMELESS.fullmatch(name) for name in schema.names):
            raise OperationNotSupportedError(
                f"{file.location} of table {self._name} has no names of columns (_col0, …): Spark reads it by "
                "position, pyarrow cannot. Write its partition anew with INSERT OVERWRITE.",
                {"table": self._name, "file": str(file.location)},
            )

    def _fragment(self, file: _File, guarantees: pads.Expression | None) -> pads.Fragment:
        filesystem = self._storage.filesystem(file.location)
        return file.format.make_fragment(
            file.location.path, filesystem, partition_expression=guarantees, file_size=file.size
        )

    def _with_defaults(self, file: _File, fragment: pads.Fragment, defaults: Mapping[str, pa.Scalar]) -> pads.Fragment:
        there = set(fragment.physical_schema.names)
        missing = {name: value for name, value in defaults.items() if name not in there}
        return self._fragment(file, self._guarantees(file.values, missing)) if missing else fragment

    def _guarantees(
        self, values: Sequence[Value], constants: Mapping[str, pa.Scalar] | None = None
    ) -> pads.Expression | None:
        """Return the partition values as an expression. pyarrow skips files and fills partition columns by it."""
        import pyarrow.compute as pc

        by_name = {key.name: value for key, value in zip(self._table.definition.keys, values, strict=True)}
        known = {field.name: pa.scalar(by_name[field.name], field.type) for field in self._keys}
        found: pads.Expression | None = None
        for name, value in {**known, **(constants or {})}.items():
            of = pc.field(name)
            one = of == value if value.is_valid else of.is_null()
            found = one if found is None else found & one
        return found


@cache
def _reader(name: str) -> pads.FileFormat | None:
    import pyarrow.dataset as pads

    if name == "parquet":
        # pyarrow reads INT96 as nanoseconds by default, whose range ends in the year 2262.
        return pads.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    return pads.OrcFileFormat() if name == "orc" else None


def _file_format(table: Table, name: str) -> pads.FileFormat:
    found = _reader(name)
    if found is not None:
        return found
    of = str(table.identifier)
    raise OperationNotSupportedError(
        f"Table {of} has files of the format {name}, which pyarrow does not read by Spark's and Hive's rules: "
        "dataset() takes Parquet and ORC. Read the table with Spark, or its files (catalog.files) with another "
        "library.",
        {"table": of, "format": name},
    )
