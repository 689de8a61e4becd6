"""Following where something goes wrong: gaps in the log, a lost log, a store that is away, two followers, kill -9."""

from __future__ import annotations

import os
import signal
import time
import tracemalloc
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.hms_events import run as follow_run
from catalog_ext.hms_events.log import BATCH_EVENTS, read_batch
from catalog_ext.hms_events.suspects import MOST_PARTITIONS, SuspectPartition, SuspectTable
from catalog_ext.metastore.errors import MetastoreUnavailableError, StorageUnavailableError
from catalog_ext.metastore.hive.events import PartitionHint, Statistics
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.metastore.index.database.database import Database
from catalog_ext.metastore.storage.store import Storage
from tests.kit.fakes_metastore_log import LoggingMetastore
from tests.kit.repair_cases import deny, indexed, write
from tests.kit.writes import insert
from tests.unit.hms_events.states import set_cursor
from tests.unit.hms_events.test_following import PARQUET, add, counts, followed, hive_table, open_catalog
from tests.unit.hms_events.test_following import catalog as catalog
from tests.unit.hms_events.test_following import root as root
from tests.unit.hms_events.test_following import server as server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

ONE = {"one": 1}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog_ext.hms_events.log._SETTLE_S", 0.0)


@pytest.fixture
def three(catalog: Catalog, server: LoggingMetastore, root: Path) -> Path:
    """The table, with three partitions more."""
    write(root, "ds=b/one", "ds=c/one", "ds=d/one")
    add(server, root, "b", "c", "d")
    catalog.follower.look()
    return root


