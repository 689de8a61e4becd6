"""Completes, aborts and finds multipart uploads that other processes have sent; and deletes many objects.

S3A's tasks send the parts, this process completes the uploads when the write commits: one request a file. Until then
no listing shows anything. boto3 does it, because pyarrow offers no call for an upload that it has not begun itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from catalog_ext.metastore.errors import CatalogExtError, LocationNotFoundError, StagedFileMissingError, StorageError
from catalog_ext.metastore.model.etags import etag_hash
from catalog_ext.metastore.storage.failures import (
    boto_code,
    is_boto_throttled,
    occupied,
    translate_boto,
    unexpected_answer,
)
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.s3.answers import UnexpectedAnswerError
from catalog_ext.metastore.storage.s3.deletion import Deletion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from botocore.client import BaseClient

    from catalog_ext.metastore.commit.staged_files import Upload
    from catalog_ext.metastore.runtime.retry import Backoff

T = TypeVar("T")

_MARK = "catalog-ext-transaction"
"""The metadata of a copy that names the transaction that made it."""
_KEPT_HEADERS = ("ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl")

# The store has no such upload, or its parts differ from the sent ones: it can never be completed.
_NO_SUCH_UPLOAD = "NO_SUCH_UPLOAD"
_UNUSABLE = frozenset({_NO_SUCH_UPLOAD, "INVALID_PART", "INVALID_PART_ORDER", "ENTITY_TOO_SMALL"})

# The answers to a conditional request where an object is, or is being made at this moment.
_IS_THERE = frozenset({"PRECONDITION_FAILED", "CONDITIONAL_REQUEST_CONFLICT"})


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that was begun and neither completed nor aborted.

    Attributes:
        location: The location of the future object.
        upload_id: The store's id of the upload.
        initiated_ms: The time when it was begun, in milliseconds since 1970, by the store's clock.
    """

    location: Location
    upload_id: str
    initiated_ms: int


