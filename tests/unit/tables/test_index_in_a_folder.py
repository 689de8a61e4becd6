"""An index that lies in the folder of a table: it is no file of the table, and no statement deletes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import StorageError, TableLayoutError
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from tests.kit.index_cases import empty_index
from tests.kit.repair_cases import indexed
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "lake.db").write_bytes(empty_index())
    (tmp_path / "lake" / "a.csv").write_text("1\n", encoding="ascii")
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    return tmp_path / "lake"


@pytest.fixture
def catalog(lake: Path) -> Iterator[Catalog]:
    index = str(lake / "lake.db")
    with connect(index=index, metastore=None, warehouse=str(lake.parent / "warehouse")) as opened:
        opened.create_namespace("s")
        yield opened


@pytest.mark.parametrize("at", ["lake", "link"])
def test_overwrite_leaves_the_index_in_the_tables_folder(catalog: Catalog, lake: Path, at: str) -> None:
    """It was registered as rows, and INSERT OVERWRITE of an unpartitioned table deleted it. DuckLake had the same."""
    catalog.register_table("s.t", location=str(lake.parent / at), format="csv", schema="x INT")
    catalog.repair_partitions("s.t")
    assert indexed(catalog) == {"": {"a.csv": 2}}
    stand = Stand(catalog.index, catalog.storage)
    stand.write({"": "9\n"}, WriteKind.OVERWRITE)
    assert stand.rows() == {"": "9\n"}
    assert (lake / "lake.db").exists()
    assert not (lake / "a.csv").exists()


def test_registered_index_is_not_deleted_with_the_tables_files(catalog: Catalog, lake: Path) -> None:
    """A row of the index names the file of the index itself."""
    table = catalog.register_table("s.t", location=str(lake), format="csv", schema="x INT")
    status = (lake / "lake.db").stat()
    file = DataFile("lake.db", status.st_size, status.st_mtime_ns // 1_000_000)
    catalog.index.commits.apply_changes(table.table_id, [AddPartition("", (file,))], operation="repair", deliver=False)
    assert list(indexed(catalog)[""]) == ["lake.db"]
    Stand(catalog.index, catalog.storage).write({"": "9\n"}, WriteKind.OVERWRITE)
    assert (lake / "lake.db").exists()
    catalog.repair_partitions("s.t")
    assert list(indexed(catalog)[""].values()) == [2]


@pytest.mark.parametrize("above", [".", "lake"])
def test_table_whose_directory_has_the_index_is_not_dropped(catalog: Catalog, lake: Path, above: str) -> None:
    managed = catalog.index.tables.create(definition(lake.parent / above, {}), deliver=False)
    with pytest.raises(TableLayoutError, match=r"the index .*lake\.db lies in the directory"):
        catalog.drop_table("s.t")
    assert catalog.load_table("s.t").definition == managed.definition
    assert (lake / "lake.db").exists()


def test_no_call_of_the_store_takes_the_index_away(catalog: Catalog, lake: Path) -> None:
    place, storage = Location.parse(str(lake)), catalog.storage
    with pytest.raises(StorageError, match=r"the index .* lies in it"):
        storage.delete_tree(place)
    with pytest.raises(StorageError, match=r"the index .* lies in it"):
        storage.rename_directory(place, place.parent.join("aside"))
    storage.delete_files([place.join("lake.db"), place.join("a.csv")])
    assert (lake / "lake.db").exists()
    assert not (lake / "a.csv").exists()
    assert list(list_tree(storage, place, descend=lambda _: True, depth_hint=1)) == []
    assert storage.list_directory(place) == []
