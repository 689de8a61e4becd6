"""Partitions that are not read as their table: what each command makes of their descriptors, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore import errors
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.messages import SyncPartitions, read_message
from catalog_ext.metastore.model.alterations import AddColumn, ChangeType, RenameColumn
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.tables import Column, ColumnStatistics, DataFile
from catalog_ext.service.handlers.tables import TableOperations
from catalog_ext.service.messages.core import Request
from catalog_ext.tables.freshness import Staleness
from tests.kit.repair_cases import indexed, local_catalog, write
from tests.kit.writes import begin, insert
from tests.unit.partitions.test_partition_commands import equals, external, managed

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore

CLASSES = {"serde": "s", "input_format": "i", "output_format": "o"}
HIVE = {**CLASSES, "serde_parameters": {}, "columns": [["x", "int", None]]}
PIPED = PartitionDescriptor("csv", {"sep": "|"}, (Column("x", "int"),), HIVE)
ORC = PartitionDescriptor("orc", {}, (Column("x", "int"), Column("y", "string")), HIVE)


def described(catalog: Catalog, table: str = "s.t", version: int | None = None) -> dict[str, PartitionDescriptor]:
    """The descriptors of partitions that have one, by name."""
    loaded = catalog.load_table(table)
    at = loaded if version is None else replace(loaded, version=version)
    by_number = catalog.index.descriptors.of_table(at)
    return {
        name: descriptor
        for number, descriptor in by_number.items()
        for name in catalog.index.files.plan(at, None, descriptor=number).read_all().column("partition").to_pylist()
    }


def commit(catalog: Catalog, *changes: Any, table: str = "s.t", deliver: bool = False) -> int:
    loaded = catalog.load_table(table)
    return catalog.index.commits.apply_changes(loaded.table_id, changes, operation="x", deliver=deliver).version


def add(catalog: Catalog, root: Path, name: str, descriptor: PartitionDescriptor | None, table: str = "s.t") -> None:
    write(root, f"{name}/a.csv")
    file = DataFile("a.csv", 1, (root / name / "a.csv").stat().st_mtime_ns // 1_000_000)
    commit(catalog, AddPartition(name, (file,), descriptor=descriptor), table=table)


def plan_of(catalog: Catalog, descriptor: int | None) -> list[str]:
    plan = catalog.index.files.plan(catalog.load_table("s.t"), None, descriptor=descriptor)
    return sorted(plan.read_all().column("partition").to_pylist())


def test_a_plan_is_of_one_descriptor_and_equal_ones_are_kept_once(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    for name, descriptor in {"k=1": None, "k=2": PIPED, "k=3": ORC, "k=4": PIPED}.items():
        add(catalog, root, name, descriptor)
    found = catalog.index.descriptors.of_table(catalog.load_table("s.t"))
    assert found == {1: PIPED, 2: ORC}
    assert (plan_of(catalog, 0), plan_of(catalog, 1), plan_of(catalog, 2)) == (["k=1"], ["k=2", "k=4"], ["k=3"])
    assert plan_of(catalog, None) == ["k=1", "k=2", "k=3", "k=4"]


def test_without_descriptors_nothing_is_asked_for_them(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", None)
    table = catalog.load_table("s.t")
    assert not table.has_descriptors
    before = catalog.index.query_count
    assert (catalog.index.descriptors.of_table(table), catalog.index.descriptors.formats(table)) == ({}, {})
    assert catalog.index.query_count == before
    add(catalog, root, "k=2", PIPED)
    commit(catalog, DropPartition("k=2"))
    assert catalog.index.descriptors.of_table(catalog.load_table("s.t")) == {}, (
        "what no partition has is not asked of a store"
    )


def test_rows_are_not_added_and_an_overwrite_makes_the_partition_ours(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", ORC)
    files = indexed(catalog)
    with pytest.raises(errors.PartitionDescriptorError, match=r"'k=1' of table s\.t.*INSERT OVERWRITE the partition"):
        insert(catalog, "k=1", "k=2")
    assert indexed(catalog) == files, "nothing is written"
    assert [p.name for p in (root / "k=1").iterdir()] == ["a.csv"]
    then = catalog.load_table("s.t").version
    insert(catalog, "k=1", "k=2", kind=WriteKind.OVERWRITE_PARTITIONS)
    assert described(catalog) == {}
    assert described(catalog, version=then) == {"k=1": ORC}, "as it was read then"
    insert(catalog, "k=1")


def test_an_overwrite_that_only_adds_to_the_partition_is_refused(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", ORC)
    add(catalog, root, "k=2", None)
    with pytest.raises(errors.CatalogExtError):
        insert(catalog, "k=1", "k=2", kind=WriteKind.OVERWRITE, predicate=equals("k", "2"))
    assert described(catalog) == {"k=1": ORC}


def test_messages_for_the_metastore(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", ORC)
    add(catalog, root, "k=2", None)
    table = catalog.load_table("s.t")
    page, _ = catalog.index.publications.page(table, -1)
    assert {p.name: p.descriptor for p in page} == {"k=1": ORC.to_dict(), "k=2": None}
    commit(catalog, ReplaceFiles("k=1", added=(DataFile("b.csv", 1, 1),)), deliver=True)
    commit(catalog, ReplaceFiles("k=1", redescribed=True), deliver=True)
    commit(catalog, ReplaceFiles("k=2", added=(DataFile("b.csv", 1, 1),)), deliver=True)
    reported = [read_message(d) for d in catalog.index.outbox.pending(9)]
    assert [m.altered[0].descriptor for m in reported if isinstance(m, SyncPartitions)] == [ORC.to_dict(), {}, None], (
        "its own; the table's again; nothing"
    )


def test_moved_partitions_keep_it(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", ORC)
    commands = catalog.partition_commands
    commands.rename("s.t", {"k": "1"}, {"k": "7"})
    assert described(catalog) == {"k=7": ORC}
    write(tmp_path / "other", "b.csv")
    commands.relocate("s.t", {"k": "7"}, f"file://{tmp_path}/other")
    assert described(catalog) == {"k=7": ORC}
    assert indexed(catalog) == {"k=7": {"b.csv": 1}}
    external(catalog, tmp_path, "u")
    commands.exchange("s.u", "s.t", [{"k": "7"}])
    assert (described(catalog), described(catalog, "s.u")) == ({}, {"k=7": ORC})
    catalog.partition_commands.drop("s.u", [equals("k", "7")])
    assert described(catalog, "s.u") == {}


def test_directories_of_several_formats_do_not_become_one_partition(catalog: Catalog) -> None:
    root = managed(catalog)
    add(catalog, root, "k=1", ORC)
    add(catalog, root, "k=01", None)
    with pytest.raises(errors.PartitionDescriptorError, match="different formats"):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"})


def test_a_repair_keeps_it(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", ORC)
    write(root, "k=1/b.csv", "k=2/c.csv")
    catalog.repair_partitions("s.t", mode="sync")
    assert sorted(indexed(catalog)["k=1"]) == ["a.csv", "b.csv"]
    assert described(catalog) == {"k=1": ORC}
    report = catalog.repair_partitions("s.t", mode="sync", verify=True)
    assert not report.skipped


def test_another_descriptor_forgets_what_was_known_of_the_files(catalog: Catalog, tmp_path: Path) -> None:
    external(catalog, tmp_path)
    known = {"x": ColumnStatistics("1", "5", 0)}
    commit(catalog, AddPartition("k=1", (DataFile("a", 1, 1, 3, known), DataFile("b", 1, 1, 4, known))))
    assert catalog.load_table("s.t").totals.rows == 7
    then = catalog.load_table("s.t").version
    commit(catalog, ReplaceFiles("k=1", removed=("b",), redescribed=True, descriptor=PIPED))
    table = catalog.load_table("s.t")
    assert (table.totals.files, table.totals.rows) == (1, None)
    assert catalog.index.files.plan(table, None, bounds=["x"]).read_all().column("bounds_0").to_pylist() == [None]
    assert described(catalog) == {"k=1": PIPED}
    assert described(catalog, version=then) == {}
    commit(catalog, ReplaceFiles("k=1", redescribed=True))
    assert described(catalog) == {}


def test_columns_are_added_and_others_stay_as_its_partitions_have_them(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", PIPED)
    with pytest.raises(errors.PartitionDescriptorError, match=r"\(csv\).*its column 'x' would have another place"):
        catalog.alterations.alter("s.t", [RenameColumn(("x",), "z")])
    catalog.alterations.alter("s.t", [ChangeType(("x",), "bigint"), AddColumn(("y",), "string")])
    assert [c.name for c in catalog.load_table("s.t").definition.columns] == ["x", "y"]
    assert described(catalog) == {"k=1": PIPED}


def test_a_stream_does_not_read_them(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", None)
    table = catalog.load_table("s.t")
    assert catalog.index.changes.between(table.table_id, 0, 1).read_all().num_rows == 1
    add(catalog, root, "k=2", ORC)
    with pytest.raises(errors.PartitionDescriptorError, match=r"'k=2'.*a stream cannot read it"):
        catalog.index.changes.between(table.table_id, 1, 2)


def test_plan_that_meets_a_descriptor_of_a_later_version_is_made_again(catalog: Catalog, tmp_path: Path) -> None:
    """``max-staleness`` reads partitions at later versions, of whose descriptors the query does not know."""
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", None)
    table = catalog.reads.remember(catalog.load_table("s.t"))
    add(catalog, root, "k=2", ORC)
    write(root, "k=1/b.csv")
    with pytest.raises(errors.ConflictError, match="changed its format while the query was planned"):
        catalog.reads.plan_files(table.table_id, table.version, staleness=Staleness(0, None))


def test_a_table_without_them_is_answered_as_before(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    add(catalog, root, "k=1", None)
    handlers = TableOperations(catalog).handlers
    asked = {"namespace": "s", "name": "t"}
    assert "descriptors" not in handlers["tables/load"](Request(asked))  # type: ignore[operator]
    add(catalog, root, "k=2", PIPED)
    (found,) = handlers["tables/load"](Request(asked))["descriptors"]  # type: ignore[index]
    assert (found["number"], found["format"], found["options"]) == (1, "csv", {"sep": "|"})


def test_the_metastore_keeps_it_until_the_partition_is_overwritten(metastore: FakeMetastore, tmp_path: Path) -> None:
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        root = external(catalog, tmp_path)
        add(catalog, root, "k=1", PIPED)
        add(catalog, root, "k=2", None)
        assert list(catalog.publish("s.t"))
        (two,) = metastore.partitions_by_names("s", "t", ["k=2"])
        table = metastore.get_table("s", "t")
        metastore.alter_partitions("s", "t", [replace(two, storage=table.storage, columns=table.columns)])
        catalog.alterations.alter("s.t", [AddColumn(("y",), "string")])
        assert catalog.deliver().pending == 0

        def there() -> dict[str, tuple[str | None, list[str]]]:
            found = metastore.partitions_by_names("s", "t", ["k=1", "k=2"])
            return {p.values[0]: (p.storage and p.storage.serde, [c.name for c in p.columns]) for p in found}

        assert there() == {"1": ("s", ["x"]), "2": (table.storage.serde, ["x", "y"])}
        insert(catalog, "k=1", "k=2", kind=WriteKind.OVERWRITE_PARTITIONS)
        assert catalog.deliver().pending == 0
        serde = table.storage.serde
        assert there() == {"1": (serde, ["x", "y"]), "2": (None, [])}


@pytest.mark.parametrize("statement", ["truncate", "overwrite"])
def test_an_empty_one_becomes_ours_too(catalog: Catalog, tmp_path: Path, statement: str) -> None:
    root = external(catalog, tmp_path)
    (root / "k=1").mkdir(parents=True)
    catalog.alter_table_properties("s.t", {"external.table.purge": "true"})
    commit(catalog, AddPartition("k=1", (), descriptor=ORC))
    table = catalog.load_table("s.t")
    if statement == "truncate":
        catalog.writes.delete(table.table_id, table.version, equals("k", "1"), truncate=True)
    else:
        begun = begin(catalog, WriteKind.OVERWRITE_PARTITIONS)
        catalog.writes.transactions.commit(begun.transaction_id, recorded=0, static_partition="k=1")
    assert described(catalog) == {}
    assert indexed(catalog) == {"k=1": {}}
    insert(catalog, "k=1")
