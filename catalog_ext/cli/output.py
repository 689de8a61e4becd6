"""How results look: tables for people, JSON for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from catalog_ext.repair.report import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from rich.console import Console

_LONGEST_CELL = 400


def one_line(text: str) -> str:
    """Return the text on one line, with control characters escaped: a name from a store must not steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(text: str) -> str:
    """Return ``one_line`` for a cell: no longer than people read there."""
    visible = one_line(text)
    return visible if len(visible) <= _LONGEST_CELL else f"{visible[:_LONGEST_CELL]}…"


def echo_json(value: object) -> None:
    """Print the value as one line of JSON."""
    click.echo(json.dumps(value, ensure_ascii=False))


def echo_json_rows(head: dict[str, Any], name: str, rows: Iterable[object]) -> None:
    """Print an object whose last field is an array, row by row, so that a long one needs no memory."""
    click.echo(f"{json.dumps(head, ensure_ascii=False)[:-1]}, {json.dumps(name)}: [", nl=False)
    for number, row in enumerate(rows):
        click.echo(("" if number == 0 else ",") + "\n" + json.dumps(row, ensure_ascii=False), nl=False)
    click.echo("]}")


def arrow_rows(table: pa.Table, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of an Arrow table, at most ``limit``."""
    sliced = table if limit is None else table.slice(0, limit)
    for batch in sliced.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def make_table(columns: Sequence[tuple[str, str]]) -> Table:
    """Return an empty table; ``columns`` are headings and ``left`` or ``right``."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for heading, side in columns:
        # Long names are folded, never cut: what is shown must be what is there.
        table.add_column(Text(heading), justify="right" if side == "right" else "left", overflow="fold")
    return table


def add_row(table: Table, *cells: object, style: str = "") -> None:
    """Add a row of texts, numbers (with separators) and None (a dash)."""
    table.add_row(*(Text(_cell(cell), style=style) for cell in cells))


def _cell(cell: object) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, int):
        return f"{cell:,}"
    text = shown(str(cell))
    # A blank at an end would not be seen: `region= ` is another partition than `region=`.
    return text if text == text.strip() else f"'{text}'"


def size(count: int) -> str:
    """Return a number of bytes for people."""
    return format_bytes(count)


def moment(milliseconds: int) -> str:
    """Return a time in UTC, to the second."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def note(console: Console, text: str, style: str = "") -> None:
    """Print a line of text."""
    console.print(Text(text, style=style), soft_wrap=True)
