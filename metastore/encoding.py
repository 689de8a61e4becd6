"""The order-preserving text of a typed partition value, which the index keeps in its key columns.

Texts compare by their UTF-8 bytes as the values compare in Spark. ``''`` is NULL (the default partition), which sorts first.
The layouts are described in ``docs/spec/index.md``.
"""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, time
from decimal import Decimal

from metastore.types import DataType
from metastore.values import Scalar, Value, epoch_microseconds

NULL_KEY = ""
"""The encoded form of NULL."""

MAX_KEY_BYTES = 255
"""Longer encodings are cut at a character boundary: indexes of the three databases limit the length of a key."""


def encode_integer(number: int) -> str:
    """A text that sorts as the integer does: sign, two digits of length, digits (complemented when negative).

    >>> encode_integer(7) < encode_integer(12), encode_integer(-12) < encode_integer(-7)
    (True, True)
    """
    digits = str(abs(number))
    if number >= 0:
        return f"p{len(digits):02d}{digits}"
    complement = "".join(str(9 - int(d)) for d in digits)
    return f"n{99 - len(digits):02d}{complement}"


def _encode_string(text: str) -> str:
    if text == "":
        return "\x01"
    # PostgreSQL refuses NUL, and \x01 marks the empty string: both are stuffed so that the order stays.
    if "\x00" in text or "\x01" in text:
        text = "".join({"\x00": "\x01\x01", "\x01": "\x01\x02"}.get(c, c) for c in text)
    # A directory's name may hold bytes that are not UTF-8; Python keeps them as lone surrogates, which no database takes.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _encode_float(number: float) -> str:
    if math.isnan(number):
        number = math.nan
    bits: int = struct.unpack(">Q", struct.pack(">d", 0.0 if number == 0 else abs(number)))[0]
    negative = number < 0
    return f"{(~bits & 0xFFFFFFFFFFFFFFFF) if negative else bits | 1 << 63:016x}"


def encode_scalar(value: Scalar, data_type: DataType) -> str:
    """The whole encoding of a value, of any length; never ``''``."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return encode_integer(value)
    if isinstance(value, Decimal):
        return encode_integer(int(value.scaleb(data_type.parameters[1])))
    if isinstance(value, float):
        return _encode_float(value)
    if isinstance(value, datetime):
        return encode_integer(epoch_microseconds(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.strftime("%H:%M:%S.%f")
    return _encode_string(value)


def encode_key(value: Value, data_type: DataType) -> str:
    """The encoding as the index keeps it: at most ``MAX_KEY_BYTES`` bytes of UTF-8, ``''`` for NULL."""
    return NULL_KEY if value is None else truncate_key(encode_scalar(value, data_type))


def truncate_key(encoded: str) -> str:
    """The longest prefix of whole characters that has at most ``MAX_KEY_BYTES`` bytes in UTF-8."""
    if len(encoded) * 4 <= MAX_KEY_BYTES:
        return encoded
    raw = encoded.encode("utf-8")
    return encoded if len(raw) <= MAX_KEY_BYTES else raw[:MAX_KEY_BYTES].decode("utf-8", "ignore")


def is_truncated(encoded: str) -> bool:
    """Whether ``truncate_key`` shortens the text."""
    return len(encoded.encode("utf-8")) > MAX_KEY_BYTES


def next_prefix(prefix: str) -> str | None:
    """The least text above every text that starts with the prefix, in UTF-8 order; None when there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < 0x10FFFF:
            following = 0xE000 if code == 0xD7FF else code + 1
            return prefix[: end - 1] + chr(following)
    return None
