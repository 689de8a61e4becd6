"""Lists that show themselves, Arrow tables that IPython shows, and bars in cells."""

from __future__ import annotations

import copy
import pickle
import sys
import time
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from IPython.core.formatters import DisplayFormatter

from catalog_ext.context import RepairProgress
from catalog_ext.notebook import cell_progress
from catalog_ext.notebook.rows import shown_table
from tests.kit.index_cases import create
from tests.kit.page_cases import catalog_with_everything, fill
from tests.kit.repair_cases import register, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture(autouse=True)
def of_120_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def test_history_is_a_list_and_a_table(catalog: Catalog) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "string"}), ["k=1", "k=2"])
    history = catalog.history("s.t")
    assert isinstance(history, list)
    assert [commit.version for commit in history] == [1, 0]
    heading, rule, newest, oldest = repr(history).splitlines()
    assert heading.split() == ["version", "operation", "committed", "(UTC)", "user", "changes"]
    assert set(rule) == {"─", " "}
    assert newest.split()[:2] == ["1", "INSERT"]
    assert newest.endswith("partitions +2, files +2, 2,000 rows, 80.0 MiB")
    assert oldest.split()[:2] == ["0", "create"]
    assert "<bdi>INSERT</bdi>" in history._repr_html_()
    for other in (copy.copy(history), copy.deepcopy(history), pickle.loads(pickle.dumps(history))):
        assert other == list(history)


def test_status_says_that_nothing_is_under_way(catalog: Catalog, tmp_path: Path) -> None:
    assert (catalog.status(), repr(catalog.status())) == ([], "Nothing is under way.")
    assert "Nothing is under way." in catalog.status()._repr_html_()
    with catalog_with_everything(tmp_path / "everything") as everything:
        assert "failed" in repr(everything.table("sales.trips").status())


def test_the_first_rows_are_shown_and_the_others_counted(catalog: Catalog) -> None:
    table = create(catalog.index, "t", {"k": "int"})
    for n in range(60):
        fill(catalog.index, table, [f"k={n}"])
    assert repr(catalog.history("s.t")).endswith("… and 11 more")
    assert "… and 11 more" in catalog.history("s.t")._repr_html_()


class Shell:
    """An IPython whose formatters are its own."""

    def __init__(self) -> None:
        self.display_formatter = DisplayFormatter()

    def shown(self, value: object) -> dict[str, Any]:
        data, _ = self.display_formatter.format(value)  # type: ignore[no-untyped-call]
        return dict(data)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell, module = Shell(), ModuleType("IPython")
    module.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    return shell


def test_a_cell_shows_partitions_and_files_as_tables(catalog: Catalog, shell: Shell) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "string"}), ["k=<b>", "k=\u202ex"])
    shown = shell.shown(catalog.partitions("s.t"))
    assert "<bdi>k=&lt;b&gt;</bdi>" in shown["text/html"]
    assert shown["text/plain"].splitlines()[0].split() == ["partition", "files", "bytes", "rows", "created", "(UTC)"]
    assert "k=⟨U+202E⟩x" in shown["text/plain"]
    assert "part-0.parquet" in shell.shown(catalog.table("s.t").files())["text/html"]
    assert "There is nothing to show." in shell.shown(catalog.partitions("s.t", "k = 'none'"))["text/html"]
    # What is not ours is shown as ever, though it is made of ours.
    other = pa.table({"a": [1]})
    assert shell.shown(other) == {"text/plain": repr(other)}


def test_somebodys_own_look_of_arrow_tables_stays(catalog: Catalog, shell: Shell) -> None:
    html: Any = shell.display_formatter.formatters["text/html"]
    html.for_type(pa.Table, lambda _: "theirs")
    create(catalog.index, "t", {"k": "string"})
    assert shell.shown(catalog.partitions("s.t"))["text/html"] == "theirs"


def test_partitions_are_the_same_arrow_table_as_ever(catalog: Catalog) -> None:
    create(catalog.index, "t", {"k": "string"})
    found = catalog.partitions("s.t")
    assert isinstance(found, pa.Table)
    assert shown_table(found) is not None
    assert shown_table(pa.table({"a": [1]})) is None


Published = list[tuple[dict[str, str], str, bool]]


def cell(shell: Shell) -> Published:
    """Makes the shell a kernel's; what is published in its cell."""
    published: Published = []

    def publish(*, data: dict[str, str], transient: dict[str, str], update: bool) -> None:
        published.append((data, transient["display_id"], update))

    shell.kernel, shell.display_pub = object(), SimpleNamespace(publish=publish)  # type: ignore[attr-defined]
    return published


