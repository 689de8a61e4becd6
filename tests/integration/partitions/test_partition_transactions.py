"""Partition commands on real servers: each database, SeaweedFS, HDFS, and a Hive Metastore that follows."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import DataDeletion, DropPartitions
from catalog_ext.metastore.errors import (
    InvalidValueError,
    PartitionAlreadyExistsError,
    StorageAccessDeniedError,
    VersionExpiredError,
)
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.read.partition_groups import WantedGroups
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, ColumnStatistics, DataFile, TableDefinition, TableType
from tests.faults.commands import (
    BEFORE,
    COMMANDS,
    INCOMING,
    LOADING,
    MOVING,
    OTHER,
    THEIRS,
    attempt,
    check,
    incoming,
    prepare,
)
from tests.integration.transactions.test_transactions_s3 import s3_stand
from tests.kit.index_cases import empty_index
from tests.kit.repair_cases import local_catalog, write
from tests.kit.write_cases import Stand, definition
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import equals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.thrift.connect import MetastoreClient
    from tests.servers.hdfs import HdfsServer
    from tests.servers.hive import HiveMetastore

__all__ = ["s3_stand"]
MANY = 10_000


def drop_tables(stand: Stand) -> None:
    for name in ("t", "o"):
        stand.index.tables.drop(TableIdentifier("s", name), deliver=False)


def test_every_command_on_each_database(index: Index, tmp_path: Path) -> None:
    for name, command in COMMANDS.items():
        stand = Stand(index)
        prepare(stand, str(tmp_path / name), name)
        command.run(stand)
        check(stand, command, "success", point=name)
        drop_tables(stand)


def test_a_drop_of_many_partitions_is_some_statements(index: Index, tmp_path: Path) -> None:
    stand = Stand(index)
    table = stand.create(definition(tmp_path / "many", external=True))
    adds = [AddPartition(f"k={n}", (DataFile("a.csv", 1, 1),)) for n in range(MANY)]
    index.commits.apply_changes(table.table_id, adds, operation="repair", deliver=False)
    before = index.query_count
    asked = DropPartitions(equals("k", "9990", "<"), DataDeletion.NONE)
    outcome = stand.engine.command(stand.table(), asked, "DROP PARTITION")
    assert outcome.partitions_removed == 9990
    assert index.query_count - before <= 40 + 2 * MANY / 500
    assert stand.table().totals.partitions == 10
    index.tables.drop(table.identifier, deliver=False)


def test_counts_and_other_types_on_each_database(index: Index, tmp_path: Path) -> None:
    stand = Stand(index)
    table = stand.create(definition(tmp_path / "t", {"k": "string"}))
    stand.write({"k=9": "1\n2\n", "k=10": "3\n", "k=x": "4\n"})
    files = index.files.plan(stand.table(), None).read_all().to_pylist()
    found = {
        f["partition"]: [DataFile(f["path"], f["size"], f["modified_ms"], 7, {"x": ColumnStatistics("1")})]
        for f in files
    }
    for _ in range(2):
        assert index.file_statistics.put(stand.table(), found, deliver=False).files == 3
    assert stand.table().totals.rows == 21
    with pytest.raises(InvalidValueError, match="'k=x'"):
        index.alterations.change_key_types(stand.table(), {"k": "int"}, deliver=False)
    stand.engine.delete(stand.table(), equals("k", "x"), truncate=False)
    old = stand.table()
    index.alterations.change_key_types(old, {"k": "int"}, deliver=False)
    partitions = index.partitions.all(stand.table(), None).read_all().column("partition").to_pylist()
    assert partitions == ["k=9", "k=10"]
    with pytest.raises(VersionExpiredError):
        index.files.plan(old, None).read_all()
    index.tables.drop(table.identifier, deliver=False)


def test_counts_of_changed_files_are_refused_on_each_database(index: Index, tmp_path: Path) -> None:
    """Files of one name in two partitions, and a blank at a name's end; what is null is no look at the columns."""
    stand = Stand(index)
    table = stand.create(definition(tmp_path / "t", {"k": "string", "r": "string"}))
    names = ("a.csv", "a.csv ", "b.csv")
    adds = [AddPartition(f"k=1/r={r}", tuple(DataFile(name, 5, 70) for name in names)) for r in "xy"]
    adds += [AddPartition("k=1/r=z", (DataFile("a.csv", 5, 70),)), AddPartition("k=2/r=z", (DataFile("a.csv", 5, 70),))]
    index.commits.apply_changes(table.table_id, adds, operation="repair", deliver=False)
    measured = DataFile("a.csv", 5, 70, 1, {"x": ColumnStatistics("1")})
    index.file_statistics.put(stand.table(), {"k=1/r=x": [measured]}, deliver=False)
    found = {
        "k=1/r=x": [DataFile("a.csv", 5, 70, 2), DataFile("a.csv ", 5, 71, 2), DataFile("b.csv", 6, 70, 2)],
        "k=1/r=y": [DataFile("a.csv", 5, 70, 3), DataFile("c.csv", 5, 70, 3)],
        "k=1/r=z": [DataFile("a.csv", 5, 70, 4)],
        "k=3/r=z": [DataFile("a.csv", 5, 70, 3)],
    }
    assert index.file_statistics.put(stand.table(), found, deliver=False).files == 3
    planned = index.files.plan(stand.table(), None, bounds=("x",)).read_all().to_pylist()
    assert {(f["partition"], f["path"]): f["rows"] for f in planned if f["rows"] is not None} == {
        ("k=1/r=x", "a.csv"): 2, ("k=1/r=y", "a.csv"): 3, ("k=1/r=z", "a.csv"): 4,
    }  # fmt: skip
    assert [f["partition"] for f in planned if f["bounds_0"] is not None] == ["k=1/r=x"]
    assert stand.table().totals.rows is None
    first = stand.table().definition.keys[:1]
    for wanted, known in (
        (WantedGroups.LEAST, [True]),
        (WantedGroups.GREATEST, [False]),
        (WantedGroups.PRESENCE, [True, False]),
    ):
        groups = index.partition_groups.groups(stand.table(), None, first, wanted).read_all().to_pylist()
        rows = [g["rows"] for g in sorted(groups, key=lambda g: g["partition"]) if g["partitions"]]
        assert [n is not None and n > 0 for n in rows] == known, wanted
    index.tables.drop(table.identifier, deliver=False)


