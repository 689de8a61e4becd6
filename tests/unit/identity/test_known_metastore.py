"""A metastore that is not the index's own gets no message: its id is read before anything else."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.conf.resolved import Settings
from catalog_ext.identity.adoption import take_on
from catalog_ext.identity.known_metastore import KnownMetastore
from catalog_ext.identity.record import METASTORE_ID
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import MetastoreRefusedError, MetastoreReplacedError, MetastoreUnavailableError
from catalog_ext.metastore.hive import identity
from catalog_ext.metastore.hive.identity import ID_PARAMETER, PROPOSED_PARAMETER, give_id, metastore_id
from catalog_ext.metastore.hive.mapping.model import HiveDatabase
from catalog_ext.metastore.hive.thrift.connect import MetastoreClient, Server
from catalog_ext.metastore.hive.thrift.uris import Address
from catalog_ext.metastore.transactions.reports import VacuumAction
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.kit.index_cases import empty_index, local_index
from tests.kit.repair_cases import local_catalog
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import managed

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog

URI = "thrift://fake:9083"
CHANGES = ("create", "alter", "drop", "rename", "add")


def metastore() -> FakeMetastore:
    made = FakeMetastore()
    made.create_database(HiveDatabase("default", "file:///hive", None, {"a": "1"}))
    made.calls.clear()
    return made


def changes(fake: FakeMetastore) -> list[str]:
    return [method for method in fake.calls if method.startswith(CHANGES)]


class AtAnAddress:
    """Who answers there, at the moment of the next connection."""

    def __init__(self) -> None:
        self.own = self.now = metastore()


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> AtAnAddress:
    monkeypatch.setattr(identity, "CONFIRM_AFTER_S", 0.01)
    place = AtAnAddress()
    monkeypatch.setattr(Settings, "connect_metastore", serving(lambda _: place.now))
    return place


def opened(tmp_path: Path) -> Catalog:
    return local_catalog(tmp_path, metastore=URI)


def test_another_metastore_at_the_address_gets_nothing(there: AtAnAddress, tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        managed(catalog)
        insert(catalog, "k=1")
    own = (there.own.list_tables("s"), list(there.own.partition_names("s", "t")))
    there.now = metastore()
    with opened(tmp_path) as catalog:
        there.now.calls.clear()
        insert(catalog, "k=2")
        catalog.create_namespace("more")
        catalog.drop_table("s.t")
        report = catalog.deliver()
        assert report.delivered == 0
        assert report.pending == 2, "the drop takes the place of what the table had"
        assert report.error is not None
        assert "is not the one that it was" in report.error
        for remedy in (" adopt", "publish --all"):
            assert remedy in report.error
        assert report.error in {entry.error for entry in catalog.outbox()}
    assert changes(there.now) == []
    assert set(there.now.calls) == {"get_database"}
    there.now = there.own
    assert (there.own.list_tables("s"), list(there.own.partition_names("s", "t"))) == own
    with opened(tmp_path) as catalog:
        catalog.outbox("retry")
        assert catalog.deliver().pending == 0
    assert there.own.list_tables("s") == []
    assert there.own.list_databases() == ["default", "more", "s"]


def test_who_takes_it_on_has_it_filled(there: AtAnAddress, tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        managed(catalog)
        insert(catalog, "k=1")
    there.now = metastore()
    with opened(tmp_path) as catalog:
        insert(catalog, "k=2")
        with pytest.raises(MetastoreReplacedError, match="adopt"):
            list(catalog.publish())
        assert changes(there.now) == []
        take_on(catalog.index, Settings.resolve(index=str(tmp_path / "index.db"), metastore=URI))
        # Who has the index open goes on with what was taken on.
        assert [entry.pending for entry in catalog.publish()] == [0]
        assert catalog.index.properties.load()[METASTORE_ID] == metastore_id(there.now)
    assert sorted(there.now.partition_names("s", "t")) == ["k=1", "k=2"]
    assert list(there.own.partition_names("s", "t")) == ["k=1"]


def test_it_is_asked_once_a_process(there: AtAnAddress, tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        managed(catalog)
    for number in range(2):
        there.own.calls.clear()
        with opened(tmp_path) as catalog:
            insert(catalog, f"k={number}", "k=7")
            insert(catalog, "k=8")
            assert catalog.deliver().pending == 0
        assert there.own.calls["get_database"] == 1


def test_one_that_is_down_is_down(there: AtAnAddress, tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        managed(catalog)
    there.own.down = True
    with opened(tmp_path) as catalog:
        insert(catalog, "k=1")
        error = catalog.deliver().error
        assert error is not None
        assert "no connection" in error
        there.own.down = False
        catalog.outbox("retry")
        assert catalog.deliver().pending == 0
    assert list(there.own.partition_names("s", "t")) == ["k=1"]


def test_one_that_does_not_say_who_it_is_is_waited_for(
    there: AtAnAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as catalog:
        managed(catalog)
    with opened(tmp_path) as catalog:
        with monkeypatch.context() as refusing:
            refusing.setattr(there.own, "get_database", _refuse)
            for _ in range(10):
                catalog.outbox("retry")
                insert(catalog, "k=1")
        assert {entry.state for entry in catalog.outbox()} == {"failed", "pending"}, "none is set aside"
        assert "does not say whether it is the one" in str(catalog.outbox()[0].error)
        catalog.outbox("retry")
        assert catalog.deliver().pending == 0


def _refuse(_: str) -> HiveDatabase:
    raise MetastoreRefusedError("Permission denied: database default.")


def test_vacuum_and_import_do_not_believe_another_one(there: AtAnAddress, tmp_path: Path) -> None:
    with opened(tmp_path) as catalog:
        managed(catalog)
        insert(catalog, "k=1")
        there.own.down = True
        insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
        (delivery,) = catalog.index.outbox.pending(limit=5)
        assert catalog.index.outbox.skip(delivery.outbox_id)
    there.own.down = False
    there.now = metastore()
    with opened(tmp_path) as catalog:
        entries = catalog.vacuum("s.t", retention=0, allow_short_retention=True).entries
        assert [entry.action for entry in entries] == [VacuumAction.FAILED]
        assert "is not the one that it was" in entries[0].reason
        with pytest.raises(MetastoreReplacedError):
            catalog.import_table("s.foreign")


def test_first_metastore_is_never_refused(there: AtAnAddress, tmp_path: Path) -> None:
    """A metastore that keeps no id is known by its address, one that was only read gets none."""
    there.own = there.now = FakeMetastore()
    with opened(tmp_path) as catalog:
        managed(catalog)
        assert METASTORE_ID not in catalog.index.properties.load()
    there.now = metastore()
    with opened(tmp_path) as catalog:
        assert catalog.metastore.client().list_tables("s") == []
        assert changes(there.now) == []
        catalog.create_namespace("more")
        assert catalog.index.properties.load()[METASTORE_ID] == metastore_id(there.now)


class Losing(FakeMetastore):
    """One of several servers, whose lost connections are reported."""

    def __init__(self, known: KnownMetastore) -> None:
        super().__init__()
        self._known = known

    def _reachable(self, method: str) -> None:
        if self.down:
            self._known.lost()
        super()._reachable(method)


def test_a_server_that_takes_over_is_asked_in_the_middle_of_a_call(tmp_path: Path) -> None:
    with local_index(tmp_path) as index:
        index.properties.add_missing({METASTORE_ID: "own"})
        known = KnownMetastore(index)
        servers = [Losing(known), Losing(known), Losing(known)]
        for server, name in zip(servers, ("own", "another", "own"), strict=True):
            server.create_database(HiveDatabase("default", "file:///hive", None, {ID_PARAMETER: name}))
        members = [Server(Address(f"s{i}"), server) for i, server in enumerate(servers)]
        client = MetastoreClient(members, known, sleep=lambda _: None)
        client.create_database(HiveDatabase("a"))
        asked = servers[0].calls["get_database"]
        client.create_database(HiveDatabase("b"))
        assert servers[0].calls["get_database"] == asked == 1
        servers[0].down = True
        client.create_database(HiveDatabase("c"))
        assert servers[1].list_databases() == ["default"], "it belongs to another index"
        assert servers[2].list_databases() == ["c", "default"]
        servers[2].down = True
        with pytest.raises(MetastoreUnavailableError, match="is not the one that it was"):
            client.create_database(HiveDatabase("d"))
        assert servers[1].list_databases() == ["default"]


def test_create_is_tried_again_after_its_identity_check_broke_off(tmp_path: Path) -> None:
    """The server got the question for its id alone, so that nothing can be carried out twice."""
    fake = metastore()
    fake.alter_database(replace(fake.get_database("default"), parameters={ID_PARAMETER: "own"}))
    fake.breaks_off = True

    def recover(_: float) -> None:
        fake.breaks_off = False

    with local_index(tmp_path) as index:
        index.properties.add_missing({METASTORE_ID: "own"})
        client = MetastoreClient([Server(Address("s"), fake)], KnownMetastore(index), sleep=recover)
        client.create_database(HiveDatabase("a"))
    assert fake.calls["create_database"] == 1


class Racing(FakeMetastore):
    """One whose first readers all find what was there before any of them has written."""

    def __init__(self, readers: int) -> None:
        super().__init__()
        self._barrier = threading.Barrier(readers)
        self._left = [True] * readers

    def get_database(self, name: str) -> HiveDatabase:
        found = super().get_database(name)
        if name == "default" and self._left:
            self._left.pop()
            self._barrier.wait(10)
        return found


@pytest.mark.parametrize("readers", [2, 5])
def test_those_who_meet_a_new_metastore_at_the_same_time_agree(readers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "CONFIRM_AFTER_S", 0.2)
    fake = Racing(readers)
    fake.create_database(HiveDatabase("default", "file:///hive", None, {"a": "1"}))
    with ThreadPoolExecutor(readers) as threads:
        found = list(threads.map(lambda _: give_id(fake), range(readers)))
    kept = metastore_id(fake)
    assert kept
    assert set(found) == {kept}
    parameters = fake.get_database("default").parameters
    assert parameters == {"a": "1", ID_PARAMETER: kept}


class Deadlocked(Racing):
    """One whose database lets proposals wait for each other, and takes the one that it gave up later on."""

    def __init__(self, readers: int) -> None:
        super().__init__(readers)
        self._waits = [0.5, 0.3]

    def alter_database(self, database: HiveDatabase) -> None:
        if database.name == "default" and self._waits:
            time.sleep(self._waits.pop())
        super().alter_database(database)


@pytest.mark.slow
def test_a_proposal_that_comes_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "CONFIRM_AFTER_S", 0.05)
    fake = Deadlocked(2)
    fake.create_database(HiveDatabase("default", "file:///hive"))
    with ThreadPoolExecutor(2) as threads:
        assert set(threads.map(lambda _: give_id(fake), range(2))) == {metastore_id(fake)}


def test_a_proposal_whose_maker_died_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "CONFIRM_AFTER_S", 0.0)
    fake = metastore()
    fake.alter_database(replace(fake.get_database("default"), parameters={PROPOSED_PARAMETER: "x" * 32}))
    assert give_id(fake) == "x" * 32 == metastore_id(fake)
    before = fake.calls["alter_database"]
    assert give_id(fake) == "x" * 32
    assert fake.calls["alter_database"] == before


@pytest.mark.slow
def test_two_indexes_that_meet_it_at_the_same_time_both_deliver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "CONFIRM_AFTER_S", 0.2)
    fake = Racing(2)
    fake.create_database(HiveDatabase("default", "file:///hive"))
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: fake))

    for name in ("a", "b"):
        (tmp_path / f"{name}.db").write_bytes(empty_index())

    def first(name: str) -> None:
        with catalog_ext.connect(index=str(tmp_path / f"{name}.db"), warehouse=str(tmp_path), metastore=URI) as one:
            one.create_namespace(name)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(first, ("a", "b")))
    for name in ("a", "b"):
        with catalog_ext.connect(index=str(tmp_path / f"{name}.db")) as one:
            one.create_namespace(f"{name}2")
            assert one.deliver().pending == 0
    assert fake.list_databases() == ["a", "a2", "b", "b2", "default"]
