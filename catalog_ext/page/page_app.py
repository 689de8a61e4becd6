"""Adds the page (``/ui``) to the service's ASGI application, when a user or a setting asks for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from catalog_ext.page.query import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send


class WithPage:
    """An ASGI application that sends the page's paths to the page, once it is shown, and all others to the service.

    ``build`` creates the page at its first use: a service without the page does not load its modules.
    """

    def __init__(self, app: ASGIApp, build: Callable[[], ASGIApp]) -> None:
        self._app = app
        self._build = build
        self._page: ASGIApp | None = None
        self._lock = threading.Lock()

    @property
    def is_shown(self) -> bool:
        """Whether the page is mounted."""
        return self._page is not None

    def show(self) -> None:
        """Create the page, and serve it from now on."""
        with self._lock:
            if self._page is None:
                self._page = self._build()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request (ASGI interface)."""
        path = scope["path"] if scope["type"] == "http" else ""
        is_of_page = path in ("/", ROOT) or path.startswith(f"{ROOT}/")
        await (self._page if is_of_page and self._page is not None else self._app)(scope, receive, send)
