"""Writes by Spark that have bad luck: two attempts of a task, a dead service, a lost file, others who write as well.

The catalog is a standing service in a process of its own, so that a test can kill it. Spark does not speculate on one
host, nor run two attempts of a task there at once; for speculation a test calls Spark's interfaces for writers as its
scheduler would.
"""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from catalog_ext.catalog import connect
from tests.integration.lake import Lake
from tests.integration.spark_batch import Batch
from tests.integration.spark_driver import sibling
from tests.integration.standing_service import StandingService
from tests.integration.waiting import WAIT_S, meets, until, waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.integration.spark_driver import Driver


pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingService]:
    standing = StandingService(tmp_path_factory.mktemp("bad_luck"), stop_signal=signal.SIGKILL)
    yield standing
    standing.stop()


@pytest.fixture(scope="module")
def lake(driver: Driver, service: StandingService) -> Iterator[Lake]:
    with (
        driver.connected(service.uri, service.token, master="local[3]") as spark,
        connect(index=service.index, warehouse=service.warehouse, metastore=None) as catalog,
    ):
        spark.sql("CREATE NAMESPACE lake.w")
        spark.udf.register("waits", waits, "bigint")
        yield Lake(spark, catalog, service.folder)


def new_table(lake: Lake, columns: str = "x BIGINT, k BIGINT") -> str:
    name = f"t{secrets.token_hex(4)}"
    lake.sql(f"CREATE TABLE lake.w.{name} ({columns}) USING parquet PARTITIONED BY (k)")
    return name


def held(lake: Lake, statement: str, folder: Path, meanwhile: Callable[[], None]) -> BaseException | None:
    """What the statement raises, if ``meanwhile`` is done when all its tasks but one, of three, have ended."""
    tracker = lake.spark.sparkContext.statusTracker()

    def ended() -> bool:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return (folder / "waiting").exists() and any(s is not None and s.numCompletedTasks == 2 for s in stages)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lake.sql, statement.format(f"waits(id, 2999, '{folder}')"))
        try:
            until(ended, "the job")
            meanwhile()
        finally:
            (folder / "go").touch()
        return running.exception(WAIT_S)


def interrupted(lake: Lake, statement: str, folder: Path, meanwhile: Callable[[], None]) -> PySparkException:
    """The same of a statement that raises an error of Spark's."""
    error = held(lake, statement, folder, meanwhile)
    assert isinstance(error, PySparkException), error
    return error


@contextmanager
def patient(lake: Lake) -> Iterator[Lake]:
    """A session that waits for the service as long as it does by default; the service has answered it."""
    spark = sibling(lake.spark)
    spark.conf.unset("spark.sql.catalog.lake.retry-timeout")
    spark.udf.register("waits", waits, "bigint")
    spark.sql("SHOW TABLES IN lake.w").collect()
    yield Lake(spark, lake.catalog, lake.folder)


def staged(lake: Lake, table: str) -> list[Path]:
    """The files in the staging directory that are whole and those that are being written."""
    return sorted((lake.location(table) / "_catalog_ext_staging").rglob("*.parquet"))


@pytest.mark.parametrize("winner", [1, 2])
def test_two_attempts_of_a_task_end(lake: Lake, winner: int) -> None:
    table = new_table(lake, "x INT, k INT")
    batch = Batch(lake.spark, table)
    writers = {number: batch.attempt(number) for number in (1, 2, 3)}
    messages = {number: batch.end(writers[number]) for number in (1, 2)}
    # As of an attempt that is killed because another one has ended.
    writers[3].abort()
    writers[3].close()
    assert len(staged(lake, table)) == 4
    batch.commit(messages[winner])
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(1, 1), (2, 2), (3, 1)]
    assert [f"-a{winner}-" in path for path in lake.on_disk(table)] == [True, True]
    lake.check_clean(table)


def test_an_attempt_outlives_its_job(lake: Lake) -> None:
    table = new_table(lake, "x INT, k INT")
    batch = Batch(lake.spark, table)
    slow = batch.attempt(1)
    batch.commit(batch.end(batch.attempt(2)))
    files = lake.on_disk(table)
    # The directory that its files were in is gone.
    with pytest.raises(PySparkException) as caught:
        slow.commit()
    assert caught.value.getCondition() == "CATALOG_EXT_LOCATION_NOT_FOUND"
    slow.abort()
    slow.close()
    assert lake.on_disk(table) == files
    # One that begins now makes it again; what it leaves is hidden, and vacuum's.
    batch.end(batch.attempt(4))
    assert len(staged(lake, table)) == 2
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(1, 1), (2, 2), (3, 1)]
    lake.catalog.vacuum(f"w.{table}", retention="0s", allow_short_retention=True)
    assert lake.on_disk(table) == files
    lake.check_clean(table)


