"""The connection of a catalog to its metastore: no metastore, a running server, or the embedded server."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

from catalog_ext.conf.resolved import EMBEDDED, Settings
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.metastore.hive.embedded.lease import folder_id, read_state
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.hive.thrift.uris import parse_uris
from catalog_ext.metastore.runtime.processes import runs

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.thrift.forwarder import Guard
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.tables import TableDefinition


class Embedded(Enum):
    """The time when the embedded metastore is started."""

    AHEAD = "ahead"
    """At once, in the background, so that the first statement waits less."""

    WHEN_NEEDED = "when needed"
    """When the first message has to be delivered, or the first question asked."""

    NEVER_MADE = "never made"
    """When needed, but only if it exists: a command that only reads does not create one."""


_BEHIND_SPARK = 10
"""The niceness of a server process that starts while Spark starts: nothing waits for this server yet."""


class MetastoreConnection:
    """The metastore's client, which connects at the first use.

    Args:
        settings: Name the metastore.
        known: Refuses calls to a metastore that is not the index's own. The embedded one is known by its folder
            instead.
        embedded: When the embedded server is started. With ``WHEN_NEEDED`` the client library for other metastores is
            also loaded at the first use.
    """

    def __init__(self, settings: Settings, known: Guard, embedded: Embedded = Embedded.AHEAD) -> None:
        self._uris = settings.metastore
        self._embedded: EmbeddedMetastore | None = None
        self._client: HiveMetastore | None = None
        self._lock = threading.Lock()
        self._guard = None if self._uris == EMBEDDED else known
        self._settings = settings
        self._makes = embedded is not Embedded.NEVER_MADE
        if self._uris == EMBEDDED:
            ahead = embedded is Embedded.AHEAD
            self._embedded = EmbeddedMetastore(settings.embedded_folder, niceness=_BEHIND_SPARK if ahead else 0)
            if ahead:
                self._embedded.start_in_background()
        elif self._uris is not None and embedded is Embedded.WHEN_NEEDED:
            parse_uris(self._uris)
        elif self._uris is not None:
            # Create the client now, so that the caller gets the error for a malformed URI or truststore, and not the
            # first delivery.
            self._client = settings.connect_metastore(self._uris, self._guard)

    @property
    def enabled(self) -> bool:
        """Whether the catalog has a metastore."""
        return self._uris is not None

    @property
    def embedded(self) -> bool:
        """Whether the metastore is the embedded one."""
        return self._embedded is not None

    @property
    def embedded_id(self) -> str | None:
        """The id of the embedded metastore; None for another metastore, or before its first start."""
        return None if self._embedded is None else folder_id(self._embedded.directory)

    @property
    def starting(self) -> bool:
        """Whether the metastore is the embedded one, and is not ready yet."""
        return self._embedded is not None and not self._embedded.settled

    def accepts(self, definition: TableDefinition) -> bool:
        """Return whether the table is published: there is a metastore, and it can store the table."""
        return self.enabled and unrepresentable_reason(definition) is None

    def start(self) -> None:
        """Start the embedded server in the background, if that is the metastore, because it will be needed soon.

        Raises:
            MetastoreUnavailableError: Its folder has no metastore, and this process may not create it.
        """
        if self._embedded is None:
            return
        if not self._makes and not self._embedded.directory.exists():
            raise MetastoreUnavailableError(
                f"There is no embedded metastore in {self._embedded.directory} yet. The first change of a table makes "
                "it, and catalog-ext publish --all, which also fills it from the index.",
                {"directory": str(self._embedded.directory)},
            )
        self._embedded.start_in_background()

    def started_client(self) -> HiveMetastore:
        """Return the client, without waiting for the embedded server.

        Raises:
            MetastoreUnavailableError: The embedded server is still starting, or does not start.
            InvalidConfigurationError: There is no metastore.
        """
        if self.starting:
            self.start()
            raise MetastoreUnavailableError("The embedded metastore is still starting; it gets the change in a moment.")
        return self.client()

    def uri(self, timeout_s: float = 120.0) -> str:
        """Return the URIs of the metastore, waiting for the embedded server.

        Raises:
            InvalidConfigurationError: There is no metastore.
            MetastoreUnavailableError: The embedded server does not start, or does not exist and must not be created.
        """
        if self._embedded is not None:
            self.start()
            return self._embedded.uri(timeout_s)
        if self._uris is None:
            raise InvalidConfigurationError(
                "This catalog has no metastore. Pass metastore='thrift://host:9083' (on the command line --metastore "
                "thrift://host:9083) to have one."
            )
        return self._uris

    def client(self, timeout_s: float = 120.0) -> HiveMetastore:
        """Return the client, waiting at most ``timeout_s`` seconds for the embedded server.

        If the server is not the index's own metastore, calls are not sent, and raise ``MetastoreReplacedError``.

        Raises:
            InvalidConfigurationError: There is no metastore.
            MetastoreUnavailableError: The embedded server does not start.
        """
        uri = self.uri(timeout_s)
        with self._lock:
            if self._client is None:
                self._client = self._settings.connect_metastore(uri, self._guard)
            return self._client

    def running_client(self) -> HiveMetastore | None:
        """Return the client if no server has to be started for it; None for a stopped embedded server, or no metastore.

        Raises:
            MetastoreUnavailableError: The embedded server ends meanwhile.
        """
        if self._embedded is not None:
            state = read_state(self._embedded.directory)
            if state is None or not runs(state.pid):
                return None
        return self.client() if self.enabled else None

    def close(self) -> None:
        """Close the connections, and stop the embedded server unless another process uses it."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()
        if self._embedded is not None:
            self._embedded.stop()
