"""Columns of ORC tables keep their places, because Hive reads ORC files by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.conf.table_keys import ORC_BY_POSITION
from catalog_ext.metastore.errors import InvalidAlterationError

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import TableDefinition


def check_places(before: TableDefinition, after: TableDefinition) -> None:
    """Return unless Hive would show a column's values under another one's name.

    It reads by position from release 3.1 on (HIVE-20129), fields of structs excepted.

    Args:
        before: The table as it is.
        after: As it is to be.

    Raises:
        InvalidAlterationError: A column of an ORC table gets another name or place, or goes.
        InvalidConfigurationError: The property's value is none.
    """
    if after.format != "orc" or not ORC_BY_POSITION.read(after.properties):
        return
    names = [column.name.lower() for column in before.columns]
    for place, name in enumerate(names):
        if place >= len(after.columns) or after.columns[place].name.lower() != name:
            raise InvalidAlterationError(
                f"The columns of table {before.identifier} can be added to at the end only: from release 3.1 on Hive "
                f"reads ORC files by position, and would show other values where {name!r} has been. If no such Hive "
                f"reads the table, or with {ORC_BY_POSITION.key}=false, say so: ALTER TABLE ... SET TBLPROPERTIES "
                f"('{ORC_BY_POSITION.key}' = 'false'). Otherwise write the table anew by CREATE TABLE ... AS.",
                {"table": str(before.identifier), "column": name},
            )
