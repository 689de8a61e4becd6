"""Periodic work in the background while a service runs."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.error_kinds import ErrorKinds
from catalog_ext.metastore.runtime.measures import TaskRan, emit

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_STOP_S = 5.0


class BackgroundTask:
    """A thread that repeats some work in the background.

    Args:
        name: The name of the thread, and of its runs in metrics.
        work: Does one run.
        interval_s: Seconds between two runs; 0 for no runs at all.
        failure: The log message for a failed run.
    """

    def __init__(self, name: str, work: Callable[[], object], interval_s: float, failure: str) -> None:
        self.name = name
        self._work = work
        self._interval_s = interval_s
        self._failure = failure
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"catalog-ext-{name}", daemon=True)
        self._kinds = ErrorKinds()

    @property
    def runs(self) -> bool:
        """Whether the task has an interval; a task without one never runs."""
        return self._interval_s > 0

    def start(self) -> None:
        """Start the thread. The first run comes after one interval."""
        if self.runs:
            self._thread.start()

    def stop(self) -> None:
        """Start no further run, and wait a limited time for the current run."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            try:
                self._work()
            except Exception as error:  # noqa: BLE001 -- no caller waits for the answer; it is logged, and tried again
                emit(TaskRan(self.name, failed=True))
                self._log(error)
            else:
                emit(TaskRan(self.name, failed=False))

    def _log(self, error: Exception) -> None:
        if isinstance(error, CatalogExtError):
            logger.warning("%s: %s", self._failure, error.message)
        elif self._kinds.is_new(error):
            logger.error("%s, which goes on: %s", self._failure, error, exc_info=error)
