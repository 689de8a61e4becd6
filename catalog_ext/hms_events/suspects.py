"""Suspect tables and partitions: what the metastore's events say may have changed, and must be checked."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.hive.events import Statistics
from catalog_ext.metastore.model.identifiers import TableIdentifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.hive.events import HiveEvent, PartitionHint


MOST_PARTITIONS = 20_000
"""The most partitions of a table that are listed by name; with more, the whole table is suspect."""


@dataclass(slots=True)
class SuspectPartition:
    """A suspect partition: it may have changed in the metastore or on the store.

    Attributes:
        dropped: Whether it was dropped, or got other values by a rename.
        written: The file statistics that the events have set; None if an event has set no statistics. If the index
            itself has sent all of them, the changes were its own deliveries.
    """

    dropped: bool = False
    written: frozenset[Statistics] | None = None


@dataclass(slots=True)
class SuspectTable:
    """A suspect table: which of its parts must be compared with the metastore.

    Attributes:
        database: The table's database in the metastore.
        table: The table's name in the metastore.
        definition: Whether the table itself is suspect: its existence and its definition.
        columns: Whether its columns were changed.
        created: Whether an event reports its creation.
        dropped: Whether an event reports its drop.
        whole: Whether every partition is suspect.
        partitions: The suspect partitions, by the metastore's names; ``''`` for a table without partition columns.
        parameters: Parameters that were set or removed. None if no event lists them: then the table is compared with
            the columns and parameters of the last run.
        renamed_to: Its new name.
        storage: Whether its format, SerDe or SerDe settings were changed.
        moved_from: Its previous locations.
    """

    database: str
    table: str
    definition: bool = False
    created: bool = False
    dropped: bool = False
    whole: bool = False
    partitions: dict[str, SuspectPartition] = field(default_factory=dict)
    parameters: set[str] | None = field(default_factory=set)
    renamed_to: tuple[str, str] | None = None
    columns: bool = False
    storage: bool = False
    moved_from: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """``database.table``."""
        return f"{self.database}.{self.table}"

    def note(self, event: HiveEvent) -> None:
        """Add what another event says about the table."""
        self.definition = self.definition or event.definition
        if event.dropped:
            self.dropped, self.renamed_to = True, event.renamed_to
        elif event.kind == "CREATE_TABLE":
            self.created = True
            # The table was dropped and created again, so all partitions and parameters of the new table must be
            # checked.
            if self.dropped:
                self.whole, self.parameters = True, None
        self.columns = self.columns or event.columns
        self.storage = self.storage or event.storage
        if event.moved_from is not None:
            self.moved_from.add(event.moved_from)
        if self.parameters is not None:
            self.parameters = None if event.parameters is None else self.parameters | event.parameters
        if event.partitions is None:
            self.whole = True
            return
        for hint in event.partitions:
            self._note_partition(hint)
        self._bound()

    def _note_partition(self, hint: PartitionHint) -> None:
        written = None if hint.written is None else frozenset((hint.written,))
        self._merge(hint.name, SuspectPartition(hint.dropped, written))

    def _merge(self, name: str, new: SuspectPartition) -> None:
        known = self.partitions.get(name)
        if known is None:
            self.partitions[name] = new
            return
        known.dropped = known.dropped or new.dropped
        known.written = None if known.written is None or new.written is None else known.written | new.written

    def add(self, other: SuspectTable) -> None:
        """Merge another set of suspect parts of the same table."""
        self.definition = self.definition or other.definition
        self.created = self.created or other.created
        self.dropped = self.dropped or other.dropped
        self.renamed_to = self.renamed_to or other.renamed_to
        self.whole = self.whole or other.whole
        self.columns = self.columns or other.columns
        self.storage = self.storage or other.storage
        self.moved_from |= other.moved_from
        self.parameters = None if None in (self.parameters, other.parameters) else {
            *(self.parameters or ()), *(other.parameters or ()),
        }  # fmt: skip
        for name, suspect in other.partitions.items():
            self._merge(name, SuspectPartition(suspect.dropped, suspect.written))
        self._bound()

    def come_after(self, left: SuspectTable) -> None:
        """Merge the suspect parts that an earlier run could not finish; the present events are later."""
        if left.dropped and self.created:
            # The earlier drop and the present creation make a new table, so all its partitions and parameters are
            # suspect.
            self.whole, self.parameters = True, None
        self.add(left)

    def take_over(self, before: SuspectTable, *, made_anew: bool) -> None:
        """Merge the suspect parts of the table's previous name into this one, which has the new name.

        Args:
            before: The suspect parts under the previous name.
            made_anew: Whether the table had been dropped under that name, and created again.
        """
        self.add(replace(before, created=made_anew, dropped=made_anew, renamed_to=None))

    def _bound(self) -> None:
        if len(self.partitions) > MOST_PARTITIONS:
            # With so many suspect partitions the whole table is compared. That finds every change except drops, so keep
            # only the dropped partitions.
            self.whole = True
            self.partitions = {name: suspect for name, suspect in self.partitions.items() if suspect.dropped}

    def to_json(self) -> str:
        """Return the suspect parts as JSON text, which is stored in the index."""
        return json.dumps(
            {
                "definition": self.definition, "created": self.created, "dropped": self.dropped, "whole": self.whole,
                "partitions": [
                    [name, suspect.dropped, None if suspect.written is None else sorted(suspect.written)]
                    for name, suspect in self.partitions.items()
                ],
                "parameters": None if self.parameters is None else sorted(self.parameters),
                "renamed_to": self.renamed_to, "columns": self.columns, "storage": self.storage,
                "moved_from": sorted(self.moved_from),
            },
            separators=(",", ":"),
        )  # fmt: skip

    @classmethod
    def from_json(cls, name: str, text: str) -> SuspectTable:
        """Parse the text that ``to_json`` wrote for the table of this name."""
        body: dict[str, Any] = json.loads(text)
        database, _, table = name.partition(".")
        partitions = {
            name: SuspectPartition(
                dropped, None if written is None else frozenset(Statistics(*each) for each in written)
            )
            for name, dropped, written in body["partitions"]
        }
        parameters, renamed = body["parameters"], body["renamed_to"]
        return cls(
            database, table, body["definition"], body["created"], body["dropped"], body["whole"], partitions,
            None if parameters is None else set(parameters), None if renamed is None else (renamed[0], renamed[1]),
            body["columns"], body["storage"], set(body["moved_from"]),
        )  # fmt: skip


def suspects_of(events: Iterable[HiveEvent]) -> dict[str, SuspectTable]:
    """Return the suspect parts of each table from events, in the order of the tables' first events."""
    suspects: dict[str, SuspectTable] = {}
    for event in events:
        if event.says_nothing:
            continue
        suspect = suspects.setdefault(f"{event.database}.{event.table}", SuspectTable(event.database, event.table))
        made_anew = suspect.dropped and suspect.created
        suspect.note(event)
        if event.dropped:
            # A rename gave the table its present name: events under the old name are about the same table, so merge
            # them.
            for before in suspects.values():
                if before is not suspect and before.renamed_to == (event.database, event.table):
                    before.renamed_to = event.renamed_to
        if event.renamed_to is not None:
            database, table = event.renamed_to
            new = suspects.setdefault(f"{database}.{table}", SuspectTable(database, table))
            new.definition = new.whole = True
            new.take_over(suspect, made_anew=made_anew)
    return suspects


