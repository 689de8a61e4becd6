"""A listing on S3 comes page by page: what it holds, what it makes of a page, and what of one that fails."""

from __future__ import annotations

import tracemalloc
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow
import pytest
from packaging.version import Version
from pyarrow import fs as pafs

from catalog_ext.metastore.errors import LocationNotFoundError, StorageAccessDeniedError, StorageError
from catalog_ext.metastore.storage.entries import ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.servers.paged_keys import PagedKeys

if TYPE_CHECKING:
    from catalog_ext.metastore.storage.entries import Descend, Listed

ODD = [
    "t/", "t/a", "t/k=1/", "t/k=1/a b+c", "t/k=1/50%25", "t/k=1/ü€", "t/k=2&3/<x>", "t/k=2/\ny", "t/k=%3A/a=b:c",
    "t/k=3//b", "t//c", "t/k=3/j=1/f", "t/k=4/full/", "t/k=5//", "t.b/no", "t", "tt/no", 't/k="6"/\'q\'', "t/k=7/%0A",
]  # fmt: skip


def listed(store: PagedKeys, depth_hint: int = 1, descend: Descend = lambda _: True, root: str = "t") -> list[Listed]:
    place = f"s3a://bucket/{root}" if root else "s3a://bucket"
    return list(list_tree(Storage(store.options), place, descend=descend, depth_hint=depth_hint))


def without_etags(found: list[Listed]) -> list[Listed]:
    """Pyarrow lists none."""
    assert all(file.etag is not None for file in found if isinstance(file, ListedFile))
    return [file._replace(etag=None) if isinstance(file, ListedFile) else file for file in found]


def by_pyarrow(store: PagedKeys, root: str = "bucket/t") -> list[ListedFile]:
    """The files as pyarrow lists them, whose times and sizes the index has. Before 26 it left the milliseconds out.

    Pyarrow takes a key that ends in a slash for a file if it holds something. Readers do not: it has no name here.
    """
    filesystem = pafs.S3FileSystem(
        access_key="a", secret_key="s", region="us-east-1", endpoint_override=store.endpoint[len("http://") :],
        scheme="http",
    )  # fmt: skip
    found = []
    for info in filesystem.get_file_info(pafs.FileSelector(root, recursive=True)):
        if info.is_file:
            path = info.path[len(root) + 1 :]
            is_marker = f"{info.path.removeprefix('bucket/')}/" in store.keys
            head, slash, name = f"{path}{'/' if is_marker else ''}".rpartition("/")
            modified_ms = info.mtime_ns // 1_000_000
            if Version(pyarrow.__version__) < Version("26"):
                modified_ms += 123
            found.append(ListedFile(head or slash, name, info.size, modified_ms))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize("depth_hint", [1, 2, 3])
@pytest.mark.parametrize("encodes", [True, False])
def test_it_is_what_pyarrow_lists(depth_hint: int, encodes: bool) -> None:
    with PagedKeys(ODD) as store:
        store.encodes = encodes
        assert sorted(without_etags(listed(store, depth_hint))) == by_pyarrow(store)


def test_markers_that_hold_something() -> None:
    with PagedKeys(["t/full/", "t/full/k=1/full/", "t/full//full/", "t/full/k=2//full/", "t/full/a"]) as store:
        assert sorted(without_etags(listed(store, root="t/full"))) == by_pyarrow(store, "bucket/t/full")


@pytest.mark.slow
def test_a_whole_bucket() -> None:
    with PagedKeys(["a", "k=1/b", "/c", "k=1//d"]) as store:
        assert sorted(without_etags(listed(store, 2, root=""))) == by_pyarrow(store, "bucket")


@pytest.mark.slow
@pytest.mark.parametrize("depth_hint", [1, 2, 3])
def test_ampersands_that_a_store_does_not_encode(depth_hint: int) -> None:
    with PagedKeys(ODD) as store:
        plain = listed(store, depth_hint)
        store.alter = lambda text: text.replace("%26", "&amp;")
        assert sorted(listed(store, depth_hint)) == sorted(plain)


@pytest.mark.slow
def test_what_is_written_in_another_way_is_read_too() -> None:
    with PagedKeys(["t/k=1/a", "t/k=1/b c", "t/e"]) as store:
        plain = listed(store, 2)
        store.alter = lambda text: text.replace("<Size>", "<Size><!-- bytes -->")
        assert sorted(listed(store, 2)) == sorted(plain)
        store.alter = lambda text: text.replace(".123Z", ".123+00:00")
        assert sorted(listed(store, 2)) == sorted(plain)


