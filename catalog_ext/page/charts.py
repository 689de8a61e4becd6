"""Charts as SVG, drawn with the library leather, and coloured by the page's style sheet.

leather computes scales, ticks and axes, and builds XML elements, so that no text can become markup. Its colours are
presentation attributes, which a style sheet overrides: one picture serves the dark and the light theme.
"""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import leather
from markupsafe import Markup

from catalog_ext.overview import formats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

_WIDE, _NARROW = (480, 220), (380, 220)
_ACROSS = 1000
_LABELS = 5
_STEPS = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """One column of a chart.

    Attributes:
        label: The text below the column.
        value: The height.
        said: The tooltip.
        kind: A class of the style sheet.
    """

    label: str
    value: float
    said: str
    kind: str = ""


class _Columns(leather.shapes.Columns):  # type: ignore[misc]
    """leather's shape for columns, with a tooltip for each column."""

    def __init__(self, columns: Sequence[Bar]) -> None:
        super().__init__(fill_color="currentColor")
        self._columns = columns

    def to_svg(self, *arguments: Any) -> ET.Element:  # noqa: ANN401 -- as leather has it
        group: ET.Element = super().to_svg(*arguments)
        for rectangle, column in zip(group.findall("rect"), self._columns, strict=True):
            rectangle.set("class", column.kind)
            ET.SubElement(rectangle, "title").text = column.said
        return group


def columns(title: str, of: Sequence[Bar]) -> Markup:
    """Return a chart of counts as columns; if there are many, some labels are omitted."""
    every = -(-len(of) // _LABELS)
    labels = [column.label for column in of]
    # Use unique numbers instead of labels: leather would draw columns with equal labels at the same place.
    data = [(str(i), column.value) for i, column in enumerate(of)]
    chart = leather.Chart()
    chart.add_series(leather.Series(data), _Columns(of))
    _add_y(chart, max((column.value for column in of), default=0), formats.short, _round_steps(1, whole=True))
    chart.add_x_axis(tick_formatter=lambda _, i, __: labels[i] if i % every == 0 else "")
    return _drawn(title, chart, "columns", _WIDE)


def line(title: str, points: Sequence[tuple[datetime, float]], *, of_bytes: bool = False) -> Markup:
    """Return a chart of a value over time, from at least two points with different times."""
    chart = leather.Chart()
    first, last = points[0][0], points[-1][0]

    def across(at: datetime) -> float:
        # leather's own time scale fails for a span of a few seconds, and rounds the ends of all other spans.
        return _ACROSS * ((at - first) / (last - first))

    chart.add_line([(across(at), value) for at, value in points])
    greatest = max(value for _, value in points)
    unit = 1024 ** int(math.log(max(greatest, 1), 1024)) if of_bytes else 1
    _add_y(chart, greatest, formats.size if of_bytes else formats.short, _round_steps(unit, whole=unit == 1))
    days = (last - first).days
    form = "%H:%M:%S" if days < 1 else "%m-%d" if days < 365 else "%Y-%m"
    times = [first + (last - first) * i / 3 for i in range(4)]
    chart.add_x_scale(0, _ACROSS)
    chart.add_x_axis(ticks=list(map(across, times)), tick_formatter=lambda _, i, __: times[i].strftime(form))
    return _drawn(title, chart, "line", _NARROW)


def _round_steps(unit: int, *, whole: bool) -> Iterator[float]:
    """Yield round steps for an axis, in multiples of a unit: 1, 2, 5, 10, 20 and so on."""
    for power in itertools.count(0 if whole else -2):
        for digit in (1, 2, 5):
            yield digit * 10.0**power * unit


def _add_y(chart: Any, greatest: float, unit: Callable[[float], str], steps: Iterator[float]) -> None:  # noqa: ANN401
    step = next(step for step in steps if step * _STEPS >= greatest)
    ticks = [step * i for i in range(math.ceil(greatest / step) + 1)] if greatest else [0, step]
    chart.add_y_scale(0, ticks[-1])
    chart.add_y_axis(ticks=ticks, tick_formatter=lambda value, *_: unit(float(value)))


def _drawn(title: str, chart: Any, kind: str, size: tuple[int, int]) -> Markup:  # noqa: ANN401 -- no types are published
    box = f"0 0 {size[0]} {size[1]}"
    root = ET.Element("svg", {"viewBox": box, "role": "img", "class": f"chart {kind}", "aria-label": title})
    root.append(chart.to_svg_group(*size))
    # The markup is safe: it is serialized from elements, which escapes all names.
    return Markup(ET.tostring(root, encoding="unicode"))
