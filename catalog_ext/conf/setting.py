"""The class of settings: key, default, meaning, the places where it can be given, and the parser of its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError
from catalog_ext.metastore.model.durations import duration_s
from catalog_ext.metastore.model.properties import property_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
Word = TypeVar("Word", bound=str)

ENVIRONMENT_PREFIX = "CATALOG_EXT_"
DEFAULT_STAGING = "_catalog_ext_staging"
_OWN_NAMES = "_catalog_ext_"
"""The prefix of directories and files that catalog-ext creates in a table's directory."""
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE = re.compile(r"(\d{1,19}) ?([kmgtp]?)(?:i?b)?", re.ASCII)
_MOST = 2**63 - 1


class Scope(StrEnum):
    """The places where a setting can be given, in the order of precedence."""

    READ = "option of a read"
    STREAM = "option of a stream"
    WRITE = "option of a write"
    SESSION = "Spark conf `spark.sql.catalog.<catalog>.<key>`"
    SQL = "`SET` in the session"
    TABLE = "table property"
    ENVIRONMENT = "environment variable"


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """The accepted values of a setting.

    Attributes:
        values: Describes them for users.
        parse: Returns the value of a text; raises ``ValueError`` with the expected form as its message.
    """

    values: str
    parse: Callable[[str], T]


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A setting.

    Attributes:
        key: The setting's name, without a prefix.
        default: The text of the default value; None if there is no default.
        form: The accepted values.
        scopes: The places where it can be given.
        doc: One line for users.
        alias: Another system's name for it, valid wherever the key is.
        spark: The equivalent key of Spark's own conf, which ranks between the session's conf and the table's property.
        spark_last: Whether that conf ranks after the table's property instead.
        hive: The setting's names in Hive's configuration and in Spark's for Hive, in order; they rank after the
            environment.
    """

    key: str
    default: str | None
    form: Form[T]
    scopes: tuple[Scope, ...]
    doc: str
    alias: str | None = None
    spark: str | None = None
    spark_last: bool = False
    hive: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The key, followed by the alias if there is one."""
        return (self.key,) if self.alias is None else (self.key, self.alias)

    @property
    def variable(self) -> str:
        """The corresponding environment variable."""
        return ENVIRONMENT_PREFIX + self.key.upper().replace(".", "_").replace("-", "_")

    def read(self, *sources: Mapping[str, str]) -> T:
        """Return the value from the first of the sources that has the key, else the default.

        Raises:
            InvalidConfigurationError: The text is invalid for the key, or there is neither text nor default.
        """
        text = self.text(*sources)
        if text is None:
            raise InvalidConfigurationError(f"The setting {self.key!r} is missing: {self.doc}")
        return self.value_of(text)

    def text(self, *sources: Mapping[str, str]) -> str | None:
        """Return the unchecked text from the first source with the key or its alias in any case, else the default."""
        found = (property_value(source, name) for source in sources for name in self.names)
        return next((text for text in found if text is not None), self.default)

    def value_of(self, value: str) -> T:
        """Return the value of a text.

        Raises:
            InvalidConfigurationError: The text is invalid for the key.
        """
        try:
            return self.form.parse(value.strip())
        except ValueError as error:
            raise InvalidConfigurationError(
                f"The setting {self.key!r} cannot be {value[:60]!r}: {error}.", {"key": self.key, "value": value[:60]}
            ) from error


def text_value(text: str) -> str:
    """Return the text if it is not empty.

    As all parsers of this module, it raises ``ValueError`` for an invalid text.
    """
    if not text:
        raise ValueError("it is empty")
    return text


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers in ASCII digits between two bounds, which are included."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not text.isascii() or len(text) > 19 or not least <= int(text) <= most:
            raise ValueError(f"give a whole number from {least} to {most}")
        return int(text)

    return parse


def or_all(parse_number: Callable[[str], int]) -> Callable[[str], int | None]:
    """Return a parser that also accepts ``all``, for which it returns None."""

    def parse(text: str) -> int | None:
        try:
            return None if text.lower() == "all" else parse_number(text)
        except ValueError as error:
            raise ValueError(f"{error}, or 'all'") from None

    return parse


count = whole_number(1, 1_000_000)
count_or_all = or_all(count)
any_count_or_all = or_all(whole_number(0, 1_000_000))
percentage = whole_number(0, 100)
long_integer = whole_number(0, _MOST)
above_zero = whole_number(1, _MOST)


