"""Counts and key values of 100,000 files that another engine wrote: the first query reads footers, the next none."""

from __future__ import annotations

import os
import shutil
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING

from tests.benchmarks.measure import Outcome, median, shown
from tests.benchmarks.stand import CATALOG, NAMESPACE
from tests.benchmarks.trees import FILE_NAME, SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.stand import Stand

COUNT = 100_000
REGIONS = 100
FIRST_DAY = date(2023, 1, 1)
KEYS = {"ds": "DATE", "region": "STRING"}
ROUNDS = 5
AIM_S = 0.3
QUESTIONS = {
    "`count(*)`": "SELECT count(*) FROM {t}",
    "`max(ds)`": "SELECT max(ds) FROM {t}",
    "`count(DISTINCT ds)`": "SELECT count(DISTINCT ds) FROM {t}",
    "`GROUP BY region`": "SELECT region, count(*) FROM {t} GROUP BY region",
}


def run(stand: Stand) -> Outcome:
    """The table of times."""
    table = _prepare(stand)
    counting, *_ = QUESTIONS
    scanned = _ask(stand, QUESTIONS[counting].format(t=f"{table} WITH ('index-answers' = 'false')"))
    unlearned = {
        name: _ask(stand, sql.format(t=f"{table} WITH ('statistics.learn' = 'false')"))
        for name, sql in QUESTIONS.items()
    }
    first = _ask(stand, QUESTIONS[counting].format(t=table))
    following = {
        name: median([_ask(stand, sql.format(t=table)) for _ in range(ROUNDS)]) for name, sql in QUESTIONS.items()
    }
    worst = max(following.values())
    rows = [
        [name, *(shown(seconds if name == counting else None) for seconds in (scanned, first)),
         shown(unlearned[name]), shown(following[name])]
        for name in QUESTIONS
    ]  # fmt: skip
    return Outcome(
        f"Counts of {COUNT:,} files that another engine wrote",
        f"{COUNT:,} partitions with a Parquet file of one row each, keys `ds DATE, region STRING`, local disk, SQLite "
        "index, after the first repair and without ANALYZE. Files are scanned with `index-answers` = `false`, and "
        "counts are not recorded with `statistics.learn` = `false`. The next query is the median of "
        f"{ROUNDS} queries after a first `count(*)`.",
        ["", "files scanned", "first query", "footers read, not recorded", "next query"],
        rows,
        [
            ("the first `count(*)` is not slower than a scan of the files", first <= scanned, shown(first)),
            (f"the next query takes at most {AIM_S:g} s", worst <= AIM_S, shown(worst)),
        ],
    )


def _prepare(stand: Stand) -> str:
    root = stand.folder / "learning"
    _grow(root, stand.seed)
    name = f"{NAMESPACE}.learning"
    stand.catalog.register_table(name, location=root.as_uri(), schema=SCHEMA, partition_columns=KEYS)
    stand.catalog.repair_partitions(name)
    return f"{CATALOG}.{name}"


def _grow(root: Path, seed: Path) -> None:
    source = seed
    for number in range(COUNT):
        day, region = divmod(number, REGIONS)
        directory = root / f"ds={FIRST_DAY + timedelta(days=day)}" / f"region=r{region:02d}"
        directory.mkdir(parents=True)
        target = directory / FILE_NAME
        try:
            os.link(source, target)
        except OSError:
            # A file may have only so many links: the next ones are of this copy.
            source = target
            shutil.copy2(seed, target)


def _ask(stand: Stand, sql: str) -> float:
    started = time.perf_counter()
    stand.spark.sql(sql).collect()
    return time.perf_counter() - started
