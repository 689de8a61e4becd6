"""Lists that show themselves: as a table in a cell, and as readable text elsewhere."""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from catalog_ext.notebook.markup import render
from catalog_ext.overview import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_Row = TypeVar("_Row")

SHOWN = 50
"""Rows that are shown; all are there."""

_WIDTH = 120
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: What stands above it.
        cell: What is shown of a row.
        right: Whether it is aligned to the right, as numbers are.
    """

    title: str
    cell: Callable[[Any], object]
    right: bool = False


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows as they are shown.

    Attributes:
        rows: The texts of their cells.
        more: How many are left out.
        empty: What is said where there are none.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    more: int
    empty: str

    def html(self) -> str:
        """Return them as a table of a cell."""
        return render("rows.html", shown=self)

    def text(self) -> str:
        """Return them as a table of text, as wide as the terminal."""
        if not self.rows:
            return self.empty
        # Not at the top: programs that show nothing need no library that does.
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in self.columns:
            table.add_column(
                Text(formats.visible(column.title)), justify="right" if column.right else "left", overflow="fold"
            )
        for row in self.rows:
            table.add_row(*(Text(formats.visible(formats.cut(cell, _LONGEST))) for cell in row))
        # Neither colours nor what a terminal or a notebook would get: this is a text.
        width = shutil.get_terminal_size((_WIDTH, 24)).columns
        console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, force_jupyter=False)
        console.print(table)
        lines = [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
        return "\n".join([*lines, *([f"… and {self.more:,} more"] if self.more else [])])


def shown_rows(
    columns: Sequence[Column], rows: Iterable[Any], count: int, empty: str = "There is nothing to show."
) -> ShownRows:
    """Return the first of so many rows as they are shown."""
    cells = tuple(tuple(_text(column.cell(row)) for column in columns) for row in islice(rows, SHOWN))
    return ShownRows(tuple(columns), cells, count - len(cells), empty)


def _text(value: object) -> str:
    if value is None:
        return ""
    return formats.count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


class Rows(list[_Row], Generic[_Row]):
    """A list that shows itself as a table.

    Args:
        rows: What it holds.
        columns: What is shown of it.
        empty: What is said where it holds nothing.
    """

    def __init__(self, rows: Iterable[_Row], columns: Sequence[Column], empty: str) -> None:
        super().__init__(rows)
        self._columns = tuple(columns)
        self._empty = empty

    def _shown(self) -> ShownRows:
        return shown_rows(self._columns, self, len(self), self._empty)

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def __reduce__(self) -> tuple[type[list[_Row]], tuple[list[_Row]]]:
        # What makes the cells belongs to this process; elsewhere it is a list.
        return list, (list(self),)
