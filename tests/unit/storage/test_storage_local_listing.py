"""Listing of a local tree: everything once, nothing that was turned down, failures that stop nothing."""

from __future__ import annotations

import os
import socket
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import LocationNotFoundError
from catalog_ext.metastore.storage.entries import (
    NOT_TEXT,
    EntryKind,
    ListedDirectory,
    ListedFile,
    ListedOther,
    ListingFailure,
)
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.local import listing as local_listing
from catalog_ext.metastore.storage.local import scan_processes
from catalog_ext.metastore.storage.local.files import OwnFiles
from catalog_ext.metastore.storage.local.listing import LocalListing
from catalog_ext.metastore.storage.local.scan_processes import ScanProcesses
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.metastore.storage.entries import Listed


def everything(directory: str) -> bool:
    return True


def fill(root: Path, *paths: str) -> None:
    for path in paths:
        target = root / path
        if path.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(b"x" * len(target.name))


def files_of(listed: list[Listed]) -> set[str]:
    return {f"{item.directory}/{item.name}".lstrip("/") for item in listed if isinstance(item, ListedFile)}


def directories_of(listed: list[Listed]) -> set[str]:
    return {item.directory for item in listed if isinstance(item, ListedDirectory)}


def test_every_file_and_directory_once(tmp_path: Path) -> None:
    fill(tmp_path, "k=1/j=a/f1", "k=1/j=a/f2", "k=1/j=b/", "k=2/f3", "f4", "_hidden/.f5", "k=%2F/j=é ö/f6")
    listed = list(list_tree(Storage(), str(tmp_path), descend=everything, depth_hint=2))
    assert files_of(listed) == {
        "k=1/j=a/f1", "k=1/j=a/f2", "k=2/f3", "f4", "_hidden/.f5", "k=%2F/j=é ö/f6",
    }  # fmt: skip
    assert directories_of(listed) == {"k=1", "k=1/j=a", "k=1/j=b", "k=2", "_hidden", "k=%2F", "k=%2F/j=é ö"}
    assert max(Counter(listed).values()) == 1
    assert not [item for item in listed if isinstance(item, ListingFailure)]


def test_size_and_time_are_the_files(tmp_path: Path) -> None:
    fill(tmp_path, "k=1/some-file")
    os.utime(tmp_path / "k=1/some-file", ns=(0, 1_700_000_000_123_456_789))
    listed = list(list_tree(Storage(), str(tmp_path), descend=everything, depth_hint=1))
    assert ListedFile("k=1", "some-file", 9, 1_700_000_000_123) in listed


def test_what_is_turned_down_is_not_opened(tmp_path: Path) -> None:
    fill(tmp_path, "k=1/j=1/f", "k=2/j=1/f", "_tmp/k=3/f")
    asked: list[str] = []

    def descend(directory: str) -> bool:
        asked.append(directory)
        return directory not in ("k=2", "_tmp")

    listed = list(list_tree(Storage(), str(tmp_path), descend=descend, depth_hint=2))
    assert files_of(listed) == {"k=1/j=1/f"}
    assert directories_of(listed) == {"k=1", "k=1/j=1"}
    assert sorted(asked) == ["_tmp", "k=1", "k=1/j=1", "k=2"]


def test_an_error_of_the_caller_reaches_the_caller(tmp_path: Path) -> None:
    fill(tmp_path, "k=1/f")

    def descend(directory: str) -> bool:
        raise KeyError(directory)

    with pytest.raises(KeyError, match="k=1"):
        list(list_tree(Storage(), str(tmp_path), descend=descend, depth_hint=1))


@pytest.mark.parametrize("what", ["missing", "file"])
def test_a_root_that_is_no_directory_is_an_error(tmp_path: Path, what: str) -> None:
    fill(tmp_path, "file")
    with pytest.raises(LocationNotFoundError, match=what):
        list(list_tree(Storage(), str(tmp_path / what), descend=everything, depth_hint=1))


def test_link_to_a_parent_has_a_reason_and_stops_nothing(tmp_path: Path) -> None:
    fill(tmp_path, "k=1/f", "k=2/f")
    (tmp_path / "k=1/loop").symlink_to(tmp_path)
    listed = list(list_tree(Storage(), str(tmp_path), descend=everything, depth_hint=1))
    assert files_of(listed) == {"k=1/f", "k=2/f"}
    assert [item for item in listed if not isinstance(item, ListedFile | ListedDirectory)] == [
        ListedOther("k=1", "loop", 0, "a symbolic link to a directory that it lies in")
    ]


