"""Translates errors of stores into this project's errors.

pyarrow raises S3's errors as an ``OSError`` with only a text (``AWS Error NO_SUCH_BUCKET during ...``), and errors of
local disks and HDFS with an ``errno``; boto3 has the store's error code (``NoSuchBucket``). Only this module interprets
them.
"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
    StorageAccessDeniedError,
    StorageError,
    StorageUnavailableError,
)
from catalog_ext.metastore.runtime.measures import Subject, failed
from catalog_ext.metastore.storage.locations import Location, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_AWS_ERROR = re.compile(r"AWS Error ([A-Z0-9_]+)")
_HTTP_STATUS = re.compile(r"HTTP status (\d{3})")
# Removes pyarrow's words around the store's own error text.
_AROUND = re.compile(r"^When .*?AWS Error [A-Z0-9_]+ during \w+ operation: |\s*\(Request ID: [^)]*\)", re.DOTALL)

_CREDENTIALS = frozenset({
    "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID", "UNRECOGNIZED_CLIENT",
    "MISSING_AUTHENTICATION_TOKEN", "INCOMPLETE_SIGNATURE", "REQUEST_EXPIRED", "REQUEST_TIME_TOO_SKEWED",
})  # fmt: skip
_DENIED = frozenset({"ACCESS_DENIED", "OPT_IN_REQUIRED"})
_MISSING = frozenset({"NO_SUCH_KEY", "RESOURCE_NOT_FOUND"})
_UNREACHABLE = frozenset({"NETWORK_CONNECTION", "CLIENT_SIGNING_FAILURE"})
_BUSY = frozenset(
    {"SLOW_DOWN", "THROTTLING", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "INTERNAL_ERROR", "REQUEST_TIMEOUT"}
)
_BUSY_STATUSES = frozenset({"429", "500", "502", "503", "504"})
# Compare boto3's exceptions by name: importing boto3 takes a quarter of a second.
_NO_ANSWER = frozenset({"HTTPClientError", "ConnectionError"})
_NO_CREDENTIALS = frozenset({"NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"})
_NONE_GIVEN = "NO_CREDENTIALS"
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_LOCAL_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_LOCAL_MISSING = frozenset({errno.ENOENT, errno.ENAMETOOLONG})
_LOCAL_BUSY = frozenset({errno.ETIMEDOUT, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.EAGAIN})


def translate(error: OSError, location: Location, action: str, *, endpoint: str | None = None) -> CatalogExtError:
    """Return this project's error for ``error``, which the store raised for ``location``.

    Args:
        error: The error of pyarrow or the operating system.
        location: The location of the failed operation.
        action: The failed operation, as a verb that follows "cannot": ``list``, ``read``, ``delete``.
        endpoint: The S3 endpoint of the request; named in the message.
    """
    if location.scheme != "s3a":
        return _counted(_translate_files(error, location, action))
    return _counted(_translate_s3(_arrow_answer(error), location, action, endpoint or "Amazon S3"))


def location_not_found(location: Location) -> LocationNotFoundError:
    """Return the error for a location that does not exist."""
    hint = "Check the path." if location.scheme != "s3a" else "No object's key starts with it; check the path."
    return LocationNotFoundError(
        f"The location {shown(str(location))} does not exist. {hint}", {"location": str(location)}
    )


def no_credentials(location: Location, action: str, endpoint: str | None) -> StorageAccessDeniedError:
    """Return the error for a request to S3 without credentials, although the bucket is not configured as anonymous."""
    store = endpoint or "Amazon S3"
    return StorageAccessDeniedError(
        f"Cannot {action} {shown(str(location))} at {store}: no credentials were given. Give access_key and secret_key "
        "(--storage access_key=… on the command line, storage={…} in Python, spark.hadoop.fs.s3a.access.key in Spark), "
        "the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile or role of AWS; for a public bucket "
        "anonymous=true.",
        {"location": str(location), "endpoint": store},
    )


def unexpected_answer(error: Exception, location: Location, action: str, *, endpoint: str | None) -> StorageError:
    """Return the error for an answer that does not belong to the S3 request."""
    store = endpoint or "Amazon S3"
    failure = StorageError(
        f"Cannot {action} {shown(str(location))} at {store}: the answer is not that of an S3 store to this request "
        f"({shown(str(error))}). Look for a proxy or gateway that answers in the store's place, and run the command "
        "again.",
        {"location": str(location), "endpoint": store},
    )
    return failed(Subject.STORAGE, failure)


def occupied(target: Location, source: Location, operation: str) -> StorageError:
    """Return the error for a move or copy (``operation``) to a location that has another process's file."""
    return StorageError(
        f"A file of another process is at {shown(str(target))}, where {shown(str(source))} was to be {operation} to. "
        "Remove or register it, and try again.",
        {"location": str(target)},
    )


def is_missing_bucket(error: LocationNotFoundError) -> bool:
    """Return whether the bucket is missing, rather than a key or a path."""
    return "bucket" in error.parameters


def is_throttled(error: Exception) -> bool:
    """Return whether the store was too busy, so that the same call may succeed a little later."""
    return isinstance(error, OSError) and _is_busy(_arrow_answer(error))


