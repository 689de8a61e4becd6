"""Converts the text in a directory's name to typed values of partition columns, by the rules of Spark's casts."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from catalog_ext.metastore.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.model.types import DataType

Scalar: TypeAlias = str | int | float | bool | Decimal | date | datetime | time
"""A non-null value. Timestamps have no zone: they are local time (see ``docs/design/1-how-it-works.md``)."""
Value: TypeAlias = Scalar | None


@dataclass(frozen=True, slots=True)
class Key:
    """A partition column as predicates see it: its position in the partition's name, its spelling, its type."""

    position: int
    name: str
    type: DataType


INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_TRIMMED = "".join(chr(c) for c in (*range(33), 127))
"""The characters that Spark trims before a cast: blanks and control characters of ASCII, no others."""
_INTEGER = re.compile(r"[+-]?0*\d{1,40}", re.ASCII)
_DATE = re.compile(r"\+?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?:[ T].*)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"\+?(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?)?)?)?", re.ASCII
)
_DECIMAL = re.compile(r"[+-]?(\d{1,80}(\.\d{0,80})?|\.\d{1,80})([eE][+-]?\d{1,3})?", re.ASCII)
_CLOCK = r"(?P<clock>\d:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?) ?"
_ZONE = re.compile(_CLOCK + r"(?:Z|UTC|GMT|UT|(?:UTC|GMT|UT)?[+-]\d{1,2}(?::?\d{2}){0,2})\Z", re.ASCII)
_REGION = re.compile(_CLOCK + r"(?:[A-Za-z]\w*(?:/[\w+-]+)+)\Z", re.ASCII)
_OFFSET = re.compile(r"(?:Z|UTC|GMT|UT)?(?:([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?)?", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?", re.ASCII)


def cast_text(text: str, data_type: DataType) -> Value:
    """Return the typed value of an unescaped partition value; ``''`` is NULL for every type but the string types.

    Args:
        text: The unescaped value in the directory's name.
        data_type: One of ``catalog_ext.metastore.model.types.KEY_TYPES``.

    Raises:
        InvalidValueError: The text does not cast to the type.
    """
    if data_type.is_string:
        return _cast_string(text, data_type)
    if text == "":
        return None
    # The bytes of a BINARY value are the UTF-8 form of the directory's text, which Spark does not trim.
    trimmed = text if data_type.name == "binary" else text.strip(_TRIMMED)
    value = _CASTS[data_type.name](trimmed, data_type)
    if value is None:
        shown = text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
        raise InvalidValueError(
            f"{shown!r} does not fit the type {str(data_type).upper()}.", {"value": shown, "type": str(data_type)}
        )
    return value


def _cast_string(value: str, data_type: DataType) -> str:
    if data_type.name == "string":
        return value
    length = data_type.parameters[0]
    unpadded = value.rstrip(" ") if data_type.name == "char" or len(value) > length else value
    if len(unpadded) > length:
        raise InvalidValueError(
            f"{value[:60]!r} has {len(unpadded)} characters and does not fit the type {str(data_type).upper()}.",
            {"value": value[:80], "type": str(data_type)},
        )
    return unpadded


def _cast_binary(text: str, _: DataType) -> str | None:
    # Refuse the replacement character: Spark writes it for bytes that are not valid UTF-8, so the original bytes are
    # lost.
    return None if "\ufffd" in text else text


def _cast_integer(text: str, data_type: DataType) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    half = 1 << (INTEGER_BITS[data_type.name] - 1)
    return value if -half <= value < half else None


def _cast_boolean(text: str, _: DataType) -> bool | None:
    lower = text.lower()
    return True if lower in _TRUE else False if lower in _FALSE else None


def _cast_decimal(text: str, data_type: DataType) -> Decimal | None:
    precision, scale = data_type.parameters
    number = decimal_number(text)
    if number is None:
        return None
    with localcontext() as context:
        context.prec = 240
        try:
            value = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP)
        except InvalidOperation:
            return None
        # Adding zero turns -0 into 0: Spark's decimals do not distinguish them.
        return value + 0 if abs(value.scaleb(scale)) < 10**precision else None


def decimal_number(text: str) -> Decimal | None:
    """Return the exact number that Spark reads from a text; None if the text is not a number."""
    if not _DECIMAL.fullmatch(text.strip(_TRIMMED)):
        return None
    return Decimal(text.strip(_TRIMMED))


def _cast_float(text: str, data_type: DataType) -> float | None:
    if text.lower() == "nan":
        return math.nan
    sign, bare = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if bare.lower() in ("inf", "infinity"):
        return sign * math.inf
    # Spark casts with Java's parser, which also accepts the suffixes of Java's literals (``1.5f``, ``2D``).
    if not re.fullmatch(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[dDfF]?", bare, re.ASCII):
        return None
    value = sign * float(bare.rstrip("dDfF"))
    # Adding zero turns -0.0 into 0.0: the two are equal in Spark.
    return (_single(value) if data_type.name == "float" else value) + 0.0


def _cast_date(text: str, _: DataType) -> date | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(g) if g else 1 for g in match.groups())
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _microseconds(fraction: str | None) -> int:
    return int(((fraction or "") + "000000")[:6])


