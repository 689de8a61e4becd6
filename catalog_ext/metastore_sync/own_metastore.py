"""Whether an address is that of the index's own metastore, also where the two have never met."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.conf.home import EMBEDDED_AT, METASTORE, METASTORE_ID
from catalog_ext.conf.resolved import embedded_folder
from catalog_ext.metastore.hive.embedded.lease import read_state
from catalog_ext.metastore.hive.identity import metastore_id
from catalog_ext.metastore.hive.thrift.uris import Address, parse_uris

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore


def is_own(recorded: Mapping[str, str], uris: str, metastore: HiveMetastore) -> bool:
    """Return whether the metastore at the URIs is the index's own: by what it says, or else by its address.

    Args:
        recorded: What the index says of itself.
        uris: Of the metastore in question.
        metastore: Its client; asked only where the index knows its own by an id.

    Raises:
        MetastoreUnavailableError: It does not answer.
    """
    known = recorded.get(METASTORE_ID)
    if known is not None and metastore_id(metastore) == known:
        return True
    ours, theirs = _addresses(recorded.get(METASTORE)), parse_uris(uris)
    return any(_is_same(one, other) for one in ours for other in theirs)


def _addresses(recorded: str | None) -> tuple[Address, ...]:
    if recorded is None:
        return ()
    if not recorded.startswith(EMBEDDED_AT):
        return parse_uris(recorded)
    state = read_state(embedded_folder(Path(recorded.removeprefix(EMBEDDED_AT))))
    return () if state is None else parse_uris(state.uri)


def _is_same(one: Address, other: Address) -> bool:
    if one.port != other.port:
        return False
    return one.host.lower() == other.host.lower() or bool(_places(one) & _places(other))


def _places(address: Address) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)}
    except OSError:
        # What has no address here is known by its name alone.
        return set()
