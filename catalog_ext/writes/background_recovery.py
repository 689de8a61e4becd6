"""Recovers dead writers' transactions from time to time, for as long as a service runs."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.error_kinds import ErrorKinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.transactions.reports import RecoveryReport

logger = logging.getLogger(__name__)

_STOP_S = 5.0


class BackgroundRecovery:
    """A thread that recovers what owners have left whose leases are over; nobody waits for it.

    Args:
        recover: Recovers it.
        interval_s: Seconds between two looks; 0 for none at all.
    """

    def __init__(self, recover: Callable[[], RecoveryReport], interval_s: float) -> None:
        self._recover = recover
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="catalog-ext-recovery", daemon=True)
        self._kinds = ErrorKinds()

    def start(self) -> None:
        """Begin, after the first interval."""
        if self._interval_s > 0:
            self._thread.start()

    def stop(self) -> None:
        """Begin no more, and wait a little for what is being recovered: whoever is next can go on with it."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self._recover()
            except Exception as error:  # noqa: BLE001 -- nobody waits for this answer; it is logged, and tried again
                self._log(error)

    def _log(self, error: Exception) -> None:
        if isinstance(error, CatalogExtError):
            logger.warning("Dead writers could not be looked for: %s", error.message)
        elif self._kinds.is_new(error):
            logger.error("Dead writers could not be looked for, which goes on: %s", error, exc_info=error)
