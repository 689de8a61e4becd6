"""The partition map as SVG: one renderer for the page and for notebooks.

Colours are presentation attributes. The page's style sheet overrides them by class; a notebook and a saved document
have no style sheet. Elements are built with ElementTree, so a name cannot become markup. ARIA roles make the map a
table for screen readers.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from markupsafe import Markup

from catalog_ext.overview import formats
from catalog_ext.overview.layout import width_of
from catalog_ext.overview.partition_map import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.overview.partition_map import MapPlace, PartitionMap

_PITCH, _SIZE, _GAP = 18, 16, 6
"""Pixels: the distance of two cells, the side of a cell, and the gap between headings and cells."""

_CHARACTER = 6.3
"""The estimated width of a character in pixels: SVG cannot measure text."""

_LONGEST = 32
_TALL = 3
"""The length of a column's heading from which on the headings are written vertically."""

_SQUARE = {"width": str(_SIZE), "height": str(_SIZE), "rx": "2"}
_FRAME = {"fill-opacity": "0", "stroke-width": "1"}
_STRENGTHS = (".14", ".26", ".38", ".52", ".66", ".82", "1")
"""The opacity of the blue colour for each shade, from the palest to the strongest, for light and dark themes."""

COLOURS: dict[str, dict[str, str]] = {
    "l0": {"fill": "#808080", "fill-opacity": ".25"},
    "hole": {**_FRAME, "stroke": "#d1453b"},
    "none": {**_FRAME, "stroke": "#808080", "stroke-opacity": ".4"},
    **{f"l{n}": {"fill": "#2f7de1", "fill-opacity": strength} for n, strength in enumerate(_STRENGTHS, 1)},
}
"""The colours of each kind of cell."""

SHADES = tuple(f"l{n + 1}" for n in range(LEVELS))
"""The kinds of cells with partitions, from the palest."""


def map_svg(of: PartitionMap, said: Callable[[MapPlace], str] = lambda place: place.label) -> Markup:
    """Return a map as SVG.

    ``said`` returns a cell's tooltip, which is also its text for screen readers; ``''`` for none.
    """
    labels = [_shown(head.label) for head in of.columns]
    tall = any(len(label) >= _TALL for label in labels)
    left = _room([_shown(of.corner), *(_shown(head.label) for head, _ in of.rows)])
    top = _room(labels) if tall else _SIZE + _GAP
    width, height = left + _PITCH * len(of.columns) + _GAP, top + _PITCH * len(of.rows)
    root = ET.Element("svg", {
        "class": "map", "role": "table", "aria-label": formats.visible(of.caption), "width": str(width),
        "height": str(height), "viewBox": f"0 0 {width} {height}", "font-size": "11", "fill": "currentColor",
    })  # fmt: skip
    heads = ET.SubElement(root, "g", {"role": "row"})
    _add_head(heads, "columnheader", of.corner, None, {"x": str(left - _GAP), "y": str(top - 4), "text-anchor": "end"})
    for number, head in enumerate(of.columns):
        x, y = left + _PITCH * number + _SIZE // 2, top - 4
        at = {"x": str(x + 4 if tall else x), "y": str(y)}
        at |= {"transform": f"rotate(-90 {x + 4} {y})"} if tall else {"text-anchor": "middle"}
        _add_head(heads, "columnheader", head.label, head.href, at)
    for number, (head, places) in enumerate(of.rows):
        y = top + _PITCH * number
        row = ET.SubElement(root, "g", {"role": "row"})
        at = {"x": str(left - _GAP), "y": str(y + 12), "text-anchor": "end"}
        _add_head(row, "rowheader", head.label, head.href, at)
        for column, place in enumerate(places):
            _add_place(row, place, str(left + _PITCH * column), str(y), said)
    return Markup(ET.tostring(root, encoding="unicode"))


def _room(labels: Sequence[str]) -> int:
    return round(_CHARACTER * max(map(width_of, labels))) + _GAP


def _shown(text: str) -> str:
    return formats.visible(formats.cut(text, _LONGEST))


def _add_head(row: ET.Element, role: str, label: str, href: str | None, at: dict[str, str]) -> None:
    head = ET.SubElement(row, "g", {"role": role})
    if href is not None:
        # Row headings are in the Tab order. Column headings are reached by the arrow keys from the cells below them.
        keys = {"tabindex": "-1"} if role == "columnheader" else {}
        link = ET.SubElement(head, "a", {"href": f"{href}#map-title", **keys})
    ET.SubElement(head if href is None else link, "text", at).text = _shown(label)


def _add_place(row: ET.Element, place: MapPlace | None, x: str, y: str, said: Callable[[MapPlace], str]) -> None:
    if place is None:
        ET.SubElement(row, "g", {"role": "cell"})
        return
    square = ET.SubElement(row, "rect", {
        "class": place.kind, "role": "cell", "x": x, "y": y, **_SQUARE, **COLOURS[place.kind],
    })  # fmt: skip
    if text := said(place):
        ET.SubElement(square, "title").text = formats.visible(text)


def swatch(kind: str) -> Markup:
    """Return a square in the colour of a kind of cell, for a legend."""
    box = f"-1 -1 {_SIZE + 2} {_SIZE + 2}"
    root = ET.Element("svg", {"class": "swatch", "aria-hidden": "true", **_SQUARE, "viewBox": box})
    ET.SubElement(root, "rect", {"class": kind, **_SQUARE, **COLOURS[kind]})
    return Markup(ET.tostring(root, encoding="unicode"))


def document(svg: Markup) -> str:
    """Return an SVG element as a complete SVG file."""
    return str(svg).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" ', 1)
