"""What Spark offers on top of any table, on tables of ours: the same answers as on Spark's own partitioned tables.

`lake.w.hidden` has virtual keys, `lake.w.shown` declared ones, `own` is a table of the session's own catalog; all three
have the same rows: ids 0 to 11, days 1 to 3, the regions `eu` and NULL.
"""

from __future__ import annotations

import datetime
import os
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from tests.contract import golden
from tests.integration.lake import Sql, external, local_lake
from tests.integration.spark_driver import sibling
from tests.kit.sparks import SPARK, since

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

ROWS = (
    "SELECT CAST(id AS INT) AS id, 'v' || id AS v, make_date(2025, 1, CAST(1 + id % 3 AS INT)) AS ds, "
    "if(id % 2 = 0, 'eu', NULL) AS region FROM range(0, 12, 1, 1)"
)
OURS = ("lake.w.hidden", "lake.w.shown")


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("behaviours")
    with local_lake(driver, folder) as lake:
        external(lake, "hidden", {"ds": "date", "region": "string"})
        lake.sql("CREATE TABLE lake.w.shown (id INT, v STRING, ds DATE, region STRING) PARTITIONED BY (ds, region)")
        lake.sql(
            "CREATE TABLE own (id INT, v STRING, ds DATE, region STRING) USING parquet PARTITIONED BY (ds, region)"
        )
        for table in (*OURS, "own"):
            lake.sql(f"INSERT INTO {table} (id, v, ds, region) {ROWS}")
        lake.sql("CREATE TABLE small AS SELECT date'2025-01-02' AS ds, 'x' AS note")
        yield lake


@pytest.fixture
def spark(lake: Lake) -> SparkSession:
    return lake.spark


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    return sorted(lake.rows(query), key=str)


