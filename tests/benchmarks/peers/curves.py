"""The curves of the comparison as SVG: text as text, and the same bytes for the same figures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from tests.benchmarks.peers.figures import CONTENDERS, OURS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.benchmarks.peers.figures import Comparison

_STYLES = {
    OURS: ("#b3123f", "o"),
    "hive": ("#8a6d00", "s"),
    "iceberg": ("#1f6fb4", "^"),
    "delta": ("#2c8c5a", "D"),
    "ducklake": ("#6a4fb3", "v"),
    "duckdb": ("#666666", "x"),
}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "catalog-ext",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(comparison: Comparison, measure: str, title: str, file: Path) -> None:
    """A line for each contender that was measured, over the number of partitions; both axes are logarithmic."""
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(7, 4), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for name, label in CONTENDERS.items():
            color, marker = _STYLES[name]
            points = [
                (each.partitions, each.seconds)
                for each in comparison.figures
                if (each.contender, each.measure) == (name, measure) and each.seconds is not None
            ]
            if points:
                sizes, seconds = zip(*sorted(points), strict=True)
                width = 2.2 if name == OURS else 1.4
                axes.plot(sizes, seconds, color=color, marker=marker, linewidth=width, markersize=5, label=label)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(comparison.sizes(), [f"{size:,}" for size in comparison.sizes()])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        # Whole decades: otherwise lines that lie close together may have no labelled tick beside them.
        low, high = axes.get_ylim()
        axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
        axes.set_xlabel("partitions")
        axes.set_title(title, loc="left")
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white")
    # Matplotlib leaves spaces at the ends of lines.
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def duration(seconds: float) -> str:
    """A power of ten of seconds, for the axis."""
    return f"{seconds:g} s" if seconds >= 1 else f"{seconds * 1000:g} ms"
