"""What jobs call rather than say, and LOAD DATA, with our session catalog on Spark's in-memory one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.spark import session as sessions
from tests.integration.session_commands import plain_session
from tests.integration.spark.test_session_catalog import Session, ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.spark_driver import Driver

__all__ = ["ours"]

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("session-jobs")
    with driver.catalog(
        catalog="spark_catalog", warehouse=str(folder / "ours"), index=str(folder / "index.db"), metastore=None
    ) as spark:
        spark.sql("CREATE DATABASE sales")
        yield Session(spark, sessions.active_catalog("spark_catalog"), plain_session(spark))


def test_the_interfaces_of_data_frames(ours: Session, tmp_path: Path) -> None:
    """What jobs call rather than say: each on ours as on Spark's own table, in a session without Hive."""
    spark = ours.spark
    frame = spark.createDataFrame([(3, "c")], "id INT, ds STRING")
    found = {}
    for name in ("sales.ours", "sales.theirs"):
        spark.table("sales.ours").where("id < 3").write.insertInto(name, overwrite=True)
        frame.write.insertInto(name)
        frame.write.mode("append").partitionBy("ds").saveAsTable(name)
        spark.catalog.cacheTable(name)
        cached = spark.catalog.isCached(name)
        spark.catalog.refreshTable(name)
        spark.catalog.recoverPartitions(name)
        spark.catalog.uncacheTable(name)
        columns = [(column.name, column.dataType, column.isPartition) for column in spark.catalog.listColumns(name)]
        table = spark.catalog.getTable(name)
        listed = name.partition(".")[2] in {one.name for one in spark.catalog.listTables("sales")}
        rows_of = sorted(tuple(row) for row in spark.read.table(name).collect())
        found[name] = (cached, columns, table.isTemporary, spark.catalog.tableExists(name), listed, rows_of)
    assert found["sales.ours"] == found["sales.theirs"]

    source = tmp_path / "source"
    frame.write.json(str(source))
    stream = spark.readStream.schema("id INT, ds STRING").json(str(source))
    options = {"checkpointLocation": str(tmp_path / "checkpoint")}
    stream.writeStream.options(**options).trigger(availableNow=True).toTable("sales.ours").awaitTermination()
    assert ours.rows("SELECT count(*) FROM sales.ours WHERE ds = 'c'") == [(3,)]


def test_files_are_loaded_without_hive(ours: Session, tmp_path: Path) -> None:
    """Spark has LOAD DATA for Hive's tables only."""
    ours.spark.createDataFrame([(7,)], "id INT").coalesce(1).write.parquet(str(tmp_path / "in"))
    ours.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/in' INTO TABLE sales.ours PARTITION (ds = 'l')")
    ours.sql(f"LOAD DATA INPATH '{tmp_path}/in' OVERWRITE INTO TABLE sales.ours PARTITION (ds = 'a')")
    assert ours.rows("SELECT * FROM sales.ours ORDER BY ds") == [(7, "a"), (2, "b"), (7, "l")]
    assert list((tmp_path / "in").glob("part-*")) == []
    condition = ours.condition(f"LOAD DATA LOCAL INPATH '{tmp_path}/in' INTO TABLE sales.theirs PARTITION (ds = 'l')")
    assert condition is not None
    ours.sql("CREATE TABLE sales.text (a STRING, b INT) USING catalog_ext OPTIONS ('format' = 'csv', 'quote' = '')")
    (tmp_path / "x.txt").write_text("one;1\n")
    ours.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/x.txt' INTO TABLE sales.text")
    ours.sql("ALTER TABLE sales.text SET SERDEPROPERTIES ('field.delim' = ';')")
    assert ours.rows("SELECT * FROM sales.text") == [("one", 1)]
    ours.sql("DROP TABLE sales.text")


def test_analyze_tables_goes_on_after_a_broken_table(ours: Session, tmp_path: Path) -> None:
    for name in ("analyzed_a", "analyzed_b"):
        (tmp_path / f"{name}.csv").write_text("x\ny\n")
        ours.sql(f"CREATE TABLE sales.{name} (a STRING) USING catalog_ext OPTIONS ('format' = 'csv')")
        ours.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/{name}.csv' INTO TABLE sales.{name}")
    place = Path(ours.catalog.load_table("sales.analyzed_a").definition.location.removeprefix("file://"))
    for file in place.glob("*.csv"):
        file.unlink()
    with ours.logged("commands.EachTable") as logged:
        ours.sql("ANALYZE TABLES IN sales COMPUTE STATISTICS")
    assert [line for line in logged() if "analyzed_a" in line and "CATALOG_EXT_FILE_MISSING" in line]
    assert not [line for line in logged() if "ANALYZE TABLES has not analyzed" in line and "analyzed_b" in line]
    assert ours.rows("SELECT rows FROM sales.analyzed_b.files") == [(2,)]
    for name in ("analyzed_a", "analyzed_b"):
        ours.sql(f"DROP TABLE sales.{name}")


def test_every_file_that_a_local_pattern_names_is_loaded(ours: Session, tmp_path: Path) -> None:
    ours.sql("CREATE TABLE sales.copies (a STRING, b INT) USING catalog_ext OPTIONS ('format' = 'csv')")
    # By its number, the second x.csv would get the third's name.
    for folder, name in (("d1", "x.csv"), ("d2", "x.csv"), ("d3", "1-x.csv")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(f"{folder},1\n")
    ours.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/d?/*x.csv' INTO TABLE sales.copies")
    assert ours.rows("SELECT a FROM sales.copies ORDER BY a") == [("d1",), ("d2",), ("d3",)]
    ours.sql("DROP TABLE sales.copies")


def test_a_hidden_file_that_a_local_path_names_is_refused(ours: Session, tmp_path: Path) -> None:
    ours.sql("CREATE TABLE sales.hidden (a STRING, b INT) USING catalog_ext OPTIONS ('format' = 'csv')")
    for name in ("a", "_b", "_k=1"):
        (tmp_path / f"{name}.csv").write_text(f"{name},1\n")
    # A wildcard names no hidden file, nor does a directory. A name with '=' is not hidden, as in Spark.
    for named in ("*", ""):
        ours.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/{named}' OVERWRITE INTO TABLE sales.hidden")
        assert ours.rows("SELECT a FROM sales.hidden ORDER BY a") == [("_k=1",), ("a",)], named
    for named in ("_b.csv", "{a,_b}.csv", "[_a]*.csv"):
        statement = f"LOAD DATA LOCAL INPATH '{tmp_path}/{named}' OVERWRITE INTO TABLE sales.hidden"
        assert ours.condition(statement) == "CATALOG_EXT_INVALID_INPUT", named
    assert ours.rows("SELECT a FROM sales.hidden ORDER BY a") == [("_k=1",), ("a",)]
    ours.sql("DROP TABLE sales.hidden")
