"""Encodes partition values as text that sorts like the values, for the key columns of the index.

Texts compare by their UTF-8 bytes as the values compare in Spark. ``''`` is NULL (the default partition), which sorts
first. The layouts are described in ``docs/spec/index.md``.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.model.values import Scalar, Value, epoch_microseconds

if TYPE_CHECKING:
    from catalog_ext.metastore.model.types import DataType

NULL_KEY = ""
"""The encoding of NULL."""

MAX_KEY_BYTES = 255
"""The longest stored encoding, in UTF-8 bytes; longer ones are cut, because databases limit the length of a key."""


def encode_integer(number: int) -> str:
    """Return a text that sorts as the integer does: sign, two digits of length, digits (complemented if negative).

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
    # Escape two characters: PostgreSQL refuses NUL, and \x01 marks the empty string. The escapes keep the sort order.
    if "\x00" in text or "\x01" in text:
        text = "".join({"\x00": "\x01\x01", "\x01": "\x01\x02"}.get(c, c) for c in text)
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        shown = ascii(text[:80])
        raise InvalidValueError(
            f"The value {shown} is not valid Unicode text: it has a lone surrogate.", {"value": shown}
        )
    return text


def _encode_float(number: float) -> str:
    # Give all NaNs one encoding, which sorts above infinity, and -0.0 that of 0.0: in Spark these values are equal.
    number = math.nan if math.isnan(number) else number
    bits: int = struct.unpack(">Q", struct.pack(">d", 0.0 if number == 0 else abs(number)))[0]
    negative = number < 0
    return f"{~bits & 0x7FFFFFFFFFFFFFFF if negative else bits | 1 << 63:016x}"


def _encode_decimal(value: Decimal | int, scale: int) -> str:
    with localcontext() as context:
        # Raise the precision: the default decimal context would round to 28 digits, and Spark has up to 38.
        context.prec = 120
        return encode_integer(int(Decimal(value).scaleb(scale)))


def encode_scalar(value: Scalar, data_type: DataType) -> str:
    """Return the full encoding of a value, of any length; never ``''``.

    Raises:
        InvalidValueError: A text has a lone surrogate, which no database can store.
    """
    if isinstance(value, bool):
        return "1" if value else "0"
    if data_type.name == "decimal" and isinstance(value, Decimal | int):
        return _encode_decimal(value, data_type.parameters[1])
    if isinstance(value, float) or (isinstance(value, int) and data_type.name in ("float", "double")):
        return _encode_float(float(value))
    if isinstance(value, int):
        return encode_integer(value)
    if isinstance(value, datetime):
        return encode_integer(epoch_microseconds(value))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.strftime("%H:%M:%S.%f")
    return _encode_string(str(value))


def encode_key(value: Value, data_type: DataType) -> str:
    """Return the encoding for the index: at most ``MAX_KEY_BYTES`` bytes of UTF-8, ``''`` for NULL."""
    return NULL_KEY if value is None else truncate_key(encode_scalar(value, data_type))


def truncate_key(encoded: str) -> str:
    """Return the longest prefix of whole characters that has at most ``MAX_KEY_BYTES`` bytes in UTF-8."""
    if len(encoded) * 4 <= MAX_KEY_BYTES:
        return encoded
    raw = encoded.encode("utf-8")
    return encoded if len(raw) <= MAX_KEY_BYTES else raw[:MAX_KEY_BYTES].decode("utf-8", "ignore")


def decoded_text(encoded: str, data_type: DataType) -> str | None:
    """Return the value of an encoded key as text for users; None for NULL. A truncated text gives its prefix."""
    if encoded == NULL_KEY:
        return None
    match data_type.name:
        case "tinyint" | "smallint" | "int" | "bigint":
            return str(_decode_integer(encoded))
        case "decimal":
            with localcontext() as context:
                context.prec = 120
                return f"{Decimal(_decode_integer(encoded)).scaleb(-data_type.parameters[1]):f}"
        case "timestamp" | "timestamp_ntz":
            return str(datetime(1970, 1, 1) + timedelta(microseconds=_decode_integer(encoded)))
        case "boolean":
            return "true" if encoded == "1" else "false"
        case "float" | "double":
            bits = int(encoded, 16)
            bits = bits ^ 1 << 63 if bits >> 63 else ~bits & 0xFFFFFFFFFFFFFFFF
            return str(struct.unpack(">d", bits.to_bytes(8, "big"))[0])
        case "date" | "time":
            return encoded
    return _STUFFED.sub(lambda found: {"\x01": "\x00", "\x02": "\x01", "": ""}[found[1]], encoded)


_STUFFED = re.compile("\x01([\x01\x02]|$)")


def _decode_integer(encoded: str) -> int:
    if encoded[0] == "p":
        return int(encoded[3:])
    return -int("".join(str(9 - int(d)) for d in encoded[3:]))


def is_truncated(encoded: str) -> bool:
    """Return whether ``truncate_key`` would shorten the text."""
    return len(encoded.encode("utf-8")) > MAX_KEY_BYTES


def next_prefix(prefix: str) -> str | None:
    """Return the least text above all texts with this prefix, in the order of UTF-8 bytes; None if no text is above."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < 0x10FFFF:
            next_code = 0xE000 if code == 0xD7FF else code + 1
            return prefix[: end - 1] + chr(next_code)
    return None