@pytest.mark.slow
def test_the_files_of_a_directory_come_together() -> None:
    keys = [f"t/a={one}/b={number % 7}/{number:05d}" for one in range(6) for number in range(700)]
    with PagedKeys(keys, of_page=280) as store:
        for depth_hint in (1, 2):
            found = listed(store, depth_hint)
            assert len(found) == len(set(found)) == len(keys)
            assert len([directory for directory, _ in groupby(item.directory for item in found)]) == 42


@pytest.mark.slow
def test_a_directory_of_more_files_than_wait_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog_ext.metastore.storage.s3.listing._LARGEST_WAITING", 1500)
    with PagedKeys([f"t/k=1/{number:05d}" for number in range(4500)] + ["t/k=2/a"]) as store:
        found = listed(store)
        assert len(found) == len(set(found)) == 4501


@pytest.mark.slow
@pytest.mark.parametrize("flat", [True, False])
def test_what_is_held_does_not_grow_with_the_keys(monkeypatch: pytest.MonkeyPatch, flat: bool) -> None:
    """0.8 kB a key was held before: 6 MB here."""
    for limit in ("_LARGEST_WAITING", "_REMEMBERED"):
        monkeypatch.setattr(f"catalog_ext.metastore.storage.s3.listing.{limit}", 2500)
    held = {}
    for count in (2500, 7500):
        keys = [f"t/k={0 if flat else number:06d}/part-{number:06d}.parquet" for number in range(count)]
        with PagedKeys(keys, of_page=250) as store:
            storage = Storage(store.options)
            storage.keys_of(Location.parse("s3a://bucket/t"))
            tracemalloc.start()
            try:
                listing = list_tree(storage, "s3a://bucket/t", descend=lambda _: True, depth_hint=1)
                assert sum(1 for _ in listing) == count
                held[count] = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    # What waits of one directory is the most.
    assert held[7500] < 3_000_000
    assert held[7500] < 2 * held[2500] + 500_000


@pytest.mark.slow
def test_a_failure_in_the_middle_is_one() -> None:
    keys = [f"t/a={one}/b={number // 10:04d}/{number:05d}" for one in range(3) for number in range(875)]
    with PagedKeys(keys, of_page=250) as store:
        store.fault = lambda asked: (403, "AccessDenied") if asked.prefix == "t/a=1/" and asked.page == 2 else None
        found = listed(store, 2)
        failures = [item for item in found if isinstance(item, ListingFailure)]
        assert [failure.directory for failure in failures] == ["a=1"]
        assert isinstance(failures[0].error, StorageAccessDeniedError)
        files = [item for item in found if isinstance(item, ListedFile) and not item.directory.startswith("a=1/")]
        assert len(files) == 1750
        # At the root it concerns all directories.
        store.fault = lambda asked: (403, "AccessDenied") if asked.page == 2 else None
        with pytest.raises(StorageAccessDeniedError):
            listed(store, 1)


@pytest.mark.slow
def test_a_level_that_fails_in_the_middle_is_not_walked() -> None:
    keys = [f"t/a=1/b={number:04d}/f" for number in range(1500)] + ["t/a=2/b=1/f"]
    with PagedKeys(keys) as store:
        store.fault = lambda asked: (403, "AccessDenied") if asked[:3] == ("t/a=1/", 1, True) else None
        found = listed(store, 3)
        assert [item.directory for item in found if isinstance(item, ListingFailure)] == ["a=1"]
        assert [item.directory for item in found if isinstance(item, ListedFile)] == ["a=2/b=1"]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "<NextContinuationToken>t/0999@1</NextContinuationToken>"])
def test_more_without_saying_where_is_a_failure(text: str) -> None:
    with PagedKeys([f"t/{number:04d}" for number in range(2500)]) as store:

        def alter(answer: str) -> str:
            head, _, rest = answer.partition("<NextContinuationToken>")
            return head + text + rest.partition("</NextContinuationToken>")[2]

        store.alter = alter
        with pytest.raises(StorageError, match="does not say where"):
            listed(store)


@pytest.mark.slow
def test_no_bucket_and_no_prefix() -> None:
    with PagedKeys(["t/a"]) as store:
        assert listed(store, root="u") == []
        store.fault = lambda _: (404, "NoSuchBucket")
        with pytest.raises(LocationNotFoundError, match="no bucket"):
            listed(store)


@pytest.mark.slow
def test_a_directory_that_is_turned_down_is_left_out_of_the_pages() -> None:
    keys = [f"t/a={number:05d}/b={number % 2}/f" for number in range(2500)]
    with PagedKeys(keys, of_page=200) as store:
        found = listed(store, 1, lambda directory: not directory.endswith("b=1"))
        assert len(found) == 1250
