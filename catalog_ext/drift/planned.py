"""The plan of a mend, on disk: all that is to be done, before anything is; and what was done."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from catalog_ext.drift.difference import MISSING, DriftKind
from catalog_ext.scan.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.drift.difference import Difference


LEFT_ALONE = "left alone"


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing that mending did, or in a preview would do.

    Attributes:
        table: ``namespace.table``.
        action: ``add``, ``drop``, ``move``, ``change``, ``alter``, ``publish``, or ``left alone``.
        subject: The partition, column or parameter; ``''`` for the table as a whole.
        why: Why, in words.
        done: Whether it is done, or in a preview would be; False for what was left alone.
    """

    table: str
    action: str
    subject: str = ""
    why: str = ""
    done: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def left_alone(table: str, subject: str, why: str) -> Mended:
    """Return that something was not mended."""
    return Mended(table, LEFT_ALONE, subject, why, done=False)


ADD, MOVE, DESCRIBE, DROP, LOOK = "add", "move", "describe", "drop", "look at"
_SAY_DROP = "the metastore does not have it, which is no reason to drop it here: say so (drop) if it is"
_DEFINITION = frozenset({DriftKind.COLUMN, DriftKind.PARAMETER})
WHY_DROPPED = "the metastore does not have it; its files stay, and a repair adds it again, but for the mode drop"


class PlannedMend:
    """What the differences ask for where the metastore is right; close it."""

    def __init__(self, *, drop: bool) -> None:
        self._drop = drop
        self._scratch = Scratch()
        self._scratch.execute("CREATE TABLE plan (action TEXT, name TEXT, PRIMARY KEY (action, name)) WITHOUT ROWID")
        self._left: list[Mended] = []
        self.definition: list[Difference] = []
        """In what the definitions differ, as far as that can be taken over."""

    def close(self) -> None:
        """Forget it."""
        self._scratch.close()

    def take(self, difference: Difference) -> Mended | None:
        """Plan what the difference asks for; return that it is left alone where nothing does."""
        action, why = self._action(difference)
        if action is not None:
            self._scratch.insert("plan", [(action, difference.subject)], columns=2, ignore=True)
            return None
        if why is None:
            return None
        return left_alone(difference.table, difference.subject, why)

    def _action(self, difference: Difference) -> tuple[str | None, str | None]:
        """Return what to do with a partition, or why nothing is done; neither where it is for others."""
        kind = difference.kind
        if difference.pending or kind is DriftKind.NOT_COMPARED:
            return None, difference.evidence
        if kind in _DEFINITION:
            lacks = difference.metastore == MISSING
            if lacks and kind is DriftKind.PARAMETER and not self._drop:
                return None, _SAY_DROP
            self.definition.append(difference)
            return None, None
        if kind is DriftKind.PARTITION and difference.index == MISSING and difference.metastore not in (None, MISSING):
            return ADD, None
        if kind is DriftKind.PARTITION and difference.metastore == MISSING and difference.index != MISSING:
            return (DROP, None) if self._drop else (None, _SAY_DROP)
        if kind is DriftKind.PARTITION_LOCATION:
            return MOVE, None
        if kind is DriftKind.STATISTICS:
            # A partition that moves gets the files at its new place. A look at the old one would drop it in a preview.
            return (None, None) if self._moves(difference.subject) else (LOOK, None)
        if kind in (DriftKind.FILES, DriftKind.PARTITION):
            return None, None  # between the store and the index: a repair's
        if kind is DriftKind.PARTITION_DESCRIPTOR:
            # It is taken over as it is now, with its files and its place: nothing else is to be done with it.
            self._scratch.execute("DELETE FROM plan WHERE name = ?", (difference.subject,))
            if difference.index != MISSING:
                return DESCRIBE, None
        both = f"{difference.index} here, {difference.metastore} in the metastore"
        return None, f"the {kind} differs, and is not taken over: {both}"

    def _moves(self, name: str) -> bool:
        query = "SELECT count(*) FROM plan WHERE action = ? AND name = ?"
        return self._scratch.count(query, (MOVE, name)) > 0

    def count(self, action: str) -> int:
        """Count the partitions that an action is for."""
        return self._scratch.count("SELECT count(*) FROM plan WHERE action = ?", (action,))

    def names(self, action: str) -> Iterator[str]:
        """Yield the partitions that an action is for, by name."""
        rows = self._scratch.rows("SELECT name FROM plan WHERE action = ? ORDER BY name", (action,))
        return (name for (name,) in rows)
