"""The façade: what ``help(Catalog)`` shows of its methods, which are those of its parts."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from catalog_ext import Catalog
from catalog_ext.tables.creation import TableCreation
from tests.kit.repair_cases import local_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PUBLIC = [name for name, _ in inspect.getmembers(Catalog, inspect.isfunction) if not name.startswith("_")]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with local_catalog(tmp_path_factory.mktemp("facade")) as catalog:
        yield catalog


@pytest.mark.parametrize("name", PUBLIC)
def test_every_method_is_documented_on_the_class_and_on_a_catalog(name: str, shared: Catalog) -> None:
    of_class, of_catalog = getattr(Catalog, name), getattr(shared, name)
    assert inspect.getdoc(of_class)
    assert inspect.getdoc(of_catalog) == inspect.getdoc(of_class)
    assert of_catalog.__name__ == name
    assert list(inspect.signature(of_catalog).parameters) == list(inspect.signature(of_class).parameters)[1:]


def test_a_method_of_a_part_that_is_replaced_is_replaced_in_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableCreation, "create_table", lambda _, definition: definition)
    with local_catalog(tmp_path) as catalog:
        assert catalog.create_table("as it was given") == "as it was given"