def alike(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query over `{t}`, which are the same for each of the three tables."""
    own = rows(lake, query.format(t="own"))
    for table in OURS:
        assert rows(lake, query.format(t=table)) == own, table
    return own


QUERIES = {
    "CTE":
        "WITH x AS (SELECT ds, count(*) AS n FROM {t} GROUP BY ds), y AS (SELECT * FROM "
        "x) SELECT * FROM y WHERE n > 1",
    "scalar subquery": "SELECT id FROM {t} WHERE ds = (SELECT max(ds) FROM {t})",
    "IN subquery": "SELECT id FROM {t} WHERE ds IN (SELECT ds FROM small)",
    "NOT IN subquery": "SELECT id FROM {t} WHERE ds NOT IN (SELECT ds FROM small)",
    "EXISTS": "SELECT id FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.ds = a.ds AND b.id > a.id)",
    "correlated": "SELECT id, (SELECT max(b.id) FROM {t} b WHERE b.ds = a.ds AND b.region <=> a.region) FROM {t} a",
    "join": "SELECT a.id, b.note, a.ds FROM {t} a JOIN small b ON a.ds = b.ds",
    "self join":
        "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.ds = b.ds AND a.region = b.region "
        "WHERE a.ds > '2025-01-01'",
    "left anti join": "SELECT id FROM {t} a LEFT ANTI JOIN small b ON a.ds = b.ds",
    "UNION": "SELECT id, ds FROM {t} WHERE region = 'eu' UNION SELECT id, ds FROM {t} WHERE ds = '2025-01-01'",
    "EXCEPT": "SELECT ds FROM {t} EXCEPT SELECT ds FROM small",
    "window": "SELECT id, row_number() OVER (PARTITION BY ds ORDER BY id DESC) AS n, ds FROM {t}",
    "PIVOT": "SELECT * FROM (SELECT id, ds, region FROM {t}) PIVOT (count(id) FOR region IN ('eu'))",
    "LATERAL":
        "SELECT a.id, x.twice FROM {t} a, LATERAL (SELECT a.id * 2 AS twice, a.ds AS d) "
        "x WHERE x.d = '2025-01-01'",
    "LATERAL VIEW": "SELECT id, part, ds FROM {t} LATERAL VIEW explode(split(v, '1')) AS part",
    "rollup": "SELECT ds, region, count(*) FROM {t} GROUP BY ROLLUP (ds, region)",
    "rollup beside a key": "SELECT v, max(ds), sum(id) FILTER (WHERE region = 'eu') FROM {t} GROUP BY ROLLUP (v)",
    "cube beside a key":
        "SELECT region, v, min(ds) AS m FROM {t} GROUP BY CUBE (region, v) "
        "HAVING count(ds) > 1",
    "grouping sets beside a key":
        "SELECT v, count(DISTINCT ds) FROM {t} WHERE id > 1 GROUP BY GROUPING SETS ((v), ())",
    "min and max of keys": "SELECT min(ds), max(ds), count(*), count(region), count(DISTINCT ds) FROM {t}",
    "pipes": "FROM {t} |> WHERE ds = '2025-01-02' |> AGGREGATE count(*) AS n GROUP BY region |> ORDER BY n",
    "TABLESAMPLE": "SELECT count(*) FROM {t} TABLESAMPLE (100 PERCENT)",
    "ORDER BY and LIMIT": "SELECT id FROM {t} ORDER BY ds DESC, region NULLS FIRST, id LIMIT 3",
    "CASE over keys": "SELECT CASE WHEN region IS NULL THEN 'none' ELSE region END AS r, sum(id) FROM {t} GROUP BY 1",
    "functions of keys":
        "SELECT id FROM {t} WHERE month(ds) = 1 AND upper(region) LIKE 'E%' AND ds "
        "BETWEEN '2025-01-02' AND '2025-01-09'",
    "string and date": "SELECT count(*) FROM {t} WHERE ds > '2025-01-01' AND ds < timestamp'2025-01-03 12:00:00'",
    "inline table": "SELECT a.id, c FROM {t} a JOIN VALUES (date'2025-01-03', 'c') AS x(ds, c) ON a.ds = x.ds",
    "lambda":
        "SELECT transform(collect_set(CAST(ds AS STRING)), x -> substr(x, 6))[0] IS NOT "
        "NULL FROM {t} GROUP BY region",
}  # fmt: skip


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_queries_answer_as_on_sparks_own_tables(lake: Lake, query: str) -> None:
    assert alike(lake, query)


@pytest.mark.requirement("Flink.RegularRead", statement="SELECT * FROM lake.w.shown")
@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.Appearance", statement="SELECT * FROM lake.w.hidden")
def test_star_shows_declared_keys_and_hides_virtual_ones(lake: Lake) -> None:
    assert lake.sql("SELECT * FROM lake.w.shown").columns == ["id", "v", "ds", "region"]
    assert lake.sql("SELECT * FROM lake.w.hidden").columns == ["id", "v"]
    assert rows(lake, "SELECT *, ds, region FROM lake.w.hidden") == rows(lake, "SELECT * FROM own")


@pytest.mark.requirement("Flink.Pruning", statement="EXPLAIN SELECT id FROM lake.w.shown WHERE ds = '2025-01-02'")
@pytest.mark.requirement("Flink.NoPruning", statement="EXPLAIN SELECT id FROM lake.w.shown")
def test_explain_shows_partitions_chosen_of_partitions_in_all(lake: Lake) -> None:
    (simple,) = lake.rows("EXPLAIN SELECT id FROM lake.w.shown WHERE ds = '2025-01-02'")[0]
    assert "Files: 2 of 6" in str(simple)
    assert "Partitions: 2 of 6" in str(simple)
    (formatted,) = lake.rows("EXPLAIN FORMATTED SELECT id FROM lake.w.hidden WHERE region = 'eu' AND id > 3")[0]
    assert "Partitions: 3 of 6" in str(formatted)
    assert "FileSize: " in str(formatted)
    (whole,) = lake.rows("EXPLAIN SELECT id FROM lake.w.shown")[0]
    assert "Partitions: 6 of 6" in str(whole)
    frame = lake.sql("SELECT id FROM lake.w.shown a JOIN small b ON a.ds = b.ds WHERE b.note = 'x'")
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "Partitions: 2 of 6" in plan, "what the join found while it ran"


class TestFileColumns:
    @pytest.mark.parametrize("form", ["parquet", "orc", "csv", "json"])
    @pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.Accessibility")
    def test_values_and_pruning(self, lake: Lake, form: str) -> None:
        table = f"lake.w.of_{form}"
        lake.sql(f"CREATE TABLE {table} (id INT, k INT) USING {form} PARTITIONED BY (k)")
        lake.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), CAST(id % 2 AS INT) FROM range(0, 4, 1, 1)")
        query = (
            f"SELECT DISTINCT `$path` = _metadata.file_path, `$file_size` = _metadata.file_size, "
            f"`$file_modified_time` = _metadata.file_modification_time, `$partition` = 'k=' || k FROM {table}"
        )
        assert lake.rows(query) == [(True, True, True, True)]
        assert lake.sql(f"SELECT * FROM {table}").columns == ["id", "k"]
        (path,) = lake.rows(f"SELECT DISTINCT `$path` FROM {table} WHERE k = 1")[0]
        chosen = f"SELECT id, k FROM {table} WHERE `$path` = '{path}' ORDER BY id"
        assert lake.rows(chosen) == [(1, 1), (3, 1)]
        assert "Files: 1 of 2" in str(lake.rows(f"EXPLAIN {chosen}")[0][0])
        assert lake.rows(f"SELECT sum(id), max(`$partition`) FROM {table} WHERE `$partition` = 'k=0'") == [(2, "k=0")]
        assert lake.rows(f"SELECT count(*) FROM {table} WHERE `$file_size` > 1000000") == [(0,)]
        joined = f"SELECT count(*) FROM {table} t JOIN {table}.files f ON t.`$path` = f.path AND f.values.k = 1"
        assert lake.rows(joined) == [(2,)]
        assert lake.rows(f"SELECT count(DISTINCT f) FROM (SELECT input_file_name() AS f FROM {table})") == [(2,)]

    def test_with_virtual_keys_and_beside_metadata(self, lake: Lake) -> None:
        query = "SELECT *, ds, `$partition`, _metadata.file_name FROM lake.w.hidden WHERE id = 3"
        (row,) = lake.rows(query)
        assert row[:2] == (3, "v3")
        assert row[3] == f"ds={row[2]}/region=__HIVE_DEFAULT_PARTITION__"
        grouped = "SELECT `$partition`, count(*) FROM lake.w.hidden GROUP BY `$partition`"
        assert len(lake.rows(grouped)) == 6

    def test_a_column_of_the_table_wins(self, lake: Lake) -> None:
        lake.sql("CREATE TABLE lake.w.taken (`$path` STRING, k INT) PARTITIONED BY (k)")
        lake.sql("INSERT INTO lake.w.taken VALUES ('mine', 1)")
        assert lake.rows("SELECT `$path`, `$partition` FROM lake.w.taken") == [("mine", "k=1")]


class TestJoinsByName:
    """USING and NATURAL join by virtual columns as they do by visible ones."""

    def test_using(self, lake: Lake) -> None:
        query = "SELECT ds, a.id, b.id FROM {t} a JOIN {t} b USING (ds, region) WHERE a.id < b.id"
        assert alike(lake, query)
        assert lake.sql("SELECT * FROM lake.w.hidden a JOIN small USING (ds)").columns == ["ds", "id", "v", "note"]
        assert lake.sql("SELECT * FROM small JOIN lake.w.hidden USING (ds)").columns == ["ds", "note", "id", "v"]
        mixed = "SELECT ds, region, a.id FROM lake.w.hidden a JOIN lake.w.shown b USING (ds, region, id)"
        assert len(lake.rows(mixed)) == 6

    @pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"])
    def test_using_of_every_kind(self, lake: Lake, kind: str) -> None:
        assert alike(lake, f"SELECT ds, id FROM {{t}} {kind} JOIN small USING (ds)")

    def test_natural(self, lake: Lake) -> None:
        assert alike(lake, "SELECT id, note, ds FROM {t} NATURAL JOIN small")
        assert alike(lake, "SELECT a.id, ds FROM {t} a NATURAL JOIN {t} b")

    def test_in_the_dataframe_api(self, lake: Lake, spark: SparkSession) -> None:
        hidden, small = spark.table("lake.w.hidden"), spark.table("small")
        expected = [tuple(row) for row in spark.table("own").join(small, "ds").select("id", "ds").sort("id").collect()]
        assert [tuple(row) for row in hidden.join(small, "ds").select("id", "ds").sort("id").collect()] == expected
        assert hidden.join(small, ["ds"], "left").count() == 12

    def test_below_other_operators(self, lake: Lake) -> None:
        assert alike(
            lake, "WITH x AS (SELECT id, ds FROM {t} WHERE region = 'eu') SELECT id, note FROM x JOIN small USING (ds)"
        )
        assert alike(lake, "SELECT n, note FROM (SELECT ds, count(*) AS n FROM {t} GROUP BY ds) JOIN small USING (ds)")

    @since((4, 2), "hidden columns of a subquery with an alias")
    def test_behind_an_alias(self, lake: Lake) -> None:
        for join in ("JOIN small USING (ds)", "NATURAL JOIN small", "JOIN small s ON h.ds = s.ds"):
            filtered = f"SELECT id, note FROM (SELECT * FROM lake.w.hidden WHERE id > 3) h {join}"
            assert rows(lake, filtered) == [(10, "x"), (4, "x"), (7, "x")]

    def test_behind_an_alias_a_key_that_is_named(self, lake: Lake) -> None:
        for join in ("JOIN small USING (ds)", "NATURAL JOIN small", "JOIN small s ON h.ds = s.ds"):
            assert alike(lake, f"SELECT id, note FROM (SELECT id, ds FROM {{t}} WHERE id > 3) h {join}")

    def test_a_column_that_neither_has(self, lake: Lake) -> None:
        with pytest.raises(AnalysisException) as caught:
            lake.rows("SELECT * FROM lake.w.hidden JOIN small USING (nothing)")
        assert caught.value.getCondition() == "UNRESOLVED_USING_COLUMN_FOR_JOIN"


class TestCaches:
    @pytest.fixture(autouse=True)
    def empty_afterwards(self, spark: SparkSession) -> Iterator[None]:
        yield
        spark.catalog.clearCache()

    @staticmethod
    def cached(lake: Lake, query: str) -> bool:
        frame = lake.sql(query)
        frame.collect()
        return "InMemoryRelation" in frame._jdf.queryExecution().withCachedData().toString()

    def test_a_table_with_declared_keys(self, lake: Lake, spark: SparkSession) -> None:
        lake.sql("CACHE TABLE lake.w.shown")
        assert spark.catalog.isCached("lake.w.shown")
        assert self.cached(lake, "SELECT sum(id), max(ds) FROM lake.w.shown WHERE region = 'eu' AND ds > '2025-01-01'")
        assert alike(lake, "SELECT id, ds, region FROM {t}")
        self.write(lake)
        lake.sql("REFRESH TABLE lake.w.shown")
        lake.sql("UNCACHE TABLE lake.w.shown")
        assert not spark.catalog.isCached("lake.w.shown")
        assert not self.cached(lake, "SELECT ds FROM lake.w.shown")

    @since((4, 1), "what fills caches again")
    def test_a_cache_is_filled_again_after_a_write(self, lake: Lake) -> None:
        lake.sql("CACHE TABLE lake.w.shown")
        self.write(lake)
        assert self.cached(lake, "SELECT ds FROM lake.w.shown")

    @staticmethod
    def write(lake: Lake) -> None:
        """A row comes and goes; each time the table shows it."""
        lake.sql("INSERT INTO lake.w.shown VALUES (100, 'new', date'2025-01-09', 'eu')")
        assert lake.rows("SELECT region FROM lake.w.shown WHERE ds = '2025-01-09'") == [("eu",)]
        lake.sql("DELETE FROM lake.w.shown WHERE ds = '2025-01-09'")
        assert alike(lake, "SELECT id, ds, region FROM {t}")

    def test_a_table_with_virtual_keys(self, lake: Lake) -> None:
        """To Spark a query that names a virtual column reads another relation than what was cached."""
        lake.sql("CACHE TABLE lake.w.hidden")
        assert self.cached(lake, "SELECT sum(id) FROM lake.w.hidden")
        assert not self.cached(lake, "SELECT ds FROM lake.w.hidden")
        assert alike(lake, "SELECT id, ds, region FROM {t}")
        lake.sql("UNCACHE TABLE lake.w.hidden")
        lake.sql(
            "CACHE LAZY TABLE with_keys OPTIONS ('storageLevel' 'DISK_ONLY') AS SELECT *, ds, region FROM lake.w.hidden"
        )
        assert self.cached(lake, "SELECT sum(id), max(ds) FROM with_keys WHERE region = 'eu'")
        lake.sql("CLEAR CACHE")
        assert not self.cached(lake, "SELECT ds FROM with_keys")

    def test_a_query_and_a_frame(self, lake: Lake, spark: SparkSession) -> None:
        lake.sql("CACHE TABLE chosen AS SELECT id, ds FROM lake.w.hidden WHERE region = 'eu'")
        assert self.cached(lake, "SELECT count(*) FROM chosen WHERE ds > '2025-01-01'")
        lake.sql("UNCACHE TABLE chosen")
        frame = spark.table("lake.w.hidden").select("id", "ds").cache()
        assert frame.count() == 12
        assert self.cached(lake, "SELECT id, ds FROM lake.w.hidden")
        assert lake.sql("SELECT * FROM lake.w.hidden").columns == ["id", "v"]
        frame.unpersist()


def test_views_over_our_tables(lake: Lake, spark: SparkSession) -> None:
    for table in OURS:
        lake.sql(f"CREATE OR REPLACE TEMPORARY VIEW tv AS SELECT id, ds FROM {table} WHERE region = 'eu'")
        assert len(lake.rows("SELECT * FROM tv WHERE ds = '2025-01-01'")) == 2
        lake.sql(f"CREATE OR REPLACE VIEW pv AS SELECT ds, sum(id) AS n FROM {table} GROUP BY ds")
        assert "Partitions: 2 of 6" in str(lake.rows("EXPLAIN SELECT * FROM pv WHERE ds = '2025-01-03'")[0][0])
        spark.table(table).where("ds = '2025-01-01'").createOrReplaceTempView("dv")
        assert lake.rows("SELECT count(*) FROM dv") == [(4,)]
        lake.sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW gv AS SELECT * FROM {table}")
        assert lake.rows("SELECT count(*) FROM global_temp.gv") == [(12,)]
    lake.sql("DROP VIEW pv")


def test_a_view_says_how_to_have_a_key_that_it_leaves_out(lake: Lake) -> None:
    lake.sql(
        "CREATE OR REPLACE VIEW whole AS SELECT * FROM lake.w.hidden",
        "CREATE OR REPLACE VIEW chosen_key AS SELECT *, ds FROM lake.w.hidden",
        "CREATE OR REPLACE TEMPORARY VIEW whole_too AS SELECT * FROM lake.w.hidden",
    )
    views = ["whole", "whole_too"]
    if SPARK >= (4, 2):
        lake.sql("CREATE VIEW lake.w.whole AS SELECT * FROM lake.w.hidden")
        views.append("lake.w.whole")
    queries = ("SELECT ds FROM {v}", "SELECT id FROM {v} x WHERE x.ds = 'a'", "SELECT id FROM {v} ORDER BY DS")
    try:
        for view in views:
            for query in queries:
                error = lake.error(query.format(v=view))
                assert error.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
                assert "SELECT *, `ds` FROM" in str(error)
            assert "hidden partition column" not in str(lake.error(f"SELECT nothing FROM {view}"))
        assert lake.rows("SELECT count(DISTINCT ds) FROM chosen_key") == [(3,)]
        of_the_outer = "EXISTS (SELECT 1 FROM whole WHERE id > 0 AND ds IS NOT NULL)"
        assert lake.rows(f"SELECT count(*) > 0 FROM small WHERE {of_the_outer}") == [(True,)]
    finally:
        lake.sql("DROP VIEW chosen_key", *(f"DROP VIEW {view}" for view in views))


def test_insert_select_star(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.w.copied (id INT, v STRING, ds DATE, region STRING) PARTITIONED BY (ds, region)")
    lake.sql("INSERT INTO lake.w.copied SELECT * FROM lake.w.shown")
    lake.sql("INSERT OVERWRITE lake.w.copied SELECT *, ds, region FROM lake.w.hidden")
    assert rows(lake, "SELECT * FROM lake.w.copied") == rows(lake, "SELECT * FROM own")
    lake.sql("INSERT OVERWRITE lake.w.copied SELECT * FROM lake.w.copied WHERE ds > '2025-01-01'")
    assert lake.rows("SELECT count(*) FROM lake.w.copied") == [(12,)]


@pytest.mark.parametrize("table", [*OURS, "own"])
def test_parameters_variables_and_identifiers(lake: Lake, spark: SparkSession, table: str) -> None:
    expected = [(1,), (4,), (7,), (10,)]

    def asked(query: str, args: Any = None) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(query, args=args).collect()]

    query = f"SELECT id FROM {table} WHERE ds = CAST({{}} AS DATE) ORDER BY id"
    assert asked(query.format(":day"), {"day": "2025-01-02"}) == expected
    assert asked(query.format("?"), ["2025-01-02"]) == expected
    assert asked(f"EXECUTE IMMEDIATE \"{query.format('?')}\" USING '2025-01-02'") == expected
    lake.sql("DECLARE OR REPLACE VARIABLE day DATE = date'2025-01-02'")
    assert asked(query.format("day")) == expected
    assert "Partitions: 2 of 6" in str(asked(f"EXPLAIN {query.format('day')}")) or table == "own"
    assert asked("SELECT count(*) FROM IDENTIFIER(:t) WHERE ds = '2025-01-02'", {"t": table}) == [(4,)]
    # A frame given by name becomes a view, and views show no virtual columns.
    shown = spark.table(table).select("id", "region")
    assert spark.sql("SELECT count(*) FROM {t} WHERE region = 'eu'", t=shown).collect()[0][0] == 6


def test_names_that_only_an_expression_knows(lake: Lake) -> None:
    """What is known of a name before it is looked up holds for one that IDENTIFIER gives, a variable's value too."""
    table = external(lake, "given", {"ds": "string"}, "l STRUCT<ds: INT>, id INT")
    lake.sql(f"DECLARE OR REPLACE VARIABLE given STRING = '{table}'")
    for name in (table, "IDENTIFIER(given)", "IDENTIFIER('lake.' || 'w.given')", "IDENTIFIER(lower('LAKE.W.GIVEN'))"):
        lake.sql(f"INSERT OVERWRITE {table} VALUES (named_struct('ds', 1), 1, 'a'), (named_struct('ds', 2), 2, 'b')")
        lake.sql(f"INSERT OVERWRITE {name} PARTITION (ds = 'a') VALUES (named_struct('ds', 3), 3)")
        lake.sql(f"INSERT OVERWRITE {name} VALUES (named_struct('ds', 5), 5, 'c')")
        # A hidden key of the relation, and no field of the column that is called as its alias.
        assert lake.rows(f"SELECT l.ds, id FROM {name} l ORDER BY id") == [("b", 2), ("a", 3), ("c", 5)]
        assert lake.rows(f"SELECT IDENTIFIER('l' || '.ds') FROM {name} l WHERE id = 3") == [("a",)]
        assert lake.rows(f"WITH x AS (SELECT * FROM {name} l WHERE l.ds = 'a') SELECT id FROM x") == [(3,)]
        assert lake.rows(f"SELECT a.id FROM {name} a JOIN {name} b USING (ds) WHERE ds = 'c'") == [(5,)]
    # Before Spark 4.3 a parameter has its value late.
    asked = lake.spark.sql("SELECT l.ds FROM IDENTIFIER(:name) l WHERE id = 3", {"name": table})
    assert [tuple(row) for row in asked.collect()] == [("a",)]
    lake.spark.sql("INSERT OVERWRITE IDENTIFIER(:name) VALUES (named_struct('ds', 6), 6, 'd')", {"name": table})
    assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(2,), (3,), (5,), (6,)]
    lake.sql(
        "EXECUTE IMMEDIATE 'ALTER TABLE IDENTIFIER(:name) DROP PARTITION (ds = \"d\")' USING 'lake.w.given' AS name"
    )
    assert lake.partitions("given") == ["ds=a", "ds=b", "ds=c"]
    assert lake.rows("WITH x AS (SELECT 7 AS id) SELECT id FROM IDENTIFIER('x' || '')") == [(7,)]
    for wrong in ("IDENTIFIER(rand())", "IDENTIFIER(NULL)", "IDENTIFIER(1)"):
        assert lake.condition(f"SELECT * FROM {wrong}").startswith("NOT_A_CONSTANT_STRING"), wrong
    assert lake.condition("SELECT * FROM IDENTIFIER('lake.w.' || 'nothing')") == "TABLE_OR_VIEW_NOT_FOUND"


