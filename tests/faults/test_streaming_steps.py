"""An epoch of a stream that fails or dies at every step, and the query that is started again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import POINTS, InjectedFault, armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError, CommitStateUnknownError, StorageAccessDeniedError
from tests.kit.streaming_cases import Stream, announced, hourly, unseen, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.streaming_cases import Calls
    from tests.kit.write_cases import Stand


@pytest.fixture
def made(tmp_path: Path) -> Iterator[tuple[Stand, Calls]]:
    with hourly(tmp_path) as there:
        yield there


@pytest.fixture
def stand(made: tuple[Stand, Calls]) -> Stand:
    return made[0]


@pytest.fixture
def calls(made: tuple[Stand, Calls]) -> Calls:
    return made[1]


class Killed(BaseException):
    """The process ends here, as far as it can in one."""


@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("undo")])
def test_a_query_that_is_started_again_does_not_wait_for_a_lease(stand: Stand, point: str) -> None:
    def die(_: str) -> None:
        raise Killed

    files = {"h=8": "a\n", "h=12": "b\n"}
    with armed(point, die), pytest.raises((Killed, CommitStateUnknownError)):
        Stream(stand).epoch(10, files)
    if not stand.begin(operation="STREAMING", app_id="query", app_version=0).duplicate:
        Stream(stand).epoch(10, files)
    assert stand.rows() == stand.listed() == {"h=8": "a\n"}
    Stream(stand, first=1).epoch(10, {"h=8": "c\n"})
    Stream(stand).end()
    assert stand.rows() == stand.listed() == {"h=8": "a\nc\n", "h=12": "b\n"}
    stand.engine.recover(older_than_s=0)
    assert unseen(stand) == []


@pytest.mark.parametrize("by_owner", [True, False])
@pytest.mark.parametrize(
    ("point", "nth"), [*((p, 1) for p in POINTS if p.startswith("undo")), ("undo.due", 2), ("undo.due", 3)]
)
def test_what_was_promoted_and_is_undone_waits_again(stand: Stand, point: str, nth: int, by_owner: bool) -> None:
    """A reader that lists directories sees no row that no version has, at whichever step the undoing dies."""
    stream = Stream(stand)
    stream.epoch(6, {"h=7": "a\n", "h=6": "b\n"})
    stream.epoch(6, {"h=7": "c\n"})
    before = unseen(stand)

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    def die(_: str) -> None:
        raise Killed

    with armed("promote.after", refuse), armed(point, die, nth), pytest.raises((Killed, StorageAccessDeniedError)):
        stream.epoch(8, {"h=8": "d\n", "h=7": "e\n"})
    if by_owner:
        # As a query that is started again does it, which waits for no lease.
        with armed("check.before", "storage"), contextlib.suppress(CatalogExtError):
            Stream(stand, first=2).epoch(8, {"h=8": "d\n"})
    stand.engine.recover(older_than_s=0)
    assert stand.rows() == stand.listed() == {}
    assert unseen(stand) == before
    assert waiting(stand) == ["h=6", "h=7"]
    assert stand.engine.waiting.discard(stand.table()).files == ()
    stand.write({"h=7": "new\n"}, WriteKind.OVERWRITE_PARTITIONS)
    assert stand.rows() == stand.listed() == {"h=7": "new\n"}
    again = Stream(stand, first=2)
    again.epoch(8, {"h=8": "d\n", "h=7": "e\n"})
    again.end()
    stand.engine.recover(older_than_s=0)
    assert stand.rows() == stand.listed() == {"h=6": "b\n", "h=7": "a\nc\ne\nnew\n", "h=8": "d\n"}
    assert unseen(stand) == []


@pytest.mark.parametrize("action", ["error", "unavailable"])
@pytest.mark.parametrize("point", [point for point in POINTS if not point.startswith("undo")])
def test_an_epoch_that_fails_anywhere_is_there_once_when_it_has_run_again(
    stand: Stand, calls: Calls, point: str, action: str
) -> None:
    stream = Stream(stand)
    stream.epoch(0, {"h=8": "a\n", "h=13": "b\n"})
    files = {"h=8": "c\n", "h=9": "d\n", "h=12": "e\n"}
    with armed(point, action), contextlib.suppress(InjectedFault, CatalogExtError):
        stream.epoch(10, files)
    assert stand.rows() in ({}, {"h=8": "a\nc\n", "h=9": "d\n"})
    # As a query that is started again does it.
    stand.engine.recover(older_than_s=0)
    if not stand.begin(operation="STREAMING", app_id="query", app_version=1).duplicate:
        stream = Stream(stand, first=1)
        stream.epoch(10, files)
    assert stand.rows() == stand.listed() == {"h=8": "a\nc\n", "h=9": "d\n"}
    assert waiting(stand) == ["h=12", "h=13"]
    assert set(announced(calls)) == {"8", "9"}
    stream.end()
    stand.engine.recover(older_than_s=0)
    assert stand.rows() == stand.listed() == {"h=8": "a\nc\n", "h=9": "d\n", "h=12": "e\n", "h=13": "b\n"}
    assert unseen(stand) == []