def with_new_names(
    suspects: Mapping[str, SuspectTable], renames: Sequence[tuple[TableIdentifier, TableIdentifier]]
) -> dict[str, SuspectTable]:
    """Move suspect parts from a table's name in the metastore to its new name in the index.

    Args:
        suspects: The suspect parts from the events, by name.
        renames: The renames by this index that the metastore has not applied yet, in order.
    """
    found = dict(suspects)
    for suspect in copy.deepcopy(list(suspects.values())):
        name = TableIdentifier(suspect.database, suspect.table)
        for before, after in renames:
            name = after if before == name else name
        if str(name) != suspect.name and not suspect.dropped:
            new = found.setdefault(str(name), SuspectTable(name.namespace, name.name))
            new.take_over(suspect, made_anew=False)
    return found


_SHOWN = 20


@dataclass(slots=True)
class TableOutcome:
    """The outcome of following one table.

    Attributes:
        table: ``namespace.table``, with the metastore's name.
        action: ``followed``; ``imported``, ``removed``, ``renamed``; ``refused`` if its changes cannot be imported;
            ``left`` if it must be checked again.
        checked: The number of listed partitions.
        added: The number of added partitions; likewise ``dropped`` and ``changed``.
        altered: Whether columns or properties were changed in the index.
        version: The table's version after the run.
        skipped: Some of the partitions that stay unchanged, with the reasons.
        error: The reason for ``refused`` or ``left``.
        left: The suspect parts that must be checked again.
    """

    table: str
    action: str = "followed"
    checked: int = 0
    added: int = 0
    dropped: int = 0
    changed: int = 0
    altered: bool = False
    version: int = 0
    skipped: list[str] = field(default_factory=list)
    error: str | None = None
    left: SuspectTable | None = None

    @property
    def says_something(self) -> bool:
        """Whether a change was made or failed, so that the outcome is worth reporting."""
        moved = self.added or self.dropped or self.changed or self.altered or self.skipped
        return bool(moved) or self.action != "followed"

    def skip(self, what: str) -> None:
        """Record a partition that stays unchanged, with the reason."""
        if what not in self.skipped and len(self.skipped) < _SHOWN:
            self.skipped.append(what)


@dataclass(slots=True)
class FollowOutcome:
    """The outcome of one run of following.

    Attributes:
        source: ``log``, or ``comparison`` if everything was compared; ``waiting`` if another follower is active.
        events: The number of events read.
        event_id: The last processed event; None without a log.
        newest_id: The newest event.
        gap: The reason why everything was compared, if events are missing.
        tables: The outcomes of the tables.
    """

    source: str
    events: int = 0
    event_id: int | None = None
    newest_id: int | None = None
    gap: str | None = None
    tables: list[TableOutcome] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not self.events and not self.tables


def outcome_json(outcome: FollowOutcome) -> dict[str, Any]:
    """Return the outcome of a run as JSON."""
    tables = [
        {name: value for name, value in asdict(each).items() if name != "left"}
        for each in outcome.tables if each.says_something
    ]  # fmt: skip
    return {
        "source": outcome.source, "events": outcome.events, "event_id": outcome.event_id,
        "newest_id": outcome.newest_id, "gap": outcome.gap, "tables": tables,
    }  # fmt: skip
