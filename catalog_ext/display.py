"""The interface by which results and long calls are displayed. Parts of a catalog return plain values.

``catalog_ext/__init__.py`` registers the implementation (``catalog_ext.notebook.display``), which is imported when the
first result is displayed. So no part of a catalog imports it.
"""

from __future__ import annotations

import contextlib
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from catalog_ext.context import Progress

_Row = TypeVar("_Row")
RowsKind: TypeAlias = Literal["commits", "transactions", "in flight", "tags"]
ROWS_MARK = (b"catalog-ext", b"rows")
"""Schema metadata that marks Arrow tables of the catalog, which a notebook shows as rows."""


class Display(ABC):
    """Draws results and progress. An error while a result is drawn becomes its text or HTML, and is not raised."""

    @abstractmethod
    def text(self, result: Displayed) -> str:
        """Return a result as lines of text."""

    @abstractmethod
    def html(self, result: Displayed) -> str:
        """Return a result as the HTML of a notebook's cell."""

    @abstractmethod
    def picture(self, result: Displayed, **choice: Any) -> Picture:  # noqa: ANN401 -- the arguments of plot_partitions
        """Return the picture of a table's partitions or of a repair's changes; raises as ``plot_partitions``."""

    @abstractmethod
    def progress(self, title: str) -> AbstractContextManager[Progress]:
        """Return a context with a callback that shows a bar in a notebook's cell, and nothing outside notebooks."""

    @abstractmethod
    def steps(self, words: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
        """Return a context with a callback for the name of each finished step; in a notebook it shows a bar."""

    @abstractmethod
    def show_arrow_rows(self) -> None:
        """Make the running IPython show Arrow tables with ``ROWS_MARK`` as rows."""


_found: list[Callable[[], Display]] = []


def use_display(find: Callable[[], Display]) -> None:
    """Register the display. ``find`` returns it, and is called only when a result is displayed."""
    _found[:] = [find]


def display() -> Display:
    """Return the registered display."""
    return _found[0]()


class Displayed:
    """Base class of results that the registered display shows, as text and as HTML in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return display().text(self)

    def _repr_html_(self) -> str:
        return display().html(self)


class Rows(Displayed, list[_Row], Generic[_Row]):
    """A list that is displayed as a table; ``kind`` selects the columns."""

    def __init__(self, kind: RowsKind, rows: Iterable[_Row]) -> None:
        super().__init__(rows)
        self.kind = kind

    def __reduce__(self) -> tuple[type[list[_Row]], tuple[list[_Row]]]:
        # Pickle it as a plain list: the process that loads it may not have catalog_ext.
        return list, (list(self),)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: its title, an SVG document to be saved, and the HTML that a notebook's cell shows."""

    title: str
    svg: str
    html: str

    def __repr__(self) -> str:
        return f"<Picture: {self.title}>"

    def _repr_html_(self) -> str:
        return self.html


def as_rows(table: pa.Table) -> pa.Table:
    """Return the table with ``ROWS_MARK`` in its metadata; the data is unchanged."""
    if "IPython" in sys.modules:
        display().show_arrow_rows()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), ROWS_MARK[0]: ROWS_MARK[1]})


def shown_progress(given: Progress | None, title: str) -> AbstractContextManager[Progress]:
    """Return a context with the caller's progress callback; if that is None, with a bar in a notebook's cell."""
    return contextlib.nullcontext(given) if given is not None else display().progress(title)
