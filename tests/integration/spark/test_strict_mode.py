"""Hive's strict mode: a partitioned table is read with a predicate on a partition column, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from tests.integration.lake import external, local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

CONDITION = "CATALOG_EXT_PARTITION_PREDICATE_REQUIRED"
MODE, CHECK = "hive.mapred.mode", "hive.strict.checks.no.partition.filter"


@pytest.fixture(scope="module")
def filled(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """`t1` (virtual `c1`, `c2`) and `d1` (declared `c1`) of four rows each, and `plain` without partitions."""
    folder = tmp_path_factory.mktemp("strict")
    with local_lake(driver, folder) as lake:
        external(lake, "t1", {"c1": "int", "c2": "int"}, "id INT")
        lake.sql("CREATE TABLE lake.w.d1 (id INT, c1 INT) PARTITIONED BY (c1)")
        lake.sql("CREATE TABLE lake.w.plain AS SELECT 5 AS c1")
        rows = "SELECT CAST(id AS INT) AS id, CAST(id + 4 AS INT) AS c1"
        lake.sql(f"INSERT INTO lake.w.t1 BY NAME {rows}, CAST(id AS INT) AS c2 FROM range(4)")
        lake.sql(f"INSERT INTO lake.w.d1 BY NAME {rows} FROM range(4)")
        yield lake


@pytest.fixture
def lake(filled: Lake) -> Iterator[Lake]:
    """In strict mode."""
    filled.sql(f"SET {MODE} = strict")
    yield filled
    filled.spark.conf.unset(MODE)
    filled.spark.conf.unset(CHECK)


def refused(lake: Lake, query: str) -> AnalysisException:
    with pytest.raises(AnalysisException) as caught:
        lake.rows(query)
    assert caught.value.getCondition() == CONDITION, query
    return caught.value


@pytest.mark.requirement("HivePV.Strict.Constrained", statement="SELECT * FROM v1")
def test_a_predicate_inside_of_a_view_counts(lake: Lake) -> None:
    lake.sql("CREATE TEMPORARY VIEW v1 AS SELECT id, c2 AS c3 FROM lake.w.t1 WHERE c1 = 5")
    assert lake.rows("SELECT * FROM v1") == [(1, 1)]


@pytest.mark.requirement("HivePV.Strict.Unconstrained", statement="SELECT * FROM v2 WHERE c3 = 3")
def test_predicate_on_a_data_column_below_the_view_does_not_prune(lake: Lake) -> None:
    """V2 shows C1 of the table as C2, and C3 is a data column: a predicate on C3 alone prunes nothing."""
    lake.sql("CREATE TEMPORARY VIEW v2 AS SELECT c1 AS c2, id AS c3 FROM lake.w.t1")
    error = refused(lake, "SELECT * FROM v2 WHERE c3 = 3")
    assert "lake.w.t1" in str(error)
    assert "(c1, c2)" in str(error)
    assert lake.rows("SELECT c3 FROM v2 WHERE c2 = 7") == [(3,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM lake.w.t1",
        "SELECT count(*) FROM lake.w.t1",
        "SELECT * FROM lake.w.d1 LIMIT 1",
        "SELECT * FROM lake.w.d1 WHERE id = 1",
        "SELECT * FROM lake.w.d1 WHERE 1 = 1",
        "SELECT * FROM lake.w.d1 WHERE c1 = c1",
        "SELECT * FROM lake.w.d1 WHERE c1 IS NOT NULL",
        "SELECT * FROM lake.w.d1 WHERE c1 = 5 OR id = 1",
        "SELECT * FROM lake.w.d1 WHERE c1 = (SELECT max(c1) FROM lake.w.plain)",
        "SELECT * FROM lake.w.d1 JOIN lake.w.plain USING (c1)",
        "SELECT * FROM lake.w.plain WHERE c1 IN (SELECT c1 FROM lake.w.d1)",
        "SELECT * FROM (SELECT c1 FROM lake.w.d1 WHERE c1 = 5) UNION ALL SELECT c1 FROM lake.w.t1",
        "WITH x AS (SELECT c1, count(*) AS n FROM lake.w.t1 GROUP BY c1) SELECT * FROM x WHERE n > 1",
        "INSERT INTO lake.w.plain SELECT c1 FROM lake.w.d1",
        "SELECT * FROM lake.w.t1 WHERE `$file_size` > 0",
    ],
)
def test_without_a_predicate_nothing_is_read(lake: Lake, query: str) -> None:
    refused(lake, query)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT id FROM lake.w.t1 WHERE c2 = 1", [(1,)]),
        ("SELECT id FROM lake.w.d1 WHERE c1 IN (5, 9) AND id < 100", [(1,)]),
        ("SELECT id FROM lake.w.d1 WHERE c1 + 1 = 6", [(1,)]),
        ("SELECT id FROM lake.w.d1 WHERE `$partition` = 'c1=5'", [(1,)]),
        ("SELECT d.id FROM lake.w.d1 d JOIN lake.w.t1 t ON d.c1 = t.c1 WHERE t.c1 = 5", [(1,)]),
        ("WITH x AS (SELECT c1, count(*) AS n FROM lake.w.t1 GROUP BY c1) SELECT n FROM x WHERE c1 = 5", [(1,)]),
        ("SELECT * FROM lake.w.plain", [(5,)]),
        ("SELECT count(*) FROM lake.w.d1.partitions", [(4,)]),
        ("SELECT * FROM lake.w.d1 WHERE false", []),
    ],
)
def test_what_is_read(lake: Lake, query: str, rows: list[tuple[object, ...]]) -> None:
    assert lake.rows(query) == rows


def test_writes_repairs_and_streams_are_not_reads(lake: Lake) -> None:
    lake.sql("INSERT INTO lake.w.d1 VALUES (9, 9)")
    lake.sql("DELETE FROM lake.w.d1 WHERE c1 = 9")
    lake.sql("MSCK REPAIR TABLE lake.w.t1")
    assert lake.sql("SHOW PARTITIONS lake.w.d1").count() == 4
    stream = lake.spark.readStream.table("lake.w.t1").writeStream.format("memory").queryName("streamed")
    stream.trigger(availableNow=True).start().awaitTermination()
    assert lake.rows("SELECT count(*) FROM streamed") == [(4,)]


def test_explain_reads_nothing_and_is_not_refused(lake: Lake) -> None:
    assert "Partitions: 4 of 4" in str(lake.rows("EXPLAIN SELECT * FROM lake.w.d1")[0][0])


@pytest.fixture
def views(lake: Lake) -> Iterator[Lake]:
    """`follows`, whose partition column is the table's; `other`, whose one is a data column; `within`, with its own."""
    lake.sql(
        "CREATE VIEW lake.w.follows PARTITIONED ON (c1) AS SELECT id, c1 FROM lake.w.t1",
        "CREATE VIEW lake.w.other PARTITIONED ON (c3) AS SELECT c1, id AS c3 FROM lake.w.t1",
        "CREATE VIEW lake.w.within PARTITIONED ON (c3) AS SELECT c1, id AS c3 FROM lake.w.d1 WHERE c1 = 5",
    )
    yield lake
    for name in ("follows", "other", "within"):
        lake.sql(f"DROP VIEW lake.w.{name}")


