"""One lock of Hive's: waited for, kept alive, given up, on a metastore in memory."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import (
    HiveLockLostError,
    HiveLocksRefusedError,
    HiveLockTimeoutError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.hive import locks
from catalog_ext.metastore.hive.locks import HiveLock
from catalog_ext.metastore.hive.mapping.model import LockComponent, LockType
from catalog_ext.metastore.hive.thrift.connect import MetastoreClient, Server
from catalog_ext.metastore.hive.thrift.uris import Address
from tests.kit.fakes_metastore import FakeMetastore

if TYPE_CHECKING:
    from collections.abc import Callable

PART = LockComponent("s", "t", "k=1", LockType.EXCLUSIVE)
READ = LockComponent("s", "t", "k=1", LockType.SHARED_READ)


class Clock:
    """Time that only passes while a caller waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.at: dict[float, Callable[[], None]] = {}

    def pause(self, seconds: float) -> None:
        self.now += seconds
        for due in [at for at in self.at if at <= self.now]:
            self.at.pop(due)()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> FakeMetastore:
    return FakeMetastore()


def hive_has(server: FakeMetastore, component: LockComponent = PART) -> int:
    return server.lock([component], "hive", "node7", "hive_20250101_q1")[0]


def lock(server: FakeMetastore, clock: Clock, wait_s: float = 60, component: LockComponent = PART) -> HiveLock:
    return HiveLock(server, [component], "catalog-ext INSERT 1", wait_s, pause=clock.pause, clock=clock)


def test_a_free_lock_takes_a_request_and_a_release(server: FakeMetastore) -> None:
    held = lock(server, Clock())
    held.acquire()
    held.confirm()
    (request,) = server.locks.requests.values()
    assert request.components == (PART,)
    assert request.agent.startswith("catalog-ext INSERT 1 ")
    held.release()
    assert server.locks.requests == {}
    assert server.calls == {"lock": 1, "config_value": 1, "heartbeat_lock": 1, "unlock": 1}


def test_it_waits_for_hive(server: FakeMetastore) -> None:
    number, clock = hive_has(server), Clock()
    clock.at[7.0] = lambda: server.unlock(number)
    held = lock(server, clock)
    held.acquire()
    assert 7 <= clock.now < 10
    assert server.calls["check_lock"] < 12, "the pauses grow"
    held.release()


def test_it_waits_on_while_a_metastore_starts_again(server: FakeMetastore) -> None:
    """The request is in its database: given up here, it would keep all others waiting until its time is over."""
    number = hive_has(server)
    clock = Clock()

    def stop() -> None:
        server.down = True

    def start() -> None:
        server.down = False
        server.unlock(number)

    clock.at |= {1.0: stop, 30.0: start}
    held = lock(server, clock)
    held.acquire()
    held.confirm()
    held.release()
    assert server.locks.requests == {}


def test_a_metastore_that_stays_away_is_not_waited_for_as_long_as_a_lock(server: FakeMetastore) -> None:
    hive_has(server)
    clock = Clock()

    def stop() -> None:
        server.down = True

    clock.at[1.0] = stop
    with pytest.raises(MetastoreUnavailableError):
        lock(server, clock, wait_s=3600).acquire()
    assert clock.now < 100


def test_readers_wait_for_no_reader(server: FakeMetastore) -> None:
    hive_has(server, READ)
    held = lock(server, Clock(), component=READ)
    held.acquire()
    assert server.calls["check_lock"] == 0
    held.release()


def test_who_does_not_get_it_hears_who_has_it(server: FakeMetastore) -> None:
    number = hive_has(server)
    with pytest.raises(HiveLockTimeoutError) as caught:
        lock(server, Clock(), wait_s=3).acquire()
    message = caught.value.message
    assert "s.t/k=1 (EXCLUSIVE)" in message
    assert f"EXCLUSIVE of s.t/k=1 by hive@node7 (hive_20250101_q1, lock {number})" in message
    assert "hive-locks.wait" in message
    assert caught.value.retryable
    assert caught.value.parameters["partition"] == "k=1"
    assert list(server.locks.requests) == [number], "the request does not go on waiting"


def test_holder_is_unknown_if_no_server_answers(server: FakeMetastore) -> None:
    hive_has(server)
    clock = Clock()

    def refuse(database: str, table: str) -> list[object]:
        raise MetastoreUnavailableError("away")

    server.show_locks = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(HiveLockTimeoutError, match=r"an unknown holder \(away\)"):
        lock(server, clock, wait_s=0).acquire()


def test_a_server_without_tables_of_locks_is_an_error(server: FakeMetastore) -> None:
    server.locks.refuses = True
    with pytest.raises(HiveLocksRefusedError, match=r"NEXT_LOCK_ID.*schematool.*'hive-locks' = 'none'"):
        lock(server, Clock()).acquire()


