"""Repair: with nothing changed against the bare listing, the first one against Spark's MSCK, and its memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.catalog import connect
from catalog_ext.metastore.storage.listing import list_tree
from tests.benchmarks import trees
from tests.benchmarks.measure import Outcome, interleaved, median, ratio, shown
from tests.benchmarks.stand import NAMESPACE
from tests.servers.seaweedfs import SeaweedServer

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from tests.benchmarks.stand import Stand

PARTITIONS = 10_000
MEMORY_SIZES = (10_000, 100_000)
ROUNDS = 5
BUCKET = "bench"
PROJECT = Path(__file__).resolve().parents[2]


def unchanged(stand: Stand) -> Outcome:
    """Repair with nothing changed, on the local disk and on S3."""
    root = trees.grow(stand.folder / "unchanged", stand.seed, range(PARTITIONS))
    rows, aims = [], []
    with connect(index=str(stand.folder / "unchanged.db"), metastore=None) as catalog:
        _measure_unchanged(catalog, "local disk", root.as_uri(), rows, aims)
    s3 = SeaweedServer(stand.folder / "s3")
    try:
        s3.make_bucket(BUCKET)
        trees.grow_on_s3(s3.file_system(), f"{BUCKET}/t", stand.seed, PARTITIONS)
        storage = {
            "endpoint": s3.direct_endpoint, "region": s3.region, "access_key": s3.access_key,
            "secret_key": s3.secret_key, "path_style": "true",
        }  # fmt: skip
        with connect(index=str(stand.folder / "s3.db"), metastore=None, storage=storage) as catalog:
            _measure_unchanged(catalog, "S3 (SeaweedFS)", f"s3a://{BUCKET}/t", rows, aims)
    finally:
        s3.stop()
    return Outcome(
        "Repair with nothing changed",
        f"A table of {PARTITIONS:,} partitions with one file each, in which nothing has changed. The bare listing is "
        f"repair's listing without its other work. Medians of {ROUNDS} rounds, in which both take turns.",
        ["store", "bare listing", "repair", "difference"],
        rows,
        aims,
    )


def _measure_unchanged(
    catalog: Catalog, store: str, location: str, rows: list[list[str]], aims: list[tuple[str, bool, str]]
) -> None:
    name = _register(catalog, location)
    catalog.repair_partitions(name)

    def list_bare(_: int) -> None:
        found = sum(1 for event in list_tree(catalog.storage, location, descend=lambda _: True, depth_hint=1))
        if found < PARTITIONS:
            raise AssertionError(f"the listing found {found} of {PARTITIONS}")

    def repair(_: int) -> None:
        if len(catalog.repair_partitions(name)):
            raise AssertionError("the repair found something to do")

    seconds = interleaved({"list": list_bare, "repair": repair}, rounds=ROUNDS)
    bare, whole = median(seconds["list"]), median(seconds["repair"])
    rows.append([store, shown(bare), shown(whole), ratio(whole, bare)])
    aims.append(
        (
            f"a repair with nothing changed takes at most 25 % longer than the bare listing, {store}",
            whole <= 1.25 * bare,
            ratio(whole, bare),
        )
    )


def first(stand: Stand) -> Outcome:
    """The first repair of 10,000 partitions against Spark's MSCK on the Hive Metastore."""
    root = trees.grow(stand.folder / "first", stand.seed, range(PARTITIONS))

    def ours(number: int) -> None:
        with connect(index=str(stand.folder / f"first-{number}.db"), metastore=None) as catalog:
            name = _register(catalog, root.as_uri())
            started = time.perf_counter()
            report = catalog.repair_partitions(name)
            times.append(time.perf_counter() - started)
            if len(report.added) != PARTITIONS:
                raise AssertionError(f"{len(report.added)} partitions were added")

    times: list[float] = []
    for number in range(4):
        ours(number)
    index_seconds = median(times[1:])
    started = time.perf_counter()
    with_metastore = f"{NAMESPACE}.first_ours"
    stand.catalog.register_table(
        with_metastore, location=root.as_uri(), schema=trees.SCHEMA, partition_columns=trees.KEYS
    )
    stand.catalog.repair_partitions(with_metastore)
    stand.catalog.deliver(timeout_s=600)
    delivered_seconds = time.perf_counter() - started
    msck_seconds = median([_msck(stand, f"msck{number}", root) for number in range(2)])
    factor = msck_seconds / index_seconds
    return Outcome(
        f"First repair of {PARTITIONS:,} partitions",
        "Local disk, SQLite index, Hive Metastore 2.3 on Derby. MSCK REPAIR TABLE runs in Spark's Hive catalog: median "
        "of 2 runs on new tables. catalog-ext up to the index's commit: median of 3 runs on new indexes.",
        ["what", "time"],
        [
            ["catalog-ext, up to the index's commit", shown(index_seconds)],
            ["catalog-ext, until the metastore has all partitions", shown(delivered_seconds)],
            ["Spark's MSCK REPAIR TABLE", shown(msck_seconds)],
        ],
        [("the first repair is at least 10 times faster than MSCK REPAIR TABLE", factor >= 10, f"{factor:.1f} times")],
    )


def _msck(stand: Stand, name: str, root: Path) -> float:
    table = f"spark_catalog.{NAMESPACE}.{name}"
    stand.spark.sql(
        f"CREATE TABLE {table} (x BIGINT, p INT) USING parquet PARTITIONED BY (p) LOCATION '{root.as_uri()}'"
    )
    started = time.perf_counter()
    stand.spark.sql(f"MSCK REPAIR TABLE {table}")
    seconds = time.perf_counter() - started
    found = stand.spark.sql(f"SHOW PARTITIONS {table}").count()
    if found != PARTITIONS:
        raise AssertionError(f"MSCK found {found} partitions")
    return seconds


def memory(stand: Stand) -> Outcome:
    """Peak memory of a first repair, and of one with nothing changed, each in a process of its own."""
    rows, peak = [], 0.0
    for size in MEMORY_SIZES:
        root = trees.grow(stand.folder / f"memory-{size}", stand.seed, range(size))
        index = stand.folder / f"memory-{size}.db"
        for what in ("first repair", "nothing changed"):
            answer = _child(root, index)
            peak = max(peak, answer["peak_mb"])
            rows.append([
                f"{size:,} partitions, {what}", f"{answer['peak_mb']:.0f} MB", f"{answer['imports_mb']:.0f} MB",
                shown(answer["seconds"]),
            ])  # fmt: skip
    return Outcome(
        "Peak memory of repair",
        "Peak resident memory of a process that connects, registers a table and repairs it; local disk, SQLite index.",
        ["table and repair", "peak memory", "memory before the repair", "time of the repair"],
        rows,
        [("a repair takes less than 300 MB of memory", peak < 300, f"{peak:.0f} MB")],
    )


def _child(root: Path, index: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.repair_process", root.as_uri(), str(index)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _register(catalog: Catalog, location: str) -> str:
    if NAMESPACE not in catalog.list_namespaces():
        catalog.create_namespace(NAMESPACE)
    name = f"{NAMESPACE}.t"
    catalog.register_table(name, location=location, schema=trees.SCHEMA, partition_columns=trees.KEYS)
    return name
