"""Progress bars and spinners on standard error, if it is a terminal."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview.formats import PHASES, in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import Progress

    from catalog_ext.catalog import Catalog
    from catalog_ext.context import Progress as Report
    from catalog_ext.context import RepairProgress

_ASKED_EVERY_S = 0.5


@contextlib.contextmanager
def progress_bar(console: Console, title: str, catalog: Catalog | None = None) -> Iterator[Report]:
    """Yield a callback that shows the phases of a repair or import in a bar, on a terminal.

    Args:
        console: The console of standard error.
        title: The text before the first report.
        catalog: If given, its embedded metastore is started when changes are applied, and the bar shows how many
            changes its outbox has delivered.
    """
    if not console.is_terminal:
        yield lambda report: _expect(catalog, report)
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = _Bar(progress, title, catalog)
        try:
            yield bar.update
        finally:
            bar.close()


def _expect(catalog: Catalog | None, report: RepairProgress) -> None:
    if catalog is not None and report.phase == "applying":
        catalog.metastore.start()


class _Bar:
    """A progress bar for all phases. Its clock and spinner do not restart between phases."""

    def __init__(self, progress: Progress, title: str, catalog: Catalog | None) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None, counts="")
        self._catalog = catalog
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    def close(self) -> None:
        """Stop the thread that watches the outbox."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()

    def update(self, report: RepairProgress) -> None:
        """Show the reported phase and counts."""
        _expect(self._catalog, report)
        if report.phase == "delivering" and self._catalog is not None:
            self._watch(self._catalog)
            return
        words, counts = in_words(report)
        self._show(words, report.partitions, report.total, counts)

    def _show(self, words: str, done: int, total: int | None, counts: str) -> None:
        task = self._progress.tasks[0]
        if total is None:
            # rich keeps the old total if it is given None: the full bar of the previous phase would stay.
            task.total = None
        # rich stops the clock of a full bar.
        self._progress.update(
            self._task, description=words, total=None if total is None else max(total, done + 1), completed=done,
            counts=counts,
        )  # fmt: skip

    def _watch(self, catalog: Catalog) -> None:
        """Show the number of delivered outbox messages until the bar is closed; any process may deliver them."""
        if not catalog.metastore.enabled or self._watcher is not None:
            return
        words = PHASES["delivering"]

        def look() -> None:
            most = 0
            while not self._closed.is_set():
                try:
                    left = catalog.index.outbox.count()
                except CatalogExtError:
                    # Ignore the error here: the delivery itself meets the same error and reports it.
                    return
                most = max(most, left)
                if catalog.metastore.starting and left:
                    self._show("Starting the embedded metastore", 0, None, f"{counted(left, 'change')} to deliver")
                elif most:
                    self._show(words, most - left, most, f"{most - left:,} of {counted(most, 'change')}")
                self._closed.wait(_ASKED_EVERY_S)

        self._show(words, 0, None, "")
        self._watcher = threading.Thread(target=look, name="catalog-ext-progress", daemon=True)
        self._watcher.start()


@contextlib.contextmanager
def spinner(console: Console, title: str) -> Iterator[None]:
    """Show a spinner during an operation that reports no progress."""
    if not console.is_terminal:
        yield
        return
    with console.status(title):
        yield
