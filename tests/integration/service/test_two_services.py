"""Two services on one PostgreSQL index: drivers go on with the other one when one is killed or hangs."""

from __future__ import annotations

import itertools
import os
import secrets
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException, SparkRuntimeException

from catalog_ext.catalog import connect
from catalog_ext.metastore.index import Index
from catalog_ext.service.server import Service
from tests.integration.lake import Lake
from tests.integration.spark_driver import sibling
from tests.integration.standing_service import StandingService
from tests.integration.waiting import WAIT_S, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.spark_driver import Driver
    from tests.servers.databases import DatabaseServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_MASTER = "local[3]"
"""Of all sessions here: one of another master would stop those that are open."""
_LONGEST_S = 30
"""What a statement may take while a service dies: an answer that is lost, and work of a dead process to be finished."""


@pytest.fixture(scope="module")
def index(postgres_server: DatabaseServer) -> Iterator[str]:
    url = postgres_server.create_database()
    with Index.open(url, migrate=True):
        pass
    yield url
    postgres_server.drop_database(url)


class Pair:
    """A service that is to die, and the one that stands in for it."""

    def __init__(self, folder: Path, index: str) -> None:
        self._folder = folder
        self._index = index
        self.second = self._service()
        self.first = self.second

    def _service(self) -> StandingService:
        return StandingService(self._folder, stop_signal=signal.SIGKILL, index=self._index, starts=False)

    @property
    def both(self) -> tuple[StandingService, StandingService]:
        return self.first, self.second

    def renew(self, fault: str = "") -> None:
        """Put another service in the first place, at an address of its own: who has both asks it first."""
        if self.first is not self.second:
            self.first.stop()
        self.first = self._service()
        self.first.start(fault)
        self.second.start()

    def stop(self) -> None:
        for each in self.both:
            each.stop()


@pytest.fixture(scope="module")
def pair(index: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("two"), index)
    pair.renew()
    yield pair
    pair.stop()


@pytest.fixture(scope="module")
def lake(driver: Driver, pair: Pair, index: str) -> Iterator[Lake]:
    service = pair.second
    with (
        driver.connected(
            service.uri, service.token, {"spark.sql.catalog.lake.request-timeout": "5s"}, master=_MASTER
        ) as spark,
        connect(index=index, warehouse=service.warehouse, metastore=None) as catalog,
    ):
        spark.sql("CREATE NAMESPACE lake.w")
        yield Lake(spark, catalog, service.folder)


def _asking_both(lake: Lake, pair: Pair) -> Lake:
    """A lake whose session has the addresses of both services."""
    spark = sibling(lake.spark)
    spark.conf.set("spark.sql.catalog.lake.uri", f"{pair.first.uri}, {pair.second.uri}/")
    return Lake(spark, lake.catalog, lake.folder)


def _new_table(lake: Lake) -> str:
    name = f"t{secrets.token_hex(4)}"
    lake.sql(f"CREATE TABLE lake.w.{name} (x BIGINT, k BIGINT) USING parquet PARTITIONED BY (k)")
    return name


class Traffic:
    """One thread that adds rows, one that overwrites a partition again and again, and one that reads.

    Attributes:
        added: The rows whose INSERT has returned.
        written: How often the partition was overwritten.
        longest_s: How long the longest statement took.
    """

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake = lake
        self._table = f"lake.w.{table}"
        self._ends = threading.Event()
        self.added: list[int] = []
        self.written = 0
        self.reads = 0
        self.longest_s = 0.0

    def end(self) -> None:
        self._ends.set()

    def add(self) -> None:
        session = sibling(self._lake.spark)
        for x in itertools.count():
            if self._ends.is_set():
                return
            with self._timed():
                session.sql(f"INSERT INTO {self._table} VALUES ({x}, {x % 3})")
            self.added.append(x)

    def overwrite(self) -> None:
        session = sibling(self._lake.spark)
        while not self._ends.is_set():
            with self._timed():
                session.sql(f"INSERT OVERWRITE {self._table} VALUES ({self.written + 1}, 7)")
            self.written += 1

    def read(self) -> None:
        session = sibling(self._lake.spark)
        while not self._ends.is_set():
            known, newest = len(self.added), self.written
            try:
                with self._timed():
                    found = [tuple(row) for row in session.sql(f"SELECT x, k FROM {self._table}").collect()]
            except SparkRuntimeException as error:
                # What an overwrite replaces is deleted, also while a query reads it.
                if error.getCondition() == "CATALOG_EXT_FILE_MISSING":
                    continue
                raise
            rows = [x for x, k in found if k != 7]
            assert len(set(rows)) == len(rows), "no row is there twice"
            assert set(range(known)) <= set(rows), "what was acknowledged is read"
            (last,) = [x for x, k in found if k == 7] or [0]
            assert newest <= last
            self.reads += 1

    def _timed(self) -> _Timed:
        return _Timed(self)


class _Timed:
    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._traffic.longest_s = max(self._traffic.longest_s, time.monotonic() - self._began)


