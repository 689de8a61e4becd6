"""Retries the deliveries that the metastore has not taken, for as long as this process lives."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.error_kinds import ErrorKinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.hive.outbox.delivery import DeliveryReport

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0
IDLE_PAUSE_S = 30.0


class DeliveryRetry:
    """Delivers again, at growing intervals, until nothing is pending.

    Nothing runs while nothing is pending, unless `keep_delivering` was called. What is still pending when the
    process ends stays in the index, and the next change by any process delivers it.
    """

    def __init__(self, deliver: Callable[[], DeliveryReport]) -> None:
        self._deliver = deliver
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._closed = False
        self._always = False
        self._kinds = ErrorKinds()

    def keep_delivering(self) -> None:
        """Look from now on for what other processes left pending, every ``IDLE_PAUSE_S`` seconds."""
        self._always = True
        self.schedule(IDLE_PAUSE_S)

    def schedule(self, pause_s: float = FIRST_PAUSE_S) -> None:
        """Deliver again after a pause, unless that is arranged already."""
        with self._lock:
            if self._closed or self._timer is not None:
                return
            self._timer = threading.Timer(pause_s, self._run, args=(pause_s,))
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Arrange no more, and wait for a delivery that is under way."""
        with self._lock:
            self._closed = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()

    def _run(self, pause_s: float) -> None:
        try:
            pending = self._deliver().pending
        except Exception as error:  # noqa: BLE001 -- no caller waits for this answer; it is logged, and tried again
            self._log(error)
            pending = 1
        with self._lock:
            self._timer = None
        if pending:
            self.schedule(min(2 * pause_s, LONGEST_PAUSE_S))
        elif self._always:
            self.schedule(IDLE_PAUSE_S)
        else:
            logger.info("The metastore has taken everything that was pending.")

    def _log(self, error: Exception) -> None:
        if isinstance(error, CatalogExtError):
            logger.warning("Delivery to the metastore failed and is tried again later: %s", error.message)
        elif self._kinds.is_new(error):
            logger.error("Delivery to the metastore failed unexpectedly, and goes on: %s", error, exc_info=error)
