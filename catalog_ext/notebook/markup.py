"""Makes the HTML of cells: whatever is put into it is escaped, and cannot be taken for markup."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from catalog_ext.overview import formats

if TYPE_CHECKING:
    from jinja2 import Environment

STRENGTHS = (0.14, 0.26, 0.38, 0.52, 0.66, 0.82, 1.0)
"""How opaque the blue of a place is, from the palest to the strongest: more is stronger on light and on dark."""

_EMPTY, _FRAME = "background:rgba(128,128,128,.25)", "background:none;box-shadow:inset 0 0 0 1px"
COLOURS = {
    "l0": _EMPTY, "hole": f"{_FRAME} #d1453b", "none": f"{_FRAME} rgba(128,128,128,.4)",
    **{f"l{n}": f"background:#2f7de1{round(strength * 255):02x}" for n, strength in enumerate(STRENGTHS, 1)},
}  # fmt: skip
"""The style of each kind of place. It stands in the place itself: style sheets are taken away where a notebook is not
trusted."""


@cache
def _templates() -> Environment:
    # Not at the top: a catalog is opened, and the command line run, by many who look at no cell.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from catalog_ext.overview.partition_map import LEVELS

    made = Environment(
        loader=PackageLoader("catalog_ext.notebook"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= formats.FILTERS
    made.globals |= {
        "colours": COLOURS, "levels": [f"l{n + 1}" for n in range(LEVELS)], "zip": zip,
        "rows_of": lambda shown: Markup(render("rows_of.html", shown=shown)),
    }  # fmt: skip
    return made


def render(template: str, **values: object) -> str:
    """Return the HTML of a cell."""
    return _templates().get_template(template).render(**values)
