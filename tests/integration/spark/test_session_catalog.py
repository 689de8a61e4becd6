"""The session catalog with our tables in it, on Spark's in-memory one: whose a name is, and that no twin is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql
from tests.integration.session_commands import COMMON, differences, plain_session
from tests.integration.spark_driver import sibling
from tests.kit.sparks import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver


pytestmark = pytest.mark.spark

EXISTS = "TABLE_OR_VIEW_ALREADY_EXISTS"
ROWS = [(1, "a"), (2, "b")]


@dataclass(frozen=True)
class Session(Sql):
    """A session with our session catalog, the catalog behind it, and a session of the same JVM without ours."""

    catalog: Catalog
    plain: SparkSession

    def condition(self, act: str | Callable[[], object]) -> str | None:
        with pytest.raises(PySparkException) as caught:
            self.sql(act).collect() if isinstance(act, str) else act()
        return caught.value.getCondition()

    def tables(self, database: str = "sales") -> list[str]:
        return [str(row[1]) for row in self.rows(f"SHOW TABLES IN {database}")]

    def twins(self, database: str = "sales") -> set[str]:
        """Names that Spark's own catalog and the index both have."""
        theirs = {row["tableName"] for row in self.plain.sql(f"SHOW TABLES IN {database}").collect()}
        return theirs & set(self.catalog.list_tables(database))


