"""Keeps the metastore in sync with the index: delivers pending messages, and describes the metastore's state."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.conf import keys
from catalog_ext.identity.record import METASTORE_ID
from catalog_ext.metastore.errors import (
    CatalogExtError,
    MetastoreUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.conversion import bucketed_by, unrepresentable_reason
from catalog_ext.metastore.hive.outbox.compare import check_ours, definition_differs, key_types_differ
from catalog_ext.metastore.hive.outbox.delivery import MESSAGES_PER_COMMIT, UNDER_WAY, Deliverer, DeliveryReport
from catalog_ext.metastore.runtime.error_kinds import ErrorKinds
from catalog_ext.metastore.storage.locations import locations_equal

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.conf.resolved import Settings
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore_sync.connection import MetastoreConnection


logger = logging.getLogger(__name__)

STARTING_PAUSE_S = 0.5
"""The pause before the next delivery to an embedded metastore that is still starting, in seconds; that delivery waits
for it."""


class MetastoreSync:
    """Delivers the outbox of an index to a metastore, at once or later.

    Args:
        index: The index with the outbox.
        metastore: The connection to the metastore; the catalog may have no metastore.
        settings: Contain the time that a change waits for its delivery.
        before: Called after a change and before its delivery, to change dependent objects in the index.
    """

    def __init__(
        self, index: Index, metastore: MetastoreConnection, settings: Settings, before: Callable[[], None] | None = None
    ) -> None:
        self._index = index
        self._metastore = metastore
        self._before = before
        self._warned: dict[int | None, str] = {}
        self._unreached: str | None = None
        self._timeout_s = keys.METASTORE_TIMEOUT.read(settings.conf)
        self._waiting_deliverer = Deliverer(index.outbox, lambda: metastore.client(self._timeout_s))
        # This client is for deliveries right after a change, which must not wait for an embedded metastore that is
        # still starting.
        self._immediate_deliverer = Deliverer(index.outbox, metastore.started_client)
        self._last: DeliveryReport | None = None
        self._met = not metastore.embedded
        self._delivering = threading.Lock()
        self._retry = DeliveryRetry(self.deliver)

    def close(self) -> None:
        """Stop the background deliveries. Messages that waited for a starting embedded metastore are delivered now."""
        self._retry.close()
        if self._metastore.embedded and self._last is not None and self._last.pending:
            self.deliver()

    def deliver(self, timeout_s: float | None = None) -> DeliveryReport:
        """Deliver due messages, for at most ``timeout_s`` seconds (``repair.metastore-timeout``).

        Raises:
            IndexRestoredError: The index was restored: the metastore may have had its messages already, or newer ones.
        """
        if not self._metastore.enabled:
            return DeliveryReport(0, 0, None)
        self._index.incarnations.require_current()
        end = time.monotonic() + (timeout_s or self._timeout_s)
        # Wait for this process's background delivery: its claimed messages would otherwise be missing in the report.
        mine = self._delivering.acquire(timeout=timeout_s or self._timeout_s)
        try:
            return self._noted(self._waiting_deliverer.deliver(timeout_s=max(end - time.monotonic(), 0)))
        finally:
            if mine:
                self._delivering.release()

    def _noted(self, report: DeliveryReport) -> DeliveryReport:
        """Remember a report's failure for later calls and for the warnings, and return the report."""
        self._last = report
        # Remember why no server was reached: a delivery within the backoff pause does not try again, and needs this
        # reason.
        if report.error is not None and not report.reached:
            self._unreached = report.error
        elif report.delivered or not report.pending:
            self._unreached = None
        if report.delivered and not self._met:
            self._record_embedded_id()
        return report

    def _record_embedded_id(self) -> None:
        found = self._metastore.embedded_id
        try:
            if found is not None:
                self._index.properties.add_missing({METASTORE_ID: found})
            self._met = True
        except CatalogExtError as error:
            logger.info("Could not record the id of the embedded metastore in the index: %s", error.message)

    def keep_delivering(self) -> None:
        """Also deliver messages that other processes have left pending, periodically, until ``close``."""
        if self._metastore.enabled:
            self._retry.keep_delivering()

    def publish(self, table_id: int | None = None) -> DeliveryReport | None:
        """Deliver the messages of a change; what cannot be delivered now is delivered later in the background.

        Args:
            table_id: The number of the changed table or view; None for another change.

        Returns:
            The pending messages of the table, and the reason; None without a metastore.
        """
        if self._before is not None:
            self._before()
        if not self._metastore.enabled:
            return None
        report = self._noted(self._immediate_deliverer.deliver(timeout_s=self._timeout_s, most=MESSAGES_PER_COMMIT))
        if report.pending:
            self._retry.schedule(STARTING_PAUSE_S if self._metastore.starting else FIRST_PAUSE_S)
        own = self._of_table(table_id, report)
        if not self._metastore.starting:
            self._warn(table_id, own)
        return own

    def _of_table(self, table_id: int | None, report: DeliveryReport) -> DeliveryReport:
        """Return the report for one table: its failures and the whole metastore's, not those of other tables."""
        if table_id is None or not report.pending:
            return report
        pending, error = self._index.outbox.pending_of(table_id)
        common = self._unreached if report.reached else report.error
        return replace(report, pending=pending, error=(error or common) if pending else None)

    def _warn(self, table_id: int | None, own: DeliveryReport) -> None:
        """Log a warning of pending messages, once per failure. After a success a new failure is logged again."""
        trouble = own.error or UNDER_WAY
        if not own.pending or (table_id is None and own.reached):
            self._warned.pop(table_id, None)
        elif self._warned.get(table_id) != trouble:
            # If no server answers, all tables fail for the same reason: warn only once.
            known = trouble in self._warned.values() and trouble == self._unreached
            self._warned[table_id] = trouble
            if known:
                return
            logger.warning(
                "The metastore has not taken everything yet (%d pending: %s). It is kept in the index and delivered "
                "later, in order.",
                own.pending,
                trouble.rstrip("."),
            )

    def state(self, table: Table | None = None) -> str:
        """Describe the metastore: ``none``, ``in sync``, the pending messages, or why it cannot store the table.

        Args:
            table: The table in question; None for the metastore alone.
        """
        if not self._metastore.enabled:
            return "none"
        reason = unrepresentable_reason(table.definition) if table is not None else None
        if reason is not None:
            return f"cannot hold the table: {reason}"
        last = self._last
        if last is not None and table is not None:
            last = self._of_table(table.table_id, last)
        if last is None or not last.pending:
            return "in sync" if table is None or self._metastore.starting else self._compared(table)
        changes = "1 change" if last.pending == 1 else f"{last.pending} changes"
        return f"{changes} pending: {last.error or UNDER_WAY}"

    def _compared(self, table: Table) -> str:
        """Return ``in sync``, or the differences to the metastore, for a table without pending messages."""
        definition = table.definition
        try:
            found = self._metastore.client().get_table(table.identifier.namespace, table.identifier.name)
            check_ours(found, definition)
        except CatalogExtError as error:
            return f"not in sync: {error.message}"
        if not (definition_differs(found, definition) or key_types_differ(found, definition)):
            return "in sync"
        return (
            "not in sync: its table was there before, with other columns, types or properties; "
            f"catalog-ext publish {table.identifier} alters it"
        )

    def check_free(self, definition: TableDefinition) -> None:
        """Refuse a table's name that belongs to another table in the metastore.

        If the metastore is down, accept the name.

        Raises:
            TableAlreadyExistsError: The metastore has a table of this name at another location.
        """
        identifier = definition.identifier
        if not self._metastore.enabled or self._metastore.starting:
            return
        reason = unrepresentable_reason(definition)
        if reason is not None:
            logger.warning("The metastore cannot hold table %s, which stays in the index alone: %s", identifier, reason)
            return
        try:
            there = self._metastore.client().get_table(identifier.namespace, identifier.name)
        except TableNotFoundError:
            return
        except MetastoreUnavailableError as error:
            if error.message not in self._warned.values():
                logger.warning(
                    "Table %s is registered in the index alone for now, and delivered later: %s",
                    identifier,
                    error.message,
                )
                # Remember the failure as already logged, because the delivery that follows fails in the same way.
                self._warned[None] = self._unreached = error.message
            return
        bucket_definition = bucketed_by(there)
        if bucket_definition is not None:
            raise TableAlreadyExistsError(
                f"The metastore has a table {identifier} already, which is bucketed ({bucket_definition}). Import it "
                "with import_table, which knows what that means, or choose another name.",
                {"table": str(identifier), "location": there.location},
            )
        # A view has no location, and a foreign scheme is not supported. In either case the locations differ, and it is
        # another table.
        if not locations_equal(there.location, definition.location):
            raise TableAlreadyExistsError(
                f"The metastore has a table {identifier} already, at {there.location or 'no location'}. Import it with "
                "import_table, or choose another name.",
                {"table": str(identifier), "location": there.location},
            )


FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0
IDLE_PAUSE_S = 30.0


class DeliveryRetry:
    """Repeats deliveries in the background, at growing intervals, until nothing is pending.

    No thread runs while nothing is pending, unless `keep_delivering` was called. Messages that are pending when the
    process ends stay in the index, and the next change by any process delivers them.
    """

    def __init__(self, deliver: Callable[[], DeliveryReport]) -> None:
        self._deliver = deliver
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._closed = False
        self._always = False
        self._kinds = ErrorKinds()

    def keep_delivering(self) -> None:
        """Look for messages that other processes have left pending, every ``IDLE_PAUSE_S`` seconds."""
        self._always = True
        self.schedule(IDLE_PAUSE_S)

    def schedule(self, pause_s: float = FIRST_PAUSE_S) -> None:
        """Schedule a delivery after a pause, unless a delivery is scheduled already."""
        with self._lock:
            if self._closed or self._timer is not None:
                return
            self._timer = threading.Timer(pause_s, self._run, args=(pause_s,))
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Schedule no further delivery, and wait for a running one."""
        with self._lock:
            self._closed = True
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()

    def _run(self, pause_s: float) -> None:
        try:
            pending = self._deliver().pending
        except Exception as error:  # noqa: BLE001 -- no caller waits for this answer; it is logged, and tried again
            self._log(error)
            pending = 1
        with self._lock:
            self._timer = None
        if pending:
            self.schedule(min(2 * pause_s, LONGEST_PAUSE_S))
        elif self._always:
            self.schedule(IDLE_PAUSE_S)
        else:
            logger.info("The metastore has taken everything that was pending.")

    def _log(self, error: Exception) -> None:
        if isinstance(error, CatalogExtError):
            logger.warning("Delivery to the metastore failed and is tried again later: %s", error.message)
        elif self._kinds.is_new(error):
            logger.error("Delivery to the metastore failed unexpectedly, and goes on: %s", error, exc_info=error)
