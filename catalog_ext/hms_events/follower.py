"""The follower: imports changes that Hive engines make in the metastore, from its event log or by comparisons.

One process follows at a time; another one waits and takes over. ``docs/design/7-following.md`` lists the guarantees.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import TYPE_CHECKING

from catalog_ext.conf import metastore_keys
from catalog_ext.hms_events.comparison import Checked
from catalog_ext.hms_events.run import FollowRun
from catalog_ext.hms_events.suspects import FollowOutcome
from catalog_ext.hms_events.tables import ALL
from catalog_ext.identity.record import no_metastore
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexDatabaseError,
    InvalidInputError,
)
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.runtime.wording import counted, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from typing_extensions import Self

    from catalog_ext.context import Context
    from catalog_ext.metastore.index.tables.followed import FollowedMetastore, KeptSuspect
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.tables.hive_import import HiveImport
    from catalog_ext.tables.removal import TableRemoval


logger = logging.getLogger(__name__)

WAITING = "waiting"


LEASE_MS = 30_000
"""The lease of the active follower, in milliseconds. Without a renewal another process takes over after this time."""


class Follower:
    """Imports changes that other engines make in the metastore into the index."""

    def __init__(self, context: Context, repair: TableRepair, imports: HiveImport, removal: TableRemoval) -> None:
        self._context = context
        self._parts = (repair, imports, removal)
        self._databases: frozenset[str] = metastore_keys.FOLLOW_DATABASES.read(context.settings.conf)
        self._compare_s = metastore_keys.FOLLOW_COMPARE_INTERVAL.read(context.settings.conf)
        # Include a random part: two followers in one process must not share a lease.
        self._holder = f"{uuid.uuid4().hex[:8]}@{this_process()}"
        self._looking = threading.Lock()
        self._checked = Checked()
        self._held = False
        self._asked_for: frozenset[str] = frozenset()

    def look(
        self, databases: Iterable[str] | None = None, done: Callable[[FollowOutcome], None] | None = None, *,
        at_once: bool = False, dry_run: bool = False,
    ) -> FollowOutcome:  # fmt: skip
        """Import all changes up to now, once, and return the outcome.

        Args:
            databases: Databases whose new tables are imported; None for the setting ``follow.databases``.
            done: Called after each batch with its outcome.
            at_once: Whether a metastore without a log is compared now, even if the last comparison is recent.
            dry_run: Preview: report what would be done, and change nothing; works beside an active follower.

        Raises:
            InvalidConfigurationError: There is no metastore.
            MetastoreUnavailableError: The metastore does not answer, or is not the index's own; no change is lost.
            IndexDatabaseError: The index does not answer.
        """
        self._require_metastore()
        chosen = self._databases if databases is None else frozenset(name.lower() for name in databases)
        if dry_run:
            return FollowRun(
                self._context, self._parts, chosen, 0.0, self._holder, self._checked.copy(), dry_run=True
            ).run(done)  # fmt: skip
        with self._looking, FollowerLease(self._context.index.followed, self._holder) as lease:
            if not lease.held:
                return FollowOutcome(WAITING)
            self._held = True
            compare_s = 0.0 if at_once else self._compare_s
            look = FollowRun(self._context, self._parts, chosen, compare_s, self._holder, self._checked)
            try:
                self._warn_of_unknown(chosen)
                return look.run(done)
            except IndexDatabaseError:
                raise
            except CatalogExtError as error:
                self._context.index.followed.note_failure(self._holder, error.message, look.unread)
                raise

    def check_databases(self, databases: Iterable[str]) -> None:
        """Check that the databases exist in the metastore, or in the index, which publishes them.

        A single run does not wait for a database that may be created later. A permanent follower only warns of it.

        Raises:
            InvalidConfigurationError: There is no metastore.
            InvalidInputError: A database exists on neither side.
            MetastoreUnavailableError: The metastore does not answer.
        """
        self._require_metastore()
        unknown = self._unknown(frozenset(name.lower() for name in databases))
        if unknown:
            name, suggestion = next(iter(unknown.items()))
            raise InvalidInputError(
                f"The metastore {self._context.metastore.uri()} has no database {name[:200]}, of which new tables were "
                f"to be imported. {suggestion}Name one that it has, * for all, or leave it out: tables that the index "
                "has are followed anyway. Without --once it may be made later.",
                {"database": name[:200]},
            )

    def kept(self) -> list[KeptSuspect]:
        """Return the index's tables that are out of sync with the metastore: refused ones, and ones to check again.

        A table that was never imported, such as a Hive view, is not among them.
        """
        return [
            each
            for each in self._context.index.followed.suspects()
            if each.suspect is not None or self._is_ours(each.table)
        ]

    def _is_ours(self, name: str) -> bool:
        return self._context.find_table(self._context.identify(name)) is not None

    def _require_metastore(self) -> None:
        if not self._context.metastore.enabled:
            raise no_metastore(self._context.index, "to follow")

    def _warn_of_unknown(self, databases: frozenset[str]) -> None:
        """Log once that a followed database does not exist. If it is created later, its tables are imported."""
        if databases == self._asked_for:
            return
        for name, question in self._unknown(databases).items():
            logger.warning(
                "The metastore has no database %s yet, of which new tables are to be imported. %sIts tables are taken "
                "once it is there.", name[:200], question,
            )  # fmt: skip
        self._asked_for = databases

    def _unknown(self, databases: frozenset[str]) -> dict[str, str]:
        """Return the databases that exist on neither side, each with a "did you mean" question."""
        if not databases - {ALL}:
            return {}
        there = {*self._context.metastore.client().list_databases(), *self._context.index.namespaces.all()}
        return {name: did_you_mean(name, there) for name in sorted(databases - there - {ALL})}

    def close(self) -> None:
        """Release the lease, so that another process can follow at once."""
        if not self._held:
            return
        self._held = False
        try:
            self._context.index.followed.release(self._holder)
        except CatalogExtError as error:
            logger.info("Another process follows the metastore when the lease is over: %s", error.message)


class FollowerLease:
    """A context that holds the follower's lease, which a thread renews. After the context the lease simply expires.

    Attributes:
        held: Whether the lease was free, so that this process holds it.
    """

    def __init__(self, followed: FollowedMetastore, holder: str, lease_ms: int = LEASE_MS) -> None:
        self._followed = followed
        self._holder = holder
        self._lease_ms = lease_ms
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.held = False

    def __enter__(self) -> Self:
        """Acquire the lease, if it is free, and start its renewal."""
        self.held = self._followed.hold(self._holder, self._lease_ms)
        if self.held:
            self._thread = threading.Thread(target=self._renew, name="catalog-ext-follower-lease", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the renewal."""
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


