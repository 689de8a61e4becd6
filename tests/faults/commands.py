"""Partition commands and LOAD DATA that things go wrong for: each with the state before it, and that after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import InjectedFault
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    NewPartition,
    RelocatePartition,
    RenamePartition,
    Rollback,
)
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError, CommitStateUnknownError, LocationNotFoundError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.taken_files import take_files
from tests.kit.write_cases import RELOCATE, Stand, definition

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.transaction import WriteOutcome

OTHER = TableIdentifier("s", "o")
BEFORE = {"k=1": "1\n", "k=2": "2\n"}
EARLIER = {"k=1": "0\n", "k=3": "3\n"}
"""The table's first version, if a rollback goes wrong."""
THEIRS = {"k=5": "5\n", "k=6": "6\n"}
INCOMING = {"000000_0": "8\n", "000001_0": "9\n"}
_IS_ONE = Comparison(Operator.EQ, "k", "1")
Rows = Mapping[str, str]


@dataclass(frozen=True)
class Command:
    """A command on the table of ``BEFORE``; what becomes of it, and of the other one, which has ``THEIRS``.

    Attributes:
        takes: Whether it takes the files of ``INCOMING``, which otherwise stay.
        leaves: Whether it leaves the files that it removes from the table to a vacuum.
    """

    run: Callable[[Stand], WriteOutcome]
    after: Rows
    theirs: Rows
    takes: bool = False
    leaves: bool = False


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


def _roll_back(stand: Stand) -> WriteOutcome:
    return stand.engine.command(stand.table(), Rollback(1), "ROLLBACK")


def _load(stand: Stand, partition: str, *, replaces: bool) -> WriteOutcome:
    place = Location.parse(f"{stand.table().definition.location}-in")
    files = [one for one in stand.storage.list_directory(place) if not one.location.name.startswith(".")]
    return take_files(stand.engine, stand.table(), partition, files, replaces=replaces)


def _loads(partition: str, after: Rows, *, replaces: bool) -> Command:
    return Command(partial(_load, partition=partition, replaces=replaces), after, THEIRS, takes=True)


def incoming(stand: Stand) -> Rows:
    """What lies where files are loaded from."""
    place = Location.parse(f"{stand.table().definition.location}-in")
    try:
        return {one.location.name: stand._read(str(one.location)) for one in stand.storage.list_directory(place)}
    except LocationNotFoundError:
        # S3 has no directory without files.
        return {}


COMMANDS = {
    "add": Command(_add, {**BEFORE, "k=3": "", "k=4": ""}, THEIRS),
    "drop": Command(_drop, {"k=2": "2\n"}, THEIRS),
    "rename": Command(_rename, {"k=2": "2\n", "k=3": "1\n"}, THEIRS),
    "set location": Command(_relocate, {**BEFORE, "k=1": ""}, THEIRS),
    "exchange": Command(_exchange, {**BEFORE, "k=5": "5\n"}, {"k=6": "6\n"}),
    "rollback": Command(_roll_back, EARLIER, THEIRS, leaves=True),
    "load": _loads("k=7", {**BEFORE, "k=7": "8\n9\n"}, replaces=False),
    "load over": _loads("k=1", {**BEFORE, "k=1": "8\n9\n"}, replaces=True),
}
LOADING = ["load", "load over"]
MOVING = ["rename", "exchange", *LOADING]


def prepare(stand: Stand, location: object, name: str = "") -> None:
    """Makes the tables for a command, given by its name."""
    stand.create(definition(str(location)))
    stand.create(definition(f"{location}-o", name="o"))
    if name == "rollback":
        # The rollback moves a partition back, deletes the appended file, brings one back and drops one.
        stand.write(EARLIER)
        stand.write({"k=1": "appended\n"})
        stand.write(BEFORE, WriteKind.OVERWRITE, options=RELOCATE)
    else:
        stand.write(BEFORE)
    stand.write(THEIRS, table=stand.table(OTHER))
    place = Location.parse(f"{location}-in")
    stand.storage.create_directory(place)
    for name, content in INCOMING.items():
        stand.storage.write_file(place.join(name), content.encode())


def attempt(stand: Stand, command: Command) -> str:
    try:
        command.run(stand)
    except CommitStateUnknownError:
        return "unknown"
    except (CatalogExtError, InjectedFault):
        return "failure"
    return "success"


def check(stand: Stand, command: Command, reported: str, *, point: str) -> None:
    states = {t.state for t in stand.index.transactions.all()}
    assert states <= {State.FINISHED, State.ABORTED}, point
    found = stand.rows(), stand.rows(OTHER), incoming(stand)
    old, new = (BEFORE, THEIRS, INCOMING), (command.after, command.theirs, {} if command.takes else INCOMING)
    assert found in ([new] if reported == "success" else [old] if reported == "failure" else [old, new]), point
    if command.leaves:
        assert stand.engine.vacuum(stand.table(), 0).failed == ()
    if command.run is not _relocate or found == old:
        root = Location.parse(stand.table().definition.location)
        # S3 has no directory of a partition without files.
        shown = [r if stand.storage.store_has_directories(root) else {k: v for k, v in r.items() if v} for r in found]
        assert [stand.listed(), stand.listed(OTHER)] == shown[:2], point
        assert (stand.strays(), stand.strays(OTHER)) == ([], []), point
