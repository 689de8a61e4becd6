"""The curves of the comparison as SVG: text as text, and the same bytes for the same figures."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import leather

from tests.benchmarks.peers.figures import CONTENDERS, OURS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.peers.figures import Comparison

_COLOURS = {
    OURS: "#b3123f", "hive": "#8a6d00", "iceberg": "#1f6fb4", "delta": "#2c8c5a", "ducklake": "#6a4fb3",
    "duckdb": "#666666",
}  # fmt: skip
_SIZE = (760, 420)


def draw(comparison: Comparison, measure: str, title: str, file: Path) -> None:
    """A line for each contender that was measured, over the number of partitions; both axes are logarithmic."""
    chart = leather.Chart(title)
    logarithms = []
    for name, label in CONTENDERS.items():
        points = sorted(
            (math.log10(each.partitions), math.log10(each.seconds))
            for each in comparison.figures
            if (each.contender, each.measure) == (name, measure) and each.seconds is not None
        )
        if points:
            chart.add_line(points, name=label, stroke_color=_COLOURS[name], width=3 if name == OURS else 1.5)
            logarithms += [seconds for _, seconds in points]
    sizes = comparison.sizes()
    chart.add_x_scale(math.log10(sizes[0]), math.log10(sizes[-1]))
    chart.add_x_axis([math.log10(size) for size in sizes], lambda _, i, __: f"{sizes[i]:,}", "partitions")
    # Whole decades: otherwise lines that lie close together may have no labelled tick beside them.
    low = math.floor(min(logarithms))
    high = max(math.ceil(max(logarithms)), low + 1)
    chart.add_y_scale(low, high)
    chart.add_y_axis(list(range(low, high + 1)), lambda value, *_: duration(10.0**value))
    width, height = _SIZE
    root = ET.Element("svg", {
        "xmlns": "http://www.w3.org/2000/svg", "width": str(width), "height": str(height),
        "viewBox": f"0 0 {width} {height}",
    })  # fmt: skip
    root.append(chart.to_svg_group(width, height))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{ET.tostring(root, encoding='unicode')}\n", encoding="utf-8")


def duration(seconds: float) -> str:
    """A power of ten of seconds, for the axis."""
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