def test_links_are_followed_and_those_to_nothing_are_no_files(tmp_path: Path) -> None:
    fill(tmp_path, "data/f", "elsewhere/g")
    (tmp_path / "data/k=1").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/link").symlink_to(tmp_path / "data/f")
    (tmp_path / "data/broken").symlink_to(tmp_path / "nothing")
    listed = list(list_tree(Storage(), str(tmp_path / "data"), descend=everything, depth_hint=1))
    assert files_of(listed) == {"f", "link", "k=1/g"}


def test_pipes_sockets_and_dead_links_have_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # a socket's path may not be long
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        (tmp_path / "link").symlink_to(tmp_path / "nothing")
        (tmp_path / "null").symlink_to("/dev/null")
        assert sorted(list_tree(Storage(), str(tmp_path), descend=everything, depth_hint=1)) == [
            ListedOther("", "link", 0, "a symbolic link to something that is not there"),
            ListedOther("", "null", 0, "not a file: a device"),
            ListedOther("", "pipe", 0, "not a file: a named pipe"),
            ListedOther("", "socket", 0, "not a file: a socket"),
        ]


def test_name_that_is_not_text_is_listed_with_reason(tmp_path: Path) -> None:
    fill(tmp_path, "k=1/f")
    (tmp_path / "k=1" / os.fsdecode(b"bad\xff")).write_bytes(b"")
    listed = list(list_tree(Storage(), str(tmp_path), descend=everything, depth_hint=1))
    assert files_of(listed) == {"k=1/f"}
    assert [item for item in listed if not isinstance(item, ListedFile | ListedDirectory)] == [
        ListedOther("k=1", "bad\\udcff", 0, NOT_TEXT)
    ]


def test_a_directory_that_vanishes_is_not_there(tmp_path: Path) -> None:
    fill(tmp_path, "k=1/", "k=2/f")

    def descend(directory: str) -> bool:
        if directory == "k=1":
            (tmp_path / "k=1").rmdir()
        return True

    listed = list(list_tree(Storage(), str(tmp_path), descend=descend, depth_hint=1))
    assert directories_of(listed) == {"k=2"}
    assert not [item for item in listed if isinstance(item, ListingFailure)]


def test_a_tree_deeper_than_the_file_descriptors_is_listed(tmp_path: Path) -> None:
    deep = "/".join("d" * 3 for _ in range(300))
    fill(tmp_path, f"{deep}/f")
    listed = list(list_tree(Storage(), str(tmp_path), descend=everything, depth_hint=1))
    assert files_of(listed) == {f"{deep}/f"}
    assert len(directories_of(listed)) == 300


def test_stopping_early_closes_every_directory(tmp_path: Path) -> None:
    fill(tmp_path, *(f"k={number}/j=1/f" for number in range(20)))
    before = len(os.listdir("/dev/fd"))
    listing = list_tree(Storage(), str(tmp_path), descend=everything, depth_hint=2)
    assert next(listing) is not None
    assert len(os.listdir("/dev/fd")) > before
    listing.close()
    assert len(os.listdir("/dev/fd")) == before


def test_single_directory_lists_what_readers_can_open(tmp_path: Path) -> None:
    """Arrow's own listing ended at a name that is not UTF-8, and with it queries, ADD PARTITION and repairs."""
    fill(tmp_path, "f", "d/g")
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    os.mkfifo(tmp_path / "pipe")
    for name, target in (("dead", "nothing"), ("itself", "itself"), ("up", ".."), ("link", "f"), ("null", "/dev/null")):
        (tmp_path / name).symlink_to(target)
    listed = Storage().list_directory(str(tmp_path))
    kinds = {e.location.name: (e.kind, e.size) for e in listed}
    assert kinds == {
        "d": (EntryKind.DIRECTORY, 0),
        "f": (EntryKind.FILE, 1),
        "link": (EntryKind.FILE, 1),
        "up": (EntryKind.DIRECTORY, 0),
    }
    modified_ms = (tmp_path / "f").stat().st_mtime_ns // 1_000_000
    assert [e.modified_ms for e in listed if e.location.name == "f"] == [modified_ms]


