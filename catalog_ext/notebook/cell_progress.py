"""A progress bar in a notebook's cell, for long calls to which the caller gave no callback.

The bar is an HTML ``<progress>`` that IPython shows and updates: bars of libraries need ipywidgets, which may be
missing. It appears after half a second and is removed at the end.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from catalog_ext.context import no_progress
from catalog_ext.overview.formats import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.context import Progress, RepairProgress

logger = logging.getLogger(__name__)

AFTER_S = 0.5
"""Seconds that pass before a bar is shown."""

EVERY_S = 0.2
"""Seconds between two updates."""

Show: TypeAlias = "Callable[[dict[str, str], bool], None]"
"""Shows texts by MIME type; if the second argument is True, it updates the previous output."""


@contextlib.contextmanager
def cell_progress(title: str) -> Iterator[Progress]:
    """Yield a callback that shows a bar in the running cell of a notebook; elsewhere the callback does nothing."""
    with _bar(title) as bar:
        yield no_progress if bar is None else bar.update


@contextlib.contextmanager
def cell_steps(words: str, total: int) -> Iterator[Callable[[str], None]]:
    """Yield a callback for a call in ``total`` steps, to which the name of each finished step is passed."""
    numbers = count(1)
    with _bar(f"{words}: 0 of {total:,}") as bar:

        def ended(name: str) -> None:
            if bar is not None:
                done = next(numbers)
                bar.say(f"{words}: {done:,} of {total:,}, the last {name}", done, total)

        yield ended


@contextlib.contextmanager
def _bar(title: str) -> Iterator[CellBar | None]:
    """Yield a bar in the running cell; None unless a cell runs on this thread."""
    show = _shower()
    bar = None if show is None else CellBar(show, title)
    try:
        yield bar
    finally:
        if bar is not None:
            bar.close()


def _shower() -> Show | None:
    """Return a function that shows or updates output of the running cell; None unless a cell runs on this thread.

    A service in the kernel's process works on other threads, for other sessions: it must not write to the cell.
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
    """A progress bar that appears ``AFTER_S`` seconds after its creation. Until the first report it shows its title."""

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
        """Show a report, at most every ``EVERY_S`` seconds."""
        words, counts = in_words(report)
        self.say(f"{words}: {counts}" if counts else words, report.partitions, report.total)

    def say(self, words: str, done: int, total: int | None) -> None:
        """Show words and the done part of a total, at most every ``EVERY_S`` seconds."""
        self._state = (words, done, total)
        if time.monotonic() >= self._next:
            self._draw()

    def close(self) -> None:
        """Remove the bar."""
        self._timer.cancel()
        with self._lock:
            if self._shown:
                self._publish({"text/html": "", "text/plain": ""}, True)
            self._closed = True

    def _draw(self) -> None:
        # Imported here: most long calls run outside a notebook and need no template.
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
            # Log the error and continue: a broken connection to the notebook must not end a repair.
            logger.exception("A bar cannot be shown")
            self._closed = True