@pytest.mark.parametrize("mode", ["enabledTentatively", "dualRunEnabled"])
def test_the_single_pass_analyzer_beside_the_other(lake: Lake, spark: SparkSession, mode: str) -> None:
    spark.conf.set(f"spark.sql.analyzer.singlePassResolver.{mode}", "true")
    try:
        for table in OURS:
            assert lake.rows(f"SELECT t.ds, id FROM {table} t WHERE id = 4") == [(datetime.date(2025, 1, 2), 4)]
            assert lake.rows(f"SELECT count(*) FROM (SELECT DISTINCT v FROM {table})") == [(12,)]
    finally:
        spark.conf.unset(f"spark.sql.analyzer.singlePassResolver.{mode}")


def test_the_single_pass_analyzer_alone_is_refused(lake: Lake, spark: SparkSession) -> None:
    """It has no plan for tables of catalogs, and none for commands: nothing of ours passes, and nothing is changed."""
    lake.sql("CREATE VIEW over AS SELECT id FROM lake.w.shown")
    conf = "spark.sql.analyzer.singlePassResolver.enabled"
    # Of a session with variables it takes no views at all.
    alone = Sql(sibling(spark))
    alone.spark.conf.set(conf, "true")
    for read in (*OURS, "over", "lake.w.shown.history", f"lake.`{lake.folder}/hidden`"):
        refused = alone.error(f"SELECT * FROM {read}")
        assert refused.getCondition() == "CATALOG_EXT_NOT_SUPPORTED", read
        assert f"spark.conf.set('{conf}', 'false')" in str(refused)
    for command in (
        "INSERT INTO lake.w.shown VALUES (99, 'x', DATE'2025-01-01', 'eu')",
        "DELETE FROM lake.w.shown WHERE ds = DATE'2025-01-01'",
        "ALTER TABLE lake.w.shown DROP PARTITION (ds = '2025-01-01')",
        "MSCK REPAIR TABLE lake.w.shown",
        "DROP TABLE lake.w.shown",
    ):
        assert alone.condition(command) == "UNSUPPORTED_SINGLE_PASS_ANALYZER_FEATURE"
    alone.spark.conf.set(conf, "false")
    assert alone.rows("SELECT count(*) FROM lake.w.shown") == [(12,)]
    lake.sql("DROP VIEW over")


