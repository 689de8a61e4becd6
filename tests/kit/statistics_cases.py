"""Files with complete, partial, missing and false statistics, and the values that may be trusted.

Every file has the columns x INT, y STRING, z BIGINT and d DECIMAL(9, 2), and by default the ten rows of ``ROWS``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from thrift.Thrift import TType

from tests.kit import footers
from tests.kit.footers import HAS_NULL, INT_STATISTICS, MAX, MAX_IS_EXACT, MAX_VALUE, MIN, MIN_VALUE, NULL_COUNT, VALUES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.footers import Message, Struct

    Known = dict[str, tuple[str | None, str | None, int | None]]
    Change = Callable[[int, str, Struct], Struct | None]

SCHEMA = pa.schema({"x": pa.int32(), "y": pa.string(), "z": pa.int64(), "d": pa.decimal128(9, 2)})
ROWS = pa.table(
    {
        "x": [None if i == 7 else i for i in range(10)],
        "y": [None if i == 3 else f"a{i}" for i in range(10)],
        "z": [i * 10 for i in range(10)],
        "d": [Decimal(i) + Decimal("1.5") for i in range(10)],
    },
    schema=SCHEMA,
)
NULLS = ROWS.set_column(0, "x", pa.nulls(10, pa.int32())).set_column(1, "y", pa.nulls(10, pa.string()))
X, Y, Z, D = ("0", "9", 1), ("a0", "a9", 1), ("0", "90", 0), ("1.50", "10.50", 0)
ALL: Known = {"x": X, "y": Y, "z": Z, "d": D}
UNCOUNTED: Known = {name: (low, high, None) for name, (low, high, _) in ALL.items()}
ARROW, OLD_ARROW = "parquet-cpp-arrow version 20.0.0", "parquet-cpp-arrow version 4.0.1"
OLD_MR = "parquet-mr version 1.8.1"


@dataclass(frozen=True)
class Case:
    """A file, and the statistics of it that are known: least, greatest, NULLs; a column that is left out is unknown."""

    name: str
    write: Callable[[Path], None]
    known: Known

    def __str__(self) -> str:
        return self.name


def _parquet(
    statistics: Callable[[int, str, Struct], Struct | None] | None = None,
    created_by: str | None = "",
    table: pa.Table = ROWS,
    **options: Any,
) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        pq.write_table(table, path, **options)
        footers.change_parquet(path, statistics, created_by)

    return write


def _changed(changes: dict[str, dict[int, Any]]) -> Callable[[int, str, Struct], Struct]:
    """Statistics of some columns with some fields set, or removed where the value is None."""

    def change(_group: int, name: str, found: Struct) -> Struct:
        for field, value in changes.get(name, {}).items():
            found.pop(field, None)
            if value is not None:
                kind = TType.BOOL if isinstance(value, bool) else TType.I64 if isinstance(value, int) else TType.STRING
                found[field] = (kind, value)
        return found

    return change


def _each(fields: dict[int, Any]) -> dict[str, dict[int, Any]]:
    return dict.fromkeys(SCHEMA.names, fields)


def _in_second_group(change: Change) -> Change:
    return lambda group, name, found: change(group, name, found) if group else found


def _old_bounds(_group: int, name: str, found: Struct) -> Struct:
    """Bounds in the fields of before, which were ordered by signed bytes."""
    low, high = found.pop(MIN_VALUE), found.pop(MAX_VALUE)
    return found | {MIN: low, MAX: high}


def _of_polars(path: Path) -> None:
    pl.from_arrow(ROWS).cast({"d": pl.Decimal(9, 2)}).write_parquet(path)  # type: ignore[union-attr, call-arg]


def _of_duckdb(path: Path) -> None:
    connection = duckdb.connect()
    connection.register("found", ROWS)
    connection.execute(f"COPY (SELECT * FROM found) TO '{path}' (FORMAT parquet)")
    connection.close()


def _randomly(seed: int) -> Callable[[Path], None]:
    """Two row groups, each column of which has lost some of its statistics."""
    chance = random.Random(seed)

    def change(_group: int, _name: str, found: Struct) -> Struct | None:
        if chance.random() < 0.2:
            return None
        lost = [field for field in (NULL_COUNT, MAX_VALUE, MIN_VALUE) if chance.random() < 0.3]
        return {field: value for field, value in found.items() if field not in lost}

    return lambda path: _parquet(change, row_group_size=5, table=chance.choice([ROWS, NULLS]))(path)


PARQUET = (
    Case("whole", _parquet(), ALL),
    Case("polars", _of_polars, ALL),
    Case("duckdb", _of_duckdb, ALL),
    Case("none", _parquet(write_statistics=False), {}),
    Case("of z alone", _parquet(write_statistics=["z"]), {"z": Z}),
    Case("no null_count", _parquet(_changed(_each({NULL_COUNT: None}))), UNCOUNTED),
    Case("null_count alone", _parquet(_changed(_each({MIN_VALUE: None, MAX_VALUE: None, MIN: None, MAX: None}))),
         {"x": (None, None, 1), "y": (None, None, 1)}),
    Case("least alone", _parquet(_changed(_each({MAX_VALUE: None, MAX: None}))),
         {"x": (None, None, 1), "y": (None, None, 1)}),
    Case("two groups", _parquet(row_group_size=5), ALL),
    Case("one group of two", _parquet(_in_second_group(lambda *_: None), row_group_size=5), {}),
    Case("one group counted", _parquet(_in_second_group(_changed(_each({NULL_COUNT: None}))), row_group_size=5),
         UNCOUNTED),
    Case("one group bounded", _parquet(
        _in_second_group(_changed({"x": {MIN_VALUE: None, MAX_VALUE: None, MIN: None, MAX: None}})), row_group_size=5),
         ALL | {"x": (None, None, 1)}),
    Case("all null", _parquet(table=NULLS), ALL | {"x": (None, None, 10), "y": (None, None, 10)}),
    Case("capitals", _parquet(table=ROWS.rename_columns(["X", "y", "Z", "d"])), ALL),
    Case("absent", _parquet(table=ROWS.drop_columns(["x", "d"])), {"y": Y, "z": Z}),
    Case("cut texts", _parquet(_changed({"y": {MIN_VALUE: b"a", MAX_VALUE: b"b", MAX_IS_EXACT: False}})),
         ALL | {"y": ("a", "b", 1)}),
    # Writers with known faults.
    Case("arrow 4", _parquet(_changed({"y": {NULL_COUNT: 0}}), OLD_ARROW), ALL | {"y": ("a0", "a9", None)}),
    Case("parquet-mr 1.8", _parquet(_changed(_each({NULL_COUNT: 0})), OLD_MR), UNCOUNTED),
    Case("parquet-mr 1.8, some", _parquet(_changed({}), OLD_MR),
         ALL | {"z": ("0", "90", None), "d": ("1.50", "10.50", None)}),
    Case("parquet-mr 1.7, old bounds", _parquet(_old_bounds, "parquet-mr version 1.7.0"),
         {"x": X, "y": (None, None, 1), "z": ("0", "90", None)}),
    Case("old bounds", _parquet(_old_bounds, ARROW), ALL | {"y": (None, None, 1), "d": (None, None, None)}),
    Case("polars 1", _parquet(_changed({"x": {NULL_COUNT: 10}, "y": {NULL_COUNT: 2}}), "Polars"),
         ALL | {"x": ("0", "9", None), "y": ("a0", "a9", None)}),
    Case("parquet-rs 4", _parquet(_changed({"x": {NULL_COUNT: 0}, "y": {NULL_COUNT: 0}}), "parquet-rs version 4.2.0",
         table=NULLS), {"z": Z, "d": D}),
    Case("parquet-go", _parquet(_changed({"x": {NULL_COUNT: -1}, "y": {NULL_COUNT: 0}}), "parquet-go version latest"),
         UNCOUNTED),
    Case("no writer", _parquet(created_by=None), UNCOUNTED),
    # What cannot be true.
    Case("more nulls than rows", _parquet(_changed({"x": {NULL_COUNT: 11}})), {"y": Y, "z": Z, "d": D}),
    Case("nulls alone, and bounds", _parquet(_changed({"x": {NULL_COUNT: 10}})), {"y": Y, "z": Z, "d": D}),
    Case("least above greatest", _parquet(
        _changed({"z": {MIN_VALUE: (99).to_bytes(8, "little"), MIN: None, MAX: None}})), {"x": X, "y": Y, "d": D}),
)  # fmt: skip


def _orc(
    statistics: Callable[[int, Message], Message] | None = None, table: pa.Table = ROWS, **changes: Any
) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        orc.write_table(table, path, compression="uncompressed")
        footers.change_orc(path, statistics, **changes)

    return write


def _without(*fields: int, column: int | None = None) -> Callable[[int, Message], Message]:
    return lambda number, found: footers.without(found, *fields) if column in (None, number) else found


def _counted(values: int, *, has_null: int | None) -> Callable[[int, Message], Message]:
    """Every column, the root too, says so many values and nothing else."""
    more = [] if has_null is None else [(HAS_NULL, 0, has_null)]
    return lambda _number, _found: [(VALUES, 0, values), *more]


def _x(*fields: tuple[int, int, Any]) -> Callable[[int, Message], Message]:
    """Column x with some fields in the place of what it has of them."""
    replaced = {field for field, _, _ in fields}
    return lambda number, found: [*footers.without(found, *replaced), *fields] if number == 1 else found


def _java(version: int, **more: Any) -> dict[str, Any]:
    """A file of ORC's Java writer of this version."""
    return {"writer_version": version, "footer": lambda found: [*footers.without(found, 9, 12), (9, 0, 0)], **more}


