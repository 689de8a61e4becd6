"""Locations of tables and partitions, in one canonical form.

``s3``, ``s3n`` and ``s3a`` name the same store and are written ``s3a://bucket/key``; local paths are written
``file:///path``, paths on HDFS ``hdfs://namenode:port/path``. Nothing is percent-decoded or encoded, because Hadoop's
``Path`` does neither: ``%2F`` in a key is three characters. Doubled slashes and ``.`` components are dropped (as
Hadoop's ``Path`` does), ``..`` is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from catalog_ext.metastore.errors import InvalidInputError

Scheme = Literal["s3a", "hdfs", "file"]

S3_SCHEMES = frozenset({"s3", "s3n", "s3a"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AUTHORITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]{1,5})?")
_SHOWN_LENGTH = 350


def shown(text: str) -> str:
    """Return ``text`` as an error message shows it: quoted, control characters escaped, shortened to 350 characters."""
    if len(text) <= _SHOWN_LENGTH:
        return repr(text)
    return f"{text[:_SHOWN_LENGTH]!r}... ({len(text)} characters)"


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A location on a store, in canonical form; ``str()`` gives its URI.

    Attributes:
        scheme: ``s3a``, ``hdfs`` or ``file``.
        bucket: The S3 bucket; on HDFS the name node (``host:port``) or name service; empty on the local file system.
        key: The path below the bucket or the file system's root: components joined by ``/``, without one at either end.
    """

    scheme: Scheme
    bucket: str
    key: str

    @classmethod
    def parse(cls, text: str, *, base: Location | None = None) -> Location:
        """Parse the text of a location.

        Args:
            text: An S3 or HDFS URI, a ``file:`` URI or an absolute local path; a relative path if ``base`` is given.
            base: The location to which a relative path is relative.

        Raises:
            InvalidInputError: The scheme is not supported, the path is relative without a base, or it contains ``..``
                or a NUL character.
        """
        _check_text(text)
        scheme, rest = _split_scheme(text)
        if scheme in S3_SCHEMES:
            return cls._parse_s3(text, rest)
        if scheme == "hdfs":
            return cls._parse_hdfs(text, rest)
        if scheme == "file":
            return cls("file", "", _components(text, _local_path(text, rest)))
        if scheme:
            raise InvalidInputError(
                f"The location {shown(text)} has the scheme {scheme!r}, which is not supported. Use s3a:// (s3:// and "
                "s3n:// mean the same), hdfs://, file:/// or an absolute local path.",
                {"location": text, "scheme": scheme},
            )
        if text.startswith("/"):
            return cls("file", "", _components(text, text))
        if base is None:
            raise InvalidInputError(
                f"The location {shown(text)} is relative. Give an absolute path or a URI such as s3a://bucket/path.",
                {"location": text},
            )
        return base.join(text)

    @classmethod
    def _parse_s3(cls, text: str, rest: str) -> Location:
        if not rest.startswith("//"):
            raise InvalidInputError(f"The location {shown(text)} names no bucket. Write s3a://bucket/path.")
        bucket, _, key = rest[2:].partition("/")
        if "@" in bucket:
            # Do not quote the location: the text before the @ is a secret, which must not get into a message or a log.
            raise InvalidInputError(
                "An S3 location has credentials before its bucket. Take them out of the location and give them as "
                "storage options (access_key, secret_key)."
            )
        if not _BUCKET.fullmatch(bucket):
            raise InvalidInputError(
                f"The location {shown(text)} has the bucket name {shown(bucket)}, which S3 does not allow. "
                "Write s3a://bucket/path.",
                {"location": text},
            )
        return cls("s3a", bucket, _components(text, key))

    @classmethod
    def _parse_hdfs(cls, text: str, rest: str) -> Location:
        authority, _, path = rest.removeprefix("//").partition("/")
        if not rest.startswith("//") or not _AUTHORITY.fullmatch(authority):
            raise InvalidInputError(
                f"The location {shown(text)} does not name the HDFS. Write hdfs://namenode:port/path, or the name of a "
                "name service in the place of namenode:port.",
                {"location": text},
            )
        return cls("hdfs", authority, _components(text, path))

    @property
    def path(self) -> str:
        """The path in the form of ``pyarrow.fs``: ``bucket/key`` or ``/key``."""
        if self.scheme != "s3a":
            return f"/{self.key}"
        return f"{self.bucket}/{self.key}" if self.key else self.bucket

    @property
    def name(self) -> str:
        """The last component; empty for a bucket or a file system's root."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The directory that holds this one; a bucket or the file system's root is its own parent."""
        return Location(self.scheme, self.bucket, self.key.rpartition("/")[0])

    def join(self, child: str) -> Location:
        """Return the location of ``child`` (components joined by ``/``) below this one.

        Raises:
            InvalidInputError: ``child`` contains ``..`` or a NUL character.
        """
        _check_nul(child)
        below = _components(child, child)
        key = f"{self.key}/{below}" if self.key and below else self.key or below
        return Location(self.scheme, self.bucket, key)

    def contains(self, other: Location) -> bool:
        """Return whether ``other`` is this location or lies below it."""
        if (self.scheme, self.bucket) != (other.scheme, other.bucket):
            return False
        return not self.key or other.key == self.key or other.key.startswith(f"{self.key}/")

    def overlaps(self, other: Location) -> bool:
        """Return whether the locations are equal, or one of them lies below the other."""
        return self.contains(other) or other.contains(self)

    def relative_to(self, parent: Location) -> str:
        """Return the path from ``parent`` to this location; empty if they are equal.

        Raises:
            InvalidInputError: This location does not lie below ``parent``.
        """
        if not parent.contains(self):
            raise InvalidInputError(f"The location {shown(str(self))} does not lie below {shown(str(parent))}.")
        return self.key[len(parent.key) :].removeprefix("/")

    def __str__(self) -> str:
        if self.scheme == "file":
            return f"file:///{self.key}"
        return f"hdfs://{self.bucket}{self.path}" if self.scheme == "hdfs" else f"s3a://{self.path}"


