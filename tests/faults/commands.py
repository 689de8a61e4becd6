"""Partition commands that things go wrong for: each with the state before it, itself, and the state after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import InjectedFault
from catalog_ext.metastore.commit.plan import State, WriteKind
from catalog_ext.metastore.errors import CatalogExtError, CommitStateUnknownError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from tests.write_cases import Stand, definition

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.plan import WriteOutcome

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


def prepare(stand: Stand, location: object) -> None:
    stand.create(definition(str(location)))
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
