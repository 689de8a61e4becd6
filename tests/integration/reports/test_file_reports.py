"""Public bug reports about what other engines read wrongly out of files of Hive-style tables, restated on tables of
ours.

Each table is compared with Spark's own reader of the same files, before and after ANALYZE has put statistics into
the index.
"""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tests.integration.lake import local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with local_lake(driver, tmp_path_factory.mktemp("file_reports")) as made:
        yield made


def write(path: Path, rows: pa.Table, **options: Any) -> None:
    """Write a Parquet or ORC file, by the path's suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".orc":
        orc.write_table(rows, path, **options)
    else:
        pq.write_table(rows, path, **options)


def check_like_spark(lake: Lake, table: str, root: Path, kind: str, schema: str, questions: Sequence[str]) -> None:
    """Register the files; each question has Spark's answer from the same files, without and with statistics."""
    lake.catalog.register_table(
        f"w.{table}", location=str(root), format=kind, partition_columns={"k": "INT"}, schema=schema
    )
    lake.catalog.repair_partitions(f"w.{table}")
    lake.spark.read.schema(f"{schema}, k INT").format(kind).load(str(root)).createOrReplaceTempView("plain")
    expected = [Counter(map(str, lake.rows(q.format(t="plain")))) for q in questions]
    for _ in range(2):
        found = [Counter(map(str, lake.rows(q.format(t=f"lake.w.{table}")))) for q in questions]
        assert dict(zip(questions, found, strict=True)) == dict(zip(questions, expected, strict=True))
        lake.sql(f"ANALYZE TABLE lake.w.{table} COMPUTE STATISTICS FOR ALL COLUMNS")


@pytest.mark.report("apache/gluten#12436")
@pytest.mark.report("apache/paimon#9464")
@pytest.mark.report("ByConity/ByConity#1998")
def test_orc_files_with_positional_names_beside_named_ones(lake: Lake) -> None:
    """ORC files of old Hive releases have columns _col0, _col1, which are matched by position. In a table that also has
    files with real names, columns become NULL or mixed up.
    """
    root = lake.folder / "positional"
    write(root / "k=1" / "a.orc", pa.table({"_col0": pa.array([1, 2], pa.int32()), "_col1": ["one", None]}))
    write(root / "k=2" / "a.orc", pa.table({"name": ["three", "four"], "id": pa.array([3, 4], pa.int32())}))
    write(root / "k=3" / "a.orc", pa.table({"_col0": pa.array([5], pa.int32())}))
    check_like_spark(lake, "positional", root, "orc", "id INT, name STRING", (
        "SELECT id, name, k FROM {t}", "SELECT id FROM {t} WHERE name = 'one'", "SELECT name FROM {t} WHERE id = 3",
        "SELECT id FROM {t} WHERE name IS NULL", "SELECT min(id), max(id), min(name), max(name), count(name) FROM {t}",
        "SELECT k, count(id), max(name) FROM {t} GROUP BY k", "SELECT id FROM {t} WHERE id >= 5",
    ))  # fmt: skip


@pytest.mark.report("deephaven/deephaven-core#8425")
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_nulls_beside_bounds_are_found(lake: Lake, kind: str) -> None:
    """Engines lose rows when they skip files by column bounds, because bounds ignore NULLs: `<>`, NOT IN, `<=>` and IS
    NULL miss rows.
    """
    root = lake.folder / f"null_bounds_{kind}"
    x, f = pa.int32(), pa.float64()
    nan = float("nan")
    write(root / "k=1" / f"a.{kind}", pa.table({"x": pa.array([5, None, 5], x), "f": pa.array([1.0, nan, None], f)}))
    write(root / "k=2" / f"a.{kind}", pa.table({"x": pa.array([None, None], x), "f": pa.array([nan, nan], f)}))
    write(root / "k=3" / f"a.{kind}", pa.table({"x": pa.array([7, 9], x), "f": pa.array([-0.0, 0.0], f)}))
    write(root / "k=4" / f"a.{kind}", pa.table({"x": pa.array([], x), "f": pa.array([], f)}))
    conditions = (
        "x <> 5", "NOT x = 5", "x NOT IN (5)", "x IS NULL", "x IS NOT NULL", "x <=> NULL", "x <=> 5", "NOT x <=> 5",
        "x = 5 OR x IS NULL", "x > 5", "x BETWEEN 6 AND 8", "f > 1", "f >= 'NaN'", "f = 'NaN'", "f <> 1", "f = 0.0",
        "f < 0", "f IN (0.0, 1.0)", "isnan(f)", "coalesce(x, 0) = 0", "NOT (x > 5 AND f > 1)",
    )  # fmt: skip
    check_like_spark(lake, f"null_bounds_{kind}", root, kind, "x INT, f DOUBLE", (
        *(f"SELECT x, f, k FROM {{t}} WHERE {condition}" for condition in conditions),
        "SELECT min(x), max(x), count(x), count(*) FROM {t}", "SELECT min(f), max(f), count(f) FROM {t}",
        "SELECT k, min(x), max(x), count(x) FROM {t} GROUP BY k", "SELECT count(DISTINCT x) FROM {t}",
    ))  # fmt: skip


@pytest.mark.report("apache/datafusion#1433")
@pytest.mark.report("pola-rs/polars#15323")
def test_texts_and_unsigned_numbers_beside_odd_bounds(lake: Lake) -> None:
    """An equality filter finds no row, because file bounds were computed in the order of signed bytes, from cut-off
    texts, or for unsigned numbers.
    """
    root = lake.folder / "odd_bounds"
    texts = ["Two Way", "ÿÿ", "é", "z" * 400, "", "a\0b", "\U0001f600", "\uffff"]
    for number, text in enumerate(texts):
        rows = pa.table({
            "s": [text, "m"], "u": pa.array([2**31 + number, 1], pa.uint32()),
            "d": pa.array([decimal.Decimal("-1.50"), decimal.Decimal(number)], pa.decimal128(9, 2)),
            "t": pa.array([datetime.datetime(1500, 1, 1), datetime.datetime(2400, 1, 1)], pa.timestamp("us", "UTC")),
        })  # fmt: skip
        write(root / f"k={number}" / "a.parquet", rows)
        write(root / f"k={number}" / "b.parquet", rows, write_statistics=["d"])
        write(root / f"k={number}" / "c.parquet", rows, use_deprecated_int96_timestamps=True)
    quoted = [text.replace("\0", "\\0") for text in texts]
    check_like_spark(lake, "odd_bounds", root, "parquet", "s STRING, u BIGINT, d DECIMAL(9,2), t TIMESTAMP", (
        *(f"SELECT k, count(*) FROM {{t}} WHERE s = '{text}' GROUP BY k" for text in quoted),
        *(f"SELECT k, count(*) FROM {{t}} WHERE s {sign} 'é' GROUP BY k" for sign in ("<", "<=", ">", ">=", "<>")),
        "SELECT count(*) FROM {t} WHERE s LIKE 'zz%'", "SELECT count(*) FROM {t} WHERE u > 2147483649",
        "SELECT min(s), max(s), min(u), max(u), min(d), max(d), min(t), max(t), count(s) FROM {t}",
        "SELECT k, count(*) FROM {t} WHERE d < 0 GROUP BY k",
        "SELECT count(*) FROM {t} WHERE t < TIMESTAMP '1700-01-01'",
        "SELECT count(*) FROM {t} WHERE t > TIMESTAMP '2262-05-01'", "SELECT u, count(*) FROM {t} GROUP BY u",
    ))  # fmt: skip
