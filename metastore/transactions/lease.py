"""Renews the lease of a transaction while this process works on it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError

if TYPE_CHECKING:
    from typing_extensions import Self

    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)


def renew(resources: Resources, transaction_id: str, lease_ms: int, *, undoing: bool = False) -> int | None:
    """Renew a lease; return its new end, in milliseconds since the epoch, or None if the transaction has ended."""
    until_ms = resources.now_ms() + lease_ms
    return until_ms if resources.index.transactions.extend_lease(transaction_id, until_ms, undoing=undoing) else None


class LeaseRenewal:
    """A context in which a thread renews the lease of a transaction, each time a third of it has passed.

    If another process undoes the transaction, the lease is not renewed; the owner gets an error at its next step.

    Args:
        lease_ms: The duration of a lease.
        undoing: Whether to renew the lease also while the transaction is being undone.
    """

    def __init__(self, resources: Resources, transaction_id: str, lease_ms: int, *, undoing: bool = False) -> None:
        self._undoing = undoing
        self._resources = resources
        self._id = transaction_id
        self._lease_ms = lease_ms
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"catalog-ext-lease-{transaction_id[:8]}", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread; the first renewal is after a third of the lease."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._lease_ms / 3000):
            try:
                if renew(self._resources, self._id, self._lease_ms, undoing=self._undoing) is None:
                    return
            except CatalogExtError as error:
                logger.warning("The lease of transaction %s could not be renewed: %s", self._id, error.message)
            except Exception:
                # Go on: the next attempt, a third of the lease later, may succeed, and no other thread renews the
                # lease.
                logger.warning("The lease of transaction %s could not be renewed.", self._id, exc_info=True)
