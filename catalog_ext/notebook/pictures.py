"""Pictures: the partition map of a table, and the changes of a repair, as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, TypeVar

from markupsafe import Markup

from catalog_ext.display import Picture
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index.read.partition_map import Unit
from catalog_ext.metastore.predicates.conditions import bound_where
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.notebook.cards import CHANGED, small_map
from catalog_ext.notebook.markup import render
from catalog_ext.overview import formats
from catalog_ext.overview.map_layout import WIDE, Choice, Measure, first_keys, keys_by_name
from catalog_ext.overview.map_svg import document
from catalog_ext.overview.partition_map import read_map
from catalog_ext.sync.tables import table_of

if TYPE_CHECKING:
    from catalog_ext.catalog_table import CatalogTable, Keys
    from catalog_ext.metastore.backports import StrEnum
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.repair.changes_by_value import ChangesByValue
    from catalog_ext.repair.report import RepairReport

_Choice = TypeVar("_Choice", bound="StrEnum")

_HIGH, _PITCH, _BAR, _LEFT, _BELOW = 160, 22, 18, 60, 120
"""Pixels: the height of the highest column, the distance of columns, their width, and the margins for labels."""

_MOST_LABELS, _LONGEST = 60, 20


def table_picture(of: CatalogTable, *, keys: Keys, measure: str, where: Where, unit: str | None) -> Picture:
    """Return the partition map of a table; the arguments are those of ``CatalogTable.plot_partitions``."""
    index = of._context.open_index
    found = index.views.load_relation(of._identifier)
    table = table_of(found)
    choice = Choice(_one_of(Measure, measure, "measure"), None if unit is None else _one_of(Unit, unit, "unit"))
    predicate = bound_where(table, where)
    drawn = read_map(index.overviews, table, predicate, _chosen(table, keys), choice, index.now_ms())
    if drawn is None:
        raise InvalidInputError(
            f"Table {table.identifier} has no partition columns: there is no map of its partitions.",
            {"table": str(table.identifier)},
        )
    shown = small_map(drawn)
    html = render("picture.html", title=of.name, map=shown, partitions=table.totals.partitions)
    return Picture(f"{of.name}: {drawn.caption}", document(shown.svg), html)


def _chosen(table: Table, keys: Keys) -> tuple[Key, ...]:
    if keys is None:
        return first_keys(table)
    names = [keys] if isinstance(keys, str) else list(keys)
    by_name = {name.lower(): key for name, key in keys_by_name(table).items()}
    unknown = [name for name in names if name.lower() not in by_name]
    if unknown or len(set(map(str.lower, names))) != len(names) or not 1 <= len(names) <= 2:
        asked_keys, table_keys = ", ".join(name[:80] for name in names[:10]), ", ".join(keys_by_name(table)) or "none"
        raise InvalidInputError(
            f"keys is {asked_keys or 'empty'}; a map of table {table.identifier} is over one or two of its keys "
            f"({table_keys}; of more than eight the first eight).",
            {"table": str(table.identifier)},
        )
    return tuple(by_name[name.lower()] for name in names)


def _one_of(choices: type[_Choice], value: str, argument: str) -> _Choice:
    if value not in list(choices):
        raise InvalidInputError(f"{argument} is {str(value)[:40]!r}; it is one of {', '.join(choices)}.")
    return choices(value)


def report_picture(report: RepairReport) -> Picture:
    """Return the changes of a repair by the values of the first key, as stacked columns."""
    changes, title = report._changes(WIDE.unit_of), report._headline()
    svg = _columns_svg(changes)
    shown = {word: colour for word, colour in CHANGED.items() if sum(changes.counts[word])}
    html = render("changes.html", title=title, svg=svg, key=changes.key, more=changes.more, colours=shown)
    return Picture(title, document(svg), html)


def _columns_svg(of: ChangesByValue) -> Markup:
    sums = [sum(counts) for counts in zip(*of.counts.values(), strict=True)]
    most = max(sums, default=0) or 1
    width, height = _LEFT + _PITCH * max(len(sums), 1), _HIGH + _BELOW + 10
    root = ET.Element("svg", {
        "class": "changes", "role": "img", "aria-label": f"Changes by {formats.visible(of.key)}", "width": str(width),
        "height": str(height), "viewBox": f"0 0 {width} {height}", "font-size": "11", "fill": "currentColor",
    })  # fmt: skip
    for value in (0, most):
        at = {"x": str(_LEFT - 6), "y": str(10 + _HIGH - round(_HIGH * value / most) + 4), "text-anchor": "end"}
        ET.SubElement(root, "text", at).text = formats.short(value)
    every = -(-len(sums) // _MOST_LABELS)
    for number, label in enumerate(of.values):
        x, y = _LEFT + _PITCH * number, 10.0 + _HIGH
        for word, colour in CHANGED.items():
            count = of.counts[word][number]
            if not count:
                continue
            tall = _HIGH * count / most
            y -= tall
            bar = {"class": word, "x": str(x), "y": f"{y:.1f}", "width": str(_BAR), "height": f"{tall:.1f}"}
            title = ET.SubElement(ET.SubElement(root, "rect", {**bar, "fill": colour}), "title")
            counts = counted(count, "path" if word == "skipped" else "partition")
            title.text = f"{formats.visible(label)}: {word} {counts}"
        if number % every == 0:
            x, y = x + _BAR // 2 + 4, 10 + _HIGH + 6
            at = {"x": str(x), "y": str(y), "text-anchor": "end", "transform": f"rotate(-90 {x} {y})"}
            ET.SubElement(root, "text", at).text = formats.visible(formats.cut(label, _LONGEST))
    return Markup(ET.tostring(root, encoding="unicode"))
