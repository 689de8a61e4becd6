"""The page's web application: its routes, access control, and security headers."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote

from anyio import CapacityLimiter, to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from catalog_ext.metastore.errors import CatalogExtError, InvalidInputError, NotFoundError
from catalog_ext.overview import formats
from catalog_ext.overview.map_svg import SHADES, map_svg, swatch
from catalog_ext.page.pages import Pages
from catalog_ext.page.query import ROOT, Query, is_local, table_path
from catalog_ext.page.sign_in import SESSION_S, Sessions, WrongTokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from catalog_ext.catalog import Catalog

logger = logging.getLogger(__name__)

_AT_ONCE = 4
"""The number of pages that are rendered in parallel. Further requests wait, so that Spark's queries have enough
threads."""

_LONGEST_FORM = 16_384
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
        b"frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


def build_page(catalog: Catalog, tokens: Sequence[str], port: int) -> ASGIApp:
    """Return the application that serves ``/ui`` and ``/``, after a sign-in with any of the service's tokens.

    The page changes nothing, so a read-only token is enough. ``port`` is the service's port: it is part of the cookie's
    name, because browsers share cookies between all ports of a host.
    """
    return _WithHeaders(_Page(catalog, tokens, port).application())


class _WithHeaders:
    """Adds security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                # Only static files have an ETag: browsers may cache them and revalidate. Pages must not be cached.
                kept = b"no-cache" if any(name == b"etag" for name, _ in headers) else b"no-store"
                message = {**message, "headers": [*headers, (b"cache-control", kept), *_HEADERS]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


class _Page:
    def __init__(self, catalog: Catalog, tokens: Sequence[str], port: int) -> None:
        self._pages = Pages(catalog)
        self._sessions = Sessions(tokens)
        self._wrong = WrongTokens()
        self._cookie = f"catalog_ext_page_{port}"
        self._templates = Environment(
            loader=PackageLoader("catalog_ext.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= formats.FILTERS | {"table_path": table_path}
        self._templates.globals |= {"map_svg": map_svg, "swatch": swatch, "levels": SHADES}
        self._limiter: CapacityLimiter | None = None

    def application(self) -> ASGIApp:
        files = StaticFiles(packages=[("catalog_ext.page", "static")])
        application = Starlette(
            routes=[
                Route("/", self._home),
                Route(ROOT, self._home),
                Mount(f"{ROOT}/static", files),
                Route(f"{ROOT}/sign-in", self._sign_in_form, methods=["GET"]),
                Route(f"{ROOT}/sign-in", self._sign_in, methods=["POST"]),
                Route(f"{ROOT}/sign-out", self._sign_out, methods=["POST"]),
                Route(f"{ROOT}/", self._signed_in(self._pages.tables)),
                Route(f"{ROOT}/activity", self._signed_in(self._pages.activity)),
                Route(f"{ROOT}/table/{{namespace}}/{{name}}", self._signed_in(self._pages.table)),
            ],
            exception_handlers={HTTPException: self._no_page},
        )
        # A redirect would lead to the host in the request's headers, which the client chooses freely.
        application.router.redirect_slashes = False
        return application

    async def _home(self, _: Request) -> Response:
        return RedirectResponse(f"{ROOT}/", 303)

    async def _no_page(self, http: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        path = _path(http)
        if status == 404 and path.endswith("/") and http.method in ("GET", "HEAD"):
            return RedirectResponse(Query(quote(path.rstrip("/")), dict(http.query_params)).but(), 303)
        if not self._sessions.is_open(http.cookies.get(self._cookie)):
            return _to_sign_in(http)
        return self._failed(http, "There is no such page", f"{http.method} {_path(http)[:200]} does not exist.", status)

    def _signed_in(
        self, view: Callable[[Query, dict[str, str]], Iterator[tuple[str, dict[str, Any]]]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a page that needs a sign-in; each part is sent as soon as it is rendered."""

        async def answer(http: Request) -> Response:
            cookie = http.cookies.get(self._cookie)
            if not self._sessions.is_open(cookie):
                return _to_sign_in(http)
            try:
                query = Query.of(_path(http), http.query_params)
                parts = view(query, http.path_params)
                first = await self._in_thread(self._next_part, http, query, parts)
            except NotFoundError as error:
                return self._failed(http, "Not found", error.message, 404)
            except InvalidInputError as error:
                return self._failed(http, "The address cannot be understood", error.message, 400)
            except CatalogExtError as error:
                logger.warning("The page %s cannot be shown: %s", _path(http), error.message)
                return self._failed(http, "This page cannot be shown now", error.message, 503)
            except Exception as error:
                logger.exception("The page %s failed unexpectedly", _path(http))
                return self._failed(http, "This page failed", f"{type(error).__name__}: see the service's log.", 500)
            if http.method == "HEAD":
                return HTMLResponse()
            return StreamingResponse(self._rest(http, query, first, parts), media_type="text/html")

        return answer

    async def _rest(
        self, http: Request, query: Query, first: str | None, parts: Iterator[tuple[str, dict[str, Any]]]
    ) -> AsyncIterator[str]:  # fmt: skip
        part = first
        while part is not None:
            yield part
            try:
                part = await self._in_thread(self._next_part, http, query, parts)
            except Exception as error:
                # The response's status has been sent, so the failure of a part can only be shown in the part's place.
                logger.exception("A part of the page %s failed unexpectedly", _path(http))
                message = f"{type(error).__name__}: see the service's log"
                part = self._render(http, "failed_part.html", query=query, part="A part", message=message)

    def _next_part(self, http: Request, query: Query, parts: Iterator[tuple[str, dict[str, Any]]]) -> str | None:
        made = next(parts, None)
        if made is None:
            return None
        template, values = made
        return self._render(http, template, query=query, **values)

    def _render(self, http: Request, template: str, **values: object) -> str:
        cookie = http.cookies.get(self._cookie)
        signed_in = self._sessions.is_open(cookie)
        form_key = self._sessions.form_key(cookie) if cookie and signed_in else ""
        return self._templates.get_template(template).render(
            root=ROOT, signed_in=signed_in, form_key=form_key, catalog=self._pages.name,
            warning=self._pages.warning if signed_in else None, **values,
        )  # fmt: skip

    async def _in_thread(self, function: Callable[..., str | None], *arguments: object) -> str | None:
        if self._limiter is None:
            # The limiter belongs to an event loop, so create it at the first request, on the server's own loop.
            self._limiter = CapacityLimiter(_AT_ONCE)
        return await to_thread.run_sync(partial(function, *arguments), limiter=self._limiter)

    def _failed(self, http: Request, title: str, message: str, status: int) -> Response:
        return HTMLResponse(self._render(http, "failed.html", title=title, message=message), status)

    async def _sign_in_form(self, http: Request) -> Response:
        to = http.query_params.get("to", "")
        if self._sessions.is_open(http.cookies.get(self._cookie)):
            return RedirectResponse(to if is_local(to) else f"{ROOT}/", 303)
        if http.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            # With a link from another site the browser sends no cookie (SameSite), even if the user is signed in. A
            # page that links to the same address makes it send the cookie.
            here = Query(f"{ROOT}/sign-in", {"to": to} if is_local(to) else {}).but()
            return HTMLResponse(self._render(http, "from_elsewhere.html", here=here))
        return self._form(http, to)

    def _form(self, http: Request, to: str, problem: str = "", status: int = 200, wait_s: float = 0) -> Response:
        """Return the sign-in form with a cookie that it is bound to, so that another site cannot sign a browser in."""
        # Keep an existing cookie: a form in another tab of the browser is bound to it, and would become invalid.
        kept = http.cookies.get(f"{self._cookie}_form", "")
        visitor = kept if Sessions.is_visitor(kept) else self._sessions.new_visitor()
        page = self._render(
            http, "sign_in.html", to=to if is_local(to) else "", problem=problem, key=self._sessions.form_key(visitor)
        )
        answer = HTMLResponse(page, status, {"Retry-After": str(round(wait_s) + 1)} if wait_s else None)
        self._set_cookie(http, answer, f"{self._cookie}_form", visitor, 3600)
        return answer

    async def _sign_in(self, http: Request) -> Response:
        form = await _form_of(http)
        to, client = form.get("to", ""), http.client.host if http.client else ""
        if _is_of_this_site(http) and self._sessions.is_open(http.cookies.get(self._cookie)):
            # The user signed in from another tab.
            return RedirectResponse(to if is_local(to) else f"{ROOT}/", 303)
        if not _is_of_this_site(http) or not self._sessions.is_form_key(
            form.get("key", ""), http.cookies.get(f"{self._cookie}_form")
        ):
            return self._form(http, to, "The form was too old, or not sent by this page. Try again.", 403)
        wait_s = self._wrong.wait_s(client)
        if wait_s:
            return self._form(http, to, f"Too many wrong tokens. Wait {wait_s:.0f} seconds.", 429, wait_s)
        cookie = self._sessions.open(form.get("token", "").strip())
        if cookie is None:
            self._wrong.note(client)
            logger.warning("A client at %s gave the page a wrong token", formats.visible(client[:64]))
            return self._form(http, to, "This is not the service's token.", 401)
        answer = RedirectResponse(to if is_local(to) else f"{ROOT}/", 303)
        self._set_cookie(http, answer, self._cookie, cookie, SESSION_S)
        answer.delete_cookie(f"{self._cookie}_form", path=ROOT, httponly=True, samesite="strict")
        return answer

    async def _sign_out(self, http: Request) -> Response:
        form, cookie = await _form_of(http), http.cookies.get(self._cookie)
        if not _is_of_this_site(http) or not self._sessions.is_form_key(form.get("key", ""), cookie):
            return self._failed(http, "Not signed out", "The request was not sent by this page.", 403)
        self._sessions.close(cookie)
        answer = RedirectResponse(f"{ROOT}/sign-in", 303)
        answer.delete_cookie(self._cookie, path=ROOT, httponly=True, samesite="strict")
        return answer

    def _set_cookie(self, http: Request, answer: Response, name: str, value: str, seconds: int) -> None:
        answer.set_cookie(
            name, value, max_age=seconds, path=ROOT, httponly=True, samesite="strict", secure=http.url.scheme == "https"
        )


def _path(http: Request) -> str:
    # Do not use ``http.url``: it contains the Host header, which the client chooses.
    path: str = http.scope["path"]
    return path


def _to_sign_in(http: Request) -> Response:
    asked = Query(_path(http), dict(http.query_params)).but() if http.method == "GET" else ""
    known = is_local(asked) and not asked.startswith((f"{ROOT}/sign-", f"{ROOT}/static")) and asked != f"{ROOT}/"
    return RedirectResponse(Query(f"{ROOT}/sign-in", {"to": asked} if known else {}).but(), 303)


def _is_of_this_site(http: Request) -> bool:
    """Return whether a form was sent from this site, by the browser's headers. Clients without these headers pass."""
    if http.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = http.headers.get("origin")
    return origin is None or origin.partition("://")[2] == http.headers.get("host")


async def _form_of(http: Request) -> dict[str, str]:
    """Return the fields of a form; empty if the form is too long."""
    body = b""
    async for part in http.stream():
        body += part
        if len(body) > _LONGEST_FORM:
            return {}
    return {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
