"""The newest versions that this process has seen: an index that shows older ones was put back meanwhile.

A database that fails over loses its last commits while services and sessions go on. The counter shows that only if it
rose among these commits. A process that has seen their versions notices it without a request to the store.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableNotFoundError

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index

_PAUSES_S = (0.1, 0.5, 1.0)
"""Waits before the index is asked again: nodes of one database may show a commit one after another."""


class SeenVersions:
    """Notes the newest version of each table. Threads may share it.

    Args:
        index: The open index.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._newest: dict[int, int] = {}

    def note(self, table_id: int, version: int) -> int | None:
        """Note a version that the index has shown as the newest one.

        Returns:
            The newest version that was seen, if the index has gone back behind it; otherwise None.
        """
        newest = self._newest.get(table_id, -1)
        if version >= newest:
            self._newest[table_id] = version
            return None
        return newest if self._has_gone_back(table_id, newest) else None

    def forget(self) -> None:
        """Begin anew: the index is known to have gone back."""
        self._newest.clear()

    def _has_gone_back(self, table_id: int, newest: int) -> bool:
        """Return whether the table is older now, too: another thread may have noted what it has loaded later."""
        for pause_s in (*_PAUSES_S, None):
            try:
                if self._index.tables.load_by_id(table_id).version >= newest:
                    return False
            except TableNotFoundError:
                return False
            if pause_s is not None:
                time.sleep(pause_s)
        return True
