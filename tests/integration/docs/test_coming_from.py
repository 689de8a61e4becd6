"""The statements of docs/coming-from/ and docs/tasks.md run, each page on a table as its words have it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGES = DOCS / "coming-from"
BUCKET = "s3a://bucket"
_ROW = re.compile(r"^\|(?P<theirs>.+?) \| (?P<fence>`{1,2}) ?(?P<ours>[A-Z].+?) ?(?P=fence) \|$", re.MULTILINE)
_BLOCK = re.compile(r"^```sql\n(?P<body>.+?)^```", re.MULTILINE | re.DOTALL)


def statements(page: str) -> list[str]:
    """What the table of statements has on our side."""
    table = page.partition("\n## Statements\n")[2].partition("\n## ")[0]
    found = [match["ours"] for match in _ROW.finditer(table)]
    assert len(found) == table.count("\n| ") - 1, "a row without a statement"
    return found


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("coming-from")
    arguments = {"warehouse": str(folder / "warehouse"), "index": str(folder / "index.db"), "metastore": None}
    with driver.catalog(**arguments) as session:
        session.sql("CREATE NAMESPACE lake.sales")
        yield session


@pytest.fixture
def bucket(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """Where the pages' table lies, and what they call corrected."""
    rows = spark.sql(
        "SELECT id, CAST(id AS DECIMAL(10,2)) AS fare, DATE '2025-01-01' AS ds, IF(id < 2, 'north', 'south') AS region "
        "FROM range(4)"
    )
    for table in ("trips", "stops"):
        rows.write.partitionBy("ds", "region").parquet(f"{tmp_path}/{table}")
    rows.createOrReplaceTempView("corrected")
    rows.write.option("header", True).csv(f"{tmp_path}/prices")
    rows.write.parquet(f"{tmp_path}/theirs")
    spark.sql(
        f"CALL lake.system.register_table(table => 'sales.trips', location => '{tmp_path}/trips', format => 'parquet', "
        "partition_columns => map('ds', 'DATE', 'region', 'STRING'))"
    )
    spark.sql("CALL lake.system.repair_partitions(table => 'sales.trips')")
    yield str(tmp_path)
    for row in spark.sql("SHOW TABLES IN lake.sales").collect():
        spark.sql(f"DROP TABLE lake.sales.{row.tableName}")


@pytest.mark.parametrize("name", [page.stem for page in sorted(PAGES.glob("*.md"))])
def test_every_statement_of_the_table_runs(spark: SparkSession, bucket: str, name: str) -> None:
    ours = statements((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    assert len(ours) > 6
    for statement in ours:
        spark.sql(statement.replace(BUCKET, bucket)).collect()
    # Whatever they have rewritten, or added once more: the rows are those of before.
    left = spark.sql("SELECT DISTINCT id, fare, ds, region FROM lake.sales.trips")
    assert sorted(left.collect()) == sorted(spark.table("corrected").collect())


@pytest.mark.parametrize("name", ["delta", "iceberg"])
def test_a_table_is_brought_over(spark: SparkSession, bucket: str, name: str) -> None:
    (statement,) = _BLOCK.findall((PAGES / f"{name}.md").read_text(encoding="utf-8"))
    theirs = re.sub(r"delta\.`[^`]+`|iceberg\.sales\.trips", f"parquet.`{bucket}/theirs`", statement).rstrip(";\n")
    assert theirs != statement.rstrip(";\n")
    spark.sql(theirs)
    assert spark.sql("SELECT * FROM lake.sales.moved").columns == ["id", "fare", "ds", "region"]
    assert [row.partition for row in spark.sql("SHOW PARTITIONS lake.sales.moved").collect()] == [
        "ds=2025-01-01/region=north",
        "ds=2025-01-01/region=south",
    ]


def test_the_tasks_are_done_one_after_the_other(spark: SparkSession, bucket: str) -> None:
    spark.sql("CALL lake.system.unregister_table('sales.trips')")
    blocks = _BLOCK.findall((DOCS / "tasks.md").read_text(encoding="utf-8"))
    done = [
        spark.sql(statement.replace(BUCKET, bucket)).collect()
        for block in blocks
        for statement in re.split(r";(?: --[^\n]*)?\n", block)
        if statement.strip()
    ]
    assert len(done) == 13
    counted, selected = done[3], done[4]
    assert sorted(map(tuple, counted)) == [("north", 2), ("south", 2)]
    assert {row.ds.isoformat() for row in selected} == {"2025-01-01"}
    assert spark.sql("SELECT * FROM lake.sales.daily").columns == ["region", "fare", "ds"]
    # Compacted, one row corrected, and no other changed.
    fares = spark.sql("SELECT id, CAST(fare AS INT) FROM lake.sales.trips ORDER BY id").collect()
    assert [tuple(row) for row in fares] == [(0, 0), (1, 2), (2, 2), (3, 3)]
    assert {row.files for row in done[-2]} <= {2}
