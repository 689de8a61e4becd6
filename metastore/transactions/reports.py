"""What ``recover`` and ``vacuum`` did, as values; and the line that a write leaves in the log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RecoveryAction(StrEnum):
    """What recovery did with a transaction, or in a preview would do."""

    FINISHED = "finished"
    UNDONE = "undone"
    WOULD_FINISH = "would finish"
    WOULD_UNDO = "would undo"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RecoveredTransaction:
    """One transaction that recovery found.

    Attributes:
        transaction_id: Its id.
        table: ``namespace.name``.
        operation: What the user did.
        owner: Who began it.
        action: What became of it.
        files: Staged files that it had recorded.
        error: Why it was undone or why recovery failed, if there is a reason to tell.
    """

    transaction_id: str
    table: str
    operation: str
    owner: str
    action: RecoveryAction
    files: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What recovery did, oldest transaction first.

    Attributes:
        dry_run: Whether it was a preview.
    """

    transactions: tuple[RecoveredTransaction, ...]
    dry_run: bool = False

    @property
    def failed(self) -> tuple[RecoveredTransaction, ...]:
        """Those that are still unfinished."""
        return tuple(t for t in self.transactions if t.action is RecoveryAction.FAILED)
