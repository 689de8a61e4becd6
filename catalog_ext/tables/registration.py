"""Makes a table's definition of what a user says, what the store holds and what is read from the files."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catalog_ext.conf.keys import check_properties
from catalog_ext.metastore.commit.partition_commit import OPTIONS, PartitionCommit
from catalog_ext.metastore.errors import (
    AcidTableError,
    CatalogExtError,
    InvalidConfigurationError,
    InvalidInputError,
    InvalidTypeError,
    LocationNotFoundError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier, validate_column_name
from catalog_ext.metastore.model.tables import FORMATS, Column, TableDefinition, TableType
from catalog_ext.metastore.model.types import KEY_TYPES, Field, parse_fields, parse_type
from catalog_ext.metastore.storage.locations import canonical_location
from catalog_ext.tables.location_scan import Survey, Surveyor
from catalog_ext.tables.schema_inference import infer_columns, without_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.storage.store import Storage

MAX_KEYS = 64


class TableOverlapWarning(UserWarning):
    """An external table lies at, in or around the location of another table."""


@dataclass(frozen=True, slots=True)
class Registration:
    """What a user says of a table that lies at a location; see ``Catalog.register_table``."""

    identifier: TableIdentifier
    location: str
    format: str = "parquet"
    partition_columns: Mapping[str, str] | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    def define(self, storage: Storage, sample_files: int | None) -> TableDefinition:
        """The definition, after a look at the location.

        Args:
            storage: Where the location is.
            sample_files: Files from which a schema is read at most; None for all.

        Raises:
            InvalidInputError: An argument is wrong.
            LocationNotFoundError, StorageError: The location is not a directory that can be read.
            TableLayoutError: The directories are not those that the partition columns promise.
            SchemaConflictError: Types in the sampled files cannot be reconciled.
        """
        table = str(self.identifier)
        try:
            bare = self._bare()
            empty_is_fine = self.partition_columns is not None and self.schema is not None
            check_location(storage, bare.location, may_be_empty=empty_is_fine)
            survey = self._survey(bare, Surveyor(storage, sample_files))
            columns = bare.columns or self._infer(bare, survey, storage)
        except CatalogExtError as error:
            if table in error.message:
                raise
            raise error.about(f"Table {table} cannot be registered", {"table": table}) from error
        return replace(bare, columns=columns, partition_columns=survey.partition_columns)

    def _bare(self) -> TableDefinition:
        """The definition by the user's words alone."""
        return TableDefinition(
            self.identifier,
            TableType.EXTERNAL,
            check_format(self.format, str(self.identifier)),
            canonical_location(self.location),
            check_columns(map(_column, parse_fields(self.schema))) if self.schema is not None else (),
            partition_columns_of(self.partition_columns or {}, str(self.identifier)),
            checked_map(self.options, "options"),
            checked_properties(self.properties),
            self.comment,
        )

    def _survey(self, bare: TableDefinition, surveyor: Surveyor) -> Survey:
        if self.partition_columns is not None:
            return surveyor.with_keys(bare, sample=self.schema is None)
        survey = surveyor.find_keys(bare.location, str(self.identifier))
        found = {c.name: c.type for c in survey.partition_columns}
        return replace(survey, partition_columns=partition_columns_of(found, str(self.identifier)))

    def _infer(self, bare: TableDefinition, survey: Survey, storage: Storage) -> tuple[Column, ...]:
        if not survey.sample:
            raise InvalidInputError(
                f"Table {self.identifier} cannot be registered: {bare.location} holds no file to read a schema from. "
                "Give the schema, for example schema='id BIGINT, name STRING', and partition_columns.",
                {"table": str(self.identifier), "location": bare.location},
            )
        columns = infer_columns(storage, survey.sample, bare.format, bare.options)
        return without_keys(columns, survey.partition_columns)


def check_location(storage: Storage, location: str, *, may_be_empty: bool) -> None:
    """Return if a table can lie at the location.

    Raises:
        LocationNotFoundError: Nothing lies there, or a file.
        StorageError: It cannot be read.
    """
    try:
        storage.check_directory(location)
    except LocationNotFoundError:
        # On S3 a prefix without keys is no different from one that is not there: fine where an empty table is.
        if not may_be_empty or storage.store_has_directories(location) or storage.stat(location) is not None:
            raise


def _column(f: Field) -> Column:
    return Column(f.name, str(f.type), f.nullable, f.comment)


