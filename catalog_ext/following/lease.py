"""Who follows: one process at a time, by a lease in the index."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError

if TYPE_CHECKING:
    from typing_extensions import Self

    from catalog_ext.metastore.index.tables.followed import FollowedMetastore

logger = logging.getLogger(__name__)

LEASE_MS = 30_000
"""How long a follower that gives no sign of life is waited for."""


class FollowerLease:
    """A context in which nobody else follows: a thread renews the lease; it stays when the context ends.

    Args:
        followed: Holds the lease.
        holder: Who is to have it.
        lease_ms: How long it lasts.

    Attributes:
        held: Whether it was to be had.
    """

    def __init__(self, followed: FollowedMetastore, holder: str, lease_ms: int = LEASE_MS) -> None:
        self._followed = followed
        self._holder = holder
        self._lease_ms = lease_ms
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.held = False

    def __enter__(self) -> Self:
        """Take it, if nobody has it."""
        self.held = self._followed.hold(self._holder, self._lease_ms)
        if self.held:
            self._thread = threading.Thread(target=self._renew, name="catalog-ext-follower-lease", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Renew it no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _renew(self) -> None:
        while not self._ended.wait(self._lease_ms / 3000):
            try:
                if not self._followed.hold(self._holder, self._lease_ms):
                    return
            except CatalogExtError as error:
                logger.warning("The lease of the follower could not be renewed: %s", error.message)