logger = logging.getLogger(__name__)

LONGEST_PAUSE_S = 60.0


def pause_s(interval_s: float, failures: int) -> float:
    """Return the seconds to wait after a number of failures in a row."""
    return min(interval_s * float(2 ** min(failures, 20)), LONGEST_PAUSE_S)


class BackgroundFollowing:
    """A periodic task that runs the follower once at each call; after failures it skips calls for a growing pause.

    Args:
        follower: The follower.
        interval_s: Seconds between two calls.
        databases: The databases whose new tables are imported; None for the setting ``follow.databases``.
        clock: Returns the time, in seconds.
    """

    def __init__(
        self, follower: Follower, interval_s: float, databases: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._follower = follower
        self._databases = databases
        self._interval_s = interval_s
        self._clock = clock
        self._failures = 0
        self._last: str | None = None
        self._not_before = 0.0

    def __call__(self) -> None:
        """Run the follower, unless the pause after a failure is not over."""
        if self._clock() < self._not_before:
            return
        try:
            outcome = self._follower.look(self._databases)
        except CatalogExtError as error:
            self._failures += 1
            self._not_before = self._clock() + pause_s(self._interval_s, self._failures)
            if error.message != self._last:
                logger.warning("The metastore is not followed for now: %s", error.message)
            self._last = error.message
            return
        if self._last is not None:
            logger.info("The metastore is followed again.")
        self._failures, self._last = 0, None
        for each in outcome.tables:
            if each.says_something:
                counts = ", ".join(
                    f"{counted(n, 'partition')} {what}"
                    for what, n in (("added", each.added), ("dropped", each.dropped), ("changed", each.changed))
                    if n
                )
                logger.info(
                    "Table %s: %s%s%s", each.table, each.action, f", {counts}" if counts else "",
                    "" if each.error is None else f": {each.error}",
                )  # fmt: skip
