"""The base class of the readers and writers of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.database import Database


class IndexPart:
    """Base class for the readers and writers of an index, each for one kind of row, with the errors of ``Index``."""

    def __init__(self, database: Database) -> None:
        self._database = database
