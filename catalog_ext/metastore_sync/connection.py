"""Connects a catalog to its metastore: none, one that runs somewhere, or the embedded one."""

from __future__ import annotations

import contextlib
import threading
from enum import Enum
from typing import TYPE_CHECKING

from catalog_ext.conf.home import METASTORE_ID
from catalog_ext.conf.metastore_keys import METASTORE_CALL_TIMEOUT, METASTORE_CONNECT_TIMEOUT, metastore_access
from catalog_ext.conf.resolved import EMBEDDED, Settings
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    MetastoreRefusedError,
    MetastoreReplacedError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.metastore.hive.embedded.lease import folder_id, read_state
from catalog_ext.metastore.hive.identity import give_id, metastore_id
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.hive.thrift.forwarder import GuardedMetastore
from catalog_ext.metastore.hive.thrift.uris import not_sent, parse_uris
from catalog_ext.metastore.runtime.processes import runs

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.thrift.forwarder import Guard
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
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

    def __init__(self, settings: Settings, known: KnownMetastore, embedded: Embedded = Embedded.AHEAD) -> None:
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
            self._client = self._connect(self._uris)

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
        """Whether it is the embedded one, and not ready yet, or not begun to be started."""
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
                self._client = self._connect(uri)
            return self._client

    def running_client(self) -> HiveMetastore | None:
        """Return the client where that starts no server; None for an embedded one that does not run, or no metastore.

        Raises:
            MetastoreUnavailableError: The embedded server ends meanwhile.
        """
        if self._embedded is not None:
            state = read_state(self._embedded.directory)
            if state is None or not runs(state.pid):
                return None
        return self.client() if self.enabled else None

    def _connect(self, uris: str) -> HiveMetastore:
        # Each server by itself as well: in the middle of a call another one may be turned to.
        client = connect(uris, self._settings, self._guard)
        return client if self._guard is None else GuardedMetastore(client, self._guard)

    def close(self) -> None:
        """Give up the connections and the embedded server, unless another process uses it."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()
        if self._embedded is not None:
            self._embedded.stop()


def check_answers(settings: Settings) -> None:
    """Return if the metastore of the settings answers, where it is one that runs somewhere.

    Raises:
        MetastoreUnavailableError: It does not.
    """
    if settings.metastore not in (None, EMBEDDED):
        with contextlib.closing(connect(str(settings.metastore), settings)) as client:
            client.list_databases()


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


REPLACED = (
    "The metastore of the index {index} is not the one that it was: it has been lost or replaced, or has another one's "
    "address. Nothing is sent to it. If that is meant to be: catalog-ext --index '{index}' --metastore URIS adopt, "
    "then catalog-ext --index '{index}' publish --all. If not, bring the old one back: what is pending goes there."
)
_SILENT = (
    "The metastore does not say whether it is the one that the index {} belongs to, and gets nothing: {} Let its "
    "database default be read."
)


class KnownMetastore:
    """Asks a metastore that runs elsewhere who it is, once for as long as the connections to it last.

    Args:
        index: Says who its metastore is, or learns it.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._lock = threading.RLock()
        self._losses = 0
        self._known_at: int | None = None
        self._asking = False

    def check(self, metastore: HiveMetastore, *, learns: bool) -> None:
        """Return if the metastore is the index's own.

        Args:
            metastore: Who answers.
            learns: Whether the index takes a metastore for its own where it has not met one yet, which gets an id then.

        Raises:
            MetastoreReplacedError: It is another one than the index has known.
            MetastoreUnavailableError: It does not answer, or does not say who it is and had an id.
        """
        with self._lock:
            # To give an id is a change, too.
            if self._asking or self._known_at == self._losses:
                return
            losses, self._asking = self._losses, True
            try:
                if self._is_own(metastore, learns=learns):
                    self._known_at = losses
            finally:
                self._asking = False

    def lost(self) -> None:
        """Have the next one to answer asked again."""
        self._losses += 1

    def _is_own(self, metastore: HiveMetastore, *, learns: bool) -> bool:
        """Return True, or False where nothing is known yet."""
        recorded = self._index.properties.load().get(METASTORE_ID)
        if recorded is None:
            if not learns:
                return False
            found = give_id(metastore)
            if found is None:
                return True
            recorded = self._index.properties.add_missing({METASTORE_ID: found})[METASTORE_ID]
        else:
            found = self._ask(metastore)
        if found != recorded:
            parameters = {"index": self._index.url, "recorded": recorded, "found": found or ""}
            raise MetastoreReplacedError(REPLACED.format(index=self._index.url), not_sent(parameters))
        return True

    def _ask(self, metastore: HiveMetastore) -> str | None:
        try:
            return metastore_id(metastore)
        except MetastoreRefusedError as error:
            # No refusal of what is to be done there: that was not asked for yet.
            parameters = {"index": self._index.url}
            raise MetastoreUnavailableError(
                _SILENT.format(self._index.url, error.message), not_sent(parameters)
            ) from error
