"""Scanning 200 MB of Parquet: ours against plain Spark, whose listing is not counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.measure import Outcome, interleaved, median, ratio, shown
from tests.benchmarks.stand import CATALOG, NAMESPACE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.stand import Stand

PARTITIONS = 20
ROWS = 8_000_000
ROUNDS = 9
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
    rows, worst = [], 0.0
    total = {"ours": 0.0, "plain": 0.0}
    for title, sql in QUERIES.items():
        seconds = interleaved(
            {
                "ours": lambda _, q=sql: stand.spark.sql(q.format(t=f"{CATALOG}.{name}")).collect(),
                "plain": lambda _, q=sql: stand.spark.sql(q.format(t="plain")).collect(),
            },
            rounds=ROUNDS,
            warmups=2,
        )
        ours, plain = median(seconds["ours"]), median(seconds["plain"])
        total["ours"] += ours
        total["plain"] += plain
        worst = max(worst, ours / plain)
        best = ratio(min(seconds["ours"]), min(seconds["plain"]))
        rows.append([title, shown(ours), shown(plain), ratio(ours, plain), best])
    difference = ratio(total["ours"], total["plain"])
    rows.append(["together", shown(total["ours"]), shown(total["plain"]), difference, ""])
    return Outcome(
        "Scanning 200 MB",
        f"{ROWS:,} rows in {PARTITIONS} files, {size / 1e6:.0f} MB of Parquet on the local disk; the plain DataFrame "
        f"is made once, before. {ROUNDS} rounds, taking turns.",
        ["query", "catalog-ext", "plain Spark", "medians", "fastest runs"],
        rows,
        [("scan within 3 % of plain Spark", total["ours"] <= 1.03 * total["plain"], difference)],
    )


def _write(stand: Stand, root: Path) -> None:
    frame = stand.spark.range(ROWS).selectExpr(
        "id AS a", "id % 1000 AS b", "rand(1) AS c", "rand(2) AS d", "hash(id) AS e",
        "concat('name-', id % 100000) AS s", f"CAST(id % {PARTITIONS} AS INT) AS p",
    )  # fmt: skip
    frame.repartition(PARTITIONS, "p").write.partitionBy("p").parquet(root.as_uri())
