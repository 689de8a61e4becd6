"""What a local disk has been told to keep when the index says that a write is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.plan import WriteKind
from catalog_ext.metastore.errors import CommitStateUnknownError, StorageError
from catalog_ext.metastore.storage.local import files
from tests.repair_cases import indexed, walked
from tests.unit.test_partition_commands import managed
from tests.writes import insert

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that the disk was told to keep, in their order."""
    paths: list[str] = []
    whole = os.fsync

    def recorded(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    return paths


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS])
def test_files_and_all_directories_above_are_kept_before_the_index_shows_them(
    catalog: Catalog, synced: list[str], kind: WriteKind
) -> None:
    root = managed(catalog, keys={"k": "int", "r": "string"})
    seen: list[set[str]] = []
    with armed("commit.before", lambda _: seen.append(set(synced))):
        insert(catalog, "k=1/r=a", "k=2/r=b", kind=kind)
    new = {str(root / name / file) for name, there in walked(root, 2).items() for file in there}
    above = {str(root / path) for path in ("k=1/r=a", "k=1", "k=2/r=b", "k=2")} | {str(root), str(root.parent)}
    assert seen == [new | above]


def test_what_a_rename_moves_is_kept(catalog: Catalog, synced: list[str]) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    synced.clear()
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    (moved,) = walked(root, 1)["k=7"]
    assert {str(root / "k=7" / moved), str(root / "k=7"), str(root)} <= set(synced)


def test_many_files_are_kept_by_one_call(catalog: Catalog, synced: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(files, "_syncfs", lambda: lambda descriptor: calls.append(descriptor) or 0)
    root = managed(catalog)
    insert(catalog, *(f"k={k}" for k in range(files._SYNCED_SINGLY + 1)))
    assert (len(calls), synced) == (1, [])
    monkeypatch.setattr(files, "_syncfs", lambda: None)
    insert(catalog, *(f"k={k}" for k in range(files._SYNCED_SINGLY + 1)))
    assert len({path for path in synced if path.endswith(".csv")}) == files._SYNCED_SINGLY + 1
    assert indexed(catalog) == walked(root, 1)


@pytest.mark.parametrize(("code", "error"), [("EIO", CommitStateUnknownError), ("ENOSPC", StorageError)])
def test_a_disk_that_cannot_keep_them_commits_nothing(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, code: str, error: type[Exception]
) -> None:
    import errno

    root = managed(catalog)
    insert(catalog, "k=1")
    before = indexed(catalog)

    def refused(_: int) -> None:
        number = getattr(errno, code)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refused)
        with pytest.raises(error, match="Cannot write out"):
            insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS)
        assert indexed(catalog) == before
    catalog.recover(older_than=0)
    assert indexed(catalog) == walked(root, 1)
