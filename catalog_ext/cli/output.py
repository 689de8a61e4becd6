"""Output as text or JSON. Names are escaped, so that a name from a store cannot control the terminal."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from catalog_ext.overview.layout import room, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from rich.console import Console

_TYPE_WORD = re.compile(r"`(?:[^`]|``)*`|[^<>,:()`]+(?![^<>,:()`]|:)")


def one_line(text: str) -> str:
    """Return the text on one line, with control characters escaped: a name from a store must not steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def echo_json(value: object) -> None:
    """Print the value as one line of JSON."""
    click.echo(json.dumps(value, ensure_ascii=False))


def echo_json_rows(head: dict[str, Any], name: str, rows: Iterable[object]) -> None:
    """Print an object whose last field is an array, row by row, with bounded memory."""
    opened = f"{json.dumps(head, ensure_ascii=False)[:-1]}, " if head else "{"
    click.echo(f"{opened}{json.dumps(name)}: [", nl=False)
    for number, row in enumerate(rows):
        click.echo(("" if number == 0 else ",") + "\n" + json.dumps(row, ensure_ascii=False), nl=False)
    click.echo("]}")


def arrow_rows(table: pa.Table, limit: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of an Arrow table, at most ``limit``."""
    sliced = table if limit is None else table.slice(0, limit)
    for batch in sliced.to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def cell(value: object) -> str | None:
    """Return a table cell: numbers with separators, texts unabridged; None for None."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = one_line(str(value))
    # Quote a value with a blank at its start or end, which would be invisible: `region= ` and `region=` are different
    # partitions.
    return text if text == text.strip() else f"'{text}'"


def type_name(text: str) -> str:
    """Return a column's type in SQL form: keywords in capitals, field names unchanged.

    >>> type_name("struct<a:bigint,b:array<string>>")
    'STRUCT<a:BIGINT,b:ARRAY<STRING>>'
    """
    return _TYPE_WORD.sub(lambda m: m[0] if m[0].startswith("`") else m[0].upper(), text)


def note(console: Console, text: str, style: str = "") -> None:
    """Print a line of text. On a terminal it is wrapped at blanks."""
    width = room(console.file)
    indent = text[: len(text) - len(text.lstrip(" "))]
    for line in [text] if width is None else wrapped(text[len(indent) :], width - len(indent)):
        console.out(indent + line if width else line, style=style or None, highlight=False)
