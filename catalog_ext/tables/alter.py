"""Alters and renames tables. Files never move (``docs/design/1-how-it-works.md``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.conf.properties import (
    check_not_transactional,
    check_one_directory,
    check_partition_commit,
    check_wildcards_unaltered,
    checked_properties,
)
from catalog_ext.conf.table_keys import ORC_BY_POSITION
from catalog_ext.metastore.errors import InvalidAlterationError, InvalidInputError
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.model.alterations import altered, with_properties
from catalog_ext.metastore.model.definition_checks import check_columns
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.tables.locations import check_location, located, warn_of_overlap
from catalog_ext.tables.partition_strategy import check_alteration
from catalog_ext.tables.serde import metastore_settings, with_serde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.alterations import ColumnChange
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.tables.creation import TableCreation


class TableAlterations:
    """Alters and renames the tables of a catalog. If an unpartitioned table gets a new location, it is repaired."""

    def __init__(self, context: Context, creation: TableCreation, repair: TableRepair) -> None:
        self._context = context
        self._creation = creation
        self._repair = repair

    def alter(
        self, table: str, changes: Sequence[ColumnChange] = (), *, set_: Mapping[str, str] | None = None,
        remove: Sequence[str] = (), location: str | None = None,
    ) -> Table:  # fmt: skip
        """Change a table's columns, properties and location. The changes are applied all together or not at all.

        Args:
            table: The table's name.
            changes: The column changes, applied in order.
            set_: Properties to set; the key ``comment`` sets the table's comment.
            remove: Properties to remove.
            location: The location of future partitions; existing partitions stay at their locations. An unpartitioned
                table has the files of the new location from now on.

        Raises:
            TableNotFoundError: There is no table of that name.
            InvalidInputError, NotFoundError, AlreadyExistsError: A change is not possible
                (``catalog_ext.metastore.model.alterations``).
            InvalidConfigurationError: A property has an invalid value.
            LocationNotFoundError, StorageError: The location is not a readable directory.
            ConflictError: The location would change, and another process is writing to the table.
        """
        there = self._context.load_table(table)
        checked = self.checked(there, set_ or {}, remove)
        place = None if location is None else self._checked_location(there.definition, location)

        def change(definition: TableDefinition) -> TableDefinition:
            new = with_properties(altered(definition, changes), checked, remove)
            if self._context.metastore.accepts(definition):
                check_places(definition, new)
            check_columns((*new.columns, *new.partition_columns) if changes else ())
            return new if place is None else replace(new, location=place)

        self._check_metastore(there.definition, change)
        result = self._context.index.alterations.alter(
            there.identifier, change, removed=remove, deliver=self._context.metastore.accepts(there.definition)
        )
        self._context.sync.publish(result.table_id)
        if place is not None and not result.definition.partition_columns:
            self._repair.repair_partitions(str(there.identifier), mode="sync", allow_mass_drop=True)
            return self._context.load_table(str(there.identifier))
        return result

    def set_serde(self, table: str, serde: str | None, properties: Mapping[str, str]) -> Table:
        """Set the SerDe class with which a table's files are read, or its settings.

        Args:
            table: The table's name.
            serde: The class; None keeps the present class.
            properties: The class's settings, by Hive's names; settings that are not named stay.

        Raises:
            TableNotFoundError: There is no table of that name.
            UnsupportedFormatError, InvalidAlterationError: The existing files could not be read with the class or
                settings.
            InvalidConfigurationError: A setting is a secret.
        """
        there = self._context.load_table(table)

        def change(definition: TableDefinition) -> TableDefinition:
            # Build on the current definition: another process may have changed it since the table was loaded.
            return with_serde(replace(there, definition=definition), serde, properties)

        def check(now: Table) -> None:
            with_serde(now, serde, properties)

        self._check_metastore(there.definition, change)
        result = self._context.index.alterations.alter(
            there.identifier,
            change,
            check=check,
            settings=lambda changed: metastore_settings(changed, properties),
            deliver=self._context.metastore.accepts(there.definition),
        )
        self._context.sync.publish(result.table_id)
        return result

    def checked(self, there: Table, set_: Mapping[str, str], remove: Sequence[str]) -> Mapping[str, str]:
        """Return the table's properties after a change, without storing them.

        Raises:
            InvalidInputError: A property cannot be set or removed.
        """
        checked = checked_properties(set_)
        check_alteration(there.definition, checked, remove)
        check_wildcards_unaltered(there.definition, [*checked, *remove])
        check_partition_commit(there.definition, checked, remove)
        check_not_transactional(str(there.identifier), checked)
        return checked

    def alter_table_properties(self, table: str, set_: Mapping[str, str], remove: Sequence[str] = ()) -> Table:
        """Set and remove properties of a table.

        Raises:
            TableNotFoundError: There is no table of that name.
            InvalidConfigurationError: A property has an invalid value.
        """
        return self.alter(table, set_=set_, remove=remove)

    def rename(self, table: str, to: str) -> Table:
        """Rename a table, perhaps into another namespace. Its files stay where they are.

        Raises:
            TableNotFoundError: There is no table of that name.
            NamespaceNotFoundError: The namespace of the new name does not exist.
            TableAlreadyExistsError: The index or the metastore already has a table of the new name.
        """
        there = self._context.load_table(table)
        new = self._context.identify(to)
        if new == there.identifier:
            return there
        self._creation.check_free(new)
        self._context.sync.check_free(replace(there.definition, identifier=new))
        renamed = self._context.index.alterations.rename(
            there.identifier, new, deliver=self._context.metastore.accepts(there.definition)
        )
        self._context.sync.publish(renamed.table_id)
        return renamed

    def _checked_location(self, definition: TableDefinition, location: str) -> str:
        if definition.table_type is TableType.MANAGED:
            raise InvalidAlterationError(
                f"The location of the managed table {definition.identifier} cannot change: dropping it deletes what "
                "lies there. Copy its rows by CREATE TABLE ... LOCATION ... AS SELECT.",
                {"table": str(definition.identifier)},
            )
        check_one_directory(definition, "ALTER TABLE ... SET LOCATION")
        place, found = located(definition.identifier, location, {})
        if found:
            raise InvalidAlterationError(
                f"The location of table {definition.identifier} cannot become {place}, which has wildcards. Register "
                "that as another table, or write a \\ before a character that stands for itself.",
                {"table": str(definition.identifier), "location": place},
            )
        self._context.allowed.require(Location.parse(place))
        check_location(self._context.storage, place, may_be_empty=True)
        others = self._context.index.tables.overlapping(place)
        warn_of_overlap(replace(definition, location=place), [o for o in others if o != definition.identifier])
        self._context.marks.look(Location.parse(place))
        return place

    def _check_metastore(
        self, definition: TableDefinition, change: Callable[[TableDefinition], TableDefinition]
    ) -> None:
        """Check that the metastore can store the new definition if and only if it could store the old one.

        Raises:
            InvalidInputError: The metastore has the table and could not store the new definition, or could store only
                the new definition.
        """
        if not self._context.metastore.enabled:
            return
        new = change(definition)
        before, after = unrepresentable_reason(definition), unrepresentable_reason(new)
        if (before is None) != (after is None):
            why = f"could not hold it any more: {after}" if after else "does not have it, and would have to"
            raise InvalidInputError(
                f"Table {definition.identifier} cannot be altered so, because the metastore {why}. Make another table "
                "by CREATE TABLE ... AS.",
                {"table": str(definition.identifier)},
            )


def check_places(before: TableDefinition, after: TableDefinition) -> None:
    """Check that Hive would read the columns of existing ORC files correctly after an alteration.

    From release 3.1 on Hive matches columns by position (HIVE-20129), except for fields of structs.

    Raises:
        InvalidAlterationError: A column of an ORC table would be renamed, moved or dropped.
        InvalidConfigurationError: The property that declares how Hive reads ORC files has an invalid value.
    """
    if after.format != "orc" or not ORC_BY_POSITION.read(after.properties):
        return
    names = [column.name.lower() for column in before.columns]
    for place, new_column in enumerate(names):
        if place >= len(after.columns) or after.columns[place].name.lower() != new_column:
            raise InvalidAlterationError(
                f"The columns of table {before.identifier} can be added to at the end only: from release 3.1 on Hive "
                f"reads ORC files by position, and would show other values where {new_column!r} has been. If no such "
                f"Hive reads the table, or with {ORC_BY_POSITION.key}=false, say so: ALTER TABLE ... SET TBLPROPERTIES "
                f"('{ORC_BY_POSITION.key}' = 'false'). Otherwise write the table anew by CREATE TABLE ... AS.",
                {"table": str(before.identifier), "column": new_column},
            )
