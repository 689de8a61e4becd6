"""What the demonstration prints: numbered steps, one line for each thing that is done, tables, progress."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.context import RepairProgress

WIDTH = 100


class Screen:
    """The terminal, at most 100 columns wide.

    Args:
        output: Where to print; by default a copy of standard output, so that what Spark's JVM prints can go elsewhere.
    """

    def __init__(self, output: TextIO | None = None) -> None:
        if output is None:
            output = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
        width = min(WIDTH, shutil.get_terminal_size((WIDTH, 40)).columns)
        self._console = Console(file=output, width=width, highlight=False)
        self._step = 0

    def step(self, title: str) -> None:
        """Begin the next numbered step."""
        self._step += 1
        self._console.print()
        self._console.rule(f"[bold cyan]{self._step}[/]  [bold]{escape(title)}[/]", align="left", style="cyan")

    def say(self, text: str, style: str = "") -> None:
        """One line for people."""
        self._console.print(Padding(escape(text), (0, 0, 0, 3)), style=style)

    def error(self, text: str) -> None:
        """What went wrong."""
        self._console.print()
        self._console.print(Panel(escape(text), title="The demo stopped", border_style="red", title_align="left"))

    def code(self, text: str, language: str) -> None:
        """A piece of code, as a user would write it."""
        block = Syntax(text.strip(), language, theme="ansi_dark", background_color="default", word_wrap=True)
        self._console.print(Padding(block, (0, 0, 0, 5)))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> None:
        """A table; columns whose values are numbers are set to the right."""
        table = Table(title=escape(title) or None, title_justify="left", title_style="bold", header_style="bold")
        for position, name in enumerate(columns):
            numbers = all(_is_number(row[position]) for row in rows)
            table.add_column(escape(name), justify="right" if numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*(escape(_cell(value)) for value in row))
        self._console.print(Padding(table, (0, 0, 0, 3)))

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Says what is being done, and afterwards how long it took."""
        started = time.monotonic()
        with self._console.status(f"{escape(text)} …"):
            yield
        self._console.print(f"   {escape(text)} [dim]({time.monotonic() - started:.1f} s)[/]")

    @contextmanager
    def repairing(
        self, total: int | None = None, *, preview: bool = False
    ) -> Iterator[Callable[[RepairProgress], None]]:
        """A progress bar that a repair moves.

        Args:
            total: How many partitions there will be, where that is known before.
            preview: Whether it is one that applies nothing.
        """
        bar = Progress(
            TextColumn("   {task.description:<12}"), SpinnerColumn(finished_text="✓"), BarColumn(40),
            TextColumn("{task.fields[seen]}"), TimeElapsedColumn(), console=self._console,
        )  # fmt: skip
        phases: dict[str, TaskID] = {}

        def finish() -> None:
            for task in bar.tasks:
                bar.update(task.id, total=task.completed or 1, completed=task.completed or 1)

        def advance(progress: RepairProgress) -> None:
            if preview and progress.phase in ("applying", "delivering"):
                return
            if progress.phase not in phases:
                finish()
                expected = progress.total or (total if progress.phase in ("listing", "applying") else None)
                phases[progress.phase] = bar.add_task(progress.phase, total=expected, seen="")
            if progress.partitions:
                seen = f"{progress.partitions:,} partitions"
                bar.update(phases[progress.phase], completed=progress.partitions, seen=seen)

        with bar:
            yield advance
            finish()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value.replace(" s", "")[:1].isdecimal())


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