def test_events_that_are_gone_are_made_up_for_by_a_comparison(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    write(three, "ds=e/one", "ds=a/two")
    add(server, three, "e")
    server.insert("s", "t", "ds=a")
    server.drop_partitions("s", "t", ["ds=b"])
    server.log.clear()
    server.insert("s", "t", "ds=c")
    outcome = catalog.follower.look()
    assert outcome.gap == f"the events from {server.newest - 3} to {server.newest - 1} are missing"
    (table,) = outcome.tables
    assert counts(table) == (1, 0, 1)
    assert "ds=b: the metastore does not have it" in table.skipped[0], "no event says that it was dropped"
    assert indexed(catalog) == {f"ds={name}": ONE for name in "bcde"} | {"ds=a": {"one": 1, "two": 1}}
    assert catalog.follower.look().is_idle, "and the log is read on"


def test_a_log_that_has_none_of_its_events_any_more(catalog: Catalog, server: LoggingMetastore, three: Path) -> None:
    write(three, "ds=e/one")
    add(server, three, "e")
    server.log.clear()
    outcome = catalog.follower.look()
    assert outcome.gap == f"the events from {server.newest} to {server.newest} are gone"
    assert counts(outcome.tables[0]) == (1, 0, 0)


def test_an_event_that_comes_a_moment_later_is_no_gap() -> None:
    """A server may show an event before one of another connection that is not committed yet."""
    server = LoggingMetastore()
    for name in "abc":
        server.insert("s", "t", f"ds={name}")
    late = server.log.pop(1)
    batch = read_batch(server, 0, 3, sleep=lambda _: server.log.insert(1, late))
    assert (batch.gap, batch.upto, [event.event_id for event in batch.events]) == (None, 3, [1, 2, 3])


def test_a_number_that_two_servers_gave_is_read_twice() -> None:
    server = LoggingMetastore()
    for name in "abc":
        server.insert("s", "t", f"ds={name}")
    server.log.insert(1, replace(server.log[0], table="u"))
    batch = read_batch(server, 0, 3, sleep=lambda _: None)
    assert (batch.gap, [event.table for event in batch.events]) == (None, ["t", "u", "t", "t"])


@pytest.mark.slow
def test_a_batch_ends_before_it_names_more_than_memory_is_to_hold() -> None:
    server = LoggingMetastore()
    for _ in range(300):
        server.emit("ADD_PARTITION", "s", "t", [PartitionHint(f"k={number}") for number in range(1000)])
    batch = read_batch(server, 0, 300)
    assert len(batch.events) == 100, "one answer more than names so many"
    assert read_batch(server, 100, 300).upto == 200


def test_what_a_lost_log_does_not_have_is_no_reason_to_drop(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    """A metastore that was taken back to an older state has lost partitions that were not dropped."""
    del server._partitions["s", "t"]["d",]
    server.newest, server.log = 1, []
    outcome = catalog.follower.look()
    assert outcome.gap is not None
    assert outcome.gap.startswith("the log has been lost")
    assert sorted(indexed(catalog)) == [f"ds={name}" for name in "abcd"]
    assert outcome.event_id == 1
    assert catalog.follower.look().is_idle


def test_what_was_lost_with_the_log_is_not_dropped_by_a_later_comparison(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    set_cursor(catalog, None)
    catalog.follower.look()
    del server._tables["s", "t"]
    server.newest, server.log = 1, []
    assert followed(catalog).action == "refused"
    server.emit("INSERT", "s", "other", [PartitionHint("ds=a")])
    server.emit("INSERT", "s", "other", [PartitionHint("ds=a")])
    del server.log[0]
    outcome = catalog.follower.look()
    assert outcome.gap is not None
    assert catalog.list_tables("s") == ["t"], "its database was set back, and the table was not dropped"


@pytest.mark.parametrize("loss", ["lost", "expired"])
def test_one_that_was_renamed_in_a_gap_is_not_there_twice(
    catalog: Catalog, server: LoggingMetastore, three: Path, loss: str
) -> None:
    """Of an external table a renamed partition keeps its directory."""
    server.rename_partition("s", "t", "ds=b", ("z",))
    write(three, "ds=b/two")
    server.log.clear()
    server.newest = 1 if loss == "lost" else server.newest
    assert counts(followed(catalog)) == (1, 1, 0)
    assert indexed(catalog) == {f"ds={name}": ONE for name in "acd"} | {"ds=z": {"one": 1, "two": 1}}
    assert catalog.follower.look().is_idle


def test_one_whose_place_has_another_that_cannot_be_read_stays(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    server.rename_partition("s", "t", "ds=b", ("z",))
    renamed = server._partitions["s", "t"]["z",]
    server._partitions["s", "t"]["z",] = replace(renamed, storage=replace(PARQUET, serde="Avro"))
    server.log.clear()
    assert counts(followed(catalog)) == (0, 0, 0)
    assert sorted(indexed(catalog)) == [f"ds={name}" for name in "abcd"]


def test_after_a_gap_most_partitions_stay_and_the_others_are_followed(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    names = [f"n{number:02}" for number in range(30)]
    write(three, *(f"ds={name}/one" for name in names))
    add(server, three, *names)
    catalog.follower.look()
    set_cursor(catalog, None)
    catalog.follower.look()
    write(three, "ds=a/two", "ds=n00/two")
    server.insert("s", "t", "ds=n00")
    server.drop_partitions("s", "t", [f"ds={name}" for name in names])
    server.insert("s", "t", "ds=a")
    server.log.clear()
    for _ in range(2):
        outcome = followed(catalog)
        assert outcome.action == "refused"
        assert "does not have 30 of the 34 partitions" in (outcome.error or "")
        held = indexed(catalog)
        assert len(held) == 34
        assert held["ds=a"] == held["ds=n00"] == {"one": 1, "two": 1}
        server.emit("INSERT", "s", "other", [PartitionHint("ds=a")])
        server.log.clear()
    catalog.alterations.alter("s.t", [], set_={"repair.mass-drop-percent": "100"})
    assert catalog.deliver().pending == 0
    server.log.clear()
    assert counts(followed(catalog)) == (0, 30, 0)


def test_what_is_missing_keeps_its_files_while_its_store_is_not_mounted(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    for name in "bcd":
        del server._partitions["s", "t"][name,]
    write(three, "ds=b/two", "ds=d/")
    (three / "ds=d" / "one").unlink()
    (three / "ds=c").rename(three / "away")
    server.newest, server.log = 1, []
    outcome = followed(catalog)
    assert counts(outcome) == (0, 0, 2)
    assert any("ds=c: neither the metastore has it nor is anything at its place" in why for why in outcome.skipped)
    two = {"one": 1, "two": 1}
    assert indexed(catalog) == {"ds=a": ONE, "ds=b": two, "ds=c": ONE, "ds=d": {}}, "the store says of d what it has"
    assert catalog.follower.look().is_idle


@pytest.mark.parametrize("is_there", [False, True])
def test_a_partition_keeps_its_files_while_the_tables_location_is_away(
    catalog: Catalog, server: LoggingMetastore, three: Path, is_there: bool
) -> None:
    away = three.with_name("away")
    three.rename(away)
    if is_there:
        three.mkdir()
    for name in "abcd":
        server.insert("s", "t", f"ds={name}")
    outcome = followed(catalog)
    if is_there:
        assert indexed(catalog) == {f"ds={name}": {} for name in "abcd"}, "the store says so"
        return
    assert outcome.action == "left"
    assert "look whether the store is mounted" in (outcome.error or "")
    assert indexed(catalog) == {f"ds={name}": ONE for name in "abcd"}
    away.rename(three)
    write(three, "ds=b/two")
    server.insert("s", "t", "ds=d")
    assert counts(followed(catalog)) == (0, 0, 1)
    assert indexed(catalog)["ds=b"] == {"one": 1, "two": 1}
    assert catalog.follower.look().is_idle


def test_a_partition_that_is_only_missing_stays(catalog: Catalog, server: LoggingMetastore, three: Path) -> None:
    del server._partitions["s", "t"]["d",]
    server.insert("s", "t", "ds=d")
    outcome = followed(catalog)
    assert counts(outcome) == (0, 0, 0)
    assert "ds=d: the metastore does not have it" in outcome.skipped[0]
    assert sorted(indexed(catalog)) == [f"ds={name}" for name in "abcd"]


def test_a_table_that_is_only_missing_stays(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    del server._tables["s", "t"]
    server.emit("ALTER_TABLE", "s", "t", definition=True)
    outcome = followed(catalog)
    assert outcome.action == "refused"
    assert "publish s.t creates it again" in (outcome.error or "")
    assert catalog.list_tables("s") == ["t"]


def test_foreign_table_of_the_name_changes_nothing(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    server._tables["s", "t"] = replace(server.get_table("s", "t"), location="file:/elsewhere")
    server.emit("ALTER_TABLE", "s", "t", definition=True)
    assert "another table of the name" in (followed(catalog).error or "")
    server.drop_table("s", "t")
    write(root.parent / "new", "ds=z/one")
    server.create_table(hive_table(root.parent / "new"))
    add(server, root.parent / "new", "z")
    outcome = catalog.follower.look(databases=["s"])
    assert [each.action for each in outcome.tables] == ["imported"]
    assert indexed(catalog) == {"ds=z": ONE}


def test_other_partition_columns_are_refused(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    server._tables["s", "t"] = replace(server.get_table("s", "t"), partition_columns=())
    server.emit("ALTER_TABLE", "s", "t", definition=True)
    assert "has other partition columns" in followed_error(catalog)


def followed_error(catalog: Catalog) -> str:
    return followed(catalog).error or ""


def test_values_that_the_table_cannot_have_are_said(catalog: Catalog, server: LoggingMetastore, tmp_path: Path) -> None:
    place = tmp_path / "dates"
    write(place, "ds=2025-01-01/one")
    catalog.create_namespace("s")
    catalog.register_table(
        "s.t", location=str(place), partition_columns={"ds": "DATE"}, schema="x INT", format="parquet"
    )
    catalog.repair_partitions("s.t")
    catalog.deliver()
    catalog.follower.look()
    add(server, place, "soon")
    outcome = followed(catalog)
    assert outcome.skipped
    assert outcome.skipped[0].startswith("ds=soon: ")
    assert indexed(catalog) == {"ds=2025-01-01": ONE}


@pytest.mark.slow
def test_a_store_that_is_away_holds_up_its_own_tables_only(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = root.parent / "u"
    write(other, "ds=a/one")
    server.create_table(hive_table(other, "u"))
    add(server, other, "a", table="u")
    catalog.import_table("s.u")
    catalog.follower.look()
    listed = Storage.list_directory

    def away(storage: Storage, location: object) -> object:
        if "/t/" in str(location):
            raise StorageUnavailableError("The store is away.")
        return listed(storage, location)  # type: ignore[arg-type]

    monkeypatch.setattr(Storage, "list_directory", away)
    write(root, "ds=a/two", "ds=b/one")
    write(other, "ds=a/two")
    server.insert("s", "t", "ds=a")
    add(server, root, "b")
    server.insert("s", "u", "ds=a")
    assert {t.table: t.action for t in catalog.follower.look().tables} == {"s.t": "left", "s.u": "followed"}
    assert indexed(catalog, "s.u") == {"ds=a": {"one": 1, "two": 1}}
    states = {entry.kind: entry for entry in catalog.status()}
    assert states["suspect"].state == "left"
    assert "The store is away" in states["suspect"].detail
    assert states["follower"].state == "in sync"
    monkeypatch.setattr(Storage, "list_directory", listed)
    server.drop_partitions("s", "t", ["ds=b"])
    assert counts(followed(catalog)) == (0, 0, 1), "what was left comes with the next event"
    assert indexed(catalog) == {"ds=a": {"one": 1, "two": 1}}
    assert catalog.index.followed.suspects() == []


def test_what_was_left_is_tried_again_without_an_event(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = Storage.list_directory
    monkeypatch.setattr(follow_run, "_FIRST_PAUSE_MS", 0)

    def away(*_: object) -> object:
        raise StorageUnavailableError("The store is away.")

    monkeypatch.setattr(Storage, "list_directory", away)
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    catalog.follower.look()
    catalog.follower.look()
    (kept,) = catalog.index.followed.suspects()
    assert kept.attempts == 2
    monkeypatch.setattr(Storage, "list_directory", listed)
    assert counts(followed(catalog)) == (0, 0, 1)


def test_only_the_partition_that_cannot_be_listed_is_checked_again(
    catalog: Catalog, server: LoggingMetastore, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_run, "_FIRST_PAUSE_MS", 0)
    write(three, *(f"ds={name}/two" for name in "abcd"))
    for name in "abcd":
        server.insert("s", "t", f"ds={name}")
    with monkeypatch.context() as away:
        deny(away, three / "ds=c")
        outcome = followed(catalog)
        assert (outcome.action, outcome.checked, counts(outcome)) == ("left", 4 + 1 + 1, (0, 0, 3))
        assert outcome.left is not None
        assert list(outcome.left.partitions) == ["ds=c"]
        assert followed(catalog).checked == 3, "three times at each attempt"
    assert counts(followed(catalog)) == (0, 0, 1)


def test_a_new_table_that_cannot_be_listed_for_now_is_taken_later(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_run, "_FIRST_PAUSE_MS", 0)
    other = root.parent / "u"
    write(other, "ds=a/one")
    server.create_table(hive_table(other, "u"))
    add(server, other, "a", table="u")
    server.log.clear()
    with monkeypatch.context() as away:
        deny(away, other / "ds=a")
        outcome = next(t for t in catalog.follower.look(databases=["s"]).tables if t.table == "s.u")
        assert outcome.action == "left"
        assert "'ds=a' cannot be listed" in (outcome.error or "")
    (outcome,) = catalog.follower.look(databases=["s"]).tables
    assert outcome.action == "imported"
    assert indexed(catalog, "s.u") == {"ds=a": ONE}
    assert catalog.follower.look(databases=["s"]).is_idle


@pytest.mark.parametrize("of", ["t", "another"])
def test_what_was_left_is_not_forgotten_by_an_event_once_its_time_has_come(
    catalog: Catalog, server: LoggingMetastore, three: Path, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    """Nor put off by those of other tables, where they come with every look."""
    monkeypatch.setattr(follow_run, "_FIRST_PAUSE_MS", 0)
    write(three, "ds=a/two")
    server.insert("s", "t", "ds=a")
    with monkeypatch.context() as away:
        deny(away, three / "ds=a")
        assert followed(catalog).action == "left"
    server.insert("s", of, "ds=b")
    assert counts(followed(catalog)) == (0, 0, 1)
    assert indexed(catalog)["ds=a"] == {"one": 1, "two": 1}
    assert catalog.index.followed.suspects() == []


def test_a_table_that_was_left_as_it_was_dropped_is_made_anew(
    catalog: Catalog, server: LoggingMetastore, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions are then those of the new one, as where one look reads of both."""
    monkeypatch.setattr(follow_run, "_FIRST_PAUSE_MS", 0)
    set_cursor(catalog, None)
    catalog.follower.look()
    server.down = True
    insert(catalog, "ds=a")
    server.down = False
    server.drop_table("s", "t")
    assert followed(catalog).action == "left"
    server.create_table(hive_table(three))
    assert followed(catalog).action == "followed"
    assert sorted(indexed(catalog)) == ["ds=a"], "which our write brings back"


def test_a_metastore_that_is_away_moves_nothing(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    before = catalog.index.followed.load().event_id
    server.down = True
    with pytest.raises(MetastoreUnavailableError):
        catalog.follower.look()
    state = catalog.index.followed.load()
    assert state.event_id == before
    assert "fake.invalid" in (state.error or "")
    server.down = False
    assert counts(followed(catalog)) == (0, 0, 1)
    assert catalog.index.followed.load().error is None


def test_one_follows_and_the_other_takes_over(
    catalog: Catalog, server: LoggingMetastore, root: Path, tmp_path: Path
) -> None:
    write(root, "ds=a/two")
    with open_catalog(tmp_path) as other:
        assert other.follower.look().source == "waiting"
        catalog.follower.close()
        server.insert("s", "t", "ds=a")
        assert counts(followed(other)) == (0, 0, 1)
        assert catalog.follower.look().source == "waiting"
    assert catalog.follower.look().source == "log"


def test_a_follower_that_lost_its_lease_keeps_nothing(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.insert("s", "t", "ds=a")
    before = catalog.index.followed.load().event_id
    events_after = server.events_after

    def overtaken(event_id: int, most: int, **_: object) -> object:
        assert catalog.index.followed.hold("other@host:1", 1000) is False
        catalog.index.followed.release(catalog.follower._holder)
        assert catalog.index.followed.hold("other@host:1", 1000)
        return events_after(event_id, most)

    monkeypatch.setattr(server, "events_after", overtaken)
    catalog.follower.look()
    assert catalog.index.followed.load().event_id == before


def test_another_metastores_log_is_not_read_on(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    """An index that has taken on another metastore begins with a comparison, whatever its events are numbered."""
    catalog.alterations.alter("s.t", [], set_={"mine": "1"})
    assert catalog.deliver().pending == 0
    catalog.follower.look()
    catalog.index.properties.replace({"metastore.id": "other"})
    server.alter_database(replace(server.get_database("default"), parameters={"catalog-ext.metastore-id": "other"}))
    catalog.metastore._guard.lost()  # type: ignore[union-attr]
    server.emit("INSERT", "s", "t", [PartitionHint("ds=a")])
    outcome = catalog.follower.look()
    assert outcome.events == 0
    assert [each.table for each in outcome.tables] == ["s.t"]
    assert catalog.index.followed.load().metastore_id == "other"


def test_what_another_metastore_does_not_have_was_not_dropped_there(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    """Comparisons with the one before it say nothing of it."""
    catalog.alterations.alter("s.t", [], set_={"mine": "1"})
    assert catalog.deliver().pending == 0
    set_cursor(catalog, None)
    catalog.follower.look()
    catalog.index.properties.replace({"metastore.id": "other"})
    server.alter_database(replace(server.get_database("default"), parameters={"catalog-ext.metastore-id": "other"}))
    catalog.metastore._guard.lost()  # type: ignore[union-attr]
    del server._partitions["s", "t"]["b",]
    assert "ds=b: the metastore does not have it" in followed(catalog).skipped[0]
    assert "ds=b" in indexed(catalog)


def _statements(server: LoggingMetastore, root: Path) -> None:
    write(root, "ds=a/two", "ds=e/one")
    server.insert("s", "t", "ds=a")
    add(server, root, "e")
    server.drop_partitions("s", "t", ["ds=b"])
    server.rename_partition("s", "t", "ds=c", ("f",))
    there = server.get_table("s", "t")
    server.alter_table(replace(there, parameters={**there.parameters, "p": "1"}))
    write(root.parent / "u", "ds=a/one")
    server.create_table(hive_table(root.parent / "u", "u"))
    add(server, root.parent / "u", "a", table="u")


def _versions(catalog: Catalog) -> list[int]:
    return [catalog.load_table(name).version for name in ("s.t", "s.u")]


def _killed_at(step: int, work: Callable[[], object]) -> bool:
    """Whether a process that did the work was killed before its write of this number; it was not where it made less."""
    pid = os.fork()
    if pid == 0:
        done = 0
        write_ = Database.write

        def counted(database: Database, statements: object, **options: object) -> object:
            nonlocal done
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)
            done += 1
            return write_(database, statements, **options)  # type: ignore[arg-type]

        Database.write = counted  # type: ignore[assignment,method-assign]
        try:
            work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.slow
def test_a_follower_killed_at_any_step_is_followed_by_one_that_ends_well(
    catalog: Catalog, server: LoggingMetastore, three: Path, tmp_path: Path
) -> None:
    """Before each of its writes to the index: the next run has the same outcome as without the failure."""
    _statements(server, three)
    cursor = catalog.index.followed.load().event_id
    catalog.close()
    whole = (tmp_path / "index.db").read_bytes()

    def follow() -> None:
        with open_catalog(tmp_path) as other:
            other.follower.look(databases=["s"])

    step = 0
    while True:
        for name in ("index.db-wal", "index.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / "index.db").write_bytes(whole)
        killed = _killed_at(step, follow)
        with open_catalog(tmp_path) as after:
            after.follower.look(databases=["s"])
            a = {"one": 1, "two": 1}
            assert indexed(after) == {"ds=a": a, "ds=d": ONE, "ds=e": ONE, "ds=f": ONE}, f"killed at write {step}"
            assert indexed(after, "s.u") == {"ds=a": ONE}
            assert after.load_table("s.t").definition.properties["p"] == "1"
            assert after.index.followed.load().event_id == server.newest
            set_cursor(after, cursor)
            versions = _versions(after)
            again = after.follower.look(databases=["s"])
            assert {counts(each) for each in again.tables} == {(0, 0, 0)}
            assert _versions(after) == versions, "what is done is not done twice"
        if not killed:
            break
        step += 1
    assert step > 5


@pytest.mark.slow
def test_many_events_are_few_looks(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their number: memory is one batch's, and calls and queries are a few for each batch."""
    # What a server sends is made anew; what the test has of the log was there before.
    asked = server.events_after
    monkeypatch.setattr(server, "events_after", lambda *given, **_: [replace(event) for event in asked(*given)])
    names = [f"ds={number}" for number in range(10)]
    add(server, root, *(str(number) for number in range(10)))
    write(root, *(f"{name}/one" for name in names))
    catalog.follower.look()
    peaks = {}
    for count in (20_000, 40_000):
        for number in range(count):
            server.insert("s", "t", names[number % 10])
        write(root, f"ds=7/{count}")
        before = server.calls.copy()
        with statements(catalog) as sent:
            tracemalloc.start()
            began_s = time.monotonic()
            outcome = catalog.follower.look()
            # The lease is renewed every 10 s, however few statements there are.
            renewals = int((time.monotonic() - began_s) / 10)
            peaks[count] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        batches = count // BATCH_EVENTS
        assert (outcome.events, len(outcome.tables), outcome.gap) == (count, batches, None)
        assert sum(table.changed for table in outcome.tables) == 1
        calls = server.calls - before
        assert calls["partitions_by_names"] == batches, "each partition once in 5,000 events"
        assert calls["events_after"] <= 8 * batches
        assert calls.total() <= 10 * batches + 1
        # One look finds a file to register, and asks which other names its directory has. It asks the outbox once for
        # renames that the metastore has not made yet.
        assert len(sent) <= 42 * batches + 2 + renewals
    assert max(peaks.values()) < 6_000_000, "5,000 events are 2 MB, all of them 14"
    assert indexed(catalog)["ds=7"] == {"one": 1, "20000": 1, "40000": 1}


@contextmanager
def statements(catalog: Catalog) -> Iterator[list[str]]:
    """The statements that the index is sent."""
    sent: list[str] = []
    engine = catalog.index._database.engine

    def note(*given: object) -> None:
        sent.append(str(given[2]))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


@pytest.mark.parametrize("dies", [True, False])
def test_a_log_that_cannot_be_read_is_made_up_for_by_a_comparison(
    catalog: Catalog, server: LoggingMetastore, three: Path, tmp_path: Path, dies: bool
) -> None:
    """Release 2.3 reads the rest of its log for each call, and dies where that is more than it can hold."""
    catalog.follower.close()
    write(three, "ds=a/two", "ds=e/one")
    add(server, three, "e")
    server.drop_partitions("s", "t", ["ds=b"])
    for _ in range(200):
        server.insert("s", "t", "ds=a")
    server.holds, server.dies = 100, dies
    before = catalog.index.followed.load()
    for attempt in (1, 2):
        # Each is a process of its own.
        with open_catalog(tmp_path) as other, pytest.raises(MetastoreUnavailableError):
            other.follower.look()
        after = catalog.index.followed.load()
        assert (after.event_id, after.unread) == (before.event_id, attempt)
        server.down = False
    server.insert("s", "t", "ds=c")
    asked = server.calls["events_after"]
    outcome = catalog.follower.look()
    assert outcome.gap is not None
    assert f"the events from {(before.event_id or 0) + 1} to {server.newest} could not be read, 2 times" in outcome.gap
    assert "reading the notification log broke off" in outcome.gap
    assert server.calls["events_after"] - asked == 1, "the events are not read a third time"
    assert counts(outcome.tables[0]) == (1, 0, 1)
    assert "ds=b: the metastore does not have it" in outcome.tables[0].skipped[0]
    state = catalog.index.followed.load()
    assert (state.event_id, state.unread, state.error) == (server.newest, 0, None)
    write(three, "ds=c/two")
    server.insert("s", "t", "ds=c")
    assert counts(followed(catalog)) == (0, 0, 1), "and the log is read on"
    assert catalog.follower.look().is_idle


def test_a_server_that_was_away_once_is_read_on(catalog: Catalog, server: LoggingMetastore, three: Path) -> None:
    for _ in range(200):
        server.insert("s", "t", "ds=a")
    server.holds = 100
    with pytest.raises(MetastoreUnavailableError):
        catalog.follower.look()
    server.down, server.holds = False, None
    outcome = catalog.follower.look()
    assert (outcome.events, outcome.gap) == (200, None)
    assert catalog.index.followed.load().unread == 0


def test_a_server_that_answers_slowly_is_asked_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the rest of its log for each call: few calls are wanted, if what they bring is not too large."""
    server = LoggingMetastore()
    for _ in range(5000):
        server.insert("s", "t", "ds=a")
    monkeypatch.setattr("catalog_ext.hms_events.log._SLOW_S", -1.0)
    assert len(read_batch(server, 0, 5000).events) == 5000
    assert server.calls["events_after"] == 2
    server.log = [replace(event, message_size=40_000) for event in server.log]
    assert len(read_batch(server, 0, 5000).events) == 5000
    assert server.calls["events_after"] == 2 + 7, "nearly as of a server that is not slow"


def _regrown(server: LoggingMetastore, count: int) -> None:
    """Have the server lose its log, and get so many other events."""
    server.log.clear()
    server.newest = 0
    for _ in range(count):
        server.insert("s", "other", "ds=x")


@pytest.mark.parametrize("more", [0, 3])
def test_a_log_that_was_lost_and_has_grown_again(
    catalog: Catalog, server: LoggingMetastore, three: Path, tmp_path: Path, more: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has events with the numbers of those that are known: what they are decides."""
    monkeypatch.setattr(follow_run, "KEEPALIVE_MS", -1)
    cursor = catalog.index.followed.load().event_id or 0
    catalog.follower.close()
    write(three, "ds=a/two")
    del server._partitions["s", "t"]["d",]
    _regrown(server, cursor + more)
    with open_catalog(tmp_path) as other:
        outcome = other.follower.look()
        assert (outcome.gap or "").startswith(f"the log has been lost: its event {cursor} is ")
        assert counts(outcome.tables[0]) == (0, 0, 1)
        assert "ds=d" in indexed(other), "a database that was set back has dropped nothing"
        assert other.index.followed.load().event_id == server.newest
        assert other.follower.look().is_idle
        write(three, "ds=b/two")
        server.insert("s", "t", "ds=b")
        assert counts(other.follower.look().tables[0]) == (0, 0, 1), "and it is read on"


def test_a_log_that_is_the_same_is_asked_for_no_call_more(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    asked = server.calls["events_after"]
    server.insert("s", "t", "ds=a")
    assert catalog.follower.look().events == 1
    assert catalog.follower.look().is_idle
    assert server.calls["events_after"] - asked == 1


def test_an_event_that_has_expired_says_nothing_of_the_log(
    catalog: Catalog, server: LoggingMetastore, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow_run, "KEEPALIVE_MS", -1)
    server.log.clear()
    assert catalog.follower.look().gap is None
    server.insert("s", "t", "ds=a")
    outcome = catalog.follower.look()
    assert (outcome.events, outcome.gap) == (1, None)


def test_a_number_that_another_server_gave_later_is_no_other_log(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    server.log.insert(len(server.log) - 1, replace(server.log[-1], table="u"))
    server.insert("s", "t", "ds=a")
    assert catalog.follower.look().gap is None


def test_suspects_of_a_table_are_bounded_and_keep_drops() -> None:
    suspect = SuspectTable("s", "t")
    for number in range(MOST_PARTITIONS):
        suspect.partitions[f"k={number}"] = SuspectPartition(dropped=number == 7)
    suspect.add(SuspectTable("s", "t", partitions={"k=x": SuspectPartition()}))
    assert suspect.whole
    assert suspect.partitions == {"k=7": SuspectPartition(dropped=True)}


def test_suspects_outlive_their_process() -> None:
    suspect = SuspectTable(
        "s", "t", definition=True, created=True, dropped=True, whole=True, parameters={"a"}, renamed_to=("s", "u"),
        partitions={"k=1": SuspectPartition(True, frozenset({Statistics("1", "2", "3")})), "k=2": SuspectPartition()},
    )  # fmt: skip
    assert SuspectTable.from_json("s.t", suspect.to_json()) == suspect
    vague = SuspectTable("s", "t", parameters=None)
    assert SuspectTable.from_json("s.t", vague.to_json()) == vague


def test_a_whole_table_is_compared_with_its_places_and_sizes(
    catalog: Catalog, server: LoggingMetastore, three: Path
) -> None:
    """Where an event does not say which partitions it is about."""
    write(three, "ds=a/two")
    sizes = {"numFiles": "1", "totalSize": "1"}
    server._partitions["s", "t"] = {
        values: HivePartition(values, p.location, sizes) for values, p in server._partitions["s", "t"].items()
    }
    server._partitions["s", "t"]["a",] = replace(
        server._partitions["s", "t"]["a",], parameters={"numFiles": "2", "totalSize": "2"}
    )
    server.emit("ALTER_PARTITION", "s", "t", None)
    outcome = followed(catalog)
    assert (outcome.checked, counts(outcome)) == (1, (0, 0, 1))


def test_the_log_is_read_on_when_the_metastore_gets_its_identity(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    """With our first change; before, it is known by its address."""
    before = catalog.index.followed.load().metastore_id
    catalog.alterations.alter("s.t", [], set_={"mine": "1"})
    assert catalog.deliver().pending == 0
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    outcome = catalog.follower.look()
    assert outcome.events > 0
    assert counts(outcome.tables[-1]) == (0, 0, 1)
    assert catalog.index.followed.load().metastore_id != before
