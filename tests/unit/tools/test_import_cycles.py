"""The checker of import cycles, which `make lint` runs: it finds a planted circle, and none in what we ship."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checks import import_cycles

if TYPE_CHECKING:
    from pathlib import Path


def plant(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, **modules: str) -> str:
    """A package of these modules, which Python finds."""
    package = folder / name
    package.mkdir()
    (package / "__init__.py").write_text("")
    for module, source in modules.items():
        (package / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    return name


def test_our_modules_import_each_other_in_no_circle() -> None:
    assert import_cycles.cycle() == []


@pytest.mark.parametrize(
    "back",
    [
        "import planted_circle.first\n",
        "from planted_circle import first\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted_circle.first import x\n",
        "def late():\n    from planted_circle import first\n",
    ],
    ids=["module", "name", "type only", "within a function"],
)
def test_a_planted_circle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: str) -> None:
    package = plant(
        tmp_path,
        monkeypatch,
        "planted_circle",
        first="from planted_circle import second\nx = 1\n",
        second="from planted_circle import third\n",
        third=back,
        beside="from planted_circle import first\n",
    )
    found = import_cycles.cycle(package)
    assert found[0] == found[-1]
    assert {name.rpartition(".")[2] for name in found} == {"first", "second", "third"}


def test_a_package_without_a_circle_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = plant(
        tmp_path,
        monkeypatch,
        "planted_tree",
        top="from planted_tree import left, right\n",
        left="from planted_tree import root\n",
        right="from planted_tree import root\n",
        root="",
    )
    assert import_cycles.cycle(package) == []


def test_a_circle_fails_lint_and_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(import_cycles, "cycle", lambda: ["a", "b", "a"])
    assert import_cycles.main() == 1
    assert "a\n  -> b\n  -> a" in capsys.readouterr().err
