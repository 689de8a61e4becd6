"""The same storage behaviour on a local disk, on SeaweedFS and on moto."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog_ext.metastore.errors import LocationNotFoundError, PathNotFoundError, StorageError
from catalog_ext.metastore.storage.entries import EntryKind, ListedDirectory, ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.kit.pattern_cases import matched

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.servers.stores import S3Server

TREE = (
    "origin=EWR/month=1/day=1/a.parquet",
    "origin=EWR/month=1/day=1/b.parquet",
    "origin=EWR/month=1/day=2/a.parquet",
    "origin=EWR/month=12/day=31/a.parquet",
    "origin=JFK/month=1/day=1/a.parquet",
    "origin=JFK/month=2/day=3/_hidden.parquet",
    "origin=LGA/month=1/day=1/deeper/still/a.parquet",
    "origin=LGA/shallow.parquet",
    "origin=a%2Fb/month=%20/day=1/a.parquet",
    'origin=it\'s "x" + é/month=1/day=__HIVE_DEFAULT_PARTITION__/a b.parquet',
    "_temporary/0/a.parquet",
    ".staging/origin=EWR/month=1/day=1/a.parquet",
    "_SUCCESS",
    "top.parquet",
)


@dataclass
class Store:
    """A store under test: ``storage`` reaches it, ``root`` is an empty place on it."""

    kind: str
    storage: Storage
    root: str

    def put(self, paths: Iterable[str], content: bytes = b"content") -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda path: self._put(path, content), paths))

    def _put(self, path: str, content: bytes) -> None:
        place = Location.parse(self.root).join(path)
        filesystem = self.storage.filesystem(place)
        if self.kind == "local":
            filesystem.create_dir(place.parent.path, recursive=True)
        with filesystem.open_output_stream(place.path) as stream:
            stream.write(content)


@pytest.fixture(scope="module")
def buckets() -> dict[str, str]:
    """The module's bucket on each server: making one takes a second."""
    return {}


@pytest.fixture(params=["local", "seaweed", "moto"])
def store(request: pytest.FixtureRequest, tmp_path: Path, buckets: dict[str, str]) -> Store:
    kind = request.param
    if kind == "local":
        return Store(kind, Storage(), str(tmp_path))
    server: S3Server = request.getfixturevalue("s3_server" if kind == "seaweed" else "moto_server")
    options = {
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.access.key": server.access_key,
        "fs.s3a.secret.key": server.secret_key,
        "fs.s3a.endpoint.region": server.region,
        "fs.s3a.path.style.access": "true",
    }
    if kind not in buckets:
        buckets[kind] = server.make_bucket(f"storage-{secrets.token_hex(4)}")
    return Store(kind, Storage(options), f"s3://{buckets[kind]}/{secrets.token_hex(4)}/trips")


def listed_files(store: Store, depth_hint: int, *, selective: bool = False, root: str = "") -> list[str]:
    listing = list_tree(
        store.storage, root or store.root, descend=lambda _: True, depth_hint=depth_hint, selective=selective
    )
    return sorted(
        f"{item.directory}/{item.name}" if item.directory else item.name
        for item in listing
        if isinstance(item, ListedFile)
    )