@pytest.fixture(scope="module")
def session(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("session-catalog")
    with driver.catalog(
        catalog="spark_catalog", warehouse=str(folder / "ours"), index=str(folder / "index.db"), metastore=None
    ) as spark:
        # The same service under another name: a table is the same one through both.
        prefix = "spark.sql.catalog."
        spark.conf.set(f"{prefix}lake", sessions.CATALOG_CLASS)
        for option in ("uri", "token-file"):
            spark.conf.set(f"{prefix}lake.{option}", spark.conf.get(f"{prefix}spark_catalog.{option}"))
        spark.sql("CREATE DATABASE sales")
        yield Session(spark, sessions.active_catalog("spark_catalog"), plain_session(spark))


@pytest.fixture
def ours(session: Session) -> Iterator[Session]:
    """The session with the table ``sales.ours`` of two rows in two partitions, and ``sales.theirs`` of Spark's own."""
    session.sql("CREATE TABLE sales.ours (id INT, ds STRING) USING catalog_ext PARTITIONED BY (ds)")
    session.sql("INSERT INTO sales.ours VALUES (1, 'a'), (2, 'b')")
    session.sql("CREATE TABLE sales.theirs (id INT, ds STRING) USING parquet PARTITIONED BY (ds)")
    yield session
    session.sql("DROP TABLE IF EXISTS sales.ours")
    session.sql("DROP TABLE IF EXISTS sales.theirs")


def test_spark_is_untouched(session: Session) -> None:
    """Every catalog command of Spark's on its own objects: the same rows and the same errors."""
    assert differences(session.spark, session.plain, COMMON) == []


def test_a_table_of_ours_among_those_of_spark(ours: Session) -> None:
    assert ours.rows("SELECT * FROM sales.ours ORDER BY id") == ROWS
    assert ours.tables() == ["ours", "theirs"]
    assert ours.twins() == set()
    assert ours.catalog.list_tables("sales") == ["ours"]
    ours.sql("INSERT INTO sales.theirs SELECT * FROM sales.ours WHERE ds = 'b'")
    joined = "SELECT o.id, t.ds FROM sales.ours o JOIN sales.theirs t USING (id) JOIN lake.sales.ours l ON l.id = o.id"
    assert ours.rows(joined) == [(2, "b")]
    ours.sql("USE sales")
    try:
        assert ours.rows("SELECT count(*) FROM ours") == [(2,)]
        assert ours.rows("SELECT operation FROM ours.history ORDER BY version") == [("create",), ("INSERT",)]
    finally:
        ours.sql("USE default")


def test_versions_are_those_of_ours(ours: Session) -> None:
    ours.sql("INSERT INTO sales.ours VALUES (3, 'c')")
    assert ours.rows("SELECT * FROM sales.ours VERSION AS OF 1 ORDER BY id") == ROWS
    assert ours.spark.read.option("versionAsOf", 1).table("sales.ours").count() == 2
    assert ours.rows("SELECT partition FROM sales.ours.partitions VERSION AS OF 1 ORDER BY 1") == [("ds=a",), ("ds=b",)]
    of_spark = "SELECT * FROM sales.theirs VERSION AS OF 1"
    with pytest.raises(AnalysisException) as caught:
        ours.plain.sql(of_spark)
    assert ours.condition(of_spark) == caught.value.getCondition()


def test_commands_on_ours(ours: Session) -> None:
    assert ours.rows("SHOW PARTITIONS sales.ours") == [("ds=a",), ("ds=b",)]
    assert ours.rows("SHOW COLUMNS IN sales.ours") == [("id",), ("ds",)]
    described = ours.rows("DESCRIBE sales.ours")
    assert ("# Partition Information", "", "") in described
    ours.sql("ALTER TABLE sales.ours SET TBLPROPERTIES ('team' = 'red')")
    assert ("team", "red") in ours.rows("SHOW TBLPROPERTIES sales.ours")
    ours.sql("MSCK REPAIR TABLE sales.ours")
    ours.sql("ALTER TABLE sales.ours RECOVER PARTITIONS")
    assert ours.rows("CALL spark_catalog.system.repair_partitions('sales.ours')") == []
    assert ours.condition("LOAD DATA INPATH '/nowhere' INTO TABLE sales.ours") == "CATALOG_EXT_INVALID_PARTITION_SPEC"
    ours.sql("CACHE TABLE sales.ours")
    ours.sql("INSERT INTO sales.ours VALUES (3, 'c')")
    assert ours.rows("SELECT count(*) FROM sales.ours") == [(3,)]
    ours.sql("REFRESH TABLE sales.ours")
    ours.sql("UNCACHE TABLE sales.ours")
    ours.sql("TRUNCATE TABLE sales.ours PARTITION (ds = 'c')")
    ours.sql("DELETE FROM sales.ours WHERE ds = 'b'")
    assert ours.rows("SELECT * FROM sales.ours") == [(1, "a")]


def test_show_create_table_runs_again(ours: Session) -> None:
    ((statement,),) = ours.rows("SHOW CREATE TABLE sales.ours")
    assert "USING catalog_ext" in str(statement)
    ours.sql("DROP TABLE sales.ours")
    ours.sql(str(statement))
    assert ours.rows("SHOW CREATE TABLE sales.ours") == [(statement,)]
    assert ours.catalog.load_table("sales.ours").definition.format == "parquet"


def test_tables_like_others(ours: Session) -> None:
    ours.sql(
        "CREATE TABLE sales.chosen (id INT, ds STRING) USING catalog_ext PARTITIONED BY (ds) OPTIONS ('format' = 'orc')"
    )
    ours.sql("CREATE TABLE sales.copied LIKE sales.chosen")
    ours.sql("CREATE TABLE sales.named LIKE sales.theirs USING catalog_ext")
    assert ours.catalog.load_table("sales.copied").definition.format == "orc"
    assert ours.catalog.load_table("sales.named").definition.format == "parquet"
    assert [key.name for key in ours.catalog.load_table("sales.named").definition.keys] == ["ds"]
    ours.sql("CREATE TABLE sales.sparks LIKE sales.chosen USING csv")
    assert ours.twins() == set()
    assert "sparks" not in ours.catalog.list_tables("sales")
    assert [c.name for c in ours.spark.catalog.listColumns("sales.sparks") if c.isPartition] == ["ds"]
    for name in ("chosen", "copied", "named", "sparks"):
        ours.sql(f"DROP TABLE sales.{name}")
    # Spark's grammar does not take the name before.
    if SPARK >= (4, 2):
        refused = ours.error("CREATE TABLE sales.copied LIKE lake.sales.ours.history")
        assert refused.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
        assert "CREATE TABLE spark_catalog.sales.copied AS SELECT * FROM ... LIMIT 0" in str(refused)


def test_changes_of_ours(ours: Session) -> None:
    ours.sql("ALTER TABLE sales.ours RENAME TO named")
    ours.sql("ALTER TABLE sales.named ADD COLUMNS (more DOUBLE)")
    assert ours.rows("SELECT * FROM sales.named ORDER BY id") == [(1, None, "a"), (2, None, "b")]
    assert ours.tables() == ["named", "theirs"]
    ours.sql("ALTER TABLE sales.named RENAME TO sales.ours")
    ours.sql("ALTER TABLE sales.ours ADD PARTITION (ds = 'c')")
    ours.sql("ALTER TABLE sales.ours DROP PARTITION (ds < 'b')")
    assert ours.rows("SHOW PARTITIONS sales.ours WHERE ds > 'a' ORDER BY ds DESC") == [("ds=c",), ("ds=b",)]
    ours.sql("ALTER TABLE sales.ours PARTITION (ds = 'b') RENAME TO PARTITION (ds = 'd')")
    assert ours.rows("SELECT id, ds FROM sales.ours") == [(2, "d")]


def test_overwrites_are_sparks_by_default(ours: Session) -> None:
    ours.sql("INSERT OVERWRITE sales.ours PARTITION (ds = 'a') VALUES (7)")
    assert ours.rows("SELECT * FROM sales.ours ORDER BY id") == [(2, "b"), (7, "a")]
    ours.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        ours.sql("INSERT OVERWRITE sales.ours VALUES (8, 'a')")
    finally:
        ours.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert ours.rows("SELECT * FROM sales.ours ORDER BY id") == [(2, "b"), (8, "a")]
    ours.sql("INSERT OVERWRITE sales.ours VALUES (9, 'z')")
    assert ours.rows("SELECT * FROM sales.ours") == [(9, "z")]
    ours.sql("INSERT INTO sales.theirs VALUES (1, 'a'), (2, 'b')")
    ours.sql("INSERT OVERWRITE sales.theirs VALUES (9, 'z')")
    assert ours.rows("SELECT * FROM sales.theirs") == [(9, "z")]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE sales.ours (x INT) USING parquet",
        "CREATE TABLE sales.ours (x INT) USING catalog_ext",
        "CREATE TABLE spark_catalog.sales.OURS USING csv AS SELECT 1 AS x",
        "CREATE TABLE sales.ours STORED AS orc AS SELECT 1 AS x",
        "CREATE TABLE sales.ours LIKE sales.theirs",
        "CREATE VIEW sales.ours AS SELECT 1 AS x",
        "CREATE OR REPLACE VIEW sales.ours AS SELECT 1 AS x",
        "ALTER TABLE sales.theirs RENAME TO sales.ours",
        "ALTER TABLE sales.theirs RENAME TO ours",
        "ALTER TABLE sales.ours RENAME TO sales.theirs",
        "CREATE TABLE sales.theirs USING catalog_ext AS SELECT 1 AS x",
        "CREATE TABLE sales.theirs LIKE sales.ours USING catalog_ext",
        # A name that is known only when its expression is.
        "CREATE TABLE IDENTIFIER('sales.' || 'ours') (x INT) USING parquet",
        "CREATE TABLE IDENTIFIER(lower('SALES.OURS')) USING csv AS SELECT 1 AS x",
        "CREATE TABLE IDENTIFIER('sales.' || 'theirs') USING catalog_ext AS SELECT 1 AS x",
        "CREATE VIEW IDENTIFIER('sales.' || 'ours') AS SELECT 1 AS x",
        "CREATE OR REPLACE VIEW IDENTIFIER('sales.' || 'ours') AS SELECT 1 AS x",
        "ALTER TABLE IDENTIFIER('sales.' || 'theirs') RENAME TO sales.ours",
        "ALTER TABLE IDENTIFIER('sales.' || 'theirs') RENAME TO ours",
        "EXECUTE IMMEDIATE 'CREATE VIEW IDENTIFIER(:name) AS SELECT 1 AS x' USING 'sales.ours' AS name",
    ],
)
def test_no_twin_is_made(ours: Session, statement: str) -> None:
    assert ours.condition(statement) == EXISTS
    assert ours.twins() == set()
    assert ours.rows("SELECT * FROM sales.ours ORDER BY id") == ROWS


