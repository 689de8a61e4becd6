"""Pictures by matplotlib: the map's places, colours and holes, and what a repair has changed."""

from __future__ import annotations

import re
import sys
import warnings
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex

from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidInputError, InvalidPredicateError
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.notebook.plots import CHANGED, HOLE, NONE, NOTHING, PALETTE
from catalog_ext.overview.partition_map import LEVELS
from catalog_ext.repair.report import NEW
from tests.index_cases import create
from tests.page_cases import HOSTILE, fill
from tests.unit.repair.test_repair_report import report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes

    from catalog_ext.catalog import Catalog

PAGE_CSS = Path(__file__).parents[3] / "catalog_ext" / "page" / "static" / "page.css"
NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(autouse=True)
def without_a_screen() -> Iterator[None]:
    from matplotlib import pyplot

    mpl.use("Agg")
    yield
    pyplot.close("all")


def levels(ax: Axes) -> list[list[float | None]]:
    """The strengths of the places, row by row; None where there is none."""
    mesh: Any = ax.collections[0]
    values = np.ma.masked_invalid(mesh.get_array()).reshape(mesh._coordinates.shape[0] - 1, -1)
    return [[None if value is np.ma.masked else float(value) for value in row] for row in values]


def frames(ax: Axes, kind: str) -> int:
    return sum(len(each.get_paths()) for each in ax.collections if each.get_label() == kind)


def labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def drawn(ax: Axes) -> Axes:
    figure: Any = ax.figure
    with warnings.catch_warnings():
        # Fonts have no crab.
        warnings.filterwarnings("ignore", "Glyph")
        figure.canvas.draw()
    return ax


def test_one_key_of_dates_is_a_calendar_with_its_holes(catalog: Catalog) -> None:
    days = [date(2025, 1, 30) + timedelta(n) for n in (0, 1, 2, 5)]
    fill(catalog.index, create(catalog.index, "t", {"ds": "date", "r": "string"}), [f"ds={day}/r=x" for day in days])
    ax = drawn(catalog.table("s.t").plot_partitions("ds"))
    assert labels(ax.yaxis) == ["2025-01", "2025-02"]
    january, february = levels(ax)
    assert [n + 1 for n, level in enumerate(january) if level == LEVELS] == [30, 31]
    assert [n + 1 for n, level in enumerate(february) if level == LEVELS] == [1, 4]
    assert frames(ax, "hole") == 2
    assert ax.get_title(loc="left") == "lake.s.t\nSize by ds\n2 days of 6 without a partition (framed red)"


@pytest.mark.slow
def test_two_keys_measures_and_conditions(catalog: Catalog) -> None:
    names = [f"r={r}/n={n}" for r in ("a", "b", NULL) for n in (1, 2) if (r, n) != ("b", 2)]
    fill(catalog.index, create(catalog.index, "t", {"r": "string", "n": "int"}), names)
    table = catalog.table("s.t")
    ax = drawn(table.plot_partitions())
    assert (labels(ax.xaxis), labels(ax.yaxis)) == (["NULL", "a", "b"], ["1", "2"])
    assert (frames(ax, "none"), frames(ax, "hole")) == (1, 0)
    ax = drawn(table.plot_partitions(["N", "r"], measure="files", where="r = 'a'"))
    assert (labels(ax.xaxis), labels(ax.yaxis)) == (["1", "2"], ["a"])
    assert ax.get_title(loc="left") == "lake.s.t\nFiles by n and r"
    ax = drawn(table.plot_partitions("r", measure="age"))
    assert labels(ax.xaxis) == ["NULL", "a", "b"]
    ax = drawn(table.plot_partitions(where="r = 'c'"))
    assert [text.get_text() for text in ax.texts] == ["no partition"]


