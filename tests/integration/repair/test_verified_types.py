"""`verify` refuses the columns that Spark refuses: each Parquet type read as each of Spark's types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import parquet as pq
from pyspark.errors import PySparkException

from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.repair.file_checks import unreadable_reason
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
    refused_by_spark, refused_here = [], []
    for wanted in TYPES:
        try:
            spark.read.schema(f"c {wanted}").parquet(str(place)).collect()
        except (PySparkException, Py4JJavaError):
            # Without the connector PySpark hands on the error of the JVM as it is.
            refused_by_spark.append(wanted)
        if unreadable_reason(Storage(), Location.parse(str(place)), "parquet", [Column("c", wanted)]):
            refused_here.append(wanted)
    assert refused_here == refused_by_spark


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