def test_case_sensitivity(lake: Lake, spark: SparkSession) -> None:
    try:
        for table in OURS:
            spark.conf.set("spark.sql.caseSensitive", "false")
            assert lake.rows(f"SELECT count(DS) FROM {table} WHERE REGION = 'eu' AND Ds = '2025-01-01'") == [(2,)]
            spark.conf.set("spark.sql.caseSensitive", "true")
            assert lake.rows(f"SELECT count(ds) FROM {table} WHERE region = 'eu'") == [(6,)]
            with pytest.raises(AnalysisException) as caught:
                lake.rows(f"SELECT DS FROM {table}")
            assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_timestamp_keys_hold_local_time(lake: Lake, spark: SparkSession) -> None:
    """Written in one zone, read in another: the directory's text is taken in the zone of the reader, as Spark does."""
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    try:
        spark.conf.set(zone, "Europe/Berlin")
        for table, kind in (("lake.w.timed", ""), ("own_timed", "USING parquet")):
            lake.sql(f"CREATE TABLE {table} (id INT, at TIMESTAMP) {kind} PARTITIONED BY (at)")
            lake.sql(
                f"INSERT INTO {table} VALUES (1, timestamp'2025-06-01 12:00:00'), (2, timestamp'2025-01-01 00:30:00')"
            )
        for reader in ("Europe/Berlin", "Asia/Tokyo", "America/New_York"):
            spark.conf.set(zone, reader)
            for query in (
                "SELECT id, CAST(at AS STRING), unix_timestamp(at) FROM {t}",
                "SELECT id FROM {t} WHERE at = timestamp'2025-06-01 12:00:00'",
                "SELECT id FROM {t} WHERE at < timestamp'2025-06-01 12:00:00'",
            ):
                ours = rows(lake, query.format(t="lake.w.timed"))
                assert ours == rows(lake, query.format(t="own_timed")), (reader, query)
                assert ours
    finally:
        spark.conf.set(zone, before)


