"""Several metastores as one, and calls that are tried again where that is safe."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.forwarder import CallForwarder
from catalog_ext.metastore.hive.thrift.uris import Address, unavailable, was_request_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

Result = TypeVar("Result")

ATTEMPTS = 3
FIRST_DELAY_SECONDS = 0.2
REPEAT_WITHIN_SECONDS = 10.0
"""A call that has used up this time is not tried again: a server that hangs is not asked three times."""


class FailoverMetastore(CallForwarder):
    """Calls go to one of several equal metastores, to the next one when it cannot be reached; the good one is kept.

    Args:
        members: The servers' addresses with a client for each, in order of preference.
    """

    def __init__(self, members: Sequence[tuple[Address, HiveMetastore]]) -> None:
        self._members = tuple(members)
        self._lock = threading.Lock()
        self._current = 0

    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        start = self._current
        problems: list[str] = []
        refusals: list[bool] = []
        last: MetastoreUnavailableError | None = None
        for step in range(len(self._members)):
            position = (start + step) % len(self._members)
            try:
                answer = function(self._members[position][1])
            except MetastoreUnavailableError as error:
                if was_request_sent(error) and not repeatable:
                    raise
                last = error
                problems.append(error.message)
                refusals.append(not error.retryable)
                continue
            with self._lock:
                self._current = position
            return answer
        if len(self._members) == 1 and last is not None:
            raise last
        addresses = [address for address, _ in self._members]
        sent = last is not None and was_request_sent(last)
        if last is not None and all(refusals):
            raise type(last)("; ".join(problems), last.parameters) from last
        raise unavailable(addresses, "; ".join(problems), request_sent=sent) from last

    def close(self) -> None:
        """Give up the connections to all of them."""
        for _, member in self._members:
            member.close()


class RetryingMetastore(CallForwarder):
    """Calls that fail because no server can be used are tried again, with growing pauses, where that is safe.

    Safe is a call that was not sent, or one that comes to the same when it is carried out twice.

    Args:
        metastore: Who answers.
        attempts: How often a call is tried in all.
        first_delay: Seconds before the second try; each further pause is twice as long.
        sleep: Waits the seconds given.
    """

    def __init__(
        self, metastore: HiveMetastore, *, attempts: int = ATTEMPTS, first_delay: float = FIRST_DELAY_SECONDS,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._metastore = metastore
        self._attempts = attempts
        self._first_delay = first_delay
        self._sleep = sleep

    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        give_up = time.monotonic() + REPEAT_WITHIN_SECONDS
        attempt = 1
        while True:
            try:
                return function(self._metastore)
            except MetastoreUnavailableError as error:
                safe = repeatable or not was_request_sent(error)
                if not (safe and error.retryable) or attempt >= self._attempts or time.monotonic() > give_up:
                    raise
            self._sleep(self._first_delay * 2 ** (attempt - 1))
            attempt += 1

    def unlock(self, number: int) -> None:
        """Try it once: a lock that is not given up ends by itself, and a write that is done waits for this."""
        self._metastore.unlock(number)

    def close(self) -> None:
        """Give up the connections."""
        self._metastore.close()
