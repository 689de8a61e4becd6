"""Scans in a process of their own: ``python -m tests.benchmarks.scan_process FOLDER`` prints what each query took.

The compiler of a JVM decides once, from its first calls, how it compiles what they meet: the same query is 20 % slower
or quicker from one JVM to the next, and stays so. More rounds in one JVM cannot separate
that from a cost; more JVMs can.
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import SparkSession

from catalog_ext.spark.session import active_catalog, configure
from catalog_ext.spark.session import stop as stop_catalog
from examples.demo import sessions
from tests.benchmarks.measure import median

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog

PARTITIONS = 20
ROWS = 8_000_000
ROUNDS = 5
WARMUPS = 4
QUERIES = {
    "sum of 2 columns": "SELECT sum(a), sum(b) FROM {t}",
    "6 columns": "SELECT sum(a), sum(b), sum(c), max(d), sum(length(s)), count(e) FROM {t}",
    "6 columns, greatest string": "SELECT sum(a), sum(b), sum(c), max(d), max(s), count(e) FROM {t}",
    "group by the key": "SELECT p, count(*), sum(a) FROM {t} WHERE b > 500 GROUP BY p",
}
TABLES = {"ours": "lake.bench.scan", "plain": "plain", "plain v2": "plain_v2"}
_CATALOG = "lake"
_FILES = "files"


class Spent(NamedTuple):
    """Seconds: of planning, from the plan to the rows, and of the processors by the tasks."""

    plan: float
    run: float
    cpu: float


def main(folder: Path) -> None:
    root = folder / _FILES
    own = folder / f"jvm-{time.time_ns()}"
    builder: SparkSession.Builder = SparkSession.Builder()
    for key, value in sessions.local_settings(own / "spark").items():
        builder = builder.config(key, value)
    warehouse, index = (own / "warehouse").as_uri(), f"sqlite:///{own / 'index.db'}"
    builder = configure(builder, catalog=_CATALOG, warehouse=warehouse, index=index, metastore=None)
    spark = sessions.start(builder, own / "spark.log")
    try:
        if not root.exists():
            _write(spark, root)
        _register(spark, active_catalog(_CATALOG), root)
        print(json.dumps({title: _measure(spark, sql) for title, sql in QUERIES.items()}), flush=True)
    finally:
        stop_catalog(_CATALOG)
        sessions.stop(spark)


def _measure(spark: SparkSession, sql: str) -> dict[str, Spent]:
    spent: dict[str, list[Spent]] = {name: [] for name in TABLES}
    for _ in range(WARMUPS + ROUNDS):
        # In any fixed order one would always come after the same other, and pay for what that has left behind.
        for name in random.sample(list(TABLES), len(TABLES)):
            spent[name].append(_ask(spark, sql.format(t=TABLES[name])))
    return {name: Spent(*(median(list(v)) for v in zip(*runs[WARMUPS:], strict=True))) for name, runs in spent.items()}


def _ask(spark: SparkSession, sql: str) -> Spent:
    group = f"scan-{time.time_ns()}"
    spark.sparkContext.setJobGroup(group, group)
    started = time.perf_counter()
    frame = spark.sql(sql)
    frame._jdf.queryExecution().executedPlan()
    planned = time.perf_counter()
    frame.collect()
    return Spent(planned - started, time.perf_counter() - planned, _task_seconds(spark, group))


def _task_seconds(spark: SparkSession, group: str) -> float:
    """Of the processors, by the tasks' threads: neither what others take of the machine nor the JVM's compiler."""
    context = spark._jsparkSession.sparkContext()
    context.listenerBus().waitUntilEmpty()
    tracker, store = spark.sparkContext.statusTracker(), context.statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [store.lastStageAttempt(stage) for job in jobs if job is not None for stage in job.stageIds]
    return sum(int(stage.executorCpuTime() + stage.executorDeserializeCpuTime()) for stage in stages) / 1e9


def _write(spark: SparkSession, root: Path) -> None:
    frame = spark.range(ROWS).selectExpr(
        "id AS a", "id % 1000 AS b", "rand(1) AS c", "rand(2) AS d", "hash(id) AS e",
        "concat('name-', id % 100000) AS s", f"CAST(id % {PARTITIONS} AS INT) AS p",
    )  # fmt: skip
    frame.repartition(PARTITIONS, "p").write.partitionBy("p").parquet(root.as_uri())


def _register(spark: SparkSession, catalog: Catalog, root: Path) -> None:
    _, namespace, name = TABLES["ours"].split(".")
    catalog.create_namespace(namespace)
    catalog.register_table(f"{namespace}.{name}", location=root.as_uri(), partition_columns={"p": "INT"})
    catalog.repair_partitions(f"{namespace}.{name}")
    spark.read.parquet(root.as_uri()).createOrReplaceTempView(TABLES["plain"])
    v1_sources = spark.conf.get("spark.sql.sources.useV1SourceList")
    spark.conf.set("spark.sql.sources.useV1SourceList", "")
    spark.read.parquet(root.as_uri()).createOrReplaceTempView(TABLES["plain v2"])
    spark.conf.set("spark.sql.sources.useV1SourceList", str(v1_sources))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
