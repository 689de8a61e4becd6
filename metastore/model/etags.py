"""Compares ETags and modification times of files, which stores and the index represent differently."""

from __future__ import annotations

from hashlib import blake2b


def etag_hash(etag: str | bytes | None) -> int | None:
    """Return the hash of an object's ETag, a signed number of 64 bits; None if the store has no ETag.

    Quotation marks and the sign of a weak ETag are left out: a listing, a HEAD and an event write them differently.
    """
    if not etag:
        return None
    text = etag.encode() if isinstance(etag, str) else etag
    bare = text.removeprefix(b"W/").strip(b'"')
    return int.from_bytes(blake2b(bare, digest_size=8).digest(), "big", signed=True) if bare else None


def same_etag(one: int | None, other: int | None) -> bool:
    """Return whether two hashes may belong to the same ETag; an unknown hash (None) may equal any."""
    return one is None or other is None or one == other


def same_time(one: int | None, other: int | None) -> bool:
    """Return whether two modification times of a file (milliseconds since 1970) may be equal.

    Some stores give times in seconds in one answer and in milliseconds in another. None is an unknown time, which may
    equal any.
    """
    if one is None or other is None or one == other:
        return True
    rounded = one % 1000 == 0 or other % 1000 == 0
    return rounded and one // 1000 == other // 1000
