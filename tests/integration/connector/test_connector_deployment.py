"""The jar on executors of their own."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.servers.recorded_service import RecordedService


pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_executors_in_other_processes_read(driver: Driver, recorded_service: RecordedService, tmp_path: Path) -> None:
    with driver.connected(
        recorded_service.uri, recorded_service.token, {"spark.executor.memory": "1g"}, master="local-cluster[2,1,1024]"
    ) as spark:
        spark.range(20).selectExpr("id", "id % 4 AS k").write.partitionBy("k").parquet(str(tmp_path / "t"))
        recorded_service.add_table("spread", tmp_path / "t", {"id": "bigint"}, {"k": "int"})
        query = (
            "SELECT k, count(*), count(_metadata.file_name) FROM lake.sales.spread WHERE k > 1 GROUP BY k ORDER BY k"
        )
        assert [tuple(row) for row in spark.sql(query).collect()] == [(2, 5, 5), (3, 5, 5)]
        for file in (tmp_path / "t" / "k=2").glob("*.parquet"):
            file.unlink()
        with pytest.raises(SparkRuntimeException, match=r"of partition 'k=2' of table lake.sales.spread") as caught:
            spark.sql("SELECT sum(id) FROM lake.sales.spread").collect()
        assert caught.value.getCondition() == "CATALOG_EXT_FILE_MISSING"
        assert recorded_service.requests["tables/plan"] == 2
        # More files than the driver reads the footers of.
        for number in range(110):
            (tmp_path / "many" / f"k={number % 3}").mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": [number]}), tmp_path / "many" / f"k={number % 3}" / f"{number}.parquet")
        recorded_service.add_table("many", tmp_path / "many", {"id": "bigint"}, {"k": "int"})
        count = "SELECT k, count(*) FROM lake.sales.many GROUP BY k ORDER BY k"
        assert [tuple(row) for row in spark.sql(count).collect()] == [(0, 37), (1, 37), (2, 36)]
        assert recorded_service.table("many").totals.rows == 110


@contextlib.contextmanager
def connect_session(spark: SparkSession, uuid: str) -> Iterator[None]:
    """What Spark Connect's server makes of a thread while it serves a session: what is added is that session's."""
    jvm: Any = spark._jvm
    sets = jvm.java.lang.Class.forName("org.apache.spark.JobArtifactSet$")
    field = sets.getDeclaredField("currentClientSessionState")
    field.setAccessible(True)
    state = field.get(None)
    before = state.get()
    state.set(jvm.scala.Option.apply(jvm.org.apache.spark.JobArtifactState(uuid, jvm.scala.Option.apply(None))))
    try:
        yield
    finally:
        state.set(before)


def jars_of(spark: SparkSession, uuid: str) -> set[str]:
    """The file names of the jars that executors get for a session."""
    jvm: Any = spark._jvm
    found = spark.sparkContext._jsc.sc().addedJars().get(uuid)  # type: ignore[attr-defined]
    if found.isEmpty():
        return set()
    names = jvm.scala.jdk.javaapi.CollectionConverters.asJava(found.get().keySet())
    return {str(name).rpartition("/")[2] for name in names}


@pytest.mark.slow
def test_jars_of_the_submission_are_of_all_sessions_of_a_connect_server(
    driver: Driver, recorded_service: RecordedService
) -> None:
    with driver.connected(
        recorded_service.uri, recorded_service.token, {"spark.executor.memory": "1g"}, master="local-cluster[1,1,1024]"
    ) as spark:
        jvm: Any = spark._jvm
        submitted = {Path(jar).name for jar in jvm.java.lang.System.getProperty("spark.jars").split(",")}
        # PySpark's builder, which the driver of the tests does without, gives executors the program's jars alone.
        added = spark.sparkContext._jsc.sc().addedJars().get("default").get()  # type: ignore[attr-defined]
        for name in list(jvm.scala.jdk.javaapi.CollectionConverters.asJava(added.keySet())):
            if "hadoop-aws" in name:
                added.remove(name)
        assert not submitted <= jars_of(spark, "default")
        with connect_session(spark, "first"):
            spark.sql("SHOW NAMESPACES IN lake").collect()
        assert jars_of(spark, "first") == set()
        assert submitted <= jars_of(spark, "default")
