"""A commit whose end is not known: for how long the index is asked again, and the error after that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, CommitStateUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT_UNKNOWN_TIMEOUT_S = 120.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


def attempts(timeout_s: float, pause: Callable[[float], object]) -> Iterator[int]:
    """Yield the number of each attempt until the time is over, with pauses in between; there is one at least.

    Args:
        timeout_s: For how long, in seconds (``commit.unknown-timeout``).
        pause: Waits so many seconds.
    """
    deadline = time.monotonic() + timeout_s
    attempt = 0
    while True:
        yield attempt
        if time.monotonic() >= deadline:
            return
        pause(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))
        attempt += 1


def reason_of(error: BaseException) -> str:
    """Return what went wrong, for people."""
    return error.message if isinstance(error, CatalogExtError) else f"{type(error).__name__}: {error}"


def is_retryable(error: BaseException) -> bool:
    """Return whether a repeated commit may succeed."""
    return isinstance(error, CatalogExtError) and error.retryable


def state_unknown(
    transaction_id: str, table: str | None, why: str, *, ask_again: bool = True
) -> CommitStateUnknownError:
    """Return the error for the owner of a transaction that may be committed or not.

    Args:
        transaction_id: The transaction.
        table: Its table, where it is known.
        why: What went wrong, for people.
        ask_again: Whether asking for the commit again may end it; otherwise something has to be mended first.
    """
    of_table = f" to table {table}" if table else ""
    return CommitStateUnknownError(
        f"Whether the write {transaction_id}{of_table} is committed is not known yet: {why}. Nothing was deleted. "
        "Do not run the statement again before recover (by the next writer of the table, or by 'catalog-ext recover') "
        "has seen the transaction through.",
        {"transaction": transaction_id, "ask_again": str(ask_again).lower(), **({"table": table} if table else {})},
    )