_NO_INT_MINIMUM = _x((INT_STATISTICS, 2, footers.write_message([(2, 0, 18)])))
_BY_PLACE = ROWS.rename_columns([f"_col{i}" for i in range(4)])
ORC = (
    Case("whole", _orc(), ALL),
    Case("java", _orc(**_java(9)), ALL),
    Case("all null", _orc(table=NULLS), ALL | {"x": (None, None, 10), "y": (None, None, 10)}),
    Case("capitals", _orc(table=ROWS.rename_columns(["X", "y", "Z", "d"])), ALL),
    Case("absent", _orc(table=ROWS.drop_columns(["x", "d"])), {"y": Y, "z": Z}),
    Case("by place", _orc(table=_BY_PLACE), {}),
    Case("none", _orc(footer=lambda found: footers.without(found, 7)), {}),
    Case("no index", _orc(_counted(0, has_null=0)), {}),
    Case("no index, of before hasNull", _orc(_counted(0, has_null=None)), {}),
    Case("no counts", _orc(_without(VALUES)), {}),
    Case("no count of x", _orc(_without(VALUES, column=1)), {"y": Y, "z": Z, "d": D}),
    Case("no hasNull", _orc(_without(HAS_NULL)), ALL),
    Case("no values and no NULLs", _orc(_x((VALUES, 0, 0), (HAS_NULL, 0, 0))), {"y": Y, "z": Z, "d": D}),
    Case("no values, of before hasNull", _orc(
        lambda number, found: [(VALUES, 0, 0)] if number == 1 else found), {"y": Y, "z": Z, "d": D}),
    Case("NULLs denied", _orc(_x((HAS_NULL, 0, 0))), {"y": Y, "z": Z, "d": D}),
    Case("NULLs claimed", _orc(_x((VALUES, 0, 10), (HAS_NULL, 0, 1))), ALL | {"x": ("0", "9", None)}),
    Case("no least", _orc(_NO_INT_MINIMUM), ALL | {"x": (None, None, 1)}),
    Case("no bounds", _orc(_without(INT_STATISTICS, 4, 6)), {
        name: (None, None, nulls) for name, (_, _, nulls) in ALL.items()}),
    Case("more values than rows", _orc(_x((VALUES, 0, 11))), {"y": Y, "z": Z, "d": D}),
    Case("stripes merged", _orc(lambda _number, found: [*footers.without(found, VALUES), (VALUES, 0, 5)]), {}),
    Case("rows not summed up", _orc(footer=lambda found: footers.without(found, 6)), {}),
    # Writers with known faults.
    Case("HIVE-8732", _orc(**_java(0)), {}),
    Case("HIVE-13083", _orc(**_java(3)), {"x": X, "y": Y, "z": Z}),
    Case("ORC-101", _orc(**_java(5)), ALL),
    Case("ORC-517", _orc(**_java(6)), {"x": X, "y": Y, "z": Z}),
    Case("cuDF", _orc(footer=lambda found: [*footers.without(found, 9, 12), (9, 0, 5)]), {}),
)  # fmt: skip


def _randomly_orc(seed: int) -> Callable[[Path], None]:
    """Each column has lost some of its statistics."""
    chance = random.Random(seed)

    def change(number: int, found: Message) -> Message:
        lost = [field for field in (VALUES, HAS_NULL, *range(INT_STATISTICS, HAS_NULL)) if chance.random() < 0.3]
        return footers.without(found, *lost) if number else found

    return lambda path: _orc(change, table=chance.choice([ROWS, NULLS]))(path)


RANDOM = {
    "parquet": tuple(Case(f"random {seed}", _randomly(seed), {}) for seed in range(8)),
    "orc": tuple(Case(f"random {seed}", _randomly_orc(seed), {}) for seed in range(8)),
}
