"""Files that we write, read by Hive's own readers: release 2.3 (Parquet 1.8, ORC 1.3) and release 4.0."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, HiveDatabase
from catalog_ext.metastore.hive.thrift.connect import connect
from tests.servers.hive_releases import RELEASE_4, ReleaseMetastore, engine_4

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveCli, HiveMetastore


NAMESPACE = "hive_files"


@dataclass(frozen=True)
class Sample:
    """A column: its type, a value in SQL, and how Hive prints it."""

    name: str
    type: str
    value: str
    printed: str

    @property
    def nested(self) -> bool:
        return self.type.startswith(("array", "map", "struct"))


SAMPLES = [
    Sample("yes", "boolean", "true", "true"),
    Sample("tiny", "tinyint", "-7", "-7"),
    Sample("small", "smallint", "-300", "-300"),
    Sample("whole", "int", "-70000", "-70000"),
    Sample("big", "bigint", "-5000000000", "-5000000000"),
    Sample("single", "float", "1.25", "1.25"),
    Sample("double", "double", "-2.5", "-2.5"),
    Sample("d9", "decimal(9,4)", "-12345.6789", "-12345.6789"),
    Sample("d18", "decimal(18,2)", "1234567890123456.78", "1234567890123456.78"),
    Sample("d38", "decimal(38,9)", "-12345678901234567890123.456789012", "-12345678901234567890123.456789012"),
    Sample("padded", "char(10)", "'ab'", "ab        "),
    Sample("short", "varchar(11)", "'äöü'", "äöü"),
    Sample("text", "string", "'x y'", "x y"),
    Sample("bytes", "binary", "X'616263'", "abc"),
    Sample("day", "date", "DATE'1999-12-31'", "1999-12-31"),
    Sample("julian", "date", "DATE'1500-03-01'", "1500-03-01"),
    Sample("at", "timestamp", "TIMESTAMP'2024-07-01 12:34:56.789123'", "2024-07-01 12:34:56.789123"),
    Sample("long_ago", "timestamp", "TIMESTAMP'1500-03-01 01:02:03'", "1500-03-01 01:02:03"),
    Sample("local", "timestamp_ntz", "TIMESTAMP_NTZ'2024-07-01 12:34:56.789123'", "2024-07-01 12:34:56.789123"),
    Sample("Mixed", "int", "5", "5"),
    Sample("numbers", "array<int>", "array(1, NULL, 3)", "[1,null,3]"),
    Sample("prices", "array<decimal(9,4)>", "array(1.5, NULL)", "[1.5,null]"),
    Sample("lists", "array<array<string>>", "array(array('a'), array(), NULL)", '[["a"],[],null]'),
    Sample("counts", "map<string,int>", "map('k', NULL)", '{"k":null}'),
    Sample("Tree", "struct<Left:int,right:array<struct<Leaf:date>>>",
           "named_struct('Left', 1, 'right', array(named_struct('Leaf', DATE'2020-01-02'), NULL))",
           '{"left":1,"right":[{"leaf":"2020-01-02"},null]}'),
    Sample("deep", "map<string,struct<D:decimal(20,3),at:timestamp>>",
           "map('z', named_struct('D', 7.125, 'at', TIMESTAMP'2020-01-02 03:04:05'))",
           '{"z":{"d":7.125,"at":"2020-01-02 03:04:05"}}'),
]  # fmt: skip


def samples_of(data_format: str) -> list[Sample]:
    """What the format can hold so that Hive reads it (docs/spec/metastore.md)."""
    match data_format:
        case "parquet" | "orc":
            return [s for s in SAMPLES if s.type != "timestamp_ntz"]
        case "json":
            return [s for s in SAMPLES if s.type != "binary"]
        case "csv":
            return [s for s in SAMPLES if not s.nested and s.type != "binary"]
    return [Sample("value", "string", "'x y'", "x y")]


FORMATS = ("parquet", "orc", "csv", "json", "text")
ROUNDED = {"d18": "1234567890123456.80", "d38": "-12345678901234568000000.000000000"}
"""Hive 4 reads the numbers of JSON as DOUBLE."""


@pytest.fixture(scope="module")
def spark(
    driver: Driver, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("hive_files")
    with driver.catalog(
        warehouse=str(root), index=f"sqlite:///{root}/index.db", metastore=hive_metastore.uri
    ) as session:
        # To Hive a timestamp is a wall clock: its own JVM's, or that of the one that wrote.
        zone = session._jvm.java.util.TimeZone.getDefault().getID()  # type: ignore[union-attr]
        session.conf.set("spark.sql.session.timeZone", zone)
        yield session


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> SparkSession:
    """A table of each format with a row of values, and a partition with a row of NULLs."""
    spark.sql(f"CREATE NAMESPACE lake.{NAMESPACE}")
    for data_format in FORMATS:
        samples = samples_of(data_format)
        columns = ", ".join(f"{s.name} {s.type}" for s in samples)
        table = f"lake.{NAMESPACE}.{data_format}"
        spark.sql(f"CREATE TABLE {table} ({columns}, part INT) USING {data_format} PARTITIONED BY (part)")
        values, nulls = ", ".join(s.value for s in samples), ", ".join("NULL" for _ in samples)
        spark.sql(f"INSERT INTO {table} SELECT {values}, 1 UNION ALL SELECT {nulls}, 2")
    return spark


@pytest.fixture(scope="module")
def hive_4(
    tables: SparkSession, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HiveCli]:
    """Hive 4 on a metastore of its own, which gets what the other one knows."""
    assert tables
    source = connect(hive_metastore.uri)
    server = ReleaseMetastore(RELEASE_4, tmp_path_factory.mktemp("metastore-4"))
    target = connect(server.uri)
    target.create_database(HiveDatabase(NAMESPACE))
    for data_format in FORMATS:
        table = source.get_table(NAMESPACE, data_format)
        target.create_table(
            replace(table, table_type=EXTERNAL_TABLE, parameters={**table.parameters, "EXTERNAL": "TRUE"})
        )
        target.add_partitions(NAMESPACE, data_format, list(source.partitions(NAMESPACE, data_format)))
    target.close()
    source.close()
    yield engine_4(tmp_path_factory.mktemp("hive-4"), server.uri)
    server.stop()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("release", ["2.3", "4.0"])
def test_hive_reads_every_type(tables: SparkSession, release: str, request: pytest.FixtureRequest) -> None:
    assert tables
    hive: HiveCli = request.getfixturevalue("hive_cli" if release == "2.3" else "hive_4")
    # Without a filter: a metastore of release 4 that stands alone cannot evaluate an engine's expression.
    answers = hive.run([f"SELECT * FROM {NAMESPACE}.{data_format}" for data_format in FORMATS])
    for data_format, rows in zip(FORMATS, answers, strict=True):
        samples = samples_of(data_format)
        values, nulls = sorted(rows, key=lambda row: row[-1])
        wanted = {s.name: s.printed for s in samples} | (ROUNDED if (release, data_format) == ("4.0", "json") else {})
        assert dict(zip([*wanted, "part"], values, strict=True)) == wanted | {"part": "1"}, data_format
        # Plain text has no NULL: Spark writes an empty line, and reads it as one.
        assert nulls == (*("" if data_format == "text" else "NULL" for _ in samples), "2"), data_format


@pytest.mark.spark
def test_spark_reads_what_it_was_given(tables: SparkSession) -> None:
    for data_format in FORMATS:
        samples = samples_of(data_format)
        same = ", ".join(
            f"{s.name} IS NOT DISTINCT FROM CAST({s.value} AS {s.type}) AS {s.name}"
            for s in samples
            if not s.type.startswith("map")
        )
        row = tables.sql(f"SELECT {same} FROM lake.{NAMESPACE}.{data_format} WHERE part = 1").first()
        assert row is not None
        assert [name for name, equal in row.asDict().items() if not equal] == [], data_format
