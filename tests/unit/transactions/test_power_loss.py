"""What a local disk has synced when the index says that a write is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CommitStateUnknownError, StorageAccessDeniedError, StorageError
from catalog_ext.metastore.storage.local import files
from catalog_ext.metastore.storage.store import Storage
from tests.kit.repair_cases import indexed, walked
from tests.kit.streaming_cases import Stream, hourly
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import equals, managed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in their order."""
    paths: list[str] = []
    whole = os.fsync

    def recorded(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    return paths


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS])
def test_files_and_directories_above_are_synced_before_the_index_has_them(
    catalog: Catalog, synced: list[str], kind: WriteKind
) -> None:
    root = managed(catalog, keys={"k": "int", "r": "string"})
    seen: list[set[str]] = []
    with armed("apply.before", lambda _: seen.append(set(synced))):
        insert(catalog, "k=1/r=a", "k=2/r=b", kind=kind)
    new = {str(root / name / file) for name, there in walked(root, 2).items() for file in there}
    above = {str(root / path) for path in ("k=1/r=a", "k=1", "k=2/r=b", "k=2")} | {str(root), str(root.parent)}
    assert seen == [new | above]


def test_waiting_files_are_synced_before_the_source_commits(tmp_path: Path, synced: list[str]) -> None:
    seen: list[set[str]] = []
    with hourly(tmp_path) as (stand, _), armed("apply.before", lambda _: seen.append(set(synced))):
        Stream(stand).epoch(7, {"h=7": "a\n"})
    (file,) = (tmp_path / "t").rglob("*.csv")
    above = file.parents[: len(file.relative_to(tmp_path).parts) - 1]
    assert {str(file), *map(str, above)} <= seen[0]


def test_what_a_rename_moves_is_kept(catalog: Catalog, synced: list[str]) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    synced.clear()
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    (moved,) = walked(root, 1)["k=7"]
    assert {str(root / "k=7" / moved), str(root / "k=7"), str(root)} <= set(synced)


def test_moved_files_are_gone_at_the_source_before_the_index_has_them(catalog: Catalog, synced: list[str]) -> None:
    root, other = managed(catalog), managed(catalog, "u")
    insert(catalog, "k=1", "k=2")
    seen: list[list[str]] = []

    def look(_: str) -> None:
        seen.append(list(synced))
        synced.clear()

    synced.clear()
    with armed("apply.before", look):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    (moved,) = walked(root, 1)["k=7"]
    with armed("apply.before", look):
        catalog.partition_commands.exchange("s.u", "s.t", [{"k": "2"}])
    (exchanged,) = walked(other, 1)["k=2"]
    for order, source, target in zip(
        seen, (root / "k=1", root / "k=2"), (root / "k=7" / moved, other / "k=2" / exchanged), strict=True
    ):
        there = [order.index(str(place)) for place in (target, target.parent, source)]
        assert there[2] == max(there), "a file is never lost at both places"


def test_directories_of_moved_partitions_without_files_are_kept(catalog: Catalog, synced: list[str]) -> None:
    root = managed(catalog)
    catalog.partition_commands.add("s.t", [({"k": "1"}, None)])
    synced.clear()
    seen: list[set[str]] = []
    with armed("apply.before", lambda _: seen.append(set(synced))):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    assert seen[0] >= {str(root / "k=7"), str(root)}


def test_what_a_clean_up_deletes_stays_deleted(catalog: Catalog, synced: list[str]) -> None:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")
    seen: list[set[str]] = []

    def clear(_: str) -> None:
        synced.clear()

    with armed("clean.before", clear), armed("clean.staging", lambda _: seen.append(set(synced))):
        insert(catalog, "k=1", "k=2", kind=WriteKind.OVERWRITE_PARTITIONS)
    assert seen == [{str(root / "k=1"), str(root / "k=2")}]
    table = catalog.load_table("s.t")
    with armed("clean.before", clear):
        catalog.writes.delete(table.table_id, table.version, equals("k", "1"), truncate=False)
    assert synced == [str(root)], "the directory is gone with the file"


@pytest.mark.parametrize(
    "write",
    [
        lambda catalog: insert(catalog, "k=1", "k=7"),
        lambda catalog: catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"}),
    ],
)
def test_what_is_undone_stays_undone(catalog: Catalog, synced: list[str], write: Callable[[Catalog], object]) -> None:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")

    def refuse(_: str) -> None:
        synced.clear()
        raise StorageAccessDeniedError("No.")

    with armed("promote.after", refuse), pytest.raises(StorageAccessDeniedError):
        write(catalog)
    assert set(synced) >= {str(root / "k=1"), str(root)}
    assert indexed(catalog) == walked(root, 1)


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


def test_a_dropped_tables_directory_is_gone_before_the_index_forgets_it(
    catalog: Catalog, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    synced.clear()
    seen = before(monkeypatch, catalog.index.dropped_tables, "note_deleted", synced)
    catalog.drop_table("s.t")
    assert str(root.parent) in seen[0]


def test_a_dropped_tables_files_are_gone_before_the_index_forgets_it(
    catalog: Catalog, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only the directory itself may be written, as that of a mount point."""
    root = managed(catalog)
    insert(catalog, "k=1")
    monkeypatch.setattr(Storage, "rename_directory", lambda *_: False)
    synced.clear()
    seen = before(monkeypatch, catalog.index.dropped_tables, "note_deleted", synced)
    catalog.drop_table("s.t")
    assert not list(root.rglob("*.csv"))
    assert {str(root), str(root.parent)} & set(seen[0])


def test_what_vacuum_deletes_is_gone_before_the_index_forgets_it(
    catalog: Catalog, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    synced.clear()
    seen = before(monkeypatch, catalog.index.versions, "expire", synced)
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert not (root / "k=1").exists()
    assert seen == [[str(root)]]


def before(monkeypatch: pytest.MonkeyPatch, part: object, method: str, synced: list[str]) -> list[list[str]]:
    """What was synced when a part of the index is called to forget."""
    seen: list[list[str]] = []
    whole = getattr(type(part), method)

    def reported(index: object, *args: object, **options: object) -> object:
        seen.append(list(synced))
        return whole(index, *args, **options)

    monkeypatch.setattr(type(part), method, reported)
    return seen
