"""Hive's page on partitioned views, statement by statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, ParseException

from tests.integration.lake import rows
from tests.kit.sparks import since

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver


pytestmark = [pytest.mark.spark, since((4, 2), "views in catalogs other than Spark's own")]


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("partitioned_views")
    with driver.catalog(warehouse=str(root), index=f"sqlite:///{root}/index.db", metastore=None) as session:
        session.sql("CREATE NAMESPACE lake.s")
        session.sql("USE lake.s")
        session.sql("CREATE TABLE base (id INT, amount INT, ds STRING) PARTITIONED BY (ds)")
        session.sql("INSERT INTO base VALUES (1, 10, 'd1'), (2, 20, 'd2')")
        yield session


def partitions(spark: SparkSession, view: str) -> list[str]:
    return [row[0] for row in spark.sql(f"SHOW PARTITIONS {view}").collect()]


def refused(spark: SparkSession, text: str) -> str:
    """The condition of the error that a statement raises."""
    with pytest.raises((AnalysisException, ParseException)) as raised:
        spark.sql(text).collect()
    return str(raised.value.getCondition()).removeprefix("CATALOG_EXT_")


@pytest.mark.requirement("HivePV.UseCase1", statement="CREATE VIEW")
def test_a_renaming_layer_with_browsable_partitions(spark: SparkSession) -> None:
    spark.sql("CREATE VIEW renamed (number, total, day) PARTITIONED ON (day) AS SELECT id, amount, ds FROM base")
    spark.sql("ALTER VIEW renamed ADD PARTITION (day = 'd1') PARTITION (day = 'd2')")
    assert partitions(spark, "renamed") == ["day=d1", "day=d2"]
    assert rows(spark, "SELECT number, total FROM renamed WHERE day = 'd2'") == [(2, 20)]
    assert rows(spark, "DESCRIBE renamed")[:3] == [
        ("number", "int", None), ("total", "int", None), ("day", "string", None),
    ]  # fmt: skip
    spark.sql("DROP VIEW renamed")


@pytest.mark.requirement("HivePV.UseCase1", statement="CREATE VIEW")
@pytest.mark.requirement(
    "HivePV.Approach.Inferred",
    statement="CREATE VIEW",
    differs="Hive does not implement inferred partitions. In catalog-ext the view's property "
    "`partition.auto` turns them on.",
)
def test_a_renaming_layer_whose_partitions_come_by_themselves(spark: SparkSession) -> None:
    spark.sql("""
        CREATE VIEW followed (number, total, day) PARTITIONED ON (day)
        TBLPROPERTIES ('partition.auto' = 'true', 'partition.auto.keys.s.base' = 'ds=day')
        AS SELECT id, amount, ds FROM base
    """)
    assert partitions(spark, "followed") == ["day=d1", "day=d2"]
    spark.sql("INSERT INTO base VALUES (3, 30, 'd3')")
    assert partitions(spark, "followed") == ["day=d1", "day=d2", "day=d3"]
    spark.sql("DELETE FROM base WHERE ds = 'd3'")
    assert partitions(spark, "followed") == ["day=d1", "day=d2"]
    assert refused(spark, "ALTER VIEW followed ADD PARTITION (day = 'd4')") == "VIEW_PARTITIONS_AUTOMATIC"
    # The properties stay with the view, and so do the tables that it follows.
    spark.sql("ALTER VIEW followed SET TBLPROPERTIES ('note' = 'x')")
    assert rows(spark, "CALL lake.system.refresh_view_partitions(view => 's.followed')") == [("day=d1",), ("day=d2",)]
    spark.sql("DROP VIEW followed")


HOURS = "(id INT, ds STRING, hr STRING) PARTITIONED BY (ds, hr)"


def load_hours(spark: SparkSession, table: str, day: str, *hours: int) -> None:
    values = ", ".join(f"({hour}, '{day}', '{hour:02d}')" for hour in hours)
    spark.sql(f"INSERT INTO {table} VALUES {values}")


@pytest.mark.requirement("HivePV.UseCase2", statement="CREATE VIEW")
def test_a_day_is_added_by_a_statement_when_its_hours_are_there(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE hours {HOURS}")
    load_hours(spark, "hours", "d1", *range(24))
    load_hours(spark, "hours", "d2", *range(5))
    spark.sql("CREATE VIEW days PARTITIONED ON (ds) AS SELECT id, hr, ds FROM hours")
    assert partitions(spark, "days") == []
    spark.sql("ALTER VIEW days ADD PARTITION (ds = 'd1')")
    assert partitions(spark, "days") == ["ds=d1"]
    # Partitions of a view say what may be read; they restrict nothing.
    assert rows(spark, "SELECT count(*) FROM days WHERE ds = 'd2'") == [(5,)]
    spark.sql("DROP VIEW days")
    spark.sql("DROP TABLE hours")


@pytest.mark.requirement("HivePV.UseCase2", statement="CREATE VIEW")
@pytest.mark.requirement(
    "HivePV.Approach.Inferred",
    statement="CREATE VIEW",
    differs="Hive does not implement inferred partitions. In catalog-ext the view's property "
    "`partition.auto` turns them on.",
)
def test_a_day_that_appears_when_its_hours_are_there(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE hours {HOURS}")
    load_hours(spark, "hours", "d1", *range(24))
    spark.sql("""
        CREATE VIEW days PARTITIONED ON (ds)
        TBLPROPERTIES ('partition.auto' = 'true', 'partition.auto.requires' = 'hr=00..23')
        AS SELECT id, hr, ds FROM hours
    """)
    load_hours(spark, "hours", "d2", *range(23))
    assert partitions(spark, "days") == ["ds=d1"]
    load_hours(spark, "hours", "d2", 23)
    assert partitions(spark, "days") == ["ds=d1", "ds=d2"]
    spark.sql("DELETE FROM hours WHERE ds = 'd1' AND hr = '07'")
    assert partitions(spark, "days") == ["ds=d2"]
    assert len(rows(spark, "CALL lake.system.view_dependencies('s.days', map('ds', 'd2'))")) == 24
    spark.sql("DROP VIEW days")
    spark.sql("DROP TABLE hours")


def make_joined(spark: SparkSession) -> None:
    for table in ("orders", "clicks", "visits"):
        spark.sql(f"CREATE TABLE {table} (id INT, n INT, ds STRING) PARTITIONED BY (ds)")
        spark.sql(f"INSERT INTO {table} VALUES (1, 1, 'd1')")
    spark.sql("INSERT INTO orders VALUES (1, 2, 'd2')")
    spark.sql("INSERT INTO clicks VALUES (1, 2, 'd2')")
    spark.sql("CREATE VIEW seen AS SELECT * FROM clicks UNION ALL SELECT * FROM visits")


def drop_joined(spark: SparkSession) -> None:
    for view in ("sums", "seen"):
        spark.sql(f"DROP VIEW {view}")
    for table in ("orders", "clicks", "visits"):
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.requirement("HivePV.UseCase3", statement="CREATE VIEW sums")
def test_partitions_of_a_join_are_added_by_a_statement(spark: SparkSession) -> None:
    make_joined(spark)
    spark.sql("""
        CREATE VIEW sums PARTITIONED ON (ds) AS
        SELECT o.id, sum(o.n + s.n) AS total, o.ds FROM orders o JOIN seen s ON o.id = s.id AND o.ds = s.ds
        GROUP BY o.id, o.ds
    """)
    spark.sql("ALTER VIEW sums ADD PARTITION (ds = 'd1')")
    assert partitions(spark, "sums") == ["ds=d1"]
    found = rows(spark, "CALL lake.system.view_dependencies(view => 's.sums', partition => map('ds', 'd1'))")
    assert sorted(found) == [("ds=d1", f"lake.s.{table}", "ds=d1") for table in ("clicks", "orders", "visits")]
    drop_joined(spark)


@pytest.mark.requirement("HivePV.UseCase3", statement="CREATE VIEW sums")
@pytest.mark.requirement(
    "HivePV.Approach.Inferred",
    statement="CREATE VIEW sums",
    differs="Hive does not implement inferred partitions. In catalog-ext the view's property "
    "`partition.auto` turns them on.",
)
def test_a_join_whose_partitions_come_by_themselves(spark: SparkSession) -> None:
    make_joined(spark)
    spark.sql("""
        CREATE VIEW sums PARTITIONED ON (ds) TBLPROPERTIES ('partition.auto' = 'true') AS
        SELECT o.id, sum(o.n + s.n) AS total, o.ds FROM orders o JOIN seen s ON o.id = s.id AND o.ds = s.ds
        GROUP BY o.id, o.ds
    """)
    assert partitions(spark, "sums") == ["ds=d1"]
    spark.sql("INSERT INTO visits VALUES (1, 5, 'd2')")
    assert partitions(spark, "sums") == ["ds=d1", "ds=d2"]
    assert rows(spark, "SELECT total FROM sums WHERE ds = 'd2'") == [(11,)]
    drop_joined(spark)


@pytest.mark.requirement("HivePV.Syntax.Create", statement="CREATE")
@pytest.mark.requirement("HivePV.Syntax.LastColumns", statement="CREATE")
def test_create_view_partitioned_on(spark: SparkSession) -> None:
    spark.sql("""
        CREATE OR REPLACE VIEW v (a COMMENT 'an id', `b c`, ds) COMMENT 'for people' PARTITIONED ON (`b c`, ds)
        TBLPROPERTIES ('k' = 'v;''') AS
        -- PARTITIONED ON (nothing) in a comment
        SELECT id, amount, ds FROM base WHERE ds <> 'PARTITIONED ON (ds) AS'
    """)
    spark.sql("CREATE VIEW IF NOT EXISTS v PARTITIONED ON (nothing) AS SELECT 1 AS one")
    described = rows(spark, "DESCRIBE EXTENDED v")
    place = described.index(("# Partition Information", "", ""))
    assert described[place + 2 : place + 4] == [("b c", "int", None), ("ds", "string", None)]
    assert ("a", "int", "an id") in described
    text = spark.sql("SHOW CREATE TABLE v").collect()[0][0]
    assert "PARTITIONED ON (`b c`, ds)" in text
    spark.sql("DROP VIEW v")
    spark.sql(text)
    assert spark.sql("SHOW CREATE TABLE v").collect()[0][0] == text
    assert sorted(rows(spark, "SELECT * FROM v")) == [(1, 10, "d1"), (2, 20, "d2")]
    spark.sql("DROP VIEW v")


@pytest.mark.requirement("HivePV.Syntax.LastColumns", statement="CREATE VIEW v PARTITIONED ON")
@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ("day", "VIEW_PARTITION_COLUMN_NOT_FOUND"),
        ("id", "VIEW_PARTITION_COLUMNS_NOT_LAST"),
        ("ds, amount", "VIEW_PARTITION_COLUMN_ORDER"),
        ("ds, ds", "VIEW_PARTITION_COLUMN_DUPLICATE"),
        ("id, amount, ds", "VIEW_ONLY_PARTITION_COLUMNS"),
    ],
)
def test_partition_columns_are_the_last_ones(spark: SparkSession, columns: str, error: str) -> None:
    assert refused(spark, f"CREATE VIEW v PARTITIONED ON ({columns}) AS SELECT id, amount, ds FROM base") == error
    assert "v" not in [row[1] for row in rows(spark, "SHOW VIEWS IN lake.s")]


def test_parser_errors_point_at_the_place(spark: SparkSession) -> None:
    for text, place in (
        ("CREATE VIEW v PARTITIONED ON (ds AS SELECT 1", (1, 33)),
        ("CREATE VIEW v\nPARTITIONED ON () AS SELECT 1", (2, 16)),
        ("CREATE VIEW v PARTITIONED ON (ds) AS SELEC 1", (1, 37)),
        ("ALTER VIEW v ADD PARTITION ds = 1", (1, 27)),
        ("ALTER VIEW v DROP PARTITION (ds = 1) PURGE", (1, 37)),
    ):
        with pytest.raises(ParseException) as raised:
            spark.sql(text)
        assert f"(line {place[0]}, pos {place[1]})" in str(raised.value), text
    # Of other catalogs' views Spark's own error is heard.
    assert refused(spark, "CREATE VIEW spark_catalog.default.v PARTITIONED ON (ds) AS SELECT 1 AS ds") not in (
        "VIEW_PARTITION_COLUMN_NOT_FOUND", "VIEW_ONLY_PARTITION_COLUMNS",
    )  # fmt: skip


@pytest.mark.requirement("HivePV.Syntax.AddPartition", statement="ALTER VIEW v ADD")
@pytest.mark.requirement("HivePV.Syntax.DropPartition", statement="ALTER VIEW v DROP")
@pytest.mark.requirement("HivePV.Syntax.NoLocation", statement="ALTER VIEW v ADD PARTITION (amount = 40")
def test_alter_view_add_and_drop_partition(spark: SparkSession) -> None:
    spark.sql("CREATE VIEW v PARTITIONED ON (amount, ds) AS SELECT id, amount, ds FROM base")
    spark.sql("ALTER VIEW v ADD PARTITION (amount = 10, ds = 'd1') PARTITION (ds = 'd/2', amount = '020')")
    spark.sql(
        "ALTER VIEW lake.s.v ADD IF NOT EXISTS PARTITION (amount = 10, ds = 'd1'), PARTITION (amount = 30, ds = NULL)"
    )
    shown = ["amount=10/ds=d1", "amount=20/ds=d%2F2", "amount=30/ds=__HIVE_DEFAULT_PARTITION__"]
    assert partitions(spark, "v") == shown
    assert rows(spark, "SHOW PARTITIONS v PARTITION (ds = 'd/2')") == [(shown[1],)]
    described = rows(spark, "DESCRIBE EXTENDED v PARTITION (ds = 'd1', amount = 10)")
    assert ("Partition Name", shown[0], "") in described
    for text, error in (
        ("ADD PARTITION (amount = 40, ds = 'x') PARTITION (amount = 10, ds = 'd1')", "PARTITION_ALREADY_EXISTS"),
        ("ADD PARTITION (ds = 'x')", "INVALID_PARTITION_SPEC"),
        ("ADD PARTITION (ds = 'x', day = 1)", "INVALID_PARTITION_SPEC"),
        ("ADD PARTITION (ds = 'x', DS = 'y')", "INVALID_PARTITION_SPEC"),
        ("ADD PARTITION (ds = '', amount = 1)", "INVALID_PARTITION_SPEC"),
        ("ADD PARTITION (ds = ds, amount = 1)", "PARSE_SYNTAX_ERROR"),
        ("ADD PARTITION (ds = 'x', amount = 'many')", "INVALID_VALUE"),
        ("DROP PARTITION (ds = 'd1'), PARTITION (amount = 99)", "PARTITION_NOT_FOUND"),
        ("DROP PARTITION (day = 'd1')", "INVALID_PARTITION_SPEC"),
    ):
        assert refused(spark, f"ALTER VIEW v {text}") == error, text
    located = refused(spark, "ALTER VIEW v ADD PARTITION (amount = 40, ds = 'x') LOCATION '/tmp/x'")
    assert located == "VIEW_PARTITION_LOCATION"
    assert refused(spark, "DESCRIBE v PARTITION (ds = 'd1', amount = 99)") == "PARTITION_NOT_FOUND"
    assert refused(spark, "DESCRIBE v PARTITION (ds = 'd1')") == "INVALID_PARTITION_SPEC"
    assert refused(spark, "SHOW PARTITIONS v PARTITION (day = 'd1')") == "INVALID_PARTITION_SPEC"
    assert partitions(spark, "v") == shown
    spark.sql("ALTER VIEW v DROP IF EXISTS PARTITION (ds = 'd/2'), PARTITION (amount = 99)")
    spark.sql("ALTER VIEW v DROP PARTITION (ds = NULL)")
    assert partitions(spark, "v") == shown[:1]
    spark.sql("CREATE OR REPLACE VIEW plain AS SELECT id FROM base")
    for text in ("ALTER VIEW plain ADD PARTITION (id = 1)", "SHOW PARTITIONS plain"):
        assert refused(spark, text) == "INVALID_PARTITION_SPEC"
    assert refused(spark, "ALTER VIEW nowhere ADD PARTITION (id = 1)") == "TABLE_OR_VIEW_NOT_FOUND"
    assert "EXPECT_VIEW" in refused(spark, "ALTER VIEW base ADD PARTITION (ds = 'd1')")
    for view in ("v", "plain"):
        spark.sql(f"DROP VIEW {view}")


@pytest.mark.requirement("HivePV.Syntax.OtherCommands", statement="ALTER VIEW v TOUCH")
def test_other_commands_on_partitions_are_refused(spark: SparkSession) -> None:
    spark.sql("DROP VIEW IF EXISTS v")
    spark.sql("CREATE VIEW v PARTITIONED ON (ds) AS SELECT id, ds FROM base")
    spark.sql("ALTER VIEW v ADD PARTITION (ds = 'd1')")
    touched = refused(spark, "ALTER VIEW v TOUCH PARTITION (ds = 'd1')")
    assert touched == "VIEW_PARTITION_COMMAND"
    for text in (
        "ARCHIVE PARTITION (ds = 'd1')", "UNARCHIVE PARTITION (ds = 'd1')",
        "PARTITION (ds = 'd1') RENAME TO PARTITION (ds = 'd9')", "PARTITION (ds = 'd1') SET LOCATION '/tmp/x'",
        "EXCHANGE PARTITION (ds = 'd1') WITH TABLE base",
    ):  # fmt: skip
        assert refused(spark, f"ALTER VIEW v {text}") == "VIEW_PARTITION_COMMAND", text
    for text in (
        "ALTER TABLE v ADD PARTITION (ds = 'd2')", "ALTER TABLE v DROP PARTITION (ds = 'd1')",
        "ALTER TABLE v PARTITION (ds = 'd1') RENAME TO PARTITION (ds = 'd9')", "MSCK REPAIR TABLE v",
        "TRUNCATE TABLE v PARTITION (ds = 'd1')",
    ):  # fmt: skip
        assert "VIEW" in refused(spark, text), text
    assert partitions(spark, "v") == ["ds=d1"]
    spark.sql("DROP VIEW v")


@pytest.mark.requirement("HivePV.Replace", statement="CREATE OR REPLACE VIEW")
def test_replacing_keeps_partitions(spark: SparkSession) -> None:
    spark.sql("DROP VIEW IF EXISTS v")
    spark.sql("CREATE VIEW v PARTITIONED ON (ds) AS SELECT id, ds FROM base")
    spark.sql("ALTER VIEW v ADD PARTITION (ds = 'd1')")
    spark.sql("CREATE OR REPLACE VIEW v PARTITIONED ON (ds) AS SELECT id, amount * 2 AS twice, ds FROM base")
    spark.sql("ALTER VIEW v AS SELECT id, amount * 3 AS thrice, ds FROM base")
    spark.sql("ALTER VIEW v SET TBLPROPERTIES ('a' = 'b')")
    assert partitions(spark, "v") == ["ds=d1"]
    assert rows(spark, "SELECT thrice FROM v WHERE ds = 'd1'") == [(30,)]
    for text in (
        "CREATE OR REPLACE VIEW v AS SELECT id, ds FROM base",
        "CREATE OR REPLACE VIEW v PARTITIONED ON (amount, ds) AS SELECT id, amount, ds FROM base",
        "CREATE OR REPLACE VIEW v PARTITIONED ON (ds) AS SELECT ds AS id, id AS ds FROM base",
    ):
        assert refused(spark, text) == "VIEW_PARTITION_COLUMNS_CHANGED"
    spark.sql("ALTER VIEW v DROP PARTITION (ds = 'd1')")
    spark.sql("CREATE OR REPLACE VIEW v PARTITIONED ON (id) AS SELECT ds, id FROM base")
    assert partitions(spark, "v") == []
    spark.sql("DROP VIEW v")


@pytest.mark.requirement("HivePV.Hook", statement="CALL")
def test_dependencies_are_what_the_partition_reads(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE spark_catalog.default.names USING parquet AS SELECT 1 AS id, 'n' AS name")
    spark.sql("CREATE TABLE unpartitioned (id INT)")
    spark.sql("DROP VIEW IF EXISTS v")
    spark.sql("""
        CREATE VIEW v PARTITIONED ON (ds) AS
        SELECT b.id, n.name, b.ds FROM base b JOIN spark_catalog.default.names n ON b.id = n.id
        WHERE b.id NOT IN (SELECT id FROM unpartitioned)
    """)
    # What is cached must not hide what it was made of.
    spark.sql("CACHE TABLE base")
    spark.sql("ALTER VIEW v ADD PARTITION (ds = 'd1') PARTITION (ds = 'none')")
    spark.sql("UNCACHE TABLE base")
    found = sorted(rows(spark, "CALL lake.system.view_dependencies(view => 'lake.s.v')"), key=str)
    others = [("lake.s.unpartitioned", None), ("spark_catalog.default.names", None)]
    expected = [("ds=d1", "lake.s.base", "ds=d1"), ("ds=none", "lake.s.base", None)]
    expected += [(f"ds={ds}", name, None) for ds in ("d1", "none") for name, _ in others]
    assert found == sorted(expected, key=str)
    spark.sql("ALTER VIEW v DROP PARTITION (ds = 'd1')")
    assert {row[0] for row in rows(spark, "CALL lake.system.view_dependencies('s.v')")} == {"ds=none"}
    spark.sql("DROP VIEW v")
    for table in ("unpartitioned", "spark_catalog.default.names"):
        spark.sql(f"DROP TABLE {table}")
