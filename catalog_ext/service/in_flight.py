"""The running calls and open writes of a service, so that a shutdown can wait for them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CatalogExtError

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

_REMEMBERED = 10_000
P = ParamSpec("P")
T = TypeVar("T")


class InFlightCalls:
    """Counts running calls, including those whose clients have disconnected."""

    def __init__(self) -> None:
        self._calls = 0
        self._changed = threading.Condition()

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call and return its result."""
        with self._changed:
            self._calls += 1
        try:
            return call(*args, **kwargs)
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` until no call runs; return whether all calls have ended."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._calls, seconds)


class OpenWrites:
    """The transactions that were begun through a service and are neither committed nor aborted."""

    def __init__(self, state_of: Callable[[str], State | None]) -> None:
        self._state_of = state_of
        self._ids: dict[str, None] = {}
        self._changed = threading.Condition()

    def begun(self, transaction_id: str) -> None:
        """Add a transaction. Above a limit the oldest is removed, since dead writers leave transactions open."""
        with self._changed:
            self._ids[transaction_id] = None
            while len(self._ids) > _REMEMBERED:
                del self._ids[next(iter(self._ids))]

    def ended(self, transaction_id: str) -> None:
        """Remove a transaction."""
        with self._changed:
            self._ids.pop(transaction_id, None)
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait up to ``seconds`` until no write is open; return whether all writes have ended."""
        self._forget_ended()
        with self._changed:
            return self._changed.wait_for(lambda: not self._ids, seconds)

    def _forget_ended(self) -> None:
        """Remove transactions that another process has ended, such as a recovery."""
        with self._changed:
            ids = list(self._ids)
        for transaction_id in ids:
            try:
                is_open = self._state_of(transaction_id) is State.OPEN
            except CatalogExtError as error:
                # If the index cannot be read, no transaction can end, so do not wait for this one.
                logger.debug("The state of transaction %s is not known: %s", transaction_id, error.message)
                is_open = False
            if not is_open:
                self.ended(transaction_id)
