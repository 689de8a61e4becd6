"""Views in the catalog, from Spark: every statement on them, and what they are when tables of ours lie below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from catalog_ext.spark import session as sessions
from tests.integration import lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver


pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("views")
    with driver.catalog(warehouse=str(root), index=f"sqlite:///{root}/index.db", metastore=None) as session:
        session.sql("CREATE NAMESPACE lake.s")
        session.sql("USE lake.s")
        session.sql("CREATE TABLE trips (id INT, fare DOUBLE, ds STRING) PARTITIONED BY (ds)")
        session.sql("INSERT INTO trips VALUES (1, 1.5, 'a'), (2, 2.5, 'a'), (3, 3.5, 'b')")
        yield session


def rows(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return sorted(lake.rows(spark, text))


def condition(spark: SparkSession, text: str) -> str | None:
    """The condition of the error that a statement raises."""
    with pytest.raises((AnalysisException, ParseException)) as raised:
        spark.sql(text).collect()
    return raised.value.getCondition()


def test_the_life_of_a_view(spark: SparkSession) -> None:
    spark.sql(
        "CREATE VIEW cheap (number COMMENT 'its number', price) COMMENT 'small fares' TBLPROPERTIES ('a' = 'b') "
        "AS SELECT id, fare FROM trips WHERE fare < 3"
    )
    assert rows(spark, "SELECT * FROM cheap") == [(1, 1.5), (2, 2.5)]
    assert rows(spark, "SELECT number FROM lake.s.cheap c JOIN trips t ON c.number = t.id") == [(1,), (2,)]
    assert spark.table("lake.s.cheap").columns == ["number", "price"]
    assert ("s", "cheap", False) in [tuple(r)[:3] for r in spark.sql("SHOW VIEWS IN lake.s").collect()]
    assert ("number", "int", "its number") in rows(spark, "DESCRIBE cheap")
    assert ("a", "b") in rows(spark, "SHOW TBLPROPERTIES cheap")
    spark.sql("CREATE VIEW IF NOT EXISTS cheap AS SELECT 1 AS one")
    spark.sql("ALTER VIEW cheap SET TBLPROPERTIES ('c' = 'd')")
    spark.sql("ALTER VIEW cheap UNSET TBLPROPERTIES ('a')")
    assert [r for r in rows(spark, "SHOW TBLPROPERTIES cheap") if r[0] in "abcd"] == [("c", "d")]
    text = spark.sql("SHOW CREATE TABLE cheap").collect()[0][0]
    spark.sql("ALTER VIEW cheap AS SELECT id FROM trips WHERE id = 3")
    assert rows(spark, "SELECT * FROM cheap") == [(3,)]
    spark.sql("ALTER VIEW cheap RENAME TO lake.s.cheaper")
    assert condition(spark, "SELECT * FROM cheap") == "TABLE_OR_VIEW_NOT_FOUND"
    spark.sql("DROP VIEW cheaper")
    spark.sql("DROP VIEW IF EXISTS cheaper")
    assert condition(spark, "DROP VIEW cheaper") in ("VIEW_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND")
    spark.sql(text)
    assert rows(spark, "SELECT price FROM cheap") == [(1.5,), (2.5,)]
    spark.sql("DROP VIEW cheap")


def test_tables_and_views_share_their_names(spark: SparkSession) -> None:
    spark.sql("CREATE VIEW taken AS SELECT * FROM trips")
    assert condition(spark, "CREATE VIEW taken AS SELECT 1 AS one") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    assert condition(spark, "CREATE TABLE taken (a INT)") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    for words in ("CREATE TABLE", "CREATE OR REPLACE TABLE"):
        assert condition(spark, f"{words} taken AS SELECT 1 AS one") == "CATALOG_EXT_TABLE_ALREADY_EXISTS"
    assert condition(spark, "CREATE VIEW trips AS SELECT 1 AS one") is not None
    assert condition(spark, "CREATE OR REPLACE VIEW trips AS SELECT 1 AS one") is not None
    assert condition(spark, "ALTER VIEW taken RENAME TO trips") is not None
    assert condition(spark, "INSERT INTO taken VALUES (1)") is not None
    assert condition(spark, "DROP TABLE taken") is not None
    assert condition(spark, "DROP VIEW trips") is not None
    assert condition(spark, "ALTER TABLE taken ADD COLUMNS (x INT)") is not None
    assert rows(spark, "SELECT id FROM taken WHERE ds = 'b'") == [(3,)]
    assert spark.catalog.tableExists("lake.s.taken")
    assert {(t.name, t.tableType) for t in spark.catalog.listTables("lake.s")} >= {("taken", "VIEW")}
    assert spark.catalog.getTable("lake.s.taken").tableType == "VIEW"
    spark.sql("DROP VIEW taken")


def test_views_over_views_session_tables_and_virtual_columns(spark: SparkSession, tmp_path: Any) -> None:
    spark.sql("CREATE TABLE spark_catalog.default.names USING parquet AS SELECT id, 'n' || id AS name FROM range(3)")
    folder = tmp_path / "logs" / "day=x"
    folder.mkdir(parents=True)
    (folder / "1.csv").write_text("7,seven\n", encoding="utf-8")
    sessions.active_catalog("lake.s.any").register_table(
        "s.logs", location=str(tmp_path / "logs"), format="csv", schema="id INT, name STRING"
    )
    spark.sql("CALL lake.system.repair_partitions(table => 's.logs')")
    spark.sql(
        "CREATE VIEW named AS SELECT t.id, n.name, t.ds FROM trips t JOIN spark_catalog.default.names n USING (id)"
    )
    spark.sql("CREATE VIEW over AS SELECT upper(name) AS name, ds FROM named")
    spark.sql("CREATE VIEW daily AS SELECT id, day FROM logs")
    assert rows(spark, "SELECT * FROM over") == [("N1", "a"), ("N2", "a")]
    assert rows(spark, "SELECT day, id FROM daily WHERE day = 'x'") == [("x", 7)]
    spark.sql("USE spark_catalog.default")
    try:
        assert rows(spark, "SELECT * FROM lake.s.over WHERE ds = 'a'") == [("N1", "a"), ("N2", "a")]
    finally:
        spark.sql("USE lake.s")
    with pytest.raises(AnalysisException):
        spark.sql("CREATE OR REPLACE VIEW named AS SELECT name, name AS id, ds FROM over").collect()
    for name in ("named", "over", "daily"):
        spark.sql(f"DROP VIEW {name}")
    spark.sql("DROP TABLE spark_catalog.default.names")


def test_partition_dependencies_include_index_answers_and_limits(spark: SparkSession) -> None:
    queries = {
        "counts": "SELECT count(*) AS n, ds FROM trips GROUP BY ds",
        "some": "SELECT id, 'a' AS ds FROM (SELECT id, ds AS d FROM trips LIMIT 1)",
    }
    for view, query in queries.items():
        spark.sql(f"CREATE VIEW {view} PARTITIONED ON (ds) AS {query}")
        spark.sql(f"ALTER VIEW {view} ADD PARTITION (ds = 'a')")
    counts, some = [rows(spark, f"CALL lake.system.view_dependencies(view => 's.{view}')") for view in queries]
    assert counts == [("ds=a", "lake.s.trips", "ds=a")]
    assert some == [("ds=a", "lake.s.trips", "ds=a"), ("ds=a", "lake.s.trips", "ds=b")]
    for view in queries:
        spark.sql(f"DROP VIEW {view}")


def test_schema_modes(spark: SparkSession) -> None:
    spark.sql("CREATE VIEW evolving WITH SCHEMA EVOLUTION AS SELECT * FROM trips")
    spark.sql("CREATE VIEW bound WITH SCHEMA BINDING AS SELECT id FROM trips")
    spark.sql("ALTER VIEW bound WITH SCHEMA COMPENSATION")
    assert rows(spark, "SELECT * FROM bound") == [(1,), (2,), (3,)]
    assert spark.table("evolving").columns == ["id", "fare", "ds"]
    for name in ("evolving", "bound"):
        spark.sql(f"DROP VIEW {name}")


def test_a_namespace_goes_with_its_views(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE lake.gone")
    spark.sql("CREATE VIEW lake.gone.v AS SELECT 1 AS one")
    assert condition(spark, "DROP NAMESPACE lake.gone") is not None
    spark.sql("DROP NAMESPACE lake.gone CASCADE")
    assert condition(spark, "SELECT * FROM lake.gone.v") == "TABLE_OR_VIEW_NOT_FOUND"
    assert condition(spark, "CREATE VIEW lake.gone.v AS SELECT 1 AS one") is not None
