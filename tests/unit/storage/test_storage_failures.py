"""What a store answers becomes the error that says what to do."""

from __future__ import annotations

import errno
import os
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import NoCredentialsError

from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
    StorageAccessDeniedError,
    StorageError,
    StorageUnavailableError,
)
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.failures import is_missing_bucket, is_throttled, translate, translate_boto
from catalog_ext.metastore.storage.hdfs import os_errors
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.metastore.storage.uploads import Uploads

if TYPE_CHECKING:
    from pathlib import Path

TRIPS = Location.parse("s3a://bucket/trips")
LOCAL = Location.parse("/warehouse/trips")
ON_HDFS = Location.parse("hdfs://name:8020/warehouse/trips")
LISTING = "When listing objects under key 'trips/' in bucket 'bucket': AWS Error {} during ListObjectsV2 operation: {}"


def s3_error(code: str, words: str = "Words. (Request ID: 18EA0AFA57B6)") -> OSError:
    return OSError(LISTING.format(code, words))


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (s3_error("NO_SUCH_BUCKET"), LocationNotFoundError, "no bucket 'bucket'"),
        (FileNotFoundError(errno.ENOENT, "Path does not exist"), LocationNotFoundError, "does not exist"),
        (s3_error("SIGNATURE_DOES_NOT_MATCH"), StorageAccessDeniedError, "credentials"),
        (s3_error("INVALID_ACCESS_KEY_ID"), StorageAccessDeniedError, "credentials"),
        (s3_error("ACCESS_DENIED"), StorageAccessDeniedError, "access is denied"),
        (s3_error("UNKNOWN (HTTP status 403)"), StorageAccessDeniedError, "access is denied"),
        (s3_error("SLOW_DOWN"), StorageUnavailableError, "too busy"),
        (s3_error("UNKNOWN (HTTP status 503)"), StorageUnavailableError, "too busy"),
        (s3_error("NETWORK_CONNECTION", "curlCode: 7, Could not connect"), StorageUnavailableError, "curlCode: 7"),
        (s3_error("UNKNOWN (HTTP status 418)", "I am a teapot"), StorageError, "teapot"),
    ],
)
def test_s3(error: OSError, expected: type[CatalogExtError], words: str) -> None:
    translated = translate(error, TRIPS, "list", endpoint="http://store:9000")
    assert type(translated) is expected
    assert words in translated.message
    assert "s3a://bucket/trips" in translated.message
    assert "Request ID" not in translated.message


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file"), LocationNotFoundError, "does not exist"),
        (OSError(errno.ENAMETOOLONG, "File name too long"), LocationNotFoundError, "does not exist"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory"), LocationNotFoundError, "not a directory"),
        (PermissionError(errno.EACCES, "Permission denied"), StorageAccessDeniedError, "permission is denied"),
        (OSError(errno.EIO, "Input/output error"), StorageUnavailableError, "Input/output error"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links"), StorageError, "symbolic links"),
        (OSError("Cannot open for reading: path '/warehouse/trips' is a directory"), StorageError, "is a directory"),
    ],
)
def test_local(error: OSError, expected: type[CatalogExtError], words: str) -> None:
    translated = translate(error, LOCAL, "list")
    assert type(translated) is expected
    assert words in translated.message
    assert "file:///warehouse/trips" in translated.message


def test_missing_bucket_is_distinguished_from_a_missing_key() -> None:
    bucket = translate(s3_error("NO_SUCH_BUCKET"), TRIPS, "list")
    key = translate(FileNotFoundError(errno.ENOENT, "x"), TRIPS, "list")
    assert isinstance(bucket, LocationNotFoundError)
    assert isinstance(key, LocationNotFoundError)
    assert is_missing_bucket(bucket)
    assert not is_missing_bucket(key)


@pytest.mark.parametrize(
    ("code", "throttled"),
    [("SLOW_DOWN", True), ("UNKNOWN (HTTP status 503)", True), ("UNKNOWN (HTTP status 429)", True),
     ("ACCESS_DENIED", False), ("NO_SUCH_BUCKET", False), ("NETWORK_CONNECTION", False)],
)  # fmt: skip
def test_what_is_tried_again(code: str, throttled: bool) -> None:
    assert is_throttled(s3_error(code)) is throttled


@pytest.mark.parametrize(
    ("codes", "asked"),
    [(["SLOW_DOWN"] * 9, 3), (["SLOW_DOWN", "ACCESS_DENIED"], 2), (["ACCESS_DENIED"], 1)],
)
def test_a_busy_store_is_asked_again(codes: list[str], asked: int) -> None:
    errors = [s3_error(code) for code in codes]
    left = iter(errors)

    def call() -> None:
        raise next(left)

    with pytest.raises(OSError, match="AWS Error") as raised:
        Backoff(retries=2, first_s=0.001).attempt(call, is_throttled)
    assert raised.value is errors[asked - 1]
    assert len(list(left)) == len(codes) - asked


def test_a_store_that_was_busy_answers() -> None:
    left = iter([s3_error("SLOW_DOWN"), s3_error("SLOW_DOWN")])

    def call() -> str:
        error = next(left, None)
        if error is not None:
            raise error
        return "listed"

    assert Backoff(retries=2, first_s=0.001).attempt(call, is_throttled) == "listed"


