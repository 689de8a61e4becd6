"""Commits of writes on the index's side: their time by the size of the table, and many processes at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog_ext.catalog import connect
from catalog_ext.metastore.commit.plan import Append
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.transaction import BeginWrite
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.write_protocol import Transactions
from tests.benchmarks import trees
from tests.benchmarks.measure import Outcome, interleaved, median, ratio, shown
from tests.benchmarks.stand import NAMESPACE
from tests.servers.databases import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.catalog import Catalog
    from tests.benchmarks.stand import Stand

SIZES = (100, 1_000_000)
MOST_MS = {"SQLite": 10, "PostgreSQL": 15}
LEAST_A_SECOND = 150
ROUNDS = 40
FILES = 10
PROCESSES = 16
COMMITS = 40
PROJECT = Path(__file__).resolve().parents[2]
TABLE = f"{NAMESPACE}.t"


def commits(stand: Stand) -> Outcome:
    """What a write of ten files asks of the index, into small and large tables."""
    rows, aims = [], []
    with _databases(stand.folder / "commits") as databases:
        for database, make_url in databases.items():
            writers = {size: _Writer(stand, make_url(f"commits-{size}"), size) for size in SIZES}
            try:
                interleaved({str(size): writer.write for size, writer in writers.items()}, rounds=ROUNDS, warmups=5)
            finally:
                for writer in writers.values():
                    writer.close()
            index = {size: median(writer.index_seconds[5:]) for size, writer in writers.items()}
            whole = {size: median(writer.whole_seconds[5:]) for size, writer in writers.items()}
            small, large = SIZES
            rows.append(
                [f"{database}, the index's part", *(shown(index[s]) for s in SIZES), ratio(index[large], index[small])]
            )
            rows.append(
                [f"{database}, the whole commit", *(shown(whole[s]) for s in SIZES), ratio(whole[large], whole[small])]
            )
            limit = MOST_MS[database]
            aims.append((
                f"the index's part of a commit takes less than {limit} ms, {database}",
                index[large] * 1000 < limit, shown(index[large]),
            ))  # fmt: skip
            aims.append((
                f"the index's part takes at most 20 % longer with {large:,} partitions than with {small:,}, {database}",
                index[large] <= 1.2 * index[small], ratio(index[large], index[small]),
            ))  # fmt: skip
    return Outcome(
        "Commits of writes",
        f"Each commit appends {FILES} staged files, half of them to new partitions. Times are p50 of {ROUNDS} commits, "
        "from `begin` to the end of `commit`. The index's part is the time of the calls to its database (SQLite in a "
        "file; PostgreSQL on this machine, with fsync). The whole commit also renames the files on the local disk.",
        ["", *(f"{size:,} partitions" for size in SIZES), "difference"],
        rows,
        aims,
    )


def appenders(stand: Stand) -> Outcome:
    """Many processes that append to one table, each as fast as it can."""
    rows, aims = [], []
    with _databases(stand.folder / "appenders") as databases:
        for database, make_url in databases.items():
            url = make_url("appenders")
            root = stand.folder / "tables" / f"appenders-{database}"
            with connect(index=url, metastore=None) as catalog:
                _register(catalog, root)
                before = catalog.load_table(TABLE).version
                elapsed, answers = _append(url, stand.seed)
                committed = catalog.load_table(TABLE).version - before
                files = sum(1 for _ in root.rglob("p=*/*.parquet"))
            failures = sum(answer["failures"] for answer in answers)
            slowest = max(max(answer["seconds"]) for answer in answers)
            typical = median([seconds for answer in answers for seconds in answer["seconds"]])
            if committed != files or committed + failures != PROCESSES * COMMITS:
                raise AssertionError(f"{committed} commits, {files} files and {failures} failures do not fit together")
            rows.append([
                database, f"{committed}", f"{failures}", f"{committed / elapsed:.0f}", shown(typical), shown(slowest),
            ])  # fmt: skip
            aims.append((
                f"{PROCESSES} processes make {LEAST_A_SECOND} appends a second to one table, {database}",
                not failures and committed >= LEAST_A_SECOND * elapsed,
                f"{failures} failures, {committed / elapsed:.0f} commits a second",
            ))  # fmt: skip
    return Outcome(
        f"{PROCESSES} processes that append to one table",
        f"Each process makes {COMMITS} appends of one file to one of {PROCESSES} partitions, without a pause or a "
        "retry; local disk, all processes on this machine. Times are from `begin` to the end of `commit`.",
        ["index", "commits", "failures", "commits a second", "p50 of an append", "slowest append"],
        rows,
        aims,
    )


def append_file(
    transactions: Transactions, catalog: Catalog, seed: Path, partitions: list[str], owner: str = "bench"
) -> None:
    """One append of a copy of the seed to each of the partitions; the tasks' part of it is a hard link."""
    table = catalog.load_table(TABLE)
    begun = transactions.begin(BeginWrite(Append(), "INSERT", owner, table))
    locations = StagingLocations(begun.transaction_id, begun.plan)
    files = [
        StagedFile(partition, f"part-0-{begun.transaction_id}.parquet", seed.stat().st_size, rows=1)
        for partition in partitions
    ]
    for file in files:
        source = locations.locate(file).source
        if source is None:
            raise AssertionError("files of a local disk are renamed")
        Path(source.path).parent.mkdir(parents=True)
        os.link(seed, source.path)
    transactions.commit(begun.transaction_id, files, recorded=0)


