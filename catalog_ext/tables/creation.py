"""Creates and registers tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from catalog_ext.conf import keys, write_keys
from catalog_ext.conf.properties import check_not_transactional, check_partition_commit, checked_properties
from catalog_ext.display import shown_progress
from catalog_ext.metastore.errors import (
    InvalidInputError,
    OperationNotSupportedError,
    TableAlreadyExistsError,
    ViewNotFoundError,
)
from catalog_ext.metastore.model.definition_checks import check_columns, check_format, check_keys, check_storable
from catalog_ext.metastore.model.properties import property_value
from catalog_ext.metastore.model.tables import BUCKETED_BY_PROPERTY, PARTITION_MODE_PROPERTY, PartitionMode, TableType
from catalog_ext.metastore.storage.locations import Location, locations_equal
from catalog_ext.tables.locations import located, warn_of_other_index, warn_of_other_name_node, warn_of_overlap
from catalog_ext.tables.partition_strategy import check_reachable, check_registered, placed
from catalog_ext.tables.registration import Registration, checked_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table, TableDefinition


class TableCreation:
    """Creates tables: from files at a location, or from a definition."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def register_table(
        self, table: str, *, location: str, format: str = "parquet",
        partition_columns: Mapping[str, str] | None = None, partition_mode: str | None = None,
        schema: str | None = None, options: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None, comment: str | None = None, if_not_exists: bool = False,
    ) -> Table:  # fmt: skip
        """Register the files at a location as an external table; ``repair_partitions`` then indexes its partitions.

        Args:
            table: The table's name.
            location: The directory above the ``key=value`` directories; or a pattern with ``*``, ``?``, ``**``,
                ``{a,b}`` or ``{1..9}``: its keys come from the matching paths, and its table is read only.
            format: ``parquet``, ``orc``, ``csv``, ``json`` or ``text``.
            partition_columns: Names and types of the keys, in order; None finds the keys in the paths, as STRING.
            partition_mode: The property ``partition-columns``: ``SELECT *`` leaves the keys out (``virtual``, the
                default), or shows them after the columns (``declared``), so that its rows can be written back.
            schema: The columns as DDL (``id BIGINT, fare DECIMAL(10,2)``); None reads them from a sample of files.
            options: Spark's reader options of the format.
            properties: Settings of the table.
            comment: A comment for users.
            if_not_exists: Return a table that is already registered at this location, unchanged, whatever the other
                arguments are.

        Raises:
            TableAlreadyExistsError: The index has a table of this name, or the metastore has one at another location.
            NamespaceNotFoundError: The namespace does not exist.
            LocationNotFoundError: The location does not exist or is a file; or a pattern names a missing path.
            StorageError: The location cannot be read.
            TableLayoutError: The directories do not match the partition columns, or have different keys.
            InvalidInputError: Another argument is wrong.
        """
        identifier = self._context.identify(table)
        there = self._context.find_table(identifier) if if_not_exists else None
        if there is not None and locations_equal(there.definition.location, located(identifier, location, {})[0]):
            return there
        self.check_free(identifier)
        self._context.allowed.require(location)
        mode = {} if partition_mode is None else {PARTITION_MODE_PROPERTY: partition_mode}
        stated = {**(properties or {}), **mode}
        registration = Registration(
            identifier, location, format, partition_columns, schema, options or {}, stated, comment
        )
        # The warning of overlapping locations names the caller's line by a fixed number of stack frames: add no call in
        # between.
        return self._create(self._checked(registration))

    def _checked(self, registration: Registration) -> TableDefinition:
        sample_files = keys.SAMPLE_FILES.read(registration.properties, self._context.settings.conf)
        with shown_progress(None, f"Reading the keys and a sample of files of {registration.identifier}"):
            definition = registration.define(self._context.storage, sample_files)
        definition = check_registered(definition)
        check_partition_commit(definition)
        self._context.sync.check_free(definition)
        return definition

    def create_table(self, definition: TableDefinition, location: str | None = None) -> Table:
        """Create a table by its definition, as ``CREATE TABLE`` does. A managed table gets its directory.

        Args:
            definition: The table. Its attribute ``location`` is ignored.
            location: The table's location; None for the default below the namespace or the warehouse.

        Raises:
            TableAlreadyExistsError, NamespaceNotFoundError: As in ``register_table``.
            InvalidInputError: The definition is not valid, or the managed table's location holds files.
        """
        self.check_free(definition.identifier)
        whole = self.complete_definition(definition, location)
        self._context.sync.check_free(whole)
        return self._create(whole)

    def complete_definition(self, definition: TableDefinition, location: str | None = None) -> TableDefinition:
        """Return the checked definition of a new table, with its location and defaults. The table is not created.

        The arguments are those of ``create_table``.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            InvalidInputError: The definition is not valid.
            OperationNotSupportedError: The table has buckets.
        """
        identifier = definition.identifier
        file_format = check_format(definition.format, str(identifier))
        if location is not None:
            location, properties = located(identifier, location, definition.properties)
            definition = replace(definition, properties=properties)
        if definition.has_wildcards and definition.table_type is TableType.MANAGED:
            raise InvalidInputError(
                f"The managed table {identifier} cannot lie at {location}, which has wildcards: what they match is "
                "read only. Create an external table, or say which directory it is to have.",
                {"table": str(identifier), "location": location or ""},
            )
        definition, place = placed(definition, location, lambda: self._default_location(identifier))
        self._context.allowed.require(place)
        check_keys(definition.partition_columns, str(identifier))
        check_columns((*definition.columns, *definition.partition_columns))
        check_reachable(self._context.storage, definition, place)
        options = checked_options(definition.options, file_format, str(identifier))
        properties = checked_properties(definition.properties)
        if property_value(properties, PARTITION_MODE_PROPERTY) is None:
            properties = {PARTITION_MODE_PROPERTY: str(PartitionMode.DECLARED), **properties}
        whole = replace(definition, format=file_format, location=str(place), options=options, properties=properties)
        check_not_transactional(str(identifier), whole.properties)
        if whole.bucketed_by is not None:
            raise OperationNotSupportedError(
                f"Table {identifier} cannot be created with the property {BUCKETED_BY_PROPERTY!r}: tables that are "
                "made here have no buckets. Leave it out.",
                {"table": str(identifier)},
            )
        check_storable(whole)
        check_partition_commit(whole)
        return whole

    def check_free(self, identifier: TableIdentifier, *, namespace_too: bool = True) -> None:
        """Check that no table or view has this name, and (with ``namespace_too``) that its namespace exists.

        Raises:
            TableAlreadyExistsError: A table or view has this name.
            NamespaceNotFoundError: The namespace does not exist.
        """
        if namespace_too:
            self._context.index.namespaces.load(identifier.namespace)
        there = self._context.find_table(identifier)
        if there is None:
            self._check_no_view(identifier)
            return
        raise TableAlreadyExistsError(
            f"Table {identifier} exists already, at {there.definition.location}. Unregister it first, or choose "
            "another name.",
            {"table": str(identifier)},
        )

    def _check_no_view(self, identifier: TableIdentifier) -> None:
        try:
            self._context.index.views.load(identifier)
        except ViewNotFoundError:
            return
        raise TableAlreadyExistsError(
            f"{identifier} is a view. Drop it first, or choose another name.", {"table": str(identifier)}
        )

    def _create(self, definition: TableDefinition) -> Table:
        warn_of_overlap(definition, self._context.index.tables.overlapping(definition.location))
        if definition.location.startswith("hdfs:"):
            there = (place for _, place in self._context.index.tables.locations())
            warn_of_other_name_node(f"Table {definition.identifier}", definition.location, there)
        if definition.table_type is TableType.MANAGED:
            self._prepare_directory(definition)
        warn_of_other_index(self._context.marks, definition)
        created = self._context.index.tables.create(definition, deliver=self._context.metastore.accepts(definition))
        self._context.sync.publish(created.table_id)
        return created

    def _default_location(self, identifier: TableIdentifier) -> str:
        namespace = self._context.index.namespaces.load(identifier.namespace)
        base = Location.parse(namespace.location or f"{self._context.settings.warehouse}/{namespace.name}.db")
        # Try further names with a number. A renamed table stays in the directory of its first name, and the directory
        # of a dropped table stays reserved until it is deleted.
        names = (identifier.name if n == 1 else f"{identifier.name}__{n}" for n in count(1))
        return next(place for place in (str(base.join(name)) for name in names) if not self._taken(place, identifier))

    def _taken(self, location: str, identifier: TableIdentifier) -> bool:
        others = (
            self._context.find_table(o) for o in self._context.index.tables.overlapping(location) if o != identifier
        )
        if any(o is not None and o.definition.location == location for o in others):
            return True
        # Ignore dropped tables whose undeleted directory contains this location: every further name would lie in it
        # too. The index refuses such a location when the table is created.
        undeleted = (dropped.location for dropped in self._context.index.dropped_tables.undeleted(location))
        return any(place == location or place.startswith(f"{location}/") for place in undeleted)

    def _prepare_directory(self, definition: TableDefinition) -> None:
        if self._context.storage.stat(definition.location) is not None and self._contents(definition):
            raise InvalidInputError(
                f"The managed table {definition.identifier} cannot be created at {definition.location}: the location "
                "is not empty. "
                "Register it as an external table, or choose another location.",
                {"table": str(definition.identifier), "location": definition.location},
            )
        if self._context.storage.store_has_directories(definition.location):
            self._context.storage.create_directory(definition.location)

    def _contents(self, definition: TableDefinition) -> list[str]:
        """List a table's location, without the staging directory of a write that would create the table."""
        staging = write_keys.STAGING_DIR.read(definition.properties, self._context.settings.conf)
        names = (entry.location.name for entry in self._context.storage.list_directory(definition.location))
        return [name for name in names if name != staging]
