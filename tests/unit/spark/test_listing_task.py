"""What a task of a Spark job lists comes to the driver as a listing here would have it."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import StorageUnavailableError
from catalog_ext.metastore.storage import partial_tree
from catalog_ext.metastore.storage.listed import ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.spark import listing_task
from catalog_ext.spark.listing_task import ListingTask, OtherReleaseError, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.storage.listed import Listed

RELEASE = version("catalog-ext")


def _task(root: Path, release: str = RELEASE) -> ListingTask:
    return ListingTask(release, {}, 2, root.as_uri(), 1)


def test_what_a_task_lists_is_what_a_listing_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing_task, "_ENTRIES_TOGETHER", 3)
    for name in ("a/k=1/x", "a/k=1/y", "a/k=2/x", "a/z", "b/k=1/é", "c/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "b" / "empty").mkdir()
    parts = list(_task(tmp_path)(["a", "b", "gone"]))
    whole = list_tree(Storage(), tmp_path.as_uri(), descend=lambda _: True, depth_hint=2)
    below = [event for event in whole if event.directory.startswith(("a/", "b/")) or isinstance(event, ListedFile)]
    listed = [event for part in parts for event in unpacked(part)]
    assert sorted(listed) == sorted(event for event in below if not event.directory.startswith("c"))
    assert len(parts) > 2


def test_a_failure_comes_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> Iterator[Listed]:
        yield ListedFile("k=1", "x", 1, 1)
        raise StorageUnavailableError("the store is away")

    monkeypatch.setattr(partial_tree, "list_tree", breaks)
    (part,) = _task(tmp_path)(["a"])
    file, failure = unpacked(part)
    assert file == ListedFile("a/k=1", "x", 1, 1)
    assert isinstance(failure, ListingFailure)
    assert (failure.directory, failure.error.message) == ("a", "the store is away")


def test_another_release_lists_nothing(tmp_path: Path) -> None:
    with pytest.raises(OtherReleaseError, match=f"the driver has catalog-ext 0.0.0 and the executor {RELEASE}"):
        next(_task(tmp_path, "0.0.0")([""]))
