"""Deletes many objects of an S3 bucket with one request, on stores that differ in their requests and answers."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.storage.failures import boto_code, is_boto_throttled
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from botocore.client import BaseClient

    Kept = tuple[Location, Exception]
    """An object that the store has kept, with its answer."""

KEYS_PER_DELETE = 1000
"""The most keys that S3 deletes with one request."""

_NO_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")
"""Characters that XML 1.0 does not allow, or changes (a carriage return becomes a line feed)."""


def add_content_md5(params: dict[str, Any], **_: object) -> None:
    """Add the header ``Content-MD5`` to a request; a handler for boto3's event ``before-call``.

    boto3 sends a CRC32 instead since release 1.36. S3 accepts both; Ceph, older MinIO, OVH and others refuse to delete
    objects without the MD5.
    """
    digest = hashlib.md5(params["body"], usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode("ascii")


class Deletion:
    """Deletes up to 1,000 objects of one bucket. A missing object counts as deleted.

    A key that XML cannot represent is deleted with a request of its own: in a common request S3 would refuse all keys,
    or delete an object of another name. A store that deletes only one object per request (Google Cloud Storage) gets
    one request per key.
    """

    def __init__(self, client: BaseClient, locations: Sequence[Location]) -> None:
        self._client = client
        self._together = [place for place in locations if _NO_XML.search(place.key) is None]
        self._single = [place for place in locations if _NO_XML.search(place.key) is not None]
        self._refused: list[Kept] = []
        self._busy: list[Kept] = []

    @property
    def kept(self) -> list[Kept]:
        """The objects that the store has not deleted, because it refused or was too busy, each with its answer."""
        return self._refused + self._busy

    def ask(self) -> None:
        """Delete the remaining objects; call it again if the store was too busy.

        Raises:
            UnexpectedAnswerError: The answer does not belong to this request.
            BotoCoreError, ClientError: The store refuses the request, does not answer, or is too busy for some keys;
                these keys are in ``kept``.
        """
        if self._together and not self._delete_together():
            self._single += self._together
            self._together = []
        while self._single:
            self._delete_one(self._single[-1])
            self._single.pop()
        if self._busy:
            raise self._busy[0][1]

    def _delete_together(self) -> bool:
        """Delete all objects with one request; return False if the store does not support this request."""
        from botocore.exceptions import ClientError

        bucket = self._together[0].bucket
        objects = [{"Key": place.key} for place in self._together]
        try:
            answer = self._client.delete_objects(Bucket=bucket, Delete={"Objects": objects, "Quiet": True})
        except ClientError as error:
            if boto_code(error) != "NOT_IMPLEMENTED":
                raise
            return False
        self._busy.clear()
        for said in answer.get("Errors", ()):
            kept = _kept(bucket, said)
            if is_boto_throttled(kept[1]):
                self._busy.append(kept)
            elif not _is_gone(kept[1]):
                self._refused.append(kept)
        self._together = [place for place, _ in self._busy]
        return True

    def _delete_one(self, place: Location) -> None:
        from botocore.exceptions import ClientError

        try:
            self._client.delete_object(Bucket=place.bucket, Key=place.key)
        except ClientError as error:
            if is_boto_throttled(error):
                raise
            if not _is_gone(error):
                self._refused.append((place, error))


def _is_gone(error: Exception) -> bool:
    # S3 reports no error for a missing key, but some other stores do.
    return boto_code(error) == "NO_SUCH_KEY"


def _kept(bucket: str, said: Mapping[str, str]) -> Kept:
    from botocore.exceptions import ClientError

    return Location("s3a", bucket, said.get("Key", "")), ClientError({"Error": dict(said)}, "DeleteObjects")
