"""Makes the client of a metastore as the settings say: how long it waits, and as whom and how it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.conf.metastore_keys import METASTORE_CALL_TIMEOUT, METASTORE_CONNECT_TIMEOUT, metastore_access
from catalog_ext.conf.resolved import EMBEDDED, Settings

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.thrift.forwarder import Guard
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore


def connect(uris: str, settings: Settings, guard: Guard | None = None) -> HiveMetastore:
    """Return a client of the metastores at the URIs; nothing is sent before its first call.

    Args:
        uris: Of the servers; where the settings say that the metastore is the embedded one, its own.
        settings: Say how it is spoken to; the embedded one is spoken to plainly, whatever they say.
        guard: Is asked before each call who the server is that it goes to.

    Raises:
        InvalidConfigurationError: The URIs or a setting are not of their form, or the truststore cannot be read.
        EnvironmentSetupError: A library that the settings need is missing.
    """
    # Not at the top: a command that concerns no metastore needs no thrift.
    from catalog_ext.metastore.hive.thrift import connect as thrift
    from catalog_ext.metastore.hive.thrift.access import PLAIN

    return thrift.connect(
        uris,
        connect_timeout=METASTORE_CONNECT_TIMEOUT.read(settings.conf),
        call_timeout=METASTORE_CALL_TIMEOUT.read(settings.conf),
        guard=guard,
        access=PLAIN if settings.metastore == EMBEDDED else metastore_access(settings.conf),
    )
