"""Scanning 200 MB of Parquet: ours against plain Spark, whose listing is not counted."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from operator import attrgetter
from typing import TYPE_CHECKING

from tests.benchmarks.measure import PROJECT, Interval, Outcome, interval, median, shown
from tests.benchmarks.scan_process import PARTITIONS, QUERIES, ROUNDS, ROWS, TABLES, WARMUPS, Spent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.benchmarks.stand import Stand

PROCESSES_AT_LEAST = 4
PROCESSES_AT_MOST = 16
WIDTH = 0.02
"""How far the ends of the interval may be from its middle before no more processes are started."""

AIM = 0.03
TOGETHER = "together"

_Run = dict[str, dict[str, Spent]]
_seconds, _cpu = attrgetter("run"), attrgetter("cpu")


def run(stand: Stand) -> Outcome:
    """The table of medians, and the ratios with their intervals."""
    folder = stand.folder / "scan"
    folder.mkdir()
    runs: list[_Run] = []
    while len(runs) < PROCESSES_AT_LEAST or (len(runs) < PROCESSES_AT_MOST and not _is_settled(runs)):
        runs.append(_measure(folder))
    size = sum(file.stat().st_size for file in folder.glob("files/**/*.parquet"))
    rows = [[title, *_cells(runs, title)] for title in (*QUERIES, TOGETHER)]
    planning = [shown(median([_plan(run, name) for run in runs])) for name in TABLES]
    rows.append(["planning of one query", *planning, "", "", ""])
    return Outcome(
        "Scanning 200 MB",
        f"{ROWS:,} rows in {PARTITIONS} files, {size / 1e6:.0f} MB of Parquet on the local disk. Plain Spark is "
        "`spark.read.parquet`, created once before, so that its listing is not counted. Plain Spark, DSv2, is Spark's "
        "own reader for catalogs (`spark.sql.sources.useV1SourceList` empty). Times are those of execution, without "
        f"planning: medians of {len(runs)} JVMs, each with {ROUNDS} rounds in a random order after {WARMUPS} that do "
        "not count. The last three columns compare catalog-ext with plain Spark, with the 95 % interval between JVMs. "
        "CPU time is that of the tasks: other programs on the machine do not add to it.",
        [
            "query",
            "catalog-ext",
            "plain Spark",
            "plain Spark, DSv2",
            "time against plain Spark",
            "CPU time against plain Spark",
            "CPU time against DSv2",
        ],
        rows,
        [
            _aim(
                f"a scan takes at most {AIM:.0%} more CPU time than with plain Spark",
                _difference(runs, TOGETHER, "plain"),
            ),
            _aim(
                f"a scan takes at most {AIM:.0%} more CPU time than with Spark's DSv2 reader",
                _difference(runs, TOGETHER, "plain v2"),
            ),
        ],
    )


def _measure(folder: Path) -> _Run:
    command = [sys.executable, "-m", "tests.benchmarks.scan_process", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    answer = json.loads(done.stdout.splitlines()[-1])
    return {title: {name: Spent(*spent) for name, spent in tables.items()} for title, tables in answer.items()}


def _aim(what: str, found: Interval) -> tuple[str, bool, str]:
    """Reached where the middle is within the aim; the interval says how sure that is."""
    return what, found.middle <= AIM, str(found)


def _is_settled(runs: Sequence[_Run]) -> bool:
    return all(_difference(runs, TOGETHER, other).half <= WIDTH for other in ("plain", "plain v2"))


def _cells(runs: Sequence[_Run], title: str) -> list[str]:
    times = [shown(median([_of(run, title, name, _seconds) for run in runs])) for name in TABLES]
    by_clock = _difference(runs, title, "plain", _seconds)
    return [*times, str(by_clock), str(_difference(runs, title, "plain")), str(_difference(runs, title, "plain v2"))]


def _difference(runs: Sequence[_Run], title: str, other: str, spent: Callable[[Spent], float] = _cpu) -> Interval:
    """How much longer ours took than the other, as a part of it."""
    return interval([math.log(_of(run, title, "ours", spent) / _of(run, title, other, spent)) for run in runs])


def _of(run: _Run, title: str, name: str, spent: Callable[[Spent], float]) -> float:
    return sum(spent(run[query][name]) for query in (QUERIES if title == TOGETHER else (title,)))


def _plan(run: _Run, name: str) -> float:
    return statistics.fmean(run[query][name].plan for query in QUERIES)
