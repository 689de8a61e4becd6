"""Pictures by matplotlib, which is the extra ``plot``: the partition map, and what a repair has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview import formats
from catalog_ext.overview.partition_map import MEASURES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

    from matplotlib.axes import Axes

    from catalog_ext.overview.partition_map import PartitionMap

PALETTE = ("#dbe9fb", "#b7d3f7", "#8db8f0", "#5f99e6", "#3a7bd5", "#215fb5", "#123f80")
"""The colours of the page's light theme, from the palest to the strongest."""

NOTHING, HOLE, NONE = "#e8ebef", "#b3261e", "#d5dae1"
"""Those of a place with nothing in it, of the frame of a hole, and of a place without a partition elsewhere."""

CHANGED = {"added": "#1a7f4b", "changed": "#d99000", "dropped": "#b3261e", "skipped": "#8b949e"}
"""The colours of what a repair does, by its word."""

_OF_NOTHING = "grey: nothing, or not known"
_MOST_LABELS, _LONGEST_LABEL = 24, 24


@dataclass(frozen=True, slots=True)
class Changes:
    """What a repair has changed, by the values of the first key.

    Attributes:
        title: Above the picture.
        key: The key's name; ``''`` where the table has none.
        values: Texts of the values.
        counts: How many partitions (of what is skipped: paths) there are of each value, by what was done.
        more: How many values are left out.
    """

    title: str
    key: str
    values: tuple[str, ...]
    counts: Mapping[str, tuple[int, ...]]
    more: int = 0


def plot_map(of: PartitionMap, title: str, ax: Axes | None = None, of_all: int | None = None) -> Axes:
    """Draw a partition map, and return what it is drawn on.

    Args:
        of: The map.
        title: Above the picture.
        of_all: How many partitions there are of which the map shows some; None where nobody knows.
        ax: Where it is drawn; None for a figure of its own.

    Raises:
        EnvironmentSetupError: matplotlib is not installed.
    """
    pyplot = _pyplot()
    width, height = len(of.columns), len(of.rows)
    if ax is None:
        size = min(max(2.5 + 0.2 * width, 5.0), 14.0), min(max(1.6 + 0.24 * height, 2.2), 12.0)
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    if height:
        _draw_places(of, ax)
        _label_axis(ax.xaxis, [head.label for head in of.columns])
        _label_axis(ax.yaxis, [head.label for head, _ in of.rows])
        if any(head.label for head, _ in of.rows):
            ax.set_ylabel(_text(of.corner), parse_math=False)
        ax.set_xlabel(_text(of.across), parse_math=False)
    else:
        _say(ax, "no partition")
    ax.set_title(
        "\n".join(_text(line, 100) for line in _title(of, title, of_all)),
        loc="left",
        fontsize="medium",
        parse_math=False,
    )
    return ax


def _title(of: PartitionMap, title: str, of_all: int | None) -> Iterator[str]:
    """Yield the lines above a map: of which table it is, what is drawn of it, and what the signs mean."""
    yield title
    some = f", {of.shown:,} of {counted(of_all, 'partition')}" if of_all is not None and of.shown < of_all else ""
    yield f"{of.caption}{some}"
    if of.undated:
        yield ", ".join(each.label for each in of.undated)
    kinds = {place.kind for _, places in of.rows for place in places if place}
    if of.holes is not None and of.holes.missing:
        framed = " (framed red)" if "hole" in kinds else ""
        yield f"{counted(of.holes.missing, 'day')} of {of.holes.days:,} without a partition{framed}"
    elif "hole" in kinds:
        yield "framed red: no partition"
    signs = [words for kind, words in (("none", "framed: no partition"), ("l0", _OF_NOTHING)) if kind in kinds]
    if signs:
        yield ", ".join(signs)


def _draw_places(of: PartitionMap, ax: Axes) -> None:
    import numpy as np
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    levels = np.full((len(of.rows), len(of.columns)), np.nan)
    frames: dict[str, list[Rectangle]] = {"hole": [], "none": []}
    for y, (_, places) in enumerate(of.rows):
        for x, place in enumerate(places):
            if place is None:
                continue
            if place.kind in frames:
                frames[place.kind].append(Rectangle((x + 0.08, y + 0.08), 0.84, 0.84))
            else:
                levels[y, x] = int(place.kind[1:])
    colours = ListedColormap(PALETTE).with_extremes(under=NOTHING, bad="none")
    mesh = ax.pcolormesh(levels, cmap=colours, vmin=0.5, vmax=len(PALETTE) + 0.5, edgecolors="white", linewidth=1.5)
    for kind, edge in (("hole", HOLE), ("none", NONE)):
        if frames[kind]:
            frame = PatchCollection(frames[kind], facecolors="none", edgecolors=edge, linewidths=1.0)
            frame.set_label(kind)
            ax.add_collection(frame)
    ax.set_ylim(len(of.rows), 0)
    ax.set_xlim(0, len(of.columns))
    ax.set_frame_on(False)
    ax.tick_params(length=0)
    if of.least and ax.figure is not None:
        bar = ax.figure.colorbar(mesh, ax=ax, ticks=[1, len(PALETTE)], shrink=0.9)
        bar.set_label(f"{MEASURES[of.measure]} (logarithm)")
        ends = [of.least, of.greatest]
        bar.set_ticklabels(ends[::-1] if of.youngest_first else ends, parse_math=False)


def plot_changes(of: Changes, ax: Axes | None = None) -> Axes:
    """Draw what a repair has changed, and return what it is drawn on.

    Args:
        of: What it has changed.
        ax: Where it is drawn; None for a figure of its own.

    Raises:
        EnvironmentSetupError: matplotlib is not installed.
    """
    pyplot = _pyplot()
    if ax is None:
        size = min(max(3.0 + 0.22 * len(of.values), 5.0), 14.0), 3.2
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    if any(map(sum, of.counts.values())):
        from matplotlib.ticker import MaxNLocator

        below = [0] * len(of.values)
        for word, colour in CHANGED.items():
            counts = of.counts.get(word, ())
            if sum(counts):
                ax.bar([i + 0.5 for i in range(len(counts))], counts, 0.85, below, color=colour, label=word)
                below = [one + other for one, other in zip(below, counts, strict=True)]
        _label_axis(ax.xaxis, of.values)
        ax.set_xlim(0, len(of.values))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_ylabel("partitions")
        more = f" (… and {counted(of.more, 'value')} more)" if of.more else ""
        ax.set_xlabel(_text(of.key) + more, parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    else:
        _say(ax, "nothing to add, drop or change")
    ax.set_title(_text(of.title, 120), loc="left", fontsize="medium", parse_math=False)
    return ax


def _pyplot() -> ModuleType:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise EnvironmentSetupError(
            "Pictures are drawn by matplotlib, which is not installed. Install it: pip install 'catalog-ext[plot]'."
        ) from error
    return pyplot


def _label_axis(axis: Any, labels: Sequence[str]) -> None:  # noqa: ANN401 -- of either direction
    every = -(-len(labels) // _MOST_LABELS)
    shown = [_text(label) for label in labels[::every]]
    upright = axis.axis_name == "x" and max(map(len, shown), default=0) > 3
    # A name with "$" is no formula.
    axis.set_ticks(
        [i + 0.5 for i in range(0, len(labels), every)], shown, parse_math=False, fontsize="small",
        rotation=90 if upright else 0,
    )  # fmt: skip


def _say(ax: Axes, words: str) -> None:
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center", va="center", color="#57606a")
    ax.set_axis_off()


def _text(text: str, most: int = _LONGEST_LABEL) -> str:
    return formats.visible(formats.cut(text, most))
