"""The paths that the last repair skipped, as rows that can be read afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import RepairRefusedError
from catalog_ext.repair import record
from tests.kit.repair_cases import local_catalog, register, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        register(catalog, root, {"k": "INT"})
        yield catalog


def kept(catalog: Catalog) -> list[dict[str, Any]]:
    table_id = catalog.load_table("s.t").table_id
    rows: list[dict[str, Any]] = catalog.metadata_tables.read(table_id, "skipped").read_all().to_pylist()
    return rows


def test_last_repair_replaces_what_the_one_before_skipped(catalog: Catalog, root: Path) -> None:
    write(root, "k=1/1.csv", "k=x/1.csv", "stray.csv")
    assert kept(catalog) == []
    preview = catalog.repair_partitions("s.t", dry_run=True)
    assert kept(catalog) == []
    catalog.repair_partitions("s.t")
    columns = ("path", "partition", "files", "bytes", "reason")
    assert [tuple(row[c] for c in columns) for row in kept(catalog)] == [
        tuple(getattr(entry, c) for c in columns) for entry in preview.skipped
    ]
    assert sorted(row["path"] for row in kept(catalog)) == ["k=x", "stray.csv"]
    (root / "stray.csv").unlink()
    catalog.repair_partitions("s.t")
    assert [row["path"] for row in kept(catalog)] == ["k=x"]


def test_refused_repair_says_what_it_would_skip(catalog: Catalog, root: Path) -> None:
    write(root, "k=x/1.csv")
    with pytest.raises(RepairRefusedError):
        catalog.repair_partitions("s.t", strict=True)
    assert [row["path"] for row in kept(catalog)] == ["k=x"]


def test_number_of_kept_paths_is_bounded(catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MOST_SKIPPED", 2)
    write(root, *(f"k=x{i}/1.csv" for i in range(4)))
    catalog.repair_partitions("s.t")
    assert len(kept(catalog)) == 2
