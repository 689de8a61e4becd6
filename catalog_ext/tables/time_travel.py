"""Loads tables at earlier versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.model.as_of import AsOf

if TYPE_CHECKING:
    from catalog_ext.context import Context
    from catalog_ext.metastore.model.as_of import Version
    from catalog_ext.metastore.model.tables import Table


class TimeTravel:
    """Finds the version of a table that a query names."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def load_named(self, table: str, version: Version | None) -> Table:
        """Return a table by its name at a version, at its newest one if ``version`` is None.

        Raises:
            TableNotFoundError: There is no table of that name.
            VersionNotFoundError: The table has no such version.
            VersionExpiredError: Vacuum has removed the version.
            InvalidInputError: ``version`` is a time without zone.
        """
        as_of = None if version is None else AsOf.of(version)
        newest = self._context.load_table(table)
        return newest if as_of is None else self.load(newest, as_of)

    def load(self, table: Table, as_of: AsOf) -> Table:
        """Return a loaded table at another version, with that version's totals and definition.

        Raises:
            VersionNotFoundError: The table has no such version or tag.
            VersionExpiredError: Vacuum has removed the version.
            TableNotFoundError: The table is gone.
        """
        lookup = self._context.index.version_lookup
        if as_of.version is not None:
            return lookup.at_version(table, as_of.version)
        if as_of.tag is not None:
            return lookup.at_tag(table, as_of.tag)
        assert as_of.timestamp_ms is not None
        return lookup.at_time(table, as_of.timestamp_ms)