def test_the_service_is_killed_while_tasks_write(service: StandingService, lake: Lake, tmp_path: Path) -> None:
    table = new_table(lake)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 0), (2, 1)")
    before = lake.on_disk(table)

    def kill() -> None:
        assert staged(lake, table)
        service.stop()

    overwrite = f"INSERT OVERWRITE lake.w.{table} SELECT {{}}, id % 2 FROM range(0, 3000, 1, 3)"
    error = interrupted(lake, overwrite, tmp_path, kill)
    assert error.getCondition() == "CATALOG_EXT_SERVICE_UNAVAILABLE"
    assert "start it (catalog-ext serve" in str(error)
    left = staged(lake, table)
    assert left
    service.start()
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(1, 0), (2, 1)]
    recovery = f"CALL lake.system.recover(table => 'w.{table}', older_than => '{{}}')"
    # Whether it is alive is unknown.
    ((_, named, _, _, waiting, _, _),) = lake.rows(recovery.format("10m"))
    assert (named, waiting) == (f"w.{table}", "waits")
    assert staged(lake, table) == left
    ((_, named, operation, _, action, _, why),) = lake.rows(recovery.format("0s"))
    assert "silent for longer than its lease" in str(why)
    assert (named, operation, action) == (f"w.{table}", "INSERT OVERWRITE", "undone")
    assert lake.on_disk(table) == before
    lake.check_clean(table)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (3, 1)")
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(1, 0), (2, 1), (3, 1)]
    lake.check_clean(table)


def test_a_service_that_is_started_again_fails_no_query(service: StandingService, lake: Lake, tmp_path: Path) -> None:
    table = new_table(lake)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 0), (2, 1)")
    statements = (
        f"SELECT x FROM lake.w.{table} WHERE k = 0",
        f"SELECT count(*) FROM lake.w.{table}.files",
        f"INSERT INTO lake.w.{table} VALUES (3, 1)",
        f"ALTER TABLE lake.w.{table} ADD PARTITION (k = 7)",
    )
    with patient(lake) as waiting, ThreadPoolExecutor(len(statements)) as pool:
        service.stop()
        try:
            running = [pool.submit(waiting.rows, statement) for statement in statements]
            # Longer than a service is waited for that was never there.
            time.sleep(2)
            assert not any(each.done() for each in running)
        finally:
            service.start()
        chosen, counted, _, _ = [each.result(WAIT_S) for each in running]
        assert chosen == [(1,)]
        assert counted in ([(2,)], [(3,)])
        assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(1, 0), (2, 1), (3, 1)]
        assert "k=7" in lake.partitions(table)

        def restart() -> None:
            service.stop()
            service.start()

        insert = f"INSERT INTO lake.w.{table} SELECT {{}}, id % 2 FROM range(0, 3000, 1, 3)"
        assert held(waiting, insert, tmp_path, restart) is None
    assert lake.rows(f"SELECT count(*) FROM lake.w.{table}") == [(3003,)]
    lake.check_clean(table)


@pytest.mark.requirement(
    "Doris.Transaction",
    statement="INSERT OVERWRITE",
    differs="A write is all or nothing also if its process dies: another process finishes or undoes it.",
)
@pytest.mark.parametrize("point", ["reserve.before", "promote.file", "apply.after"])
def test_the_service_is_killed_while_it_commits(service: StandingService, lake: Lake, point: str) -> None:
    table = new_table(lake)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 0), (2, 1)")
    service.stop()
    service.start(f"{point}=kill")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lake.sql, f"INSERT OVERWRITE lake.w.{table} SELECT id, id % 2 FROM range(0, 100, 1, 2)")
        try:
            assert service.wait(WAIT_S) == -signal.SIGKILL
        finally:
            service.stop()
            service.start()
        # The connector asks again, and who is asked goes on from where the dead one was.
        running.result(WAIT_S)
    assert lake.rows(f"SELECT count(*), sum(x) FROM lake.w.{table}") == [(100, 4950)]
    lake.check_clean(table)


def test_a_batch_is_written_once_by_sql(lake: Lake) -> None:
    table = new_table(lake)
    insert = f"INSERT INTO lake.w.{table} WITH ('txn-app-id' = 'a', 'txn-version' = '{{}}') VALUES ({{}}, 1)"
    history = f"SELECT version, operation FROM lake.w.{table}.history ORDER BY version"

    def insert_again(version: int) -> None:
        before = lake.rows(history)
        with lake.logged("write.CatalogExtBatchWrite") as lines:
            lake.sql(insert.format(version, 100 + version))
        (line,) = lines()
        assert f"Batch {version} of application 'a' is committed to lake.w.{table} already" in line
        assert "nothing was written" in line
        assert lake.rows(history) == before

    lake.sql(insert.format(1, 1))
    insert_again(1)
    lake.sql(insert.format(2, 2))
    insert_again(1)
    insert_again(2)
    # The same batch, whichever way it is written.
    frame = lake.sql("SELECT 200L x, 1L k")
    frame.writeTo(f"lake.w.{table}").option("txn-app-id", "a").option("txn-version", "2").append()
    lake.sql(f"INSERT OVERWRITE lake.w.{table} WITH ('txn-app-id' = 'a', 'txn-version' = '2') VALUES (201, 1)")
    lake.sql(f"INSERT INTO lake.w.{table} WITH ('txn-app-id' = 'b', 'txn-version' = '1') VALUES (3, 1)")
    assert sorted(lake.rows(f"SELECT x FROM lake.w.{table}")) == [(1,), (2,), (3,)]
    lake.check_clean(table)


