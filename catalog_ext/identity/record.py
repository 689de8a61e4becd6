"""The properties in which an index records its id, its metastore and its warehouse."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING
from uuid import uuid4

from catalog_ext.conf.resolved import EMBEDDED, Settings
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.hive.thrift.uris import parse_uris

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index

WAREHOUSE = "warehouse"
METASTORE = "metastore"
METASTORE_HOST = "metastore.host"
"""The host with the folder of the embedded metastore: another host may have a folder with the same path."""

METASTORE_ID = "metastore.id"
"""The id that the metastore itself stores, independent of its address."""

NO_METASTORE = "metastore.none"
"""Set if the index was created without a metastore. An index has this or ``metastore``, or neither at first."""

INDEX_ID = "index.id"
"""The id of the index, for its warehouse's mark, and for drivers that use several services of the index. It is created
with the first table or the first request of such a driver."""

EMBEDDED_AT = "embedded:"
"""The prefix of a recorded embedded metastore; its folder follows."""


def id_of(index: Index) -> str:
    """Return the index's id; create it if the index has none."""
    return index.properties.load().get(INDEX_ID) or index.properties.add_missing({INDEX_ID: uuid4().hex})[INDEX_ID]


def address(settings: Settings) -> str | None:
    """Return the metastore's address in the recorded form: the servers in order, or the embedded one's folder."""
    if settings.metastore is None:
        return None
    if settings.metastore == EMBEDDED:
        return f"{EMBEDDED_AT}{settings.state}"
    return ",".join(sorted(str(server) for server in parse_uris(settings.metastore.lower())))


def record(settings: Settings) -> dict[str, str]:
    """Return the properties to record for an index that is first opened with these settings."""
    where = address(settings)
    host = {METASTORE_HOST: socket.gethostname()} if settings.metastore == EMBEDDED else {}
    own = {METASTORE: where} | host if where is not None else {}
    # Record "no metastore" only if the user chose it, not if it is the default.
    none = {NO_METASTORE: "true"} if where is None and METASTORE in settings.given else {}
    return {WAREHOUSE: settings.warehouse} | own | none


def properties_of(given: dict[str, str], *chosen: str) -> dict[str, str]:
    """Return the given properties that belong to some of ``METASTORE`` and ``WAREHOUSE``."""
    return {name: given[name] for what in chosen for name in _PROPERTIES[what] if name in given}


def replace_record(index: Index, given: dict[str, str], *chosen: str) -> dict[str, str]:
    """Replace the recorded metastore, warehouse or both by the given ones; return all properties of the index.

    A new metastore's id is recorded at the first connection.
    """
    removed = [name for what in chosen for name in _PROPERTIES[what]]
    index.properties.replace(properties_of(given, *chosen), removed=removed)
    return index.properties.load()


_PROPERTIES = {METASTORE: (METASTORE, METASTORE_HOST, METASTORE_ID, NO_METASTORE), WAREHOUSE: (WAREHOUSE,)}


def no_metastore(index: Index, purpose: str) -> InvalidConfigurationError:
    """Return the error of a command that needs a metastore, in a catalog without one.

    Args:
        index: The catalog's index, which records its metastore.
        purpose: What the metastore is needed for, as text for people: ``to follow``.
    """
    own = index.properties.load().get(METASTORE)
    if own is not None:
        remedy = (
            f"The index belongs to the metastore {own}, and this session leaves it out: run it without --metastore "
            "none, and unset CATALOG_EXT_METASTORE if it says none."
        )
    else:
        remedy = (
            f"The index has none. To give it one for good: catalog-ext --index '{index.url}' --metastore "
            "thrift://host:9083 adopt."
        )
    return InvalidConfigurationError(f"This catalog has no metastore {purpose}. {remedy}", {"index": index.url})