class _Writer:
    """Writes to one table; notes what its writes took, and what of it the index did."""

    def __init__(self, stand: Stand, url: str, size: int) -> None:
        self._seed = stand.seed
        self._size = size
        self._catalog = connect(index=url, metastore=None)
        _register(self._catalog, stand.folder / "tables" / url.rpartition("/")[2])
        trees.fill_index(self._catalog, TABLE, size, stand.seed, deliver=False)
        self._clock = _TimedCalls(self._catalog.index)
        self._transactions = Transactions(self._clock, self._catalog.storage)  # type: ignore[arg-type]
        self.index_seconds: list[float] = []
        self.whole_seconds: list[float] = []

    def write(self, number: int) -> None:
        old = [f"p={(number * 7919 + each * 13) % self._size}" for each in range(FILES // 2)]
        new = [f"p={self._size + number * FILES + each}" for each in range(FILES // 2)]
        self._clock.seconds = 0.0
        started = time.perf_counter()
        append_file(self._transactions, self._catalog, self._seed, old + new)
        self.whole_seconds.append(time.perf_counter() - started)
        self.index_seconds.append(self._clock.seconds)

    def close(self) -> None:
        self._catalog.close()


class _TimedCalls:
    """Stands before the index and adds up what the methods of its parts take."""

    def __init__(self, target: Any, clock: _TimedCalls | None = None) -> None:
        self._target = target
        self._clock = clock or self
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if callable(found):
            return self._timed(found)
        is_part = type(found).__module__.startswith("catalog_ext.metastore.index.")
        return _TimedCalls(found, self._clock) if is_part else found

    def _timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*arguments, **named)
            finally:
                self._clock.seconds += time.perf_counter() - started

        return timed


def _append(url: str, seed: Path) -> tuple[float, list[dict[str, Any]]]:
    """Seconds from the start of the first process to the end of the last, and what each says."""
    command = [sys.executable, "-m", "tests.benchmarks.append_process", url, str(seed), str(COMMITS)]
    running = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        for number in range(PROCESSES)
    ]
    try:
        for process in running:
            _line(process)
        started = time.perf_counter()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [json.loads(_line(process)) for process in running]
        return time.perf_counter() - started, answers
    finally:
        for process in running:
            process.kill()
            process.communicate()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError("a process ended before it had answered")
    return line


@contextmanager
def _databases(folder: Path) -> Iterator[dict[str, Callable[[str], str]]]:
    folder.mkdir(parents=True)
    postgres_folder = folder / "postgres"
    postgres_folder.mkdir()
    for each in (folder.parent, folder, postgres_folder):
        each.chmod(0o755)  # PostgreSQL refuses root and runs as another user
    postgres = PostgresServer(postgres_folder, durable=True)
    try:
        yield {
            "SQLite": lambda name: f"sqlite:///{folder / name}.db",
            "PostgreSQL": lambda _: _migrated(postgres.create_database()),
        }
    finally:
        postgres.stop()


def _migrated(url: str) -> str:
    with Index.connect(url) as index:
        index.migrate()
    return url


def _register(catalog: Catalog, root: Path) -> None:
    root.mkdir(parents=True)
    catalog.create_namespace(NAMESPACE)
    catalog.register_table(TABLE, location=root.as_uri(), schema=trees.SCHEMA, partition_columns=trees.KEYS)
