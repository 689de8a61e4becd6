"""Statistics of files that are about columns which the table has: names come back, and may mean other columns then."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import ColumnStatistics, Table


def own_statistics(table: Table, found: Mapping[str, ColumnStatistics], version: int) -> dict[str, ColumnStatistics]:
    """Return those that are not of another column, which had the name of one of the table's columns before.

    Args:
        table: As it is now.
        found: By column.
        version: The version of the table from which the file's columns were taken, or that began the file.
    """
    after = {column.name: column.statistics_after for column in table.definition.columns}
    return {
        name: replace(statistics, after=None)
        for name, statistics in found.items()
        if (since := after.get(name)) is None or version > since or statistics.after == since
    }
