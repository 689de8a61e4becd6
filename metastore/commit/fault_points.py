"""Fault points: places in the commit protocol where a test can inject a fault. In production they do nothing.

A test arms a point in its own process with ``armed``; for a child process it sets the environment variable
``CATALOG_EXT_FAULT`` to ``point=action`` or ``point=action:nth`` (the nth time that the point is reached).
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import IndexUnavailableError, StorageUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENVIRONMENT = "CATALOG_EXT_FAULT"

POINTS = (
    "begin.before", "begin.after",
    "commit.called", "stage.before", "stage.after",
    "check.before", "check.after",
    "reserve.before", "reserve.after",
    "promote.before", "promote.file", "promote.after",
    "apply.before", "apply.after",
    "publish.before", "publish.after",
    "clean.before", "clean.removed", "clean.staging", "clean.after",
    "undo.before", "undo.sources", "undo.due", "undo.after",
)  # fmt: skip
"""Every fault point of a write, in the order of the protocol's steps.

``promote.file`` is reached before each file. ``undo.due`` is reached before files of due partitions are hidden again,
and after all of them are.
"""

MOVE_POINTS = ("move.before", "move.taken", "move.asked")
"""Fault points of moves that keep file names: before files are taken, after that, and before they are put down."""

DROP_POINTS = ("drop.before", "drop.aside")
"""Fault points of deleting a dropped table's directory: before it is renamed, and after."""

VACUUM_POINTS = ("vacuum.floor", "vacuum.claimed", "vacuum.deleted")
"""Fault points of a vacuum: after it has made old versions unreadable, before it deletes files that it has claimed, and
after it has deleted all files, before the index forgets them."""

DEFERRED_DELETE_POINTS = ("deferred.before", "deferred.page", "deferred.after")
"""Fault points of completing a deferred delete: before it, after each of its transactions, and after the last one."""

RESTORE_POINTS = ("restored.begun", "restored.written", "restored.repaired")
"""Fault points of ``restored``: incarnation written to the index, then to the warehouse; all tables repaired."""

_ALL = (*POINTS, *MOVE_POINTS, *DROP_POINTS, *VACUUM_POINTS, *DEFERRED_DELETE_POINTS, *RESTORE_POINTS)


class InjectedFault(Exception):
    """The error of the action ``error``, which stands for an error that the code does not expect."""


def _kill(point: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _stop(point: str) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def _error(point: str) -> None:
    raise InjectedFault(point)


def _unavailable(point: str) -> None:
    raise IndexUnavailableError(f"Injected at {point}: the index database is gone.")


def _storage(point: str) -> None:
    raise StorageUnavailableError(f"Injected at {point}: the store does not answer.")


ACTIONS: dict[str, Callable[[str], None]] = {
    "kill": _kill, "stop": _stop, "error": _error, "unavailable": _unavailable, "storage": _storage,
}  # fmt: skip


class _Fault:
    def __init__(self, point: str, action: str | Callable[[str], None], nth: int, *, lasting: bool = False) -> None:
        if point not in _ALL:
            raise ValueError(f"{point!r} is no fault point; there are {', '.join(_ALL)}")
        self._action = ACTIONS[action] if isinstance(action, str) else action
        self._left = nth
        self._lasting = lasting
        self._lock = threading.Lock()

    def strike(self, point: str) -> None:
        with self._lock:
            self._left -= 1
            due = self._left == 0 or (self._lasting and self._left < 0)
        if due:
            self._action(point)


def _of_environment(text: str | None) -> dict[str, _Fault]:
    if not text:
        return {}
    point, _, action = text.partition("=")
    action, _, nth = action.partition(":")
    return {point: _Fault(point, action, int(nth or 1))}


_armed: dict[str, _Fault] = _of_environment(os.environ.get(ENVIRONMENT))


def fault_point(point: str) -> None:
    """Trigger the fault that a test has set for ``point``, if any."""
    if _armed and (fault := _armed.get(point)) is not None:
        fault.strike(point)


@contextmanager
def armed(point: str, action: str | Callable[[str], None], nth: int = 1, *, lasting: bool = False) -> Iterator[None]:
    """Arm a fault point while the context lasts.

    Args:
        point: One of ``POINTS``.
        action: ``kill``, ``stop`` (the process hangs until it gets SIGCONT), ``error``, ``unavailable``, ``storage``,
            or a function that takes the point's name.
        nth: The number of the pass at which the action is taken (from 1).
        lasting: Whether the action is taken at every later pass, too.
    """
    before = _armed.get(point)
    _armed[point] = _Fault(point, action, nth, lasting=lasting)
    try:
        yield
    finally:
        if before is None:
            del _armed[point]
        else:
            _armed[point] = before