def _repaired(catalog: Catalog, tmp_path: Path, progress: Callable[[RepairProgress], None] | None = None) -> None:
    root = tmp_path / "t"
    write(root, *(f"ds=2025-01-0{n}/region=eu/a.csv" for n in range(1, 4)))
    register(catalog, root)
    catalog.repair_partitions("s.t", progress=progress)


def test_a_bar_comes_in_a_cell_and_goes(
    catalog: Catalog, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = cell(shell)
    monkeypatch.setattr(cell_progress, "AFTER_S", 0.0)
    monkeypatch.setattr(cell_progress, "EVERY_S", 0.0)
    _repaired(catalog, tmp_path)
    by_bar: dict[str, Published] = {}
    for each in published:
        by_bar.setdefault(each[1], []).append(each)
    words = [[data["text/plain"] for data, *_ in shown] for shown in by_bar.values()]
    assert "Reading the keys and a sample of files of s.t" in words[0]
    assert any(text.startswith("Applying changes: 3 of 3 partitions") for text in words[-1])
    for shown in by_bar.values():
        assert [update for *_, update in shown] == [False] + [True] * (len(shown) - 1)
        assert "<progress" in shown[0][0]["text/html"]
        assert shown[-1][0] == {"text/html": "", "text/plain": ""}


def test_a_comparison_shows_a_bar(
    catalog: Catalog, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    _repaired(catalog, tmp_path)
    published = cell(shell)
    monkeypatch.setattr(cell_progress, "AFTER_S", 0.0)
    monkeypatch.setattr(cell_progress, "EVERY_S", 0.0)
    assert list(catalog.drift("s.t")) == []
    words = [data["text/plain"] for data, *_ in published]
    assert any(text.startswith("Listing the store: ") for text in words)
    assert words[-1] == ""
    published.clear()
    taken: list[RepairProgress] = []
    assert list(catalog.drift("s.t", progress=taken.append)) == []
    assert (published, taken[0].phase) == ([], "listing")


def test_many_steps_show_how_many_are_done(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    published = cell(shell)
    monkeypatch.setattr(cell_progress, "AFTER_S", 0.0)
    monkeypatch.setattr(cell_progress, "EVERY_S", 0.0)
    with cell_progress.cell_steps("Importing tables", 2) as ended:
        ended("s.<b>a")
        ended("s.b")
    words = [data["text/plain"] for data, *_ in published]
    assert words[-3:] == [
        "Importing tables: 1 of 2, the last s.<b>a", "Importing tables: 2 of 2, the last s.b", "",
    ]  # fmt: skip
    assert 'max="2" value="1"' in published[-3][0]["text/html"]
    assert "<b>" not in published[-3][0]["text/html"].partition("<bdi>")[2]
    assert len({bar for _, bar, _ in published}) == 1


def test_a_bar_that_cannot_be_shown_ends_no_repair(
    catalog: Catalog, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def fails(**shown: object) -> None:
        tried.append(shown)
        raise OSError("the kernel is going")

    cell(shell)
    monkeypatch.setattr(shell.display_pub, "publish", fails)  # type: ignore[attr-defined]
    monkeypatch.setattr(cell_progress, "AFTER_S", 0.0)
    _repaired(catalog, tmp_path)
    assert catalog.partitions("s.t").num_rows == 3
    assert len(tried) == 2, "one of the registration, one of the repair"


@pytest.mark.slow
def test_a_short_repair_shows_no_bar(catalog: Catalog, tmp_path: Path, shell: Shell) -> None:
    published = cell(shell)
    bar = cell_progress.CellBar(lambda *shown: published.append(shown), "x")  # type: ignore[arg-type]
    bar.update(RepairProgress("listing", 1, 1))
    bar.close()
    time.sleep(cell_progress.AFTER_S + 0.1)
    assert published == []


def test_who_takes_the_progress_himself_sees_no_bar(
    catalog: Catalog, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    published, taken = cell(shell), []
    write(tmp_path / "t", "ds=2025-01-01/region=eu/a.csv")
    register(catalog, tmp_path / "t")
    published.clear()
    monkeypatch.setattr(cell_progress, "AFTER_S", 0.0)
    catalog.repair_partitions("s.t", progress=taken.append)
    assert published == []
    assert [report.phase for report in taken][-1] == "delivering"


def test_an_ipython_without_a_kernel_has_no_cells(
    catalog: Catalog, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_progress, "AFTER_S", 0.0)
    _repaired(catalog, tmp_path)
