"""Compares locations in Hadoop's spellings: one location may have several spellings."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_S3 = frozenset({"s3", "s3a", "s3n"})


def child_location(location: str, name: str) -> str:
    """Return the location of the directory ``name`` below ``location``."""
    return f"{location.rstrip('/')}/{name}"


def same_location(left: str, right: str) -> bool:
    """Return whether two locations are equal: ``file:/x`` and ``file:///x/``, ``s3://b/k`` and ``s3a://b/k``."""
    return comparable_location(left) == comparable_location(right)


def relative_name(parent: str, location: str) -> str | None:
    """Return the path of ``location`` relative to ``parent``; None if it is not below ``parent``."""
    base, full = comparable_location(parent), comparable_location(location)
    return full[len(base) + 1 :] if full.startswith(f"{base}/") else None


def comparable_location(location: str) -> str:
    """Return the normal form of a location, which is equal for all spellings of one location."""
    match = _SCHEME.fullmatch(location)
    scheme, rest = (match.group(1).lower(), match.group(2)) if match else ("file", location)
    authority, path = "", rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        path = slash + path
    path = re.sub("/+", "/", path).rstrip("/")
    return f"{'s3a' if scheme in _S3 else scheme}://{authority}{path}"
