"""Reads the metastore's notification log in order, and detects missing events."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.events import HiveEvent
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

BATCH_EVENTS = 5000
"""The number of events in a batch; several events about one partition in a batch need only one check."""

_MOST_PARTITIONS = 50_000
"""A batch ends with the event that brings the number of partition names above this."""

FIRST_CALL, SMALLEST_CALL = 100, 10
_LARGEST_CALL = 1000
_MUCH_A_CALL = 10_000
"""The number of partitions in an answer (about a kilobyte each) from which on the next call asks for fewer events."""
_SLOW_S = 1.0
_LARGEST_ANSWER = 16_000_000
"""The most characters of messages in the answer of a slow server; they are in memory twice during parsing."""
_OF_ONE_NUMBER = 10
"""The most events that share a number: several servers of release 2.3 may assign the same number."""
_SETTLE_S = 0.5
"""The seconds to wait for a missing number: the event's transaction may commit a moment after those of later events."""


@dataclass(slots=True)
class LogEvents:
    """Consecutive events of the metastore's notification log, as one call has read them.

    Attributes:
        events: The events, in order.
        upto: The number of the last event that was read.
        gap: The reason why events are missing; None if no event is missing.
        lost: The reason why this log is not the one that earlier calls have read; ``events`` is then empty. None for
            the same log.
    """

    upto: int
    events: list[HiveEvent] = field(default_factory=list)
    gap: str | None = None
    lost: str | None = None

    @property
    def mark(self) -> str | None:
        """The mark of the event ``upto``, which identifies it in the log; None if it is not in ``events``."""
        last = self.events[-1] if self.events else None
        return mark_of(last) if last is not None and last.event_id == self.upto else None

    def add(self, found: Sequence[HiveEvent]) -> None:
        """Append the next events, and note the first gap between their numbers."""
        for event in found:
            if event.event_id > self.upto + 1:
                missing = f"{self.upto + 1} to {event.event_id - 1}"
                self.gap = self.gap or f"the events from {missing} are missing"
            # Several servers of release 2.3 may assign the same number, so the number need not increase.
            self.upto = max(self.upto, event.event_id)
        self.events += found


def mark_of(event: HiveEvent) -> str:
    """Return the mark of an event: a text that no other event of any log has."""
    return json.dumps([event.event_id, event.at_s, event.kind, event.database, event.table])


def marks_at(client: HiveMetastore, event_id: int) -> list[str]:
    """Return the marks of the events with this number: none if the event has expired, several if servers share numbers.

    Raises:
        MetastoreError: The metastore does not answer, or refuses.
    """
    return [mark_of(event) for event in client.events_after(event_id - 1, _OF_ONE_NUMBER) if event.event_id == event_id]


def another_log(event_id: int, mark: str, found: Sequence[str]) -> str | None:
    """Return why a log is not the one that was read before, judged by one event; None if it may be the same log.

    Args:
        event_id: The event's number.
        mark: The mark that the event with this number had when it was read before.
        found: The marks of the events that have this number now; empty if they have expired.
    """
    if not found or mark in found:
        return None
    return f"the log has been lost: its event {event_id} is {found[0]}, and was {mark}"


def read_batch(
    client: HiveMetastore, after: int, newest: int, most: int = BATCH_EVENTS, *, mark: str | None = None,
    first_call: int = FIRST_CALL, sleep: Callable[[float], None] = time.sleep,
) -> LogEvents:  # fmt: skip
    """Return the next events after an event.

    Args:
        client: The metastore.
        after: The number of the last processed event.
        newest: The number of the newest event in the log.
        most: The greatest number of events.
        mark: The mark of the last processed event, to detect a different log; None if it has no mark.
        first_call: The number of events that the first call asks for.
        sleep: Waits a number of seconds.

    Raises:
        MetastoreError: The metastore does not answer, or refuses.
    """
    batch = LogEvents(after)
    partitions, asked = 0, first_call
    while len(batch.events) < most and partitions < _MOST_PARTITIONS and batch.upto < newest:
        began = time.monotonic()
        # In a long log do not retry a failed call at once: reading events far back may be what makes the server fail.
        once = newest - batch.upto > BATCH_EVENTS
        wanted = min(asked, most - len(batch.events))
        there, found = _next(client, batch.upto, wanted, sleep, itself=mark is not None, once=once)
        took_s = time.monotonic() - began
        if mark is not None:
            batch.lost = another_log(after, mark, there)
            if batch.lost is not None:
                return batch
            mark = None
        if not found:
            batch.gap = batch.gap or f"the events from {batch.upto + 1} to {newest} are gone"
            batch.upto = newest
            break
        batch.add(found)
        here = sum(len(event.partitions or ()) for event in found)
        partitions += here
        asked = _next_call(asked, here, found, took_s)
    return batch


def _next_call(asked: int, partitions: int, found: Sequence[HiveEvent], took_s: float) -> int:
    """Return how many events to ask for in the next call, by the size and duration of the last answer."""
    asked = max(asked // 4, SMALLEST_CALL) if partitions > _MUCH_A_CALL else min(asked * 2, _LARGEST_CALL)
    if took_s <= _SLOW_S:
        return asked
    # Release 2.3 reads the rest of the log for each call, whatever it is asked for, so make few large calls.
    size = sum(event.message_size for event in found) // len(found)
    return max(asked, min(BATCH_EVENTS, _LARGEST_ANSWER // max(size, 1)))


def _next(
    client: HiveMetastore, after: int, most: int, sleep: Callable[[float], None], *, itself: bool, once: bool
) -> tuple[list[str], list[HiveEvent]]:
    """Return the events after the number ``after``, and the marks (`mark_of`) of the events with that number.

    The marks show whether the metastore still has the same log. They are empty without ``itself``.
    """

    def ask() -> tuple[list[str], list[HiveEvent]]:
        found = client.events_after(after - itself, most + itself, once=once)
        behind = [event for event in found if event.event_id > after]
        return [mark_of(event) for event in found if event.event_id == after], behind

    there, found = ask()
    if _has_gap(found, after):
        sleep(_SETTLE_S)
        there, found = ask()
    return there, found


def _has_gap(events: list[HiveEvent], after: int) -> bool:
    expected = after
    for event in events:
        if event.event_id > expected + 1:
            return True
        expected = max(expected, event.event_id)
    return not events