def test_if_not_exists_sees_ours(ours: Session) -> None:
    ours.sql("CREATE TABLE IF NOT EXISTS sales.ours (x INT) USING parquet")
    ours.sql("CREATE TABLE IF NOT EXISTS sales.ours USING csv AS SELECT 1 AS x")
    ours.sql("CREATE TABLE IF NOT EXISTS sales.ours LIKE sales.theirs")
    ours.sql("CREATE VIEW IF NOT EXISTS sales.ours AS SELECT 1 AS x")
    ours.sql("CREATE TABLE IF NOT EXISTS IDENTIFIER('sales.' || 'ours') USING csv AS SELECT 1 AS x")
    ours.sql("CREATE VIEW IF NOT EXISTS IDENTIFIER('sales.' || 'ours') AS SELECT 1 AS x")
    assert ours.twins() == set()
    assert ours.rows("SELECT * FROM sales.ours ORDER BY id") == ROWS


def test_replacing_ours_keeps_it_ours(ours: Session) -> None:
    ours.sql("CREATE OR REPLACE TABLE sales.ours USING orc AS SELECT 5 AS five")
    assert ours.rows("SELECT * FROM sales.ours") == [(5,)]
    assert ours.catalog.load_table("sales.ours").definition.format == "orc"
    assert ours.twins() == set()
    ours.sql("CREATE OR REPLACE TABLE IDENTIFIER('sales.' || 'ours') USING parquet AS SELECT 6 AS six")
    assert ours.rows("SELECT * FROM sales.ours") == [(6,)]
    assert ours.twins() == set()
    assert ours.condition("CREATE OR REPLACE TABLE sales.theirs USING catalog_ext AS SELECT 1 AS x") == (
        "CATALOG_EXT_NOT_SUPPORTED"
    )


