"""Planning queries that read many of a million files: all, a year of days, one value of the last key."""

from __future__ import annotations

import gc
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from tests.benchmarks import trees
from tests.benchmarks.measure import Outcome, median, shown
from tests.benchmarks.stand import CATALOG, NAMESPACE
from tests.benchmarks.trees import FILE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.benchmarks.stand import Stand

COUNT = 1_000_000
REGIONS = 12
OF_DAY = REGIONS * 24
FIRST_DAY = date(2017, 1, 1)
KEYS = {"ds": "DATE", "region": "STRING", "hour": "INT"}
ROUNDS = 5
_BATCH = 20_000
_TABLE = "many"
_NAME = "part-00000-{:032x}.c000.snappy.parquet"

QUERIES = {
    "all": ("", 1.0),
    "a year of days": (" WHERE ds >= DATE'2020-01-01' AND ds < DATE'2021-01-01'", 0.4),
    "`hour = 3`, the last key": (" WHERE hour = 3", 0.25),
}
"""By what is read: the condition, and how long planning may take."""

MOST_HELD = 200_000_000


def run(stand: Stand) -> Outcome:
    """The table of medians."""
    _prepare(stand)
    rows, aims = [], []
    for what, (condition, aim) in QUERIES.items():
        sql = f"SELECT sum(x) FROM {CATALOG}.{NAMESPACE}.{_TABLE}{condition}"
        _plan(stand, sql)
        seconds, cpu, files, tasks, held = zip(*(_plan(stand, sql) for _ in range(ROUNDS)), strict=True)
        rows.append([
            what, f"{files[0]:,}", f"{tasks[0]:,}", shown(median(list(seconds))), shown(median(list(cpu))),
            f"{max(held) / 1e6:.0f} MB",
        ])  # fmt: skip
        aims.append(
            (f"planning of {what} within {aim:g} s", median(list(seconds)) <= aim, shown(median(list(seconds))))
        )
        if what == "all":
            aims.append(("the driver holds at most 200 MB of a million files", max(held) <= MOST_HELD, rows[-1][-1]))
    return Outcome(
        "Planning queries of many files",
        f"{COUNT:,} partitions with a file each, keys `ds DATE, region STRING, hour INT`, SQLite index, up to Spark's "
        f"input partitions of `SELECT sum(x)`; median of {ROUNDS}, warm. CPU time is that of Spark's process and of "
        "Python, without the process that reads the index. Held is the heap after a collection, with the plan and "
        "without.",
        ["files read", "files", "tasks", "planned", "CPU time", "held"],
        rows,
        aims,
    )


def _prepare(stand: Stand) -> None:
    root: Path = stand.folder / _TABLE
    name = f"{NAMESPACE}.{_TABLE}"
    directory = root / next(_names(1))
    directory.mkdir(parents=True)
    (directory / FILE_NAME).write_bytes(stand.seed.read_bytes())
    stand.catalog.register_table(name, location=root.as_uri(), schema=trees.SCHEMA, partition_columns=KEYS)
    table = stand.catalog.load_table(name)
    changes: list[AddPartition] = []
    for number, partition in enumerate(_names(COUNT), start=1):
        file = DataFile(
            _NAME.format(number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128), 500 + number % 999, number, 1
        )
        changes.append(AddPartition(partition, (file,)))
        if len(changes) == _BATCH or number == COUNT:
            stand.catalog.index.commits.apply_changes(table.table_id, changes, operation="benchmark", deliver=False)
            changes = []
    stand.catalog.index.planner_statistics.analyze()


def _names(count: int) -> Iterator[str]:
    for number in range(count):
        day, rest = divmod(number, OF_DAY)
        region, hour = divmod(rest, 24)
        yield f"ds={FIRST_DAY + timedelta(days=day)}/region=r{region:02d}/hour={hour}"


def _plan(stand: Stand, sql: str) -> tuple[float, float, int, int, int]:
    """Seconds, CPU seconds, files, tasks and bytes held of one planning."""
    jvm: Any = stand.spark._jvm
    before = _heap(jvm)
    started, used = time.perf_counter(), _cpu(jvm)
    execution = stand.spark.sql(sql)._jdf.queryExecution()
    execution.executedPlan()
    scan = execution.sparkPlan().collectLeaves().apply(0)
    tasks = int(scan.inputRDD().getNumPartitions())
    taken, cpu = time.perf_counter() - started, _cpu(jvm) - used
    held = _heap(jvm) - before
    files = int(scan.scan().choice().get().files())
    del execution, scan
    gc.collect()
    return taken, cpu, files, tasks, held


def _heap(jvm: Any) -> int:
    for _ in range(2):
        jvm.java.lang.System.gc()
    return int(jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def _cpu(jvm: Any) -> float:
    handle = jvm.java.lang.ProcessHandle.current()
    return float(handle.info().totalCpuDuration().get().toMillis()) / 1000 + time.process_time()
