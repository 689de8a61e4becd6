"""Listing a tree in parts gives what listing it whole gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import LocationNotFoundError, StorageAccessDeniedError
from catalog_ext.metastore.storage import partial_tree
from catalog_ext.metastore.storage.listed import ListedDirectory, ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.partial_tree import WantedBelow, list_part
from catalog_ext.metastore.storage.store import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.storage.listed import Listed


def _wanted(directory: str) -> bool:
    return not directory.rpartition("/")[2].startswith("_")


@pytest.fixture
def root(tmp_path: Path) -> Location:
    for name in ("a/k=1/x", "a/k=1/y", "a/_hidden/k=2/x", "a/k=2/_deep/x", "b/z"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"1")
    return Location.parse(tmp_path.as_uri())


def test_a_part_is_relative_to_the_root(root: Location) -> None:
    whole = list_tree(Storage(), root, descend=_wanted, depth_hint=2)
    below = [event for event in whole if event.directory.startswith("a/")]
    asked: list[str] = []

    def descend(directory: str) -> bool:
        asked.append(directory)
        return _wanted(directory)

    part = list(list_part(Storage(), root, "a", descend=descend, depth_hint=1))
    assert sorted(part) == sorted(below)
    assert {type(event) for event in part} == {ListedFile, ListedDirectory}
    assert sorted(asked) == ["a/_hidden", "a/k=1", "a/k=2", "a/k=2/_deep"]


def test_the_whole_is_a_part_too(root: Location) -> None:
    part = list_part(Storage(), root, "", descend=_wanted, depth_hint=2)
    assert sorted(part) == sorted(list_tree(Storage(), root, descend=_wanted, depth_hint=2))


def test_a_part_that_has_gone_is_empty_and_the_root_is_not(root: Location) -> None:
    assert list(list_part(Storage(), root, "c", descend=_wanted, depth_hint=1)) == []
    with pytest.raises(LocationNotFoundError):
        list(list_part(Storage(), root.join("c"), "", descend=_wanted, depth_hint=1))


def test_a_part_that_cannot_be_listed_is_a_failure(root: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Iterator[Listed]:
        yield ListedFile("k=1", "x", 1, 1)
        raise StorageAccessDeniedError("no")

    monkeypatch.setattr(partial_tree, "list_tree", refuse)
    file, failure = list_part(Storage(), root, "a", descend=_wanted, depth_hint=1)
    assert file == ListedFile("a/k=1", "x", 1, 1)
    assert isinstance(failure, ListingFailure)
    assert (failure.directory, failure.error.message) == ("a", "no")
    with pytest.raises(StorageAccessDeniedError):
        list(list_part(Storage(), root, "", descend=_wanted, depth_hint=1))


def test_below_what_is_turned_down_nothing_is_wanted() -> None:
    asked: list[str] = []

    def descend(directory: str) -> bool:
        asked.append(directory)
        return _wanted(directory)

    wanted = WantedBelow(["a", "b/c"], descend)
    assert wanted("a")
    assert wanted("a/k/l")
    assert not wanted("a/_x/k/l")
    assert not wanted("a/_x/k")
    assert wanted("b/c/k")
    assert asked == ["a/k", "a/k/l", "a/_x", "b/c/k"]