def test_save_as_table_with_a_format_of_sparks(ours: Session) -> None:
    frame = ours.spark.createDataFrame([("z", 9)], "ds STRING, id INT")
    frame.write.mode("append").saveAsTable("sales.ours")
    frame.write.mode("append").format("parquet").partitionBy("ds").saveAsTable("sales.ours")
    # Spark's own refusal, as of a table of its own.
    with pytest.raises(AnalysisException, match="doesn't match the specified format"):
        frame.write.mode("append").format("orc").partitionBy("ds").saveAsTable("sales.ours")
    assert ours.rows("SELECT * FROM sales.ours ORDER BY id") == [*ROWS, (9, "z"), (9, "z")]
    wrong = frame.write.mode("append").partitionBy("id")
    assert ours.condition(lambda: wrong.saveAsTable("sales.ours")) == "CATALOG_EXT_INVALID_INPUT"
    frame.write.mode("ignore").saveAsTable("sales.ours")
    assert ours.condition(lambda: frame.write.saveAsTable("sales.ours")) == EXISTS
    assert ours.catalog.load_table("sales.ours").definition.format == "parquet"
    frame.write.mode("overwrite").format("orc").partitionBy("ds").saveAsTable("sales.ours")
    assert ours.rows("SELECT id, ds FROM sales.ours") == [(9, "z")]
    assert ours.catalog.load_table("sales.ours").definition.format == "orc"
    assert ours.twins() == set()


def test_insert_into_by_dataframes(ours: Session) -> None:
    frame = ours.spark.createDataFrame([(3, "a")], "id INT, ds STRING")
    frame.write.insertInto("sales.ours")
    frame.writeTo("sales.ours").append()
    assert ours.rows("SELECT count(*) FROM sales.ours WHERE ds = 'a'") == [(3,)]
    frame.write.insertInto("sales.ours", overwrite=True)
    assert ours.rows("SELECT * FROM sales.ours") == [(3, "a")]


def test_the_provider_by_name(ours: Session) -> None:
    frame = ours.spark.range(3)
    frame.writeTo("sales.made").using("catalog_ext").create()
    frame.writeTo("sales.chosen").using("catalog_ext").tableProperty("format", "orc").create()
    assert ours.catalog.load_table("sales.chosen").definition.format == "orc"
    frame.write.format("catalog_ext").saveAsTable("sales.saved")
    frame.write.format("catalog_ext").mode("append").saveAsTable("sales.saved")
    assert ours.rows("SELECT count(*) FROM sales.saved") == [(6,)]
    ours.sql("CREATE TABLE sales.liked LIKE sales.theirs USING catalog_ext")
    assert ours.rows("SHOW PARTITIONS sales.liked") == []
    assert ours.twins() == set()
    for name in ("made", "chosen", "saved", "liked"):
        ours.sql(f"DROP TABLE sales.{name}")
    reader = ours.spark.read.format("catalog_ext")
    assert ours.condition(lambda: reader.load("/nowhere")) == "CATALOG_EXT_NOT_SUPPORTED"


def test_listings_of_a_database(ours: Session) -> None:
    shown = ours.rows("SHOW TABLE EXTENDED IN sales LIKE '*'")
    assert [row[:3] for row in shown] == [("sales", "ours", False), ("sales", "theirs", False)]
    assert "Provider: parquet" in str(shown[0][3])
    assert [row[1] for row in ours.rows("SHOW TABLE EXTENDED IN sales LIKE 'th*'")] == ["theirs"]
    assert [table.name for table in ours.spark.catalog.listTables("sales")] == ["ours", "theirs"]


