"""What the index remembers of following, on each database: who follows, how far, and its suspect tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.tables.followed import KeptSuspect, Progress, Seen
from catalog_ext.metastore.runtime.processes import this_host

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ONE, OTHER = "one@host:1", "other@host:2"


@pytest.fixture(params=["sqlite", "postgres_url", "mariadb_url"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    url = f"sqlite:///{tmp_path}/index.db" if request.param == "sqlite" else request.getfixturevalue(request.param)
    with Index.open(url, migrate=True) as index:
        yield index


def test_one_follows_and_only_his_progress_is_kept(index: Index) -> None:
    followed = index.followed
    assert followed.load().holder is None
    assert followed.hold(ONE, 60_000)
    assert followed.hold(ONE, 60_000)
    assert not followed.hold(OTHER, 60_000)
    assert followed.advance(ONE, Progress("m", 7, 9, "log"))
    assert not followed.advance(OTHER, Progress("m", 8, 9, "log"))
    followed.note_failure(OTHER, "not mine")
    state = followed.load()
    assert (state.metastore_id, state.event_id, state.newest_id, state.error) == ("m", 7, 9, None)
    assert state.compared_at_ms is None
    assert 0 < state.held_for_ms <= 60_000
    followed.release(OTHER)
    assert not followed.hold(OTHER, 60_000)
    followed.release(ONE)
    assert followed.hold(OTHER, 60_000)
    followed.note_failure(OTHER, "the metastore is away\x00")
    assert followed.load().error == "the metastore is away\\x00"
    assert followed.advance(OTHER, Progress("m", 9, 9, "log", compared=True))
    assert followed.load().error is None
    assert followed.load().compared_at_ms is not None


def test_what_is_known_of_the_log(index: Index) -> None:
    followed = index.followed
    assert followed.hold(ONE, 60_000)
    assert (followed.load().mark, followed.load().unread) == (None, 0)
    assert followed.advance(ONE, Progress("m", 7, 9, "log", mark="ä"))
    followed.note_failure(ONE, "broke off", (7, 1))
    followed.note_failure(OTHER, "not mine", (7, 5))
    followed.note_failure(ONE, "away")
    state = followed.load()
    assert (state.event_id, state.mark, state.unread, state.error) == (7, "ä", 1, "away")
    assert followed.advance(ONE, Progress("m", 8, 9, "log"))
    assert (followed.load().mark, followed.load().unread) == (None, 0), "of another event they say nothing"


def test_a_lease_that_is_over_or_whose_process_is_gone_is_taken(index: Index) -> None:
    assert index.followed.hold(ONE, 0)
    assert index.followed.hold(OTHER, 60_000), "it was over at once"
    index.followed.release(OTHER)
    # No process has this number.
    assert index.followed.hold(f"dead@{this_host()}:2147483646", 60_000)
    assert index.followed.hold(ONE, 60_000)
    assert index.followed.hold(ONE, 24 * 3_600_000)
    assert index.followed.hold(OTHER, 60_000), "the database's clock was a day ahead"


def test_suspects_are_kept_until_they_are_settled(index: Index) -> None:
    followed = index.followed
    followed.hold(ONE, 60_000)
    left, refused = KeptSuspect("s.ä", '{"whole": true}', "away"), KeptSuspect("s.b", None, "ACID")
    followed.advance(ONE, Progress("m", 1, 1, "log", kept=[(left, 3_600_000), (refused, 0)]))
    first = {each.table: each for each in followed.suspects()}
    assert [(each.suspect, each.due) for each in first.values()] == [(None, False), ('{"whole": true}', False)]
    again = KeptSuspect("s.ä", '{"whole": false}', "still away", attempts=2)
    followed.advance(ONE, Progress("m", 1, 1, "log", settled=["s.b"], kept=[(again, 0)]))
    (kept,) = followed.suspects()
    assert (kept.suspect, kept.error, kept.attempts, kept.due) == ('{"whole": false}', "still away", 2, True)
    assert kept.since_ms == first["s.ä"].since_ms
    followed.advance(ONE, Progress("m", 1, 1, "log", settled=["s.ä", "s.never"]))
    assert followed.suspects() == []


def test_what_a_comparison_has_seen(index: Index) -> None:
    assert index.followed.seen(7) is None
    for seen in (Seen(3, frozenset({"k=ä"}), "{}"), Seen(4, None, '{"a": 1}')):
        index.followed.note_seen(7, seen)
        assert index.followed.seen(7) == seen