@pytest.mark.slow
def test_a_picture_says_what_its_axes_its_colour_and_its_frames_are(catalog: Catalog) -> None:
    names = [f"ds=2025-01-{day:02}/n={n}" for day in (1, 2, 4) for n in range(45)]
    fill(catalog.index, create(catalog.index, "t", {"ds": "date", "n": "int"}), [*names, f"ds={NULL}/n=1"])
    table = catalog.table("s.t")
    by_two = drawn(table.plot_partitions(measure="rows"))
    assert (by_two.get_xlabel(), by_two.get_ylabel()) == ("ds", "n")
    assert by_two.figure.axes[-1].get_ylabel() == "rows (logarithm)"
    assert by_two.get_title(loc="left").splitlines() == [
        "lake.s.t", "Rows by ds and n, 120 of 136 partitions", "1 partition without a ds",
        "1 day of 4 without a partition (framed red)",
    ]  # fmt: skip
    assert drawn(table.plot_partitions("ds", unit="day")).get_xlabel() == "day of the month"
    assert drawn(table.plot_partitions("ds", unit="month")).get_xlabel() == "month"
    numbered = drawn(table.plot_partitions("n", measure="age"))
    assert (numbered.get_xlabel(), numbered.figure.axes[-1].get_ylabel()) == ("", "age of the last change (logarithm)")


def test_a_picture_of_values_says_what_is_not_there(catalog: Catalog) -> None:
    table = create(catalog.index, "t", {"r": "string", "n": "int"})
    catalog.index.commit(table.table_id, [AddPartition("r=a/n=1", ())], operation="INSERT", deliver=False)
    fill(catalog.index, table, ["r=b/n=2"])
    title = drawn(catalog.table("s.t").plot_partitions()).get_title(loc="left")
    assert title.splitlines() == ["lake.s.t", "Size by r and n", "framed: no partition, grey: nothing, or not known"]


def test_it_is_drawn_where_one_wants_it(catalog: Catalog) -> None:
    from matplotlib import pyplot

    fill(catalog.index, create(catalog.index, "t", {"k": "int"}), ["k=1"])
    _, (one, _) = pyplot.subplots(1, 2)
    assert catalog.table("s.t").plot_partitions(ax=one) is one


@pytest.mark.slow
def test_the_finest_unit_of_which_all_fit(catalog: Catalog) -> None:
    days = [date(1965, 1, 1) + timedelta(n * 200) for n in range(60)]
    fill(catalog.index, create(catalog.index, "t", {"ds": "date"}), [f"ds={day}" for day in days])
    ax = drawn(catalog.table("s.t").plot_partitions())
    assert labels(ax.yaxis)[:2] == ["1965", "1967"]
    ax = drawn(catalog.table("s.t").plot_partitions(unit="day"))
    assert labels(ax.yaxis)[-1] == "1997-04"


def test_what_cannot_be_drawn_is_an_error(catalog: Catalog) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "string"}), ["k=1"])
    fill(catalog.index, create(catalog.index, "plain", {}), [""])
    nine = {f"k{n}": "int" for n in range(9)}
    fill(catalog.index, create(catalog.index, "nine", nine), ["/".join(f"k{n}=1" for n in range(9))])
    table = catalog.table("s.t")
    for keys in (["k", "k"], [], "nope", ["k", "nope"]):
        with pytest.raises(InvalidInputError, match=r"one or two of its keys \(k;"):
            table.plot_partitions(keys)
    with pytest.raises(InvalidInputError, match="the first eight"):
        catalog.table("s.nine").plot_partitions("k8")
    with pytest.raises(InvalidInputError, match="no partition columns"):
        catalog.table("s.plain").plot_partitions()
    with pytest.raises(InvalidInputError, match="measure is 'weight'; it is one of bytes, files"):
        table.plot_partitions(measure="weight")
    with pytest.raises(InvalidInputError, match="unit is 'week'"):
        table.plot_partitions(unit="week")
    with pytest.raises(InvalidPredicateError):
        table.plot_partitions(where="nope = 1")


