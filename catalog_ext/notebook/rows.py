"""Result lists, and Arrow tables with the mark ``ROWS_MARK``, as tables: HTML in a cell, text in a terminal."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from catalog_ext.display import ROWS_MARK
from catalog_ext.notebook.markup import render
from catalog_ext.overview import formats
from catalog_ext.overview.layout import ListColumn, room
from catalog_ext.overview.list_table import list_text
from catalog_ext.overview.lists import HISTORY, STATUS, TAGS, TRANSACTIONS, commit_fields, transaction_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from catalog_ext.display import Rows, RowsKind

SHOWN = 50
"""The most rows of a list that are shown."""

_LONGEST = 500
_ARROW_TABLE = ("pyarrow.lib", "Table")
_HIDDEN = frozenset({"partition_id"})
"""Columns with internal numbers of the index."""

_SIZES = frozenset({"bytes", "size"})


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows of a list, converted for display.

    Attributes:
        rows: The texts of the cells; None for a missing value.
        more: The number of rows that are omitted.
        empty: The text for an empty list.
    """

    columns: tuple[ListColumn, ...]
    rows: tuple[tuple[str | None, ...], ...]
    more: int
    empty: str

    def html(self) -> str:
        """Return the rows as the HTML of a cell."""
        return render("rows.html", shown=self)

    def text(self) -> str:
        """Return the rows as a text table that fits the terminal; for other outputs it has all columns."""
        if not self.rows:
            return self.empty
        more = f"\n… and {self.more:,} more" if self.more else ""
        return list_text(self.columns, self.rows, room()) + more


def shown_rows(
    columns: Sequence[ListColumn], rows: Iterable[Mapping[str, Any]], count: int,
    empty: str = "There is nothing to show.", *, most: int = SHOWN,
) -> ShownRows:  # fmt: skip
    """Convert the first ``most`` of ``count`` rows for display."""
    cells = tuple(tuple(_text(column, row[column.name]) for column in columns) for row in islice(rows, most))
    return ShownRows(tuple(columns), cells, count - len(cells), empty)


def _text(column: ListColumn, value: object) -> str | None:
    if value is None:
        return None
    shown = column.cell(value) if column.cell else value
    if isinstance(shown, int) and not isinstance(shown, bool):
        return formats.count(shown)
    text = formats.visible(formats.cut(str(shown), _LONGEST))
    # Quote a value with a blank at its start or end, which would be invisible: `region= ` and `region=` are different
    # partitions.
    return text if text == text.strip() else f"'{text}'"


def listed(rows: Rows[Any]) -> ShownRows:
    """Convert the first rows of a result list, as many as the display shows."""
    columns, fields, empty = _LISTS[rows.kind]
    return shown_rows(columns, map(fields, rows), len(rows), empty)


_LISTS: dict[RowsKind, tuple[Sequence[ListColumn], Callable[[Any], Mapping[str, Any]], str]] = {
    "commits": (HISTORY, commit_fields, "There is no commit."),
    "in flight": (STATUS, lambda entry: entry._asdict(), "Nothing is under way."),
    "tags": (TAGS, asdict, "No version is tagged."),
    "transactions": (TRANSACTIONS, transaction_fields, "There is no transaction."),
}


def shown_table(table: pa.Table) -> ShownRows | None:
    """Convert the first rows of an Arrow table with ``ROWS_MARK`` in its metadata; return None for any other table."""
    name, value = ROWS_MARK
    if (table.schema.metadata or {}).get(name) != value:
        return None
    names = [n for n in table.schema.names if n not in _HIDDEN and not _is_empty(table.column(n))]
    return shown_rows([_column(name) for name in names], table.slice(0, SHOWN).to_pylist(), table.num_rows)


def _is_empty(column: pa.ChunkedArray) -> bool:
    return len(column) > 0 and column.null_count == len(column)


def _column(name: str) -> ListColumn:
    if name.endswith("_ms"):
        return ListColumn(name, f"{name.removesuffix('_ms')} (UTC)", cell=formats.moment, rank=1)
    if name in _SIZES:
        return ListColumn(name, right=True, cell=formats.size)
    return ListColumn(name, right=name in ("files", "rows"))


def register() -> None:
    """Register the formatters with IPython, unless it has formatters for Arrow tables already."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    for kind, show in (("text/html", _html), ("text/plain", _plain)):
        formatter = formatters[kind]
        try:
            formatter.lookup_by_type(".".join(_ARROW_TABLE))
        except KeyError:
            formatter.for_type_by_name(*_ARROW_TABLE, show)


def _html(table: pa.Table) -> str | None:
    shown = shown_table(table)
    return None if shown is None else shown.html()


def _plain(table: pa.Table, printer: Any, _: bool) -> None:  # noqa: ANN401 -- IPython's
    shown = shown_table(table)
    printer.text(repr(table) if shown is None else shown.text())
