"""Infers the schema of JSON files, with the types that Spark's ``JsonInferSchema`` finds."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_ext.metastore.errors import InvalidInputError, SchemaConflictError
from catalog_ext.metastore.model.types import STRING, DataType, Field
from catalog_ext.tables.schema.date_patterns import DatePattern, is_timestamp
from catalog_ext.tables.schema.merge import DOUBLE, MAX_PRECISION, VOID, loosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.scan.text_lines import Head, ReaderOptions

_STRUCT = DataType("struct")
_LONG = DataType("bigint")
# In digits: a longer integer fits no integer or decimal type, and is read as a fraction. Spark's parser refuses a
# number that is longer than the second limit.
_LONGEST_INTEGER = 60
_LONGEST_NUMBER = 1000
_TOKEN = re.compile(r""""(?:[^"\\]|\\.)*"|'((?:[^'\\]|\\.)*)'|.""", re.DOTALL)

Pairs: TypeAlias = list[tuple[str, Any]]


class _TwinKeysError(Exception):
    """Raised if an object has two keys that differ in case only."""

    def __init__(self, key: str, twin: str) -> None:
        super().__init__(key, twin)
        self.key = key
        self.twin = twin


class _Object(list[tuple[str, Any]]):
    """The key-value pairs of a JSON object, as a class of its own, to distinguish them from a JSON array's list."""


def _integer(text: str) -> int | Decimal:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text) if len(text) <= _LONGEST_INTEGER else Decimal(f"{text}.0")


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_integer, parse_float=Decimal)


def json_fields(heads: Iterator[Head], options: ReaderOptions) -> tuple[Field, ...]:
    """Return the columns of JSON files, sorted by name.

    A line that is not an object adds the column of corrupt records.

    Keys that differ only in case between objects become one column, in the first spelling found: the connector finds
    keys in any case (``FileReaders.scala``).

    Raises:
        SchemaConflictError: One object has two keys that differ in case only.
        InvalidInputError: No line of any file is JSON, or the mode is FAILFAST and a line is not JSON.
    """
    guesser = JsonTypes(options)
    merged: DataType = VOID
    first: Head | None = None
    for head in heads:
        first = first or head
        for text in (
            [head.text] if options.flag("multiLine") else head.lines(options.text("lineSep", default="") or None)
        ):
            if text.strip():
                merged = loosen(merged, guesser.record(text, head))
    if first is not None and merged == guesser.corrupt:
        raise InvalidInputError(
            f"{first.location} and the other files of the sample hold no line that is a JSON object. Give the right "
            "format, or the option multiLine=true where objects span lines.",
            {"file": str(first.location)},
        )
    kept = _canonical(merged)
    return kept.fields if kept is not None else ()


