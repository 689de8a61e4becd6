"""Result lists as tables: HTML in a cell, text in a terminal."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from catalog_ext.notebook.markup import render
from catalog_ext.overview import formats
from catalog_ext.overview.layout import GAP, Column, fit, table_lines
from catalog_ext.overview.lists import HISTORY, STATUS, TRANSACTIONS, commit_fields, transaction_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from catalog_ext.display import Rows, RowsKind

SHOWN = 50
"""Rows that are shown; all are there."""

_WIDTH = 120
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows as they are shown.

    Attributes:
        rows: The texts of their cells; None where there is no value.
        more: How many are left out.
        empty: What is said where there are none.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str | None, ...], ...]
    more: int
    empty: str

    def html(self) -> str:
        """Return them as a table of a cell."""
        return render("rows.html", shown=self)

    def text(self) -> str:
        """Return them as a table of text that fits the terminal, as the command line's do: no name is broken."""
        if not self.rows:
            return self.empty
        width = shutil.get_terminal_size((_WIDTH, 24)).columns
        layout = fit(self.columns, self.rows, width)
        lines = [*table_lines(self.columns, [column.title for column in self.columns], layout, width)]
        lines.append((" " * GAP).join("─" * wide for wide in layout.widths))
        for row in self.rows:
            lines += table_lines(self.columns, row, layout, width)
        return "\n".join([*lines, *([f"… and {self.more:,} more"] if self.more else [])])


def shown_rows(
    columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], count: int, empty: str = "There is nothing to show.",
    *, most: int = SHOWN,
) -> ShownRows:  # fmt: skip
    """Return the first of so many rows as they are shown."""
    cells = tuple(tuple(_text(column, row[column.name]) for column in columns) for row in islice(rows, most))
    return ShownRows(tuple(columns), cells, count - len(cells), empty)


def _text(column: Column, value: object) -> str | None:
    if value is None:
        return None
    shown = column.cell(value) if column.cell else value
    if isinstance(shown, int) and not isinstance(shown, bool):
        return formats.count(shown)
    text = formats.visible(formats.cut(str(shown), _LONGEST))
    # A blank at an end would not be seen: `region= ` is another partition than `region=`.
    return text if text == text.strip() else f"'{text}'"


def listed(rows: Rows[Any]) -> ShownRows:
    """Return the first rows of a result list as they are shown."""
    columns, fields, empty = _LISTS[rows.kind]
    return shown_rows(columns, map(fields, rows), len(rows), empty)


_LISTS: dict[RowsKind, tuple[Sequence[Column], Callable[[Any], Mapping[str, Any]], str]] = {
    "commits": (HISTORY, commit_fields, "There is no commit."),
    "in flight": (STATUS, lambda entry: entry._asdict(), "Nothing is under way."),
    "transactions": (TRANSACTIONS, transaction_fields, "There is no transaction."),
}
