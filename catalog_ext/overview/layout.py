"""The layout of lists and records in a given width: columns are wrapped, omitted, or moved to lines below a row.

A name, a path or a number is never broken or cut, so that it can be copied. Only prose is wrapped, at blanks.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

GAP = 2
"""Blanks between columns."""

_READABLE = 24
"""The least width of a column of prose, unless its texts are shorter."""

INDENT = "  "
"""The indentation of a text below a row or a label."""

_WORDS = re.compile(r" (?!(?:B|[KMGT]iB)\b)")
"""Where a line may be broken: at blanks, except between a size and its unit."""


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of a list.

    Attributes:
        name: The field of the rows, and the name in ``--columns``.
        heading: The column's heading; None for its name.
        right: Whether it is aligned to the right.
        cell: Converts a value for display; None shows the value itself.
        wraps: Whether it holds prose, which may be wrapped at blanks.
        rank: If the width is too small, columns of the highest rank are omitted first; those of rank 0 always stay.
        hidden: Whether it is shown only with ``--wide`` or ``--columns``.
        own_line: Whether it is always shown below the row, on lines of its own.
    """

    name: str
    heading: str | None = None
    right: bool = False
    cell: Callable[[Any], object] | None = None
    wraps: bool = False
    rank: int = 0
    hidden: bool = False
    own_line: bool = False

    @property
    def title(self) -> str:
        """The text above the column."""
        return self.name if self.heading is None else self.heading


@dataclass(frozen=True, slots=True)
class ListLayout:
    """The layout of rows.

    Attributes:
        columns: The numbers of the columns side by side.
        widths: The widths of these columns.
        below: The numbers of the columns on lines of their own below the row.
        left_out: The numbers of the omitted columns.
    """

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    below: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()


def room(stream: IO[str] | None = None) -> int | None:
    """Return the terminal's width for an output (stdout by default); None if the output is no terminal."""
    output = stream or sys.stdout
    # The variable COLUMNS applies to results only. The log on standard error may be read by programs.
    chosen = output is sys.stdout and os.environ.get("COLUMNS", "").isdecimal()
    if chosen or output.isatty():
        return max(shutil.get_terminal_size().columns, 1)
    return None


def can_draw(encoding: str) -> bool:
    """Return whether an output's encoding has the characters for table lines and check marks."""
    return encoding.lower().startswith("utf")


def width_of(text: str) -> int:
    """Return the width of a text on a terminal, in columns."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(columns: Sequence[ListColumn], rows: Sequence[Sequence[str | None]], width: int | None) -> ListLayout:
    """Return the layout for rows of texts; None is a missing value.

    ``width`` is the terminal's width; None if the rows do not have to fit.
    """
    kept = list(range(len(columns)))
    natural = [max([width_of(c.title), *(width_of(r[i] or "-") for r in rows)]) for i, c in enumerate(columns)]
    own = tuple(i for i in kept if columns[i].own_line) if len(columns) > 1 else ()
    kept = [i for i in kept if i not in own]
    if width is None or len(columns) == 1 or _total(kept, natural) <= width:
        return ListLayout(tuple(kept), tuple(natural[i] for i in kept), own)
    least = [_least(columns[i], natural[i], [r[i] or "-" for r in rows]) for i in range(len(columns))]
    # A column without values is omitted silently, unless its rank is 0.
    kept = [i for i in kept if not columns[i].rank or any(r[i] is not None for r in rows)]
    needed = [i for i in kept if not columns[i].rank]
    below = list(own)
    while len(needed) > 1 and _total(needed, least) > width:
        widest = max(needed, key=lambda i: least[i])
        needed.remove(widest)
        below.append(widest)
    kept = [i for i in kept if i not in below]
    left_out: list[int] = []
    for rank in sorted({columns[i].rank for i in kept if columns[i].rank}, reverse=True):
        if _total(kept, least) <= width:
            break
        left_out += [i for i in kept if columns[i].rank == rank]
        kept = [i for i in kept if columns[i].rank != rank]
    return ListLayout(tuple(kept), _widths(kept, natural, least, width), tuple(sorted(below)), tuple(sorted(left_out)))


def _total(kept: Sequence[int], widths: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + GAP * (len(kept) - 1)


def _least(column: ListColumn, natural: int, texts: Sequence[str]) -> int:
    """Return the least width of a column: that of its longest word, and for prose a readable minimum."""
    if not column.wraps:
        return natural
    longest = max([width_of(column.title), *(width_of(word) for text in texts for word in text.split(" "))])
    return max(longest, min(natural, _READABLE))


def _widths(kept: Sequence[int], natural: Sequence[int], least: Sequence[int], width: int) -> tuple[int, ...]:
    """Return the columns' widths: columns that need the least spare width get it first, the rest goes to the others."""
    spare = max(width - _total(kept, least), 0)
    chosen = dict.fromkeys(kept, 0)
    order = sorted(kept, key=lambda i: natural[i] - least[i])
    for number, i in enumerate(order):
        more = min(natural[i] - least[i], spare // (len(order) - number))
        chosen[i] = least[i] + more
        spare -= more
    return tuple(chosen[i] for i in kept)


def wrapped(text: str, width: int) -> list[str]:
    """Return a text in lines of at most ``width`` columns, broken at blanks; a longer word is a line of its own."""
    lines = [""]
    for number, word in enumerate(_WORDS.split(text)):
        longer = f"{lines[-1]} {word}" if number else word
        if number and width_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def record_lines(pairs: Sequence[tuple[str, str]], width: int | None, label: int | None = None) -> Iterator[str]:
    """Yield lines of labels with their values, wrapped at blanks; words are never broken.

    A word that does not fit beside its label stands on the next line. ``width`` is the terminal's width, None if the
    lines do not have to fit. ``label`` is the width of labels, by default that of the longest.
    """
    beside = label or max(width_of(name) for name, _ in pairs)
    for name, value in pairs:
        head = name + " " * (beside - width_of(name) + GAP)
        if width is None:
            yield head + value
            continue
        longest = max(width_of(word) for word in _WORDS.split(value))
        if width_of(head) + longest <= width:
            first, *others = wrapped(value, width - width_of(head))
            yield head + first
            yield from (" " * width_of(head) + line for line in others)
        else:
            yield head.rstrip()
            yield from (INDENT + line for line in wrapped(value, width - len(INDENT)))