def test_only_an_unavailable_store_may_be_asked_again() -> None:
    assert translate(s3_error("SLOW_DOWN"), TRIPS, "list").retryable
    assert not translate(s3_error("ACCESS_DENIED"), TRIPS, "list").retryable


def rpc(kind: str, words: str) -> str:
    """The text of what hdfs-native raises."""
    return f'RPCError("{kind}", "{words}\\n\\tat org.apache.hadoop.Server.call(Server.java:1)")'


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
        (
            rpc("org.apache.hadoop.security.AccessControlException", 'Permission denied: inode=\\"/x\\":root'),
            StorageAccessDeniedError,
            "permission is denied",
        ),
        (
            rpc("org.apache.hadoop.security.AccessControlException", "/x (is not a directory)"),
            LocationNotFoundError,
            "not a directory",
        ),
        (
            rpc("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode."),
            StorageUnavailableError,
            "safe mode",
        ),
        (
            rpc("org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException", "limit of 255"),
            LocationNotFoundError,
            "does not exist",
        ),
        (
            rpc("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota is exceeded"),
            StorageError,
            "quota is exceeded.",
        ),
        (rpc("org.apache.hadoop.NewException", "words"), StorageError, "org.apache.hadoop.NewException: words."),
        ('InvalidArgument("No NameNode hosts found")', StorageError, "No NameNode hosts found"),
    ],
)
def test_hdfs(text: str, expected: type[CatalogExtError], words: str) -> None:
    with pytest.raises(OSError) as raised, os_errors():  # noqa: PT011 - its number is what is tested
        raise RuntimeError(text)
    translated = translate(raised.value, ON_HDFS, "list")
    assert type(translated) is expected
    assert words in translated.message
    assert "hdfs://name:8020/warehouse/trips" in translated.message
    assert "Server.java" not in translated.message


def test_a_name_node_that_does_not_answer() -> None:
    with pytest.raises(ConnectionError) as raised, os_errors():
        raise OSError("Connection refused (os error 111)")
    translated = translate(raised.value, ON_HDFS, "list")
    assert isinstance(translated, StorageUnavailableError)
    assert "Connection refused" in translated.message


class _Paged:
    """A store's list of uploads in pages of two, from which the given markers of the next page are left out."""

    def __init__(self, left_out: frozenset[str]) -> None:
        self.left_out = left_out
        self.uploads = [(f"trips/{key}", f"id{n}") for key in "abc" for n in (1, 2, 3)]

    def list_multipart_uploads(
        self, Bucket: str, Prefix: str, KeyMarker: str = "", UploadIdMarker: str = ""
    ) -> dict[str, Any]:  # fmt: skip
        assert (Bucket, Prefix) == ("bucket", "trips")
        left = [upload for upload in self.uploads if upload > (KeyMarker, UploadIdMarker)]
        begun = datetime(2026, 1, 1, tzinfo=timezone.utc)
        page = {
            "Uploads": [{"Key": key, "UploadId": upload_id, "Initiated": begun} for key, upload_id in left[:2]],
            "IsTruncated": len(left) > 2,
            "NextKeyMarker": left[:2][-1][0],
            "NextUploadIdMarker": left[:2][-1][1],
        }
        return {name: value for name, value in page.items() if name not in self.left_out}


@pytest.mark.parametrize("left_out", [(), ("NextUploadIdMarker",), ("NextKeyMarker", "NextUploadIdMarker")])
def test_every_pending_upload_is_listed_whatever_markers_the_store_gives(left_out: tuple[str, ...]) -> None:
    store = _Paged(frozenset(left_out))
    listed = Uploads(store, Backoff(), None).pending(TRIPS)  # type: ignore[arg-type]
    assert [(upload.location.key, upload.upload_id) for upload in listed] == store.uploads


@pytest.fixture
def _nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))


@pytest.mark.usefixtures("_nothing_given")
@pytest.mark.parametrize("code", ["ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "UNKNOWN (HTTP status 403)"])
def test_missing_credentials_are_distinguished_from_wrong_ones(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the store answers to an unsigned request does not say why it was unsigned."""
    store = {"endpoint": "http://store:9000"}
    none = Storage(store).translate(s3_error(code), TRIPS, "list")
    assert isinstance(none, StorageAccessDeniedError)
    assert "at http://store:9000: no credentials were given. Give access_key" in none.message
    public = Storage({**store, "anonymous": "true"})
    assert "no credentials" not in public.translate(s3_error(code), TRIPS, "list").message
    given = Storage({**store, "access_key": "a", "secret_key": "b"})
    assert "no credentials" not in given.translate(s3_error(code), TRIPS, "list").message
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert "no credentials" not in Storage(store).translate(s3_error(code), TRIPS, "list").message


def test_missing_credentials_of_boto() -> None:
    error = translate_boto(NoCredentialsError(), TRIPS, "write")
    assert isinstance(error, StorageAccessDeniedError)
    assert "no credentials were given" in error.message
