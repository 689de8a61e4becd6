"""The display that ``catalog_ext`` registers: results as text and HTML, pictures, and bars in a notebook's cell.

Modules are imported in the functions that need them: a repair outside a notebook asks for a progress bar, and must not
load the modules of cards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.display import Display, Displayed, Rows
from catalog_ext.notebook.cell_progress import cell_progress, cell_steps

if TYPE_CHECKING:
    from catalog_ext.display import Picture


class NotebookDisplay(Display):
    """Draws results with the cards, lists and pictures of this package."""

    def text(self, result: Displayed) -> str:
        """Return a list as a table that fits the terminal, and another result as the facts of its card."""
        if isinstance(result, Rows):
            from catalog_ext.notebook.rows import listed

            return listed(result).text()
        from catalog_ext.notebook.cards import card_text

        return card_text(result)

    def html(self, result: Displayed) -> str:
        """Return a list as an HTML table, and any other result as its card."""
        if isinstance(result, Rows):
            from catalog_ext.notebook.rows import listed

            return listed(result).html()
        from catalog_ext.notebook.cards import card_html

        return card_html(result)

    def picture(self, result: Displayed, **choice: Any) -> Picture:  # noqa: ANN401 -- the arguments of plot_partitions
        """Return the picture of a table's partitions or of a repair's changes."""
        from catalog_ext.catalog_table import CatalogTable
        from catalog_ext.notebook.pictures import report_picture, table_picture
        from catalog_ext.repair.report import RepairReport

        if isinstance(result, CatalogTable):
            return table_picture(result, **choice)
        if isinstance(result, RepairReport):
            return report_picture(result)
        raise TypeError(f"A {type(result).__name__} has no picture.")

    progress = staticmethod(cell_progress)
    steps = staticmethod(cell_steps)

    def show_arrow_rows(self) -> None:
        """Register the formatters of Arrow tables."""
        from catalog_ext.notebook.rows import register

        register()
