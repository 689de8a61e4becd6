"""What a look at a location lists and which files it takes for a sample."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.tables import location_scan
from catalog_ext.tables.location_scan import LocationScan
from tests.kit.repair_cases import write

if TYPE_CHECKING:
    from pathlib import Path


def definition(root: Path, **keys: str) -> TableDefinition:
    columns = tuple(Column(name, kind) for name, kind in keys.items())
    return TableDefinition(TableIdentifier.of("s", "t"), TableType.EXTERNAL, "csv", f"file://{root}", (), columns)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "t", *(f"k={i:03d}/{j}.csv" for i in range(200) for j in range(2)))
    return tmp_path / "t"


def count_listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path)) or scandir(path))
    return listed


def test_without_a_sample_the_scan_ends_at_the_first_file_that_fits(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = count_listings(monkeypatch)
    found = LocationScan(Storage(), 100).with_keys(definition(root, k="int"), sample=False)
    assert found.files == 1
    assert len(listed) == 2


def test_with_a_sample_it_ends_after_so_many_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(location_scan, "MAX_SCANNED_FILES", 50)
    found = LocationScan(Storage(), 10).with_keys(definition(root, k="int"), sample=True)
    assert (found.files, len(found.sample)) == (50, 10)


def test_a_sample_is_spread_and_the_same_each_time(root: Path) -> None:
    first, second = (LocationScan(Storage(), 20).find_keys(definition(root)) for _ in range(2))
    assert first.sample == second.sample
    assert first.files == 400
    assert len({location for location, _ in first.sample}) == 20
    assert len({location.parent for location, _ in first.sample}) > 10
    assert {size for _, size in first.sample} == {1}


def test_a_sample_of_all_is_all(root: Path) -> None:
    assert len(LocationScan(Storage(), None).find_keys(definition(root)).sample) == 400


def test_only_files_that_fit_are_in_the_sample(tmp_path: Path) -> None:
    write(tmp_path / "t", "k=1/1.csv", "k=x/1.csv", "stray.csv", "plain/1.csv", "k=1/_hidden", "_tmp/k=1/1.csv")
    found = LocationScan(Storage(), None).with_keys(definition(tmp_path / "t", k="int"), sample=True)
    assert [location.key.removeprefix(f"{str(tmp_path)[1:]}/t/") for location, _ in found.sample] == ["k=1/1.csv"]
    assert found.files == 4


def test_hidden_directories_are_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "t", "k=1/1.csv", "_tmp/a/b/1.csv", ".staging/1.csv")
    listed = count_listings(monkeypatch)
    LocationScan(Storage(), None).find_keys(definition(tmp_path / "t"))
    assert len(listed) == 2


def test_file_of_another_format_above_the_partitions_is_no_key(tmp_path: Path) -> None:
    write(tmp_path / "t", "a=1/b=1/1.csv", "README.txt", "a=1/load.sql", "a=1/b=1/other.parquet")
    found = LocationScan(Storage(), None).find_keys(definition(tmp_path / "t"))
    assert [c.name for c in found.partition_columns] == ["a", "b"]
    assert [location.name for location, _ in found.sample] == ["1.csv"]
    write(tmp_path / "t", "a=1/2.csv")
    with pytest.raises(TableLayoutError, match="disagree"):
        LocationScan(Storage(), None).find_keys(definition(tmp_path / "t"))
