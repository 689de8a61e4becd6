"""Checks whether a table of the metastore is the table of a message, or a different table with the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.hive.mapping.model import HiveTable


def check_location(table: HiveTable, locations: Sequence[str]) -> None:
    """Check that the metastore's table has a location of the index's table.

    Args:
        table: The metastore's table or view.
        locations: The locations of the index's table, before and after a change of location; the empty location for a
            view.

    Raises:
        MetastoreRefusedError: The metastore's table has a different location, or only one of the two is a view.
    """
    is_view = table.table_type == VIRTUAL_VIEW
    if any(is_view if not ours else not is_view and same_location(table.location, ours) for ours in locations):
        return
    place = "it is a view" if is_view else f"at {table.location or 'no location'}"
    ours = f"the index's table is at {locations[0]}" if locations[0] else "the index has a view"
    raise MetastoreRefusedError(
        f"The metastore has another table of the name {table}: {place}, and {ours}. Rename or drop one of the two.",
        {"table": str(table), "location": locations[0], "metastore_location": table.location},
    )
