"""Directories of equal values: the metastore has one of them, and the next one when that has gone."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.index.database.schema import partitions
from catalog_ext.metastore.index.write import version_record
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.sync import publishing
from tests.kit.repair_cases import indexed, local_catalog, register, walked, write
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import equals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore


@pytest.fixture
def catalog(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        yield catalog


def hive(metastore: FakeMetastore) -> dict[str, str]:
    """The directories that Hive engines read, by the metastore's names; statistics are those of the directory."""
    found = {}
    for partition in metastore.partitions("s", "t"):
        directory = str(partition.location).rpartition("/")[2]
        assert partition.parameters["numFiles"] == "1"
        found["/".join(partition.values)] = directory
    return found


def made(catalog: Catalog, root: Path, *paths: str, type_: str = "STRING") -> None:
    write(root, *paths)
    register(catalog, root, {"ds": type_})
    catalog.repair_partitions("s.t")


@pytest.mark.parametrize("first", ["DS=3", "ds=a%20b"])
def test_an_overwrite_moves_the_metastore_to_what_it_leaves(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, caplog: pytest.LogCaptureFixture, first: str
) -> None:
    root = tmp_path / "t"
    made(catalog, root, f"{first}/a.csv", "ds=4/a.csv")
    value, written = ("3", "ds=3") if first == "DS=3" else ("a b", "ds=a b")
    with caplog.at_level(logging.WARNING):
        insert(catalog, written)
    assert "Hive engines do not see 1 new partitions of table s.t" in caplog.text
    assert set(indexed(catalog)) == {first, written, "ds=4"}
    assert hive(metastore) == {value: first, "4": "ds=4"}
    insert(catalog, written, kind=WriteKind.OVERWRITE_PARTITIONS)
    assert hive(metastore) == {value: written, "4": "ds=4"}
    assert set(indexed(catalog)) == {written, "ds=4"}
    assert indexed(catalog) == walked(root, 1)
    assert [e.action for e in catalog.publish("s.t")] == ["in sync"]


def test_spellings_that_differ_as_strings_are_two_metastore_partitions(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    made(catalog, tmp_path / "t", "ds=03/a.csv", type_="INT")
    insert(catalog, "ds=3")
    assert hive(metastore) == {"03": "ds=03", "3": "ds=3"}
    insert(catalog, "ds=3", kind=WriteKind.OVERWRITE_PARTITIONS)
    assert hive(metastore) == {"3": "ds=3"}
    catalog.partition_commands.drop("s.t", [equals("ds", "3")])
    assert hive(metastore) == {}


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("sync", [True, False])
def test_a_repair_that_drops_the_one_gives_the_metastore_the_other(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, sync: bool, few: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Whether the other one was registered before, or comes with the repair that finds the first one gone."""
    monkeypatch.setattr(version_record, "_FEW_NAMES", few)
    root = tmp_path / "t"
    made(catalog, root, "DS=1/a.csv", "ds=2/a.csv")
    write(root, "ds=1/b.csv", "dS=1/c.csv")
    if sync:
        catalog.repair_partitions("s.t")
        assert hive(metastore) == {"1": "DS=1", "2": "ds=2"}
    shutil.rmtree(root / "DS=1")
    metastore.calls.clear()
    catalog.repair_partitions("s.t", mode="sync")
    assert hive(metastore) == {"1": "ds=1", "2": "ds=2"}
    if sync:
        assert metastore.calls["drop_partitions"] == 0, "Hive engines see the value all the time"
    shutil.rmtree(root / "ds=1")
    catalog.repair_partitions("s.t", mode="sync")
    assert hive(metastore) == {"1": "dS=1", "2": "ds=2"}
    assert [e.action for e in catalog.publish("s.t")] == ["in sync"]


def test_table_that_the_metastore_cannot_hold_is_no_successor(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    made(catalog, root, "ds=/a.csv", "ds=1/b.csv")
    catalog.partition_commands.drop("s.t", [equals("ds", "1")])
    assert hive(metastore) == {}
    assert set(indexed(catalog)) == {"ds="}


def test_a_repair_beside_a_write_of_the_same_value_adds_a_second_one(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    made(catalog, tmp_path / "t", "ds=2/a.csv")
    base = catalog.load_table("s.t")
    insert(catalog, "ds=1")
    catalog.index.commits.apply_changes(
        base.table_id, [AddPartition("DS=1", ())], operation="repair", deliver=True, base=base
    )
    catalog.deliver()
    assert hive(metastore) == {"1": "ds=1", "2": "ds=2"}
    there = catalog.load_table("s.t")
    found = catalog.index.living_partitions.of_values(there, ["ds=1"])
    assert {p.name: p.in_metastore for p in found} == {"ds=1": True, "DS=1": False}
    catalog.index.commits.apply_changes(base.table_id, [DropPartition("DS=1")], operation="repair", deliver=True)
    catalog.deliver()
    assert hive(metastore) == {"1": "ds=1", "2": "ds=2"}


@pytest.mark.parametrize("known", [True, False])
def test_publish_sends_what_the_metastore_never_got(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, known: bool
) -> None:
    """The index says of the value that the metastore has no partition of it."""
    made(catalog, tmp_path / "t", "DS=3/a.csv", "ds=4/a.csv")
    with catalog.index._database.engine.begin() as connection:
        connection.execute(partitions.update().where(partitions.c.name == "DS=3").values(in_metastore=0))
    if not known:
        metastore.drop_partitions("s", "t", ["ds=3"])
    (preview,) = catalog.publish("s.t", dry_run=True)
    (entry,) = catalog.publish("s.t")
    assert (preview.action, preview.published, preview.dropped) == (entry.action, entry.published, entry.dropped)
    assert (entry.action, entry.published, entry.dropped) == ("in sync" if known else "partitions", 1 - known, 0)
    assert hive(metastore) == {"3": "DS=3", "4": "ds=4"}
    insert(catalog, "ds=3", kind=WriteKind.OVERWRITE_PARTITIONS)
    assert hive(metastore) == {"3": "ds=3", "4": "ds=4"}


def test_publishing_drops_nothing_whose_value_has_come_meanwhile(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(catalog, tmp_path / "t", "ds=4/a.csv")
    insert(catalog, "ds=3")
    metastore_has = list(metastore.partitions("s", "t"))
    catalog.partition_commands.drop("s.t", [equals("ds", "3")])
    shutil.rmtree(tmp_path / "t" / "ds=3")
    metastore.add_partitions("s", "t", metastore_has)
    compared = publishing.Publishing._unknown

    def overtaken(*arguments: object) -> object:
        found = compared(*arguments)  # type: ignore[arg-type]
        write(tmp_path / "t", "DS=3/b.csv")
        catalog.repair_partitions("s.t")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(publishing.Publishing, "_unknown", overtaken)
        list(catalog.publish("s.t"))
    assert hive(metastore) == {"3": "ds=3", "4": "ds=4"}, "what a Hive engine has put back stays there"
    list(catalog.publish("s.t"))
    assert hive(metastore) == {"3": "DS=3", "4": "ds=4"}
