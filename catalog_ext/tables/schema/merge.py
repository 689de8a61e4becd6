"""Merges the types that one column has in several files or rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.types import STRING, DataType, Field

if TYPE_CHECKING:
    from collections.abc import Callable

VOID = DataType("void")
DOUBLE = DataType("double")
MAX_PRECISION = 38
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# Decimal digits of the widest value, as in Spark's ``DecimalType.forType``.
_INTEGER_PRECISION = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


class TypeConflictError(Exception):
    """No column type can hold two given types; ``path`` leads to them within the column.

    It stays within this package: the caller, which knows the two files, raises a ``SchemaConflictError`` from it.
    """

    def __init__(self, left: DataType, right: DataType, path: str) -> None:
        super().__init__(f"{left} and {right}")
        self.left = left
        self.right = right
        self.path = path


def widen(left: DataType, right: DataType, path: str = "") -> DataType:
    """Return the narrowest type that holds all values of two types exactly, and that Spark's columnar readers can read.

    Raises:
        TypeConflictError: There is no such type.
    """
    if left == right or right.name == "void":
        return left
    if left.name == "void":
        return right
    if left.is_string and right.is_string:
        return replace(STRING, collation=left.collation if left.collation == right.collation else None)
    if (nested := _nested(left, right, path, widen)) is not None:
        return nested
    widened = _widen_numbers(left, right)
    if widened is None:
        raise TypeConflictError(left, right, path)
    return widened


def loosen(left: DataType, right: DataType, path: str = "") -> DataType:
    """Return the type that Spark's CSV and JSON inference gives to values of two types; STRING if they conflict."""
    if left == right or right.name == "void":
        return left
    if left.name == "void":
        return right
    if (nested := _nested(left, right, path, loosen)) is not None:
        return nested
    if {left.name, right.name} == {"date", "timestamp"}:
        return DataType("timestamp")
    if not (_is_number(left) and _is_number(right)):
        return STRING
    if "double" in (left.name, right.name):
        return DOUBLE
    return _widen_numbers(left, right) or DOUBLE


def merge_fields(
    left: tuple[Field, ...], right: tuple[Field, ...], path: str, merge: Callable[[DataType, DataType, str], DataType]
) -> tuple[Field, ...]:
    """Return the union of two lists of fields by name, ignoring case, in the first spelling and order."""
    merged = {f.name.lower(): f for f in left}
    for f in right:
        known = merged.get(f.name.lower())
        inner = f"{path}.{f.name}" if path else f.name
        merged[f.name.lower()] = f if known is None else Field(known.name, merge(known.type, f.type, inner))
    return tuple(merged.values())


def _nested(
    left: DataType, right: DataType, path: str, merge: Callable[[DataType, DataType, str], DataType]
) -> DataType | None:
    if left.name != right.name:
        return None
    if left.name == "struct":
        return DataType("struct", fields=merge_fields(left.fields, right.fields, path, merge))
    if left.children:
        children = zip(left.children, right.children, strict=True)
        return DataType(left.name, children=tuple(merge(a, b, path) for a, b in children))
    return None


def _is_number(data_type: DataType) -> bool:
    return data_type.is_integer or data_type.name in ("float", "double", "decimal")


def _widen_numbers(left: DataType, right: DataType) -> DataType | None:
    names = {left.name, right.name}
    if left.is_integer and right.is_integer:
        return max(left, right, key=lambda t: _INTEGERS.index(t.name))
    if names == {"float", "double"} or (names & {"tinyint", "smallint", "int"} and "double" in names):
        return DOUBLE
    if "decimal" in names and all(t.is_integer or t.name == "decimal" for t in (left, right)):
        (left_precision, left_scale), (right_precision, right_scale) = _as_decimal(left), _as_decimal(right)
        scale = max(left_scale, right_scale)
        precision = max(left_precision - left_scale, right_precision - right_scale) + scale
        return DataType("decimal", (precision, scale)) if precision <= MAX_PRECISION else None
    return None


def _as_decimal(data_type: DataType) -> tuple[int, int]:
    if data_type.name == "decimal":
        precision, scale = data_type.parameters
        return precision, scale
    return _INTEGER_PRECISION[data_type.name], 0
