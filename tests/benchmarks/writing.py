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
            aims.append((f"write within 3 % of plain Spark, {what}", ours <= 1.03 * plain, ratio(ours, plain)))
        else:
            aims.append((f"write ahead of plain Spark, {what}", ours < plain, ratio(ours, plain)))
    requests = {name: sum(by.values()) for name, by in answer["requests"].items()}
    rows.append(["requests to S3 for a file", f"{requests['ours']:.1f}", f"{requests['plain']:.1f}", "", ""])
    return Outcome(
        f"Writing {megabytes:.0f} MB",
        f"{write_process.ROWS:,} rows to {write_process.PARTITIONS} partitions, read from Parquet, by "
        f"`df.writeTo(t).append()` and by `df.write.partitionBy(…).parquet(…)`; up to the end of the commit, SQLite "
        f"index, no metastore; {write_process.ROUNDS} rounds, taking turns. As they come: each task has rows of every "
        f"partition. Requests: of a write of {write_process.SMALL_FILES} small files, {_by_operation(answer)}.",
        ["rows", "catalog-ext", "plain Spark", "difference", "catalog-ext"],
        rows,
        aims,
    )


def _by_operation(answer: dict[str, Any]) -> str:
    parts = [f"{count:.2f} {operation}" for operation, count in answer["requests"]["ours"].items()]
    return "ours for a file " + ", ".join(parts)
