"""Planning and running ``count(x) WHERE p = K``, a new K each time, by the number of partitions."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from examples.demo.sessions import LISTING_PARALLELISM
from tests.benchmarks import trees
from tests.benchmarks.measure import Outcome, median, ratio, shown
from tests.benchmarks.stand import CATALOG, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from tests.benchmarks.stand import Stand

SIZES = (10, 1_000, 10_000, 100_000)
WITH_FILES = 10_000
"""Up to here every partition has its file; above, only those that are asked for."""

ROUNDS = 9
WARMUPS = 6
ROUNDS_OF_OTHERS = 5


@dataclass(slots=True)
class Times:
    """Seconds of the runs of one contender."""

    plan: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)


def run(stand: Stand) -> Outcome:
    """The table of medians."""
    roots = {size: _prepare(stand, size) for size in SIZES}
    ours: dict[int, Times] = {size: Times() for size in SIZES}
    part: dict[int, list[float]] = {size: [] for size in SIZES}
    others: dict[tuple[str, int], Times] = {}
    service = _ServiceClient(stand)
    for number in range(WARMUPS + ROUNDS):
        for size in SIZES:
            key = _key(size, number)
            seconds = service.load_and_plan(f"p{size}", key)
            taken = _spark(lambda s=size, k=key: stand.spark.sql(_sql(f"{CATALOG}.{NAMESPACE}.p{s}", k)))
            if number >= WARMUPS:
                part[size].append(seconds)
                _note(ours[size], taken)
            if number < WARMUPS - 1 or number >= WARMUPS + ROUNDS_OF_OTHERS or size > WITH_FILES or size < 1000:
                continue
            for name, ask in _others(stand, size, roots[size], key).items():
                other = ask()
                if number >= WARMUPS:
                    _note(others.setdefault((name, size), Times()), other)
    service.close()
    return _outcome(ours, part, others)


def _outcome(ours: dict[int, Times], part: dict[int, list[float]], others: dict[tuple[str, int], Times]) -> Outcome:
    rows = [
        ["catalog-ext, planning by the service", *(shown(median(part[size])) for size in SIZES)],
        ["catalog-ext, planning by Spark", *(shown(median(ours[size].plan)) for size in SIZES)],
        ["catalog-ext, planned and run", *(shown(median(ours[size].whole)) for size in SIZES)],
    ]
    for name in dict.fromkeys(name for name, _ in others):
        found = [others.get((name, size)) for size in SIZES]
        if any(times and times.plan for times in found):
            rows.append([f"{name}, planning", *(shown(median(t.plan) if t else None) for t in found)])
        rows.append([f"{name}, planned and run", *(shown(median(t.whole) if t else None) for t in found)])
    small, large = median(ours[SIZES[0]].plan), median(ours[SIZES[-1]].plan)
    worst = max(median(times) for times in part.values())
    return Outcome(
        "Planning and running `count(x) WHERE p = K`",
        "Tables with an INT key and one file of one row per partition, on the local disk; a SQLite index that was "
        "filled directly. Each query selects another partition K; medians of warm runs. Planning by the service is the "
        "time of the requests tables/load and tables/plan over HTTP. `spark.read` lists the directories with "
        f"{LISTING_PARALLELISM} tasks, in a new DataFrame for each query. Of the 100,000 partitions only those that "
        "the queries select have files.",
        ["", *(f"{size:,} partitions" for size in SIZES)],
        rows,
        [
            (
                "planning by the service takes at most 20 % longer for 100,000 partitions than for 10",
                large <= 1.2 * small,
                ratio(large, small),
            ),
            ("planning by the service takes less than 25 ms", worst < 0.025, shown(worst)),
        ],
    )


def _prepare(stand: Stand, size: int) -> Path:
    keys = range(size) if size <= WITH_FILES else sorted({_key(size, n) for n in range(WARMUPS + ROUNDS)})
    root = trees.grow(stand.folder / f"p{size}", stand.seed, keys)
    name = f"{NAMESPACE}.p{size}"
    stand.catalog.register_table(name, location=root.as_uri(), schema=trees.SCHEMA, partition_columns=trees.KEYS)
    trees.fill_index(stand.catalog, name, size, stand.seed, deliver=size <= WITH_FILES)
    return root


def _key(size: int, number: int) -> int:
    return (number * 7919 + 13) % size


def _sql(table: str, key: int) -> str:
    return f"SELECT count(x) FROM {table} WHERE p = {key}"


def _others(stand: Stand, size: int, root: Path, key: int) -> dict[str, Callable[[], tuple[float | None, float]]]:
    def from_files() -> DataFrame:
        return stand.spark.read.parquet(root.as_uri()).where(f"p = {key}").selectExpr("count(x)")

    def from_duckdb() -> tuple[None, float]:
        # Imported here: it prints its leaks at exit, in every process that has imported it.
        import duckdb

        started = time.perf_counter()
        sql = f"SELECT count(x) FROM read_parquet('{root}/*/*.parquet', hive_partitioning = true) WHERE p = {key}"
        _check(duckdb.sql(sql).fetchall()[0][0])
        return None, time.perf_counter() - started

    return {
        "spark.read.parquet": lambda: _spark(from_files),
        "Spark's Hive catalog": lambda: _spark(
            lambda: stand.spark.sql(_sql(f"spark_catalog.{NAMESPACE}.p{size}", key))
        ),
        "DuckDB's glob": from_duckdb,
    }


def _spark(make: Callable[[], DataFrame]) -> tuple[float, float]:
    started = time.perf_counter()
    frame = make()
    frame._jdf.queryExecution().executedPlan()
    planned = time.perf_counter()
    _check(frame.collect()[0][0])
    return planned - started, time.perf_counter() - started


def _check(count: int) -> None:
    if count != 1:
        raise AssertionError(f"the partition's count is {count}, expected 1")


def _note(times: Times, taken: tuple[float | None, float]) -> None:
    if taken[0] is not None:
        times.plan.append(taken[0])
    times.whole.append(taken[1])


class _ServiceClient:
    """Asks the session's service what the connector asks it for one statement, over one kept connection."""

    def __init__(self, stand: Stand) -> None:
        conf = stand.spark.conf
        address = urlsplit(str(conf.get(f"spark.sql.catalog.{CATALOG}.uri")))
        self._token = Path(str(conf.get(f"spark.sql.catalog.{CATALOG}.token-file"))).read_text()
        self._connection = http.client.HTTPConnection(str(address.hostname), address.port)

    def load_and_plan(self, name: str, key: int) -> float:
        started = time.perf_counter()
        table = json.loads(self._post("tables/load", {"namespace": NAMESPACE, "name": name}))
        predicate = {"op": "=", "column": "p", "value": str(key)}
        request = {"table_id": table["table_id"], "version": table["version"], "predicate": predicate}
        self._post("tables/plan", request)
        return time.perf_counter() - started

    def close(self) -> None:
        self._connection.close()

    def _post(self, operation: str, body: dict[str, object]) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        self._connection.request("POST", f"/v1/{operation}", json.dumps(body), headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{operation}: {content[:500]!r}")
        return content
