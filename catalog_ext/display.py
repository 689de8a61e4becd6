"""How results and long calls show themselves: the parts of a catalog return plain values, a layer above draws them.

``catalog_ext/__init__.py`` registers that layer (``catalog_ext.notebook.display``). It is imported when the first
result is shown, so no part of a catalog imports it.
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
RowsKind: TypeAlias = Literal["commits", "transactions", "in flight"]
ROWS_MARK = (b"catalog-ext", b"rows")
"""Schema metadata of the Arrow tables that a notebook shows as rows of the index."""


class Display(ABC):
    """Draws results and progress. What fails while a result is drawn is in the text or HTML, and not raised."""

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
        """Return a bar in the running cell of a notebook; elsewhere it shows nothing."""

    @abstractmethod
    def steps(self, words: str, total: int) -> AbstractContextManager[Callable[[str], None]]:
        """Return a bar that takes the name of each step that ended; outside a notebook it shows nothing."""

    @abstractmethod
    def show_arrow_rows(self) -> None:
        """Make the running IPython show Arrow tables with ``ROWS_MARK`` as rows."""


_found: list[Callable[[], Display]] = []


def use_display(find: Callable[[], Display]) -> None:
    """Register the display; ``find`` is called whenever a result is shown."""
    _found[:] = [find]


def display() -> Display:
    """Return the registered display."""
    return _found[0]()


class Displayed:
    """A result that the registered display shows, as text and as HTML in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return display().text(self)

    def _repr_html_(self) -> str:
        return display().html(self)


class Rows(Displayed, list[_Row], Generic[_Row]):
    """A list that shows itself as a table; ``kind`` decides the columns."""

    def __init__(self, kind: RowsKind, rows: Iterable[_Row]) -> None:
        super().__init__(rows)
        self.kind = kind

    def __reduce__(self) -> tuple[type[list[_Row]], tuple[list[_Row]]]:
        # Another process may lack catalog_ext: there it is a plain list.
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
    """Return the table with ``ROWS_MARK``; nothing else of it is changed."""
    if "IPython" in sys.modules:
        display().show_arrow_rows()
    return table.replace_schema_metadata({**(table.schema.metadata or {}), ROWS_MARK[0]: ROWS_MARK[1]})


def shown_progress(given: Progress | None, title: str) -> AbstractContextManager[Progress]:
    """Return a context of the caller's own callback; without one, of a bar in the running cell of a notebook."""
    return contextlib.nullcontext(given) if given is not None else display().progress(title)
