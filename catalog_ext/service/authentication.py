"""Requests without a token are refused; a token for reading opens the operations that only read."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import UnauthorizedError
from catalog_ext.service.answers import error_response
from catalog_ext.service.connections import HAS_TOKEN
from catalog_ext.service.observation import PREFIX
from catalog_ext.service.read_access import READS_ONLY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send


class Authentication:
    """Lets only requests through that carry a token; the comparison takes the same time for every wrong one.

    Args:
        app: Answers them.
        token: What they must carry.
        others: The tokens, instead, of single paths.
        open_paths: The paths that ask for none.
        read_token: Opens the operations that only read; None for none.
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
        """Answer 401, or pass the request on with what its token may do (``READS_ONLY``) in its scope."""
        if scope["type"] == "http" and scope["path"] not in self._open:
            given = dict(scope["headers"]).get(b"authorization", b"")
            expected = self._others.get(scope["path"], self._expected)
            whole, reads = (sum(hmac.compare_digest(given, each) for each in of) for of in (expected, self._reading))
            if whole or reads:
                # In the scope of the connection, which keeps it while the answer is sent.
                scope[HAS_TOKEN] = True
            scope = {**scope, READS_ONLY: not whole}
            if not whole and not (reads and scope["path"].startswith(PREFIX)):
                refusal = UnauthorizedError("The request does not carry the service's token.")
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _headers(tokens: Sequence[str]) -> list[bytes]:
    return [f"Bearer {token}".encode() for token in tokens]
