"""Hive's locks around writes and repairs, on a metastore in memory: which, when, and what happens without them."""

from __future__ import annotations

import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

import catalog_ext
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    HiveLockLostError,
    HiveLocksRefusedError,
    HiveLockTimeoutError,
    IndexUnavailableError,
    InvalidConfigurationError,
)
from catalog_ext.metastore.hive.mapping.model import LockComponent, LockType
from catalog_ext.metastore.index.database.schema import transactions
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.transactions import commit_locks
from catalog_ext.service.messages.core import Request
from catalog_ext.service.operations import operations_of
from tests.kit.made_once import making
from tests.kit.repair_cases import indexed, local_catalog, register, walked, write
from tests.kit.writes import begin, crash_at, insert, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.model.tables import Partition, Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from tests.kit.fakes_metastore import FakeMetastore
    from tests.kit.made_once import MadeOnce

pytestmark = pytest.mark.slow

ONE, TWO, NEW = "Day=1", "Day=2", "Day=9"
IS_ONE = Comparison(Operator.EQ, "Day", 1)
LOCKS = {"lock", "check_lock", "heartbeat_lock", "unlock", "show_locks", "config_value"}
SHARED, EXCLUSIVE = LockType.SHARED_READ, LockType.EXCLUSIVE


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeOnce:
    """The managed tables ``s.t`` and ``s.o``, of two partitions and none, in a metastore, too."""
    folder = tmp_path_factory.mktemp("locks")
    with making(folder) as made, local_catalog(folder, metastore="thrift://fake:9083") as catalog:
        write(folder / "t", f"{ONE}/a.csv", f"{TWO}/b.csv")
        register(catalog, folder / "t", {"Day": "INT"})
        register(catalog, folder / "o", {"Day": "INT"}, table="s.o")
        catalog.repair_partitions("s.t")
        switch(catalog, "strict")
    return made


@pytest.fixture
def folder(made: MadeOnce, metastore: FakeMetastore) -> Path:
    """The folder as it was made."""
    return made.again(metastore)


@pytest.fixture
def root(folder: Path) -> Path:
    return folder / "t"


