"""The base class of the parts of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.database import Database


class IndexPart:
    """Reads or changes one kind of rows in the database of an open index; its errors are those of ``Index``."""

    def __init__(self, database: Database) -> None:
        self._database = database
