"""MinIO lists nothing below an object: one that has a directory's name hides its partitions, and drops none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.events.notifications import StoreEvent
from catalog_ext.metastore.errors import StorageError
from tests.kit.repair_cases import indexed
from tests.servers.paged_keys import PagedKeys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.repair.report import RepairReport

KEYS = ["t/a=1/b=x/f", "t/a=1/b=y/f", "t/a=2/b=x/f", "elsewhere/p/f"]


@pytest.fixture
def store() -> Iterator[PagedKeys]:
    with PagedKeys(KEYS) as paged:
        yield paged


@pytest.fixture
def catalog(store: PagedKeys, tmp_path: Path) -> Iterator[Catalog]:
    with connect(index=str(tmp_path / "index.db"), metastore=None, storage=store.options) as catalog:
        catalog.create_namespace("s")
        catalog.register_table(
            "s.t", location="s3a://bucket/t", schema="x BIGINT", partition_columns={"a": "INT", "b": "STRING"},
            format="csv",
        )  # fmt: skip
        catalog.repair_partitions("s.t")
        catalog.partition_commands.add("s.t", [({"a": "9", "b": "z"}, "s3a://bucket/elsewhere/p")])
        yield catalog


def hide(store: PagedKeys, name: str) -> None:
    """An object of that key is there, and a listing shows nothing below it."""
    store.keys = sorted([name, *(key for key in store.keys if not key.startswith(f"{name}/"))])
    store.objects = {name}


@pytest.mark.slow
@pytest.mark.parametrize("where", [None, "a IN (1, 9)"])
@pytest.mark.parametrize("name", ["t/a=1", "t/a=1/b=x", "elsewhere/p"])
def test_repair_drops_nothing_below_an_object(store: PagedKeys, catalog: Catalog, name: str, where: str | None) -> None:
    before = indexed(catalog)
    assert len(before) == 4
    hide(store, name)
    report: RepairReport = catalog.repair_partitions("s.t", where=where)
    assert list(report.dropped) == []
    assert any("an object has the name of this directory" in entry.reason for entry in report.skipped)
    assert indexed(catalog) == before


@pytest.mark.slow
def test_repair_fails_where_an_object_has_the_tables_name(store: PagedKeys, catalog: Catalog) -> None:
    before = indexed(catalog)
    hide(store, "t")
    with pytest.raises(StorageError, match="an object has the name of this directory"):
        catalog.repair_partitions("s.t")
    assert indexed(catalog) == before


@pytest.mark.slow
def test_event_drops_nothing_below_an_object(store: PagedKeys, catalog: Catalog) -> None:
    before = indexed(catalog)
    hide(store, "t/a=1/b=x")
    catalog.events.take([StoreEvent("s3a://bucket/t/a=1/b=x/f", True, None, None, None, True)])
    assert indexed(catalog) == before


@pytest.mark.slow
def test_object_beside_its_directory_keeps_nothing_from_the_repair(store: PagedKeys, catalog: Catalog) -> None:
    """S3 itself lists both."""
    store.keys = sorted([*store.keys, "t/a=1"])
    store.keys.remove("t/a=1/b=x/f")
    report = catalog.repair_partitions("s.t")
    assert [entry.path for entry in report.dropped] == ["a=1/b=x"]
    assert [entry.reason for entry in report.skipped] == ["the file lies above the partition directories"]
    assert "a=1/b=y" in indexed(catalog)
