"""A store of keys alone that answers ListObjectsV2 as S3 does, without keeping more of them than a page asks for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.servers.loopback import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Asked(NamedTuple):
    """A LIST that came in: its prefix, how many pages came before, and whether it has a delimiter."""

    prefix: str
    page: int
    has_delimiter: bool


class PagedKeys(LoopbackServer):
    """Serves keys, 1,000 a page or fewer; the size of each is its length, and it was modified 123 ms into a second.

    Attributes:
        endpoint: Its URL.
        asked: The LISTs that came in.
        fault: Gives a status and an error's code for a LIST, or None to answer it.
        encodes: Whether keys are encoded as boto3 asks for.
        starts_after: Whether it begins where it is asked to.
        alter: Changes the text of an answer.
        instead: Gives the status and the body of what a proxy answers a LIST with, or None to answer it.
        others: The body of the answers, of status 200, to requests that are no LIST.
        objects: Keys that a HEAD finds; all others are not there.
    """

    def __init__(self, keys: Sequence[str], of_page: int = 1000) -> None:
        self._of_page = of_page
        self.keys = sorted(keys, key=lambda key: key.encode())
        self.asked: list[Asked] = []
        self.fault: Callable[[Asked], tuple[int, str] | None] = lambda _: None
        self.encodes = True
        self.starts_after = True
        self.alter: Callable[[str], str] = lambda text: text
        self.instead: Callable[[Asked], tuple[int, str] | None] = lambda _: None
        self.others = ""
        self.objects: set[str] = set()
        super().__init__(self._handler())
        self.options = {"endpoint": self.endpoint, "access_key": "a", "secret_key": "s", "region": "us-east-1"}

    def page(self, query: dict[str, list[str]]) -> tuple[int, str]:
        """Return the status and the text of the answer to a LIST."""
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        begin, _, page = query.get("continuation-token", [""])[0].rpartition("@")
        asked = Asked(prefix, int(page or 0), bool(delimiter))
        self.asked.append(asked)
        replaced = self.instead(asked)
        if replaced is not None:
            return replaced
        refused = self.fault(asked)
        if refused is not None:
            return refused[0], f"<Error><Code>{refused[1]}</Code><Message>made</Message></Error>"
        is_encoded = self.encodes and "encoding-type" in query

        def shown(text: str) -> str:
            return quote_plus(text) if is_encoded else escape(text)

        lines: list[str] = []
        last, more = "", False
        # Of a prefix that was shown as one, all keys are passed over.
        place = self._after(begin, whole=bool(delimiter) and begin.endswith(delimiter))
        place = max(place, bisect_left(self.keys, prefix.encode(), key=str.encode))
        if not begin and self.starts_after and "start-after" in query:
            place = max(place, self._after(query["start-after"][0], whole=False))
        while place < len(self.keys) and self.keys[place].startswith(prefix):
            if len(lines) == self._of_page:
                more = True
                break
            key = self.keys[place]
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                last = key[: end + 1]
                lines.append(f"<CommonPrefixes><Prefix>{shown(last)}</Prefix></CommonPrefixes>")
                place = self._after(last, whole=True)
            else:
                last = key
                size = 0 if key.endswith("/") and not key.endswith("full/") else len(key)
                lines.append(
                    f"<Contents><Key>{shown(key)}</Key><LastModified>2026-11-23T10:00:{len(key) % 60:02d}.123Z"
                    f"</LastModified><ETag>&quot;0&quot;</ETag><Size>{size}</Size></Contents>"
                )
                place += 1
        token = f"<NextContinuationToken>{escape(last)}@{asked.page + 1}</NextContinuationToken>" if more else ""
        encoding = "<EncodingType>url</EncodingType>" if is_encoded else ""
        return 200, self.alter(
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<Name>bucket</Name><Prefix>{shown(prefix)}</Prefix><KeyCount>{len(lines)}</KeyCount>{encoding}"
            f"<IsTruncated>{str(more).lower()}"
            f"</IsTruncated>{token}{''.join(lines)}</ListBucketResult>"
        )

    def _after(self, text: str, *, whole: bool) -> int:
        """The place of the first key after this one; after all that begin with it, if ``whole``."""
        # No character's bytes begin with this one.
        return bisect_right(self.keys, text.encode() + (b"\xff" if whole else b""), key=str.encode)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
                self._answer(*store.page(query) if "list-type" in query else (200, store.others))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                self._answer(200, store.others)

            do_PUT = do_POST

            def _answer(self, status: int, text: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_HEAD(self) -> None:
                key = unquote(urlsplit(self.path).path).partition("/bucket/")[2]
                self.send_response(200 if key in store.objects else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