class Uploads:
    """The multipart uploads and deletions of one S3 bucket; safe to use from several threads.

    Every method raises ``LocationNotFoundError`` if the bucket does not exist, and ``StorageError`` if the store
    refuses or does not answer.

    Args:
        client: boto3's client.
        backoff: The number and length of waits of a throttled request; the client's own retries come first.
        endpoint: The S3 endpoint, for messages.
    """

    def __init__(self, client: BaseClient, backoff: Backoff, endpoint: str | None) -> None:
        self._client = client
        self._backoff = backoff
        self._endpoint = endpoint

    def complete(self, location: Location, upload: Upload, size: int) -> int | None:
        """Make ``location`` an object of an upload's parts: one request, and two where the upload is gone.

        It may be called again, and by several processes at once: an object of that size is an upload that was
        completed.

        Returns:
            The hash of the object's ETag (``etag_hash``); None where the store does not say it.

        Raises:
            StagedFileMissingError: The upload was aborted or its parts are gone, and the object is not there.
        """
        parts = [
            {"PartNumber": part.number, "ETag": part.etag, **part.checksums}
            for part in sorted(upload.parts, key=lambda part: part.number)
        ]

        call = partial(
            self._client.complete_multipart_upload, Bucket=location.bucket, Key=location.key,
            UploadId=upload.upload_id, MultipartUpload={"Parts": parts},
        )  # fmt: skip
        try:
            answer: Mapping[str, Any] = self._attempt(location, "complete the upload of", call)
        except CatalogExtError as refused:
            if boto_code(refused.__cause__) not in _UNUSABLE:
                raise
            answer = self._settle(location, size, refused)
        return etag_hash(answer.get("ETag"))

    def create(self, location: Location, data: bytes) -> bool:
        """Make a small object where none is; return whether it was made. See `Storage.create_file`."""
        put = partial(self._client.put_object, Bucket=location.bucket, Key=location.key, Body=data)
        try:
            self._attempt(location, "write", partial(put, IfNoneMatch="*"))
        except CatalogExtError as refused:
            code = boto_code(refused.__cause__)
            if code in _IS_THERE:
                return False
            if code != "NOT_IMPLEMENTED":
                raise
            if self._head(location) is not None:
                return False
            self._attempt(location, "write", put)
        return True

    def put(self, location: Location, data: bytes) -> None:
        """Write a small object, replacing an existing one."""
        put = partial(self._client.put_object, Bucket=location.bucket, Key=location.key, Body=data)
        self._attempt(location, "write", put)

    def check_writable(self, directory: Location) -> None:
        """Return if files can be written below a directory: two requests, and no listing shows anything of it.

        Raises:
            StorageAccessDeniedError: It is read-only for us.
        """
        probe = directory.join("_catalog_ext_probe")
        self.abort(probe, self.begin(probe))

    def begin(self, location: Location) -> str:
        """Return the id of a new upload to that key, which no listing shows."""
        create = partial(self._client.create_multipart_upload, Bucket=location.bucket, Key=location.key)
        return str(self._attempt(location, "write", create)["UploadId"])

    def abort(self, location: Location, upload_id: str) -> None:
        """Drop an upload and its parts; nothing happens where it is gone."""
        bucket, key = location.bucket, location.key
        abort = partial(self._client.abort_multipart_upload, Bucket=bucket, Key=key, UploadId=upload_id)
        try:
            self._attempt(location, "abort the upload of", abort)
        except CatalogExtError as refused:
            if boto_code(refused.__cause__) != _NO_SUCH_UPLOAD:
                raise

    def pending(self, prefix: Location) -> Iterator[PendingUpload]:
        """Yield the uploads to keys below ``prefix`` (or equal to it) that are neither completed nor aborted.

        A request returns a thousand.
        """
        list_page = partial(self._client.list_multipart_uploads, Bucket=prefix.bucket, Prefix=prefix.key)
        after: Mapping[str, str] = {}
        while True:
            page = self._attempt(prefix, "list the uploads below", partial(list_page, **after))
            for found in page.get("Uploads", ()):
                location = Location("s3a", prefix.bucket, found["Key"])
                if prefix.contains(location):
                    yield PendingUpload(location, found["UploadId"], int(found["Initiated"].timestamp() * 1000))
            if not page.get("IsTruncated"):
                return
            following = _end_of(page)
            if following in ({}, after):
                raise StorageError(
                    f"Cannot list the uploads below {shown(str(prefix))}: the store says that there are more and does "
                    "not say where they begin. Check that the endpoint supports ListMultipartUploads with markers.",
                    {"location": str(prefix)},
                )
            after = following

    def delete(self, locations: Sequence[Location]) -> list[CatalogExtError]:
        """Remove up to 1,000 objects by one request; return an error for each that the store kept."""
        deletion = Deletion(self._client, locations)
        try:
            self._attempt(locations[0], "delete", deletion.ask)
        except CatalogExtError:
            if not deletion.kept:
                raise
        return [self._translate(error, location, "delete") for location, error in deletion.kept]

    def copy(self, source: Location, target: Location, size: int, mark: str, etag: int | None = None) -> None:
        """Make the store copy an object, in parts if it is large; a target with the mark is an earlier copy.

        Args:
            source: The object.
            target: The location of the copy.
            size: The size in bytes.
            mark: The id of the transaction.
            etag: The hash of its ETag; None if unknown.

        Raises:
            StagedFileMissingError: The source is gone and the target does not exist.
            StorageError: Another object is at the target, the source has another size or ETag, or the store refuses.
        """
        there = self._head(target)
        if there is not None:
            if _is_copy(there, size, mark):
                return
            raise occupied(target, source, "copied")
        self._copy(source, target, size, {_MARK: mark}, etag)

    def is_copied(self, target: Location, size: int, mark: str) -> bool:
        """Return whether a copy with the mark is at the target."""
        there = self._head(target)
        return there is not None and _is_copy(there, size, mark)

    def restore(self, source: Location, target: Location, size: int, mark: str) -> None:
        """Undo ``copy``, whether or not it was called: objects without the mark stay, and so does every source."""
        there = self._head(target)
        if there is None or there.get("Metadata", {}).get(_MARK) != mark:
            return
        if self._head(source) is None:
            # It was deleted after it had been copied.
            self._copy(target, source, size, {})
        kept = self.delete([target])
        if kept:
            raise kept[0]

    def _copy(
        self, source: Location, target: Location, size: int, mark: Mapping[str, str], etag: int | None = None
    ) -> None:
        found = self._head(source)
        if found is None:
            raise StagedFileMissingError(
                f"The file {shown(str(source))}, which was to be copied to {shown(str(target))}, is gone: it "
                "was deleted. Repair the table.",
                {"location": str(source)},
            )
        if found["ContentLength"] != size:
            raise StorageError(
                f"The object {shown(str(source))} has {found['ContentLength']} bytes, and not the {size} that it had. "
                "It was written again. Repair the table.",
                {"location": str(source)},
            )
        there = etag_hash(found.get("ETag"))
        if etag is not None and there is not None and there != etag:
            raise StorageError(
                f"The object {shown(str(source))} has its {size} bytes, and another ETag than it had: it was written "
                "again. Repair the table.",
                {"location": str(source)},
            )
        metadata = {key: text for key, text in found.get("Metadata", {}).items() if key != _MARK}
        kept = {name: found[name] for name in _KEPT_HEADERS if name in found}
        arguments = {
            "Metadata": {**metadata, **mark}, "MetadataDirective": "REPLACE", "CopySourceIfMatch": found["ETag"],
            **kept,
        }  # fmt: skip
        origin = {"Bucket": source.bucket, "Key": source.key}
        self._attempt(source, "copy", lambda: self._client.copy(origin, target.bucket, target.key, ExtraArgs=arguments))

    def _settle(self, location: Location, size: int, refused: CatalogExtError) -> Mapping[str, Any]:
        """Return the head of the object that an earlier call, or another process, has completed."""
        found = self._head(location)
        if found is not None and found["ContentLength"] == size:
            return found
        there = None if found is None else found["ContentLength"]
        state = "and the file is not there" if there is None else f"and a file of {there} bytes, not {size}, is there"
        raise StagedFileMissingError(
            f"The upload of {shown(str(location))} cannot be completed ({boto_code(refused.__cause__)}), {state}. "
            "It was aborted, perhaps by a lifecycle rule of the bucket. Write again.",
            {"location": str(location)},
        ) from refused

    def size(self, location: Location) -> int | None:
        """Return the size of the object with this key; None without one. Takes one request."""
        found = self._head(location)
        return None if found is None else int(found["ContentLength"])

    def _head(self, location: Location) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._attempt(
                location, "look at", lambda: self._client.head_object(Bucket=location.bucket, Key=location.key)
            )
        except LocationNotFoundError:
            return None
        return found

    def _attempt(self, location: Location, action: str, call: Callable[[], T]) -> T:
        """Return the result of ``call``; repeat it while the store is busy."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return self._backoff.attempt(call, is_boto_throttled)
        except UnexpectedAnswerError as error:
            raise unexpected_answer(error, location, action, endpoint=self._endpoint) from error
        except (BotoCoreError, ClientError) as error:
            raise self._translate(error, location, action) from error

    def _translate(self, error: Exception, location: Location, action: str) -> CatalogExtError:
        return translate_boto(error, location, action, endpoint=self._endpoint)


def _end_of(page: Mapping[str, Any]) -> dict[str, str]:
    """Return the markers of the next page; empty if the store gives none.

    Not every store gives both; the last upload of the page serves as the marker instead.
    """
    key, upload_id = page.get("NextKeyMarker"), page.get("NextUploadIdMarker")
    if key and upload_id:
        return {"KeyMarker": key, "UploadIdMarker": upload_id}
    last = page.get("Uploads", ())[-1:]
    return {"KeyMarker": last[0]["Key"], "UploadIdMarker": last[0]["UploadId"]} if last else {}


def _is_copy(there: Mapping[str, Any], size: int, mark: str) -> bool:
    return bool(there.get("Metadata", {}).get(_MARK) == mark and there["ContentLength"] == size)
