"""Infers the schema of CSV files: names from the header, and types as Spark's ``inferSchema`` finds them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import SchemaConflictError
from catalog_ext.metastore.model.types import STRING, DataType, Field
from catalog_ext.scan.csv_dialect import Dialect, header_names
from catalog_ext.tables.schema.date_patterns import DatePattern, is_date, is_timestamp
from catalog_ext.tables.schema.merge import DOUBLE, MAX_PRECISION, VOID, loosen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.scan.text_lines import Head, ReaderOptions

_INTEGER = re.compile(r"[+-]?\d{1,40}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_DOUBLE = re.compile(
    r"[\x00-\x20]*[+-]?(?:NaN|Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?|0[xX][\da-fA-F]*\.?[\da-fA-F]+[pP][+-]?\d+[dDfF]?)"
    r"[\x00-\x20]*",
    re.ASCII,
)


def csv_fields(heads: Iterator[Head], options: ReaderOptions) -> tuple[Field, ...]:
    """Infer the columns of CSV files: the union of their headers, else ``_c0`` …; STRING unless ``inferSchema``.

    The connector reads each file by its own header (FileReaders.scala), so files may have their columns in any
    order, and lack some.

    Raises:
        SchemaConflictError: The header of a file shares no column with the others: it is a line of values.
    """
    dialect = Dialect.of(options)
    has_header, infer = options.flag("header"), options.flag("inferSchema")
    types = CsvTypes(options) if infer else None
    found: dict[str, Field] = {}
    headed: Head | None = None
    for head in heads:
        rows = dialect.rows(head)
        first = next(rows, None)
        if first is None:
            continue
        names = header_names(first, options) if has_header else [f"_c{i}" for i in range(len(first))]
        if has_header and headed is not None and found.keys().isdisjoint(name.lower() for name in names):
            raise _no_header(headed, head, [field.name for field in found.values()], names)
        headed = headed or head
        columns = [found.setdefault(n.lower(), Field(n, VOID if types else STRING)).type for n in names]
        if types is not None:
            if not has_header:
                columns = types.row(columns, first)
            for row in rows:
                columns = types.row(columns, row)
        for name, data_type in zip(names, columns, strict=True):
            found[name.lower()] = Field(found[name.lower()].name, data_type)
    return tuple(Field(f.name, STRING if f.type == VOID else f.type) for f in found.values())


def _no_header(known: Head, head: Head, columns: Sequence[str], names: Sequence[str]) -> SchemaConflictError:
    other_columns, other = (", ".join(some)[:200] for some in (columns, names))
    return SchemaConflictError(
        f"The header of {head.location} is ({other}), and has none of the columns of {known.location} "
        f"({other_columns}). Either the file has no header, or it is of another table. Write it again with a header, "
        "or give the schema and the option enforceSchema=true, by which all files are read by position.",
        {"file": str(known.location), "other_file": str(head.location), "column": names[0]},
    )


class CsvTypes:
    """Infers the narrowest type of a column, value by value (``CSVInferSchema``).

    Args:
        options: The reader options; inference uses ``nullValue``, ``nanValue``, ``positiveInf``, ``negativeInf``,
            ``preferDate``, ``dateFormat`` and ``timestampFormat``.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._null = options.text("nullValue", default="")
        self._words = {
            options.text("nanValue", default="NaN"),
            options.text("positiveInf", default="Inf"),
            options.text("negativeInf", default="-Inf"),
        }
        prefer_date = options.flag("preferDate", default=True)
        date_format = options.text("dateFormat", default="")
        timestamp_format = options.text("timestampFormat", default="")
        as_date = DatePattern(date_format).matches if date_format else is_date
        self._steps: list[tuple[str, Callable[[str], DataType | None]]] = [
            ("int", _integer(32, "int")),
            ("bigint", _integer(64, "bigint")),
            ("decimal", _decimal),
            ("double", lambda v: DOUBLE if v in self._words or _DOUBLE.fullmatch(v) else None),
            ("date", lambda v: DataType("date") if prefer_date and as_date(v) else None),
            (
                "timestamp",
                _when(DatePattern(timestamp_format).matches if timestamp_format else is_timestamp, "timestamp"),
            ),
            ("boolean", _when(lambda v: v.lower() in ("true", "false"), "boolean")),
        ]
        self._first = {name: i for i, (name, _) in enumerate(self._steps)}

    def row(self, types: Sequence[DataType], values: Sequence[str]) -> list[DataType]:
        """Return the columns' types after one more row; surplus values of a row are ignored."""
        widened = [self._value(t, v) for t, v in zip(types, values, strict=False)]
        return [*widened, *types[len(widened) :]]

    def _value(self, so_far: DataType, value: str) -> DataType:
        if so_far == STRING or value in ("", self._null):
            return so_far
        # Like Spark, try only the column's present type and wider ones: after timestamps, a value that looks like a
        # year does not turn the column into integers.
        for _, guess in self._steps[self._first.get(so_far.name, 0) :]:
            data_type = guess(value)
            if data_type is not None:
                return loosen(so_far, data_type)
        return STRING


def _when(condition: Callable[[str], bool], name: str) -> Callable[[str], DataType | None]:
    return lambda value: DataType(name) if condition(value) else None


def _integer(bits: int, name: str) -> Callable[[str], DataType | None]:
    half = 1 << (bits - 1)
    return _when(lambda value: _INTEGER.fullmatch(value) is not None and -half <= int(value) < half, name)


def _decimal(value: str) -> DataType | None:
    # Only integers that are too long for BIGINT become DECIMAL: Spark infers DOUBLE for fractions.
    if not _NUMBER.fullmatch(value) or (number := Decimal(value).as_tuple()).exponent != 0:
        return None
    precision = len(number.digits)
    return DataType("decimal", (precision, 0)) if precision <= MAX_PRECISION else None