def break_off_until_locks_are_shown(server: FakeMetastore) -> None:
    """Answers are lost until the client looks for what its request has got."""
    server.breaks_off = True
    show = server.show_locks

    def show_again(database: str, table: str) -> list[object]:
        server.breaks_off = False
        return show(database, table)  # type: ignore[return-value]

    server.show_locks = show_again  # type: ignore[method-assign, assignment]


def test_a_request_whose_answer_is_lost_holds_nothing(server: FakeMetastore) -> None:
    break_off_until_locks_are_shown(server)
    with pytest.raises(MetastoreUnavailableError):
        lock(server, Clock()).acquire()
    assert len(server.locks.history) == 1
    assert server.locks.requests == {}


def test_a_lost_answer_releases_the_locks_of_its_own_request_only(server: FakeMetastore) -> None:
    """The owner of a transaction and the process that recovers it ask for the same lock."""
    other = replace(PART, partition="k=2")
    owner = HiveLock(server, [PART, other], "catalog-ext INSERT 1", 60, pause=Clock().pause)
    owner.acquire()
    break_off_until_locks_are_shown(server)
    with pytest.raises(MetastoreUnavailableError):
        HiveLock(server, [PART, other], "catalog-ext INSERT 1", 60, pause=Clock().pause).acquire()
    assert len(server.locks.history) == 2
    owner.confirm()
    owner.release()
    assert server.locks.requests == {}


def test_a_request_that_the_server_forgets_while_it_waits_is_lost(server: FakeMetastore) -> None:
    hive_has(server)
    clock = Clock()
    clock.at[1.0] = server.locks.end_all
    with pytest.raises(HiveLockLostError):
        lock(server, clock).acquire()


def test_a_lock_that_the_server_has_ended_is_noticed(server: FakeMetastore) -> None:
    held = lock(server, Clock())
    held.acquire()
    server.locks.end_all()
    with pytest.raises(HiveLockLostError, match=r"s\.t/k=1.*the metastore has ended it.*run the statement again"):
        held.confirm()
    held.release()
    assert server.calls["unlock"] == 0


def test_a_server_that_is_away_keeps_a_lock_for_its_time(server: FakeMetastore) -> None:
    clock = Clock()
    held = lock(server, clock)
    held.acquire()
    server.down = True
    clock.now = 200
    held.confirm()
    clock.now = 241  # of 300: how exactly the server counts them is unknown
    with pytest.raises(HiveLockLostError, match="has not answered for as long as it keeps one"):
        held.confirm()
    held.release()


def test_a_thread_gives_signs_of_life(server: FakeMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    server.locks.timeout = "40ms"
    beats = threading.Event()
    heartbeat = server.heartbeat_lock

    def beat(number: int) -> None:
        heartbeat(number)
        if server.calls["heartbeat_lock"] == 1:
            raise OSError("whatever it is, the next one is given")
        if server.calls["heartbeat_lock"] >= 3:
            beats.set()

    monkeypatch.setattr(server, "heartbeat_lock", beat)
    held = lock(server, Clock())
    held.acquire()
    assert beats.wait(20)
    held.release()
    count = server.calls["heartbeat_lock"]
    assert not held._thread.is_alive()
    assert server.calls["heartbeat_lock"] == count


def test_a_lock_that_cannot_be_given_up_is_left_to_its_time(
    server: FakeMetastore, caplog: pytest.LogCaptureFixture
) -> None:
    held = lock(server, Clock())
    held.acquire()
    server.down = True
    held.release()
    assert "held until its time is over" in caplog.text


def test_the_end_of_a_write_waits_for_no_keepalive(
    server: FakeMetastore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "LONGEST_JOIN_S", 0.01)
    server.locks.timeout = "40ms"
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    heartbeat = server.heartbeat_lock

    def beat(number: int) -> None:
        began.set()
        may_end.wait(20)
        ended.set()
        heartbeat(number)

    monkeypatch.setattr(server, "heartbeat_lock", beat)
    held = lock(server, Clock())
    held.acquire()
    assert began.wait(20)
    held.release()
    assert not ended.is_set()
    assert server.locks.requests == {}
    may_end.set()
    held._thread.join(20)
    assert caplog.text == "", "what is given up may be gone"


def test_a_lock_is_given_up_once(server: FakeMetastore) -> None:
    pauses: list[float] = []
    held = HiveLock(
        MetastoreClient([Server(Address("one"), server)], sleep=pauses.append), [PART], "catalog-ext INSERT 1", 60
    )
    held.acquire()
    server.down = True
    held.release()
    assert (server.calls["unlock"], pauses) == (1, [])


def test_components_are_asked_for_in_one_order(server: FakeMetastore) -> None:
    other = LockComponent("s", "a", "k=9", LockType.EXCLUSIVE)
    held = HiveLock(server, [PART, other], "x", 1)
    held.acquire()
    assert server.locks.history[0].components == (other, PART)
    held.release()
