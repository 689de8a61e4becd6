"""Scanning 200 MB of Parquet: ours against plain Spark, whose listing is not counted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.measure import Outcome, interleaved, median, ratio, shown
from tests.benchmarks.stand import CATALOG, NAMESPACE

if TYPE_CHECKING:
    from tests.benchmarks.stand import Stand

PARTITIONS = 20
ROWS = 8_000_000
ROUNDS = 15
WARMUPS = 3
QUERIES = {
    "sum of 2 columns": "SELECT sum(a), sum(b) FROM {t}",
    "6 columns": "SELECT sum(a), sum(b), sum(c), max(d), max(s), count(e) FROM {t}",
    "group by the key": "SELECT p, count(*), sum(a) FROM {t} WHERE b > 500 GROUP BY p",
}


def run(stand: Stand) -> Outcome:
    """The table of medians."""
    root = stand.folder / "scan"
    _write(stand, root)
    size = sum(file.stat().st_size for file in root.rglob("*.parquet"))
    name = f"{NAMESPACE}.scan"
    stand.catalog.register_table(name, location=root.as_uri(), partition_columns={"p": "INT"})
    stand.catalog.repair_partitions(name)
    stand.spark.read.parquet(root.as_uri()).createOrReplaceTempView("plain")
    names = {"ours": f"{CATALOG}.{name}", "plain": "plain"}
    rows = []
    wall, cpu = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for title, sql in QUERIES.items():
        spent: dict[str, list[float]] = {contender: [] for contender in names}

        def ask(contender: str, sql: str = sql, spent: dict[str, list[float]] = spent) -> None:
            before = _cpu_seconds(stand)
            stand.spark.sql(sql.format(t=names[contender])).collect()
            spent[contender].append(_cpu_seconds(stand) - before)

        taken = interleaved({c: lambda _, c=c, ask=ask: ask(c) for c in names}, rounds=ROUNDS, warmups=WARMUPS)
        for contender in names:
            wall[contender] += median(taken[contender])
            cpu[contender] += median(spent[contender][WARMUPS:])
        ours, plain = median(taken["ours"]), median(taken["plain"])
        cpu_ratio = ratio(median(spent["ours"][WARMUPS:]), median(spent["plain"][WARMUPS:]))
        rows.append([title, shown(ours), shown(plain), ratio(ours, plain), cpu_ratio])
    difference, cpu_difference = ratio(wall["ours"], wall["plain"]), ratio(cpu["ours"], cpu["plain"])
    rows.append(["together", shown(wall["ours"]), shown(wall["plain"]), difference, cpu_difference])
    return Outcome(
        "Scanning 200 MB",
        f"{ROWS:,} rows in {PARTITIONS} files, {size / 1e6:.0f} MB of Parquet on the local disk; the plain DataFrame "
        f"(`spark.read.parquet`) is made once, before, so that its listing is not counted; ours asks the index each "
        f"time. {ROUNDS} rounds, taking turns. CPU time is that of Spark's process.",
        ["query", "catalog-ext", "plain Spark", "difference", "in CPU time"],
        rows,
        [
            (
                "scan within 3 % of plain Spark",
                wall["ours"] <= 1.03 * wall["plain"],
                f"{difference} ({cpu_difference} in CPU time)",
            )
        ],
    )


def _cpu_seconds(stand: Stand) -> float:
    """What Spark's process has used of the processors; unlike a clock it does not count what others take."""
    pid = stand.spark._jvm.java.lang.ProcessHandle.current().pid()
    user, system = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _write(stand: Stand, root: Path) -> None:
    frame = stand.spark.range(ROWS).selectExpr(
        "id AS a", "id % 1000 AS b", "rand(1) AS c", "rand(2) AS d", "hash(id) AS e",
        "concat('name-', id % 100000) AS s", f"CAST(id % {PARTITIONS} AS INT) AS p",
    )  # fmt: skip
    frame.repartition(PARTITIONS, "p").write.partitionBy("p").parquet(root.as_uri())
