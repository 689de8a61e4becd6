"""Counts the calls that a test makes to the metastore."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.hive.thrift.forwarder import CallForwarder

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

Result = TypeVar("Result")


class CountingMetastore(CallForwarder):
    """Passes calls on and counts them by method; a repeated call counts once."""

    def __init__(self, metastore: HiveMetastore) -> None:
        self._metastore = metastore
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    @property
    def calls(self) -> dict[str, int]:
        """Calls since the start, by method."""
        with self._lock:
            return dict(self._counts)

    @property
    def total(self) -> int:
        """All calls since the start."""
        with self._lock:
            return self._counts.total()

    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        with self._lock:
            self._counts[method] += 1
        return function(self._metastore)

    def close(self) -> None:
        """Give up the connections; the counts stay."""
        self._metastore.close()