@pytest.mark.parametrize("name", [*MOVING, "drop", "add"])
def test_commands_on_s3(s3_stand: tuple[Stand, str], name: str) -> None:
    stand, location = s3_stand
    drop_tables_of_fixture(stand)
    prepare(stand, location)
    command = COMMANDS[name]
    with armed("promote.file", "storage") if name in MOVING else armed("apply.before", "storage"):
        assert attempt(stand, command) == "unknown"
    assert (stand.rows(), stand.rows(OTHER)) == (BEFORE, THEIRS)
    assert stand.engine.recover(older_than_s=0).failed == ()
    check_on_s3(stand, name)


def drop_tables_of_fixture(stand: Stand) -> None:
    stand.index.tables.drop(TableIdentifier("s", "t"), deliver=False)


def check_on_s3(stand: Stand, name: str) -> None:
    command = COMMANDS[name]
    assert (stand.rows(), stand.rows(OTHER)) == (command.after, command.theirs)
    filled = {k: rows for k, rows in command.after.items() if rows}
    assert (stand.listed(), stand.listed(OTHER)) == (filled, command.theirs)
    assert (stand.strays(), stand.strays(OTHER)) == ([], [])
    assert incoming(stand) == ({} if command.takes else INCOMING)


@pytest.mark.parametrize("name", LOADING)
def test_files_on_s3_that_cannot_all_be_loaded_stay_where_they_are(s3_stand: tuple[Stand, str], name: str) -> None:
    stand, location = s3_stand
    drop_tables_of_fixture(stand)
    prepare(stand, location)

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    with armed("promote.after", refuse):
        assert attempt(stand, COMMANDS[name]) == "failure"
    check(stand, COMMANDS[name], "failure", point="promote.after")


def test_a_rename_on_s3_that_is_undone_leaves_the_files_where_they_were(s3_stand: tuple[Stand, str]) -> None:
    stand, location = s3_stand
    drop_tables_of_fixture(stand)
    prepare(stand, location)

    def take(_: str) -> None:
        index = stand.index
        index.commits.apply_changes(
            stand.table().table_id, [AddPartition("k=3", ())], operation="repair", deliver=False
        )

    with armed("apply.before", take), pytest.raises(PartitionAlreadyExistsError):
        COMMANDS["rename"].run(stand)
    assert stand.rows() == {**BEFORE, "k=3": ""}
    assert (stand.listed(), stand.strays()) == (BEFORE, [])


@pytest.mark.parametrize("name", [*MOVING, "drop", "add"])
def test_commands_on_hdfs(tmp_path: Path, hdfs_server: HdfsServer, name: str) -> None:
    (tmp_path / "index.db").write_bytes(empty_index())
    with Index.open(str(tmp_path / "index.db")) as index:
        stand = Stand(index)
        prepare(stand, f"{hdfs_server.uri}/{secrets.token_hex(4)}/t")
        with armed("apply.before", "storage"):
            assert attempt(stand, COMMANDS[name]) == "unknown"
        assert stand.engine.recover(older_than_s=0).failed == ()
        check(stand, COMMANDS[name], "success", point=name)


