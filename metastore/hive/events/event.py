"""Events of the metastore's notification log: which table and which partitions were changed.

An event is a hint: it says where to look. What is there now is asked of the metastore and of the store.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Statistics(NamedTuple):
    """By what a change of our own is known: the statistics that a delivery has set (the texts of the parameters)."""

    files: str
    bytes: str
    ddl_time: str


@dataclass(frozen=True, slots=True)
class PartitionHint:
    """A partition that an event names.

    Attributes:
        name: As the metastore names it (``k1=v1/k2=v2``); ``''`` for a table without partition columns.
        dropped: Whether it went: it was dropped, or got other values.
        written: The statistics that the event has set, where it has set all of them to other ones; None otherwise.
    """

    name: str
    dropped: bool = False
    written: Statistics | None = None


@dataclass(frozen=True, slots=True)
class HiveEvent:
    """An event of the metastore's notification log.

    Attributes:
        event_id: Its number; those of one log follow one another.
        at_s: When it happened, in seconds since the epoch, by the metastore's clock.
        kind: The metastore's word: ``ADD_PARTITION``.
        database: ``''`` where it is about none.
        table: ``''`` where it is about none.
        partitions: Those that it names; None where it may be about any.
        definition: Whether the table itself came, changed or went.
        dropped: Whether the table went: it was dropped, or got another name.
        columns: Whether it has changed the table's columns.
        storage: Whether it has changed how the table's files are read: format, SerDe, or the SerDe's settings.
        moved_from: Where the table lay before, if the event has given it another location under its name.
        parameters: Names of the table's parameters that it has changed; None where it does not say.
        renamed_to: The table's other name, as database and table; None where it has kept its own.
        message_size: Characters of the message that the server has sent for it.
    """

    event_id: int
    at_s: int
    kind: str
    database: str = ""
    table: str = ""
    partitions: tuple[PartitionHint, ...] | None = ()
    definition: bool = False
    dropped: bool = False
    columns: bool = False
    storage: bool = False
    moved_from: str | None = None
    parameters: frozenset[str] | None = frozenset()
    renamed_to: tuple[str, str] | None = None
    message_size: int = field(default=0, compare=False)

    @property
    def says_nothing(self) -> bool:
        """Whether it is about nothing that is followed: a function, a transaction, a column's statistics."""
        return not self.table or (self.partitions == () and not self.definition)
