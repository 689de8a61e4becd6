"""Hive 2.3 and catalog-ext on the same partitions at the same time, with Hive's locks and without: rows are counted.

Hive's statements stand still in the middle, where a script that their rows go through waits for a file.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import HiveLockLostError, HiveLockTimeoutError
from catalog_ext.metastore.hive.locks import HiveLock
from catalog_ext.metastore.hive.mapping.model import LockComponent, LockType
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.integration.waiting import until
from tests.kit.repair_cases import indexed, walked, write
from tests.kit.writes import begin, stage
from tests.servers.hive import HiveCli, HiveMetastore
from tests.servers.hive_releases import RELEASE_3, RELEASE_4, ReleaseMetastore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from typing_extensions import Self

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore as HiveMetastoreClient

TABLE = "x INT) PARTITIONED BY (ds STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE LOCATION"
WITH_LOCKS = {
    "hive.support.concurrency": "true",
    "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
}
OVERWRITE = WriteKind.OVERWRITE_PARTITIONS


class Gate:
    """Where a statement of Hive waits, in the middle of its job."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._script = folder / "gate.sh"
        self._script.write_text(
            f'cd {folder}; touch "$1.there"; while [ ! -e "$1.go" ] && [ ! -e all.go ]; do sleep 0.05; done; cat\n'
        )

    def select(self, name: str, value: int) -> str:
        """A query of one row that waits under this name."""
        return f"SELECT TRANSFORM (x + {value}) USING 'sh {self._script} {name}' AS (x INT) FROM l.zero"

    def await_there(self, name: str) -> None:
        """Return when it waits."""
        until((self._folder / f"{name}.there").exists, f"Hive's statement {name}")

    def go(self, name: str) -> None:
        """Let it go on."""
        (self._folder / f"{name}.go").touch()

    def __enter__(self) -> Self:
        """Let statements wait."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let none wait any more: a test that fails ends."""
        self.go("all")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    server = HiveMetastore(tmp_path_factory.mktemp("metastore"), locks=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def catalog(server: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("catalog")
    with catalog_ext.connect(
        index=str(folder / "index.db"), metastore=server.uri, warehouse=str(folder / "warehouse")
    ) as catalog:
        yield catalog


def made(catalog: Catalog, hive: HiveCli, name: str, root: Path, *partitions: str) -> None:
    """A table that Hive has made, with a row 1 in each partition, and the table ``zero`` of one row 0."""
    write(root / "zero", "a", content=b"0\n")
    for partition in partitions:
        write(root / name, f"ds={partition}/000000_0", content=b"1\n")
    hive.run([
        "CREATE DATABASE IF NOT EXISTS l",
        f"CREATE EXTERNAL TABLE IF NOT EXISTS l.zero (x INT) LOCATION 'file://{root / 'zero'}'",
        f"CREATE EXTERNAL TABLE l.{name} ({TABLE} 'file://{root / name}'",
        f"MSCK REPAIR TABLE l.{name}",
    ])  # fmt: skip
    catalog.import_table(f"l.{name}")


def insert(catalog: Catalog, table: str, partition: str, value: int, kind: WriteKind = WriteKind.APPEND) -> None:
    """A write of one row."""
    begun = begin(catalog, kind, table=table)
    file = stage(begun, f"ds={partition}", b"%d\n" % value)
    catalog.writes.transactions.commit(begun.transaction_id, [file])


def delete(catalog: Catalog, table: str, partition: str) -> None:
    there = catalog.load_table(table)
    where = Comparison(Operator.EQ, "ds", partition)
    catalog.writes.delete(there.table_id, there.version, where, truncate=False)


def rows(root: Path, partition: str) -> list[int]:
    """What an engine reads that lists the directory."""
    found = sorted((root / f"ds={partition}").glob("[!._]*"))
    return sorted(int(line) for file in found for line in file.read_text().split())


def check_in_sync(catalog: Catalog, table: str, root: Path) -> None:
    """After a repair the index has what lies there."""
    catalog.repair_partitions(table)
    assert indexed(catalog, table) == {name: files for name, files in walked(root, 1).items() if files}


def waiting(catalog: Catalog, *, ours: bool) -> Callable[[], bool]:
    """Whether a request of ours, or of Hive, waits for a lock."""
    client = catalog.metastore.client()
    return lambda: any(
        one.agent.startswith("catalog-ext") is ours and not one.is_held for one in client.show_locks("l", "t")
    )


def test_each_waits_for_the_others_lock(server: HiveMetastore, catalog: Catalog, tmp_path: Path) -> None:
    root, gate = tmp_path / "t", Gate(tmp_path / "gate")
    made(catalog, HiveCli(tmp_path / "maker", server.uri), "t", tmp_path, "a", "b")
    switch = {"hive-locks": "strict", "hive-locks.wait": "500ms"}
    catalog.alter_table_properties("l.t", switch)
    statements = [
        f"INSERT OVERWRITE TABLE l.t PARTITION (ds = 'a') {gate.select('over', 10)}",
        f"INSERT INTO TABLE l.t PARTITION (ds = 'a') {gate.select('into', 20)}",
        f"INSERT OVERWRITE TABLE l.t PARTITION (ds = 'b') {gate.select('late', 30)}",
        "SELECT ds, x FROM l.t ORDER BY ds, x",
    ]
    hive = HiveCli(tmp_path / "hive", server.uri, settings=WITH_LOCKS)
    held, go_on = threading.Event(), threading.Event()

    def stand_still(_: str) -> None:
        held.set()
        assert go_on.wait(120)

    with ThreadPoolExecutor() as pool, gate:
        run = pool.submit(hive.run, statements)
        gate.await_there("over")
        refused: list[Callable[[], object]] = [
            lambda: insert(catalog, "l.t", "a", 2),
            lambda: insert(catalog, "l.t", "a", 2, OVERWRITE),
            lambda: delete(catalog, "l.t", "a"),
            lambda: catalog.repair_partitions("l.t"),
            lambda: catalog.drop_table("l.t"),
        ]
        for write_to_a in refused:
            with pytest.raises(
                HiveLockTimeoutError, match=r"held by EXCLUSIVE of l\.t/ds=a by \S+@\S+ \(\w+_20\d{12}_"
            ):
                write_to_a()
        insert(catalog, "l.t", "b", 3)
        assert (rows(root, "a"), rows(root, "b")) == ([1], [1, 3]), "another partition is free"

        catalog.alter_table_properties("l.t", {"hive-locks.wait": "100s"})
        append = pool.submit(insert, catalog, "l.t", "a", 4)
        until(waiting(catalog, ours=True), "our request")
        gate.go("over")
        append.result(100)
        assert rows(root, "a") == [4, 10], "Hive's overwrite, and then our append"

        gate.await_there("into")
        with armed("promote.after", stand_still):
            overwrite = pool.submit(insert, catalog, "l.t", "b", 5, OVERWRITE)
            assert held.wait(60)
            gate.go("into")
            until(waiting(catalog, ours=False), "Hive's request")
            assert not overwrite.done()
            go_on.set()
            overwrite.result(100)
        gate.await_there("late")
        assert rows(root, "b") == [5], "Hive has its lock when we have committed and tidied up"
        gate.go("late")
        assert run.result(200)[-1] == [("a", "4"), ("a", "10"), ("a", "20"), ("b", "30")]
    check_in_sync(catalog, "l.t", root)
    client = catalog.metastore.client()
    assert client.show_locks("l", "t") == []

    # A writer that is killed leaves its lock to Hive's time-out, here to us; what it has reserved is finished then.
    catalog.alter_table_properties("l.t", {"hive-locks.wait": "500ms"})
    program = [sys.executable, "-c", KILLED, catalog.settings.index, server.uri]
    killed = subprocess.run(program, env={**os.environ, "CATALOG_EXT_FAULT": "promote.before=kill"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = client.show_locks("l", "t")
    with pytest.raises(HiveLockTimeoutError, match=r"held by EXCLUSIVE of l\.t/ds=b by .*\(catalog-ext INSERT \w+"):
        insert(catalog, "l.t", "b", 8)
    client.unlock(left.number)
    assert [one.error for one in catalog.recover("l.t", older_than="0s").transactions] == [None]
    assert rows(root, "b") == [7, 30]
    assert client.show_locks("l", "t") == []

    catalog.drop_table("l.t")
    assert client.show_locks("l", "t") == []
    assert "t" not in client.list_tables("l")
    assert rows(root, "b") == [7, 30], "the files of an external table stay"


KILLED = """
import sys
import catalog_ext
from tests.integration.hive.test_hive_locks import insert

with catalog_ext.connect(index=sys.argv[1], metastore=sys.argv[2]) as catalog:
    insert(catalog, "l.t", "b", 7)
"""

OURS: dict[str, Callable[[Catalog, str], object]] = {
    "append": lambda catalog, p: insert(catalog, "l.u", p, 2),
    "overwrite": lambda catalog, p: insert(catalog, "l.u", p, 2, OVERWRITE),
    "delete": lambda catalog, p: delete(catalog, "l.u", p),
    "repair": lambda catalog, _: catalog.repair_partitions("l.u"),
}
AFTERWARDS = {
    "into_append": [1, 2, 10], "into_overwrite": [2, 10], "into_delete": [10], "into_repair": [1, 10],
    "over_append": [10], "over_overwrite": [10], "over_delete": [10], "over_repair": [10],
}  # fmt: skip


def test_without_locks_who_moves_last_decides(server: HiveMetastore, catalog: Catalog, tmp_path: Path) -> None:
    """Our statement begins and ends in the middle of Hive's, which moves its files after that."""
    root, gate = tmp_path / "u", Gate(tmp_path / "gate")
    hive = HiveCli(tmp_path / "hive", server.uri)
    made(catalog, hive, "u", tmp_path, *AFTERWARDS)
    statements = [
        f"INSERT {'INTO' if case.startswith('into') else 'OVERWRITE'} TABLE l.u PARTITION (ds = '{case}') "
        + gate.select(case, 10)
        for case in AFTERWARDS
    ]
    with ThreadPoolExecutor() as pool, gate:
        run = pool.submit(hive.run, [*statements, "SELECT ds, x FROM l.u"])
        for case in AFTERWARDS:
            gate.await_there(case)
            OURS[case.partition("_")[2]](catalog, case)
            gate.go(case)
        seen = run.result(200)[-1]
    assert {case: rows(root, case) for case in AFTERWARDS} == AFTERWARDS
    assert sorted(seen) == sorted((case, str(x)) for case, found in AFTERWARDS.items() for x in found)
    check_in_sync(catalog, "l.u", root)


@pytest.fixture(params=[RELEASE_3, RELEASE_4], ids=lambda release: release.version)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HiveMetastoreClient]:
    # Its own: release 3 makes the tables in a mode for tests, in which it refuses other calls of ours.
    server = ReleaseMetastore(request.param, tmp_path / "metastore", locks=True)
    client = connect(server.uri)
    yield client
    client.close()
    server.stop()


def test_locks_of_later_releases(client: HiveMetastoreClient) -> None:
    """Asked for, waited for behind another holder, kept alive, given up; who has one is named."""
    part, whole = (LockComponent("d", "t", name, LockType.EXCLUSIVE) for name in ("k=1", ""))
    first, second = HiveLock(client, [part], "first", 0), HiveLock(client, [part], "second", 0)
    first.acquire()
    with pytest.raises(HiveLockTimeoutError, match=r"held by EXCLUSIVE of d\.t/k=1 by \S+@\S+ \(first \w+, lock \d+\)"):
        second.acquire()
    with pytest.raises(HiveLockTimeoutError, match="first"):
        HiveLock(client, [whole], "third", 0).acquire()
    other = HiveLock(client, [replace(part, partition="k=2")], "other", 0)
    other.acquire()
    first.confirm()
    assert sorted(one.agent.split()[0] for one in client.show_locks("d", "t")) == ["first", "other"]
    client.unlock(next(one.number for one in client.show_locks("d", "t") if one.agent.startswith("other ")))
    with pytest.raises(HiveLockLostError):
        other.confirm()
    other.release()

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            first.release()

    behind = HiveLock(client, [replace(part, lock_type=LockType.SHARED_READ)], "behind", 60, pause=pause)
    behind.acquire()
    assert len(pauses) == 3
    beside = HiveLock(client, [replace(whole, lock_type=LockType.SHARED_READ)], "beside", 0)
    beside.acquire()
    for lock in (behind, beside):
        lock.release()
    assert client.show_locks("d", "t") == []
