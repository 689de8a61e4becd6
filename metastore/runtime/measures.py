"""Events for metrics, and the listeners of this process that receive them.

Only a running service registers a listener. The code that emits events does not depend on a metrics library.
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
    """The component that raised an error."""

    INDEX = "index"
    METASTORE = "metastore"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class Failed:
    """The index, the metastore or a store refused a call or did not answer; ``code`` is the error's code."""

    subject: Subject
    code: str


@dataclass(frozen=True, slots=True)
class MetastoreCalled:
    """A call of the metastore has ended, with an answer or a failure."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Delivered:
    """The outcome of an outbox message: ``delivered``, ``refused``, or ``unavailable`` if no metastore answered."""

    outcome: str


@dataclass(frozen=True, slots=True)
class Planned:
    """The files of a read were chosen; ``seconds`` is the time in the index and this process, without the client's."""

    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Committed:
    """A write or a partition command has become visible.

    ``kind`` is a ``WriteKind``. ``seconds`` does not include the metastore. ``rows`` is None if the number is unknown.
    """

    kind: str
    rows: int | None
    bytes: int
    files_added: int
    files_removed: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """A write or a partition command failed at its commit; ``conflict`` says whether another write was the reason."""

    kind: str
    conflict: bool


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repair has ended; its numbers of partitions are None if it failed."""

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
    """Pass an event to all listeners. A listener's error is only logged, because the measured work has succeeded."""
    for listener in _listeners:
        try:
            listener(event)
        except Exception:
            logger.exception("%s could not be counted", type(event).__name__)


def failed(subject: Subject, error: _Error) -> _Error:
    """Emit a ``Failed`` event for the error, and return the error."""
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
