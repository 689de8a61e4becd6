"""Python's search for cycles of objects, which a loop over millions of rows should not pay for."""

from __future__ import annotations

import gc
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_RARELY = (200_000, 50, 50)
"""New objects until the youngest are looked through, and how often until the older ones are."""

_lock = threading.Lock()
_blocks = 0
_before = _ours = gc.get_threshold()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the garbage collector look for cycles less often, in the whole process, within the block.

    Objects without cycles, such as rows and names, are freed as always. Each search also walks over everything that the
    process has imported, which took a third of a repair's time.
    """
    global _blocks, _before, _ours
    with _lock:
        if not _blocks:
            _before = gc.get_threshold()
            if gc.isenabled() and _before[0] < _RARELY[0]:
                gc.set_threshold(*_RARELY)
            # Python 3.14 has no separate oldest generation, and no threshold for it.
            _ours = gc.get_threshold()
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            # Other code may have set other thresholds meanwhile.
            if not _blocks and gc.get_threshold() == _ours:
                gc.set_threshold(*_before)
