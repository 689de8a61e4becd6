"""Loads tables at earlier versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_ext.context import Context
    from catalog_ext.metastore.model.as_of import AsOf
    from catalog_ext.metastore.model.tables import Table


class TimeTravel:
    """Finds the version of a table that a query names."""

    def __init__(self, context: Context) -> None:
        self._lookup = context.index.version_lookup

    def load(self, table: Table, as_of: AsOf) -> Table:
        """Return a loaded table at another version, with that version's totals and definition.

        Raises:
            VersionNotFoundError: The table has no such version.
            VersionExpiredError: Vacuum has removed the version.
            TableNotFoundError: The table is gone.
        """
        if as_of.version is not None:
            return self._lookup.at_version(table, as_of.version)
        assert as_of.timestamp_ms is not None
        return self._lookup.at_time(table, as_of.timestamp_ms)
