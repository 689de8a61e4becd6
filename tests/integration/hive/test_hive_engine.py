"""Tables that we convert and deliver, read by a real Hive 2.3 and by Spark's own Hive catalog."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import csv, orc, parquet

from catalog_ext.metastore.hive.mapping.conversion import from_hive
from catalog_ext.metastore.hive.outbox.delivery import Deliverer
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import format_partition_name
from catalog_ext.metastore.model.tables import Column, DataFile, Namespace, TableDefinition, TableType
from tests.integration.spark_driver import HIVE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveCli, HiveMetastore


DATABASE = "engine"
HIVE_FORMATS = ("parquet", "orc", "csv")
REGIONS = ["eu west", "x/y", "q'd", "50%", "ä€", "k=v", None]
KEYS = (Column("ds", "date"), Column("Region", "string"))
NULL_DAY = 4
DAY = "2025-01-02"
PREDICATES = [
    ("true", lambda ds, region: True),
    (f"ds = '{DAY}' AND region = 'eu west'", lambda ds, region: (ds, region) == (DAY, "eu west")),
    (f"ds = '{DAY}' AND region = 'x/y'", lambda ds, region: (ds, region) == (DAY, "x/y")),
    (f"ds = '{DAY}' AND region = 'q\\'d'", lambda ds, region: (ds, region) == (DAY, "q'd")),
    (f"ds = '{DAY}' AND region IN ('50%', 'ä€')", lambda ds, region: ds == DAY and region in ("50%", "ä€")),
    (f"ds > '{DAY}' AND region > 'k'", lambda ds, region: (ds or "") > DAY and (region or "") > "k"),
    ("ds IS NULL AND region = 'k=v'", lambda ds, region: (ds, region) == (None, "k=v")),
    # To Hive 2.3 the NULL of a STRING key is this text.
    (f"ds = '{DAY}' AND region = '__HIVE_DEFAULT_PARTITION__'", lambda ds, region: (ds, region) == (DAY, None)),
]


def columns_of(data_format: str) -> tuple[Column, ...]:
    if data_format == "text":
        return (Column("value", "string"),)
    # Hive 2.3 finds ORC's columns by their names with case (docs/spec/metastore.md); case is kept everywhere else.
    return (
        Column("id" if data_format == "orc" else "Id", "bigint"),
        Column("name", "string"),
        Column("fare", "double"),
    )


def rows_of(day: int, region: str | None) -> pa.Table:
    base = day * 100 + REGIONS.index(region)
    return pa.table(
        {
            "Id": pa.array([base, base + 50], pa.int64()),
            "name": pa.array([f"n{base}", None]),
            "fare": pa.array([base / 4, None], pa.float64()),
        }
    )


def write(rows: pa.Table, path: Path, data_format: str) -> None:
    match data_format:
        case "parquet":
            parquet.write_table(rows, path)
        case "orc":
            orc.write_table(rows.rename_columns(["id", "name", "fare"]), path)
        case "csv":
            csv.write_csv(rows, path, csv.WriteOptions(delimiter=";", quoting_style="none"))
        case "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
        case "text":
            path.write_text("".join(f"{row['Id']}\x01{row['name']}\n" for row in rows.to_pylist()))


@dataclass(frozen=True)
class Expected:
    """What every reader of a table must find, by format."""

    location: Path
    rows: list[tuple[int, str | None, float | None, str | None, str | None]]


@pytest.fixture(scope="module")
def tables(hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Expected]]:
    """A table of each format, from files to the index, and from there through the outbox to the metastore."""
    root = tmp_path_factory.mktemp("tables of the engine")
    index = Index.open(f"sqlite:///{root}/index.db")
    index.namespaces.create(Namespace(DATABASE, location=(root / "db").as_uri()), deliver=True)
    found = {name: register(index, root / name, name) for name in ("parquet", "orc", "csv", "json", "text")}
    metastore = connect(hive_metastore.uri)
    report = Deliverer(index.outbox, lambda: metastore).deliver(timeout_s=120)
    assert (report.pending, report.error) == (0, None)
    yield found
    metastore.close()
    index.close()


def register(index: Index, location: Path, data_format: str) -> Expected:
    table = index.tables.create(
        TableDefinition(
            TableIdentifier(DATABASE, data_format),
            TableType.EXTERNAL,
            data_format,
            f"file://{location}",
            columns_of(data_format),
            KEYS,
            options={"sep": ";", "header": "true"} if data_format == "csv" else {},
        ),
        deliver=True,
    )
    changes, rows = [], []
    for day, region in [(day, region) for day in (1, 2, 3, NULL_DAY) for region in REGIONS]:
        ds = None if day == NULL_DAY else f"2025-01-{day:02d}"
        name = format_partition_name(["ds", "Region"], [ds, region])
        (location / name).mkdir(parents=True)
        file = location / name / f"part-0.{data_format}"
        content = rows_of(day, region)
        write(content, file, data_format)
        changes.append(AddPartition(name, (DataFile(file.name, file.stat().st_size, 1),)))
        rows += [(r["Id"], r["name"], r["fare"], ds, region) for r in content.to_pylist()]
    index.commits.apply_changes(table.table_id, changes, operation="repair", deliver=True)
    return Expected(location, sorted(rows))


@dataclass(frozen=True)
class HiveAnswers:
    """What Hive answered for one table: rows and partitions read by filter, partitions, and columns."""

    rows: list[list[tuple[str, ...]]]
    partitions_read: list[set[str]]
    partitions: list[str]
    columns: list[str]


@pytest.fixture(scope="module")
def hive_answers(tables: dict[str, Expected], hive_cli: HiveCli) -> dict[str, HiveAnswers]:
    """All that Hive is asked, in one run: each takes seconds to start."""
    assert tables
    filters = [where for where, _ in PREDICATES]
    statements = [
        statement
        for table in (f"{DATABASE}.{data_format}" for data_format in HIVE_FORMATS)
        for statement in (
            *(f"SELECT * FROM {table} WHERE {where}" for where in filters),
            *(f"EXPLAIN DEPENDENCY SELECT * FROM {table} WHERE {where}" for where in filters),
            f"SHOW PARTITIONS {table}",
            f"DESCRIBE {table}",
        )
    ]
    answers = hive_cli.run(statements)
    size = len(answers) // len(HIVE_FORMATS)
    return {
        data_format: HiveAnswers(
            rows=own[: len(filters)],
            partitions_read=[partitions_of(plan) for plan in own[len(filters) : -2]],
            partitions=[row[0] for row in own[-2]],
            columns=[row[0].strip() for row in own[-1]],
        )
        for data_format, own in zip(
            HIVE_FORMATS, (answers[i : i + size] for i in range(0, len(answers), size)), strict=True
        )
    }


def partitions_of(plan: list[tuple[str, ...]]) -> set[str]:
    return {p["partitionName"] for p in json.loads(plan[0][0])["input_partitions"]}


@pytest.mark.parametrize("data_format", HIVE_FORMATS)
def test_hive_reads_the_rows_and_prunes(
    tables: dict[str, Expected], hive_answers: dict[str, HiveAnswers], data_format: str
) -> None:
    found, expected = hive_answers[data_format], tables[data_format].rows
    assert len(found.partitions) == 4 * len(REGIONS)
    assert found.columns[:5] == ["id", "name", "fare", "ds", "region"]
    for (where, chosen), rows, read in zip(PREDICATES, found.rows, found.partitions_read, strict=True):
        wanted = [row for row in expected if chosen(row[3], row[4])]
        assert sorted(map(from_hive_row, rows)) == wanted, where
        assert len(read) == len(wanted) / 2, where  # two rows a partition


def from_hive_row(row: tuple[str, ...]) -> tuple[int, str | None, float | None, str | None, str | None]:
    number, name, fare, ds, region = (
        None if value in ("NULL", "__HIVE_DEFAULT_PARTITION__") else value for value in row[:5]
    )
    return int(number or 0), name, None if fare is None else float(fare), ds, region


@pytest.fixture(scope="module")
def spark(driver: Driver, hive_metastore: HiveMetastore) -> Iterator[SparkSession]:
    with driver.session({**HIVE, "spark.hadoop.hive.metastore.uris": hive_metastore.uri}, connector=False) as session:
        yield session


@pytest.mark.spark
@pytest.mark.parametrize("data_format", ["parquet", "orc", "csv", "json"])
def test_sparks_hive_catalog_reads_the_same(tables: dict[str, Expected], spark: SparkSession, data_format: str) -> None:
    table = spark.table(f"{DATABASE}.{data_format}")
    assert table.columns == [*(c.name for c in columns_of(data_format)), "ds", "Region"]
    assert dict(table.dtypes)["ds"] == "date"
    rows = sorted((r[0], r[1], r[2], r[3] and str(r[3]), r[4]) for r in table.collect())
    assert rows == tables[data_format].rows
    chosen = table.where("ds = '2025-01-02' AND Region = 'x/y'")
    assert [f.rpartition("Region=")[2] for f in chosen.inputFiles()] == [f"x%252Fy/part-0.{data_format}"]
    assert chosen.count() == 2


@pytest.mark.spark
def test_sparks_hive_catalog_reads_text(tables: dict[str, Expected], spark: SparkSession) -> None:
    rows = spark.table(f"{DATABASE}.text").where("ds = '2025-01-01' AND Region IS NULL").collect()
    number = 100 + REGIONS.index(None)
    assert sorted(r.value for r in rows) == [f"{number}\x01n{number}", f"{number + 50}\x01None"]


@pytest.mark.spark
def test_what_spark_and_hive_make_can_be_imported(
    spark: SparkSession, hive_cli: HiveCli, hive_metastore: HiveMetastore, tables: dict[str, Expected]
) -> None:
    assert tables
    spark.sql(f"""
        CREATE TABLE {DATABASE}.by_spark
            (Id BIGINT, Tag CHAR(3), at TIMESTAMP_NTZ, Day DATE)
        USING csv OPTIONS (sep '|', nullValue 'none') PARTITIONED BY (Day)
        COMMENT 'made by Spark' TBLPROPERTIES ('team' = 'x')
    """)
    spark.sql(
        f"CREATE TABLE {DATABASE}.by_spark_as_hive (Id INT, tree STRUCT<A: INT, b: ARRAY<STRING>>) "
        "PARTITIONED BY (k STRING) STORED AS ORC"
    )
    spark.sql(f"CREATE VIEW {DATABASE}.a_view AS SELECT 1 AS one")
    hive_cli.run(
        [
            f"CREATE TABLE {DATABASE}.by_hive (Id INT, name STRING) COMMENT 'made by Hive' PARTITIONED BY (ds DATE) "
            "CLUSTERED BY (id) INTO 2 BUCKETS ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\t' NULL DEFINED AS '-' "
            "STORED AS TEXTFILE",
            f"CREATE TABLE {DATABASE}.by_hive_csv (a STRING, b STRING) "
            "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' "
            "TBLPROPERTIES ('skip.header.line.count'='1')",
        ]
    )
    client = connect(hive_metastore.uri)
    tables_found = {name: client.get_table(DATABASE, name) for name in client.list_tables(DATABASE)}
    client.close()
    by_spark = from_hive(tables_found["by_spark"])
    assert [(c.name, c.type) for c in by_spark.columns] == [
        ("Id", "bigint"),
        ("Tag", "char(3)"),
        ("at", "timestamp_ntz"),
    ]
    assert (by_spark.partition_columns, by_spark.format, dict(by_spark.options), by_spark.comment) == (
        (Column("Day", "date"),),
        "csv",
        {"sep": "|", "nullValue": "none"},
        "made by Spark",
    )
    assert dict(by_spark.properties) == {"team": "x"}
    as_hive = from_hive(tables_found["by_spark_as_hive"])
    assert [(c.name, c.type) for c in (*as_hive.columns, *as_hive.partition_columns)] == [
        ("Id", "int"),
        ("tree", "struct<A:int,b:array<string>>"),
        ("k", "string"),
    ]
    by_hive = from_hive(tables_found["by_hive"])
    assert (by_hive.format, dict(by_hive.options)) == (
        "csv",
        {"sep": "\t", "quote": "", "nullValue": "-", "serde": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"},
    )
    assert (by_hive.table_type, by_hive.comment) == (TableType.MANAGED, "made by Hive")
    assert by_hive.bucketed_by == "id into 2 buckets"
    assert from_hive(tables_found["by_hive_csv"]).options["header"] == "true"
    with pytest.raises(Exception, match="a view"):
        from_hive(tables_found["a_view"])