def duration(text: str) -> float:
    """Return a duration in seconds; zero is allowed."""
    value = duration_s(text)
    if value is None:
        raise ValueError("give a duration such as 0s, 500ms, 30s, 2m or 7d")
    return value


def milliseconds_or_none(text: str) -> int | None:
    """Return a duration in whole milliseconds, zero allowed; None for ``none``."""
    if text.lower() == "none":
        return None
    value = duration_s(text)
    if value is None:
        raise ValueError("give a duration such as 0s, 30s, 10m or 1d, or 'none'")
    return round(value * 1000)


def seconds_of(value: str | float | None, name: str) -> float | None:
    """Return a duration argument in seconds. It may be a number, a text such as ``10m``, or None.

    Raises:
        InvalidInputError: The argument is not a duration.
    """
    if value is None:
        return None
    try:
        found = duration(value.strip()) if isinstance(value, str) else float(value)
        if not 0 <= found < 1e12:
            raise ValueError("give a duration from zero")
    except ValueError as error:
        raise InvalidInputError(f"The argument {name} cannot be {str(value)[:60]!r}: {error}.") from error
    return found


def seconds(text: str) -> float:
    """Return a duration above zero, in seconds."""
    value = duration_s(text)
    if not value:
        raise ValueError("give a duration above zero such as 500ms, 30s or 2m")
    return value


def size(text: str) -> int:
    """Return a positive size in bytes, in the syntax of Spark's ``JavaUtils.byteStringAs``; ``1 g``, ``1gib`` too."""
    match = _SIZE.fullmatch(text.lower())
    value = 0 if match is None else int(match.group(1)) * _BYTES[match.group(2)]
    if not 0 < value <= _MOST:
        raise ValueError("give a size above zero such as 1048576, 512m or 1g")
    return value


def staging_name(text: str) -> str:
    """Return a staging directory's name, checked: engines skip it, and catalog-ext has no other use for it.

    The comparison ignores case, because some stores do.
    """
    if not text.startswith(("_", ".")) or "/" in text or "=" in text or text in (".", "..") or len(text) > 100:
        raise ValueError("give a name of at most 100 characters that begins with '_' or '.', without '/' and '='")
    lower = text.lower()
    if lower == ".catalog-ext" or (lower.startswith(_OWN_NAMES) and text != DEFAULT_STAGING):
        raise ValueError(
            f"catalog-ext keeps other files under that name; give another one than '.catalog-ext' and those that begin "
            f"with '{_OWN_NAMES}', of which only '{DEFAULT_STAGING}' is for staging"
        )
    return text


def flag(text: str) -> bool:
    """Return whether the text is ``1`` or ``true``; ``0`` and ``false`` give False."""
    if text.lower() not in ("1", "true", "0", "false"):
        raise ValueError("give 1, 0, true or false")
    return text.lower() in ("1", "true")


def truth(text: str) -> bool:
    """Return whether the text is ``true``, in any case; like Hive, any other text counts as false."""
    return text.lower() == "true"


def boolean(text: str) -> bool:
    """Return the value of ``true`` or ``false``, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("give true or false")
    return text.lower() == "true"


def unchecked(text: str) -> str:
    """Return the text unchanged; it is checked later, together with the table."""
    return text


def words(*known: Word) -> Form[Word]:
    """Return the form of a setting whose value is one of these words, in any case."""

    def parse(text: str) -> Word:
        found = next((word for word in known if word == text.lower()), None)
        if found is None:
            raise ValueError(f"give {' or '.join(repr(str(word)) for word in known)}")
        return found

    *first, last = (f"`{word}`" for word in known)
    return Form(f"{', '.join(first)} or {last}", parse)


TEXT = Form("text", text_value)
NUMBER = Form("a whole number from 1", count)
FROM_ZERO = Form("a whole number from 0", long_integer)
TIME = Form("a duration: `500ms`, `30s`, `2m`; a bare number is seconds", seconds)
DURATION = Form(TIME.values, duration)
SIZE = Form("a size: `512m`, `1g`, `1 gb`, `1gib`; a bare number is bytes", size)
FLAG = Form("`1`, `0`, `true` or `false`", flag)
TRUE_OR_FALSE = Form("`true` or `false`", flag)
BOOLEAN = Form(TRUE_OR_FALSE.values, boolean)
TRUTH = Form("`true`; any other text is false", truth)


def settings_in(module: Mapping[str, object]) -> tuple[Setting[Any], ...]:
    """Return the settings among a module's ``globals()``, in the order of their definition or import."""
    return tuple(value for value in module.values() if isinstance(value, Setting))
