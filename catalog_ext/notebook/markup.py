"""Renders the HTML of notebook cells. Every value is escaped, so a name cannot become markup."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from catalog_ext.overview import formats

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _templates() -> Environment:
    # Imported here: most processes render no cell.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from catalog_ext.overview.map_svg import SHADES, swatch

    made = Environment(
        loader=PackageLoader("catalog_ext.notebook"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= formats.FILTERS
    made.globals |= {
        "swatch": swatch, "levels": SHADES, "zip": zip,
        "rows_of": lambda shown: Markup(render("rows_of.html", shown=shown)),
    }  # fmt: skip
    return made


def render(template: str, **values: object) -> str:
    """Return the HTML of a cell."""
    return _templates().get_template(template).render(**values)
