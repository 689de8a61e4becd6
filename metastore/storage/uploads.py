"""Completes, aborts and lists multipart uploads that other processes have sent; copies and deletes objects.

Spark's tasks send the parts through S3A, and this process completes the uploads when the write commits, with one
request per file. Until then no listing shows the files. boto3 is used, because pyarrow cannot complete an upload that
it has not started itself.
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
"""The metadata key of a copied object; its value is the id of the transaction that made the copy."""
_KEPT_HEADERS = ("ContentType", "ContentEncoding", "ContentDisposition", "ContentLanguage", "CacheControl")

# Error codes of uploads that can never be completed: the store has no such upload, or its parts differ from the sent
# ones.
_NO_SUCH_UPLOAD = "NO_SUCH_UPLOAD"
_UNUSABLE = frozenset({_NO_SUCH_UPLOAD, "INVALID_PART", "INVALID_PART_ORDER", "ENTITY_TOO_SMALL"})

# Error codes of a conditional request if the object exists, or is being created at this moment.
_IS_THERE = frozenset({"PRECONDITION_FAILED", "CONDITIONAL_REQUEST_CONFLICT"})


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """An upload that was started and neither completed nor aborted.

    Attributes:
        location: The location of the future object.
        upload_id: The store's id of the upload.
        initiated_ms: The time when it was started, in milliseconds since 1970, by the store's clock.
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
        """Complete an upload, which creates the object ``location``: one request, or two if the upload is gone.

        The call may be repeated, also by several processes at once: if the upload is gone, an object of the same size
        counts as the completed upload.

        Returns:
            The hash of the object's ETag (``etag_hash``); None if the store does not return it.

        Raises:
            StagedFileMissingError: The upload was aborted or its parts are gone, and the object does not exist.
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
        """Create a small object unless it exists; return whether it was created. See `Storage.create_file`."""
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
        """Check that files can be written below a directory, with two requests and without creating a visible object.

        Raises:
            StorageAccessDeniedError: The credentials do not allow writing there.
        """
        probe = directory.join("_catalog_ext_probe")
        self.abort(probe, self.begin(probe))

    def begin(self, location: Location) -> str:
        """Start a multipart upload to the key of ``location``, which no listing shows, and return its id."""
        create = partial(self._client.create_multipart_upload, Bucket=location.bucket, Key=location.key)
        return str(self._attempt(location, "write", create)["UploadId"])

    def abort(self, location: Location, upload_id: str) -> None:
        """Abort an upload and delete its parts; a missing upload is no error."""
        bucket, key = location.bucket, location.key
        abort = partial(self._client.abort_multipart_upload, Bucket=bucket, Key=key, UploadId=upload_id)
        try:
            self._attempt(location, "abort the upload of", abort)
        except CatalogExtError as refused:
            if boto_code(refused.__cause__) != _NO_SUCH_UPLOAD:
                raise

    def pending(self, prefix: Location) -> Iterator[PendingUpload]:
        """Yield the uploads to keys below ``prefix`` (or equal to it) that are neither completed nor aborted.

        One request returns up to a thousand uploads.
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
        """Remove up to 1,000 objects with one request; return an error for each object that was not deleted."""
        deletion = Deletion(self._client, locations)
        try:
            self._attempt(locations[0], "delete", deletion.ask)
        except CatalogExtError:
            if not deletion.kept:
                raise
        return [self._translate(error, location, "delete") for location, error in deletion.kept]

    def copy(self, source: Location, target: Location, size: int, mark: str, etag: int | None = None) -> None:
        """Copy an object in the store, in parts if it is large; an existing target with the mark is an earlier copy.

        Args:
            source: The object.
            target: The location of the copy.
            size: The size in bytes.
            mark: The id of the transaction.
            etag: The hash of the source's ETag; None if unknown.

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
        """Undo ``copy``, whether or not it was called: delete a target with the mark, after restoring a lost source."""
        there = self._head(target)
        if there is None or there.get("Metadata", {}).get(_MARK) != mark:
            return
        if self._head(source) is None:
            # The source was deleted after the copy. Copy it back before deleting the target.
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
        """Return the metadata of the object that an earlier call, or another process, has completed."""
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
        """Return the size of the object with this key; None if it does not exist. Takes one request."""
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
        """Return the result of ``call``; retry it while the store is busy."""
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

    If a store gives only one of the two markers, the last upload of the page serves as the marker.
    """
    key, upload_id = page.get("NextKeyMarker"), page.get("NextUploadIdMarker")
    if key and upload_id:
        return {"KeyMarker": key, "UploadIdMarker": upload_id}
    last = page.get("Uploads", ())[-1:]
    return {"KeyMarker": last[0]["Key"], "UploadIdMarker": last[0]["UploadId"]} if last else {}


def _is_copy(there: Mapping[str, Any], size: int, mark: str) -> bool:
    return bool(there.get("Metadata", {}).get(_MARK) == mark and there["ContentLength"] == size)
