"""The endpoints for monitoring: ``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from catalog_ext.metastore.errors import IndexNotAtHeadError, IndexUnavailableError
from catalog_ext.service.index_probe import IndexProbe
from catalog_ext.service.metrics import CONTENT_TYPE, ServiceMetrics
from catalog_ext.service.threads import Threads

if TYPE_CHECKING:
    from starlette.requests import Request

    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.metastore.index import Index

logger = logging.getLogger(__name__)

HEALTH_PATH, READY_PATH, METRICS_PATH = "/health", "/ready", "/metrics"
OPEN_PATHS = frozenset({HEALTH_PATH, READY_PATH})
"""Paths that need no token, because load balancers and orchestrators have none. Their answers contain no catalog
data."""

_NOT_KEPT = {"Cache-Control": "no-store"}
_REASONS = {
    IndexUnavailableError.code: "The index does not answer.",
    IndexNotAtHeadError.code: "The schema of the index is of another release.",
}

_BEHIND = "The index was restored: it plans queries and changes nothing until catalog-ext restored has run."
_LOG = "The service's log says more."


class Monitoring:
    """The monitoring endpoints of a service.

    Attributes:
        metrics: The counters of the service.
        threads: The threads for calls; metrics show whether there are enough.
        routes: The endpoints ``/health``, ``/ready`` and ``/metrics``.
    """

    def __init__(self, index: Index, probe: IndexProbe | None = None) -> None:
        self._probe = probe or IndexProbe(index.state)
        self._index = index
        self.metrics = ServiceMetrics(index)
        self.threads = Threads()
        self._reason: str | None = None
        self.routes = [
            Route(HEALTH_PATH, self._health),
            Route(READY_PATH, self._ready),
            Route(METRICS_PATH, self._metrics),
        ]

    def start(self) -> None:
        """Start counting."""
        self.metrics.start()

    def stop(self) -> None:
        """Stop counting."""
        self.metrics.stop()

    async def _health(self, _: Request) -> Response:
        # ``/health`` checks nothing: an orchestrator restarts an unhealthy process, and a restart would repair neither
        # the index nor the store.
        return JSONResponse({"status": "ok"}, headers=_NOT_KEPT)

    async def _ready(self, _: Request) -> Response:
        look = await self._probe.look()
        self._log(look.error)
        if look.error is None:
            behind = self._index.incarnations.behind
            writes = {} if behind is None else {"writes": False, "code": behind.code, "reason": f"{_BEHIND} {_LOG}"}
            return JSONResponse({"ready": True, **writes}, headers=_NOT_KEPT)
        # Leave out the error's message, which names hosts and files: clients of this path need no token. The log has
        # the message.
        code = look.error.code
        reason = _REASONS.get(code, "The index refuses to be read.")
        answer = {"ready": False, "code": code, "reason": f"{reason} {_LOG}"}
        return JSONResponse(answer, 503, _NOT_KEPT)

    async def _metrics(self, _: Request) -> Response:
        # Encode on the event loop: all request threads may be busy, and then these metrics are needed most.
        text = self.metrics.text(await self._probe.look(), self.threads.states())
        return Response(text, media_type=CONTENT_TYPE, headers=_NOT_KEPT)

    def _log(self, error: CatalogExtError | None) -> None:
        """Log why the service is not ready, once until the reason changes."""
        reason = None if error is None else error.message
        if reason is not None and reason != self._reason:
            logger.warning("The service is not ready: %s", reason)
        elif reason is None and self._reason is not None:
            logger.info("The service is ready again.")
        self._reason = reason