def test_a_partition_of_a_view_is_added_where_its_query_would_run(views: Lake) -> None:
    """Hive compiles `SELECT * FROM v WHERE c3 = 1` for it, and strict mode refuses that."""
    error = views.error("ALTER VIEW lake.w.other ADD PARTITION (c3 = 1)")
    assert error.getCondition() == CONDITION
    assert "lake.w.t1" in str(error)
    assert "(c1, c2)" in str(error)
    assert views.rows("SHOW PARTITIONS lake.w.other") == []
    views.sql("ALTER VIEW lake.w.follows ADD PARTITION (c1 = 5)")
    views.sql("ALTER VIEW lake.w.within ADD PARTITION (c3 = 1)")
    assert views.rows("SHOW PARTITIONS lake.w.follows") == [("c1=5",)]
    assert views.rows("SHOW PARTITIONS lake.w.within") == [("c3=1",)]
    views.sql("ALTER VIEW lake.w.within DROP PARTITION (c3 = 1)")
    views.sql(f"SET {MODE} = nonstrict")
    views.sql("ALTER VIEW lake.w.other ADD PARTITION (c3 = 1)")
    assert views.rows("SHOW PARTITIONS lake.w.other") == [("c3=1",)]


def test_where_it_is_set(lake: Lake) -> None:
    query = "SELECT count(*) FROM lake.w.d1"
    lake.sql(f"SET {CHECK} = false")
    assert lake.rows(query) == [(4,)], "the newer setting goes before the older one"
    lake.sql(f"SET {MODE} = nonstrict")
    lake.sql(f"SET {CHECK} = true")
    refused(lake, query)
    assert lake.rows(f"SELECT count(*) FROM lake.w.d1 WITH ('{CHECK}' = 'false')") == [(4,)]
    lake.spark.conf.unset(CHECK)
    lake.spark.conf.unset(MODE)
    lake.sql(f"ALTER TABLE lake.w.d1 SET TBLPROPERTIES ('{MODE}' = 'strict')")
    assert "table w.d1" in str(refused(lake, query))
    lake.sql(f"SET {MODE} = nonstrict")
    assert lake.rows(query) == [(4,)]
    lake.sql(f"ALTER TABLE lake.w.d1 UNSET TBLPROPERTIES ('{MODE}')")
    lake.spark.conf.unset(MODE)
    lake.sql(f"SET `spark.sql.catalog.lake.{MODE}` = strict")
    refused(lake, query)
    lake.spark.conf.unset(f"spark.sql.catalog.lake.{MODE}")
    lake.sql(f"SET {MODE} = lenient")
    with pytest.raises(AnalysisException) as caught:
        lake.rows(query)
    assert caught.value.getCondition() == "CATALOG_EXT_INVALID_CONFIGURATION"


def test_columns_that_the_session_does_not_see_are_not_asked_for(lake: Lake) -> None:
    lake.sql("SET use_hive_partitioning = 0")
    try:
        assert lake.rows("SELECT count(*) FROM lake.w.t1") == [(4,)]
        refused(lake, "SELECT count(*) FROM lake.w.d1")
    finally:
        lake.spark.conf.unset("use_hive_partitioning")