def check_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns, if their names are valid and all different.

    Raises:
        InvalidInputError: A name is not valid, or comes twice.
    """
    seen: dict[str, Column] = {}
    for column in columns:
        lower = validate_column_name(column.name).lower()
        if lower in seen:
            raise InvalidInputError(
                f"The column {column.name[:120]!r} comes twice in the schema. Names differ by more than their case.",
                {"column": column.name[:120]},
            )
        seen[lower] = column
    return tuple(seen.values())


def check_format(text: str, table: str) -> str:
    """The format in lower case.

    Raises:
        UnsupportedFormatError: It is none that catalog-ext reads.
    """
    if text.lower() not in FORMATS:
        raise UnsupportedFormatError(
            f"{text[:60]!r} is not a format that table {table} can have. Use one of: {', '.join(FORMATS)}.",
            {"table": table, "format": text[:60]},
        )
    return text.lower()


def check_storable(definition: TableDefinition) -> None:
    """Return if the format of a table that is to be created can hold its columns.

    Raises:
        UnsupportedFormatError: It cannot.
    """
    table = str(definition.identifier)
    of_text = [c.data_type.is_string for c in definition.columns]
    nested = next((c for c in definition.columns if c.data_type.children or c.data_type.fields), None)
    if definition.format == "text" and of_text != [True]:
        raise UnsupportedFormatError(
            f"Table {table} of the format text has one column besides its keys, and it is a STRING. Use csv or json "
            "for others.",
            {"table": table, "format": definition.format},
        )
    if definition.format == "csv" and nested is not None:
        raise UnsupportedFormatError(
            f"The column {nested.name!r} of table {table} is {nested.type.upper()[:60]}, which the format csv does not "
            "have. Use parquet, orc or json.",
            {"table": table, "format": definition.format, "column": nested.name},
        )


def partition_columns_of(columns: Mapping[str, str], table: str) -> tuple[Column, ...]:
    """The partition columns of a map from name to type.

    Raises:
        InvalidInputError: A name or a type is not valid, a type cannot be a key's, or a name comes twice.
    """
    result = tuple(
        Column(validate_column_name(name), str(_key_type(name, text, table))) for name, text in columns.items()
    )
    return check_keys(result, table)


def check_keys(columns: Sequence[Column], table: str) -> tuple[Column, ...]:
    """The columns, if a table can be partitioned by them.

    Raises:
        InvalidInputError: A type cannot be a key's, a name comes twice or there are too many.
    """
    for column in columns:
        _key_type(column.name, column.type, table)
    lower = [c.name.lower() for c in columns]
    if len(set(lower)) != len(lower) or len(lower) > MAX_KEYS:
        raise InvalidInputError(
            f"The partition columns of table {table} must be at most {MAX_KEYS} different names; "
            f"got {', '.join(lower)[:200]}.",
            {"table": table},
        )
    return tuple(columns)


def _key_type(name: str, text: str, table: str) -> object:
    data_type = parse_type(text)
    if data_type.name not in KEY_TYPES:
        raise InvalidTypeError(
            f"The partition column {name!r} of table {table} cannot be {str(data_type).upper()}. Use one of: "
            f"{', '.join(sorted(KEY_TYPES)).upper()}.",
            {"table": table, "column": name, "type": str(data_type)},
        )
    return data_type


def checked_map(values: Mapping[Any, Any], what: str) -> dict[str, str]:
    """A copy of the map, if it is one of text to text.

    Raises:
        InvalidConfigurationError: A key or value is not text.
    """
    result: dict[str, str] = {}
    for key, value in values.items():
        if not isinstance(value, str):
            raise InvalidConfigurationError(
                f"The {what} must be text: {str(key)[:60]!r} is {str(value)[:60]}. Write it in quotes."
            )
        result[key] = value
    return result


def checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties, with those that catalog-ext reads checked.

    Raises:
        InvalidConfigurationError: A value is not text, or none that its key may have.
    """
    result = checked_map(properties, "properties")
    check_properties(result)
    return result


def check_not_transactional(table: str, properties: Mapping[str, str]) -> None:
    """Return unless the properties ask for one of Hive's transactional (ACID) tables; ``'false'`` is what all are.

    Raises:
        AcidTableError: They do.
    """
    for key, value in properties.items():
        if key.lower() == "transactional" and value.strip().lower() != "false":
            raise AcidTableError(
                f"Table {table} cannot have the property 'transactional' = {value[:40]!r}: catalog-ext does not write "
                "Hive's ACID files, and its own writes are transactions without them. Leave it out or say 'false'.",
                {"table": table, "key": key, "value": value[:40]},
            )


def check_partition_commit(
    definition: TableDefinition, set_: Mapping[str, str] | None = None, remove: Sequence[str] = ()
) -> None:
    """Return if the table's partition-commit options fit together, and its keys.

    Args:
        definition: The table.
        set_: Properties that are to be set; a change that concerns none of these options is not looked at.
        remove: Properties that are to be removed.

    Raises:
        InvalidConfigurationError: They do not fit.
    """
    if set_ is not None and {key.lower() for key in (*set_, *remove)}.isdisjoint(OPTIONS):
        return
    kept = {key: text for key, text in definition.properties.items() if key not in remove}
    PartitionCommit.of({**kept, **(set_ or {})}, [column.name for column in definition.partition_columns])


def warn_of_overlap(definition: TableDefinition, others: Sequence[TableIdentifier]) -> None:
    """Warn that an external table shares its location; refuse it for a managed one.

    Raises:
        InvalidInputError: The table is managed: dropping it would delete the other's files.
    """
    if not others:
        return
    names = ", ".join(str(o) for o in others[:5])
    if definition.table_type is TableType.MANAGED:
        raise InvalidInputError(
            f"The managed table {definition.identifier} cannot lie at {definition.location}: the location is that "
            "of, in "
            f"or around {names}. Choose another location.",
            {"table": str(definition.identifier), "location": definition.location},
        )
    warnings.warn(
        f"Table {definition.identifier} at {definition.location} shares files with {names}.",
        TableOverlapWarning,
        stacklevel=4,
    )