def _cast_timestamp(text: str, data_type: DataType) -> datetime | None:
    if data_type.name == "timestamp_ntz":
        # For TIMESTAMP_NTZ Spark ignores a zone in the text. A TIMESTAMP text with a zone is an instant whose local
        # time depends on the session, so it is not accepted here.
        text = _ZONE.sub(r"\g<clock>", text)
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        return datetime(
            int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0),
            _microseconds(fraction),
        )  # fmt: skip
    except ValueError:
        return None


def _cast_time(text: str, _: DataType) -> time | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second, fraction = match.groups()
    try:
        return time(int(hour), int(minute), int(second or 0), _microseconds(fraction))
    except ValueError:
        return None


_CASTS: dict[str, Callable[[str, DataType], Value]] = {
    **dict.fromkeys(INTEGER_BITS, _cast_integer),
    "boolean": _cast_boolean,
    "decimal": _cast_decimal,
    "float": _cast_float,
    "double": _cast_float,
    "date": _cast_date,
    "timestamp": _cast_timestamp,
    "timestamp_ntz": _cast_timestamp,
    "time": _cast_time,
    "binary": _cast_binary,
}


def value_text(value: Scalar, data_type: DataType | None = None) -> str:
    """Return the canonical text of a value, as Spark casts it to STRING.

    A Python float is formatted as DOUBLE unless ``data_type`` is FLOAT, whose text is shorter.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return _with_fraction(value.strftime("%H:%M:%S"), value.microsecond, f"{value.date().isoformat()} ")
    if isinstance(value, time):
        return _with_fraction(value.strftime("%H:%M:%S"), value.microsecond, "")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return _float_text(value, single=data_type is not None and data_type.name == "float")
    return str(value)


def _float_text(value: float, *, single: bool) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = _shortest_single(value) if single else repr(value)
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    number = Decimal(shortest).normalize()
    if len(number.as_tuple().digits) == 1:
        # Java writes at least two digits, and chooses the nearest number with two digits: 4.9E-324 and not 5.0E-324.
        number = Decimal(f"{value:.1e}").normalize()
    text = "".join(map(str, number.as_tuple().digits))
    point = number.adjusted() + 1
    prefix = "-" if number.is_signed() else ""
    if -3 < point <= 7:  # Java writes other numbers than 0.001 <= x < 10000000 with an exponent
        padded = text.rjust(len(text) - point + 1, "0") if point <= 0 else text.ljust(point, "0")
        cut = max(point, 1)
        return f"{prefix}{padded[:cut]}.{padded[cut:] or '0'}"
    return f"{prefix}{text[0]}.{text[1:] or '0'}E{point - 1}"


def _shortest_single(value: float) -> str:
    candidates = (f"{value:.{precision}g}" for precision in range(1, 9))
    return next((c for c in candidates if _single(float(c)) == value), f"{value:.9g}")


def _single(value: float) -> float:
    """Return the nearest number that a 32-bit float can hold."""
    try:
        result: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return result


def _with_fraction(clock: str, microsecond: int, day: str) -> str:
    fraction = f".{microsecond:06d}".rstrip("0") if microsecond else ""
    return f"{day}{clock}{fraction}"


def local_text(text: str, data_type: DataType, zone: str, target_zone: str | None = None) -> str:
    """Convert a TIMESTAMP literal with a zone, such as ``…T10:00:00Z``, to local time; return other literals unchanged.

    Args:
        text: A literal.
        data_type: The type that the literal is cast to.
        zone: The name or the offset of the session's zone, in Spark's form.
        target_zone: The zone of the wanted local time; None for the session's zone. If it is another zone, a literal
            without a zone is taken as local time in the session's zone and converted, too.
    """
    trimmed = text.strip(_TRIMMED)
    if data_type.name != "timestamp":
        return text
    found = _ZONE.search(trimmed) or _REGION.search(trimmed)
    if found is None and target_zone in {None, zone}:
        return text
    end = len(trimmed) if found is None else found.end("clock")
    local = _cast_timestamp(trimmed[:end], data_type)
    source, target = _zone(zone if found is None else trimmed[end:].strip()), _zone(target_zone or zone)
    if not isinstance(local, datetime) or source is None or target is None:
        return text
    return value_text(local.replace(tzinfo=source).astimezone(target).replace(tzinfo=None))


def _zone(name: str) -> tzinfo | None:
    match = _OFFSET.fullmatch(name)
    if match is None:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            return None
    sign, hours, minutes, seconds = match.groups(default="0")
    offset = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    return timezone(-offset if sign == "-" else offset) if offset < timedelta(days=1) else None


_EPOCH = datetime(1970, 1, 1)


def epoch_microseconds(value: datetime) -> int:
    """Return the microseconds from 1970-01-01 00:00:00 to a local time; negative for earlier times."""
    return (value - _EPOCH) // timedelta(microseconds=1)
