"""Partition commands that things go wrong for: each with the state before it, itself, and the state after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import InjectedFault
from catalog_ext.metastore.commit.plan import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    NewPartition,
    RelocatePartition,
    RenamePartition,
)
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CatalogExtError, CommitStateUnknownError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.write_cases import Stand, definition

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.transaction import WriteOutcome

OTHER = TableIdentifier("s", "o")
BEFORE = {"k=1": "1\n", "k=2": "2\n"}
THEIRS = {"k=5": "5\n", "k=6": "6\n"}
_IS_ONE = Comparison(Operator.EQ, "k", "1")
Rows = Mapping[str, str]


@dataclass(frozen=True)
class Command:
    """A command on the table of ``BEFORE``; what becomes of it, and of the other one, which has ``THEIRS``."""

    run: Callable[[Stand], WriteOutcome]
    after: Rows
    theirs: Rows


def _add(stand: Stand) -> WriteOutcome:
    asked = AddPartitions((NewPartition("k=3"), NewPartition("k=4")))
    return stand.engine.command(stand.table(), asked, "ADD PARTITION")


def _drop(stand: Stand) -> WriteOutcome:
    asked = DropPartitions(_IS_ONE, DataDeletion.INSIDE)
    return stand.engine.command(stand.table(), asked, "DROP PARTITION")


def _rename(stand: Stand) -> WriteOutcome:
    return stand.engine.command(stand.table(), RenamePartition("k=1", "k=3"), "RENAME PARTITION")


def _relocate(stand: Stand) -> WriteOutcome:
    asked = RelocatePartition("k=1", f"{stand.table().definition.location}/k=1/sub")
    return stand.engine.command(stand.table(), asked, "SET LOCATION")


def _exchange(stand: Stand) -> WriteOutcome:
    source = stand.table(OTHER)
    asked = ExchangePartitions(source.table_id, "s.o", source.version, Comparison(Operator.EQ, "k", "5"))
    return stand.engine.command(stand.table(), asked, "EXCHANGE PARTITION")


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