def test_methods_of_the_catalog(ours: Session) -> None:
    catalog = ours.spark.catalog
    assert catalog.tableExists("sales.ours")
    assert not catalog.tableExists("sales.nothing")
    assert catalog.getTable("sales.ours").tableType == "MANAGED"
    assert [(c.name, c.isPartition) for c in catalog.listColumns("sales.ours")] == [("id", False), ("ds", True)]
    catalog.cacheTable("sales.ours")
    assert catalog.isCached("sales.ours")
    catalog.refreshTable("sales.ours")
    catalog.uncacheTable("sales.ours")
    catalog.recoverPartitions("sales.ours")
    schema = ours.spark.table("sales.ours").schema
    assert ours.condition(lambda: catalog.createTable("sales.ours", source="parquet", schema=schema)) == EXISTS


def test_databases(ours: Session) -> None:
    assert ours.condition("DROP DATABASE sales") == "SCHEMA_NOT_EMPTY"
    ours.sql("CREATE DATABASE gone")
    ours.sql("CREATE TABLE gone.ours USING catalog_ext AS SELECT 1 AS x")
    assert ours.condition("DROP DATABASE gone RESTRICT") == "SCHEMA_NOT_EMPTY"
    assert ours.rows("SELECT * FROM gone.ours") == [(1,)]
    ours.sql("CREATE TABLE gone.theirs USING csv AS SELECT 1 AS x")
    ours.sql("DROP DATABASE gone CASCADE")
    assert "gone" not in ours.catalog.list_namespaces()
    assert ("gone",) not in ours.rows("SHOW DATABASES")


def test_a_namespace_that_only_the_index_has(ours: Session) -> None:
    ours.catalog.create_namespace("indexed")
    assert ("indexed",) in ours.rows("SHOW DATABASES")
    ours.sql("CREATE TABLE indexed.theirs (id INT) USING parquet")
    ours.sql("USE indexed")
    ours.sql("CREATE TABLE ours USING catalog_ext AS SELECT 1 AS x")
    ours.sql("USE default")
    assert ours.tables("indexed") == ["ours", "theirs"]
    ours.sql("DROP DATABASE indexed CASCADE")
    assert "indexed" not in ours.catalog.list_namespaces()


def test_temporary_views_win(ours: Session) -> None:
    ours.sql("USE sales")
    try:
        ours.sql("CREATE TEMPORARY VIEW ours AS SELECT 'temporary' AS word")
        assert ours.rows("SELECT * FROM ours") == [("temporary",)]
        assert ours.rows("SELECT count(*) FROM sales.ours") == [(2,)]
        assert ours.rows("SHOW TABLES LIKE 'ours'") == [("sales", "ours", False), ("", "ours", True)]
        assert ours.condition("INSERT INTO ours VALUES (1, 'x')") == "EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"
        ours.sql("DROP VIEW ours")
        assert ours.rows("SELECT count(*) FROM ours") == [(2,)]
    finally:
        ours.sql("USE default")


def test_views_over_ours(ours: Session) -> None:
    ours.sql("CREATE VIEW sales.over AS SELECT ds, count(*) AS n FROM sales.ours GROUP BY ds")
    assert ours.rows("SELECT * FROM sales.over ORDER BY ds") == [("a", 1), ("b", 1)]
    ours.sql("DROP VIEW sales.over")


def test_streams(ours: Session, tmp_path: Path) -> None:
    stream = ours.spark.readStream.table("sales.ours").writeStream.option("checkpointLocation", str(tmp_path / "c"))
    ours.sql("CREATE TABLE sales.copied (id INT, ds STRING) USING catalog_ext PARTITIONED BY (ds)")
    query = stream.trigger(availableNow=True).toTable("sales.copied")
    query.awaitTermination()
    assert ours.rows("SELECT * FROM sales.copied ORDER BY id") == ROWS
    ours.sql("DROP TABLE sales.copied")


