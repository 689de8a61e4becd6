"""Progress on standard error, where that is a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from catalog_ext.scan.observe import Progress as Report
    from catalog_ext.scan.observe import RepairProgress

_WORDS = {
    "listing": "Listing the store",
    "comparing": "Comparing with the index",
    "verifying": "Looking into files",
    "applying": "Applying changes",
    "delivering": "Telling the metastore",
}


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Report | None]:
    """Yield a bar for the phases of a repair or import; None where nobody watches.

    Args:
        console: Standard error's.
        title: What is shown before the first report.
    """
    if not console.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, counts="")

        def update(report: RepairProgress) -> None:
            counts = f"{report.partitions:,} partitions"
            if report.total is not None:
                counts = f"{report.partitions:,} of {report.total:,} partitions"
            if report.files:
                counts += f", {report.files:,} files"
            if report.left_s is not None:
                counts += f", about {_duration(report.left_s)} left"
            bar.update(
                task,
                description=_WORDS.get(report.phase, report.phase),
                total=report.total,
                completed=report.partitions if report.total is not None else 0,
                counts=counts if report.partitions or report.files else "",
            )

        yield update


def _duration(seconds: float) -> str:
    """Return it as exactly as an estimate is."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def spinner(console: Console, title: str) -> Iterator[None]:
    """Yield a spinner while something runs that does not say how far it is."""
    if not console.is_terminal:
        yield
        return
    with console.status(title):
        yield
