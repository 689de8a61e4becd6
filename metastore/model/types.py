"""Column types in the syntax of Spark's DDL; Hive's type strings are a dialect of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidTypeError
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

_ALIASES = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "dec": "decimal", "numeric": "decimal",
    "real": "float", "bool": "boolean", "character": "char", "timestamp_ltz": "timestamp",
}  # fmt: skip
_SIMPLE = frozenset({
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz", "variant", "void",
})  # fmt: skip
_INTERVAL_UNITS = (("year", "month"), ("day", "hour", "minute", "second"))
"""The units of Spark's two interval types, from the longest to the shortest."""
KEY_TYPES = frozenset({
    "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "char",
    "varchar", "date", "timestamp", "timestamp_ntz", "time",
})  # fmt: skip
"""Names of the types that a partition column may have; strings must have no collation."""

_BINARY_COLLATION = "UTF8_BINARY"
_COLLATION = re.compile(
    r"(?:UTF8_BINARY|UTF8_LCASE|UNICODE|[a-z]{2,3}(?:_[a-z]{4})?(?:_[a-z]{3})?)(?:_(?:CI|CS|AI|AS|RTRIM))*",
    re.IGNORECASE,
)
"""The form of Spark's collation names: a base, or a language, script and country, then modifiers."""

_MAX_DEPTH = 100
_TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.|'')*')|([\w$]+)|(.))", re.UNICODE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    type: DataType
    nullable: bool = True
    comment: str | None = None

    @property
    def data_type(self) -> DataType:
        """The field's type; ``Column`` has the same property, so both can be used alike."""
        return self.type


@dataclass(frozen=True, slots=True)
class DataType:
    """A data type; ``str()`` gives its canonical DDL text in lower case.

    Attributes:
        name: The name of the type. The name of an interval includes its units: ``interval day to second``.
        collation: The collation of a string that is not compared by its bytes; None for UTF8_BINARY.
    """

    name: str
    parameters: tuple[int, ...] = ()
    children: tuple[DataType, ...] = ()
    fields: tuple[Field, ...] = field(default=())
    collation: str | None = None

    def __str__(self) -> str:
        return self._plain_text() if self.collation is None else f"{self._plain_text()} collate {self.collation}"

    def _plain_text(self) -> str:
        if self.name == "struct":
            return f"struct<{','.join(_field_text(f) for f in self.fields)}>"
        if self.children:
            return f"{self.name}<{','.join(str(c) for c in self.children)}>"
        if self.parameters:
            return f"{self.name}({','.join(str(p) for p in self.parameters)})"
        return self.name

    @property
    def is_string(self) -> bool:
        """Whether the type is STRING, CHAR or VARCHAR."""
        return self.name in ("string", "char", "varchar")

    @property
    def is_integer(self) -> bool:
        """Whether the type is an integer type."""
        return self.name in ("tinyint", "smallint", "int", "bigint")

    def some(self, condition: Callable[[DataType], bool]) -> bool:
        """Return whether the condition holds for the type, or for a type nested in it."""
        nested = (*self.children, *(f.type for f in self.fields))
        return condition(self) or any(each.some(condition) for each in nested)


STRING = DataType("string")


