"""Authentication: refuses requests without a token, and limits a read-only token to operations that only read."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import ReadOnlyTokenError, UnauthorizedError
from catalog_ext.service.answers import error_response
from catalog_ext.service.connections import HAS_TOKEN
from catalog_ext.service.request_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send


READS_ONLY = "catalog_ext.reads_only"
"""The key in a request's ASGI scope that is True if the request's token may only read."""
READABLE = frozenset({
    "ping", "namespaces/list", "namespaces/load", "tables/list", "tables/load", "tables/hive_clauses", "tables/plan",
    "tables/changes", "tables/metadata", "settings/load", "settings/resolve", "partitions/list", "partitions/groups",
    "paths/load", "paths/plan", "views/list", "views/refresh", "procedures/list", "procedures/call",
})  # fmt: skip
"""The operations that a read-only token may call; a new operation is refused until it is listed. ``views/refresh``
updates the partitions of a view from those of its tables, as the service also does on its own."""
READABLE_PROCEDURES = frozenset({"drift", "status", "view_dependencies"})


class Authentication:
    """ASGI middleware that passes on only requests with a valid token. The comparison takes constant time.

    Args:
        app: The application that gets the accepted requests.
        token: The token that requests must carry.
        others: The tokens for single paths, instead of ``token``.
        open_paths: The paths that need no token.
        read_token: The token for read-only operations; None if there is no such token.
    """

    def __init__(
        self, app: ASGIApp, token: str, others: Mapping[str, Sequence[str]], open_paths: Collection[str],
        read_token: str | None = None,
    ) -> None:  # fmt: skip
        self._app = app
        self._expected = _headers((token,))
        self._reading = _headers(() if read_token is None else (read_token,))
        self._others = {path: _headers(tokens) for path, tokens in others.items()}
        self._open = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, or pass the request on, with the token's restriction (``READS_ONLY``) in its scope."""
        if scope["type"] == "http" and scope["path"] not in self._open:
            given = dict(scope["headers"]).get(b"authorization", b"")
            expected = self._others.get(scope["path"], self._expected)
            whole, reads = (sum(hmac.compare_digest(given, each) for each in of) for of in (expected, self._reading))
            if whole or reads:
                # Set the key in the connection's own scope: the connection reads it while the answer is sent.
                scope[HAS_TOKEN] = True
            scope = {**scope, READS_ONLY: not whole}
            if not whole and not (reads and scope["path"].startswith(PREFIX)):
                refusal = UnauthorizedError("The request does not carry the service's token.")
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _headers(tokens: Sequence[str]) -> list[bytes]:
    return [f"Bearer {token}".encode() for token in tokens]


def require_readable(operation: str, request: object) -> None:
    """Check that a read-only token may call the operation.

    Raises:
        ReadOnlyTokenError: The operation changes something, or may change something.
    """
    statement = operation
    if operation in READABLE:
        if operation != "procedures/call":
            return
        named = request.get("procedure") if isinstance(request, Mapping) else None
        if isinstance(named, str) and named.lower() in READABLE_PROCEDURES:
            return
        statement = f"CALL {str(named)[:60]}"
    raise ReadOnlyTokenError(
        f"{statement} is refused: the statement may change something, and the session has the service's token for "
        "reading, which opens SELECT, SHOW and DESCRIBE. Give a session that writes the service's own token, by the "
        "catalog's option token-file.",
        {"operation": statement},
    )
