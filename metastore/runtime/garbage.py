"""Reduces the work of Python's cyclic garbage collector in loops over millions of rows."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_RARELY = (200_000, 50, 50)
"""Thresholds of the collector: new objects before it runs, then runs of one generation before the next older one."""

_lock = threading.Lock()
_blocks = 0
_before = _ours = gc.get_threshold()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Run the cyclic garbage collector less often, in the whole process, while the context lasts.

    Objects without cycles, such as rows and names, are still freed at once by reference counting. Each run of the
    collector also walks over all objects that the process has imported, which took a third of a repair's time.
    """
    global _blocks, _before, _ours
    with _lock:
        if not _blocks:
            _before = gc.get_threshold()
            if gc.isenabled() and _before[0] < _RARELY[0]:
                gc.set_threshold(*_RARELY)
            # Read the thresholds back: Python 3.14 has no separate oldest generation and ignores its threshold.
            _ours = gc.get_threshold()
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            # Restore the old thresholds only if no other code has set its own in the meantime.
            if not _blocks and gc.get_threshold() == _ours:
                gc.set_threshold(*_before)