@pytest.mark.requirement("Doris.Concurrent.Insert", statement="INSERT INTO lake.w.{table} SELECT")
@pytest.mark.requirement(
    "Doris.Concurrent.Overwrite",
    statement="INSERT OVERWRITE",
    differs="If two overwrites of one partition run at once, one commits and the other fails with a "
    "retryable CATALOG_EXT_CONFLICT. No row is lost.",
)
def test_sessions_write_at_once(lake: Lake, tmp_path: Path) -> None:
    table = new_table(lake)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (-1, 1), (-1, 2)")

    def append(writer: int) -> None:
        session = sibling(lake.spark)
        for _ in range(3):
            session.sql(f"INSERT INTO lake.w.{table} SELECT {writer}, 1 FROM range(50)")

    def overwrite(writer: int) -> int | str | None:
        session = sibling(lake.spark)
        session.udf.register("meets", meets, "bigint")
        rows = f"SELECT meets({writer}, '{writer}', '{tmp_path}'), 2L FROM range(0, 50, 1, 1)"
        try:
            session.sql(f"INSERT OVERWRITE lake.w.{table} {rows}")
        except PySparkException as e:
            return e.getCondition()
        return writer

    with ThreadPoolExecutor(4) as pool:
        appends = [pool.submit(append, writer) for writer in (11, 12)]
        overwrites = [pool.submit(overwrite, writer) for writer in (21, 22)]
        for done in appends:
            done.result(WAIT_S)
        outcomes = [done.result(WAIT_S) for done in overwrites]
    (winner,) = {21, 22} & set(outcomes)
    assert set(outcomes) == {winner, "CATALOG_EXT_CONFLICT"}
    counts = lake.rows(f"SELECT k, x, count(*) FROM lake.w.{table} GROUP BY k, x ORDER BY k, x")
    assert counts == [(1, -1, 1), (1, 11, 150), (1, 12, 150), (2, winner, 50)]
    lake.check_clean(table)


def test_a_staged_file_vanishes(lake: Lake, tmp_path: Path) -> None:
    table = new_table(lake)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 0), (2, 1)")
    before = lake.on_disk(table)
    gone: list[Path] = []

    def remove() -> None:
        # The tasks 0 and 1 have ended, and 2 writes.
        gone.extend(path for path in staged(lake, table) if path.name.startswith("part-00001-"))
        gone[0].unlink()

    insert = f"INSERT INTO lake.w.{table} SELECT {{}}, id % 2 FROM range(0, 3000, 1, 3)"
    error = interrupted(lake, insert, tmp_path, remove)
    assert error.getCondition() == "CATALOG_EXT_STAGED_FILE_MISSING"
    assert gone[0].name in str(error)
    assert lake.on_disk(table) == before
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(1, 0), (2, 1)]
    lake.check_clean(table)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (3, 1)")
    lake.check_clean(table)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "full"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], check=False, capture_output=True
    )
    if made.returncode:
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_full_disk_is_reported_as_such(lake: Lake, full_disk: Path) -> None:
    table = f"lake.w.full{secrets.token_hex(4)}"
    lake.sql(f"CREATE TABLE {table} (x STRING, k INT) USING parquet PARTITIONED BY (k) LOCATION '{full_disk}/t'")
    lake.sql(f"INSERT INTO {table} VALUES ('a', 1)")
    (full_disk / "ballast").write_bytes(b"x" * 1_500_000)
    with pytest.raises(PySparkException) as caught:
        lake.sql(f"INSERT INTO {table} SELECT sha2(CAST(id AS STRING), 512), id % 2 FROM range(40000)")
    text = str(caught.value)
    assert "CATALOG_EXT_STORAGE_UNAVAILABLE" in text
    assert "No space left on device. Nothing of the write is visible. Make room there" in text
    assert "null" not in text.partition("at org.")[0]
    ((error,),) = lake.rows(f"SELECT error FROM {table}.transactions WHERE state = 'aborted'")
    assert error.startswith("the job failed: ")
    assert "No space left on device" in error
    (full_disk / "ballast").unlink()
    assert lake.rows(f"SELECT x FROM {table}") == [("a",)]
    lake.sql(f"INSERT INTO {table} VALUES ('b', 1)")


def test_why_a_task_has_failed_is_kept_with_its_transaction(lake: Lake) -> None:
    table = new_table(lake)
    with pytest.raises(PySparkException):
        lake.sql(f"INSERT INTO lake.w.{table} SELECT id, raise_error('the row is bad') FROM range(3)")
    ((error,),) = lake.rows(f"SELECT error FROM lake.w.{table}.transactions")
    assert error.startswith("the job failed: ")
    assert "the row is bad" in error
