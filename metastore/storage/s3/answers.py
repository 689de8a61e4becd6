"""Checks that an answer of S3 belongs to the request.

A gateway or proxy that has lost its store may answer 200 or 204 with an empty body, with a page of its own, or with the
document of another operation. boto3 looks for the elements that it knows, finds none and returns an empty result: a
listing without keys, a deletion without errors, a completed upload. An empty listing would make a repair drop rows, and
the other results would make this project delete files. So each answer must have the root element of its S3 operation,
and a listing must have the bucket and the prefix of the request.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from botocore.client import BaseClient
    from botocore.model import OperationModel

_ROOTS = {
    "CompleteMultipartUpload": ("CompleteMultipartUploadResult",),
    "CopyObject": ("CopyObjectResult",),
    "CreateMultipartUpload": ("InitiateMultipartUploadResult",),
    "DeleteObjects": ("DeleteResult",),
    "ListMultipartUploads": ("ListMultipartUploadsResult",),
    "ListObjectsV2": ("ListBucketResult",),
    # Some stores answer a part's copy with the root element for the copy of a whole object.
    "UploadPartCopy": ("CopyPartResult", "CopyObjectResult"),
}
# Each declaration and comment ends at the first ">", so that the search takes time linear in the body's length.
_ROOT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<[?!][^>]*>\s*)*<(?:[\w.-]+:)?([\w.-]+)[\s/>]")
# Suffixes of access point names that stand for a bucket; S3 may answer with the bucket's own name.
_ALIASES = ("-s3alias", "--ol-s3")
_SHOWN_BYTES = 80
# boto3 reads the body of a lower status as the result, also of 300.
_FIRST_ERROR = 301


class UnexpectedAnswerError(Exception):
    """The store's answer does not belong to the request; the text says why."""


def check_answers(client: BaseClient) -> None:
    """Make the client raise `UnexpectedAnswerError` for answers with the root element of another operation."""
    for operation in _ROOTS:
        client.meta.events.register(f"before-parse.s3.{operation}", _check_root)


def check_listing(answer: Mapping[str, Any], bucket: str, prefix: str) -> None:
    """Check that the answer to ListObjectsV2 is about this bucket and prefix.

    Raises:
        UnexpectedAnswerError: The answer names another bucket or prefix, or none.
    """
    name, echoed = answer.get("Name"), answer.get("Prefix")
    if not name or (name != bucket and not bucket.endswith(_ALIASES)):
        raise UnexpectedAnswerError(f"it is about the bucket {name!r}")
    # Accept the prefix encoded or not: some stores return it without the URL encoding that they declare.
    if echoed is None or not (prefix in (echoed, unquote_plus(echoed)) or echoed == unquote_plus(prefix)):
        raise UnexpectedAnswerError(f"it is about the prefix {echoed!r}")


def root_of(body: bytes) -> str | None:
    """Return the name of a document's root element, without its namespace prefix; None without a root element."""
    found = _ROOT.match(body)
    return None if found is None else found[1].decode("utf-8", "replace")


def check_page(answer: Mapping[str, Any], asked: Mapping[str, Any], prefixes: Sequence[str]) -> None:
    """Check that the answer to ListObjectsV2 is the requested page, as far as the store repeats the parameters.

    A cache that ignores parameters answers with another page, or with directories instead of their files. A repair
    would then drop the rows of the missing files.

    Args:
        answer: The answer.
        asked: The parameters of the request.
        prefixes: The common prefixes in the answer.

    Raises:
        UnexpectedAnswerError: The answer is another page.
    """
    echoed, token = answer.get("ContinuationToken"), asked.get("ContinuationToken")
    if echoed and echoed != token:
        raise UnexpectedAnswerError(f"it is the page after {echoed!r} instead of {token!r}")
    if prefixes and "Delimiter" not in asked:
        raise UnexpectedAnswerError(f"it has common prefixes such as {prefixes[0]!r}, and was asked for keys alone")


def check_keys(keys: Iterable[str], prefix: str) -> None:
    """Check that every key or common prefix of a listing begins with the requested prefix.

    Some gateways ignore the prefix and list the whole bucket. The end of another table's key would then be taken for a
    path of this table.

    Raises:
        UnexpectedAnswerError: A key does not begin with the prefix.
    """
    other = next((key for key in keys if not key.startswith(prefix)), None)
    if other is not None:
        raise UnexpectedAnswerError(f"it has the key {other[:_SHOWN_BYTES]!r}, which does not begin with {prefix!r}")


def _check_root(operation_model: OperationModel, response_dict: Mapping[str, Any], **_: object) -> None:
    status, body = response_dict["status_code"], response_dict["body"]
    if status >= _FIRST_ERROR:
        return
    expected = _ROOTS[operation_model.name]
    if root_of(body) not in expected:
        text = body[:_SHOWN_BYTES].decode("utf-8", "replace")
        raise UnexpectedAnswerError(f"status {status}, {len(body)} bytes: {text!r} instead of <{expected[0]}>")
