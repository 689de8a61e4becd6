"""Follows in the background of a service: failures are logged once, and tried again after growing pauses."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from catalog_ext.following.follower import Follower

logger = logging.getLogger(__name__)

LONGEST_PAUSE_S = 60.0


def pause_s(interval_s: float, failures: int) -> float:
    """Return the seconds to wait after so many failures in a row."""
    return min(interval_s * float(2 ** min(failures, 20)), LONGEST_PAUSE_S)


class BackgroundFollowing:
    """A look at the metastore at each call, unless it has just failed.

    Args:
        follower: Looks.
        interval_s: Seconds between two calls.
        databases: Those whose new tables are imported; None for the setting ``follow.databases``.
        clock: Returns the time, in seconds.
    """

    def __init__(
        self, follower: Follower, interval_s: float, databases: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._follower = follower
        self._databases = databases
        self._interval_s = interval_s
        self._clock = clock
        self._failures = 0
        self._last: str | None = None
        self._not_before = 0.0

    def __call__(self) -> None:
        """Look, if it is time."""
        if self._clock() < self._not_before:
            return
        try:
            outcome = self._follower.look(self._databases)
        except CatalogExtError as error:
            self._failures += 1
            self._not_before = self._clock() + pause_s(self._interval_s, self._failures)
            if error.message != self._last:
                logger.warning("The metastore is not followed for now: %s", error.message)
            self._last = error.message
            return
        if self._last is not None:
            logger.info("The metastore is followed again.")
        self._failures, self._last = 0, None
        for each in outcome.tables:
            if each.says_something:
                counts = ", ".join(
                    f"{counted(n, 'partition')} {what}"
                    for what, n in (("added", each.added), ("dropped", each.dropped), ("changed", each.changed))
                    if n
                )
                logger.info(
                    "Table %s: %s%s%s", each.table, each.action, f", {counts}" if counts else "",
                    "" if each.error is None else f": {each.error}",
                )  # fmt: skip
