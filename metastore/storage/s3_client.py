"""pyarrow's S3 client, set up from the storage options."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs as pafs

if TYPE_CHECKING:
    from metastore.storage.options import S3Options

# Of the client itself, a quarter of a second to some seconds apart; `Storage` waits longer for a store that is busy.
_ATTEMPTS = 3
# What a store with an endpoint of its own is signed for when nothing is said; most do not look at it.
_REGION_OF_ENDPOINTS = "us-east-1"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a request to S3 may take, in seconds; each of its three attempts has this time.

    Attributes:
        connect_s: Until the connection stands.
        request_s: Without a byte from the store.
    """

    connect_s: float = 3.0
    request_s: float = 10.0


def knows_region(options: S3Options) -> bool:
    """Return whether the region is known without asking Amazon where a bucket lies."""
    return bool(options.region or options.host or _environment_region())


def connect(options: S3Options, bucket: str, timeouts: Timeouts) -> pafs.S3FileSystem:
    """Return a client for ``bucket``; it does not connect before it is used.

    Raises:
        OSError: The region is not known and Amazon does not tell it.
    """
    region = _region(options, bucket)
    signed = not options.anonymous
    return pafs.S3FileSystem(
        access_key=options.access_key if signed else None,
        secret_key=options.secret_key if signed else None,
        session_token=options.session_token if signed else None,
        anonymous=options.anonymous,
        region=region,
        scheme=options.scheme,
        endpoint_override=_endpoint(options, region),
        force_virtual_addressing=options.path_style is False,
        connect_timeout=timeouts.connect_s,
        request_timeout=timeouts.request_s,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        background_writes=False,
    )


def _region(options: S3Options, bucket: str) -> str:
    known = options.region or _environment_region()
    if known:
        return known
    return _REGION_OF_ENDPOINTS if options.host else str(pafs.resolve_s3_region(bucket))


def _environment_region() -> str | None:
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")


def _endpoint(options: S3Options, region: str) -> str | None:
    if options.host is None and options.path_style:
        # pyarrow addresses by path only where an endpoint is given.
        return f"s3.{region}.amazonaws.com"
    return options.host