@pytest.mark.parametrize("depth_hint", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("target", [1, 2, 64])
@pytest.mark.parametrize("selective", [False, True])
def test_a_listing_holds_every_file_once(store: Store, depth_hint: int, target: int, selective: bool) -> None:
    store.put(TREE)
    store.storage.target_prefixes = target
    assert listed_files(store, depth_hint, selective=selective) == sorted(TREE)


def test_a_listing_knows_size_and_time(store: Store) -> None:
    store.put(["k=1/a"], b"12345")
    (file,) = [
        item
        for item in list_tree(store.storage, store.root, descend=lambda _: True, depth_hint=1)
        if isinstance(item, ListedFile)
    ]
    entry = store.storage.stat(f"{store.root}/k=1/a")
    assert entry is not None
    assert (file.size, file.modified_ms) == (5, entry.modified_ms)
    assert 1_600_000_000_000 < file.modified_ms < 4_000_000_000_000


@pytest.mark.parametrize("depth_hint", [1, 2, 3])
@pytest.mark.parametrize("selective", [False, True])
def test_what_is_turned_down_is_not_in_the_listing(store: Store, depth_hint: int, selective: bool) -> None:
    store.put(TREE)

    def descend(directory: str) -> bool:
        name = directory.rpartition("/")[2]
        assert "_temporary/" not in directory
        return not name.startswith(("_", ".")) and name != "month=1"

    listing = list_tree(store.storage, store.root, descend=descend, depth_hint=depth_hint, selective=selective)
    files = {f"{item.directory}/{item.name}".lstrip("/") for item in listing if isinstance(item, ListedFile)}
    assert files == {
        path for path in TREE if not path.startswith(("_temporary/", ".staging/")) and "month=1/" not in path
    }


def test_directories_are_listed_where_the_store_has_them(store: Store) -> None:
    store.put(["k=1/j=1/a", "k=2/a"])
    store.storage.create_directory(f"{store.root}/k=3/j=empty")
    listing = list_tree(store.storage, store.root, descend=lambda _: True, depth_hint=2)
    directories = {item.directory for item in listing if isinstance(item, ListedDirectory)}
    if store.storage.store_has_directories(store.root):
        assert directories == {"k=1", "k=1/j=1", "k=2", "k=3", "k=3/j=empty"}
    else:
        assert directories == set()


def test_a_place_with_nothing_in_it(store: Store) -> None:
    nowhere = f"{store.root}/nowhere"
    with pytest.raises(LocationNotFoundError, match="nowhere"):
        store.storage.check_directory(nowhere)
    with pytest.raises(LocationNotFoundError, match="nowhere"):
        store.storage.list_directory(nowhere)
    with pytest.raises(LocationNotFoundError, match="nowhere"):
        store.storage.open_input_file(nowhere)
    assert store.storage.stat(nowhere) is None
    store.storage.delete_tree(nowhere)
    if store.kind == "local":
        with pytest.raises(LocationNotFoundError, match="nowhere"):
            listed_files(store, 1, root=nowhere)
    else:
        assert listed_files(store, 1, root=nowhere) == []
        assert listed_files(store, 3, root=nowhere) == []


def test_a_file_is_no_directory(store: Store) -> None:
    store.put(["k=1/a"])
    store.storage.check_directory(f"{store.root}/k=1")
    with pytest.raises(LocationNotFoundError, match="is a file"):
        store.storage.check_directory(f"{store.root}/k=1/a")
    with pytest.raises(LocationNotFoundError):
        store.storage.list_directory(f"{store.root}/k=1/a")


def test_stat_and_list_directory(store: Store) -> None:
    store.put(TREE)
    entry = store.storage.stat(f"{store.root}/origin=a%2Fb/month=%20/day=1/a.parquet")
    assert entry is not None
    assert (entry.kind, entry.size) == (EntryKind.FILE, 7)
    directory = store.storage.stat(f"{store.root}/origin=EWR")
    assert directory is not None
    assert directory.kind is EntryKind.DIRECTORY
    entries = store.storage.list_directory(f"{store.root}/origin=LGA")
    assert {(entry.location.name, entry.kind) for entry in entries} == {
        ("month=1", EntryKind.DIRECTORY),
        ("shallow.parquet", EntryKind.FILE),
    }
    found = store.storage.stat_many(
        [Location.parse(store.root).join(path) for path in ("top.parquet", "no", "origin=EWR", "top.parquet")]
    )
    assert [entry and entry.kind for entry in found] == [
        EntryKind.FILE, None, EntryKind.DIRECTORY, EntryKind.FILE,
    ]  # fmt: skip


def test_a_footer_is_read(store: Store) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1, 2, 3]}), sink)
    store.put(["k=%2F/a.parquet"], sink.getvalue().to_pybytes())
    with store.storage.open_input_file(f"{store.root}/k=%2F/a.parquet") as file:
        assert pq.read_metadata(file).num_rows == 3


