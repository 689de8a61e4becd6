"""Scanning 200 MB of Parquet: ours against plain Spark, whose listing is not counted."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.benchmarks.measure import Outcome, interleaved, median, ratio, shown
from tests.benchmarks.stand import CATALOG, NAMESPACE

if TYPE_CHECKING:
    from tests.benchmarks.stand import Stand

PARTITIONS = 20
ROWS = 8_000_000
ROUNDS = 12
WARMUPS = 3
QUERIES = {
    "sum of 2 columns": "SELECT sum(a), sum(b) FROM {t}",
    "6 columns": "SELECT sum(a), sum(b), sum(c), max(d), sum(length(s)), count(e) FROM {t}",
    "6 columns, greatest string": "SELECT sum(a), sum(b), sum(c), max(d), max(s), count(e) FROM {t}",
    "group by the key": "SELECT p, count(*), sum(a) FROM {t} WHERE b > 500 GROUP BY p",
}
TABLES = {"ours": f"{CATALOG}.{NAMESPACE}.scan", "plain": "plain", "plain v2": "plain_v2"}


class _Spent(NamedTuple):
    plan: float
    run: float
    cpu: float


def run(stand: Stand) -> Outcome:
    """The table of medians."""
    root = stand.folder / "scan"
    _prepare(stand, root)
    size = sum(file.stat().st_size for file in root.rglob("*.parquet"))
    rows = []
    total = {name: _Spent(0, 0, 0) for name in TABLES}
    for title, sql in QUERIES.items():
        spent = _measure(stand, sql)
        for name, one in spent.items():
            total[name] = _Spent(*(a + b for a, b in zip(total[name], one, strict=True)))
        rows.append([title, *_cells(spent)])
    rows.append(["together", *_cells(total)])
    planning = [shown(total[name].plan / len(QUERIES)) for name in TABLES]
    rows.append(["planning of one query", *planning, "", "", ""])
    ours, plain, v2 = total["ours"], total["plain"], total["plain v2"]
    return Outcome(
        "Scanning 200 MB",
        f"{ROWS:,} rows in {PARTITIONS} files, {size / 1e6:.0f} MB of Parquet on the local disk. Plain Spark is "
        "`spark.read.parquet`, made once, before, so that its listing is not counted; its DSv2 reader is the one that "
        "a catalog of tables has to use (`spark.sql.sources.useV1SourceList` empty). Times are from the finished plan "
        f"to the rows, planning apart; {ROUNDS} rounds, taking turns. CPU time is that of Spark's process.",
        ["query", "catalog-ext", "plain Spark", "plain Spark, DSv2", "against plain", "in CPU time", "against DSv2"],
        rows,
        [
            ("scan within 3 % of plain Spark", ours.run <= 1.03 * plain.run, ratio(ours.run, plain.run)),
            ("scan within 3 % of plain Spark's DSv2 reader", ours.run <= 1.03 * v2.run, ratio(ours.run, v2.run)),
        ],
    )


def _cells(spent: dict[str, _Spent]) -> list[str]:
    ours, plain, v2 = (spent[name] for name in TABLES)
    times = [shown(one.run) for one in (ours, plain, v2)]
    return [*times, ratio(ours.run, plain.run), ratio(ours.cpu, plain.cpu), ratio(ours.run, v2.run)]


def _measure(stand: Stand, sql: str) -> dict[str, _Spent]:
    spent: dict[str, list[_Spent]] = {name: [] for name in TABLES}

    def ask(name: str) -> None:
        started = time.perf_counter()
        frame = stand.spark.sql(sql.format(t=TABLES[name]))
        frame._jdf.queryExecution().executedPlan()
        planned, cpu = time.perf_counter(), _cpu_seconds(stand)
        frame.collect()
        done = time.perf_counter()
        spent[name].append(_Spent(planned - started, done - planned, _cpu_seconds(stand) - cpu))

    interleaved({name: lambda _, name=name: ask(name) for name in TABLES}, rounds=ROUNDS, warmups=WARMUPS)
    return {name: _Spent(*(median(list(v)) for v in zip(*runs[WARMUPS:], strict=True))) for name, runs in spent.items()}


def _cpu_seconds(stand: Stand) -> float:
    """What Spark's process has used of the processors; unlike a clock it does not count what others take."""
    pid = stand.spark._jvm.java.lang.ProcessHandle.current().pid()
    user, system = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _prepare(stand: Stand, root: Path) -> None:
    frame = stand.spark.range(ROWS).selectExpr(
        "id AS a", "id % 1000 AS b", "rand(1) AS c", "rand(2) AS d", "hash(id) AS e",
        "concat('name-', id % 100000) AS s", f"CAST(id % {PARTITIONS} AS INT) AS p",
    )  # fmt: skip
    frame.repartition(PARTITIONS, "p").write.partitionBy("p").parquet(root.as_uri())
    name = f"{NAMESPACE}.scan"
    stand.catalog.register_table(name, location=root.as_uri(), partition_columns={"p": "INT"})
    stand.catalog.repair_partitions(name)
    stand.spark.read.parquet(root.as_uri()).createOrReplaceTempView(TABLES["plain"])
    v1_sources = stand.spark.conf.get("spark.sql.sources.useV1SourceList")
    stand.spark.conf.set("spark.sql.sources.useV1SourceList", "")
    stand.spark.read.parquet(root.as_uri()).createOrReplaceTempView(TABLES["plain v2"])
    stand.spark.conf.set("spark.sql.sources.useV1SourceList", str(v1_sources))
