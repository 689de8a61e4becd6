"""What following has come to, for reports and logs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from catalog_ext.following.doubts import TableDoubt

_SHOWN = 20


@dataclass(slots=True)
class TableOutcome:
    """What a look has come to in one table.

    Attributes:
        table: ``namespace.table``, as the metastore has it.
        action: ``followed``; ``imported``, ``removed``, ``renamed``; ``refused`` where it cannot be taken; ``left``
            where it has to be looked at again.
        looked_at: Partitions that were listed.
        added: Partitions; so ``dropped`` and ``changed``.
        altered: Whether columns or properties were taken over.
        version: The table's version afterwards.
        skipped: Partitions that stay as they are, and why; some of them.
        error: Why it was refused or left.
        left: What is still in doubt.
    """

    table: str
    action: str = "followed"
    looked_at: int = 0
    added: int = 0
    dropped: int = 0
    changed: int = 0
    altered: bool = False
    version: int = 0
    skipped: list[str] = field(default_factory=list)
    error: str | None = None
    left: TableDoubt | None = None

    @property
    def says_something(self) -> bool:
        """Whether anything was changed, or could not be."""
        moved = self.added or self.dropped or self.changed or self.altered or self.skipped
        return bool(moved) or self.action != "followed"

    def skip(self, what: str) -> None:
        """Note that something stays as it is."""
        if what not in self.skipped and len(self.skipped) < _SHOWN:
            self.skipped.append(what)


@dataclass(slots=True)
class FollowOutcome:
    """What one look at the metastore has come to.

    Attributes:
        source: ``log``, or ``comparison`` where everything was compared; ``waiting`` where another follower is at work.
        events: Events that were read.
        event_id: The last one that is dealt with; None where there is no log.
        newest_id: The newest there was.
        gap: Why everything was compared, where events are missing.
        tables: What was done, table by table.
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
    """Return what a look has come to, as JSON."""
    tables = [
        {name: value for name, value in asdict(each).items() if name != "left"}
        for each in outcome.tables if each.says_something
    ]  # fmt: skip
    return {
        "source": outcome.source, "events": outcome.events, "event_id": outcome.event_id,
        "newest_id": outcome.newest_id, "gap": outcome.gap, "tables": tables,
    }  # fmt: skip
