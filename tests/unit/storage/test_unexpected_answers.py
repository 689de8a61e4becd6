"""Answers of a proxy or gateway that stands in the place of an S3 store: nothing is concluded from them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.staged_files import Upload
from catalog_ext.metastore.errors import IncompleteListingError, StorageError
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.entries import EntryKind, ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.s3.answers import UnexpectedAnswerError, check_listing, root_of
from catalog_ext.metastore.storage.store import Storage
from tests.servers.paged_keys import PagedKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.storage.uploads import Uploads

DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>'
NAMED = "<Name>bucket</Name><Prefix>t/</Prefix><IsTruncated>false</IsTruncated>"
WRONG_LISTINGS = {
    "empty": (200, ""),
    "no content": (204, ""),
    "page": (200, f"{DECLARATION}\n<!-- gateway --><html/>"),
    "other listing": (200, f"{DECLARATION}<ListVersionsResult>{NAMED}</ListVersionsResult>"),
    "nothing in it": (200, f"{DECLARATION}<ListBucketResult/>"),
    "status 300": (300, ""),
    "other page": (
        200,
        f"{DECLARATION}<ListBucketResult>{NAMED}<ContinuationToken>t/h</ContinuationToken></ListBucketResult>",
    ),
    "other bucket": (200, f"{DECLARATION}<ListBucketResult><Name>b</Name><Prefix>t/</Prefix></ListBucketResult>"),
    "other prefix": (200, f"{DECLARATION}<ListBucketResult><Name>bucket</Name><Prefix/></ListBucketResult>"),
}


@pytest.fixture(scope="module")
def store() -> Iterator[PagedKeys]:
    with PagedKeys(["t/a=1/f", "t/a=2/f", "t/a=2/g", "t/h"]) as paged:
        yield paged


@pytest.fixture(scope="module")
def storage(store: PagedKeys) -> Storage:
    return Storage(store.options, backoff=Backoff(retries=0))


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG_LISTINGS)
def test_listing_fails_when_answer_is_another(store: PagedKeys, storage: Storage, wrong: str) -> None:
    whole = WRONG_LISTINGS[wrong]
    store.instead = lambda asked: whole if asked.prefix == "t/" else None
    with pytest.raises(IncompleteListingError, match="proxy or gateway"):
        list(list_tree(storage, "s3a://bucket/t", descend=lambda _: True, depth_hint=1))
    with pytest.raises(IncompleteListingError):
        storage.list_directory("s3a://bucket/t")
    part = (whole[0], whole[1].replace("<Prefix>t/<", "<Prefix>t/a=2/<"))
    store.instead = lambda asked: part if asked.prefix == "t/a=2/" else None
    found = list(list_tree(storage, "s3a://bucket/t", descend=lambda _: True, depth_hint=2, selective=True))
    assert {item.directory for item in found if isinstance(item, ListedFile)} == {"", "a=1"}
    (failure,) = [item for item in found if isinstance(item, ListingFailure)]
    assert (failure.directory, type(failure.error)) == ("a=2", IncompleteListingError)


@pytest.mark.parametrize(
    "wrong",
    [
        "<CommonPrefixes><Prefix>t/a=1/</Prefix></CommonPrefixes>",
        "<CommonPrefixes><Prefix>t%2Fa%3D1%2F</Prefix></CommonPrefixes><EncodingType>url</EncodingType>",
        "<ContinuationToken>t/a=1/f@1</ContinuationToken>",
    ],
)
def test_page_fails_when_it_answers_another_question(store: PagedKeys, storage: Storage, wrong: str) -> None:
    """A cache that ignores parameters: the files that its page does not have would be dropped."""
    store.instead = lambda _: (200, f"<ListBucketResult>{NAMED}{wrong}</ListBucketResult>")
    place = Location.parse("s3a://bucket/t")
    for begin in (None, "t/a=2/g@1"):
        with pytest.raises(IncompleteListingError, match=r"it is the page after|it has common prefixes"):
            storage.keys_of(place).page(place, whole=True, begin=begin)


@pytest.mark.parametrize("body", ["<html/>", "<Error><Code>NoSuchKey</Code><Message>made</Message></Error>"])
def test_listing_fails_when_prefix_is_not_found(store: PagedKeys, storage: Storage, body: str) -> None:
    """S3 answers a prefix without keys by a listing without keys."""
    store.instead = lambda _: (404, body)
    with pytest.raises(StorageError):
        storage.list_directory("s3a://bucket/t")
    with pytest.raises(StorageError):
        list(list_tree(storage, "s3a://bucket/t", descend=lambda _: True, depth_hint=1))


@pytest.mark.parametrize("prefix", ["t/", "t/k=a b+c/", "t/k=50%25/", "t/k=ü&<x>/", ""])
@pytest.mark.parametrize("encodes", [True, False])
def test_listing_of_odd_prefixes_is_accepted(store: PagedKeys, storage: Storage, prefix: str, encodes: bool) -> None:
    store.instead, store.encodes = lambda _: None, encodes
    place = Location("s3a", "bucket", prefix.rstrip("/"))
    assert storage.keys_of(place).page(place, whole=True).next is None


@pytest.mark.parametrize(
    ("answer", "bucket"),
    [
        ({"Name": "b", "Prefix": "a%20b/"}, "b"), ({"Name": "b", "Prefix": "a b/"}, "b"),
        ({"Name": "behind", "Prefix": "a b/"}, "point-1234-s3alias"),
    ],
)  # fmt: skip
def test_listing_by_alias_or_odd_encoding_is_accepted(answer: dict[str, str], bucket: str) -> None:
    check_listing(answer, bucket, "a b/")
    with pytest.raises(UnexpectedAnswerError, match="prefix"):
        check_listing(answer, bucket, "a/")
    with pytest.raises(UnexpectedAnswerError, match="bucket"):
        check_listing({**answer, "Name": ""}, bucket, "a b/")


@pytest.mark.parametrize("whole", [True, False])
def test_listing_fails_when_a_key_lies_elsewhere(store: PagedKeys, storage: Storage, whole: bool) -> None:
    """``u/a=9/f`` was registered as ``a=9/f``: the text after the length of the prefix was taken for the path."""
    store.instead, store.encodes = lambda _: None, True
    store.alter = lambda text: text.replace("t%2Fa%3D1%2F", "u%2Fa%3D1%2F")
    place = Location.parse("s3a://bucket/t")
    with pytest.raises(IncompleteListingError, match="does not begin with 't/'"):
        storage.keys_of(place).page(place, whole=whole)
    store.alter = lambda text: text


def test_directory_of_a_store_without_delimiters_is_listed(store: PagedKeys, storage: Storage) -> None:
    """CubeFS listed ``a=1/f`` itself: it came up as a file of that name, directly in the table."""
    store.instead = lambda asked: store.page({"prefix": [asked.prefix]}) if asked.has_delimiter else None
    found = {entry.location.name: entry.kind for entry in storage.list_directory("s3a://bucket/t")}
    assert found == {"h": EntryKind.FILE, "a=1": EntryKind.DIRECTORY, "a=2": EntryKind.DIRECTORY}


def test_page_with_a_token_and_without_a_flag_has_a_next_one(store: PagedKeys, storage: Storage) -> None:
    store.instead, store.encodes = lambda _: None, True
    place = Location.parse("s3a://bucket/t")
    token = "<NextContinuationToken>t/a=1/f@1</NextContinuationToken>"
    for there, following in ((token, "t/a=1/f@1"), ("", None)):
        store.alter = lambda text, there=there: text.replace("<IsTruncated>false</IsTruncated>", there)  # type: ignore[misc]
        assert storage.keys_of(place).page(place, whole=True).next == following
    store.alter = lambda text: text


PLACE = Location.parse("s3a://bucket/t/f")
CALLS: dict[str, Callable[[Uploads], object]] = {
    "complete": lambda uploads: uploads.complete(PLACE, Upload("id", ()), 1),
    "begin": lambda uploads: uploads.begin(PLACE),
    "pending": lambda uploads: list(uploads.pending(PLACE)),
    "delete": lambda uploads: uploads.delete([PLACE]),
    "copy": lambda uploads: uploads._client.copy_object(Bucket="b", Key="k", CopySource={"Bucket": "b", "Key": "j"}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("body", ["<html/>", DECLARATION + "<ListBucketResult/>"])
def test_change_fails_when_answer_is_another(store: PagedKeys, storage: Storage, call: str, body: str) -> None:
    """An upload that only seems complete would be registered, and the source of a copy deleted."""
    store.others = body
    uploads = storage.uploads_to(PLACE)
    with pytest.raises(UnexpectedAnswerError if call == "copy" else StorageError, match="instead of <"):
        CALLS[call](uploads)


def test_root_of_a_page_with_many_comments_is_found_in_linear_time() -> None:
    """The time doubled with each comment of a page that has no element after them: 40 took hours."""
    body = b"<!-- x -->" * 5_000
    started = time.process_time()
    assert root_of(body + b"gateway") is None
    assert root_of(body + b"<html>") == "html"
    assert time.process_time() - started < 5