@pytest.mark.parametrize("how", ["table", "write"])
def test_the_option_time_zone_says_where_timestamp_keys_are_local(lake: Lake, spark: SparkSession, how: str) -> None:
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    table, of_table = f"lake.w.zoned_{how}", "OPTIONS ('timeZone' = 'Asia/Tokyo')" if how == "table" else ""
    option = "" if how == "table" else "WITH ('timeZone' = 'Asia/Tokyo')"
    noon = "timestamp'2025-06-01 12:00:00'"
    try:
        spark.conf.set(zone, "Europe/Berlin")
        lake.sql(f"CREATE TABLE {table} (id INT, at TIMESTAMP) USING parquet {of_table} PARTITIONED BY (at)")
        lake.sql(f"INSERT INTO {table} {option} VALUES (1, {noon}), (2, timestamp'2025-01-01 00:30:00')")
        names = ["at=2025-01-01 08%3A30%3A00", "at=2025-06-01 19%3A00%3A00"]
        assert lake.partitions(f"zoned_{how}") == names
        for reader, at in (("Europe/Berlin", "12"), ("UTC", "10"), ("Asia/Tokyo", "19")):
            spark.conf.set(zone, reader)
            there = f"timestamp'2025-06-01 {at}:00:00'"
            for query in (
                f"SELECT id, at = {there} FROM {table} {option} WHERE id = 1",
                f"SELECT id, true FROM {table} {option} WHERE at = {there}",
                f"SELECT id, true FROM {table} {option} WHERE at > {there} - INTERVAL 1 SECOND",
            ):
                assert lake.rows(query) == [(1, True)], (reader, query)
        if how == "write":
            assert lake.rows(f"SELECT id FROM {table} WHERE at = timestamp'2025-06-01 19:00:00'") == [(1,)]
            return
        spark.conf.set(zone, "UTC")
        of_files = f"SELECT values.at = timestamp'2025-06-01 10:00:00' FROM {table}.files WHERE at > '2025-03-01'"
        assert lake.rows(of_files) == [(True,)]
        # PARTITION clauses and conditions are of the session's time, as INSERT's rows are.
        lake.sql(f"INSERT OVERWRITE {table} PARTITION (at = '2025-06-01 10:00:00') SELECT 3")
        lake.sql(f"ALTER TABLE {table} ADD IF NOT EXISTS PARTITION (at = '2025-06-01 10:00:00')")
        assert lake.partitions(f"zoned_{how}") == names
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(2,), (3,)]
        assert lake.rows(f"SHOW PARTITIONS {table} PARTITION (at = '2025-06-01 10:00:00')") == [(names[1],)]
        lake.sql(f"ALTER TABLE {table} DROP PARTITION (at = '2024-12-31 23:30:00')")
        assert lake.partitions(f"zoned_{how}") == names[1:]
        lake.sql(f"DELETE FROM {table} WHERE at = timestamp'2025-06-01 10:00:00'")
        assert lake.partitions(f"zoned_{how}") == []
        lake.sql(f"ALTER TABLE {table} ADD PARTITION (at = '2025-06-01 10:00:00')")
        assert lake.partitions(f"zoned_{how}") == names[1:]
    finally:
        spark.conf.set(zone, before)
    nowhere = "SELECT * FROM lake.w.hidden WITH ('timeZone' = 'nowhere')"
    assert lake.condition(nowhere) == "CATALOG_EXT_INVALID_CONFIGURATION"