@pytest.mark.slow
def test_names_are_no_formulas(catalog: Catalog) -> None:
    from catalog_ext.metastore.model.partition_names import escape_path_name

    values = (*HOSTILE, r"$\frac{1}{0}$", "$x", "a$b$c")
    names = [f"v={escape_path_name(value)}/$k={n}" for n, value in enumerate(values)]
    fill(catalog.index, create(catalog.index, "t", {"v": "string", "$k": "int"}), names)
    ax = drawn(catalog.table("s.t").plot_partitions())
    assert r"$\frac{1}{0}$" in labels(ax.xaxis)
    assert ax.get_ylabel() == "$k"
    rows = [("add", name, name, 1, 1, NEW) for name in names]
    assert r"$\frac{1}{0}$" in labels(drawn(report(*rows, keys=["v", "$k"]).plot_partitions()).xaxis)


def test_without_matplotlib_it_says_what_to_install(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "string"}), ["k=1"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (catalog.table("s.t").plot_partitions, report().plot_partitions):
        with pytest.raises(EnvironmentSetupError, match=re.escape("pip install 'catalog-ext[plot]'")):
            draw()


def test_the_colours_are_the_pages() -> None:
    light = PAGE_CSS.read_text(encoding="utf-8").partition("}")[0]
    colours = dict(re.findall(r"--(l\d|hole|line): (#\w{6})", light))
    assert tuple(colours[f"l{n}"] for n in range(1, LEVELS + 1)) == PALETTE
    assert (colours["l0"], colours["hole"], colours["line"]) == (NOTHING, HOLE, NONE)


def bars(ax: Axes) -> dict[str, list[float]]:
    return {str(each.get_label()): [float(bar.get_height()) for bar in each] for each in ax.containers}  # type: ignore[attr-defined]


def test_a_repairs_picture_counts_partitions_by_the_first_key() -> None:
    rows = [
        ("add", "ds=2025-01-01/r=a", "x", 1, 1, NEW), ("add", "ds=2025-01-01/r=b", "x", 1, 1, NEW),
        ("change", "ds=2025-01-02/r=a", "x/1", 1, 1, "file added"),
        ("change", "ds=2025-01-02/r=a", "x/2", 1, 1, "file added"),
        ("drop", f"ds={NULL}/r=a", "x", 1, 1, "gone"), ("skip", "", "stray", 1, 1, "no key"),
    ]  # fmt: skip
    of = report(*rows, keys=["DS", "r"], dry_run=True)
    ax = drawn(of.plot_partitions())
    assert labels(ax.xaxis) == ["(no partition)", "2025-01-01", "2025-01-02", "NULL"]
    assert bars(ax) == {
        "added": [0, 2, 0, 0], "changed": [0, 0, 1, 0], "dropped": [0, 0, 0, 1], "skipped": [1, 0, 0, 0],
    }  # fmt: skip
    assert ax.get_xlabel() == "DS"
    assert ax.get_title(loc="left") == "Preview of repair of s.t (mode sync): nothing was changed"
    assert to_hex(ax.containers[0][0].get_facecolor()) == CHANGED["added"]


@pytest.mark.slow
def test_a_repairs_picture_of_much_is_bounded() -> None:
    first = date(1950, 1, 1)
    dates = [("add", f"ds={first + timedelta(n)}/r=x", "x", 1, 1, NEW) for n in range(20_000)]
    ax = drawn(report(*dates, keys=["ds", "r"]).plot_partitions())
    assert sum(bars(ax)["added"]) == 20_000
    assert labels(ax.xaxis)[0] == "1950"
    words = [("drop", f"k=v{n}/r=x", "x", 1, 1, "gone") for n in range(5_000)]
    ax = drawn(report(*words, *words[:40], keys=["k", "r"]).plot_partitions())
    assert len(bars(ax)["dropped"]) == 30
    assert ax.get_xlabel() == "k (… and 4,970 values more)"


def test_a_repairs_picture_of_nothing_says_so() -> None:
    assert [text.get_text() for text in report(keys=["k"]).plot_partitions().texts] == [
        "nothing to add, drop or change"
    ]
    ax = drawn(report(("change", "", "x", 1, 1, "file added")).plot_partitions())
    assert bars(ax) == {"changed": [1]}
