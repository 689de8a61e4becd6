"""A catalog over a local folder, trees of files, and a simple reference for the expected repair."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import catalog_ext
from catalog_ext.metastore.errors import StorageAccessDeniedError
from catalog_ext.metastore.storage.store import Storage
from tests.kit.index_cases import empty_index

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import pytest

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location

EU, US = "ds=2025-01-01/region=eu", "ds=2025-01-02/region=us"
KEYS = {"ds": "DATE", "region": "STRING"}


def local_catalog(folder: Path, *, index: str | None = None, metastore: str | None = None) -> Catalog:
    """A catalog on the index alone, whose namespace ``s`` is there."""
    if index is None and not (folder / "index.db").exists():
        (folder / "index.db").write_bytes(empty_index())
    catalog = catalog_ext.connect(
        index=index or str(folder / "index.db"), metastore=metastore, warehouse=str(folder / "warehouse")
    )
    if "s" not in catalog.list_namespaces():
        catalog.create_namespace("s")
    return catalog


def write(root: Path, *paths: str, content: bytes = b"x") -> None:
    """Files with these paths below the root; a path that ends in a slash is an empty directory."""
    for path in paths:
        place = root / path
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)


def register(catalog: Catalog, root: Path, keys: Mapping[str, str] | None = None, *, table: str = "s.t") -> None:
    """A table at the root, which is made if it is not there."""
    root.mkdir(parents=True, exist_ok=True)
    catalog.register_table(
        table, location=str(root), partition_columns=KEYS if keys is None else keys, schema="x INT", format="csv"
    )


@contextmanager
def catalog_of_files(folder: Path, root: Path, *paths: str) -> Iterator[Catalog]:
    """A catalog whose table ``s.t`` has these files."""
    write(root, *paths)
    with local_catalog(folder) as catalog:
        register(catalog, root)
        catalog.repair_partitions("s.t")
        yield catalog


def indexed(catalog: Catalog, table: str = "s.t") -> dict[str, dict[str, int]]:
    """What the index holds: partition names as they are on the store, in each the files with their sizes."""
    there = catalog.load_table(table)
    listed = catalog.index.partitions.all(there, None).read_all()
    held: dict[str, dict[str, int]] = {name: {} for name in listed.column("partition").to_pylist()}
    for row in catalog.index.files.plan(there, None).read_all().to_pylist():
        assert row["path"] not in held[row["partition"]], "a file is registered once"
        held[row["partition"]][row["path"]] = row["size"]
    return held


def walked(root: Path, depth: int) -> dict[str, dict[str, int]]:
    """What lies in directories of this depth whose components all have an ``=``: the naive truth for valid trees."""
    found: dict[str, dict[str, int]] = {}
    for folder, _, names in os.walk(root):
        directory = os.path.relpath(folder, root)
        parts = [] if directory == "." else directory.split("/")
        if len(parts) == depth and all("=" in part for part in parts):
            visible = [n for n in names if not n.startswith(("_", ".")) or "=" in n]
            found["/".join(parts)] = {n: os.path.getsize(os.path.join(folder, n)) for n in visible}
    return found


def skipped(report: catalog_ext.RepairReport) -> dict[str, str]:
    """The reasons, by path."""
    return {entry.path: entry.reason for entry in report.skipped}


def deny(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    """Make the operating system refuse to list these folders, as it would for any user but root."""
    scandir, listed, denied = os.scandir, Storage.list_directory, {str(f) for f in folders}

    def guarded(path: str) -> object:
        if str(path) in denied:
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    def guarded_listing(storage: Storage, location: str | Location) -> list[Entry]:
        if str(location).removeprefix("file://") in denied:
            raise StorageAccessDeniedError(f"Cannot list {location}: Permission denied.")
        return listed(storage, location)

    monkeypatch.setattr(os, "scandir", guarded)
    monkeypatch.setattr(Storage, "list_directory", guarded_listing)
