"""Which transactions disturb each other: the table of conflicts in ``docs/spec/commit-protocol.md``, as a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.plan import COMMANDS, WriteKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from catalog_ext.metastore.commit.plan import WritePlan


@dataclass(frozen=True, slots=True)
class Claims:
    """What a transaction touches.

    Attributes:
        exclusive: Whether it replaces what is there; otherwise it only adds.
        names: Names of partitions by the hash of their typed values (``claim_hash``).
        covers: Whether the transaction's predicate is true for the partition of a name; None without a predicate.
    """

    exclusive: bool
    names: Mapping[str, str]
    covers: Callable[[str], bool] | None = None

    def collision(self, other: Claims, existing: Iterable[str] = ()) -> str | None:
        """A partition that both touch and at least one replaces; None when both may commit.

        Args:
            other: The claims of a transaction that is reserved, or was committed after this one's base version.
            existing: Partitions that are there or that the other one ended: where both have a predicate, they meet in
                one of these or not at all, since whoever makes a partition names it.
        """
        if not (self.exclusive or other.exclusive):
            return None
        for digest, name in self.names.items():
            if digest in other.names or (other.covers is not None and other.covers(name)):
                return name
        if self.covers is None:
            return None
        named = next((name for name in other.names.values() if self.covers(name)), None)
        if named is not None or other.covers is None:
            return named
        return next((name for name in existing if self.covers(name) and other.covers(name)), None)


def replaces(plan: WritePlan) -> bool:
    """Whether the transaction ends what is there."""
    return plan.kind not in (WriteKind.APPEND, WriteKind.ADD_PARTITIONS)


def touched(plan: WritePlan, staged: Iterable[str]) -> set[str]:
    """The names of the partitions that the transaction claims.

    Args:
        plan: What it is for.
        staged: The partitions of its staged files.
    """
    if plan.kind in COMMANDS:
        return set(plan.command.get("names", ()))
    return {*staged, *plan.takes_in, *plan.removes, *plan.due, *(() if plan.keep is None else (plan.keep,))}
