"""Text limits of the three databases, and the hash by which long names are found."""

from __future__ import annotations

import hashlib

from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionNameError


def name_hash(name: str) -> str:
    """Return the 32 hexadecimal digits by which a partition's name is found: names are too long for an index.

    Raises:
        InvalidPartitionNameError: The name has a character that no database keeps.
    """
    return hashlib.blake2b(storable(name, "partition").encode("utf-8"), digest_size=16).hexdigest()


def storable(text: str, what: str) -> str:
    """Return the name of a partition or file, when a database can keep it.

    Raises:
        InvalidPartitionNameError: It has a NUL, or bytes that are not UTF-8 (kept by Python as lone surrogates).
    """
    if text.isascii() and "\x00" not in text:
        return text
    problem = _problem(text)
    if problem is None:
        return text
    shown = text if len(text) <= 200 else f"{text[:120]}… ({len(text)} characters)"
    raise InvalidPartitionNameError(
        f"The {what} name {shown!a} has {problem}, which the index cannot keep. Rename it on the store.",
        {what: ascii(shown)},
    )


def is_storable(text: str) -> bool:
    """Return whether a database can keep the text."""
    # Every file and directory of a repair is asked for.
    return (text.isascii() and "\x00" not in text) or _problem(text) is None


def storable_field(text: str | None, what: str, of: str) -> str | None:
    """Return a field of a definition, when a database can keep it.

    Raises:
        InvalidInputError: As in ``storable``.
    """
    problem = None if text is None else _problem(text)
    if problem is not None:
        raise InvalidInputError(
            f"The {what} of {of} has {problem}, which the index cannot keep. Remove it.", {"of": of}
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
