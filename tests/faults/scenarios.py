"""Writes that things go wrong for: each with the state before it, itself, and the state after it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.fault_points import InjectedFault
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError, CommitStateUnknownError, TableNotFoundError
from catalog_ext.metastore.index.write import deferred_deletes
from tests.kit.write_cases import TABLE, Stand, definition

if TYPE_CHECKING:
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import TableDefinition


@contextlib.contextmanager
def settling_each() -> Iterator[None]:
    """Have everything be much, and be settled a partition at a time."""
    before = deferred_deletes.MANY, deferred_deletes._PAGE
    deferred_deletes.MANY, deferred_deletes._PAGE = 0, 1
    try:
        yield
    finally:
        deferred_deletes.MANY, deferred_deletes._PAGE = before


State_ = Mapping[str, str] | None
"""The rows by partition; None where there is no table."""

BEFORE = {"k=1": "1\n", "k=2": "2\n"}
FILES = {"k=1": "3\n", "k=3": "4\n"}


@dataclass(frozen=True)
class Scenario:
    """A write and what it means.

    Attributes:
        kind: What it does.
        after: The state that it makes.
        before: The state that it finds.
        options: Of the write.
        creates: Whether it makes the table; ``TABLE`` otherwise is there, with the state before.
        settles: Whether the rows that it ends are as many as are ended after its commit, one a transaction.
    """

    kind: WriteKind
    after: Mapping[str, str]
    before: State_ = field(default_factory=lambda: BEFORE)
    options: Mapping[str, str] = field(default_factory=dict)
    creates: bool = False
    settles: bool = False

    def prepare(self, stand: Stand, location: object) -> None:
        """Makes the state before."""
        made = definition(str(location))
        if self.before is None:
            stand.create(definition(f"{location}-other", name="other"))
        else:
            stand.create(made)
            stand.write(self.before)

    def write(self, stand: Stand, location: object) -> str:
        """Does the write; ``success``, ``failure``, or ``unknown``: as its user sees it."""
        more: dict[str, Any] = {"options": self.options}
        if self.creates:
            made: TableDefinition = definition(str(location))
            more["definition"] = made if self.before is None else replace(made, comment="replaced")
            more["table"] = None if self.before is None else stand.table()
        try:
            with settling_each() if self.settles else contextlib.nullcontext():
                outcome = stand.write(FILES, self.kind, **more)
        except CommitStateUnknownError:
            return "unknown"
        except (CatalogExtError, InjectedFault):
            return "failure"
        assert outcome.files_added == len(FILES)
        return "success"

    def state(self, stand: Stand, table: TableIdentifier = TABLE) -> State_:
        """What readers of the index see."""
        try:
            return stand.rows(table)
        except TableNotFoundError:
            return None

    def check(self, stand: Stand, reported: str, location: str | None = None) -> None:
        """The promises, after recovery has run to its end."""
        unfinished = [t for t in stand.index.transactions.all() if t.state not in (State.FINISHED, State.ABORTED)]
        assert unfinished == []
        state = self.state(stand)
        assert state in ([self.after] if reported == "success" else [self.before] if reported == "failure" else
                         [self.before, self.after])  # fmt: skip
        if state is None:
            assert location is None or stand.storage.stat(location) is None
            return
        assert stand.listed() == state
        strays = stand.strays()
        if self.options and state == self.after:
            assert len(strays) == 1, "what a relocating overwrite replaced stays until vacuum"
        else:
            assert strays == []


APPEND = Scenario(WriteKind.APPEND, {"k=1": "1\n3\n", "k=2": "2\n", "k=3": "4\n"})
OVERWRITE = Scenario(WriteKind.OVERWRITE_PARTITIONS, {"k=1": "3\n", "k=2": "2\n", "k=3": "4\n"})
RELOCATE = replace(OVERWRITE, options={"overwrite-mode": "relocate"})
CREATE = Scenario(WriteKind.CREATE, FILES, before=None, creates=True)
REPLACE = Scenario(WriteKind.REPLACE, FILES, creates=True)
EVERYTHING = Scenario(WriteKind.OVERWRITE, FILES, before={**BEFORE, "k=4": "4\n", "k=5": "5\n"}, settles=True)
SCENARIOS: dict[str, Scenario] = {
    "append": APPEND, "overwrite": OVERWRITE, "relocate": RELOCATE, "create": CREATE, "replace": REPLACE,
    "everything": EVERYTHING,
}  # fmt: skip
