"""Runs the service: in a thread of this process, or in the foreground."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING

import pyarrow as pa
import uvicorn

from catalog_ext.conf import write_keys
from catalog_ext.conf.metastore_keys import FOLLOW, FOLLOW_INTERVAL
from catalog_ext.conf.service_keys import PAGE
from catalog_ext.hms_events.follower import BackgroundFollowing
from catalog_ext.metastore.errors import ServiceError
from catalog_ext.page.page_app import WithPage
from catalog_ext.page.query import ROOT
from catalog_ext.service import LOOPBACK, rows_response
from catalog_ext.service.addresses import authority, listening_socket, without_brackets
from catalog_ext.service.application import build_application
from catalog_ext.service.background_task import BackgroundTask
from catalog_ext.service.connections import BACKLOG, Connections
from catalog_ext.service.in_flight import InFlightCalls, OpenWrites
from catalog_ext.service.monitoring import Monitoring

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import TracebackType

    from starlette.types import ASGIApp
    from typing_extensions import Self

    from catalog_ext.catalog import Catalog

logger = logging.getLogger(__name__)

_START_TIMEOUT_S = 10.0


def new_token() -> str:
    """Return a random token of 32 bytes."""
    return secrets.token_urlsafe(32)


def _warm_up() -> None:
    """Let Arrow import pandas, if installed, now: otherwise the first query would wait half a second for it."""
    pa.array([0])


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        logger.info("The service stops: no new requests are taken, what is under way is finished")
        await super().shutdown(sockets)


def _listen(host: str, port: int) -> socket.socket:
    try:
        made = listening_socket(host, port)
    except OSError as error:
        raise ServiceError(
            f"The service cannot listen on {authority(host, port)}: {error}. Choose another port, or an address of "
            "this machine."
        ) from error
    # asyncio disables Nagle's algorithm only for sockets whose protocol is set to TCP, which ``create_server`` does not
    # do. Without this line an answer's body waits 40 ms for the acknowledgement of its head. Accepted connections
    # inherit the option.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A cancelled response is closed only after its pending bytes are sent, which never happens if the client does not
    # read. The TCP user timeout, which only Linux has, ends the connection.
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(rows_response.UNREAD_S * 2000))
    return made


def _background_tasks(
    catalog: Catalog, follow: bool | None, databases: Collection[str] | None
) -> tuple[BackgroundTask, ...]:
    conf = catalog.settings.conf
    follows = catalog.metastore.enabled and (FOLLOW.read(conf) if follow is None else follow)
    interval_s = FOLLOW_INTERVAL.read(conf)
    return (
        BackgroundTask(
            "follower", BackgroundFollowing(catalog.follower, interval_s, databases), interval_s if follows else 0,
            "The metastore could not be followed",
        ),
        BackgroundTask(
            "recovery", catalog.recover, write_keys.RECOVERY_INTERVAL.read(conf),
            "Dead writers could not be looked for",
        ),
        BackgroundTask(
            "expiry", catalog.write_maintenance.expire_versions, write_keys.EXPIRY_INTERVAL.read(conf),
            "Old versions could not be looked for",
        ),
    )  # fmt: skip


class Service:
    """The HTTP service of one catalog. ``start`` returns when it answers; dead writers are recovered afterwards.

    Args:
        catalog: The catalog; it is not closed with the service.
        host: The address to listen on, IPv4 or IPv6, or a name.
        port: The port, 0 for a free one.
        token: The token that requests must carry; a new random one if left out.
        drain_seconds: The time that requests in flight get when the service stops.
        follow: Whether the service follows the metastore; None for the setting ``follow``.
        databases: Databases whose new tables the follower imports; None for the setting ``follow.databases``.
        metrics_token: A token that is valid for ``/metrics`` only.
        read_token: A token that is valid for read-only operations and the page.
        page: Whether the service serves the page (``/ui``); None for the setting ``page``.

    Raises:
        ServiceError: The port is taken, or the address does not belong to this machine.
    """

    def __init__(
        self, catalog: Catalog, *, host: str = LOOPBACK, port: int = 0, token: str | None = None,
        drain_seconds: int = 1, follow: bool | None = None, databases: Collection[str] | None = None,
        metrics_token: str | None = None, read_token: str | None = None, page: bool | None = None,
    ) -> None:  # fmt: skip
        self.token = token or new_token()
        self._read_token = read_token
        self._drain_s = drain_seconds
        self._socket = _listen(host, port)
        self.host = without_brackets(host)
        self.port: int = self._socket.getsockname()[1]
        self._monitoring = Monitoring(catalog.index)
        self._in_flight, self._open_writes = InFlightCalls(), OpenWrites(catalog.index.transactions.state_of)
        application = build_application(
            catalog, self.token, self._monitoring, self._in_flight, self._open_writes,
            metrics_token=metrics_token, read_token=read_token,
        )  # fmt: skip
        self._application = WithPage(application, lambda: self._build_page(catalog))
        if PAGE.read(catalog.settings.conf) if page is None else page:
            self._application.show()
        self._connections = Connections(self._monitoring.metrics)
        config = uvicorn.Config(
            self._application,
            http=self._connections.protocol(),
            # Disable WebSockets, which the service does not use: uvicorn would replace the protocol that enforces the
            # timeouts.
            ws="none",
            backlog=BACKLOG,
            # uvicorn warns of malformed requests and of unsupported protocols. A client without a token could fill the
            # log's disk with such warnings.
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_keep_alive=120,
            timeout_graceful_shutdown=drain_seconds,
        )
        self._server = _Server(config)
        self._tasks = _background_tasks(catalog, follow, databases)
        self._thread: threading.Thread | None = None

    @property
    def uri(self) -> str:
        """The base URI of the service."""
        return f"http://{authority(self.host, self.port)}"

    @property
    def page_uri(self) -> str | None:
        """The URI of the page; None if the service does not serve it."""
        return f"{self.uri}{ROOT}/" if self._application.is_shown else None

    def show_page(self) -> str:
        """Serve the page from now on, if it is not served yet, and return its URI."""
        self._application.show()
        return f"{self.uri}{ROOT}/"

    def _build_page(self, catalog: Catalog) -> ASGIApp:
        # Imported here: a service without the page does not load its templates.
        from catalog_ext.page.application import build_page

        tokens = [self.token] if self._read_token is None else [self.token, self._read_token]
        return build_page(catalog, tokens, self.port)

    def start(self) -> Self:
        """Serve from a thread of this process.

        Raises:
            ServiceError: The service does not start.
        """
        self._connections.start()
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="catalog-ext-service", daemon=True
        )
        self._thread.start()
        threading.Thread(target=_warm_up, name="catalog-ext-warm-up", daemon=True).start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self.stop()
                raise ServiceError(f"The service at {self.uri} did not start.")
            time.sleep(0.005)
        self._start_tasks()
        return self

    def run(self) -> None:
        """Serve from this thread until a signal ends the service."""
        self._connections.start()
        self._start_tasks()
        try:
            self._server.run([self._socket])
        finally:
            self._stop_tasks()
            self._drain(self._drain_s)

    def stop(self, drain_seconds: int | None = None) -> None:
        """Stop the service after the requests in flight are answered.

        Args:
            drain_seconds: The time that these requests get; None for the service's default.
        """
        drain_s = self._drain_s if drain_seconds is None else drain_seconds
        self._server.config.timeout_graceful_shutdown = drain_s
        self._server.should_exit = True
        self._stop_tasks()
        if self._thread is not None:
            self._thread.join(drain_s + _START_TIMEOUT_S)
        self._drain(drain_s)
        self._socket.close()

    def wait_for_writes(self, seconds: float) -> bool:
        """Wait up to ``seconds`` until no write begun through the service is open; return whether none is."""
        return self._open_writes.wait(seconds)

    def forget(self) -> None:
        """Close the listening socket in a forked child, so that only the parent accepts clients."""
        self._socket.close()

    def _drain(self, seconds: int) -> None:
        """Wait for running calls before the process ends: a commit continues after its client has disconnected."""
        if not self._in_flight.wait(seconds):
            logger.warning("Calls that were under way are cut off: what they have begun, a recovery brings to an end")

    def _start_tasks(self) -> None:
        self._monitoring.metrics.expect((), [task.name for task in self._tasks if task.runs])
        self._monitoring.start()
        for task in self._tasks:
            task.start()

    def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.stop()
        self._monitoring.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
