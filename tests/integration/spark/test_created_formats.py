"""`create.formats`, `create.databases`: which CREATE TABLE of Spark's makes one of ours in the session catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from catalog_ext.conf.keys import CREATE_DATABASES, CREATE_FORMATS
from catalog_ext.metastore.model.tables import FORMATS
from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

PREFIX = "spark.sql.catalog.spark_catalog."


class Created(Sql):
    """A session with our session catalog, in which the database ``sales`` is empty."""

    def setting(self, **values: str) -> None:
        for key, value in values.items():
            self.spark.conf.set(f"{PREFIX}create.{key}", value)

    @property
    def ours(self) -> dict[str, str]:
        """The tables of the index with their formats."""
        catalog = sessions.active_catalog("spark_catalog")
        if "sales" not in catalog.list_namespaces():
            return {}
        return {name: catalog.load_table(f"sales.{name}").definition.format for name in catalog.list_tables("sales")}

    @property
    def all(self) -> list[str]:
        return [str(row[1]) for row in self.rows("SHOW TABLES IN sales")]


@pytest.fixture(scope="module")
def session(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Created]:
    folder = tmp_path_factory.mktemp("created")
    with driver.catalog(
        catalog="spark_catalog", warehouse=str(folder / "ours"), index=str(folder / "index.db"), metastore=None
    ) as spark:
        yield Created(spark)


@pytest.fixture
def created(session: Created) -> Iterator[Created]:
    session.sql("CREATE DATABASE sales")
    yield session
    for key in ("formats", "databases"):
        session.spark.conf.unset(f"{PREFIX}create.{key}")
    session.sql("DROP DATABASE sales CASCADE")


def make(session: Created, how: str, data_format: str = "parquet") -> None:
    """Make ``sales.t`` with the columns ``id`` and ``ds``."""
    frame = session.spark.createDataFrame([(1, "a")], "id INT, ds STRING")
    match how:
        case "columns":
            session.sql(f"CREATE TABLE sales.t (id INT, ds STRING) USING {data_format} PARTITIONED BY (ds)")
        case "stored as":
            session.sql(f"CREATE TABLE sales.t (id INT) PARTITIONED BY (ds STRING) STORED AS {data_format.upper()}")
        case "as select":
            session.sql(f"CREATE TABLE sales.t USING {data_format} PARTITIONED BY (ds) AS SELECT 1 AS id, 'a' AS ds")
        case "neither":
            session.sql("CREATE TABLE sales.t PARTITIONED BY (ds) AS SELECT 1 AS id, 'a' AS ds")
        case "replace":
            session.sql(
                f"CREATE OR REPLACE TABLE sales.t USING {data_format} PARTITIONED BY (ds) AS SELECT 1 AS id, 'a' AS ds"
            )
        case "like":
            session.sql("CREATE TABLE sales.model (id INT, ds STRING) USING json PARTITIONED BY (ds)")
            session.sql(f"CREATE TABLE sales.t LIKE sales.model USING {data_format}")
        case "saveAsTable":
            frame.write.format(data_format).partitionBy("ds").saveAsTable("sales.t")
        case "writeTo":
            frame.writeTo("sales.t").using(data_format).partitionedBy(frame.ds).create()
        case "createTable":
            session.spark.catalog.createTable("sales.t", source=data_format, schema=frame.schema)
        case _:
            raise AssertionError(how)


WAYS = ["columns", "stored as", "as select", "neither", "replace", "like", "saveAsTable", "writeTo", "createTable"]


@pytest.mark.parametrize("how", [way for way in WAYS if way not in ("stored as", "replace")])
def test_without_the_setting_they_are_sparks(created: Created, how: str) -> None:
    """Spark's catalog in memory has no tables of Hive's, and Spark replaces none of its own formats."""
    make(created, how)
    assert (created.ours, "t" in created.all) == ({}, True)


@pytest.mark.parametrize("how", WAYS)
def test_every_way_of_making_a_table(created: Created, how: str) -> None:
    created.setting(formats="orc, Parquet")
    make(created, how)
    assert created.ours == {"t": "parquet"}
    if how != "createTable":
        assert created.rows("SELECT * FROM sales.t LIMIT 0") == []
        assert [row[0] for row in created.rows("DESCRIBE sales.t")][:2] == ["id", "ds"]
        created.sql("INSERT INTO sales.t VALUES (2, 'b')")
        assert ("ds=b",) in created.rows("SHOW PARTITIONS sales.t")
    created.sql("DROP TABLE sales.t")
    assert created.ours == {}


def test_formats_that_are_not_named_are_sparks(created: Created) -> None:
    created.setting(formats="orc")
    make(created, "as select", "parquet")
    assert created.ours == {}
    created.sql("DROP TABLE sales.t")
    make(created, "as select", "orc")
    assert created.ours == {"t": "orc"}
    created.setting(formats="*")
    created.sql("CREATE TABLE sales.text USING csv OPTIONS (header 'true') AS SELECT 1 AS id")
    created.sql("CREATE TABLE sales.text2 USING json AS SELECT 1 AS id")
    assert created.ours == {"t": "orc", "text": "csv", "text2": "json"}
    assert created.rows("SELECT id FROM sales.text") == [(1,)]
    created.setting(formats="none")
    created.sql("CREATE TABLE sales.sparks USING json AS SELECT 1 AS id")
    assert "sparks" not in created.ours


def test_only_chosen_databases(created: Created) -> None:
    created.setting(formats="*", databases="other, SALES")
    created.sql("CREATE TABLE plain USING parquet AS SELECT 1 AS id")
    make(created, "as select")
    assert created.ours == {"t": "parquet"}
    assert "default" not in sessions.active_catalog("spark_catalog").list_namespaces() or (
        "plain" not in sessions.active_catalog("spark_catalog").list_tables("default")
    )
    created.sql("DROP TABLE plain")


def test_tables_that_are_there_stay_whose_they_are(created: Created) -> None:
    created.sql("CREATE TABLE sales.theirs USING parquet AS SELECT 1 AS id")
    created.setting(formats="parquet")
    created.sql("CREATE TABLE IF NOT EXISTS sales.theirs (x INT) USING parquet")
    created.spark.range(3).write.mode("append").saveAsTable("sales.theirs")
    created.spark.range(3).write.mode("overwrite").saveAsTable("sales.theirs")
    created.sql("INSERT INTO sales.theirs VALUES (7)")
    assert created.rows("SELECT count(*) FROM sales.theirs") == [(4,)]
    with pytest.raises(PySparkException) as caught:
        created.sql("CREATE TABLE sales.theirs USING parquet AS SELECT 1 AS id")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    assert created.ours == {}
    created.sql("DROP TABLE sales.theirs")
    created.sql("CREATE TABLE sales.theirs USING parquet AS SELECT 1 AS id")
    assert created.ours == {"theirs": "parquet"}
    created.spark.range(3).write.mode("overwrite").format("orc").saveAsTable("sales.theirs")
    assert created.ours == {"theirs": "orc"}


def test_temporary_and_other_kinds_are_sparks(created: Created, tmp_path: Path) -> None:
    created.setting(formats="*")
    created.sql("CREATE VIEW sales.seen AS SELECT 1 AS id")
    created.sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS id")
    created.sql(f"CREATE TABLE sales.binary USING binaryFile LOCATION '{tmp_path}'")
    assert created.ours == {}
    created.sql("DROP VIEW passing")


def test_a_location_makes_an_external_table(created: Created, tmp_path: Path) -> None:
    created.setting(formats="parquet")
    created.sql(f"CREATE TABLE sales.t USING parquet LOCATION '{tmp_path}/t' AS SELECT 1 AS id")
    table = sessions.active_catalog("spark_catalog").load_table("sales.t")
    assert table.definition.location == f"file://{tmp_path}/t"
    created.sql("DROP TABLE sales.t")
    assert list((tmp_path / "t").glob("*.parquet"))


def test_a_location_that_is_to_be_read_stays_sparks(created: Created, tmp_path: Path) -> None:
    """Ours would be empty until it is repaired: `register_table` is for files that are there."""
    created.spark.range(3).write.parquet(f"{tmp_path}/there")
    created.setting(formats="parquet")
    for number, columns in enumerate(("", "(id BIGINT)")):
        created.sql(f"CREATE TABLE sales.t{number} {columns} USING parquet LOCATION '{tmp_path}/there'")
        assert created.rows(f"SELECT count(*) FROM sales.t{number}") == [(3,)]
    created.sql(f"CREATE TABLE sales.t2 LIKE sales.t0 USING parquet LOCATION '{tmp_path}/there'")
    created.sql(f"CREATE TABLE sales.t3 (id BIGINT) USING parquet OPTIONS (path '{tmp_path}/there')")
    created.spark.catalog.createTable("sales.t4", path=f"{tmp_path}/there", source="parquet")
    assert created.ours == {}
    assert created.rows("SELECT (SELECT count(*) FROM sales.t3) + (SELECT count(*) FROM sales.t4)") == [(6,)]


def test_a_table_like_one_of_ours(created: Created) -> None:
    created.setting(formats="orc")
    make(created, "as select", "orc")
    created.sql("CREATE TABLE sales.copied LIKE sales.t USING orc")
    created.sql("CREATE TABLE sales.sparks LIKE sales.t USING csv")
    assert created.ours == {"t": "orc", "copied": "orc"}
    assert created.rows("SHOW PARTITIONS sales.copied") == []


def test_a_stream_makes_its_table(created: Created, tmp_path: Path) -> None:
    created.setting(formats="parquet")
    created.spark.range(3).write.parquet(f"{tmp_path}/from")
    stream = created.spark.readStream.schema("id BIGINT").parquet(f"{tmp_path}/from").writeStream
    query = stream.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True).toTable("sales.t")
    query.awaitTermination()
    assert created.ours == {"t": "parquet"}
    assert created.rows("SELECT count(*) FROM sales.t") == [(3,)]


def test_what_a_table_of_ours_cannot_be_says_so(created: Created) -> None:
    created.setting(formats="parquet")
    for statement in (
        "CREATE TABLE sales.t (id INT) USING parquet CLUSTERED BY (id) INTO 4 BUCKETS",
        "CREATE TABLE sales.t USING parquet CLUSTERED BY (id) INTO 4 BUCKETS AS SELECT 1 AS id",
    ):
        with pytest.raises(PySparkException) as caught:
            created.sql(statement)
        assert caught.value.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
    with pytest.raises(PySparkException) as bucketed:
        created.spark.range(3).write.bucketBy(2, "id").saveAsTable("sales.t")
    assert bucketed.value.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
    assert created.all == []


def test_a_format_that_there_is_not(created: Created) -> None:
    created.setting(formats="parquet,avro")
    with pytest.raises(PySparkException) as caught:
        make(created, "columns")
    assert caught.value.getCondition() == "CATALOG_EXT_INVALID_CONFIGURATION"
    assert "'avro'" in str(caught.value)
    assert "spark.sql.catalog.spark_catalog.create.formats" in str(caught.value)


def test_the_page_says_the_same() -> None:
    """Which texts Spark takes is read there, in Scala."""
    assert CREATE_FORMATS.read({}) == frozenset()
    assert CREATE_FORMATS.read({"create.formats": ", ".join(FORMATS).upper()}) == set(FORMATS)
    assert CREATE_DATABASES.read({}) == {"*"}
