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
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from catalog_ext.context import Progress

_Row = TypeVar("_Row")

RowsKind: TypeAlias = Literal["commits", "transactions", "in flight"]

ROWS_MARK = (b"catalog-ext", b"rows")
"""Schema metadata of the Arrow tables that a notebook shows as rows of the index."""


class Display(ABC):
    """Draws results and progress. A display never raises: what failed is in the text or HTML that it returns."""

    @abstractmethod
    def text(self, result: Displayed) -> str:
        """Return a result as lines of text."""

    @abstractmethod
    def html(self, result: Displayed) -> str:
        """Return a result as the HTML of a notebook's cell."""

    @abstractmethod
    def picture(self, result: Displayed, **choice: Any) -> Picture:  # noqa: ANN401 -- the arguments of plot_partitions
        """Return the picture of a table's partitions or of a repair's changes.

        Raises:
            InvalidInputError, InvalidPredicateError, InvalidValueError: The choice is not valid for the table.
        """

    @abstractmethod
    def progress(self, title: str) -> contextlib.AbstractContextManager[Progress]:
        """Return what shows progress in the running cell of a notebook; elsewhere it does nothing."""

    @abstractmethod
    def steps(self, words: str, total: int) -> contextlib.AbstractContextManager[Callable[[str], None]]:
        """Return what counts named steps in the running cell of a notebook; elsewhere it does nothing."""

    @abstractmethod
    def show_arrow_rows(self) -> None:
        """Make the running IPython show Arrow tables with ``ROWS_MARK`` as rows."""


_find_display: Callable[[], Display] | None = None


def use_display(find: Callable[[], Display]) -> None:
    """Register the display; ``find`` is called whenever a result is shown."""
    global _find_display
    _find_display = find


def _display() -> Display:
    if _find_display is None:
        raise RuntimeError("No display is registered; catalog_ext/__init__.py does that.")
    return _find_display()


class Displayed:
    """A result that the registered display shows, as text and as HTML in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _display().text(self)

    def _repr_html_(self) -> str:
        return _display().html(self)


class Rows(Displayed, list[_Row], Generic[_Row]):
    """A list that shows itself as a table.

    Attributes:
        kind: What a row is, which decides the columns that are shown.
    """

    def __init__(self, kind: RowsKind, rows: Iterable[_Row]) -> None:
        super().__init__(rows)
        self.kind = kind

    def __reduce__(self) -> tuple[type[list[_Row]], tuple[list[_Row]]]:
        # Another process may lack catalog_ext: there it is a plain list.
        return list, (list(self),)


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that a notebook shows.

    Attributes:
        title: The lines above it.
        svg: The picture as an SVG document, to be saved.
        html: The picture with its title and legend, as HTML of a cell.
    """

    title: str
    svg: str
    html: str

    def __repr__(self) -> str:
        return f"<Picture: {self.title}>"

    def _repr_html_(self) -> str:
        return self.html


def picture(result: Displayed, **choice: Any) -> Picture:  # noqa: ANN401 -- the arguments of plot_partitions
    """Return the picture of a table's partitions or of a repair's changes; raises as ``Display.picture``."""
    return _display().picture(result, **choice)


def as_rows(table: pa.Table) -> pa.Table:
    """Return the table with ``ROWS_MARK``; nothing else of it is changed."""
    if "IPython" in sys.modules:
        _display().show_arrow_rows()
    name, value = ROWS_MARK
    return table.replace_schema_metadata({**(table.schema.metadata or {}), name: value})


@contextlib.contextmanager
def shown_progress(given: Progress | None, title: str) -> Iterator[Progress]:
    """Yield the caller's own callback; without one, a bar in the running cell of a notebook, elsewhere no output.

    Args:
        given: The caller's callback.
        title: The text of the bar before the first report.
    """
    if given is not None:
        yield given
        return
    with _display().progress(title) as progress:
        yield progress


def shown_steps(words: str, total: int) -> contextlib.AbstractContextManager[Callable[[str], None]]:
    """Return a callback that takes the name of each step that ended; a notebook's cell shows a bar.

    Args:
        words: What the steps do.
        total: How many steps there are.
    """
    return _display().steps(words, total)
