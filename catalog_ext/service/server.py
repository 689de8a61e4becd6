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
from catalog_ext.following.follower import BackgroundFollowing
from catalog_ext.metastore.errors import ServiceError
from catalog_ext.page.mount import WithPage
from catalog_ext.page.query import ROOT
from catalog_ext.service import LOOPBACK, rows_response
from catalog_ext.service.addresses import authority, listening_socket, without_brackets
from catalog_ext.service.application import build_application
from catalog_ext.service.background_task import BackgroundTask
from catalog_ext.service.connections import BACKLOG, Connections
from catalog_ext.service.monitoring import Monitoring
from catalog_ext.service.under_way import OpenWrites, UnderWay

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
    """Let Arrow load pandas, where it is installed, before the first query has to wait half a second for that."""
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
    # asyncio sets this only where a socket says that it is TCP, which one of create_server does not; without it an
    # answer's body waits 40 ms for the acknowledgement of its head. Accepted connections inherit it.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # An answer that was given up is closed when what was made of it is sent, which is never where a client does not
    # read. Linux alone has this.
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
    """The service of one catalog; ``start`` returns when it answers. It recovers dead writers' transactions meanwhile.

    Args:
        catalog: What it serves; it is not closed with the service.
        host: The address to listen on, of IP version 4 or 6, or a name.
        port: The port, 0 for a free one.
        token: What requests must carry; a new random one if left out.
        drain_seconds: How long requests that are in flight when it stops have to end.
        follow: Whether it follows the metastore; None for the setting ``follow``.
        databases: Databases whose new tables it imports while it follows; None for the setting ``follow.databases``.
        metrics_token: What opens ``/metrics`` besides the token, and nothing else.
        read_token: What opens operations that only read, and the page.
        page: Whether it shows the page; None for the setting ``page``.

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
        self._under_way, self._open_writes = UnderWay(), OpenWrites(catalog.index.transactions.state_of)
        application = build_application(
            catalog, self.token, self._monitoring, self._under_way, self._open_writes,
            metrics_token=metrics_token, read_token=read_token,
        )  # fmt: skip
        self._application = WithPage(application, lambda: self._build_page(catalog))
        if PAGE.read(catalog.settings.conf) if page is None else page:
            self._application.show()
        self._connections = Connections(self._monitoring.metrics)
        config = uvicorn.Config(
            self._application,
            http=self._connections.protocol(),
            # A WebSocket would leave the protocol that watches its connection; the service has none.
            ws="none",
            backlog=BACKLOG,
            # Its warnings are about requests that are not HTTP or ask for another protocol. A client without a token
            # could fill the disk of the log with them.
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
        """Where it answers."""
        return f"http://{authority(self.host, self.port)}"

    @property
    def page_uri(self) -> str | None:
        """Where the page is; None where it is not shown."""
        return f"{self.uri}{ROOT}/" if self._application.is_shown else None

    def show_page(self) -> str:
        """Show the page from now on, if it is not shown yet, and return where it is."""
        self._application.show()
        return f"{self.uri}{ROOT}/"

    def _build_page(self, catalog: Catalog) -> ASGIApp:
        # Here: who shows no page need not wait until its templates are loaded.
        from catalog_ext.page.application import build_page

        tokens = [self.token] if self._read_token is None else [self.token, self._read_token]
        return build_page(catalog, tokens, self.port)

    def start(self) -> Self:
        """Serve from a thread of this process.

        Raises:
            ServiceError: It does not come up.
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
        """Serve from this thread until a signal says to stop."""
        self._connections.start()
        self._start_tasks()
        try:
            self._server.run([self._socket])
        finally:
            self._stop_tasks()
            self._drain(self._drain_s)

    def stop(self, drain_seconds: int | None = None) -> None:
        """Answer the requests in flight, and end.

        Args:
            drain_seconds: How long these have; None for what the service was made with.
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
        """Return whether no write that was begun through it is open any more, at the latest after so many seconds."""
        return self._open_writes.wait(seconds)

    def forget(self) -> None:
        """Close the socket of a forked child: the parent answers, and no client waits for the child later."""
        self._socket.close()

    def _drain(self, seconds: int) -> None:
        """Wait for the calls that run: a commit whose client has hung up goes on, and would else be cut off."""
        if not self._under_way.wait(seconds):
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
