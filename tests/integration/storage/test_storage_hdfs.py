"""Storage and promotion on a real HDFS with permissions."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hdfs_native import Client

from catalog_ext.metastore.errors import (
    LocationNotFoundError,
    StagedFileMissingError,
    StorageAccessDeniedError,
    StorageError,
    StorageUnavailableError,
)
from catalog_ext.metastore.storage.entries import EntryKind, ListedDirectory, ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.promotion import check_staged, promote, undo
from catalog_ext.metastore.storage.store import Storage
from tests.kit.pattern_cases import matched
from tests.kit.promotion_cases import RenameStore, promote_behind_an_undoing

if TYPE_CHECKING:
    from tests.servers.hdfs import HdfsServer


@pytest.fixture
def root(hdfs_server: HdfsServer) -> Location:
    """A place of the test's own."""
    return Location.parse(f"{hdfs_server.uri}/{secrets.token_hex(4)}")


@pytest.fixture
def store(root: Location) -> RenameStore:
    storage = Storage()

    def write(place: Location, content: bytes) -> None:
        storage.create_directory(place.parent)
        with storage.filesystem(place).open_output_stream(place.path) as stream:
            stream.write(content)

    return RenameStore(storage, root.join("table"), write)


def test_a_tree_is_listed(store: RenameStore) -> None:
    """Empty files: one with data takes half a second."""
    paths = ["ds=1/a", "ds=1/b", "ds=a%2Fb #?/é 'x'", "_temporary/0/a", "top", "ds=2/deeper/still/a"]
    for path in paths:
        store.write(store.table.join(path), b"")
    store.storage.create_directory(store.table.join("ds=empty"))
    found = list(list_tree(store.storage, store.table, descend=lambda path: path != "_temporary", depth_hint=1))
    files = [f"{item.directory}/{item.name}" for item in found if isinstance(item, ListedFile)]
    assert sorted(files) == sorted(path if "/" in path else f"/{path}" for path in paths if path[0] != "_")
    assert ListedDirectory("ds=empty") in found
    assert all(item.modified_ms > 1_000_000_000_000 for item in found if isinstance(item, ListedFile))
    table = str(store.table)
    below = [f"{table}/ds=1/a", f"{table}/ds=1/b", f"{table}/ds=2/deeper/still/a"]
    assert [str(file) for file in matched(store.storage, f"{table}/ds={{1..2}}/*")] == below
    names = sorted(entry.location.name for entry in store.storage.list_directory(store.table))
    assert names == ["_temporary", "ds=1", "ds=2", "ds=a%2Fb #?", "ds=empty", "top"]


def test_a_file_is_looked_at_and_read(store: RenameStore) -> None:
    place = store.table.join("ds=1/a")
    store.write(place, b"0123456789")
    entry = store.storage.stat(place)
    assert entry is not None
    assert (entry.kind, entry.size) == (EntryKind.FILE, 10)
    with store.storage.open_input_file(place) as file:
        file.seek(4)
        assert file.read(3) == b"456"
        assert file.size() == 10
    directory = store.storage.stat(place.parent)
    assert directory is not None
    assert directory.kind is EntryKind.DIRECTORY
    for nothing in (place.join("below"), store.table.join("x" * 300), store.table.join("gone")):
        assert store.storage.stat(nothing) is None
    store.storage.check_directory(store.table)
    with pytest.raises(LocationNotFoundError, match="is a file"):
        store.storage.check_directory(place)
    with pytest.raises(LocationNotFoundError, match="does not exist"):
        store.storage.list_directory(store.table.join("gone"))
    with pytest.raises(LocationNotFoundError, match="does not exist"):
        store.storage.open_input_file(store.table.join("gone"))
    store.storage.delete_tree(store.table)
    store.storage.delete_tree(store.table)
    assert store.storage.stat(store.table) is None


def test_promotion_and_its_undoing(store: RenameStore) -> None:
    places = store.stage(40, b"")
    assert store.visible() == []
    check_staged(store.storage, places)
    promote(store.storage, places[:10])
    promote(store.storage, places)
    promote(store.storage, places)
    assert store.visible() == sorted(place.target.relative_to(store.table) for place in places)
    assert store.left_behind() == []
    undo(store.storage, places)
    undo(store.storage, places)
    assert store.visible() == []
    with pytest.raises(StagedFileMissingError, match="Write again"):
        promote(store.storage, places)
    with pytest.raises(StagedFileMissingError, match="40 of 40"):
        check_staged(store.storage, places)
    store.storage.remove_empty_directories([place.target.parent for place in places], store.table)
    assert not [entry for entry in store.storage.list_directory(store.table) if entry.location.name.startswith("ds=")]


