"""Formatters of IPython for Arrow tables that have ``ROWS_MARK``; other Arrow tables look as before."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from catalog_ext.display import ROWS_MARK
from catalog_ext.notebook.rows import SHOWN, ShownRows, shown_rows
from catalog_ext.overview import formats
from catalog_ext.overview.layout import Column

if TYPE_CHECKING:
    import pyarrow as pa

_TYPE = ("pyarrow.lib", "Table")
_HIDDEN = frozenset({"partition_id"})
"""Columns with internal numbers of the index."""

_SIZES = frozenset({"bytes", "size"})


def shown_table(table: pa.Table) -> ShownRows | None:
    """Return the first rows of a table that has the mark; None for any other table."""
    name, value = ROWS_MARK
    if (table.schema.metadata or {}).get(name) != value:
        return None
    names = [n for n in table.schema.names if n not in _HIDDEN and not _is_empty(table.column(n))]
    return shown_rows([_column(name) for name in names], table.slice(0, SHOWN).to_pylist(), table.num_rows)


def _is_empty(column: pa.ChunkedArray) -> bool:
    return len(column) > 0 and column.null_count == len(column)


def _column(name: str) -> Column:
    if name.endswith("_ms"):
        return Column(name, f"{name.removesuffix('_ms')} (UTC)", cell=formats.moment, rank=1)
    if name in _SIZES:
        return Column(name, right=True, cell=formats.size)
    return Column(name, right=name in ("files", "rows"))


def register() -> None:
    """Add the formatters to the IPython of this process, unless it has its own for Arrow tables."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    for kind, show in (("text/html", _html), ("text/plain", _plain)):
        formatter = formatters[kind]
        try:
            formatter.lookup_by_type(".".join(_TYPE))
        except KeyError:
            formatter.for_type_by_name(*_TYPE, show)


def _html(table: pa.Table) -> str | None:
    shown = shown_table(table)
    return None if shown is None else shown.html()


def _plain(table: pa.Table, printer: Any, _: bool) -> None:  # noqa: ANN401 -- IPython's
    shown = shown_table(table)
    printer.text(repr(table) if shown is None else shown.text())