@pytest.fixture
def catalog(folder: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    """The catalog of the folder, with the metastore."""
    with local_catalog(folder, metastore="thrift://fake:9083") as catalog:
        metastore.calls.clear()
        yield catalog


def switch(catalog: Catalog, mode: str, wait: str = "20s") -> None:
    found = {"hive-locks": mode, "hive-locks.wait": wait, "external.table.purge": "true"}
    for table in ("s.t", "s.o"):
        catalog.alter_table_properties(table, found)


def asked(metastore: FakeMetastore) -> list[tuple[str, LockType]]:
    """What every request so far has locked."""
    return [
        (f"{one.table}/{one.partition}", one.lock_type)
        for request in metastore.locks.history
        for one in request.components
    ]


@contextmanager
def hive_holds(metastore: FakeMetastore, partition: str, kind: LockType = EXCLUSIVE) -> Iterator[int]:
    number, _ = metastore.locks.lock([LockComponent("s", "t", partition, kind)], "hive", "node7", "query 1")
    metastore.locks.history.clear()
    yield number
    metastore.locks.unlock(number)


def commands(catalog: Catalog) -> dict[str, Callable[[], object]]:
    """A write of each kind, by its name."""
    t = catalog.load_table("s.t")
    do = catalog.partition_commands
    return {
        "append": lambda: insert(catalog, ONE, NEW),
        "overwrite of partitions": lambda: insert(catalog, "Day=01", kind=WriteKind.OVERWRITE_PARTITIONS),
        "overwrite where": lambda: insert(
            catalog, NEW, kind=WriteKind.OVERWRITE, predicate=IS_ONE, replace_where_mismatch="add"
        ),
        "overwrite of all": lambda: insert(catalog, NEW, kind=WriteKind.OVERWRITE),
        "delete": lambda: catalog.writes.delete(t.table_id, t.version, IS_ONE, truncate=False),
        "truncate": lambda: catalog.writes.delete(t.table_id, t.version, None, truncate=True),
        "add partition": lambda: do.add("s.t", [({"Day": "9"}, None)]),
        "drop partition": lambda: do.drop("s.t", [IS_ONE]),
        "rename partition": lambda: do.rename("s.t", {"Day": "1"}, {"Day": "9"}),
        "exchange partition": lambda: do.exchange("s.o", "s.t", [{"Day": "1"}]),
        "rollback where": lambda: catalog.rollback("s.t", 0, "Day = 1"),
        "rollback of all": lambda: catalog.rollback("s.t", 0),
        "repair": lambda: catalog.repair_partitions("s.t"),
        "drop table": lambda: catalog.drop_table("s.t"),
    }


ASKED = {
    "append": [("t/day=1", EXCLUSIVE), ("t/day=9", EXCLUSIVE)],
    "overwrite of partitions": [("t/day=01", EXCLUSIVE), ("t/day=1", EXCLUSIVE)],
    "overwrite where": [("t/day=1", EXCLUSIVE), ("t/day=9", EXCLUSIVE)],
    "overwrite of all": [("t/", EXCLUSIVE)],
    "delete": [("t/day=1", EXCLUSIVE)],
    "truncate": [("t/", EXCLUSIVE)],
    "add partition": [("t/day=9", SHARED)],
    "drop partition": [("t/day=1", EXCLUSIVE)],
    "rename partition": [("t/day=1", EXCLUSIVE), ("t/day=9", EXCLUSIVE)],
    "exchange partition": [("o/day=1", EXCLUSIVE), ("t/day=1", EXCLUSIVE)],
    "rollback where": [("t/day=1", EXCLUSIVE)],
    "rollback of all": [("t/", EXCLUSIVE)],
    "repair": [("t/", SHARED)],
    "drop table": [("t/", EXCLUSIVE)],
}


@pytest.mark.parametrize("name", ASKED)
def test_what_each_write_locks(catalog: Catalog, metastore: FakeMetastore, name: str) -> None:
    commands(catalog)[name]()
    assert asked(metastore) == ASKED[name]
    assert len(metastore.locks.history) == 1, "one request has all components"
    assert metastore.locks.requests == {}, "it is given up"


@pytest.mark.parametrize("name", ASKED)
def test_each_write_waits_for_hive_and_is_undone_if_it_waits_too_long(
    catalog: Catalog, metastore: FakeMetastore, root: Path, name: str
) -> None:
    switch(catalog, "strict", wait="0s")
    before, files = indexed(catalog), walked(root, 1)
    with hive_holds(metastore, ""), pytest.raises(HiveLockTimeoutError, match=r"EXCLUSIVE of s\.t by hive@node7"):
        commands(catalog)[name]()
    assert (indexed(catalog), walked(root, 1)) == (before, files)
    assert not (root / "_catalog_ext_staging").exists()
    assert all(t.state in (State.ABORTED, State.FINISHED) for t in catalog.index.transactions.all())
    assert metastore.locks.requests == {}
    commands(catalog)[name]()


@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_asked_where_the_setting_is_off(catalog: Catalog, metastore: FakeMetastore, name: str) -> None:
    switch(catalog, "none")
    with hive_holds(metastore, ""):
        commands(catalog)[name]()
    assert LOCKS & metastore.calls.keys() == set()
    assert metastore.locks.history == []


def requests(catalog: Catalog, path: Path) -> dict[str, tuple[str, dict[str, object]]]:
    """The service's request of each statement that is one, by its name: the operation, and its fields."""
    t = catalog.load_table("s.t")
    at = {"table_id": t.table_id, "version": t.version}
    one, new = {"Day": "1"}, {"Day": "9"}
    only = {"predicate": {"op": "=", "column": "Day", "value": "1"}, "clauses": []}
    dropped = {"predicates": [only["predicate"]], "clauses": [], "if_exists": False, "purge": False}
    o = catalog.load_table("s.o")
    to = {"table_id": o.table_id, "version": o.version, "source_id": t.table_id, "source_version": t.version}
    loaded = {"path": str(path), "spec": one, "overwrite": True}
    return {
        "delete": ("writes/delete", {**at, "operation": "delete", **only}),
        "truncate": ("writes/delete", {**at, "operation": "truncate", "predicate": None, "clauses": []}),
        "load": ("writes/load", {**at, **loaded}),
        "add partition": ("partitions/add", {**at, "partitions": [{"spec": new, "location": None}]}),
        "drop partition": ("partitions/drop", {**at, **dropped}),
        "rename partition": ("partitions/rename", {**at, "from": one, "to": new}),
        "relocate partition": ("partitions/relocate", {**at, "spec": one, "location": str(path.parent)}),
        "exchange partition": ("partitions/exchange", {**to, "specs": [one]}),
        "repair": ("procedures/call", {"procedure": "repair_partitions", "arguments": {"table": "s.t"}}),
        "drop table": ("tables/drop", {"namespace": "s", "name": "t"}),
        "drop namespace": ("namespaces/drop", {"namespace": "s", "cascade": True}),
    }


@pytest.mark.parametrize(
    "name",
    ["delete", "truncate", "load", "add partition", "drop partition", "rename partition", "relocate partition",
     "exchange partition", "repair", "drop table", "drop namespace"],
)  # fmt: skip
def test_what_the_session_says_of_locks_holds_for_each_statement(
    catalog: Catalog, metastore: FakeMetastore, folder: Path, name: str
) -> None:
    catalog.alter_table_properties("s.t", {"external.table.purge": "true"}, ["hive-locks", "hive-locks.wait"])
    catalog.alter_table_properties("s.o", {}, ["hive-locks", "hive-locks.wait"])
    (folder / "new").mkdir()
    (folder / "new" / "n.csv").write_text("5\n")
    operations = operations_of(catalog)
    operation, fields = requests(catalog, folder / "new" / "n.csv")[name]
    session = {"settings": {"hive-locks": "strict", "hive-locks.wait": "0s"}}
    with hive_holds(metastore, ""), pytest.raises(HiveLockTimeoutError, match="within 0 s"):
        operations[operation](Request({**fields, "session": session}))
    requested = len(metastore.locks.history)
    assert requested > 0
    answer = operations[operation](Request({**fields, "session": None}))
    assert answer
    assert len(metastore.locks.history) == requested, "the statement of another session takes none"


def test_an_exchange_takes_the_stricter_locks_of_both_tables(catalog: Catalog, metastore: FakeMetastore) -> None:
    catalog.alter_table_properties("s.o", {"hive-locks": "none", "hive-locks.wait": "1h"})
    catalog.alter_table_properties("s.t", {"hive-locks.wait": "0s"})
    exchange = commands(catalog)["exchange partition"]
    with hive_holds(metastore, ""), pytest.raises(HiveLockTimeoutError, match="within 0 s"):
        exchange()
    catalog.alter_table_properties("s.o", {"hive-locks": "strict"})
    catalog.alter_table_properties("s.t", {"hive-locks": "shared"})
    exchange()
    assert asked(metastore)[-2:] == ASKED["exchange partition"]


def test_a_preview_takes_no_lock(catalog: Catalog, metastore: FakeMetastore) -> None:
    catalog.repair_partitions("s.t", dry_run=True)
    assert metastore.locks.history == []


def test_an_append_lets_readers_go_on_where_it_is_said(catalog: Catalog, metastore: FakeMetastore) -> None:
    switch(catalog, "shared")
    with hive_holds(metastore, "day=1", SHARED):
        insert(catalog, ONE)
    assert asked(metastore) == [("t/day=1", SHARED)]
    insert(catalog, ONE, hive_locks="strict")
    assert asked(metastore)[1:] == [("t/day=1", EXCLUSIVE)], "an option of the write goes before the table"


def test_another_partition_is_not_waited_for(catalog: Catalog, metastore: FakeMetastore) -> None:
    with hive_holds(metastore, "day=2"):
        insert(catalog, ONE)
    assert metastore.calls["check_lock"] == 0


def test_very_many_partitions_are_locked_as_the_table(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_locks, "MOST_PARTITIONS", 2)
    insert(catalog, ONE, TWO)
    insert(catalog, ONE, TWO, NEW)
    assert asked(metastore)[2:] == [("t/", EXCLUSIVE)]


def test_no_more_partitions_are_looked_at_than_a_request_names(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(catalog, *(f"Day={n}" for n in range(3, 9)))
    metastore.locks.history.clear()
    monkeypatch.setattr(commit_locks, "MOST_PARTITIONS", 2)
    matching, of_values = catalog.index.living_partitions.matching, catalog.index.living_partitions.of_values
    checked: list[int] = []

    def counted(find: Callable[..., list[Partition]]) -> Callable[..., list[Partition]]:
        def found(*given: Any, **more: Any) -> list[Partition]:
            there = find(*given, **more)
            checked.append(len(there))
            return there

        return found

    catalog.index.living_partitions.matching = counted(matching)  # type: ignore[method-assign]
    catalog.index.living_partitions.of_values = counted(of_values)  # type: ignore[method-assign]
    with catalog.writes.transactions.locks.of_commit(begun(catalog, WriteKind.OVERWRITE_PARTITIONS)) as lock:
        lock.take([stage_of(f"Day={n}") for n in range(1, 5)])
    assert checked == [], "four names are the whole table's lock already"
    with catalog.writes.transactions.locks.of_commit(
        begun(catalog, WriteKind.OVERWRITE, Comparison(Operator.GT, "Day", 0))
    ) as lock:
        lock.take([])
    assert checked == [3]
    assert asked(metastore) == [("t/", EXCLUSIVE)] * 2


def begun(catalog: Catalog, kind: WriteKind, predicate: Predicate | None = None) -> Transaction:
    number = begin(catalog, kind, predicate=predicate).transaction_id
    return catalog.index.transactions.load(number)


def stage_of(partition: str) -> StagedFile:
    return StagedFile(partition, "a.csv", 1)


def test_what_the_metastore_cannot_hold_is_not_locked(catalog: Catalog, metastore: FakeMetastore, folder: Path) -> None:
    (folder / "i").mkdir()
    catalog.register_table(
        "s.i", location=str(folder / "i"), format="csv", schema="x INT", options={"sep": "||"},
        partition_columns={"k": "STRING"}, properties={"hive-locks": "strict"},
    )  # fmt: skip
    insert(catalog, "k=1", table="s.i")
    assert metastore.locks.history == []


def test_an_index_that_was_away_does_not_cost_the_lock(catalog: Catalog, metastore: FakeMetastore) -> None:
    crash_at("reserve.after", lambda: insert(catalog, ONE))
    metastore.locks.end_all()
    metastore.locks.history.clear()
    (left,) = catalog.index.transactions.all(states=(State.RESERVED,))
    load, failures = catalog.index.tables.load_by_id, iter([IndexUnavailableError("away")])

    def load_later(table_id: int) -> Table:
        for failure in failures:
            raise failure
        return load(table_id)

    catalog.index.tables.load_by_id = load_later  # type: ignore[method-assign]
    catalog.writes.transactions.commit(left.transaction_id, is_retry=True)
    assert asked(metastore) == [("t/day=1", EXCLUSIVE)]


def test_a_write_without_rows_locks_nothing(catalog: Catalog, metastore: FakeMetastore) -> None:
    catalog.writes.transactions.commit(begin(catalog).transaction_id, [])
    assert metastore.locks.history == []


def test_it_is_taken_before_the_check_and_given_up_after_the_clean_up(
    catalog: Catalog, metastore: FakeMetastore, root: Path
) -> None:
    seen: dict[str, int] = {}

    def look(point: str) -> None:
        seen[point] = len(metastore.locks.requests)

    points = ("stage.before", "check.before", "promote.before", "apply.after", "clean.after")
    with ExitStack() as stack:
        for point in points:
            stack.enter_context(armed(point, look))
        insert(catalog, ONE, kind=WriteKind.OVERWRITE_PARTITIONS)
    assert seen == {"stage.before": 0, "check.before": 1, "promote.before": 1, "apply.after": 1, "clean.after": 1}


def test_what_hive_has_added_while_it_was_waited_for_is_overwritten(
    catalog: Catalog, metastore: FakeMetastore, root: Path
) -> None:
    """The look at the directory is under the lock: the statement comes after Hive's."""
    begun = begin(catalog, WriteKind.OVERWRITE_PARTITIONS)
    files = [stage(begun, ONE)]
    check = metastore.check_lock
    with hive_holds(metastore, "day=1") as number:

        def hive_ends(lock: int) -> int:
            write(root, f"{ONE}/000000_0")
            metastore.locks.requests[number].components = ()
            return check(lock)

        metastore.check_lock = hive_ends  # type: ignore[method-assign]
        catalog.writes.transactions.commit(begun.transaction_id, files)
    assert list(walked(root, 1)[ONE]) == [files[0].name]


@pytest.mark.parametrize("point", ["check.after", "promote.before", "promote.after", "apply.before"])
def test_a_lock_that_is_lost_before_the_commit_undoes_the_write(
    catalog: Catalog, metastore: FakeMetastore, root: Path, point: str
) -> None:
    before, files = indexed(catalog), walked(root, 1)
    with (
        armed(point, lambda _: metastore.locks.end_all()),
        pytest.raises(HiveLockLostError, match="run the statement again") as caught,
    ):
        insert(catalog, ONE, NEW, kind=WriteKind.OVERWRITE_PARTITIONS)
    assert caught.value.retryable
    assert (indexed(catalog), walked(root, 1)) == (before, files)
    insert(catalog, ONE, NEW, kind=WriteKind.OVERWRITE_PARTITIONS)


def test_a_lock_that_is_lost_after_the_commit_is_logged(
    catalog: Catalog, metastore: FakeMetastore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "catalog_ext")
    with armed("apply.after", lambda _: metastore.locks.end_all()):
        insert(catalog, ONE, kind=WriteKind.OVERWRITE_PARTITIONS)
    assert len(indexed(catalog)[ONE]) == 1
    (said,) = [record.getMessage() for record in caplog.records if "s.t/day=1 (EXCLUSIVE)" in record.getMessage()]
    assert "was given up" in said


def test_a_metastore_that_goes_away_in_the_middle_keeps_the_lock(catalog: Catalog, metastore: FakeMetastore) -> None:
    def stop(_: str) -> None:
        metastore.down = True

    with armed("promote.before", stop):
        insert(catalog, ONE)
    assert len(indexed(catalog)[ONE]) == 2
    assert len(metastore.locks.requests) == 1, "the server ends it by itself"


def test_a_repair_that_loses_its_lock_commits_no_more(
    catalog: Catalog, metastore: FakeMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, f"{NEW}/c.csv")
    before = indexed(catalog)
    monkeypatch.setattr(
        catalog.index.verifications, "verified", _then(catalog.index.verifications.verified, metastore.locks.end_all)
    )
    with pytest.raises(HiveLockLostError):
        catalog.repair_partitions("s.t")
    assert indexed(catalog) == before


def _then(function: Callable[..., object], after: Callable[[], None]) -> Callable[..., object]:
    def called(*args: object, **more: object) -> object:
        after()
        return function(*args, **more)

    return called


def test_a_recoverer_takes_the_lock_of_what_it_finishes(catalog: Catalog, metastore: FakeMetastore) -> None:
    crash_at("promote.before", lambda: insert(catalog, ONE))
    metastore.locks.end_all()
    metastore.locks.history.clear()
    switch(catalog, "none")  # what the write began with holds for it
    catalog.recover("s.t", older_than="0s")
    assert asked(metastore) == [("t/day=1", EXCLUSIVE)]
    assert metastore.locks.requests == {}
    assert len(indexed(catalog)[ONE]) == 2


def test_a_recoverer_that_does_not_get_it_leaves_the_write_to_the_next(
    catalog: Catalog, metastore: FakeMetastore
) -> None:
    switch(catalog, "strict", wait="0s")
    crash_at("promote.before", lambda: insert(catalog, ONE))
    metastore.locks.end_all()
    with hive_holds(metastore, "day=1"):
        (failed,) = catalog.recover("s.t", older_than="0s").transactions
        assert "held by" in (failed.error or "")
    assert len(indexed(catalog)[ONE]) == 1
    catalog.recover("s.t", older_than="0s")
    assert len(indexed(catalog)[ONE]) == 2


def test_a_metastore_without_locks_refuses_the_write(catalog: Catalog, metastore: FakeMetastore, root: Path) -> None:
    metastore.locks.refuses = True
    with pytest.raises(HiveLocksRefusedError):
        insert(catalog, ONE)
    assert len(indexed(catalog)[ONE]) == 1
    assert not (root / "_catalog_ext_staging").exists()


def test_a_catalog_without_a_metastore_says_so(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t", {"Day": "INT"})
        with pytest.raises(InvalidConfigurationError, match=r"'hive-locks' is shared for table s\.t.*no metastore"):
            insert(catalog, ONE, hive_locks="shared")


def test_the_environment_switches_them_on(
    tmp_path: Path, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CATALOG_EXT_HIVE_LOCKS", "strict")
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.create_namespace("s")
        register(catalog, tmp_path / "t", {})
        insert(catalog, "")
    assert asked(metastore) == [("t/", EXCLUSIVE)]


@pytest.mark.parametrize("text", ["exclusive", ""])
def test_another_word_is_refused(catalog: Catalog, text: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="hive-locks"):
        insert(catalog, ONE, hive_locks=text)


def test_a_table_is_dropped_with_its_lock_until_the_metastore_knows(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    drop = metastore.drop_table

    def seen(*given: Any, **more: Any) -> None:
        held.append(len(metastore.locks.requests))
        drop(*given, **more)

    monkeypatch.setattr(metastore, "drop_table", seen)
    catalog.drop_table("s.t")
    assert held == [1]
    assert metastore.locks.requests == {}


def test_leftovers_of_a_dead_writer_are_recovered_before_the_table_lock(
    catalog: Catalog, metastore: FakeMetastore
) -> None:
    """Its lock would wait for that of the drop."""
    switch(catalog, "strict", wait="1s")
    crash_at("promote.after", lambda: insert(catalog, NEW))
    over = sa.update(transactions).values(expires_at_ms=0)
    catalog.index._database.write(lambda connection: connection.execute(over))
    metastore.locks.end_all()
    metastore.locks.history.clear()
    catalog.drop_table("s.t")
    assert asked(metastore) == [("t/day=9", EXCLUSIVE), ("t/", EXCLUSIVE)]
