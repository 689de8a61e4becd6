"""Probes the index for monitoring. Concurrent callers share one probe."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, IndexUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.index.read.state import IndexState

logger = logging.getLogger(__name__)

KEPT_S = 2.0
"""The seconds for which a result is reused, so that frequent requests put no load on the database."""

WAIT_S = 4.0
"""The seconds to wait for a probe. Kubernetes probes and Prometheus scrapes give up after 10 s at most."""


@dataclass(frozen=True, slots=True)
class Look:
    """The result of probing the index: its state, or an error.

    Attributes:
        seconds: The duration of the probe.
    """

    state: IndexState | None
    error: CatalogExtError | None
    seconds: float


class IndexProbe:
    """Probes an index, one probe at a time. Callers that ask during a probe get its result."""

    def __init__(self, state: Callable[[], IndexState], *, kept_s: float = KEPT_S, wait_s: float = WAIT_S) -> None:
        self._state = state
        self._kept_s = kept_s
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._running: Future[Look] | None = None
        self._ended_at = float("-inf")

    async def look(self) -> Look:
        """Return the last probe's result if it is recent enough, otherwise probe now. No request thread is blocked.

        A caller whose probe does not end in time gets an error. The probe continues, and the next caller gets its
        result.
        """
        try:
            return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._begun())), self._wait_s)
        except asyncio.TimeoutError:  # before Python 3.11 not the built-in TimeoutError
            late = f"The index has not answered within {self._wait_s:g} s. Look at the database."
            return Look(None, IndexUnavailableError(late), self._wait_s)

    def _begun(self) -> Future[Look]:
        with self._lock:
            running = self._running
            if running is None or (running.done() and time.monotonic() - self._ended_at > self._kept_s):
                self._running = running = Future()
                # Use a new daemon thread: if the database hangs, the probe blocks no request thread, and does not keep
                # the process alive at its end.
                threading.Thread(target=self._look, args=(running,), name="catalog-ext-probe", daemon=True).start()
            return running

    def _look(self, found: Future[Look]) -> None:
        started = time.monotonic()
        state, failure = None, None
        try:
            state = self._state()
        except CatalogExtError as error:
            failure = error
        except Exception as error:
            logger.exception("The index could not be looked at")
            failure = CatalogExtError(f"The index could not be checked: {type(error).__name__}: {error}")
        self._ended_at = time.monotonic()
        found.set_result(Look(state, failure, self._ended_at - started))
