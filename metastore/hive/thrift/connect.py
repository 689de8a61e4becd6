"""Makes the client of a metastore: thrift, failover over the URIs, and repetition where that is safe."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.forwarder import CallForwarder, GuardedMetastore
from catalog_ext.metastore.hive.thrift.thrift_client import (
    CALL_TIMEOUT_SECONDS,
    CONNECT_TIMEOUT_SECONDS,
    ThriftMetastore,
)
from catalog_ext.metastore.hive.thrift.uris import Address, parse_uris, unavailable, was_request_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.thrift.forwarder import Guard
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

    Safe is a call that was not sent, or an idempotent call.

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


def connect(
    uris: str, *, connect_timeout: float = CONNECT_TIMEOUT_SECONDS, call_timeout: float = CALL_TIMEOUT_SECONDS,
    guard: Guard | None = None, access: Access = PLAIN,
) -> RetryingMetastore:  # fmt: skip
    """Return a client of the metastores at the URIs; nothing is sent before its first call.

    Args:
        uris: ``thrift://a:9083,thrift://b:9083``: equal servers over one database, in order of preference.
        connect_timeout: Seconds that each server has to accept a connection.
        call_timeout: Seconds that a server has to answer a call.
        guard: Is asked before each call who the server is that it goes to.
        access: How the servers are spoken to.

    Raises:
        InvalidConfigurationError: The URIs are not such a list.
    """

    def member(address: Address) -> HiveMetastore:
        lost = guard.lost if guard is not None else lambda: None
        server = ThriftMetastore(
            address, connect_timeout=connect_timeout, call_timeout=call_timeout, lost=lost, access=access
        )
        return server if guard is None else GuardedMetastore(server, guard, server.drop_closed)

    addresses = list(parse_uris(uris))
    if access.shuffled:
        random.shuffle(addresses)
    return RetryingMetastore(FailoverMetastore([(address, member(address)) for address in addresses]))
