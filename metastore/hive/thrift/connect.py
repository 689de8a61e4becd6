"""The client of a metastore: failover over its servers, retries of idempotent calls, and the identity check."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.forwarder import CHANGES, CallForwarder
from catalog_ext.metastore.hive.thrift.thrift_client import (
    CALL_TIMEOUT_SECONDS,
    CONNECT_TIMEOUT_SECONDS,
    ThriftMetastore,
)
from catalog_ext.metastore.hive.thrift.uris import Address, not_sent, parse_uris, unavailable, was_request_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.thrift.forwarder import Guard
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

Result = TypeVar("Result")

ATTEMPTS = 3
FIRST_DELAY_SECONDS = 0.2
REPEAT_WITHIN_SECONDS = 10.0
"""A call that has lasted this long is not retried: a hanging server would make the caller wait three times as long."""


class Server(NamedTuple):
    """One of several equal metastore servers.

    Attributes:
        address: The server's address.
        metastore: The server's client.
        drop_closed: Drops the idle connections that the server has closed, and reports them to the guard as lost.
    """

    address: Address
    metastore: HiveMetastore
    drop_closed: Callable[[], None] = lambda: None


class MetastoreClient(CallForwarder):
    """The client of a metastore with one or more equal servers.

    A call goes to the server that answered last, and to the next one if that server cannot be reached. If no server can
    be used, the call is retried after a growing pause. A call that a server may have carried out already is sent again
    only if it is idempotent.

    Args:
        servers: The servers in order of preference.
        guard: Checks the identity of a server before each call that goes to it.
        attempts: The total number of attempts of a call.
        first_delay: Seconds before the second attempt; each further pause is twice as long.
        sleep: Waits the given seconds.
    """

    def __init__(
        self, servers: Sequence[Server], guard: Guard | None = None, *, attempts: int = ATTEMPTS,
        first_delay: float = FIRST_DELAY_SECONDS, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._servers = tuple(servers)
        self._guard = guard
        self._attempts = attempts
        self._first_delay = first_delay
        self._sleep = sleep
        self._lock = threading.Lock()
        self._current = 0

    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        give_up = time.monotonic() + REPEAT_WITHIN_SECONDS
        # Do not retry an unlock: a finished write waits for this call, and Hive ends an unreleased lock at its timeout.
        attempts = 1 if method == "unlock" else self._attempts
        attempt = 1
        while True:
            try:
                return self._ask_servers(method, function, repeatable=repeatable)
            except MetastoreUnavailableError as error:
                safe = repeatable or not was_request_sent(error)
                if not (safe and error.retryable) or attempt >= attempts or time.monotonic() > give_up:
                    raise
            self._sleep(self._first_delay * 2 ** (attempt - 1))
            attempt += 1

    def _ask_servers(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool) -> Result:
        start = self._current
        errors: list[MetastoreUnavailableError] = []
        for step in range(len(self._servers)):
            position = (start + step) % len(self._servers)
            server = self._servers[position]
            try:
                self._check_identity(server, method)
                answer = function(server.metastore)
            except MetastoreUnavailableError as error:
                if was_request_sent(error) and not repeatable:
                    raise
                errors.append(error)
                continue
            with self._lock:
                self._current = position
            return answer
        last = errors[-1]
        if len(errors) == 1:
            raise last
        problem = "; ".join(error.message for error in errors)
        if not any(error.retryable for error in errors):
            raise type(last)(problem, last.parameters) from last
        addresses = [server.address for server in self._servers]
        raise unavailable(addresses, problem, request_sent=was_request_sent(last)) from last

    def _check_identity(self, server: Server, method: str) -> None:
        if self._guard is None:
            return
        server.drop_closed()
        try:
            self._guard.check(server.metastore, learns=method in CHANGES)
        except MetastoreUnavailableError as error:
            # Only the identity check was sent to this server. Mark the error so that the call itself may go to the next
            # server.
            raise type(error)(error.message, not_sent(error.parameters)) from error

    def close(self) -> None:
        """Close the connections to all servers; a later call opens new ones."""
        for server in self._servers:
            server.metastore.close()


def connect(
    uris: str, *, connect_timeout: float = CONNECT_TIMEOUT_SECONDS, call_timeout: float = CALL_TIMEOUT_SECONDS,
    guard: Guard | None = None, access: Access = PLAIN,
) -> MetastoreClient:  # fmt: skip
    """Return a client of the metastore servers at the URIs; nothing is sent before its first call.

    Args:
        uris: ``thrift://a:9083,thrift://b:9083``: equal servers over one database, in order of preference.
        connect_timeout: Seconds that each server has to accept a connection.
        call_timeout: Seconds that a server has to answer a call.
        guard: Checks the identity of a server before each call that goes to it.
        access: TLS, Kerberos and user.

    Raises:
        InvalidConfigurationError: ``uris`` is empty, or an entry is not ``thrift://host:port``.
    """

    def server(address: Address) -> Server:
        lost = guard.lost if guard is not None else lambda: None
        metastore = ThriftMetastore(
            address, connect_timeout=connect_timeout, call_timeout=call_timeout, lost=lost, access=access
        )
        return Server(address, metastore, metastore.drop_closed)

    addresses = list(parse_uris(uris))
    if access.shuffled:
        random.shuffle(addresses)
    return MetastoreClient([server(address) for address in addresses], guard)
