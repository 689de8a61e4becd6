"""The keys of an S3 bucket, a page at a time, so that a listing's memory is bounded.

pyarrow has no call for a page: it answers when it has all keys below a prefix, about 750 bytes each. boto3 has one, and
parses an answer at 100 µs a key; this module reads the four fields that a listing needs from the answer's text, at 4
µs.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import unquote_plus

from catalog_ext.metastore.backports import from_iso
from catalog_ext.metastore.errors import IncompleteListingError, LocationNotFoundError, StorageError
from catalog_ext.metastore.model.etags import etag_hash
from catalog_ext.metastore.storage.failures import (
    is_boto_throttled,
    is_missing_bucket,
    translate_boto,
    unexpected_answer,
)
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.s3.answers import UnexpectedAnswerError, check_keys, check_listing, check_page

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from botocore.client import BaseClient

    from catalog_ext.metastore.runtime.retry import Backoff

KEYS_PER_PAGE = 1000
"""How many keys S3 gives by one request."""

_READ = "ReadHere"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)

_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_SIZE = re.compile(rb"<Size>(\d+)</Size>")
_MODIFIED = re.compile(rb"<LastModified>(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)</LastModified>")
_ETAG = re.compile(rb"<ETag>(?:&quot;|&#34;)?([^<&]*)(?:&quot;|&#34;)?</ETag>")
_PREFIXES = re.compile(rb"<CommonPrefixes>\s*<Prefix>([^<]*)</Prefix>\s*</CommonPrefixes>")
# What nearly every key holds, put back by a plain replacement: `unquote` takes a microsecond for each.
_USUAL = (("%3D", "="), ("%2F", "/"), ("%3A", ":"))


Key: TypeAlias = tuple[str, int, int, "int | None"]
"""An object: its key, its bytes, its last modification in milliseconds since 1970, and the hash of its ETag."""


class KeyPage(NamedTuple):
    """One answer of the store.

    Attributes:
        keys: Objects, in the store's order.
        prefixes: What lies deeper, each up to its slash, where that was not asked for.
        next: Where the next page begins; None after the last one.
    """

    keys: Sequence[Key]
    prefixes: Sequence[str]
    next: str | None


class Keys:
    """The keys of one S3 bucket; safe to use from several threads.

    Args:
        client: A boto3 client that nothing else uses.
        backoff: The number and length of waits of a throttled request; the client's own retries come first.
        endpoint: The S3 endpoint, for messages.
    """

    def __init__(self, client: BaseClient, backoff: Backoff, endpoint: str | None) -> None:
        self._client = client
        self._backoff = backoff
        self._endpoint = endpoint
        client.meta.events.register("before-parse.s3.ListObjectsV2", _read_before)

    def page(
        self, below: Location, *, whole: bool, begin: str | None = None, after: str | None = None,
        stop: threading.Event | None = None,
    ) -> KeyPage:  # fmt: skip
        """Return a page of the keys below a directory.

        Args:
            below: The directory.
            whole: True for keys at any depth; False for keys directly in it and the names of its directories.
            begin: ``next`` of the page before it.
            after: Keys up to this one are left out; not together with ``begin``.
            stop: Ends the waiting between two attempts when it is set.

        Raises:
            LocationNotFoundError: The bucket does not exist.
            IncompleteListingError: The answer does not belong to the request: another document, bucket or prefix, or a
                404.
            StorageError: The store refuses or does not answer, or reports more keys without a continuation token.
        """
        prefix = f"{below.key}/" if below.key else ""
        asked: dict[str, Any] = {"Bucket": below.bucket, "Prefix": prefix, "MaxKeys": KEYS_PER_PAGE}
        if not whole:
            asked["Delimiter"] = "/"
        if begin is not None:
            asked["ContinuationToken"] = begin
        elif after:
            asked["StartAfter"] = after
        page = self._page(asked, below, stop)
        if page.next is not None and page.next in ("", begin):
            raise StorageError(
                f"Cannot list {shown(str(below))}: the store says that there is more and does not say where it begins. "
                "Check that the endpoint supports ListObjectsV2 with continuation tokens.",
                {"location": str(below)},
            )
        return page

    def _page(self, asked: Mapping[str, Any], below: Location, stop: threading.Event | None) -> KeyPage:
        from botocore.exceptions import BotoCoreError, ClientError

        def ask() -> KeyPage:
            answer: Mapping[str, Any] = self._client.list_objects_v2(**asked)
            check_listing(answer, asked["Bucket"], asked["Prefix"])
            keys, prefixes = _found(answer)
            check_page(answer, asked, prefixes)
            check_keys((key for key, *_ in keys), asked["Prefix"])
            check_keys(prefixes, asked["Prefix"])
            return KeyPage(keys, prefixes, _next(answer))

        try:
            return self._backoff.attempt(ask, is_boto_throttled, stop=stop)
        except UnexpectedAnswerError as error:
            said = unexpected_answer(error, below, "list", endpoint=self._endpoint)
            raise IncompleteListingError(said.message, said.parameters) from error
        except (BotoCoreError, ClientError) as error:
            failure = translate_boto(error, below, "list", endpoint=self._endpoint)
            if isinstance(failure, LocationNotFoundError) and not is_missing_bucket(failure):
                # S3 answers a prefix without keys by an empty list. A 404 is the answer of another server.
                said = unexpected_answer(error, below, "list", endpoint=self._endpoint)
                raise IncompleteListingError(said.message, said.parameters) from error
            raise failure from error


def _next(answer: Mapping[str, Any]) -> str | None:
    """Return where the next page begins: empty where the store does not say, None after the last page.

    A store that leaves ``IsTruncated`` out and gives a token has more keys.
    """
    following: str = answer.get("NextContinuationToken") or ""
    return following if answer.get("IsTruncated", bool(following)) else None


def _read_before(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Read the keys from an answer's text before boto3 parses it; unusual documents are left to boto3."""
    body: bytes = response_dict["body"]
    if response_dict["status_code"] != 200 or b"<!" in body:
        return
    keys, sizes, modified = _KEY.findall(body), _SIZE.findall(body), _MODIFIED.findall(body)
    prefixes = _PREFIXES.findall(body)
    count = body.count(b"</Contents>")
    if not len(keys) == len(sizes) == len(modified) == count or len(prefixes) != body.count(b"</CommonPrefixes>"):
        return
    is_encoded = b"<EncodingType>url</EncodingType>" in body
    if any(b"&" in text for text in (*keys, *prefixes)):
        # Of a store that does not encode as it was asked to, or as SeaweedFS not everything.
        return
    times = (_milliseconds(from_iso(text.decode())) for text in modified)
    etags = _ETAG.findall(body)
    # A store that gives none, or some in another form, is listed without: an unknown ETag is never a difference.
    hashes = map(etag_hash, etags) if len(etags) == count else repeat(None, count)
    found = list(zip(_texts(keys, is_encoded=is_encoded), map(int, sizes), times, hashes, strict=True))
    customized_response_dict[_READ] = (found, _texts(prefixes, is_encoded=is_encoded))
    response_dict["body"] = _PREFIXES.sub(b"", _without_contents(body))


