"""An error, a death and a recoverer at every step of every partition command: the old state or the new one is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import MOVE_POINTS, armed
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CommitStateUnknownError, StorageAccessDeniedError
from tests.faults.commands import COMMANDS, MOVING, OTHER, attempt, check, prepare
from tests.faults.test_steps import COMMITTED, DECIDED, OF_WRITING, forget, recover
from tests.kit.index_cases import local_index
from tests.kit.write_cases import TABLE, Stand
from tests.kit.writes import Crash

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with local_index(tmp_path) as index:
        yield Stand(index)


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("add", "storage"), ("drop", "error"), ("rename", "unavailable"), ("set location", "error"),
        ("exchange", "storage"), ("rollback", "unavailable"), ("rollback", "error"),
    ],
)  # fmt: skip
def test_an_error_at_every_step(stand: Stand, tmp_path: Path, name: str, action: str) -> None:
    command = COMMANDS[name]
    for number, point in enumerate(OF_WRITING):
        case = Stand(stand.index, stand.storage)
        prepare(case, tmp_path / f"{number}", name)
        with armed(point, action):
            reported = attempt(case, command)
        if point in COMMITTED:
            assert reported == "success", point
        recover(case)
        check(case, command, reported, point=point)
        forget(case)


@pytest.mark.parametrize("name", ["drop", "rollback", *MOVING])
def test_a_death_at_every_step(stand: Stand, tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]

    def die(_: str) -> None:
        raise Crash

    for number, point in enumerate((*OF_WRITING, *(MOVE_POINTS if name in MOVING else ()))):
        case = Stand(stand.index, stand.storage)
        prepare(case, tmp_path / f"{number}", name)
        reported = "success"
        with armed(point, die):
            try:
                command.run(case)
            except (Crash, CommitStateUnknownError):
                reported = "unknown"
        recover(case)
        check(case, command, reported, point=point)
        forget(case)


@pytest.mark.parametrize("name", ["rollback", *MOVING])
def test_a_recoverer_at_every_step_of_a_slow_owner(stand: Stand, tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]
    for number, point in enumerate((*OF_WRITING, *MOVE_POINTS)):
        case = Stand(stand.index, stand.storage)
        prepare(case, tmp_path / f"{number}", name)
        with armed(point, lambda _, case=case: recover(case)):
            reported = attempt(case, command)
        assert reported == ("failure" if point not in (*DECIDED, *MOVE_POINTS, "begin.before") else "success"), point
        recover(case)
        check(case, command, reported, point=point)
        forget(case)


@pytest.mark.parametrize("name", MOVING)
def test_a_store_that_refuses_a_move_brings_back_what_was_moved(stand: Stand, tmp_path: Path, name: str) -> None:
    prepare(stand, tmp_path / "t")

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    with armed("promote.after", refuse):
        assert attempt(stand, COMMANDS[name]) == "failure"
    check(stand, COMMANDS[name], "failure", point="promote.after")


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("point", ["undo.before", "undo.sources", *MOVE_POINTS, "undo.after"])
def test_an_undoing_that_dies_is_taken_up_again(stand: Stand, tmp_path: Path, name: str, point: str) -> None:
    prepare(stand, tmp_path / "t")

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    # Before the undoing, the promotion has reached the points of moves.
    with armed("promote.after", refuse), armed(point, "storage", nth=2 if point in MOVE_POINTS else 1):
        assert attempt(stand, COMMANDS[name]) == "failure"
    recover(stand)
    check(stand, COMMANDS[name], "failure", point=point)


@pytest.mark.parametrize("name", MOVING)
def test_a_table_that_is_dropped_before_the_commit_gets_its_files_back(stand: Stand, tmp_path: Path, name: str) -> None:
    prepare(stand, tmp_path / "t")
    before = sorted(str(p) for p in tmp_path.rglob("*.csv"))
    with armed("apply.before", lambda _: stand.index.tables.drop(TABLE, deliver=False) and None):
        assert attempt(stand, COMMANDS[name]) == "failure"
    assert sorted(str(p) for p in tmp_path.rglob("*.csv")) == before


def test_a_writer_of_the_source_sees_a_dead_exchange_through(stand: Stand, tmp_path: Path) -> None:
    prepare(stand, tmp_path / "t")
    with armed("promote.before", "error"):
        assert attempt(stand, COMMANDS["exchange"]) == "unknown"
    (dead,) = stand.index.transactions.all(states=(State.RESERVED,))
    assert stand.index.transactions.extend_lease(dead.transaction_id, 0)
    stand.write({"k=6": "7\n"}, table=stand.table(OTHER))
    assert stand.rows(OTHER) == {"k=6": "6\n7\n"}
    assert stand.rows() == COMMANDS["exchange"].after


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("point", ["check.before", "check.after"])
def test_command_succeeds_when_its_check_is_repeated(stand: Stand, tmp_path: Path, name: str, point: str) -> None:
    """The index is away for a moment after the check has recorded the files that are to be moved."""
    pauses: list[float] = []
    case = Stand(stand.index, stand.storage, {"unknown_timeout_s": 60.0, "pause": pauses.append})
    prepare(case, tmp_path / "t", name)
    with armed(point, "unavailable"):
        assert attempt(case, COMMANDS[name]) == "success"
    assert pauses == [0.1]
    check(case, COMMANDS[name], "success", point=point)