def test_a_rename_replaces_nothing(store: RenameStore) -> None:
    (place,) = store.stage(1, b"")
    store.write(place.target, b"another")
    with pytest.raises(StorageError, match="A file of another process is at"):
        promote(store.storage, [place])
    assert store.left_behind()


def test_a_slow_owner_cannot_promote_behind_an_undoing(store: RenameStore) -> None:
    promote_behind_an_undoing(store, store.stage(60, b""), -1)


def test_two_processes_may_promote_and_clean_up_at_once(store: RenameStore) -> None:
    """Directories that one is about to fill are removed by another as empty ones."""
    places = store.stage(60, b"")
    directories = sorted({place.target.parent for place in places})
    ended = threading.Event()

    def clean() -> None:
        while not ended.is_set():
            store.storage.remove_empty_directories(directories, store.table)

    with ThreadPoolExecutor(3) as pool:
        cleaning = pool.submit(clean)
        try:
            for running in [pool.submit(promote, store.storage, places, threads=4) for _ in range(2)]:
                running.result(60)
        finally:
            ended.set()
        cleaning.result(60)
    assert store.visible() == sorted(place.target.relative_to(store.table) for place in places)


_OTHER_USER = """
import json, sys
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.storage.entries import ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.promotion import StagedLocation, promote
from catalog_ext.metastore.storage.store import Storage

storage, table, said = Storage(), Location.parse(sys.argv[1]), {}
calls = {
    "rename": lambda: promote(storage, [StagedLocation(table.join("ds=1/b"), 0, source=table.join("ds=1/a"))]),
    "delete": lambda: storage.delete_files([table.join("ds=1/a")]),
    "create": lambda: storage.create_directory(table.join("ds=9")),
    "rmdir": lambda: storage.remove_empty_directories([table.join("ds=2")], table),
    "check": lambda: storage.check_directory(table.join("closed")),
    "list": lambda: [type(each).__name__ for each in list_tree(storage, table, descend=lambda _: True, depth_hint=1)],
}
for name, call in calls.items():
    try:
        said[name] = call()
    except CatalogExtError as error:
        said[name] = [type(error).__name__, error.message]
print(json.dumps(said))
"""


def test_permissions(store: RenameStore) -> None:
    store.write(store.table.join("ds=1/a"), b"")
    store.write(store.table.join("closed/a"), b"")
    store.storage.create_directory(store.table.join("ds=2"))
    Client(f"hdfs://{store.table.bucket}").set_permission(store.table.join("closed").path, 0o700)
    answer = subprocess.run(
        [sys.executable, "-c", _OTHER_USER, str(store.table)],
        env={"HADOOP_USER_NAME": "other", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = json.loads(answer.stdout)
    for name in ("rename", "delete", "create", "rmdir", "check"):
        assert said[name][0] == StorageAccessDeniedError.__name__, said[name]
        assert "permission is denied" in said[name][1]
    assert said["delete"][1].startswith("1 file could not be deleted: ")
    kinds = [ListedDirectory.__name__] * 3 + [ListedFile.__name__, ListingFailure.__name__]
    assert sorted(said["list"]) == sorted(kinds)


def test_address_without_a_server_or_name_is_an_error() -> None:
    from tests.servers.processes import free_ports

    (port,) = free_ports(1)
    with pytest.raises(StorageUnavailableError, match="does not answer") as caught:
        Storage({"dfs.client.failover.max.attempts": "1"}).stat(f"hdfs://127.0.0.1:{port}/x")
    assert caught.value.retryable
    with pytest.raises(StorageError, match="No NameNode"):
        Storage().stat("hdfs://no-such-service/x")


def test_a_small_file_is_made_once(store: RenameStore, root: Location) -> None:
    storage, place = store.storage, root.join("_catalog_ext_index")
    storage.create_directory(root)
    assert storage.read_file(place, 100) is None
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: storage.create_file(place, str(n).encode()), range(8)))
    assert sum(made) == 1
    assert storage.read_file(place, 100) == str(made.index(True)).encode()
    assert [entry.location for entry in storage.list_directory(root)] == [place]
