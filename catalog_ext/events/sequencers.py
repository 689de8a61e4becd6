"""Remembers the last event of each object, so that one that comes twice or late costs nothing."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_ext.events.notifications import StoreEvent

_REMEMBERED = 100_000


def is_after(one: str, other: str) -> bool:
    """Return whether a sequencer comes after another one of the same object: hexadecimal, the shorter filled up."""
    width = max(len(one), len(other))
    return one.ljust(width, "0") > other.ljust(width, "0")


class Sequencers:
    """The last sequencers of the objects whose events were dealt with, as many as memory should hold."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, str] = OrderedDict()
        self._lock = Lock()

    def latest(self, events: Iterable[StoreEvent]) -> list[StoreEvent]:
        """Return the last event of each object, but for those after which one has been dealt with already.

        Events without sequencers are all returned: which of them is the last nobody says.
        """
        last: dict[str, StoreEvent] = {}
        # Without order, but each once: a store may tell of the same many times.
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
        """Remember that events were dealt with."""
        with self._lock:
            for event in events:
                if event.sequencer and not self._is_known(event):
                    self._last[event.uri] = event.sequencer
                    self._last.move_to_end(event.uri)
            while len(self._last) > _REMEMBERED:
                self._last.popitem(last=False)