@pytest.mark.parametrize("name", ["x" * 10_000, "it's \"; DROP TABLE t; --", "a%00b", "new\nline", "k=" + "é" * 300])
def test_hostile_names_are_not_there(store: Store, name: str) -> None:
    store.put(["k=1/a"])
    assert store.storage.stat(f"{store.root}/{name}") is None
    with pytest.raises(LocationNotFoundError) as missing:
        store.storage.check_directory(f"{store.root}/{name}")
    assert len(missing.value.message) < 1000


def test_a_small_file_is_put_over_one_that_is_there(store: Store) -> None:
    store.put(["k=1/a.parquet"])
    place = f"{store.root}/k=1/_SUCCESS"
    store.storage.write_file(place, b"old")
    store.storage.write_file(place)
    with store.storage.open_input_file(place) as file:
        assert file.read() == b""
    assert listed_files(store, 1) == ["k=1/_SUCCESS", "k=1/a.parquet"]


def test_deleting_a_tree_leaves_its_neighbours(store: Store) -> None:
    store.put(["k=1/j=1/a", "k=1/b", "k=10/c", "k=1.parquet"])
    store.storage.delete_tree(f"{store.root}/k=1")
    assert listed_files(store, 2) == ["k=1.parquet", "k=10/c"]
    store.storage.delete_tree(f"{store.root}/k=1.parquet")
    assert listed_files(store, 2) == ["k=10/c"]


def test_the_whole_store_is_never_deleted(store: Store) -> None:
    root = Location.parse(store.root)
    with pytest.raises(StorageError, match="never deleted"):
        store.storage.delete_tree(Location(root.scheme, root.bucket, ""))


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("origin=*", [path for path in TREE if path.startswith("origin=") and "/_" not in path]),
        ("origin={EWR,JFK}/month=1", [*TREE[:3], TREE[4]]),
        ("origin=EWR/month={1..1}?/day=*", ["origin=EWR/month=12/day=31/a.parquet"]),
        ("*/*/day=1/a.parquet", [path for path in TREE if path.endswith("/day=1/a.parquet") and path[0] == "o"]),
        ("**/day=31", ["origin=EWR/month=12/day=31/a.parquet"]),
        ("origin=LGA/**", ["origin=LGA/month=1/day=1/deeper/still/a.parquet", "origin=LGA/shallow.parquet"]),
        ("origin=EWR/**/b.parquet", ["origin=EWR/month=1/day=1/b.parquet"]),
        ("*.parquet", ["top.parquet"]),
        ("_*", ["_SUCCESS", "_temporary/0/a.parquet"]),
        ("top.parquet", ["top.parquet"]),
        ("origin=a%2F?", ["origin=a%2Fb/month=%20/day=1/a.parquet"]),
    ],
)
def test_what_a_pattern_matches(store: Store, pattern: str, paths: list[str]) -> None:
    store.put(TREE)
    root = Location.parse(store.root)
    assert [file.relative_to(root) for file in matched(store.storage, f"{root}/{pattern}")] == sorted(paths)


def test_a_pattern_lists_everything_that_is_missing(store: Store) -> None:
    store.put(TREE)
    with pytest.raises(PathNotFoundError) as missing:
        matched(store.storage, f"{store.root}/origin={{EWR,XXX}}/month={{01..02}}")
    for path in ("origin=EWR/month=01", "origin=EWR/month=02", "origin=XXX/month=01", "origin=XXX/month=02"):
        assert path in missing.value.message
    with pytest.raises(PathNotFoundError, match=r"\*\.csv"):
        matched(store.storage, f"{store.root}/origin=*/*.csv")
    with pytest.raises(PathNotFoundError):
        matched(store.storage, f"{store.root}/top.parquet/*")


def test_a_failure_is_never_yielded_for_a_whole_tree(store: Store) -> None:
    store.put(TREE)
    listing = list_tree(store.storage, store.root, descend=lambda _: True, depth_hint=3)
    assert not [item for item in listing if isinstance(item, ListingFailure)]
