"""The client that everybody uses: thrift, failover over the URIs, repetition."""

from __future__ import annotations

from catalog_ext.metastore.hive.thrift.resilience import FailoverMetastore, RetryingMetastore
from catalog_ext.metastore.hive.thrift.thrift_client import (
    CALL_TIMEOUT_SECONDS,
    CONNECT_TIMEOUT_SECONDS,
    ThriftMetastore,
)
from catalog_ext.metastore.hive.thrift.uris import parse_uris


def connect(
    uris: str,
    *,
    connect_timeout: float = CONNECT_TIMEOUT_SECONDS,
    call_timeout: float = CALL_TIMEOUT_SECONDS,
) -> RetryingMetastore:
    """Return a client of the metastores at the URIs; nothing is sent before its first call.

    Args:
        uris: ``thrift://a:9083,thrift://b:9083``: equal servers over one database, in order of preference.
        connect_timeout: Seconds that each server has to accept a connection.
        call_timeout: Seconds that a server has to answer a call.

    Raises:
        InvalidConfigurationError: The URIs are not such a list.
    """
    members = [
        (address, ThriftMetastore(address, connect_timeout=connect_timeout, call_timeout=call_timeout))
        for address in parse_uris(uris)
    ]
    return RetryingMetastore(FailoverMetastore(members))