class JsonTypes:
    """Infers the type of JSON values.

    Args:
        options: The reader options; inference uses ``primitivesAsString``, ``prefersDecimal``, ``inferTimestamp``,
            ``timestampFormat``, ``mode``, ``columnNameOfCorruptRecord`` and ``allowSingleQuotes``.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._as_string = options.flag("primitivesAsString")
        self._prefers_decimal = options.flag("prefersDecimal")
        pattern = options.text("timestampFormat", default="")
        is_time: Callable[[str], bool] = DatePattern(pattern).matches if pattern else is_timestamp
        self._is_timestamp = is_time if options.flag("inferTimestamp") else None
        self._single_quotes = options.flag("allowSingleQuotes", default=True)
        self._mode = options.text("mode", default="PERMISSIVE").upper()
        corrupt = options.text("columnNameOfCorruptRecord", default="_corrupt_record")
        self.corrupt = DataType("struct", fields=(Field(corrupt, STRING),))

    def record(self, line: str, head: Head) -> DataType:
        """Return the struct of one record; for a malformed record a struct of the corrupt-record column.

        Raises:
            InvalidInputError: The mode is FAILFAST and the record is malformed.
            SchemaConflictError: An object in the record has two keys that differ in case only.
        """
        try:
            value = self._parse(line.strip())
        except (ValueError, RecursionError) as error:
            if self._mode == "FAILFAST":
                raise InvalidInputError(
                    f"{head.location} holds malformed JSON in mode FAILFAST: {line.strip()[:120]!r} ({error}).",
                    {"file": str(head.location)},
                ) from error
            return self._no_record()
        try:
            found = self._type(value)
        except _TwinKeysError as error:
            raise SchemaConflictError(
                f"{head.location} has an object with the keys {error.twin!r} and {error.key!r}, which differ in case "
                f"only: {line.strip()[:120]!r}. Give the schema with the one to be read.",
                {"file": str(head.location), "column": error.key},
            ) from error
        if found.name == "array" and found.children[0].name == "struct":
            # A record that is an array of objects gives one row for each object.
            return found.children[0]
        return found if found.name == "struct" else self._no_record()

    def _no_record(self) -> DataType:
        return _STRUCT if self._mode == "DROPMALFORMED" else self.corrupt

    def _parse(self, text: str) -> object:
        try:
            return _DECODER.raw_decode(text)[0]
        except ValueError:
            if self._single_quotes and "'" in text:
                return _DECODER.raw_decode(_TOKEN.sub(_double_quoted, text))[0]
            raise

    def _type(self, value: object) -> DataType:
        match value:
            case None | "":
                # Spark infers nothing from an empty string, as from a missing value.
                return VOID
            case _Object():
                return self._struct(value)
            case list():
                element = VOID
                for item in value:
                    element = loosen(element, self._type(item))
                return DataType("array", children=(element,))
        if self._as_string:
            return STRING
        match value:
            case bool():
                return DataType("boolean")
            case int():
                return _integer_type(value)
            case Decimal():
                return self._fraction_type(value)
            case str() if self._is_timestamp is not None and self._is_timestamp(value):
                return DataType("timestamp")
            case str():
                return STRING
        # Python's JSON parser returns NaN and the infinities as floats, which Spark infers as DOUBLE.
        return DOUBLE

    def _struct(self, pairs: Pairs) -> DataType:
        types: dict[str, DataType] = {}
        spelled: dict[str, str] = {}
        for name, value in pairs:
            if (twin := spelled.setdefault(name.lower(), name)) != name:
                raise _TwinKeysError(name, twin)
            types[name] = loosen(types.get(name, VOID), self._type(value))
        return DataType("struct", fields=tuple(Field(n, t) for n, t in types.items()))

    def _fraction_type(self, value: Decimal) -> DataType:
        scale = -int(value.as_tuple().exponent)
        precision = max(len(value.as_tuple().digits), scale)
        if self._prefers_decimal and scale >= 0 and precision <= MAX_PRECISION:
            return DataType("decimal", (precision, scale))
        return DOUBLE


def _double_quoted(match: re.Match[str]) -> str:
    inner = match.group(1)
    return match.group() if inner is None else '"' + inner.replace("\\'", "'").replace('"', '\\"') + '"'


def _integer_type(value: int) -> DataType:
    if -(1 << 63) <= value < 1 << 63:
        return _LONG
    digits = len(str(abs(value)))
    return DataType("decimal", (digits, 0)) if digits <= MAX_PRECISION else DOUBLE


def _canonical(data_type: DataType) -> DataType | None:
    """Return the final form of an inferred type: STRING if there was no value, None for an object without fields."""
    if data_type.name == "void":
        return STRING
    if data_type.name == "array":
        element = _canonical(data_type.children[0])
        return None if element is None else DataType("array", children=(element,))
    if data_type.name != "struct":
        return data_type
    kept = ((f.name, _canonical(f.type)) for f in data_type.fields if f.name)
    fields = sorted((Field(name, t) for name, t in kept if t is not None), key=lambda f: f.name)
    return DataType("struct", fields=tuple(fields)) if fields else None