def test_each_in_turn_is_killed_in_a_stream_of_reads_and_writes(lake: Lake, pair: Pair) -> None:
    pair.renew()
    lake = _asking_both(lake, pair)
    table = _new_table(lake)
    traffic = Traffic(lake, table)
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(each) for each in (traffic.add, traffic.overwrite, traffic.read)]

        def goes_on() -> None:
            """Return when each of the threads has done more."""
            added, written, reads = len(traffic.added), traffic.written, traffic.reads
            until(
                lambda: (
                    any(each.done() for each in running)
                    or (len(traffic.added) > added + 1 and traffic.written > written + 1 and traffic.reads > reads + 1)
                ),
                "a few statements",
            )

        try:
            goes_on()
            for dying in (*pair.both, pair.first):
                dying.stop()
                goes_on()
                dying.start()
        finally:
            traffic.end()
        for each in running:
            each.result(WAIT_S)
    expected = [(x, x % 3) for x in traffic.added] + [(traffic.written, 7)]
    assert sorted(lake.rows(f"SELECT x, k FROM lake.w.{table}")) == sorted(expected)
    assert traffic.longest_s < _LONGEST_S
    lake.check_clean(table)


@pytest.mark.parametrize(
    "fault", ["reserve.after=kill", "promote.file=kill", "apply.after=kill", "promote.file=stop", "apply.after=stop"]
)
def test_one_dies_or_hangs_at_a_step_of_a_write(lake: Lake, pair: Pair, fault: str) -> None:
    table = _new_table(lake)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 0), (2, 1)")
    pair.renew(fault)
    lake = _asking_both(lake, pair)
    began = time.monotonic()
    lake.sql(f"INSERT OVERWRITE lake.w.{table} SELECT id, id % 2 FROM range(0, 100, 1, 2)")
    assert time.monotonic() - began < _LONGEST_S
    if fault.endswith("kill"):
        assert pair.first.wait(WAIT_S) == -signal.SIGKILL
    else:
        # It goes on where it was, as one whose host or network was away.
        os.kill(pair.first.pid, signal.SIGCONT)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (100, 0)")
    assert lake.rows(f"SELECT count(*), sum(x) FROM lake.w.{table}") == [(101, 5050)]
    lake.check_clean(table)


def test_when_both_are_gone_both_are_named(lake: Lake, pair: Pair) -> None:
    table = _new_table(lake)
    pair.renew()
    lake = _asking_both(lake, pair)
    lake.rows(f"SELECT * FROM lake.w.{table}")
    pair.stop()
    began = time.monotonic()
    for statement in (f"SELECT * FROM lake.w.{table}", f"INSERT INTO lake.w.{table} VALUES (1, 1)"):
        error = lake.error(statement)
        assert error.getCondition() == "CATALOG_EXT_SERVICE_UNAVAILABLE"
        named = f"{pair.first.uri} and {pair.second.uri}"
        assert f"None of the catalog-ext services at {named} answers; start one of them" in str(error)
    assert time.monotonic() - began < _LONGEST_S
    pair.renew()


def test_a_stand_in_of_another_index_is_not_gone_on_with(driver: Driver, tmp_path: Path) -> None:
    """A wrong address gives no other table's rows and changes none, and the right service is found again."""
    token = secrets.token_hex(16)
    with ExitStack() as stack:
        ours, others = (
            stack.enter_context(
                connect(index=str(tmp_path / f"{name}.db"), warehouse=str(tmp_path / name), metastore=None)
            )
            for name in ("ours", "others")
        )
        right, wrong = Service(ours, token=token).start(), Service(others, token=token).start()
        stack.callback(wrong.stop)
        with driver.connected(wrong.uri, token, master=_MASTER) as spark:
            spark.sql("CREATE NAMESPACE lake.w")
            spark.sql("CREATE TABLE lake.w.t AS SELECT 'of another' AS word")
        with driver.connected(f"{right.uri},{wrong.uri}", token, master=_MASTER) as spark:
            spark.sql("CREATE NAMESPACE lake.w")
            spark.sql("CREATE TABLE lake.w.t AS SELECT 'ours' AS word")
            right.stop()
            for statement in ("SELECT * FROM lake.w.t", "INSERT INTO lake.w.t VALUES ('x')", "DROP TABLE lake.w.t"):
                with pytest.raises(PySparkException, match="of one index: correct 'uri'") as caught:
                    spark.sql(statement).collect()
                assert caught.value.getCondition() == "CATALOG_EXT_INVALID_CONFIGURATION"
            right = Service(ours, token=token, port=right.port).start()
            stack.callback(right.stop)
            assert [tuple(row) for row in spark.sql("SELECT * FROM lake.w.t").collect()] == [("ours",)]
        with driver.connected(wrong.uri, token, master=_MASTER) as spark:
            assert [tuple(row) for row in spark.sql("SELECT * FROM lake.w.t").collect()] == [("of another",)]