def canonical_location(text: str) -> str:
    """Return the canonical URI of ``text``; see `Location.parse`."""
    return str(Location.parse(text))


def locations_equal(left: str | None, right: str | None) -> bool:
    """Return whether both texts name the same location; False if one of them is not a location."""
    try:
        return Location.parse(left or "") == Location.parse(right or "")
    except InvalidInputError:
        return False


def _check_text(text: str) -> None:
    if not text:
        raise InvalidInputError("The location is empty. Give an absolute path or a URI such as s3a://bucket/path.")
    _check_nul(text)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"The location {shown(text)} is not valid Unicode text, so no store can be asked for it."
        ) from error


def _check_nul(text: str) -> None:
    if "\0" in text:
        raise InvalidInputError(f"The location {shown(text)} holds a NUL character, which no store allows.")


def _split_scheme(text: str) -> tuple[str, str]:
    found = _SCHEME.match(text)
    if found is None:
        return "", text
    return found[1].lower(), text[found.end() :]


def _local_path(text: str, rest: str) -> str:
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        # ``file:////x`` is accepted: it has an empty authority and a doubled slash.
        if authority not in ("", "localhost") or not slash:
            raise InvalidInputError(
                f"The location {shown(text)} names the host {shown(authority)}. A local path has three slashes: "
                "file:///path."
            )
        return path
    if not rest.startswith("/"):
        raise InvalidInputError(f"The location {shown(text)} is relative. Write file:///path.")
    return rest


def _components(text: str, path: str) -> str:
    """Return ``path`` without empty and ``.`` components; an error message shows ``text``."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidInputError(
            f"The location {shown(text)} holds the component '..'. Write the path without it.", {"location": text}
        )
    return "/".join(parts)