class Hive:
    """A catalog that a metastore follows, and what that says."""

    def __init__(self, catalog: Catalog, client: MetastoreClient, namespace: str) -> None:
        self.catalog = catalog
        self.client = client
        self.namespace = namespace

    def create(self, name: str, keys: dict[str, str]) -> Path:
        columns = tuple(Column(key, type_) for key, type_ in keys.items())
        made = TableDefinition(
            TableIdentifier(self.namespace, name), TableType.MANAGED, "csv", "", (Column("x", "int"),), columns
        )
        return Path(self.catalog.create_table(made).definition.location.removeprefix("file://"))

    def partitions(self, name: str) -> dict[str, tuple[str, dict[str, str]]]:
        """Location (its path) and statistics by the metastore's names of partitions."""
        found = self.client.partitions(self.namespace, name)
        table = self.client.get_table(self.namespace, name)
        keys = [column.name for column in table.partition_columns]
        wanted = ("numFiles", "totalSize", "numRows")
        return {
            "/".join(f"{k}={v}" for k, v in zip(keys, p.values, strict=True)): (
                p.location.removeprefix("file:").replace("///", "/"),
                {key: text for key, text in p.parameters.items() if key in wanted},
            )
            for p in found
        }


@pytest.fixture(scope="module")
def hive(hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    folder = tmp_path_factory.mktemp("partition_commands")
    client = connect(hive_metastore.uri)
    with local_catalog(folder, metastore=hive_metastore.uri) as catalog:
        namespace = f"p_{secrets.token_hex(3)}"
        catalog.create_namespace(namespace)
        yield Hive(catalog, client, namespace)
    client.close()


def test_the_metastore_follows_every_command(hive: Hive, tmp_path: Path) -> None:
    commands, table, other = hive.catalog.partition_commands, f"{hive.namespace}.t", f"{hive.namespace}.o"
    keys = {"k": "string", "r": "string"}
    root, theirs = hive.create("t", keys), hive.create("o", keys)
    insert(hive.catalog, "k=1/r=a", "k=2/r=a", table=table)
    insert(hive.catalog, "k=5/r=a", "k=6/r=a", table=other)
    write(tmp_path / "own", "a.csv", "b.csv")
    one = {"numFiles": "1", "totalSize": "2", "numRows": "1"}
    two = {"numFiles": "2", "totalSize": "2"}
    outcome = commands.add(table, [({"k": "3", "r": "x/y"}, f"file://{tmp_path}/own")])
    assert outcome.pending_deliveries == 0
    assert hive.partitions("t") == {
        "k=1/r=a": (f"{root}/k=1/r=a", one), "k=2/r=a": (f"{root}/k=2/r=a", one),
        "k=3/r=x/y": (f"{tmp_path}/own", two),
    }  # fmt: skip
    commands.rename(table, {"k": "1", "r": "a"}, {"k": "7", "r": "a"})
    commands.drop(table, [equals("k", "2")])
    commands.relocate(table, {"k": "3", "r": "x/y"}, "k=3/r=x%2Fy")
    commands.exchange(table, other, [{"k": "5"}])
    none = {"numFiles": "0", "totalSize": "0", "numRows": "0"}
    assert hive.partitions("t") == {
        "k=3/r=x/y": (f"{root}/k=3/r=x%2Fy", none), "k=5/r=a": (f"{root}/k=5/r=a", one),
        "k=7/r=a": (f"{root}/k=7/r=a", one),
    }  # fmt: skip
    assert hive.partitions("o") == {"k=6/r=a": (f"{theirs}/k=6/r=a", one)}
    assert (tmp_path / "own" / "a.csv").exists()


def test_the_metastore_learns_counts_and_other_types(hive: Hive) -> None:
    table = f"{hive.namespace}.counted"
    root = hive.create("counted", {"k": "string"})
    write(root, "k=1/a.csv", "k=10/b.csv")
    hive.catalog.repair_partitions(table)
    loaded = hive.catalog.load_table(table)
    files = hive.catalog.files(table).to_pylist()
    found = {f["partition"]: [DataFile(f["path"], f["size"], f["modified_ms"], 5)] for f in files}
    assert hive.catalog.statistics.put(loaded, found, None).pending_deliveries == 0
    counted: dict[str, Any] = {"numFiles": "1", "totalSize": "1", "numRows": "5"}
    assert hive.partitions("counted") == {
        "k=1": (f"{root}/k=1", counted), "k=10": (f"{root}/k=10", counted),
    }  # fmt: skip
    hive.catalog.statistics.put(loaded, {}, None)
    hive.catalog.partition_maintenance.set_partition_columns(table, types={"k": "int"})
    (key,) = hive.client.get_table(hive.namespace, "counted").partition_columns
    assert (key.name, key.type, hive.catalog.metastore_state()) == ("k", "int", "in sync")
    assert sorted(hive.partitions("counted")) == ["k=1", "k=10"]
