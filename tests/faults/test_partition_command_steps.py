"""An error, a death and a recoverer at every step of every partition command: the old state or the new one is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from metastore.errors import CatalogExtError, CommitStateUnknownError, StorageAccessDeniedError
from metastore.identifiers import TableIdentifier
from metastore.index import Index
from metastore.transactions.faults import InjectedFault, armed
from metastore.transactions.model import State, WriteKind
from tests.faults.test_steps import COMMITTED, DECIDED, OF_WRITING, forget, recover
from tests.repair_cases import empty_index
from tests.write_cases import TABLE, Stand, definition
from tests.writes import Crash

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from metastore.transactions.model import WriteOutcome

OTHER = TableIdentifier("s", "o")
BEFORE = {"k=1": "1\n", "k=2": "2\n"}
THEIRS = {"k=5": "5\n", "k=6": "6\n"}
_IS_ONE = {"op": "=", "column": "k", "value": "1"}
Rows = Mapping[str, str]


@dataclass(frozen=True)
class Command:
    """A command on the table of ``BEFORE``; what becomes of it, and of the other one, which has ``THEIRS``."""

    run: Callable[[Stand], WriteOutcome]
    after: Rows
    theirs: Rows


def _add(stand: Stand) -> WriteOutcome:
    command = {"partitions": [["k=3", None], ["k=4", None]], "if_not_exists": False}
    return stand.engine.command(stand.table(), WriteKind.ADD_PARTITIONS, "ADD PARTITION", command)


def _drop(stand: Stand) -> WriteOutcome:
    command = {"deletes": "inside"}
    return stand.engine.command(stand.table(), WriteKind.DROP_PARTITIONS, "DROP PARTITION", command, _IS_ONE)


def _rename(stand: Stand) -> WriteOutcome:
    command = {"from": "k=1", "to": "k=3"}
    return stand.engine.command(stand.table(), WriteKind.RENAME_PARTITION, "RENAME PARTITION", command)


def _relocate(stand: Stand) -> WriteOutcome:
    command = {"name": "k=1", "location": f"{stand.table().definition.location}/k=1/sub"}
    return stand.engine.command(stand.table(), WriteKind.RELOCATE_PARTITION, "SET LOCATION", command)


def _exchange(stand: Stand) -> WriteOutcome:
    source = stand.table(OTHER)
    command = {"source_id": source.table_id, "source_version": source.version, "source": "s.o"}
    is_five = {"op": "=", "column": "k", "value": "5"}
    return stand.engine.command(stand.table(), WriteKind.EXCHANGE_PARTITIONS, "EXCHANGE PARTITION", command, is_five)


COMMANDS = {
    "add": Command(_add, {**BEFORE, "k=3": "", "k=4": ""}, THEIRS),
    "drop": Command(_drop, {"k=2": "2\n"}, THEIRS),
    "rename": Command(_rename, {"k=2": "2\n", "k=3": "1\n"}, THEIRS),
    "relocate": Command(_relocate, {**BEFORE, "k=1": ""}, THEIRS),
    "exchange": Command(_exchange, {**BEFORE, "k=5": "5\n"}, {"k=6": "6\n"}),
}
MOVING = ["rename", "exchange"]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    (tmp_path / "index.db").write_bytes(empty_index())
    with Index.open(str(tmp_path / "index.db")) as index:
        yield Stand(index)


def prepare(stand: Stand, location: Path) -> None:
    stand.create(definition(location))
    stand.create(definition(f"{location}-o", name="o"))
    stand.write(BEFORE)
    stand.write(THEIRS, table=stand.table(OTHER))


def attempt(stand: Stand, command: Command) -> str:
    try:
        command.run(stand)
    except CommitStateUnknownError:
        return "unknown"
    except (CatalogExtError, InjectedFault):
        return "failure"
    return "success"


def check(stand: Stand, command: Command, told: str, *, point: str) -> None:
    states = {t.state for t in stand.index.list_transactions()}
    assert states <= {State.FINISHED, State.ABORTED}, point
    found = stand.rows(), stand.rows(OTHER)
    old, new = (BEFORE, THEIRS), (command.after, command.theirs)
    assert found in ([new] if told == "success" else [old] if told == "failure" else [old, new]), point
    if command.run is not _relocate or found == old:
        assert (stand.listed(), stand.listed(OTHER)) == found, point
        assert (stand.strays(), stand.strays(OTHER)) == ([], []), point


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("add", "storage"), ("drop", "error"), ("rename", "unavailable"), ("relocate", "error"),
        ("exchange", "storage"),
    ],
)  # fmt: skip
def test_an_error_at_every_step(stand: Stand, tmp_path: Path, name: str, action: str) -> None:
    command = COMMANDS[name]
    for number, point in enumerate(OF_WRITING):
        case = Stand(stand.index, stand.storage)
        prepare(case, tmp_path / f"{number}")
        with armed(point, action):
            told = attempt(case, command)
        if point in COMMITTED:
            assert told == "success", point
        recover(case)
        check(case, command, told, point=point)
        forget(case)


@pytest.mark.parametrize("name", ["drop", *MOVING])
def test_a_death_at_every_step(stand: Stand, tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]

    def die(_: str) -> None:
        raise Crash

    for number, point in enumerate(OF_WRITING):
        case = Stand(stand.index, stand.storage)
        prepare(case, tmp_path / f"{number}")
        told = "success"
        with armed(point, die):
            try:
                command.run(case)
            except (Crash, CommitStateUnknownError):
                told = "unknown"
        recover(case)
        check(case, command, told, point=point)
        forget(case)


@pytest.mark.parametrize("name", MOVING)
def test_a_recoverer_at_every_step_of_a_slow_owner(stand: Stand, tmp_path: Path, name: str) -> None:
    command = COMMANDS[name]
    for number, point in enumerate(OF_WRITING):
        case = Stand(stand.index, stand.storage)
        prepare(case, tmp_path / f"{number}")
        with armed(point, lambda _, case=case: recover(case)):
            told = attempt(case, command)
        assert told == ("failure" if point not in (*DECIDED, "begin.before") else "success"), point
        recover(case)
        check(case, command, told, point=point)
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
@pytest.mark.parametrize("point", ["undo.before", "undo.sources", "undo.after"])
def test_an_undoing_that_dies_is_taken_up_again(stand: Stand, tmp_path: Path, name: str, point: str) -> None:
    prepare(stand, tmp_path / "t")

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    with armed("promote.after", refuse), armed(point, "storage"):
        assert attempt(stand, COMMANDS[name]) == "failure"
    recover(stand)
    check(stand, COMMANDS[name], "failure", point=point)


@pytest.mark.parametrize("name", MOVING)
def test_a_table_that_is_dropped_before_the_commit_gets_its_files_back(stand: Stand, tmp_path: Path, name: str) -> None:
    prepare(stand, tmp_path / "t")
    before = sorted(str(p) for p in tmp_path.rglob("*.csv"))
    with armed("commit.before", lambda _: stand.index.drop_table(TABLE, deliver=False) and None):
        assert attempt(stand, COMMANDS[name]) == "failure"
    assert sorted(str(p) for p in tmp_path.rglob("*.csv")) == before


def test_a_writer_of_the_source_sees_a_dead_exchange_through(stand: Stand, tmp_path: Path) -> None:
    prepare(stand, tmp_path / "t")
    with armed("promote.before", "error"):
        assert attempt(stand, COMMANDS["exchange"]) == "unknown"
    (dead,) = stand.index.list_transactions(states=(State.RESERVED,))
    assert stand.index.extend_lease(dead.transaction_id, 0)
    stand.write({"k=6": "7\n"}, table=stand.table(OTHER))
    assert stand.rows(OTHER) == {"k=6": "6\n7\n"}
    assert stand.rows() == COMMANDS["exchange"].after
