"""Events that can be counted or timed, and the listeners of this process that receive them.

Only a running service listens. The parts that emit events know nothing of metrics, and load nothing for them.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from catalog_ext.metastore.backports import StrEnum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.errors import CatalogExtError

logger = logging.getLogger(__name__)


class Subject(StrEnum):
    """What an error came from."""

    INDEX = "index"
    METASTORE = "metastore"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class Failed:
    """The index, the metastore or a store refused something or did not answer; ``code`` is the error's."""

    subject: Subject
    code: str


@dataclass(frozen=True, slots=True)
class MetastoreCalled:
    """The metastore was asked, and has answered or failed."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message of the outbox was ``delivered``, ``refused``, or reached no metastore (``unavailable``)."""

    outcome: str


@dataclass(frozen=True, slots=True)
class Planned:
    """The files of a read were chosen; the time is the index's and ours, without the client's."""

    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Committed:
    """A write or a partition command is visible; ``kind`` is a ``WriteKind``, ``seconds`` without the metastore.

    ``rows`` are None where they are unknown.
    """

    kind: str
    rows: int | None
    bytes: int
    files_added: int
    files_removed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """A write or a partition command failed at its commit: by a ``conflict`` with another one, or otherwise."""

    kind: str
    conflict: bool


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repair has ended; its partitions are None where it failed."""

    seconds: float
    added: int | None = None
    dropped: int | None = None
    changed: int | None = None


@dataclass(frozen=True, slots=True)
class TaskRan:
    """A background task of the service has run once."""

    task: str
    failed: bool


Event: TypeAlias = Failed | MetastoreCalled | Delivered | Planned | Committed | NotCommitted | Repaired | TaskRan

_Error = TypeVar("_Error", bound="CatalogExtError")
_listeners: tuple[Callable[[Event], None], ...] = ()
_lock = Lock()


def emit(event: Event) -> None:
    """Pass an event to all listeners. The error of a listener is logged: it must not fail the work that was done."""
    for listener in _listeners:
        try:
            listener(event)
        except Exception:
            logger.exception("%s could not be counted", type(event).__name__)


def failed(subject: Subject, error: _Error) -> _Error:
    """Emit the failure, and return its error."""
    emit(Failed(subject, error.code))
    return error


@contextmanager
def listening(listener: Callable[[Event], None]) -> Iterator[None]:
    """Pass all events of this process to a listener for as long as the context lasts."""
    global _listeners
    with _lock:
        _listeners = (*_listeners, listener)
    try:
        yield
    finally:
        with _lock:
            _listeners = tuple(each for each in _listeners if each is not listener)
