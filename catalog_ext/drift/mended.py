"""What mending did, or would do, as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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