def _found(answer: Mapping[str, Any]) -> tuple[Sequence[Key], Sequence[str]]:
    """Return keys and prefixes as `_read_before` has read them, otherwise as boto3 has."""
    found: tuple[Sequence[Key], Sequence[str]] | None = answer.get(_READ)
    return _read_after(answer) if found is None else found


def _read_after(answer: Mapping[str, Any]) -> tuple[Sequence[Key], Sequence[str]]:
    """Return keys and prefixes as boto3 has read them."""
    keys = [
        (of["Key"], of["Size"], _milliseconds(of["LastModified"]), etag_hash(of.get("ETag")))
        for of in answer.get("Contents", ())
    ]
    return keys, [of["Prefix"] for of in answer.get("CommonPrefixes", ())]


def _without_contents(body: bytes) -> bytes:
    # A fifth of the time of a regular expression.
    head, *rest = body.split(b"<Contents>")
    return head + b"".join(text.partition(b"</Contents>")[2] for text in rest)


def _milliseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _texts(encoded: Sequence[bytes], *, is_encoded: bool) -> list[str]:
    if not is_encoded:
        return [text.decode("utf-8", "surrogateescape") for text in encoded]
    # Decode all names at once, joined by line breaks. A name with an encoded line break makes this impossible.
    text = b"\n".join(encoded).decode("utf-8", "surrogateescape")
    for code, character in _USUAL:
        text = text.replace(code, character)
    texts = unquote_plus(text, errors="surrogateescape").split("\n")
    if len(texts) != len(encoded):
        return [unquote_plus(key.decode(), errors="surrogateescape") for key in encoded]
    return texts