GOLDEN_TIMES = golden.read("partition_times.json")["times"]


@pytest.mark.parametrize("how", ["table", "write"])
@pytest.mark.parametrize(
    "case", GOLDEN_TIMES, ids=lambda case: f"{case['session']} {case['literal']}".replace("/", "-")
)
def test_insert_names_a_static_timestamp_as_the_golden_file(
    lake: Lake, spark: SparkSession, case: dict[str, str], how: str
) -> None:
    """The partition has a location of its own, which the service must find by the clause of the INSERT."""
    zone, name = "spark.sql.session.timeZone", f"static_{how}_{GOLDEN_TIMES.index(case)}"
    before, table, option = spark.conf.get(zone), f"lake.w.{name}", f"('timeZone' = '{case['keys']}')"
    own = lake.folder / name / "own"
    own.mkdir(parents=True)
    of_table, of_write = (f"OPTIONS {option}", "") if how == "table" else ("", f"WITH {option}")
    try:
        lake.sql(f"CREATE TABLE {table} (id INT, at TIMESTAMP) USING parquet {of_table} PARTITIONED BY (at)")
        spark.conf.set(zone, case["keys"])
        lake.sql(f"ALTER TABLE {table} ADD PARTITION (at = '{case['text']}') LOCATION '{own}'")
        spark.conf.set(zone, case["session"])
        clause = f"{of_write} PARTITION (at = '{case['literal']}')"
        lake.sql(f"INSERT INTO {table} {clause} SELECT 1", f"INSERT OVERWRITE {table} {clause} SELECT 2")
        lake.sql(f"INSERT INTO {table} {clause} SELECT 3", f"INSERT OVERWRITE {table} {clause} IF NOT EXISTS SELECT 4")
        assert lake.partitions(name) == [f"at={case['text'].replace(':', '%3A')}"]
        found = lake.rows(f"SELECT id, _metadata.file_path LIKE '%{own}/%' FROM {table} ORDER BY id")
        assert found == [(2, True), (3, True)]
    finally:
        spark.conf.set(zone, before)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_ansi_mode_on_and_off(lake: Lake, spark: SparkSession, ansi: str) -> None:
    lake.sql("CREATE TABLE IF NOT EXISTS lake.w.texts (id INT, k STRING) PARTITIONED BY (k)")
    lake.sql("CREATE TABLE IF NOT EXISTS own_texts (id INT, k STRING) USING parquet PARTITIONED BY (k)")
    for table in ("lake.w.texts", "own_texts"):
        lake.sql(f"INSERT OVERWRITE {table} VALUES (1, '1'), (2, '02'), (3, 'abc'), (4, '99999999999')")
    queries = (
        "SELECT id FROM {t} WHERE k = '1'",
        "SELECT id FROM {t} WHERE k = 1",
        "SELECT id FROM {t} WHERE k > 1",
        "SELECT id FROM {t} WHERE CAST(k AS INT) = 2",
        "SELECT id FROM {t} WHERE try_cast(k AS INT) = 2",
        "SELECT id FROM {t} WHERE k IN (1, 2)",
        "SELECT id FROM {t} WHERE k = date'2025-01-01'",
        "SELECT id / 0 FROM {t} WHERE k = '1'",
    )
    try:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        for query in queries:
            assert self_or_error(lake, query, "lake.w.texts") == self_or_error(lake, query, "own_texts"), query
        for query in ("SELECT id FROM {t} WHERE ds = 'no date'", "SELECT id FROM {t} WHERE ds > '2025-13-01'"):
            assert len({str(self_or_error(lake, query, table)) for table in (*OURS, "own")}) == 1, query
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


def self_or_error(lake: Lake, query: str, table: str) -> Any:
    """The rows, or the condition of the error."""
    from pyspark.errors import PySparkException

    try:
        return rows(lake, query.format(t=table))
    except PySparkException as error:
        return error.getCondition()


