"""Reads the metastore's notification log, in order, and notices where events are missing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.hive.events.event import HiveEvent
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

BATCH_EVENTS = 5000
"""Events that are dealt with together: what they say of one partition is looked at once."""

_MOST_PARTITIONS = 50_000
"""Partitions that the events of a batch name; it ends with the event that brings more."""

_FIRST_CALL, _LARGEST_CALL, _SMALLEST_CALL = 100, 1000, 10
_MUCH_A_CALL = 10_000
"""Partitions in one answer, a megabyte for a thousand, from which on the next call asks for less."""
_SETTLE_S = 0.5
"""How long an event is waited for whose successors are there: one that is not committed yet comes in a moment."""


@dataclass(slots=True)
class Batch:
    """Events that follow one another.

    Attributes:
        events: In their order.
        upto: The last event that the log is read to.
        gap: Why events are missing among them; None where they are all there.
    """

    upto: int
    events: list[HiveEvent] = field(default_factory=list)
    gap: str | None = None


def read_batch(
    client: HiveMetastore, after: int, newest: int, most: int = BATCH_EVENTS, *,
    sleep: Callable[[float], None] = time.sleep,
) -> Batch:  # fmt: skip
    """Return the next events after one.

    Args:
        client: The metastore.
        after: The number of the last event that is known.
        newest: The number of the newest that there is.
        most: How many at most.
        sleep: Waits the seconds given.

    Raises:
        MetastoreError: The metastore does not answer, or refuses.
    """
    batch = Batch(after)
    partitions, asked = 0, _FIRST_CALL
    while len(batch.events) < most and partitions < _MOST_PARTITIONS and batch.upto < newest:
        found = _next(client, batch.upto, min(asked, most - len(batch.events)), sleep)
        if not found:
            batch.gap = batch.gap or f"the events from {batch.upto + 1} to {newest} are gone"
            batch.upto = newest
            break
        for event in found:
            if event.event_id > batch.upto + 1:
                missing = f"{batch.upto + 1} to {event.event_id - 1}"
                batch.gap = batch.gap or f"the events from {missing} are missing"
            # Several servers of release 2.3 may give one number twice.
            batch.upto = max(batch.upto, event.event_id)
        batch.events += found
        here = sum(len(event.partitions or ()) for event in found)
        partitions += here
        asked = max(asked // 4, _SMALLEST_CALL) if here > _MUCH_A_CALL else min(asked * 2, _LARGEST_CALL)
    return batch


def _next(client: HiveMetastore, after: int, most: int, sleep: Callable[[float], None]) -> list[HiveEvent]:
    found = client.events_after(after, most)
    if _has_gap(found, after):
        sleep(_SETTLE_S)
        found = client.events_after(after, most)
    return found


def _has_gap(events: list[HiveEvent], after: int) -> bool:
    expected = after
    for event in events:
        if event.event_id > expected + 1:
            return True
        expected = max(expected, event.event_id)
    return not events
