"""Makes the client of a metastore: thrift, failover over the URIs, repetition."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.forwarder import GuardedMetastore
from catalog_ext.metastore.hive.thrift.resilience import FailoverMetastore, RetryingMetastore
from catalog_ext.metastore.hive.thrift.thrift_client import (
    CALL_TIMEOUT_SECONDS,
    CONNECT_TIMEOUT_SECONDS,
    ThriftMetastore,
)
from catalog_ext.metastore.hive.thrift.uris import parse_uris

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.thrift.forwarder import Guard
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.hive.thrift.uris import Address


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