def test_the_catalogs_methods(lake: Lake, spark: SparkSession) -> None:
    catalog = spark.catalog
    assert catalog.tableExists("lake.w.hidden")
    assert not catalog.tableExists("lake.w.nothing")
    found = catalog.getTable("lake.w.shown")
    assert (found.name, found.catalog, found.namespace, found.isTemporary) == ("shown", "lake", ["w"], False)
    assert {"hidden", "shown"} <= {table.name for table in catalog.listTables("lake.w")}
    assert [(c.name, c.isPartition) for c in catalog.listColumns("lake.w.shown")] == [
        ("id", False), ("v", False), ("ds", True), ("region", True),
    ]  # fmt: skip
    hidden = "hidden: SELECT * leaves it out"
    assert [(c.name, c.isPartition, c.description) for c in catalog.listColumns("lake.w.hidden")] == [
        ("id", False, None), ("v", False, None), ("ds", True, hidden), ("region", True, hidden),
    ]  # fmt: skip
    assert [c.name for c in catalog.listColumns("small")] == spark.table("small").columns
    assert catalog.databaseExists("lake.w")
    assert "lake" in {c.name for c in catalog.listCatalogs()}
    try:
        catalog.setCurrentCatalog("lake")
        catalog.setCurrentDatabase("w")
        assert (catalog.currentCatalog(), catalog.currentDatabase()) == ("lake", "w")
        assert "w" in {d.name for d in catalog.listDatabases()}
        assert catalog.tableExists("shown")
        assert spark.table("hidden").select("ds").distinct().count() == 3
        catalog.cacheTable("shown")
        assert catalog.isCached("shown")
        catalog.uncacheTable("shown")
        catalog.refreshTable("shown")
    finally:
        catalog.setCurrentCatalog("spark_catalog")


def test_comments_and_describe(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE lake.w.noted (id INT COMMENT 'the id', k INT COMMENT 'the key') PARTITIONED BY (k) COMMENT 'all'"
    )
    described = {(row[0], row[2]) for row in lake.rows("DESCRIBE lake.w.noted")}
    assert {("id", "the id"), ("k", "the key")} <= described
    assert ("Comment", "all") in {(row[0], row[1]) for row in lake.rows("DESCRIBE EXTENDED lake.w.noted")}
    with pytest.raises(AnalysisException) as caught:
        lake.sql("DESCRIBE EXTENDED lake.w.noted AS JSON")
    assert caught.value.getCondition() == "CATALOG_EXT_NOT_SUPPORTED", "Spark has it for its own tables only"


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.sql.adaptive.enabled": "false"},
        {"spark.sql.optimizer.dynamicPartitionPruning.enabled": "false"},
        {
            "spark.sql.sources.v2.bucketing.enabled": "true",
            "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
        },
        {"spark.sql.autoBroadcastJoinThreshold": "-1"},
        {"spark.sql.codegen.wholeStage": "false"},
        {"spark.sql.parquet.enableVectorizedReader": "false"},
    ],
    ids=lambda conf: next(iter(conf)),
)
def test_other_ways_of_execution(lake: Lake, spark: SparkSession, conf: dict[str, str]) -> None:
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        assert alike(lake, "SELECT a.id, b.note, a.region FROM {t} a JOIN small b ON a.ds = b.ds")
        assert alike(lake, "SELECT ds, count(*), max(v) FROM {t} GROUP BY ds")
        assert len(lake.rows("SELECT id, `$partition` FROM lake.w.hidden WHERE ds = '2025-01-02'")) == 4
    finally:
        for key in conf:
            spark.conf.unset(key)


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.HiveDisabled", statement="SET use_hive_partitioning")
def test_use_hive_partitioning(lake: Lake, spark: SparkSession) -> None:
    lake.sql("SET use_hive_partitioning = 0")
    try:
        with pytest.raises(AnalysisException) as caught:
            lake.rows("SELECT ds FROM lake.w.hidden")
        assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert lake.rows("SELECT count(*) FROM lake.w.hidden") == [(12,)]
        assert lake.rows("SELECT count(ds) FROM lake.w.shown") == [(12,)]
    finally:
        spark.conf.unset("use_hive_partitioning")


@pytest.fixture(scope="module")
def aged(lake: Lake) -> str:
    """A table whose first partition has a file of 2020, and a folder with the same files."""
    lake.sql("CREATE TABLE lake.w.aged (id INT, k INT) USING parquet PARTITIONED BY (k)")
    for number in (1, 2):
        lake.sql(f"INSERT INTO lake.w.aged VALUES ({number}, {number})")
    (old,) = (lake.location("aged") / "k=1").glob("*.parquet")
    os.utime(old, (1_577_880_000, 1_577_880_000))
    lake.sql("CALL lake.system.repair_partitions(table => 'w.aged', mode => 'sync')")
    return str(lake.location("aged"))


