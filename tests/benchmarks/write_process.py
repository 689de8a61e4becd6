"""Writes by Spark in a process of their own: ``python -m tests.benchmarks.write_process FOLDER`` prints what they took.

The session has S3A, which that of the other benchmarks has not, and no metastore, which plain ``df.write`` has not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from catalog_ext.spark.session import configure
from catalog_ext.spark.session import stop as stop_catalog
from examples.demo import sessions
from tests.benchmarks.measure import interleaved, median
from tests.servers.seaweedfs import SeaweedServer

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from pyspark.sql import DataFrame

ROWS = 2_000_000
PARTITIONS = 20
TASKS = 4
ROUNDS = 5
WARMUPS = 2
BUCKET = "bench"
COUNTED = "counted"
CATALOG = "lake"
SMALL_FILES = 40


def main(folder: Path) -> None:
    s3 = SeaweedServer(folder / "s3")
    try:
        for bucket in (BUCKET, COUNTED):
            s3.make_bucket(bucket)
        builder: SparkSession.Builder = SparkSession.Builder()
        for key, value in _settings(folder, s3).items():
            builder = builder.config(key, value)
        index = f"sqlite:///{folder / 'index.db'}"
        builder = configure(builder, warehouse=(folder / "warehouse").as_uri(), index=index, metastore=None)
        spark = sessions.start(builder, folder / "spark.log")
        try:
            answer = _measure(spark, folder, s3)
        finally:
            stop_catalog(CATALOG)
            sessions.stop(spark)
    finally:
        s3.stop()
    print(json.dumps(answer), flush=True)


def _settings(folder: Path, s3: SeaweedServer) -> dict[str, str]:
    storage = {
        "endpoint": s3.direct_endpoint, "region": s3.region, "access_key": s3.access_key,
        "secret_key": s3.secret_key, "path_style": "true",
    }  # fmt: skip
    return {
        **sessions.local_settings(folder / "spark"),
        **sessions.s3_settings(storage),
        f"spark.hadoop.fs.s3a.bucket.{COUNTED}.endpoint": s3.endpoint,
    }


def _measure(spark: SparkSession, folder: Path, s3: SeaweedServer) -> dict[str, object]:
    spark.sql(f"CREATE NAMESPACE {CATALOG}.bench")
    # Written once, so that making the rows is not measured.
    source = folder / "source"
    _rows(spark).write.parquet(source.as_uri())
    frame = spark.read.parquet(source.as_uri())
    clustered = folder / "clustered"
    _rows(spark).repartition(TASKS, "p").write.parquet(clustered.as_uri())
    frames = {"unclustered rows": frame, "rows clustered by the key": spark.read.parquet(clustered.as_uri())}
    megabytes = sum(file.stat().st_size for file in source.rglob("*.parquet")) / 1e6
    times = {}
    for store, root in (("local disk", folder.as_uri()), ("S3 (SeaweedFS)", f"s3a://{BUCKET}")):
        for number, (what, rows) in enumerate(frames.items()):
            times[f"{store}, {what}"] = _throughput(spark, rows, f"{root}/{number}")
    return {"megabytes": megabytes, "seconds": times, "requests": _requests(spark, s3)}


def _rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, TASKS).selectExpr(
        "id AS a", "id % 1000 AS b", "rand(1) AS c", "rand(2) AS d", "hash(id) AS e",
        "concat('name-', id % 100000) AS s", f"CAST(pmod(hash(id), {PARTITIONS}) AS INT) AS p",
    )  # fmt: skip


def _create(spark: SparkSession, root: str) -> str:
    name = f"{CATALOG}.bench.t{spark.sql(f'SHOW TABLES IN {CATALOG}.bench').count()}"
    columns = "a BIGINT, b BIGINT, c DOUBLE, d DOUBLE, e INT, s STRING, p INT"
    spark.sql(f"CREATE TABLE {name} ({columns}) PARTITIONED BY (p) LOCATION '{root}/ours'")
    return name


def _throughput(spark: SparkSession, rows: DataFrame, root: str) -> dict[str, float]:
    table = _create(spark, root)
    contenders: dict[str, Callable[[int], object]] = {
        "ours": lambda _: rows.writeTo(table).append(),
        "plain": lambda _: rows.write.mode("append").partitionBy("p").parquet(f"{root}/plain"),
    }
    seconds = interleaved(contenders, rounds=ROUNDS, warmups=WARMUPS)
    written = spark.table(table).count()
    if written != ROWS * (ROUNDS + WARMUPS):
        raise AssertionError(f"{table} has {written} rows")
    return {name: median(runs) for name, runs in seconds.items()}


def _requests(spark: SparkSession, s3: SeaweedServer) -> dict[str, dict[str, float]]:
    """Requests for a file of a write of 40 small ones, by operation, after a first write of the same."""
    root = f"s3a://{COUNTED}/files"
    rows = spark.range(0, 1000 * SMALL_FILES, 1, 2).selectExpr(
        "id AS a", "id AS b", "0D AS c", "0D AS d", "1 AS e", "'x' AS s", f"CAST(id % {SMALL_FILES} AS INT) AS p"
    )
    rows = rows.repartition(2, "p")
    table = _create(spark, root)
    found = {}
    for name, write in {
        "ours": lambda: rows.writeTo(table).append(),
        "plain": lambda: rows.write.mode("append").partitionBy("p").parquet(f"{root}/plain"),
    }.items():
        write()
        before = s3.counts()
        write()
        used: Counter[str] = s3.counts() - before
        found[name] = {operation: count / SMALL_FILES for operation, count in sorted(used.items())}
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