def quote_name(name: str) -> str:
    """Return the name as written in DDL: in backticks, unless it is a plain word."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else "`" + name.replace("`", "``") + "`"


def quote_text(text: str) -> str:
    """Return the text as a literal of SQL and DDL, as Spark reads it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_ESCAPE = re.compile(r"''|\\(?:u([0-9A-Fa-f]{4})|U(00(?:0[0-9A-Fa-f]|10)[0-9A-Fa-f]{4})|([01][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def unquote_text(literal: str) -> str:
    """Return the text of a SQL literal in single quotes, with the escapes of Spark (``unescapeSQLString``)."""

    def character(match: re.Match[str]) -> str:
        short, long, octal, letter = match.groups()
        if letter is not None:
            return _ESCAPED.get(letter, letter)
        if octal is not None:
            return chr(int(octal, 8))
        return "'" if match[0] == "''" else chr(int(short or long, 16))

    return _ESCAPE.sub(character, literal[1:-1])


def _field_text(f: Field) -> str:
    text = f"{quote_name(f.name)}:{f.type}"
    if not f.nullable:
        text += " not null"
    if f.comment is not None:
        text += f" comment {quote_text(f.comment)}"
    return text


@lru_cache(maxsize=4096)
def parse_type(text: str) -> DataType:
    """Parse a Spark or Hive type string.

    Raises:
        InvalidTypeError: The text is not a type that Spark's tables can have.
    """
    parser = _Parser(text)
    result = parser.data_type()
    parser.expect_end()
    return result


def parse_fields(text: str) -> tuple[Field, ...]:
    """Return the columns of a DDL list such as ``id BIGINT NOT NULL, fare DECIMAL(10,2) COMMENT 'in USD'``.

    Raises:
        InvalidTypeError: The text is not a list of this form, or a name occurs twice.
    """
    parser = _Parser(text)
    fields = parser.field_list(())
    parser.expect_end()
    if not fields:
        raise InvalidTypeError("The schema has no column. Write for example 'id BIGINT, name STRING'.")
    return fields


class _Parser:
    """Parses the grammar of type strings and column lists that Spark and Hive share, and refuses everything else.

    sqlglot's parser is too lenient: it accepts ``char(0)``, ``decimal(39,0)``, ``map<int>``, ``array<int`` without its
    end, ``int; drop table x``, a repeated name and a column without a type, and it reads ``struct<$a:int>`` as a struct
    without fields. It also refuses Hive's ``name: type`` in a column list, and raises ``RecursionError`` for deep
    nesting.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [m.group(1) or m.group(2) or m.group(3) or m.group(4) for m in _TOKEN.finditer(text)]
        self._tokens = [t for t in self._tokens if t.strip()]
        self._next = 0
        self._depth = 0

    def _peek(self) -> str | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _take(self, *expected: str) -> str:
        token = self._peek()
        if token is None or (expected and token.lower() not in expected):
            raise self._error(f"expected {' or '.join(expected) or 'more'}")
        self._next += 1
        return token

    def _accept(self, word: str) -> bool:
        token = self._peek()
        if token is not None and token.lower() == word:
            self._next += 1
            return True
        return False

    def _error(self, problem: str, question: str = "") -> InvalidTypeError:
        found = self._peek()
        shown = self._text if len(self._text) <= 200 else f"{self._text[:120]}… ({len(self._text)} characters)"
        at = "the end" if found is None else repr(found[:40])
        message = f"{shown!r} is not a valid type or column list: {problem} at {at}. {question}".strip()
        return InvalidTypeError(message, {"type": shown})

    def expect_end(self) -> None:
        token = self._peek()
        if token is not None:
            raise self._error("unexpected text")

    def _integers(self) -> tuple[int, ...]:
        if not self._accept("("):
            return ()
        numbers: list[int] = []
        while True:
            token = self._take()
            if not token.isdecimal():
                raise self._error("expected a number")
            numbers.append(int(token))
            if self._take(",", ")") == ")":
                return tuple(numbers)

    def data_type(self) -> DataType:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"it nests too deep (more than {_MAX_DEPTH} levels)")
        result = self._data_type()
        self._depth -= 1
        return result

    def _data_type(self) -> DataType:
        start = self._next
        word = self._take().lower()
        name = _ALIASES.get(word, word)
        if name == "timestamp" and self._accept("without"):
            self._take("time")
            self._take("zone")
            return DataType("timestamp_ntz")
        if name == "array":
            return DataType(name, children=self._type_arguments(1))
        if name == "map":
            return self._map()
        if name == "interval":
            return self._interval()
        if name == "struct":
            if self._accept("<"):
                fields = self.field_list((">",))
                self._take(">")
                return DataType(name, fields=fields)
            raise self._error("expected '<'")
        parameters = self._integers()
        return self._scalar(name, parameters, start)

    def _map(self) -> DataType:
        key, value = self._type_arguments(2)
        if key.some(lambda each: each.collation is not None):
            raise self._error(f"a key of a MAP has no collation in Spark, and this is {str(key).upper()},")
        return DataType("map", children=(key, value))

    def _interval(self) -> DataType:
        first = self._take().lower()
        units = next((each for each in _INTERVAL_UNITS if first in each), None)
        if units is None:
            self._next -= 1
            raise self._error("expected YEAR, MONTH, DAY, HOUR, MINUTE or SECOND")
        shorter = units[units.index(first) + 1 :]
        if not shorter or not self._accept("to"):
            return DataType(f"interval {first}")
        return DataType(f"interval {first} to {self._take(*shorter).lower()}")

    def _collation(self) -> str | None:
        """Return the collation after a string type; None if there is no collation, or the default binary one."""
        if not self._accept("collate"):
            return None
        name = self._take().strip("`")
        if not _COLLATION.fullmatch(name):
            self._next -= 1
            raise self._error("expected a collation such as UTF8_BINARY, UTF8_LCASE or UNICODE_CI")
        if name.upper().startswith(("UTF8_", "UNICODE")):
            name = name.upper()
        return None if name == _BINARY_COLLATION else name

    def _scalar(self, name: str, parameters: tuple[int, ...], start: int) -> DataType:
        if name == "decimal":
            precision, scale = (*parameters, *(10, 0)[len(parameters) :])[:2]
            if len(parameters) <= 2 and 1 <= precision <= 38 and scale <= precision:
                return DataType(name, (precision, scale))
            raise self._error("DECIMAL takes a precision of 1 to 38 and a scale not above it,")
        if name in ("char", "varchar"):
            if len(parameters) == 1 and 1 <= parameters[0] <= 65535:
                return DataType(name, parameters, collation=self._collation())
            raise self._error(f"{name.upper()} takes one length of 1 to 65535,")
        if name == "time" and len(parameters) <= 1 and all(p <= 6 for p in parameters):
            return DataType(name, parameters or (6,))
        if name in _SIMPLE and not parameters:
            return DataType(name, collation=self._collation() if name == "string" else None)
        self._next = start
        raise self._error("unknown type", did_you_mean(name, _SIMPLE | KEY_TYPES | {"array", "map", "struct"}))

    def _type_arguments(self, count: int) -> tuple[DataType, ...]:
        self._take("<")
        children = [self.data_type()]
        for _ in range(count - 1):
            self._take(",")
            children.append(self.data_type())
        self._take(">")
        return tuple(children)

    def field_list(self, until: tuple[str, ...]) -> tuple[Field, ...]:
        fields: list[Field] = []
        seen: set[str] = set()
        while self._peek() is not None and self._peek() not in until:
            if fields:
                self._take(",")
            item = self._field()
            if item.name.lower() in seen:
                raise self._error(f"the column {item.name!r} comes twice")
            seen.add(item.name.lower())
            fields.append(item)
        return tuple(fields)

    def _field(self) -> Field:
        token = self._take()
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if not re.fullmatch(r"[\w$]+", token, re.UNICODE) and not token.startswith("`"):
            self._next -= 1
            raise self._error("expected a column name")
        self._accept(":")
        data_type = self.data_type()
        nullable = True
        if self._accept("not"):
            self._take("null")
            nullable = False
        comment = None
        if self._accept("comment"):
            literal = self._take()
            if not literal.startswith("'"):
                raise self._error("expected a comment in quotes")
            comment = unquote_text(literal)
        return Field(name, data_type, nullable, comment)
