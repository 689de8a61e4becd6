"""`verify` refuses the columns that Spark refuses: types of Parquet and ORC files, read as each of Spark's types."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import orc
from pyarrow import parquet as pq
from pyspark.errors import PySparkException

from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.repair.verification import unreadable_reason
from catalog_ext.tables.schema.columnar import read_parquet_fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NOW = dt.datetime(2025, 1, 2, tzinfo=dt.timezone.utc)
FILES = {
    "boolean": pa.array([True]),
    "int32": pa.array([1], pa.int32()),
    "int64": pa.array([1], pa.int64()),
    "uint8": pa.array([1], pa.uint8()),
    "uint16": pa.array([1], pa.uint16()),
    "uint32": pa.array([1], pa.uint32()),
    "uint64": pa.array([1], pa.uint64()),
    "float": pa.array([1.0], pa.float32()),
    "double": pa.array([1.0]),
    "string": pa.array(["1"]),
    "fixed": pa.array([b"1234"], pa.binary(4)),
    "date": pa.array([NOW.date()]),
    "milliseconds": pa.array([NOW], pa.timestamp("ms")),
    "microseconds UTC": pa.array([NOW], pa.timestamp("us", "UTC")),
    "nanoseconds": pa.array([NOW], pa.timestamp("ns")),
    "nanoseconds UTC": pa.array([NOW], pa.timestamp("ns", "UTC")),
    "decimal": pa.array([Decimal("1.20")], pa.decimal128(5, 2)),
}
TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
    "timestamp_ntz",
)  # fmt: skip


@pytest.fixture(scope="module")
def spark(driver: Driver) -> Iterator[SparkSession]:
    with driver.session(connector=False) as session:
        yield session


@pytest.mark.parametrize("name", FILES)
def test_verify_refuses_what_spark_refuses(spark: SparkSession, tmp_path: Path, name: str) -> None:
    place = tmp_path / "a.parquet"
    pq.write_table(pa.table({"c": FILES[name]}), place, store_schema=False)
    refused_by_spark = [wanted for wanted in TYPES if is_refused(spark, place, wanted)]
    assert [wanted for wanted in TYPES if is_refused_here(place, wanted)] == refused_by_spark


def is_refused(spark: SparkSession, place: Path, wanted: str) -> bool:
    try:
        spark.read.schema(f"c {wanted}").format(place.suffix[1:]).load(str(place)).collect()
    except (PySparkException, Py4JJavaError):
        # Without the connector PySpark hands on the error of the JVM as it is.
        return True
    return False


def is_refused_here(place: Path, wanted: str) -> bool:
    location, columns = Location.parse(str(place)), [Column("c", wanted)]
    return unreadable_reason(Storage(), location, place.suffix[1:], columns) is not None


NESTED = {
    "list": pa.array([[1]], pa.list_(pa.int32())),
    "decimals": pa.array([[Decimal("1.20")]], pa.list_(pa.decimal128(5, 2))),
    "nanoseconds": pa.array([[NOW]], pa.list_(pa.timestamp("ns"))),
    "structs": pa.array([[{"a": 1}]], pa.list_(pa.struct({"a": pa.int32()}))),
    "struct": pa.array([{"a": 1, "B": "x"}], pa.struct({"a": pa.int32(), "B": pa.string()})),
    "twice": pa.array([{"a": 1, "A": 2}], pa.struct([("a", pa.int32()), ("A", pa.int32())])),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
    "leaf": pa.array([1], pa.int32()),
    "no rows": pa.array([], pa.list_(pa.int32())),
    "no rows, leaf": pa.array([], pa.int32()),
}
NESTED_TYPES = (
    "int", "array<int>", "array<string>", "array<decimal(4,2)>", "array<timestamp_ntz>", "array<array<int>>",
    "array<struct<a:string>>", "struct<A:bigint,b:string>", "struct<q:int>", "map<string,bigint>", "map<string,string>",
)  # fmt: skip


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_verify_refuses_the_nested_columns_that_spark_refuses(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    cases = []
    for name, values in NESTED.items():
        place = tmp_path / f"{name}.{file_format}"
        write(place, values)
        cases += [(place, wanted) for wanted in NESTED_TYPES]
    with ThreadPoolExecutor(4) as pool:
        by_spark = list(pool.map(lambda case: is_refused(spark, *case), cases))
    here = [is_refused_here(*case) for case in cases]
    differing = [(p.stem, w, s) for (p, w), s, h in zip(cases, by_spark, here, strict=True) if s != h]
    assert not differing


def write(place: Path, values: pa.Array) -> None:
    if place.suffix == ".orc":
        orc.write_table(pa.table({"c": values}), place)
    else:
        pq.write_table(pa.table({"c": values}), place, store_schema=False)


DECIMAL_FILES = {
    **{
        f"{p},{s}": pa.array([Decimal(1).scaleb(-s)], pa.decimal128(p, s))
        for p, s in ((5, 2), (9, 0), (18, 4), (25, 2))
    },
    **{
        name: FILES[name]
        for name in ("boolean", "int32", "int64", "uint32", "uint64", "double", "string", "fixed", "date")
    },
}
DECIMALS = (
    "decimal(5,2)", "decimal(4,2)", "decimal(6,3)", "decimal(5,3)", "decimal(10,0)", "decimal(12,2)", "decimal(20,0)",
    "decimal(22,2)", "decimal(25,2)", "decimal(38,10)",
)  # fmt: skip
ORC_FILES = {
    "boolean": FILES["boolean"], "bigint": FILES["int64"], "double": FILES["double"], "string": FILES["string"],
    "binary": pa.array([b"1"]), "date": FILES["date"], "timestamp": FILES["nanoseconds"],
    "instant": FILES["nanoseconds UTC"], "decimal": FILES["decimal"],
}  # fmt: skip
ORC_TYPES = (*TYPES, "decimal(4,2)", "interval day to second", "interval year to month")


@pytest.mark.parametrize(
    ("suffix", "files", "types"),
    [
        (".parquet", DECIMAL_FILES, DECIMALS),
        (".integers.parquet", DECIMAL_FILES, DECIMALS),
        (".orc", ORC_FILES, ORC_TYPES),
    ],
    ids=["decimals", "decimals in integers", "ORC"],
)
def test_verify_refuses_what_spark_leaves_out_of_a_folder(
    spark: SparkSession, tmp_path: Path, suffix: str, files: dict[str, pa.Array], types: tuple[str, ...]
) -> None:
    """Spark looks at all files of a folder in one job, and passes over those that it cannot read."""
    integers = suffix == ".integers.parquet"
    for name, values in files.items():
        if integers and pa.types.is_decimal(values.type) and values.type.precision <= 18:
            table = pa.table({"c": values})
            pq.write_table(table, tmp_path / f"{name}{suffix}", store_schema=False, store_decimal_as_integer=True)
        else:
            write(tmp_path / f"{name}{suffix}", values)
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        for wanted in types:
            frame = spark.read.schema(f"c {wanted}").format(suffix.rpartition(".")[2]).load(str(tmp_path))
            rows = frame.selectExpr("_metadata.file_name", "CAST(c AS STRING)").collect()
            refused = {f"{name}{suffix}" for name in files} - {row[0] for row in rows}
            assert {p.name for p in tmp_path.iterdir() if is_refused_here(p, wanted)} == refused, wanted
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_map_with_optional_keys_is_read_and_passes(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet's own Java writer makes the file, as that of Presto and Hive does."""
    jvm: Any = spark._jvm
    schema = jvm.org.apache.parquet.schema.MessageTypeParser.parseMessageType(
        "message m { optional int32 x; optional group m (MAP) { repeated group key_value {"
        " optional binary key (UTF8); optional int32 value; } } }"
    )
    place = tmp_path / "a.parquet"
    path = jvm.org.apache.hadoop.fs.Path(str(place))
    builder = jvm.org.apache.parquet.hadoop.example.ExampleParquetWriter.builder(path).withType(schema)
    writer = builder.build()
    row = jvm.org.apache.parquet.example.data.simple.SimpleGroup(schema)
    row.append("x", 1)
    entry = row.addGroup("m").addGroup("key_value")
    entry.append("key", "a")
    entry.append("value", 5)
    writer.write(row)
    writer.close()
    assert spark.read.parquet(str(place)).collect() == [(1, {"a": 5})]
    location = Location.parse(str(place))
    assert unreadable_reason(Storage(), location, "parquet", [Column("x", "int")]) is None
    fields = read_parquet_fields(Storage(), location)
    assert [(f.name, str(f.type)) for f in fields] == [("x", "int"), ("m", "map<string,int>")]