def boto_code(error: BaseException | None) -> str:
    """Return the code of boto3's error in pyarrow's spelling, such as ``NO_SUCH_UPLOAD``; empty without a code."""
    return _boto_answer(error).code if error is not None else ""


def is_boto_throttled(error: Exception) -> bool:
    """Return whether boto3's error says that the store was too busy, so that the same call may succeed later."""
    return _is_busy(_boto_answer(error))


def translate_boto(
    error: Exception, location: Location, action: str, *, endpoint: str | None = None
) -> CatalogExtError:
    """Return this project's error for an error of boto3; the arguments are those of ``translate``."""
    return _counted(_translate_s3(_boto_answer(error), location, action, endpoint or "Amazon S3"))


def _counted(error: CatalogExtError) -> CatalogExtError:
    """Emit a metric for a store error, except for a missing location, and return the error."""
    return failed(Subject.STORAGE, error) if isinstance(error, StorageError) else error


class _Answer(NamedTuple):
    """The error answer of S3: its code (``NO_SUCH_BUCKET``), the HTTP status and its text; empty if unknown."""

    code: str
    status: str
    words: str
    missing: bool = False
    unreachable: bool = False


def _is_busy(answer: _Answer) -> bool:
    return answer.code in _BUSY or answer.status in _BUSY_STATUSES


def _arrow_answer(error: OSError) -> _Answer:
    text = str(error)
    found, status = _AWS_ERROR.search(text), _HTTP_STATUS.search(text)
    code = found[1] if found else ""
    return _Answer(
        code,
        status[1] if status else "",
        _AROUND.sub("", text),
        missing=isinstance(error, FileNotFoundError),
        unreachable="curlCode" in text,
    )


def _boto_answer(error: BaseException) -> _Answer:
    response: Mapping[str, Any] | None = getattr(error, "response", None)
    if response is None:
        # This error is not an answer of S3: the request was not sent, or got no answer.
        kinds = {kind.__name__ for kind in type(error).__mro__}
        code = _NONE_GIVEN if kinds & _NO_CREDENTIALS else ""
        return _Answer(code, "", str(error), unreachable=bool(kinds & _NO_ANSWER))
    said = response.get("Error", {})
    code, status = str(said.get("Code", "")), str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    if code.isdigit():
        # The answer to a HEAD request has no body, so its HTTP status is used as the code.
        return _Answer("UNKNOWN", code, str(error))
    return _Answer(_WORD_START.sub("_", code).upper(), status, str(said.get("Message") or error))


def _translate_s3(answer: _Answer, location: Location, action: str, endpoint: str) -> CatalogExtError:
    code, status = answer.code, answer.status
    parameters = {"location": str(location), "endpoint": endpoint}
    where = f"Cannot {action} {shown(str(location))} at {endpoint}: "
    said = shown(answer.words)
    if code == "NO_SUCH_BUCKET":
        return LocationNotFoundError(
            f"{where}there is no bucket {location.bucket!r}. Check the bucket's name, the endpoint and the region.",
            {**parameters, "bucket": location.bucket},
        )
    if answer.missing or code in _MISSING or (code == "UNKNOWN" and status == "404"):
        return location_not_found(location)
    if code == _NONE_GIVEN:
        return no_credentials(location, action, endpoint)
    if code in _CREDENTIALS:
        return StorageAccessDeniedError(
            f"{where}the store does not accept the credentials ({code}). Check access_key, secret_key, "
            "session_token and the region.",
            parameters,
        )
    if code in _DENIED or status in {"401", "403"}:
        return StorageAccessDeniedError(
            f"{where}access is denied. Check the credentials and what they may do at this location.",
            parameters,
        )
    if _is_busy(answer):
        return StorageUnavailableError(f"{where}the store is too busy ({code}, {status}). Try again later.", parameters)
    if code in _UNREACHABLE or answer.unreachable:
        return StorageUnavailableError(
            f"{where}the store does not answer: {said}. Check the endpoint and the network.", parameters
        )
    return StorageError(f"{where}the store answered {said}.", parameters)


def _translate_files(error: OSError, location: Location, action: str) -> CatalogExtError:
    parameters = {"location": str(location)}
    where = f"Cannot {action} {shown(str(location))}: "
    if isinstance(error, FileNotFoundError) or error.errno in _LOCAL_MISSING:
        return location_not_found(location)
    if isinstance(error, NotADirectoryError) and action != "create":
        return LocationNotFoundError(f"{where}it is not a directory. Check the path.", parameters)
    if isinstance(error, PermissionError) or error.errno in _LOCAL_DENIED:
        return StorageAccessDeniedError(
            f"{where}permission is denied. Check the owner and mode of the path.", parameters
        )
    reason = error.strerror or str(error)
    if isinstance(error, ConnectionError):
        return StorageUnavailableError(
            f"{where}the name node does not answer: {reason}. Check its address and the network.", parameters
        )
    if error.errno in _LOCAL_BUSY:
        return StorageUnavailableError(f"{where}{reason}.", parameters)
    return StorageError(f"{where}{reason}.", parameters)
