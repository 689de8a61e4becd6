"""A metastore that dies at any call of a look: another server goes on, or the same one when it is there again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.conf.resolved import Settings
from catalog_ext.hms_events.log import BATCH_EVENTS, read_batch
from catalog_ext.metastore.errors import IndexDatabaseError, MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.connect import MetastoreClient, Server
from catalog_ext.metastore.hive.thrift.uris import Address, unavailable
from tests.kit.repair_cases import indexed
from tests.unit.hms_events.test_bad_luck import ONE, _statements, _versions
from tests.unit.hms_events.test_bad_luck import _no_waiting as _no_waiting
from tests.unit.hms_events.test_bad_luck import three as three
from tests.unit.hms_events.test_following import catalog as catalog
from tests.unit.hms_events.test_following import open_catalog
from tests.unit.hms_events.test_following import root as root
from tests.unit.hms_events.test_following import server as server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore_log import LoggingMetastore

ADDRESSES = (Address("one.invalid"), Address("other.invalid"))


class Dying:
    """A server that is gone after so many calls: the next one gets no answer, and later ones are not accepted.

    Attributes:
        died: Whether it came to that.
    """

    def __init__(self, server: LoggingMetastore, calls: int) -> None:
        self._server = server
        self._left = calls
        self.died = False

    def close(self) -> None:
        """Nothing is held."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                sent, self.died = not self.died, True
                raise unavailable([ADDRESSES[0]], "the connection broke", request_sent=sent)
            return getattr(self._server, name)(*arguments, **named)

        return call


@pytest.mark.slow
@pytest.mark.parametrize("another", [True, False], ids=["failover", "restart"])
def test_nothing_is_lost_or_done_twice(
    another: bool, catalog: Catalog, server: LoggingMetastore, three: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    _statements(server, three)
    catalog.close()
    whole = (tmp_path / "index.db").read_bytes()
    versions: list[list[int]] = []
    step, died = 0, True
    while died:
        for name in ("index.db-wal", "index.db-shm"):
            (tmp_path / name).unlink(missing_ok=True)
        (tmp_path / "index.db").write_bytes(whole)
        dying = Dying(server, step)
        members = [Server(ADDRESSES[0], dying), Server(ADDRESSES[1], server)][: 2 if another else 1]

        def connected(_: Settings, __: str, guard: Any = None, *, members: list[Server] = members) -> MetastoreClient:
            return MetastoreClient(members, guard, sleep=lambda _: None)

        with monkeypatch.context() as patched:
            patched.setattr(Settings, "connect_metastore", connected)
            with open_catalog(tmp_path) as follower:
                if another:
                    follower.follower.look(databases=["s"])
                else:
                    _is_said(follower, dying)
        died = dying.died
        with open_catalog(tmp_path) as after:
            if not another:
                after.follower.look(databases=["s"])
            a = {"one": 1, "two": 1}
            assert indexed(after) == {"ds=a": a, "ds=d": ONE, "ds=e": ONE, "ds=f": ONE}, f"died at call {step}"
            assert indexed(after, "s.u") == {"ds=a": ONE}
            assert after.follower.look(databases=["s"]).is_idle
            assert after.index.followed.suspects() == []
            assert {e.state for e in after.status() if e.kind == "follower"} == {"in sync"}
            versions.append(_versions(after))
        step += 1
    assert step > 8
    assert {tuple(each) for each in versions} == {tuple(versions[-1])}, "no commit is made twice"


def _is_said(catalog: Catalog, dying: Dying) -> None:
    try:
        catalog.follower.look(databases=["s"])
    except MetastoreUnavailableError:
        assert dying.died
        (entry,) = [each for each in catalog.status() if each.kind == "follower"]
        assert entry.state == "failed"
        assert "the connection broke" in entry.detail


def test_an_index_that_does_not_answer(
    catalog: Catalog, server: LoggingMetastore, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _statements(server, three)
    before = catalog.index.followed.load().event_id

    def away(*_: object, **__: object) -> object:
        raise IndexDatabaseError("The index does not answer.")

    with monkeypatch.context() as patched:
        patched.setattr(type(catalog.index.commits), "apply_changes", away)
        with pytest.raises(IndexDatabaseError):
            catalog.follower.look(databases=["s"])
    assert catalog.index.followed.load().event_id == before
    catalog.follower.look(databases=["s"])
    assert indexed(catalog) == {"ds=a": {"one": 1, "two": 1}, "ds=d": ONE, "ds=e": ONE, "ds=f": ONE}


def test_what_one_server_dies_of_the_others_are_not_asked_for_at_once(server: LoggingMetastore) -> None:
    """Where much is left of the log; else another server goes on."""
    asked: list[int] = []

    class Counted:
        def __init__(self, number: int) -> None:
            self._number = number

        def events_after(self, event_id: int, most: int, *, once: bool = False) -> object:
            asked.append(self._number)
            raise unavailable([ADDRESSES[0]], "the connection broke", request_sent=True)

    members: Any = [Server(ADDRESSES[0], Counted(0)), Server(ADDRESSES[1], Counted(1))]
    client = MetastoreClient(members, sleep=lambda _: None)
    for behind, servers in ((BATCH_EVENTS + 1, [0]), (BATCH_EVENTS, [0, 1] * 3)):
        asked.clear()
        with pytest.raises(MetastoreUnavailableError):
            read_batch(client, 0, behind, sleep=lambda _: None)
        assert asked == servers
