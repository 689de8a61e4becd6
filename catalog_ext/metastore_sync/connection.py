"""The connection of a catalog to its metastore: none, a running one, or the embedded one."""

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
    """When the embedded metastore is started."""

    AHEAD = "ahead"
    """At once, in the background, so that no statement waits for it early."""

    WHEN_NEEDED = "when needed"
    """When there is something to send or to ask."""

    NEVER_MADE = "never made"
    """When needed, and only where there is one: who only looks makes none."""


_BEHIND_SPARK = 10
"""The niceness of a server that starts while Spark does, and that nothing waits for: not even a delivery does."""


class MetastoreConnection:
    """Connects on the first use.

    Args:
        settings: Name the metastore.
        known: Keeps calls from a metastore that is not the index's own. The embedded one is known by its folder.
        embedded: When the embedded server is started. When needed, the library that speaks to any other is loaded no
            earlier either.
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
            # A malformed URI or truststore is the caller's mistake, to be heard of now and not at the first delivery.
            self._client = settings.connect_metastore(self._uris, self._guard)

    @property
    def enabled(self) -> bool:
        """Whether there is a metastore at all."""
        return self._uris is not None

    @property
    def embedded(self) -> bool:
        """Whether it is the embedded one."""
        return self._embedded is not None

    @property
    def embedded_id(self) -> str | None:
        """Who the embedded one is; None where it is not the embedded one, or its first start has not begun."""
        return None if self._embedded is None else folder_id(self._embedded.directory)

    @property
    def starting(self) -> bool:
        """Whether it is the embedded one and not ready yet, or not started yet."""
        return self._embedded is not None and not self._embedded.settled

    def accepts(self, definition: TableDefinition) -> bool:
        """Return whether the metastore gets this table: there is one, and it can hold it."""
        return self.enabled and unrepresentable_reason(definition) is None

    def start(self) -> None:
        """Begin to start the embedded server, where that is the metastore: it will be needed soon.

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
            MetastoreUnavailableError: The embedded one is still starting, or does not start.
            InvalidConfigurationError: There is no metastore.
        """
        if self.starting:
            self.start()
            raise MetastoreUnavailableError("The embedded metastore is still starting; it gets the change in a moment.")
        return self.client()

    def uri(self, timeout_s: float = 120.0) -> str:
        """Return the URIs of the metastore, waiting for the embedded one.

        Raises:
            InvalidConfigurationError: There is no metastore.
            MetastoreUnavailableError: The embedded one does not start, or is not there and is not to be made.
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

        Its calls raise ``MetastoreReplacedError``, and reach no server, where it is not the index's own metastore.

        Raises:
            InvalidConfigurationError: There is no metastore.
            MetastoreUnavailableError: The embedded one does not start.
        """
        uri = self.uri(timeout_s)
        with self._lock:
            if self._client is None:
                self._client = self._settings.connect_metastore(uri, self._guard)
            return self._client

    def running_client(self) -> HiveMetastore | None:
        """Return the client if that starts no server; None for an embedded one that does not run, or no metastore.

        Raises:
            MetastoreUnavailableError: The embedded server ends meanwhile.
        """
        if self._embedded is not None:
            state = read_state(self._embedded.directory)
            if state is None or not runs(state.pid):
                return None
        return self.client() if self.enabled else None

    def close(self) -> None:
        """Give up the connections and the embedded server, unless another process uses it."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()
        if self._embedded is not None:
            self._embedded.stop()
