"""The session catalog with our tables in it, on a Hive Metastore that Spark and the index share."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException

from catalog_ext.spark import session as sessions
from tests.integration.job_statements import ON_VIEWS, SAME, STATEMENTS, WORDS
from tests.integration.lake import Sql, rows
from tests.integration.session_commands import HIVE, differences, outcome, plain_session
from tests.integration.spark_driver import HIVE as HIVE_SUPPORT
from tests.integration.thrift_proxy import ThriftProxy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.job_statements import Statement
    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveMetastore


pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Session(Sql):
    """A session with our session catalog, one without, and the way of Spark's own calls to the metastore."""

    plain: SparkSession
    catalog: Catalog
    metastore: ThriftProxy

    def sparks(self, query: str) -> list[tuple[object, ...]]:
        """The rows as Spark has them without us."""
        return rows(self.plain, query)

    def files_listed(self) -> int:
        """Files that Spark has found by listing, since the start."""
        metrics = self.spark._jvm.org.apache.spark.metrics.source.HiveCatalogMetrics  # type: ignore[union-attr]
        return int(metrics.METRIC_FILES_DISCOVERED().getCount())


@pytest.fixture(scope="module")
def session(
    driver: Driver, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("session-hive")
    address = urlsplit(hive_metastore.uri)
    assert address.hostname is not None
    assert address.port is not None
    with ThriftProxy(address.hostname, address.port) as proxy:
        warehouse = str(folder / "warehouse")
        hive = {
            "spark.hadoop.hive.metastore.uris": proxy.uri, "spark.sql.warehouse.dir": warehouse,
            "spark.hadoop.hive.metastore.client.connect.retry.delay": "0s",
        }  # fmt: skip
        with driver.catalog(
            {**HIVE_SUPPORT, **hive}, catalog="spark_catalog", warehouse=warehouse, index=str(folder / "index.db"),
            metastore=hive_metastore.uri,
        ) as spark:  # fmt: skip
            spark.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
            plain = plain_session(spark)
            plain.sql("CREATE DATABASE hived")
            yield Session(spark, plain, sessions.active_catalog("spark_catalog"), proxy)
            spark.sql("DROP DATABASE IF EXISTS hived CASCADE")


@pytest.fixture
def trips(session: Session) -> Iterator[Session]:
    """``hived.trips``, a managed Hive table of six partitions that Spark wrote, imported into the index."""
    session.plain.sql(
        "CREATE TABLE hived.trips (id INT, fare DOUBLE) PARTITIONED BY (ds STRING, k INT) STORED AS PARQUET"
    )
    session.plain.sql(
        "INSERT INTO hived.trips PARTITION (ds, k) SELECT id, id * 1.5, concat('d', id % 3), id % 2 FROM range(12)"
    )
    session.rows("CALL spark_catalog.system.import_table('hived.trips')")
    yield session
    session.rows("DROP TABLE IF EXISTS hived.trips")


def test_spark_is_untouched(session: Session) -> None:
    assert differences(session.spark, session.plain, HIVE) == []


def test_existing_queries_get_the_same_rows_without_partition_calls(trips: Session) -> None:
    query = "SELECT * FROM hived.trips WHERE ds = 'd1' AND k = 1 ORDER BY id"
    trips.plain.sql("REFRESH TABLE hived.trips")
    before, listed = trips.metastore.calls.copy(), trips.files_listed()
    expected = trips.sparks(query)
    partition_calls = {name for name in trips.metastore.calls - before if "partition" in name}
    # The meters work: Spark asks for partitions and lists their files.
    assert partition_calls != set()
    assert trips.files_listed() > listed

    before, listed = trips.metastore.calls.copy(), trips.files_listed()
    frame = trips.spark.sql(query)
    assert [tuple(row) for row in frame.collect()] == expected
    assert frame.columns == trips.plain.sql(query).columns
    assert [name for name in trips.metastore.calls - before if "partition" in name] == []
    assert trips.files_listed() == listed
    assert "BatchScan spark_catalog.hived.trips" in frame._jdf.queryExecution().executedPlan().toString()


def test_a_table_that_both_have_is_listed_once_and_is_ours(trips: Session) -> None:
    assert trips.rows("SHOW TABLES IN hived") == [("hived", "trips", False)]
    assert len(trips.rows("SHOW TABLE EXTENDED IN hived LIKE '*'")) == 1
    trips.rows("INSERT INTO hived.trips VALUES (99, 1.0, 'd9', 9)")
    # Spark without us sees it through the metastore, which follows.
    trips.plain.sql("REFRESH TABLE hived.trips")
    assert trips.sparks("SELECT id FROM hived.trips WHERE ds = 'd9'") == [(99,)]
    assert trips.rows("SELECT id FROM hived.trips WHERE ds = 'd9'") == [(99,)]
    assert trips.rows("SHOW PARTITIONS hived.trips PARTITION (ds = 'd9')") == [("ds=d9/k=9",)]


def test_what_is_loaded_is_seen_through_the_metastore(trips: Session, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": pa.array([70], pa.int32()), "fare": [0.5]}), tmp_path / "one.parquet")
    for keys in ("ds = 'd7', k = 7", "ds = 'd1', k = 1"):
        trips.rows(
            f"LOAD DATA LOCAL INPATH '{tmp_path}/one.parquet' OVERWRITE INTO TABLE hived.trips PARTITION ({keys})"
        )
    trips.plain.sql("REFRESH TABLE hived.trips")
    query = "SELECT * FROM hived.trips WHERE ds IN ('d7', 'd1') ORDER BY ds, k"
    assert trips.sparks(query) == trips.rows(query)
    assert trips.rows(query)[-1] == (70, 0.5, "d7", 7)


def test_save_as_table_never_drops_the_metastores_table_behind_us(trips: Session) -> None:
    frame = trips.spark.createDataFrame([(1, 2.0, "x", 0)], "id INT, fare DOUBLE, ds STRING, k INT")
    frame.write.mode("append").saveAsTable("hived.trips")
    assert trips.rows("SELECT count(*) FROM hived.trips") == [(13,)]
    failing = trips.spark.sql("SELECT raise_error('no') AS id, 1D AS fare, 'x' AS ds, 0 AS k")
    with pytest.raises(PySparkException):
        failing.write.mode("overwrite").partitionBy("ds", "k").saveAsTable("hived.trips")
    assert trips.rows("SELECT count(*) FROM hived.trips") == [(13,)]
    trips.plain.sql("REFRESH TABLE hived.trips")
    assert trips.sparks("SELECT count(*) FROM hived.trips") == [(13,)]


def test_leaving_and_dropping(trips: Session) -> None:
    trips.rows("CALL spark_catalog.system.unregister_table('hived.trips')")
    assert trips.rows("SELECT count(*) FROM hived.trips") == [(12,)]
    assert trips.catalog.list_tables("hived") == []
    trips.rows("CALL spark_catalog.system.import_table('hived.trips')")
    trips.rows("DROP TABLE hived.trips")
    assert trips.rows("SHOW TABLES IN hived") == []
    assert trips.sparks("SHOW TABLES IN hived") == []


def test_a_database_with_tables_of_both(session: Session) -> None:
    session.rows("CREATE DATABASE both")
    session.rows("CREATE TABLE both.ours USING catalog_ext AS SELECT 1 AS x")
    session.rows("CREATE TABLE both.theirs STORED AS ORC AS SELECT 1 AS x")
    assert session.sparks("SELECT * FROM both.ours") == [(1,)]
    with pytest.raises(PySparkException) as caught:
        session.rows("DROP DATABASE both")
    assert caught.value.getCondition() == "SCHEMA_NOT_EMPTY"
    session.rows("DROP DATABASE both CASCADE")
    assert ("both",) not in session.sparks("SHOW DATABASES")
    assert "both" not in session.catalog.list_namespaces()


@dataclass(frozen=True)
class Job:
    """Runs the statements of a job in a database of its own, which has the table ``t`` and another, ``sink``."""

    spark: SparkSession
    database: str
    folder: Path

    def run(self, statements: Sequence[Statement]) -> list[object]:
        self.spark.sql(f"USE {self.database}")
        try:
            return [self._outcome(one.text) for one in statements]
        finally:
            self.spark.sql("USE default")

    def _outcome(self, text: str) -> object:
        files = {name: self._incoming(name, number) for number, name in enumerate(("file", "file2"), 70)}
        statement = text.format(t="t", n="t", out=self.folder / "out", **files)
        found = outcome(self.spark, statement)
        # What differs by where and when it runs.
        here = str(found).replace(str(self.folder), "FOLDER").replace(self.database, "DATABASE")
        return re.sub(r'transient_lastDdlTime":"\d+', "TIME", here)

    def _incoming(self, name: str, number: int) -> Path:
        """A directory with a Parquet file of one row, which is there anew for each statement."""
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "_SUCCESS").touch()
        rows_of = pa.table({"id": pa.array([number], pa.int32()), "name": [name]})
        parquet.write_table(rows_of, place / "part-0.parquet")
        return place


@pytest.fixture
def jobs(session: Session, tmp_path: Path) -> Iterator[dict[str, Job]]:
    """The same job on a table of ours, on one that is Hive's alone, and on that without us."""
    made: dict[str, Job] = {}
    # EXPLAIN cuts locations short: they are of one length.
    for kind, spark in {"ours": session.spark, "hive": session.spark, "bare": session.plain}.items():
        database = f"jobs_{kind}"
        session.plain.sql(f"CREATE DATABASE {database}")
        session.plain.sql(
            f"CREATE TABLE {database}.t (id INT, name STRING) PARTITIONED BY (ds STRING) STORED AS PARQUET"
        )
        session.plain.sql(f"INSERT INTO {database}.t VALUES (1, 'one', 'a'), (2, 'two', 'b')")
        session.plain.sql(f"CREATE TABLE {database}.sink (id INT, name STRING) STORED AS PARQUET")
        (tmp_path / kind / "out").mkdir(parents=True)
        made[kind] = Job(spark, database, tmp_path / kind)
    session.plain.conf.set("hive.exec.dynamic.partition.mode", "nonstrict")
    session.rows("CALL spark_catalog.system.import_table('jobs_ours.t')")
    yield made
    for job in made.values():
        session.rows(f"DROP DATABASE {job.database} CASCADE")


def test_statements_of_existing_jobs(jobs: dict[str, Job]) -> None:
    """Each on a table of ours as on Hive's, or with the error that it is to have; on Hive's as without us."""
    ours, theirs, plain = (jobs[kind].run(STATEMENTS) for kind in ("ours", "hive", "bare"))
    wrong: list[str] = []
    for one, mine, passed_on, expected in zip(STATEMENTS, ours, theirs, plain, strict=True):
        same = mine == expected if one.meant == SAME else True
        works = str(mine).startswith("([") == str(expected).startswith("([") if one.meant == WORDS else True
        refused = one.meant in (SAME, WORDS) or str(mine).startswith(f"('{one.meant}'")
        if not (same and works and refused):
            wrong.append(f"{one.text}\n  ours:  {mine}\n  plain: {expected}")
        if passed_on != expected:
            wrong.append(f"{one.text}\n  on Hive's: {passed_on}\n  plain:     {expected}")
    assert wrong == [], "\n".join(wrong)


def test_statements_on_a_temporary_view_are_sparks(session: Session, tmp_path: Path) -> None:
    found = []
    for spark in (session.spark, session.plain):
        spark.sql("CREATE TEMPORARY VIEW t AS SELECT 1 AS id, 'one' AS name, 'a' AS ds")
        try:
            found.append(Job(spark, "hived", tmp_path).run(ON_VIEWS))
        finally:
            for name in ("t", "renamed"):
                spark.catalog.dropTempView(name)
    ours, plain = found
    assert [(one.text, a, b) for one, a, b in zip(ON_VIEWS, ours, plain, strict=True) if a != b] == []


@pytest.mark.parametrize("is_kept", [True, False])
def test_function_is_restored_if_the_metastore_refuses_it_without_settings(session: Session, is_kept: bool) -> None:
    """Spark stores it with our settings; it is dropped, and stored again without them. The second call is refused."""
    stored = session.metastore.calls["create_function"]

    def refuses(method: str, call: bytes) -> bool:
        is_again = method == "create_function" and session.metastore.calls[method] > stored + 1
        return is_again and not (is_kept and b"spark.sql.catalogext." in call)

    session.metastore.refuses = refuses
    try:
        with pytest.raises(PySparkException, match=r"function .*twice without the settings of catalog-ext") as caught:
            session.spark.sql("CREATE FUNCTION hived.twice(x INT) RETURNS INT RETURN x * 2")
    finally:
        session.metastore.refuses = lambda *_: False
    assert caught.value.getCondition() == "CATALOG_EXT_METASTORE_UNAVAILABLE"
    assert ("It is there with them" in str(caught.value)) is is_kept
    assert ("was dropped for that, and could not be put back" in str(caught.value)) is not is_kept
    assert bool(session.rows("SHOW USER FUNCTIONS IN hived LIKE 'twice'")) is is_kept
    # The remedy that the message names.
    session.rows("CREATE OR REPLACE FUNCTION hived.twice(x INT) RETURNS INT RETURN x * 2")
    assert session.sparks("SELECT hived.twice(4)") == [(8,)]
    session.rows("DROP FUNCTION hived.twice")
