"""The public surface is the recorded one; ``make surface`` renews the record, for a change of it that is meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import catalog_ext.catalog
from tests.contract.surface.snapshot import SURFACE, parameters, snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDED: dict[str, Any] = json.loads(SURFACE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return snapshot(tmp_path_factory.mktemp("surface"))


@pytest.mark.slow
@pytest.mark.parametrize("part", sorted(RECORDED))
def test_the_surface_is_the_recorded_one(current: Mapping[str, Any], part: str) -> None:
    assert current[part] == RECORDED[part], "If this change is meant, run: make surface"


@pytest.mark.slow
def test_nothing_of_the_surface_is_unrecorded(current: Mapping[str, Any]) -> None:
    assert sorted(current) == sorted(RECORDED)


def test_the_facade_stays_one_page() -> None:
    assert len(Path(catalog_ext.catalog.__file__).read_text(encoding="utf-8").splitlines()) <= 250


def test_parameter_is_recorded_with_kind_and_default_without_its_type() -> None:
    def function(first: int, /, second: str, *, third: bool = False, **rest: int) -> None: ...

    def same(first: str, /, second: int, *, third: object = False, **rest: str) -> None:
        """Say something else."""

    recorded = [
        "positional_only first", "positional_or_keyword second", "keyword_only third = False", "var_keyword rest",
    ]  # fmt: skip
    assert parameters(function) == parameters(same) == recorded
