"""ETags of S3 objects, as the index keeps them: a number of 64 bits instead of some forty characters a file."""

from __future__ import annotations

from hashlib import blake2b


def etag_hash(etag: str | bytes | None) -> int | None:
    """Return the hash of an object's ETag, a signed number of 64 bits; None where the store gives none.

    Quotation marks and the sign of a weak ETag are left out: a listing, a HEAD and an event write them differently.
    """
    if not etag:
        return None
    text = etag.encode() if isinstance(etag, str) else etag
    bare = text.removeprefix(b"W/").strip(b'"')
    return int.from_bytes(blake2b(bare, digest_size=8).digest(), "big", signed=True) if bare else None


def same_etag(one: int | None, other: int | None) -> bool:
    """Return whether two hashes may be of one object's ETag; an unknown one may be any."""
    return one is None or other is None or one == other