def test_directory_that_goes_while_it_is_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_at(entry: os.DirEntry[str], *more: Any) -> Any:
        found = original(entry, *more)
        if entry.name == "gone":
            (tmp_path / "gone").rmdir()
        return found

    original = local_listing._look_at
    monkeypatch.setattr(local_listing, "_look_at", look_at)
    fill(tmp_path, "f", "d/g")
    (tmp_path / "gone").mkdir()
    assert {entry.location.name for entry in Storage().list_directory(str(tmp_path))} == {"f", "d"}


def _events(root: Path, own: tuple[str, ...] = (), depth: int = 2) -> list[Listed]:
    return list(LocalListing(Location.parse(str(root)), everything, OwnFiles(own), depth).run())


def _in_order(listed: list[Listed]) -> list[str]:
    return sorted(repr(event) for event in listed)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[ScanProcesses]:
    """Share listings from the first directory on; the processes that are started are in the list."""

    def start(_: int, own_names: Any) -> ScanProcesses:
        started.append(ScanProcesses(2, own_names))
        return started[-1]

    started: list[ScanProcesses] = []
    monkeypatch.setattr(local_listing, "_ALONE_S", 0)
    monkeypatch.setattr(local_listing, "_AT_ONCE", 2)
    monkeypatch.setattr(local_listing, "ScanProcesses", start)
    monkeypatch.setattr(scan_processes, "_MOST_FILES", 20)
    return started


def _odd_tree(root: Path) -> None:
    """Directories of files, and in some of them what another process leaves to this one."""
    fill(root, *(f"k={k}/j={j}/f{n}" for k in range(3) for j in range(5) for n in range(3)))
    fill(root, "k=1/j=empty/", "k=1/j=deep/x/y/f", "k=1/j=é/ö", "f", "k=1/f", "k=2/j=own/index.db", "k=2/j=own/f")
    fill(root, *(f"k=2/j=large/{n}" for n in range(30)))
    (root / "k=1/j=0" / os.fsdecode(b"bad\xff")).touch()
    (root / "k=1" / os.fsdecode(b"bad\xfe")).mkdir()
    os.mkfifo(root / "k=1/j=1/pipe")
    for name, target in (("dead", "nothing"), ("up", ".."), ("top", "../.."), ("link", "../j=0/f0")):
        (root / "k=1/j=2" / name).symlink_to(target)
    (root / "k=2/j=link").symlink_to("../k=0/j=0")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_shared_listing_yields_the_same_as_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: list[ScanProcesses], depth: int
) -> None:
    _odd_tree(tmp_path)
    own = (str(tmp_path / "k=2/j=own/index.db"),)
    found = _events(tmp_path, own, depth)
    assert len(shared) == 1
    monkeypatch.setattr(local_listing, "_ALONE_S", 1000)
    assert _in_order(found) == _in_order(_events(tmp_path, own, depth))
    assert len(shared) == 1


def test_directories_of_a_process_that_has_ended_are_read_here(tmp_path: Path, shared: list[ScanProcesses]) -> None:
    fill(tmp_path, *(f"k=1/j={j}/f{n}" for j in range(40) for n in range(3)))
    listing = LocalListing(Location.parse(str(tmp_path)), everything, OwnFiles(), 2).run()
    found = [next(listing) for _ in range(8)]
    for process in shared[0]._processes:
        process._process.kill()
    found += listing
    assert len(files_of(found)) == len(found) - 41 == 120


@pytest.mark.slow
def test_requests_larger_than_a_pipe_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: list[ScanProcesses]
) -> None:
    monkeypatch.setattr(local_listing, "_AT_ONCE", 400)
    deep = "/".join("d" * 200 for _ in range(10))
    fill(tmp_path, *(f"{deep}/j={j:0200}/{'f' * 200}" for j in range(800)))
    found = _events(tmp_path, depth=11)
    assert (len(shared), len(files_of(found)), len(found)) == (1, 800, 800 + 810)


def test_stopping_early_ends_the_processes(tmp_path: Path, shared: list[ScanProcesses]) -> None:
    fill(tmp_path, *(f"k=1/j={j}/f" for j in range(40)))
    before = len(os.listdir("/dev/fd"))
    listing = LocalListing(Location.parse(str(tmp_path)), everything, OwnFiles(), 2).run()
    next(listing), next(listing)
    processes = [each._process for each in shared[0]._processes]
    assert [each.poll() for each in processes] == [None, None]
    listing.close()
    assert None not in [each.poll() for each in processes]
    assert len(os.listdir("/dev/fd")) == before
