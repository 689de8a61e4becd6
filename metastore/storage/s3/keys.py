"""Lists the keys of an S3 bucket page by page, so that a listing needs little memory.

pyarrow returns only whole listings, with about 750 bytes of memory per key. boto3 returns pages, but takes 100 µs per
key to parse them; this module reads the four fields that a listing needs directly from the answer's text, in 4 µs per
key.
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
"""The most keys that S3 returns with one request."""

_READ = "ReadHere"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)

_KEY = re.compile(rb"<Key>([^<]*)</Key>")
_SIZE = re.compile(rb"<Size>(\d+)</Size>")
_MODIFIED = re.compile(rb"<LastModified>(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)</LastModified>")
_ETAG = re.compile(rb"<ETag>(?:&quot;|&#34;)?([^<&]*)(?:&quot;|&#34;)?</ETag>")
_PREFIXES = re.compile(rb"<CommonPrefixes>\s*<Prefix>([^<]*)</Prefix>\s*</CommonPrefixes>")
# Encoded characters that nearly every key contains. They are decoded by a plain replacement, because `unquote` takes a
# microsecond for each.
_USUAL = (("%3D", "="), ("%2F", "/"), ("%3A", ":"))


Key: TypeAlias = tuple[str, int, int, "int | None"]
"""An object: its key, its bytes, its last modification in milliseconds since 1970, and the hash of its ETag."""


class KeyPage(NamedTuple):
    """One page of a listing.

    Attributes:
        keys: Objects, in the store's order.
        prefixes: Common prefixes, up to a slash, of deeper keys that were not requested.
        next: The token of the next page; None after the last page.
    """

    keys: Sequence[Key]
    prefixes: Sequence[str]
    next: str | None


class Keys:
    """Lists the keys of one S3 bucket; safe to use from several threads.

    Args:
        client: A boto3 client that is used only here.
        backoff: The number and length of waits of a throttled request; the client's own retries come first.
        endpoint: The S3 endpoint, for messages.
    """

    def __init__(self, client: BaseClient, backoff: Backoff, endpoint: str | None) -> None:
        self._client = client
        self._backoff = backoff
        self._endpoint = endpoint
        client.meta.events.register("before-parse.s3.ListObjectsV2", _read_before)

    def page(
        self, location: Location, *, whole: bool, begin: str | None = None, after: str | None = None,
        stop: threading.Event | None = None,
    ) -> KeyPage:  # fmt: skip
        """Return a page of the keys below a directory.

        Args:
            location: The directory.
            whole: True for keys at any depth; False for keys directly in the directory and the names of its
                directories.
            begin: ``next`` of the previous page.
            after: Keys up to this one are left out; not together with ``begin``.
            stop: Ends the wait between two attempts when it is set.

        Raises:
            LocationNotFoundError: The bucket does not exist.
            IncompleteListingError: The answer does not belong to the request: another document, bucket or prefix, or a
                404.
            StorageError: The store refuses or does not answer, or reports more keys without a continuation token.
        """
        prefix = f"{location.key}/" if location.key else ""
        asked: dict[str, Any] = {"Bucket": location.bucket, "Prefix": prefix, "MaxKeys": KEYS_PER_PAGE}
        if not whole:
            asked["Delimiter"] = "/"
        if begin is not None:
            asked["ContinuationToken"] = begin
        elif after:
            asked["StartAfter"] = after
        page = self._page(asked, location, stop)
        if page.next is not None and page.next in ("", begin):
            raise StorageError(
                f"Cannot list {shown(str(location))}: the store says that there is more and does not say where it "
                "begins. Check that the endpoint supports ListObjectsV2 with continuation tokens.",
                {"location": str(location)},
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
                # S3 answers with an empty list for a prefix without keys, so a 404 does not come from S3.
                said = unexpected_answer(error, below, "list", endpoint=self._endpoint)
                raise IncompleteListingError(said.message, said.parameters) from error
            raise failure from error


def _next(answer: Mapping[str, Any]) -> str | None:
    """Return the token of the next page: empty if the store does not give it, None after the last page.

    If a store gives a token without ``IsTruncated``, there is a next page.
    """
    following: str = answer.get("NextContinuationToken") or ""
    return following if answer.get("IsTruncated", bool(following)) else None


def _read_before(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Read the keys from an answer's text before boto3 parses it; documents of unusual form are left to boto3."""
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
        # The store does not encode the names as requested, or (SeaweedFS) not completely. Let boto3 parse the document.
        return
    times = (_milliseconds(from_iso(text.decode())) for text in modified)
    etags = _ETAG.findall(body)
    # If not every key has an ETag in the usual form, list all of them without ETags: an unknown ETag equals any other.
    hashes = map(etag_hash, etags) if len(etags) == count else repeat(None, count)
    found = list(zip(_texts(keys, is_encoded=is_encoded), map(int, sizes), times, hashes, strict=True))
    customized_response_dict[_READ] = (found, _texts(prefixes, is_encoded=is_encoded))
    response_dict["body"] = _PREFIXES.sub(b"", _without_contents(body))


def _found(answer: Mapping[str, Any]) -> tuple[Sequence[Key], Sequence[str]]:
    """Return keys and prefixes from `_read_before`; if it read none, from boto3's parsed answer."""
    found: tuple[Sequence[Key], Sequence[str]] | None = answer.get(_READ)
    return _read_after(answer) if found is None else found


def _read_after(answer: Mapping[str, Any]) -> tuple[Sequence[Key], Sequence[str]]:
    """Return keys and prefixes from boto3's parsed answer."""
    keys = [
        (of["Key"], of["Size"], _milliseconds(of["LastModified"]), etag_hash(of.get("ETag")))
        for of in answer.get("Contents", ())
    ]
    return keys, [of["Prefix"] for of in answer.get("CommonPrefixes", ())]


def _without_contents(body: bytes) -> bytes:
    # Splitting takes a fifth of the time of a regular expression.
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
