"""Prints lists: as a rich table that fits the terminal, or as plain aligned lines for any other output.

rich takes about a millisecond per row. Output to a pipe may have a million rows, and needs neither styles nor wrapping.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from catalog_ext.overview.layout import GAP, INDENT, ListColumn, ListLayout, can_draw, fit, width_of, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import ConsoleOptions, RenderResult

    Cells = Sequence[str | None]


def print_list(
    console: Console, columns: Sequence[ListColumn], rows: Sequence[Cells], width: int | None,
    styles: Sequence[str] = (),
) -> ListLayout:  # fmt: skip
    """Print the headings, a rule and the rows, and return their layout; a cell of None is a missing value.

    ``width`` is the terminal's width, None if the rows do not have to fit. ``styles`` has a style for each row, or is
    empty.
    """
    layout = fit(columns, rows, width)
    rule = "─" if can_draw(console.encoding) else "-"
    if console.is_terminal or width is not None:
        styled = list(zip(rows, styles or [""] * len(rows), strict=True))
        console.print(_RichList(columns, styled, layout, width, rule), crop=False, end="")
    else:
        for line in _plain_lines(columns, rows, layout, rule):
            console.out(line, highlight=False)
    return layout


def list_text(columns: Sequence[ListColumn], rows: Sequence[Cells], width: int | None) -> str:
    """Return a list as text without styles."""
    made = io.StringIO()
    # ``force_jupyter=False``: in a notebook rich would display the list as output of the cell, and write nothing to
    # ``made``.
    console = Console(file=made, color_system=None, force_terminal=False, force_jupyter=False, width=width)
    print_list(console, columns, rows, width)
    return made.getvalue().rstrip("\n")


def _plain_lines(columns: Sequence[ListColumn], rows: Iterable[Cells], layout: ListLayout, rule: str) -> Iterator[str]:
    shown = list(zip(layout.columns, layout.widths, strict=True))
    rules = [rule * wide for wide in layout.widths]

    def line(cells: Cells) -> str:
        texts = []
        for i, wide in shown:
            text = "-" if cells[i] is None else str(cells[i])
            fill = " " * (wide - width_of(text))
            texts.append(fill + text if columns[i].right else text + fill)
        return (" " * GAP).join(texts).rstrip()

    yield line([column.title for column in columns])
    yield (" " * GAP).join(rules)
    for cells in rows:
        yield line(cells)
        yield from (f"{INDENT}{cells[i]}" for i in layout.below if cells[i])


@dataclass(frozen=True, slots=True)
class _RichList:
    """A list as rich tables with fixed column widths. Each text below a row ends one table and begins the next."""

    columns: Sequence[ListColumn]
    rows: Sequence[tuple[Cells, str]]
    layout: ListLayout
    width: int | None
    rule: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.update(width=sum(self.layout.widths) + GAP * len(self.layout.widths))
        for table, texts, style in self._parts():
            for line in console.render_lines(table, room, pad=False):
                yield Segments([*_trimmed(line), Segment.line()])
            for text in texts:
                # Write a Segment: rich would truncate a Text that is longer than the terminal.
                yield Segments([Segment(INDENT + text, console.get_style(style) if style else None), Segment.line()])

    def _parts(self) -> Iterator[tuple[Table, list[str], str]]:
        """Yield each rich table, the lines of text below its last row, and the style of these lines."""
        if not self.layout.below:
            yield self._table(self.rows, heading=True), [], ""
            return
        yield self._table([], heading=True), [], ""
        wide = None if self.width is None else self.width - width_of(INDENT)
        for cells, style in self.rows:
            texts = [(self.columns[i], cells[i]) for i in self.layout.below]
            below = [line for column, text in texts if text for line in _lines(column, text, wide)]
            yield self._table([(cells, style)], heading=False), below, style

    def _table(self, rows: Iterable[tuple[Cells, str]], *, heading: bool) -> Table:
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=heading, header_style="bold")
        for i, wide in zip(self.layout.columns, self.layout.widths, strict=True):
            column = self.columns[i]
            table.add_column(Text(column.title), width=wide, no_wrap=True, justify="right" if column.right else "left")
        if heading:
            table.add_row(*(self.rule * wide for wide in self.layout.widths))
        for cells, style in rows:
            texts = [
                Text("\n".join(_lines(self.columns[i], "-" if cells[i] is None else str(cells[i]), wide)))
                for i, wide in zip(self.layout.columns, self.layout.widths, strict=True)
            ]
            table.add_row(*texts, style=style or None)
        return table


def _lines(column: ListColumn, text: str, wide: int | None) -> list[str]:
    # Wrap here: rich would separate a size from its unit, and truncate words that are longer than a line.
    return wrapped(text, wide) if column.wraps and wide is not None else [text]


def _trimmed(line: list[Segment]) -> list[Segment]:
    """Return a line without trailing blanks, which a user would copy with the text."""
    kept = list(line)
    while kept and not kept[-1].text.strip():
        kept.pop()
    if kept:
        kept[-1] = Segment(kept[-1].text.rstrip(), kept[-1].style)
    return kept