class TestOptionsOfReaders:
    """Spark's options by which files are chosen: honoured or refused, never overlooked."""

    @pytest.mark.parametrize(
        ("option", "ids"),
        [
            (("modifiedBefore", "2021-01-01T00:00:00"), [1]),
            (("MODIFIEDAFTER", "2021-01-01T00:00:00"), [2]),
            (("modifiedAfter", "2999-01-01T00:00:00"), []),
            (("recursiveFileLookup", "false"), [1, 2]),
        ],
    )
    def test_times(self, lake: Lake, aged: str, option: tuple[str, str], ids: list[int]) -> None:
        frame = lake.spark.read.option(*option).table("lake.w.aged")
        assert sorted(row.id for row in frame.collect()) == ids
        assert frame.count() == len(ids)
        assert frame.where("k > 0").count() == len(ids)
        assert frame.join(lake.spark.table("small").limit(1)).count() == len(ids)
        if len(ids) == 1:
            assert "Files: 1 of 2" in frame._jdf.queryExecution().executedPlan().toString()
        name, value = option
        by_path = (
            f"SELECT id FROM lake.files('file://{aged}', format => 'parquet', options => map('{name}', '{value}'))"
        )
        assert sorted(row[0] for row in lake.rows(by_path)) == ids
        assert lake.rows(f"SELECT count(*) FROM lake.`file://{aged}` WITH ('{name}' = '{value}')") == [(len(ids),)]

    def test_names(self, lake: Lake, aged: str) -> None:
        (name,) = (path.name for path in (lake.location("aged") / "k=2").glob("*.parquet"))
        frame = lake.spark.read.option("pathGlobFilter", name).table("lake.w.aged")
        assert [row.id for row in frame.collect()] == [2]
        assert lake.spark.read.option("pathGlobFilter", "*.orc").table("lake.w.aged").count() == 0
        assert lake.spark.table("lake.w.aged").count() == 2
        options = "OPTIONS ('pathGlobFilter' = '*.none')"
        lake.sql(f"CREATE TABLE lake.w.narrow (id INT, k INT) USING parquet {options} PARTITIONED BY (k)")
        lake.sql("INSERT INTO lake.w.narrow VALUES (2, 2)")
        assert lake.rows("SELECT id, k FROM lake.w.narrow") == []
        assert lake.rows("SELECT id, k FROM lake.w.narrow WITH ('pathGlobFilter' = '*.parquet')") == [(2, 2)]

    @pytest.mark.parametrize(
        ("option", "of_table", "of_path"),
        [
            ("'recursiveFileLookup' = 'true'", True, False),
            ("'ignoredPathSegmentRegex' = 'x.*'", True, True),
            ("'pathGlobFilter' = '*.parquet'", False, True),
        ],
    )
    def test_what_is_refused(self, lake: Lake, aged: str, option: str, of_table: bool, of_path: bool) -> None:
        for name, refused in (("lake.w.aged", of_table), (f"lake.`file://{aged}`", of_path)):
            query = f"SELECT count(*) FROM {name} WITH ({option})"
            if refused:
                error = lake.error(query)
                assert error.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
                assert option.split("'")[1].lower() in str(error).lower()
            else:
                assert lake.rows(query) == [(2,)]

    def test_streams_take_no_times(self, lake: Lake, aged: str, tmp_path: Path) -> None:
        stream = lake.spark.readStream.option("modifiedAfter", "2021-01-01T00:00:00").table("lake.w.aged")
        writer = stream.writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        with pytest.raises(StreamingQueryException, match="option modifiedafter"):
            writer.toTable("lake.w.streamed").awaitTermination()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, ds FROM (SELECT DISTINCT id FROM {t})",
        "SELECT id FROM (SELECT DISTINCT id FROM {t}) WHERE ds = '2025-01-01'",
        "SELECT DISTINCT id FROM {t} ORDER BY ds",
        "WITH x AS (SELECT DISTINCT id FROM {t}) SELECT x.ds FROM x",
        "SELECT a.ds FROM (SELECT DISTINCT id FROM {t}) a JOIN small ON true",
        "SELECT `$path` FROM (SELECT DISTINCT id FROM {t})",
        "SELECT _metadata.file_path FROM (SELECT DISTINCT id FROM {t})",
        "SELECT ds FROM (SELECT id FROM {t} UNION ALL SELECT id FROM {t})",
        "SELECT ds FROM (SELECT id FROM {t} UNION SELECT id FROM {t})",
        "SELECT ds FROM (SELECT id FROM {t} UNION ALL SELECT 1)",
        "SELECT ds FROM (SELECT id FROM {t} INTERSECT SELECT id FROM {t})",
        "SELECT ds FROM (SELECT id FROM {t} EXCEPT SELECT 1)",
    ],
)
def test_hidden_columns_end_where_rows_are_compared(lake: Lake, query: str) -> None:
    assert str(lake.condition(query.format(t="lake.w.hidden"))).startswith("UNRESOLVED_COLUMN")


def test_distinct_rows_are_those_that_are_shown(lake: Lake, spark: SparkSession) -> None:
    hidden = spark.table("lake.w.hidden")
    for frame in (hidden.distinct(), hidden.dropDuplicates(["id"]), hidden.select("id").distinct()):
        assert frame.count() == 12
        with pytest.raises(AnalysisException) as caught:
            frame.select("id", "ds").collect()
        assert str(caught.value.getCondition()).startswith("UNRESOLVED_COLUMN")
    assert hidden.select("id", "ds").distinct().select("ds").distinct().count() == 3
    assert lake.rows("SELECT DISTINCT region FROM lake.w.hidden ORDER BY region") == [(None,), ("eu",)]
    assert alike(lake, "SELECT DISTINCT ds, region FROM {t}")
    assert alike(lake, "SELECT ds FROM (SELECT DISTINCT ds, id FROM {t}) WHERE id < 3")
    assert alike(lake, "SELECT DISTINCT ds FROM {t} WHERE region = 'eu' ORDER BY ds")


@since((4, 1), "WITH RECURSIVE")
def test_a_recursive_query_keeps_its_shape(lake: Lake) -> None:
    query = "WITH RECURSIVE r(n) AS (SELECT 1 UNION {} SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r ORDER BY n"
    assert lake.condition(query.format("")) == "UNION_NOT_SUPPORTED_IN_RECURSIVE_CTE"
    assert lake.rows(query.format("ALL")) == [(1,), (2,), (3,)]


def test_an_alias_may_be_a_columns_name(lake: Lake) -> None:
    lake.sql("CREATE OR REPLACE TEMPORARY VIEW numbers AS SELECT 1 AS id, date'2025-01-02' AS day")
    for query in (
        "SELECT id.ds, id.v FROM {t} id WHERE id.region = 'eu'",
        "SELECT id.ds FROM {t} id JOIN small s ON id.ds = s.ds",
        "SELECT n.id, v.id, v.region FROM {t} v JOIN numbers n ON v.ds = n.day",
        "SELECT id.ds, count(*) FROM {t} id GROUP BY id.ds HAVING max(id.region) = 'eu' ORDER BY id.ds",
        "SELECT id.v FROM {t} id ORDER BY id.ds, id.id",
        "SELECT id.ds FROM {t} id, {t} v WHERE id.ds = v.ds AND v.region = id.region",
        "SELECT day.v, day.DS FROM {t} day JOIN numbers n ON day.ds = n.day",
    ):
        assert alike(lake, query), query
    assert len(lake.rows("SELECT id._metadata.file_name, id.`$path` FROM lake.w.hidden id")) == 12


@since((4, 2), "views in catalogs other than Spark's own")
def test_alias_within_a_view_is_resolved_in_the_views_catalog(lake: Lake) -> None:
    before = ".".join(lake.rows("SELECT current_catalog(), current_database()")[0])
    lake.sql("USE lake.w")
    try:
        lake.sql("CREATE VIEW lake.w.aliased AS SELECT id.ds, id.v FROM hidden id")
    finally:
        lake.sql(f"USE {before}")
    assert rows(lake, "SELECT * FROM lake.w.aliased") == rows(lake, "SELECT ds, v FROM lake.w.hidden")
    lake.sql("DROP VIEW lake.w.aliased")
