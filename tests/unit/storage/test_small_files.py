"""Small files that are made where nothing is: locally, and on S3, whose servers differ on conditional requests."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from catalog_ext.metastore.errors import LocationNotFoundError, StorageAccessDeniedError, StorageError
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.metastore.storage.uploads import Uploads

if TYPE_CHECKING:
    from pathlib import Path

PLACE = Location.parse("s3a://bucket/wh/_mark")


class Client:
    """boto3's, of a store that answers a conditional request with a code."""

    def __init__(self, code: str, there: bytes | None = None) -> None:
        self.code = code
        self.there = there
        self.asked: list[str] = []

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str | None = None) -> None:
        self.asked.append("PUT" if IfNoneMatch is None else f"PUT if none match {IfNoneMatch}")
        if IfNoneMatch is not None and self.code:
            raise ClientError({"Error": {"Code": self.code, "Message": "no"}}, "PutObject")
        self.there = Body

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, object]:
        self.asked.append("HEAD")
        if self.there is None:
            raise ClientError(
                {"Error": {"Code": "404", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 404}}, "HeadObject"
            )
        return {"ContentLength": len(self.there)}


@pytest.mark.parametrize(
    ("code", "there", "made", "asked"),
    [
        ("", None, True, []), ("PreconditionFailed", b"x", False, []), ("ConditionalRequestConflict", None, False, []),
        ("NotImplemented", None, True, ["HEAD", "PUT"]), ("NotImplemented", b"x", False, ["HEAD"]),
    ],
)  # fmt: skip
def test_stores_with_and_without_conditional_requests(
    code: str, there: bytes | None, made: bool, asked: list[str]
) -> None:
    client = Client(code, there)
    assert Uploads(client, Backoff(), None).create(PLACE, b"new") is made
    assert client.asked == ["PUT if none match *", *asked]
    assert client.there == (b"new" if made else there)


def test_a_store_that_refuses() -> None:
    with pytest.raises(StorageAccessDeniedError):
        Uploads(Client("AccessDenied"), Backoff(), None).create(PLACE, b"new")


def test_a_local_file_is_made_once_and_whole(tmp_path: Path) -> None:
    storage, place = Storage(), Location.parse(str(tmp_path / "_mark"))
    assert storage.read_file(place, 10) is None
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: storage.create_file(place, str(n).encode()), range(8)))
    assert sum(made) == 1
    assert storage.read_file(place, 10) == str(made.index(True)).encode()
    assert os.listdir(tmp_path) == ["_mark"]
    with pytest.raises(LocationNotFoundError):
        storage.create_file(Location.parse(str(tmp_path / "none" / "_mark")), b"x")
    assert storage.read_file(place.join("below"), 10) is None, "a file has nothing below it"
    assert storage.read_file(place, 0) == b""
    with pytest.raises(StorageError):
        storage.read_file(place.parent, 10)
