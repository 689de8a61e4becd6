"""Checks that the three databases can store a text, and computes the hash by which partition names are looked up."""

from __future__ import annotations

import hashlib

from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionNameError


def name_hash(name: str) -> str:
    """Return the hash of a partition's name: 32 hexadecimal digits. Names themselves are too long for a database index.

    Raises:
        InvalidPartitionNameError: The name has a NUL or is not valid UTF-8, so no database can store it.
    """
    return hashlib.blake2b(storable(name, "partition").encode("utf-8"), digest_size=16).hexdigest()


def storable(text: str, kind: str) -> str:
    """Return the name of a partition or file unchanged, if a database can store it.

    Raises:
        InvalidPartitionNameError: The name has a NUL, or bytes that are not UTF-8 (in Python, lone surrogates).
    """
    if text.isascii() and "\x00" not in text:
        return text
    problem = _problem(text)
    if problem is None:
        return text
    name = text if len(text) <= 200 else f"{text[:120]}… ({len(text)} characters)"
    raise InvalidPartitionNameError(
        f"The {kind} name {name!a} has {problem}, which the index cannot keep. Rename it on the store.",
        {kind: ascii(name)},
    )


def is_storable(text: str) -> bool:
    """Return whether a database can store the text: it has no NUL and is valid UTF-8."""
    # The fast test for ASCII comes first, because a repair checks every file and directory.
    return (text.isascii() and "\x00" not in text) or _problem(text) is None


def storable_field(text: str | None, field: str, owner: str) -> str | None:
    """Return a field of a definition unchanged, if a database can store it.

    Raises:
        InvalidInputError: The text has a NUL, or bytes that are not UTF-8.
    """
    problem = None if text is None else _problem(text)
    if problem is not None:
        raise InvalidInputError(
            f"The {field} of {owner} has {problem}, which the index cannot keep. Remove it.", {"of": owner}
        )
    return text


def _problem(text: str) -> str | None:
    problem = "a NUL character" if "\x00" in text else None
    if problem is None and not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            problem = "bytes that are not valid UTF-8"
    return problem
