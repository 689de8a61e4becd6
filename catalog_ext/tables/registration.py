"""Builds a table's definition from the user's arguments, the store's directories and the files' schemas."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catalog_ext.conf.format_options import check_format_options
from catalog_ext.conf.properties import checked_map, checked_properties
from catalog_ext.metastore.errors import CatalogExtError, InvalidInputError, UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.hive_text import LAZY, OPEN_CSV, SERDE, named_alike
from catalog_ext.metastore.model.definition_checks import (
    check_column_storable,
    check_columns,
    check_format,
    partition_columns_of,
)
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.model.types import parse_fields
from catalog_ext.scan.location_pattern import LocationPattern
from catalog_ext.tables.location_scan import LocationContents, LocationScan, scan_pattern
from catalog_ext.tables.locations import check_location, located
from catalog_ext.tables.schema_inference import infer_columns, without_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.storage.store import Storage


@dataclass(frozen=True, slots=True)
class Registration:
    """The user's arguments for registering the files at a location as a table; see ``Catalog.register_table``."""

    identifier: TableIdentifier
    location: str
    format: str = "parquet"
    partition_columns: Mapping[str, str] | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    def define(self, storage: Storage, sample_files: int | None) -> TableDefinition:
        """Return the definition, after listing the location.

        A schema is read from at most ``sample_files`` files; None for all.

        Raises:
            InvalidInputError: An argument is wrong.
            LocationNotFoundError, StorageError: The location is not a readable directory.
            TableLayoutError: The directories do not match the partition columns.
            SchemaConflictError: Types in the sampled files cannot be reconciled.
        """
        table = str(self.identifier)
        try:
            bare = self._bare()
            pattern = LocationPattern.of(bare)
            given = self.partition_columns is not None
            if pattern is not None:
                contents = scan_pattern(storage, bare, pattern, sample_files, keys=given)
            else:
                check_location(storage, bare.location, may_be_empty=given and self.schema is not None)
                scan = LocationScan(storage, sample_files)
                contents = scan.with_keys(bare, sample=self.schema is None) if given else scan.find_keys(bare)
            if not given:
                found = {c.name: c.type for c in contents.partition_columns}
                contents = replace(contents, partition_columns=partition_columns_of(found, table))
            columns = bare.columns or self._infer(bare, contents, storage)
        except CatalogExtError as error:
            if table in error.message:
                raise
            raise error.about(f"Table {table} cannot be registered", {"table": table}) from error
        return replace(bare, columns=columns, partition_columns=contents.partition_columns)

    def _bare(self) -> TableDefinition:
        """Return the definition with what the user has given, before the location and the files are read."""
        location, properties = located(self.identifier, self.location, checked_properties(self.properties))
        file_format = check_format(self.format, str(self.identifier))
        options = checked_options(self.options, file_format, str(self.identifier))
        fields = () if self.schema is None else parse_fields(self.schema)
        columns = check_columns(Column(f.name, str(f.type), f.nullable, f.comment) for f in fields)
        for column in columns:
            check_column_storable(column, file_format, options, str(self.identifier))
        return TableDefinition(
            self.identifier, TableType.EXTERNAL, file_format, location, columns,
            partition_columns_of(self.partition_columns or {}, str(self.identifier)), options, properties, self.comment,
        )  # fmt: skip

    def _infer(self, bare: TableDefinition, contents: LocationContents, storage: Storage) -> tuple[Column, ...]:
        if not contents.sample:
            raise InvalidInputError(
                f"Table {self.identifier} cannot be registered: {bare.location} holds no file to read a schema from. "
                "Give the schema, for example schema='id BIGINT, name STRING', and partition_columns.",
                {"table": str(self.identifier), "location": bare.location},
            )
        columns = infer_columns(storage, contents.sample, bare.format, bare.options)
        return without_keys(columns, contents.partition_columns)


def checked_options(options: Mapping[str, str], file_format: str, table: str) -> dict[str, str]:
    """Return the user's options for a table, checked.

    Raises:
        InvalidConfigurationError: An option is not a text, is a secret, or looks like a misspelled option of the
            format.
        UnsupportedFormatError: The option ``serde`` names a class that neither readers nor writers support.
    """
    checked = checked_map(options, "options")
    check_format_options(checked, file_format, table)
    named = named_alike(file_format, checked)
    serde = named.get(SERDE, LAZY)
    if file_format == "csv" and serde not in (LAZY, OPEN_CSV):
        raise UnsupportedFormatError(
            f"Table {table} cannot have the option {SERDE!r} = {serde[:200]!r}. Tables of text have {LAZY} or "
            f"{OPEN_CSV}.",
            {"table": table, "serde": serde[:200]},
        )
    return named
