"""A bar in a notebook's cell, where something takes a while and the caller has not taken the progress himself.

It is a ``<progress>`` of HTML, shown and changed by IPython itself: bars of libraries need widgets, which are not
everywhere. Nothing is shown of what is over in half a second, and nothing stays.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from catalog_ext.overview.progress import in_words, no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.overview.progress import Progress, RepairProgress

logger = logging.getLogger(__name__)

AFTER_S = 0.5
"""Seconds that pass before a bar is shown."""

EVERY_S = 0.2
"""Seconds between two looks of it."""

Show: TypeAlias = "Callable[[dict[str, str], bool], None]"
"""Shows texts by their MIME types, or changes what is shown to them."""


@contextlib.contextmanager
def cell_progress(given: Progress | None, title: str) -> Iterator[Progress]:
    """Yield what takes the progress: the caller's own, else a bar in a notebook's cell, and elsewhere nothing.

    Args:
        given: The caller's own.
        title: What is shown before the first report.
    """
    show = None if given is not None else _shower()
    if show is None:
        yield given or no_progress
        return
    bar = CellBar(show, title)
    try:
        yield bar.update
    finally:
        bar.close()


@contextlib.contextmanager
def cell_steps(words: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yield what is told the name of each thing that is done, of so many, and shows a bar in a notebook's cell.

    Args:
        words: What is done with them.
        total: How many there are.
    """
    show = _shower()
    if show is None:
        yield lambda _: None
        return
    bar, done = CellBar(show, f"{words}: 0 of {total:,}"), 0

    def ended(name: str) -> None:
        nonlocal done
        done += 1
        bar.say(f"{words}: {done:,} of {total:,}, the last {name}", done, total)

    try:
        yield ended
    finally:
        bar.close()


def _shower() -> Show | None:
    """Return what shows something in the running cell, and changes it; None where no cell runs, or not in this thread.

    A service in the kernel's process works for somebody else: it shows nothing in the cell that runs meanwhile.
    """
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if (
        shell is None
        or getattr(shell, "kernel", None) is None
        or threading.current_thread() is not threading.main_thread()
    ):
        return None
    name = f"catalog-ext-{uuid4().hex}"

    def show(data: dict[str, str], again: bool) -> None:
        shell.display_pub.publish(data=data, transient={"display_id": name}, update=again)

    return show


class CellBar:
    """A bar that appears after a while, whether or not it has heard something by then.

    Args:
        show: Shows something, or (the second argument) changes what is shown.
        title: What is shown before the first report.
    """

    def __init__(self, show: Show, title: str) -> None:
        self._show = show
        self._state: tuple[str, int, int | None] = (title, 0, None)
        self._lock = threading.Lock()
        self._shown = self._closed = False
        self._next = time.monotonic() + AFTER_S
        self._timer = threading.Timer(AFTER_S, self._draw)
        self._timer.daemon = True
        self._timer.start()

    def update(self, report: RepairProgress) -> None:
        """Show how far it is, unless it has shown something a moment ago."""
        words, counts = in_words(report)
        self.say(f"{words}: {counts}" if counts else words, report.partitions, report.total)

    def say(self, words: str, done: int, total: int | None) -> None:
        """Show how far it is, in words and as a part of all, unless it has shown something a moment ago."""
        self._state = (words, done, total)
        if time.monotonic() >= self._next:
            self._draw()

    def close(self) -> None:
        """Take it away."""
        self._timer.cancel()
        with self._lock:
            if self._shown:
                self._publish({"text/html": "", "text/plain": ""}, True)
            self._closed = True

    def _draw(self) -> None:
        # Not at the top: what imports tables is known to the command line, which shows help without loading the index.
        from catalog_ext.notebook.markup import render

        with self._lock:
            words, done, total = self._state
            html = render("progress.html", words=words, done=done, total=total)
            self._publish({"text/html": html, "text/plain": words}, self._shown)
            self._shown = True
            self._next = time.monotonic() + EVERY_S

    def _publish(self, data: dict[str, str], again: bool) -> None:
        if self._closed:
            return
        try:
            self._show(data, again)
        except Exception:
            # What is shown is no reason to end a repair.
            logger.exception("A bar cannot be shown")
            self._closed = True
