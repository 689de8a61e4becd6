"""Applies a store's events to the index: events make partitions suspect, and a repair lists those in the store."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from catalog_ext.events.assignment import suspect_names, tables_of
from catalog_ext.metastore.errors import CatalogExtError, TableNotFoundError
from catalog_ext.repair.report import is_open
from catalog_ext.scan.observe import INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog_ext.context import Context
    from catalog_ext.events.assignment import Suspects
    from catalog_ext.events.notifications import StoreEvent
    from catalog_ext.repair.table_repair import TableRepair


logger = logging.getLogger(__name__)

_ATTEMPTS = 3


_REMEMBERED = 100_000


@dataclass(slots=True)
class StoreEventsOutcome:
    """The outcome of events in one table.

    Attributes:
        table: The table's name.
        checked: The number of partitions whose files were listed in the store.
        added: The number of partitions added to the index; likewise ``dropped`` and ``changed``.
        version: The table's version after the repair.
        error: The reason why some partitions could not be checked; None if all were.
    """

    table: str
    checked: int = 0
    added: int = 0
    dropped: int = 0
    changed: int = 0
    version: int = 0
    error: CatalogExtError | str | None = None


@dataclass(slots=True)
class EventsOutcome:
    """The outcome of a batch of events.

    Attributes:
        events: The number of events.
        ignored: The number of events that concern no file of a table, or are superseded by a later event.
        tables: The outcomes of the tables that the other events are about.
        left: Events that must be sent again, because a partition could not be checked.
    """

    events: int = 0
    ignored: int = 0
    tables: list[StoreEventsOutcome] = field(default_factory=list)
    left: list[StoreEvent] = field(default_factory=list)


class StoreEvents:
    """Handles events of stores. They may come in any order, repeatedly, and some may be missing."""

    def __init__(self, context: Context, repair: TableRepair) -> None:
        self._context = context
        self._repair = repair
        self._sequencers = Sequencers()

    def queue_access(self) -> dict[str, str | None]:
        """Return the connection options of a queue: the stores' credentials and region."""
        options = self._context.storage.options.default
        return {
            "aws_access_key_id": options.access_key,
            "aws_secret_access_key": options.secret_key,
            "aws_session_token": options.session_token,
            "region_name": options.region,
        }

    def take(self, events: Sequence[StoreEvent]) -> EventsOutcome:
        """Handle a batch of events with at most one commit per table, and return the outcome.

        Raises:
            IndexUnavailableError: The index does not answer. Changes of the batch that were committed before stay.
        """
        outcome = EventsOutcome(len(events))
        latest = self._sequencers.latest(events)
        suspects, ignored = tables_of(self._context.index, latest)
        outcome.ignored = len(events) - len(latest) + len(ignored)
        left: set[str] = set()
        for each in suspects:
            done, undone = self._bring_in_sync(each)
            if done is not None:
                outcome.tables.append(done)
            left.update(undone)
        self._sequencers.note(event for event in latest if event.uri not in left)
        outcome.left = [event for event in events if event.uri in left]
        return outcome

    def _bring_in_sync(self, suspects: Suspects) -> tuple[StoreEventsOutcome | None, set[str]]:
        """Compare a table's suspect partitions with the store, and commit the differences to the index.

        Return the outcome (None if the table was dropped), and the URIs of objects whose events must be sent again.
        """
        outcome: StoreEventsOutcome | None = None
        pending = dict(suspects.partitions)
        error: CatalogExtError | str | None = None
        for _ in range(_ATTEMPTS):
            try:
                table = self._context.index.tables.load_by_id(suspects.table_id)
            except TableNotFoundError:
                return outcome, set()
            outcome = outcome or StoreEventsOutcome(str(table.identifier), version=table.version)
            try:
                names = suspect_names(self._context.index, table, type(suspects)(suspects.table_id, pending))
                if not names:
                    return outcome, set()
                wildcards = table.definition.has_wildcards
                report = self._repair.look_at(table, None if wildcards else names, why="events")
            except CatalogExtError as failure:
                logger.warning("Events of table %s are left: %s", outcome.table, failure.message)
                outcome.error = failure
                return outcome, {event.uri for events in pending.values() for event in events}
            outcome.checked += len(names)
            outcome.version = report.version
            for action in ("added", "dropped", "changed"):
                partitions = {entry.partition for entry in getattr(report, action)}
                setattr(outcome, action, getattr(outcome, action) + len(partitions))
            again = [entry for entry in report.skipped if is_open(entry.reason)]
            if not again:
                outcome.error = None
                return outcome, set()
            error = again[0].reason
            left = {entry.path for entry in again}
            pending = pending if wildcards else _among(pending, names, left)
            if any(entry.reason.startswith(INCOMPLETE) for entry in again):
                break
        assert outcome is not None, "there is an attempt"
        outcome.error = error
        return outcome, {event.uri for events in pending.values() for event in events}


def _among(pending: dict[str, list[StoreEvent]], names: list[str], paths: set[str]) -> dict[str, list[StoreEvent]]:
    """Return the events of the partitions that a repair has skipped; all events if it skipped another path."""
    # Compare in lower case: a report spells keys as the table declares them.
    lower = {path.lower() for path in paths}
    found = [name for name in names if name.lower() in lower]
    return {name: pending[name] for name in (found if len(found) >= len(lower) else names)}


def is_after(one: str, other: str) -> bool:
    """Return whether a sequencer is later than another one of the same object.

    The shorter hexadecimal text is padded.
    """
    width = max(len(one), len(other))
    return one.ljust(width, "0") > other.ljust(width, "0")


class Sequencers:
    """The last handled sequencer of each object; their number is limited."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()

    def latest(self, events: Iterable[StoreEvent]) -> list[StoreEvent]:
        """Return the last event of each object, except those superseded by a handled event.

        Events without sequencers are all returned: their order is unknown.
        """
        last: dict[str, StoreEvent] = {}
        # Events without a sequencer have no order. Remove duplicates, because a store may send an event many times.
        unordered: dict[StoreEvent, None] = {}
        for event in events:
            if not event.sequencer:
                unordered[event] = None
                continue
            before = last.get(event.uri)
            if before is None or is_after(event.sequencer, before.sequencer or ""):
                last[event.uri] = event
        with self._lock:
            return [event for event in (*last.values(), *unordered) if not self._is_known(event)]

    def _is_known(self, event: StoreEvent) -> bool:
        known = self._last.get(event.uri)
        return bool(known and event.sequencer) and not is_after(event.sequencer or "", known or "")

    def note(self, events: Iterable[StoreEvent]) -> None:
        """Remember the sequencers of handled events."""
        with self._lock:
            for event in events:
                if event.sequencer and not self._is_known(event):
                    self._last[event.uri] = event.sequencer
                    self._last.move_to_end(event.uri)
            while len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)


def outcome_json(outcome: EventsOutcome) -> dict[str, Any]:
    """Return the outcome as JSON for the answer of ``events/put`` (``docs/spec/service.md``)."""
    return {
        "events": outcome.events,
        "ignored": outcome.ignored,
        "left": len(outcome.left),
        "tables": [
            {
                "table": each.table,
                "checked": each.checked,
                "added": each.added,
                "dropped": each.dropped,
                "changed": each.changed,
                "version": each.version,
                "error": each.error.message if isinstance(each.error, CatalogExtError) else each.error,
            }
            for each in outcome.tables
        ],
    }
