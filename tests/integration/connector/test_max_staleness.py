"""``max-staleness`` in queries: given by the read, the session and the table; one state in a statement."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.scans import files_read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stale")


@pytest.fixture(scope="module")
def spark(driver: Driver, root: Path) -> Iterator[SparkSession]:
    with driver.catalog(
        warehouse=str(root / "warehouse"), index=f"sqlite:///{root}/index.db", metastore=None
    ) as session:
        session.sql("CREATE NAMESPACE lake.s")
        yield session


def put(place: Path, name: str, *values: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(values, pa.int32())}), place / name)


@pytest.fixture
def tree(spark: SparkSession, tmp_path: Path) -> Path:
    """The table ``lake.s.t``: two days with a row each, whose index is in sync."""
    spark.sql("DROP TABLE IF EXISTS lake.s.t")
    for day in (1, 2):
        put(tmp_path / "t" / f"ds=2025-01-0{day}", "1.parquet", day)
    spark.sql(f"CALL lake.system.register_table('s.t', '{tmp_path / 't'}')")
    spark.sql("CALL lake.system.repair_partitions('s.t')")
    return tmp_path / "t"


def ids(spark: SparkSession, text: str) -> list[int]:
    return sorted(row[0] for row in spark.sql(text).collect())


def test_read_session_and_table(spark: SparkSession, tree: Path) -> None:
    day = tree / "ds=2025-01-01"
    put(day, "2.parquet", 10)
    put(tree / "ds=2025-01-02", "2.parquet", 20)
    assert ids(spark, "SELECT id FROM lake.s.t WHERE ds = '2025-01-01'") == [1]
    assert ids(spark, "SELECT id FROM lake.s.t WITH ('max-staleness' = '1h') WHERE ds = '2025-01-01'") == [1]
    assert ids(spark, "SELECT id FROM lake.s.t WITH ('max-staleness' = '0s') WHERE ds = '2025-01-01'") == [1, 10]
    assert ids(spark, "SELECT id FROM lake.s.t") == [1, 2, 10], "the other day was not selected"
    put(day, "3.parquet", 11)
    spark.conf.set("spark.sql.catalog.lake.max-staleness", "0s")
    try:
        frame = spark.sql("SELECT id FROM lake.s.t WHERE ds = '2025-01-01'")
        assert sorted(row.id for row in frame.collect()) == [1, 10, 11]
        assert files_read(frame) == 3
        put(day, "4.parquet", 12)
        off = "SELECT id FROM lake.s.t WITH ('max-staleness' = 'none') WHERE ds = '2025-01-01'"
        assert ids(spark, off) == [1, 10, 11]
    finally:
        spark.conf.unset("spark.sql.catalog.lake.max-staleness")
    spark.sql("ALTER TABLE lake.s.t SET TBLPROPERTIES ('max-staleness' = '0s')")
    assert ids(spark, "SELECT id FROM lake.s.t WHERE ds = '2025-01-01'") == [1, 10, 11, 12]
    new = tree / "ds=2025-01-03"
    put(new, "1.parquet", 30)
    assert ids(spark, "SELECT id FROM lake.s.t WHERE ds IN ('2025-01-03', '2025-01-04')") == [30]
    shutil.rmtree(new)
    assert ids(spark, "SELECT id FROM lake.s.t WHERE ds = '2025-01-03'") == []
    with pytest.raises(Exception, match="max-staleness"):
        spark.sql("SELECT id FROM lake.s.t WITH ('max-staleness' = 'soon')").collect()


def test_answers_of_the_index_are_of_what_was_found(spark: SparkSession, tree: Path) -> None:
    spark.sql("ALTER TABLE lake.s.t SET TBLPROPERTIES ('max-staleness' = '0s')")
    spark.sql("INSERT INTO lake.s.t PARTITION (ds = '2025-01-01') VALUES (5)")
    put(tree / "ds=2025-01-04", "1.parquet", 40, 41)
    assert spark.sql("SELECT count(*), max(ds) FROM lake.s.t").first() == (5, "2025-01-04")
    put(tree / "ds=2025-01-05", "1.parquet", 50)
    both = "SELECT (SELECT max(ds) FROM lake.s.t), count(*), sum(id) FROM lake.s.t"
    assert spark.sql(both).first() == ("2025-01-05", 6, 1 + 2 + 5 + 40 + 41 + 50)


def test_a_statement_compares_once_and_its_next_run_again(spark: SparkSession, tree: Path) -> None:
    frame = spark.sql(
        "SELECT a.id FROM lake.s.t WITH ('max-staleness' = '0s') a JOIN lake.s.t WITH ('max-staleness' = '0s') b"
        " ON a.id = b.id WHERE a.ds = '2025-01-01' AND b.ds <= '2025-01-02'"
    )
    assert frame.count() == 1
    put(tree / "ds=2025-01-01", "2.parquet", 10)
    put(tree / "ds=2025-01-02", "2.parquet", 20)
    assert frame.count() == 2, "a held DataFrame is another statement each time it runs"
    assert sorted(row.id for row in spark.sql(
        "SELECT id FROM lake.s.t WITH ('max-staleness' = '0s') WHERE ds = (SELECT min(ds) FROM lake.s.t)"
    ).collect()) == [1, 10]  # fmt: skip


def test_a_join_that_prunes_while_it_runs_compares_what_it_reads(spark: SparkSession, tree: Path) -> None:
    spark.sql("SELECT '2025-01-02' AS day, 1 AS one").createOrReplaceTempView("chosen")
    for day in (1, 2):
        put(tree / f"ds=2025-01-0{day}", "2.parquet", day * 10)
    query = "SELECT id FROM lake.s.t WITH ('max-staleness' = '0s') t JOIN chosen ON t.ds = chosen.day WHERE one = 1"
    assert ids(spark, query) == [2, 20]


def test_an_insert_from_the_table_itself(spark: SparkSession, tree: Path) -> None:
    """What it selects is brought in sync by a commit of its own, to which appends are indifferent."""
    put(tree / "ds=2025-01-01", "2.parquet", 10)
    spark.sql("ALTER TABLE lake.s.t SET TBLPROPERTIES ('max-staleness' = '0s')")
    spark.sql("INSERT INTO lake.s.t PARTITION (ds = '2025-01-09') SELECT id FROM lake.s.t WHERE ds = '2025-01-01'")
    assert ids(spark, "SELECT id FROM lake.s.t WHERE ds = '2025-01-09'") == [1, 10]