def test_keys_are_columns_unless_the_table_says_otherwise(ours: Session, tmp_path: Path) -> None:
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "f.csv").write_text("5\n")
    ours.sql(
        "CALL spark_catalog.system.register_table(table => 'sales.found', "
        f"location => '{tmp_path}', format => 'csv', schema => 'id INT')"
    )
    ours.sql("CALL spark_catalog.system.repair_partitions('sales.found')")
    assert ours.rows("SELECT * FROM sales.found") == [(5, "1")]
    assert ours.rows("SELECT * FROM lake.sales.found") == [(5,)]
    (newest,) = ours.rows("SELECT max(version) FROM sales.found.history")[0]
    assert ours.rows(f"SELECT * FROM sales.found VERSION AS OF {newest}") == [(5, "1")]
    assert ours.rows("SELECT * FROM sales.found TIMESTAMP AS OF current_timestamp()") == [(5, "1")]
    conf = "spark.sql.catalog.spark_catalog.partition-columns"
    try:
        ours.spark.conf.set(conf, "Virtual")
        assert ours.rows("SELECT * FROM sales.found") == [(5,)]
        ours.spark.conf.set(conf, "hidden")
        with pytest.raises(AnalysisException, match=f"'hidden' is no value of the session conf '{conf}'"):
            ours.rows("SELECT * FROM sales.found")
    finally:
        ours.spark.conf.unset(conf)
    ours.sql("ALTER TABLE sales.found SET TBLPROPERTIES ('partition-columns' = 'virtual')")
    assert ours.rows("SELECT * FROM sales.found") == [(5,)]
    ours.sql("DROP TABLE sales.found")


def test_registering_hides_no_table_of_sparks(ours: Session, tmp_path: Path) -> None:
    ours.sql("INSERT INTO sales.theirs VALUES (3, 'c')")
    (tmp_path / "ds=x").mkdir()
    call = "CALL spark_catalog.system.register_table(table => 'sales.theirs', location => '{}', schema => 'id INT')"
    with pytest.raises(AnalysisException) as caught:
        ours.sql(call.format(tmp_path))
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    assert (ours.catalog.list_tables("sales"), ours.rows("SELECT id FROM sales.theirs")) == (["ours"], [(3,)])
    place = ours.rows("DESCRIBE FORMATTED sales.theirs")
    (location,) = [str(row[1]) for row in place if row[0] == "Location"]
    ours.sql(call.format(location))
    ours.sql("CALL spark_catalog.system.repair_partitions('sales.theirs')")
    assert ours.rows("SELECT id, ds FROM sales.theirs") == [(3, "c")]
    ours.sql("CALL spark_catalog.system.unregister_table('sales.theirs')")


def test_registering_hides_no_table_whose_name_needs_backticks(ours: Session, tmp_path: Path) -> None:
    """The service accepts the name `sales.1` without backticks, which Spark's parser refuses."""
    ours.sql("CREATE TABLE sales.`1` (id INT) USING parquet")
    try:
        call = f"register_table(table => 'sales.1', location => '{tmp_path}', schema => 'id INT')"
        assert ours.condition(f"CALL spark_catalog.system.{call}") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    finally:
        ours.sql("DROP TABLE sales.`1`")


def test_legacy_commands_refuse_what_they_cannot_see(ours: Session) -> None:
    ours.spark.conf.set("spark.sql.legacy.useV1Command", "true")
    try:
        for statement in ("DROP TABLE sales.ours", "SHOW TABLES IN sales", "DROP DATABASE sales CASCADE"):
            assert ours.condition(statement) == "CATALOG_EXT_NOT_SUPPORTED"
        ours.sql("CREATE DATABASE plain")
        ours.sql("DROP DATABASE plain")
    finally:
        ours.spark.conf.unset("spark.sql.legacy.useV1Command")
    assert ours.rows("SELECT count(*) FROM sales.ours") == [(2,)]


def test_a_service_that_is_down_is_no_missing_table(ours: Session) -> None:
    down = sibling(ours.spark)
    down.conf.set("spark.sql.catalog.spark_catalog.uri", "http://127.0.0.1:9")
    for statement in ("SELECT * FROM sales.ours", "SELECT * FROM sales.theirs", "SHOW TABLES IN sales"):
        with pytest.raises(PySparkException) as caught:
            down.sql(statement).collect()
        assert caught.value.getCondition() == "CATALOG_EXT_SERVICE_UNAVAILABLE"
    # Spark's own session catalog is there again when ours is switched off.
    assert ours.plain.sql("SELECT * FROM sales.theirs").collect() == []
    with pytest.raises(AnalysisException) as missing:
        ours.plain.sql("SELECT * FROM sales.ours")
    assert missing.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
