"""Creates the S3 clients from the storage options: pyarrow's, and boto3's for operations that pyarrow lacks."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs as pafs

from catalog_ext.metastore.storage.s3.answers import check_answers
from catalog_ext.metastore.storage.s3.deletion import add_content_md5

if TYPE_CHECKING:
    from botocore.client import BaseClient

    from catalog_ext.metastore.storage.options import S3Options

# The client's own attempts, some tenths of a second to seconds apart. If the store stays busy, `Storage` waits longer.
_ATTEMPTS = 3
# The region in signatures for a custom endpoint if no region is configured; most such stores ignore it.
_REGION_OF_ENDPOINTS = "us-east-1"

UPLOAD_REQUEST_S = 60.0
"""The longest time for completing an upload of thousands of parts, in seconds."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The time limits of a request to S3, in seconds; each of its three attempts has this time.

    Attributes:
        connect_s: The time for connecting.
        request_s: The longest time without a byte from the store.
    """

    connect_s: float = 3.0
    request_s: float = 10.0


def knows_region(options: S3Options) -> bool:
    """Return whether the bucket's region is known without asking Amazon."""
    return bool(options.region or options.host or _environment_region())


def connect(options: S3Options, bucket: str, timeouts: Timeouts) -> pafs.S3FileSystem:
    """Return pyarrow's client for ``bucket``; it connects at its first use.

    Raises:
        OSError: The region is not configured, and Amazon does not return it.
    """
    region = _region(options, bucket)
    signed = not options.anonymous
    return pafs.S3FileSystem(
        access_key=options.access_key if signed else None, secret_key=options.secret_key if signed else None,
        session_token=options.session_token if signed else None, anonymous=options.anonymous, region=region,
        scheme=options.scheme, endpoint_override=_endpoint(options, region),
        force_virtual_addressing=options.path_style is False, connect_timeout=timeouts.connect_s,
        request_timeout=timeouts.request_s, retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        background_writes=False,
    )  # fmt: skip


def connect_boto(
    options: S3Options, bucket: str, timeouts: Timeouts, connections: int, read_s: float = 0
) -> BaseClient:
    """Return boto3's client for ``bucket``, for use by several threads; it connects at its first use.

    Args:
        options: The connection options of the bucket.
        bucket: The bucket's name.
        timeouts: The time limits of a request.
        connections: The number of connections that are kept open.
        read_s: The least time limit for reading an answer, in seconds.

    Raises:
        OSError: The region is not configured, and Amazon does not return it.
    """
    # Import here: boto3 takes a quarter of a second to import, which only processes that need this client should pay.
    import boto3.session
    from botocore import UNSIGNED
    from botocore.config import Config

    by_path = options.path_style if options.path_style is not None else options.host is not None
    config = Config(
        signature_version=UNSIGNED if options.anonymous else "s3v4",
        s3={"addressing_style": "path" if by_path else "virtual"},
        connect_timeout=timeouts.connect_s,
        read_timeout=max(timeouts.request_s, read_s),
        max_pool_connections=connections,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        # Ignore proxies of the environment, as pyarrow and S3A do: all clients must reach the same store.
        proxies={},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client = boto3.session.Session().client(
        "s3",
        region_name=_region(options, bucket),
        endpoint_url=f"{options.scheme}://{options.host}" if options.host else None,
        aws_access_key_id=None if options.anonymous else options.access_key,
        aws_secret_access_key=None if options.anonymous else options.secret_key,
        aws_session_token=None if options.anonymous else options.session_token,
        config=config,
    )
    check_answers(client)
    client.meta.events.register("before-call.s3.DeleteObjects", add_content_md5)
    return client


def chain_has_credentials() -> bool:
    """Return whether AWS's chain has credentials: the environment, a profile, or a role of the machine.

    It may ask the machine's metadata service, which takes two seconds on a machine without that service.
    """
    import boto3.session

    return boto3.session.Session().get_credentials() is not None


def _region(options: S3Options, bucket: str) -> str:
    known = options.region or _environment_region()
    if known:
        return known
    return _REGION_OF_ENDPOINTS if options.host else str(pafs.resolve_s3_region(bucket))


def _environment_region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _endpoint(options: S3Options, region: str) -> str | None:
    if options.host is None and options.path_style:
        # Give Amazon's endpoint explicitly: pyarrow uses path-style addresses only with an endpoint.
        return f"s3.{region}.amazonaws.com"
    return options.host
