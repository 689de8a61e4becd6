"""Writing by Spark: throughput against plain ``df.write.partitionBy``, and requests to S3 for a file."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.benchmarks import write_process
from tests.benchmarks.measure import PROJECT, Outcome, ratio, shown

if TYPE_CHECKING:
    from tests.benchmarks.stand import Stand


def run(stand: Stand) -> Outcome:
    """The tables of medians and of requests, in one."""
    folder = stand.folder / "writing"
    folder.mkdir()
    command = [sys.executable, "-m", "tests.benchmarks.write_process", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=PROJECT)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    megabytes = answer["megabytes"]
    rows, aims = [], []
    for what, seconds in answer["seconds"].items():
        ours, plain = seconds["ours"], seconds["plain"]
        speed = f"{megabytes / ours:.0f} MB/s"
        rows.append([what, shown(ours), shown(plain), ratio(ours, plain), speed])
        if what.startswith("local"):
            aims.append(
                (
                    f"a write takes at most 3 % longer than with plain Spark: {what}",
                    ours <= 1.03 * plain,
                    ratio(ours, plain),
                )
            )
        else:
            aims.append((f"a write is faster than with plain Spark: {what}", ours < plain, ratio(ours, plain)))
    requests = {name: sum(by.values()) for name, by in answer["requests"].items()}
    rows.append(["requests to S3 per file", f"{requests['ours']:.1f}", f"{requests['plain']:.1f}", "", ""])
    return Outcome(
        f"Writing {megabytes:.0f} MB",
        f"{write_process.ROWS:,} rows, read from Parquet, go to {write_process.PARTITIONS} partitions by "
        f"`df.writeTo(t).append()` (catalog-ext) and `df.write.partitionBy(…).parquet(…)` (plain Spark). Times end "
        f"with the commit; SQLite index, no metastore; medians of {write_process.ROUNDS} rounds, in which both take "
        f"turns. Unclustered rows: each task has rows of every partition. The last line counts the requests of a write "
        f"of {write_process.SMALL_FILES} small files; catalog-ext has per file {_by_operation(answer)}.",
        ["store and rows", "catalog-ext", "plain Spark", "difference", "throughput of catalog-ext"],
        rows,
        aims,
    )


def _by_operation(answer: dict[str, Any]) -> str:
    parts = [f"{count:.2f} {operation}" for operation, count in answer["requests"]["ours"].items()]
    return ", ".join(parts)
