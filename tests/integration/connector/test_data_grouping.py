"""Joins and aggregations by partition columns without a shuffle, where tasks are as partitions are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.connector.test_connector_predicates import gathered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KEY = "spark.sql.catalog.lake.preserve-data-grouping"
SETTINGS = {
    KEY: "true",
    "spark.sql.sources.v2.bucketing.enabled": "true",
    "spark.sql.sources.v2.bucketing.pushPartValues.enabled": "true",
    "spark.sql.sources.v2.bucketing.allowJoinKeysSubsetOfPartitionKeys.enabled": "true",
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "3",
}
KINDS = ("declared", "virtual")


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("grouping")
    with driver.catalog(
        warehouse=str(folder / "warehouse"), index=f"sqlite:///{folder}/index.db", metastore=None
    ) as session:
        session.sql("CREATE NAMESPACE lake.g")
        for kind in KINDS:
            for name, first, last in (("a", 1, 6), ("b", 4, 9)):
                session.sql(
                    f"CREATE TABLE lake.g.{name}_{kind} PARTITIONED BY (ds, r) TBLPROPERTIES "
                    f"('partition-columns' = '{kind}') AS SELECT id, DATE'2025-01-01' + CAST(id AS INT) AS ds, "
                    f"IF(id % 2 = 0, 'eu', 'ü s') AS r FROM range({first}, {last})"
                )
                table = f"lake.g.{name}_{kind}"
                session.sql(
                    f"INSERT INTO {table} (id, ds, r) VALUES ({first}, DATE'2025-01-06', 'eu'), (0, NULL, 'eu')"
                )
        yield session


@pytest.fixture(params=["grouped", "spread"])
def grouped(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[bool]:
    settings = {**SETTINGS, KEY: "true" if request.param == "grouped" else "false"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield request.param == "grouped"
    for key in settings:
        spark.conf.unset(key)


def exchanges(frame: DataFrame) -> int:
    frame.collect()
    plan: str = frame._jdf.queryExecution().executedPlan().toString()
    return plan.split("== Initial Plan ==")[0].count("Exchange hashpartitioning")


QUESTIONS = {
    "both keys": "SELECT a.id, b.id FROM {a} a JOIN {b} b ON a.ds = b.ds AND a.r = b.r",
    "one key": "SELECT a.id, b.id FROM {a} a JOIN {b} b ON a.ds = b.ds",
    "outer": "SELECT a.id, b.id, a.ds FROM {a} a FULL JOIN {b} b ON a.ds = b.ds AND a.r = b.r",
    "anti": "SELECT a.id FROM {a} a LEFT ANTI JOIN {b} b ON a.ds = b.ds",
    "filtered": "SELECT a.id, b.id FROM {a} a JOIN {b} b ON a.ds = b.ds AND a.r = b.r WHERE a.r = 'eu' AND b.id > 0",
    "found by a join": "SELECT a.id, b.id FROM {a} a JOIN {b} b ON a.ds = b.ds WHERE b.id = 5",
    "grouped": "SELECT ds, count(*), sum(id) FROM {a} GROUP BY ds",
    "window": "SELECT id, row_number() OVER (PARTITION BY ds, r ORDER BY id) FROM {a}",
    "itself": "SELECT x.id, y.id FROM {a} x JOIN {a} y ON x.ds = y.ds AND x.r = y.r AND x.id < y.id",
    "no key": "SELECT sum(id) FROM {a}",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_answers_are_the_same_without_a_shuffle(spark: SparkSession, grouped: bool, kind: str, question: str) -> None:
    frame = spark.sql(question.format(a=f"lake.g.a_{kind}", b=f"lake.g.b_{kind}"))
    copies = {}
    for name in "ab":
        copies[name] = f"{name}_copy"
        table = f"lake.g.{name}_{kind}"
        spark.createDataFrame(spark.sql(f"SELECT id, ds, r FROM {table}").collect(), "id BIGINT, ds DATE, r STRING"
                              ).createOrReplaceTempView(copies[name])  # fmt: skip
    assert gathered(frame) == gathered(spark.sql(question.format(**copies)))
    if "sum(id) FROM {a}" not in question or "GROUP" in question:
        assert (exchanges(frame) == 0) == grouped, frame._jdf.queryExecution().executedPlan().toString()
