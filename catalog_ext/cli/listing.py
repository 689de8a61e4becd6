"""Printing of a command's rows: as a table that fits the terminal, as JSON, or as CSV."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from catalog_ext.cli.invocation import output_console
from catalog_ext.cli.output import cell, echo_json_rows, note, one_line
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview.layout import ListColumn, room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

TABLE, JSON, CSV = "table", "json", "csv"
SHOWN = 100
"""The number of rows that a table shows without ``--limit``."""

UNCHANGED = "Nothing was changed. Run it without --dry-run to apply this."


@dataclass(frozen=True, slots=True)
class Shape:
    """The output options of a command that lists rows.

    Attributes:
        output: ``table``, ``json`` or ``csv``.
        wide: Whether all columns are shown, at any width.
        columns: The names of the shown columns; empty for the default ones.
        limit: The number of rows, 0 for all; None without --limit.
    """

    output: str = TABLE
    wide: bool = False
    columns: tuple[str, ...] = ()
    limit: int | None = None

    @property
    def is_text(self) -> bool:
        """Return whether the output is a table for people, not JSON or CSV."""
        return self.output == TABLE

    @property
    def is_json(self) -> bool:
        """Return whether the output is JSON."""
        return self.output == JSON

    def most(self, shown: int = SHOWN) -> int | None:
        """Return the greatest number of rows to print: ``--limit``, else ``shown`` in a table. None for all rows."""
        if self.limit is None:
            return shown if self.is_text else None
        return self.limit or None

    @property
    def width(self) -> int | None:
        """Return the terminal's width in characters; None if the output does not have to fit a terminal."""
        return None if self.wide else room()

    def chosen(self, columns: Sequence[ListColumn]) -> list[ListColumn]:
        """Return the shown columns: those of ``--columns`` in the given order, else all that are not hidden."""
        if self.columns:
            # Rank 0 keeps a column that the user named, however narrow the terminal is.
            return [replace(next(c for c in columns if c.name == name), rank=0) for name in self.columns]
        return [c for c in columns if self.wide or self.output == CSV or not c.hidden]


class Listing:
    """A list of rows for people or programs.

    Args:
        name: The noun for one row and for several rows; the plural is also the field's name in JSON.
        columns: All columns.
        head: Further fields of the JSON.
        style: The style of a row on a terminal, by its fields.
    """

    def __init__(
        self, name: tuple[str, str], columns: Sequence[ListColumn], head: dict[str, Any] | None = None, *,
        style: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:  # fmt: skip
        self._name = name
        self._columns = columns
        self._head = head or {}
        self._style = style or (lambda row: "")

    def show(
        self, shape: Shape, rows: Iterable[dict[str, Any]], total: int, *, end: str = "", count: str = "",
        as_json: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:  # fmt: skip
        """Print rows, their number, and a last line.

        Args:
            shape: The output options.
            rows: The rows, read only as far as they are printed.
            total: The number of all rows.
            end: The last line of a table.
            count: A text with the number of rows, used if the rows are of several kinds.
            as_json: Converts a row to JSON, unless columns are named.
        """
        self.show_rows(shape, rows, as_json=as_json)
        if shape.is_text:
            console, most = output_console(), shape.most()
            more = f"; {most:,} shown, --limit 0 shows all" if most is not None and total > most else ""
            if total or not end:
                note(console, f"{count or counted(total, *self._name)}{more}")
            if end:
                note(console, end)

    def show_rows(
        self, shape: Shape, rows: Iterable[dict[str, Any]], *, as_json: Callable[[dict[str, Any]], object] | None = None
    ) -> None:
        """Print rows without their number, which may not be known yet. The arguments are those of ``show``."""
        chosen = shape.chosen(self._columns)
        some = islice(rows, shape.most())
        if shape.is_json:
            named = [c.name for c in chosen]
            picked = ({name: row[name] for name in named} for row in some)
            echo_json_rows(self._head, self._name[1], picked if shape.columns else map(as_json or _itself, some))
        elif shape.is_text:
            print_table(output_console(), chosen, some, shape.width, self._style)
        else:
            print_csv([c.name for c in chosen], some)


def _itself(row: dict[str, Any]) -> object:
    return row


def print_csv(names: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Print rows as CSV: a heading of ``names``, and a line per row. Nested values are JSON, and None is empty."""
    _print_csv_line(names)
    for row in rows:
        _print_csv_line([_csv_value(row[name]) for name in names])


def _print_csv_line(values: Sequence[object]) -> None:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    text = line.getvalue()
    # Print names unchanged for a program: click would strip escape sequences without ``color``. On a terminal they are
    # escaped, because a name could control the terminal.
    click.echo(f"{one_line(text[:-1])}\n" if sys.stdout.isatty() else text, nl=False, color=True)


def _csv_value(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | tuple | bool) else value


def print_table(
    console: Console, columns: Sequence[ListColumn], rows: Iterable[dict[str, Any]], width: int | None,
    style: Callable[[dict[str, Any]], str] = lambda row: "",
) -> None:  # fmt: skip
    """Print the rows as a table; without rows print nothing. A width of None does not limit the table."""
    kept = list(rows)
    if not kept:
        return
    # Imported here: completion and ``--help`` print no list.
    from catalog_ext.overview.list_table import print_list

    texts = [[cell(c.cell(row[c.name]) if c.cell and row[c.name] is not None else row[c.name])
              for c in columns] for row in kept]  # fmt: skip
    layout = print_list(console, columns, texts, width, [style(row) for row in kept])
    if layout.left_out:
        names = ", ".join(columns[i].title for i in layout.left_out)
        note(console, f"Left out for want of room: {names}. --wide shows all.", "dim")
