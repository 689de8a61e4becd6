"""Where the page is in the service: beside its operations, and only where it is wanted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from catalog_ext.page.query import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send


class WithPage:
    """An application with the page before it, once that is shown.

    ``build`` makes the page at its first use: a service that shows none loads nothing for it.
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
        """Let the page be there from now on."""
        with self._lock:
            if self._page is None:
                self._page = self._build()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as ASGI has it."""
        path = scope["path"] if scope["type"] == "http" else ""
        is_of_page = path in ("/", ROOT) or path.startswith(f"{ROOT}/")
        await (self._page if is_of_page and self._page is not None else self._app)(scope, receive, send)
