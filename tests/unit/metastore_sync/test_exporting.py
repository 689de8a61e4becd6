"""Export: to an empty metastore, again, over what is there; as HiveQL; and what is left in the own one afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.cli.main import main
from catalog_ext.conf.resolved import Settings
from catalog_ext.identity.record import METASTORE, METASTORE_ID
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError, MetastoreUnavailableError
from catalog_ext.metastore.hive.mapping.conversion import to_hive, to_hive_database
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, DataFile, Namespace, TableDefinition, TableType
from catalog_ext.sync.exporting import is_own
from catalog_ext.sync.hive_statements import quoted
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.kit.repair_cases import write
from tests.unit.metastore_sync.test_publishing import everything
from tests.unit.tables.test_table_ddl import managed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.sync.exporting import ExportEntry

URIS = "thrift://other:9083"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    fake = FakeMetastore()
    monkeypatch.setattr(Settings, "connect_metastore", serving(lambda _: fake))
    return fake


@pytest.fixture
def other(own: FakeMetastore, monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    """The metastore to which is exported."""
    fake = FakeMetastore()
    monkeypatch.setattr(Settings, "connect_metastore", serving(lambda uris: fake if uris == URIS else own))
    return fake


@pytest.fixture
def catalog(tmp_path: Path, own: FakeMetastore) -> Iterator[Catalog]:
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.create_namespace("s", properties={"owner": "me"})
        yield catalog


def fill(catalog: Catalog) -> None:
    managed(catalog)
    managed(catalog, "plain", partition_columns=())
    managed(catalog, "odd", columns=(Column("x", "variant"),))
    table = catalog.load_table("s.t")
    names = [f"ds=2025-01-{day:02}" for day in range(1, 29)]
    added = [AddPartition(name, (DataFile("f", 7, 1),)) for name in names]
    catalog.index.commits.apply_changes(table.table_id, added, operation="repair", deliver=True)
    plain = catalog.load_table("s.plain")
    added = [AddPartition("", (DataFile("f", 9, 1, rows=3),))]
    catalog.index.commits.apply_changes(plain.table_id, added, operation="repair", deliver=True)
    assert catalog.deliver().pending == 0


def exported(catalog: Catalog, pattern: str | None = None, *, dry_run: bool = False) -> dict[str, ExportEntry]:
    return {e.table + e.partition: e for e in catalog.export(pattern, to=URIS, dry_run=dry_run)}


def test_an_empty_metastore_gets_what_the_own_one_has(
    catalog: Catalog, own: FakeMetastore, other: FakeMetastore
) -> None:
    fill(catalog)
    assert exported(catalog, dry_run=True)["s.t"].sent == 28
    assert other.list_databases() == []
    entries = exported(catalog)
    assert {name: (e.action, e.sent) for name, e in entries.items()} == {
        "s.odd": ("left out", 0), "s.plain": ("made", 0), "s.t": ("made", 28),
    }  # fmt: skip
    assert "VARIANT" in (entries["s.odd"].reason or "")
    assert everything(other) == everything(own)

    changes = {c for c in other.calls if c.startswith(("create", "alter", "drop", "add"))}
    before = {c: other.calls[c] for c in changes}
    again = exported(catalog)
    assert {e.action for e in again.values()} == {"in sync", "left out"}
    assert {c: other.calls[c] for c in changes if c != "create_database"} == {
        c: n for c, n in before.items() if c != "create_database"
    }


def test_what_differs_is_sent_and_what_only_that_metastore_has_stays(catalog: Catalog, other: FakeMetastore) -> None:
    fill(catalog)
    exported(catalog)
    (first,) = other.partitions_by_names("s", "t", ["ds=2025-01-01"])
    other.alter_partitions("s", "t", [replace(first, location="s3a://b/elsewhere")])
    other.drop_partitions("s", "t", ["ds=2025-01-02"])
    other.add_partitions("s", "t", [HivePartition(("2030-01-01",), "s3a://b/new")])
    catalog.alter_table_properties("s.t", {"p": "1"})
    for dry_run in (True, False):
        entry = exported(catalog, "s.t", dry_run=dry_run)["s.t"]
        assert (entry.action, entry.sent, entry.kept) == ("altered", 2, 1)
    assert other.get_table("s", "t").parameters["p"] == "1"
    assert len(list(other.partition_names("s", "t"))) == 29


def test_another_table_of_the_name_is_refused_and_the_others_go_on(catalog: Catalog, other: FakeMetastore) -> None:
    fill(catalog)
    exported(catalog, "s.plain")
    plain = other.get_table("s", "plain")
    other.alter_table(replace(plain, location="s3a://b/elsewhere"))
    entries = exported(catalog)
    assert entries["s.plain"].action == "refused"
    assert "another table of the name" in (entries["s.plain"].reason or "")
    assert entries["s.t"].action == "made"


def test_partitions_that_no_metastore_can_hold_are_listed(catalog: Catalog, other: FakeMetastore) -> None:
    managed(catalog, partition_columns=(Column("k", "string"),))
    table = catalog.load_table("s.t")
    added = [AddPartition("k=a", ()), AddPartition("k=", (), in_metastore=False)]
    catalog.index.commits.apply_changes(table.table_id, added, operation="repair", deliver=True)
    entries = exported(catalog)
    assert (entries["s.t"].action, entries["s.t"].sent) == ("made", 1)
    assert (entries["s.tk="].action, "empty" in (entries["s.tk="].reason or "")) == ("left out", True)


def test_what_cannot_be(catalog: Catalog, own: FakeMetastore, other: FakeMetastore) -> None:
    fill(catalog)
    with pytest.raises(InvalidInputError, match="no pattern"):
        catalog.export("a.b.c", to=URIS)
    own.create_database(to_hive_database(Namespace("default", properties={"catalog-ext.metastore-id": "m1"})))
    other.create_database(to_hive_database(Namespace("default", properties={"catalog-ext.metastore-id": "m1"})))
    catalog.index.properties.replace({METASTORE_ID: "m1"})
    with pytest.raises(InvalidConfigurationError, match="the index's own metastore"):
        exported(catalog)
    catalog.index.properties.replace({}, removed=[METASTORE_ID])
    other.down = True
    with pytest.raises(MetastoreUnavailableError):
        exported(catalog)


@pytest.mark.parametrize("to", ["thrift://FAKE:9083", "other:9083,fake"])
def test_the_own_metastore_is_known_by_its_address_before_it_was_met(
    catalog: Catalog, other: FakeMetastore, to: str
) -> None:
    fill(catalog)
    catalog.index.properties.replace({}, removed=[METASTORE_ID])
    with pytest.raises(InvalidConfigurationError, match="the index's own metastore"):
        list(catalog.export(to=to))
    assert not other.calls


def test_another_name_of_the_same_server_and_the_embedded_one(tmp_path: Path) -> None:
    there = FakeMetastore()
    recorded = {METASTORE: "thrift://localhost:9083"}
    assert is_own(recorded, "thrift://127.0.0.1", there)
    assert not is_own(recorded, "thrift://127.0.0.1:9084", there)
    (tmp_path / "metastore").mkdir()
    state = {"id": "x", "pid": 1, "thrift_port": 4711, "lease_port": 2}
    embedded = {METASTORE: f"embedded:{tmp_path}", METASTORE_ID: "the folder's"}
    assert not is_own(embedded, "thrift://localhost:4711", there)
    (tmp_path / "metastore" / "server.json").write_text(json.dumps(state))
    assert is_own(embedded, "thrift://localhost:4711", there)
    assert not is_own({}, "thrift://localhost:4711", there)


def test_a_bucketed_table_is_made_without_buckets_and_that_is_said(
    catalog: Catalog, own: FakeMetastore, other: FakeMetastore
) -> None:
    managed(catalog)
    there = own.get_table("s", "t")
    own._tables["s", "t"] = replace(there, storage=replace(there.storage, bucket_columns=("x",), bucket_count=4))
    catalog.unregister_table("s.t")
    catalog.import_table("s.t")
    entry = exported(catalog)["s.t"]
    assert (entry.action, "x into 4 buckets" in (entry.reason or "")) == ("made", True)
    assert "bucketed-by" not in other.get_table("s", "t").parameters


def test_literals() -> None:
    assert quoted("a'b\"c\\d;e$f\ng") == "'a\\u0027b\\u0022c\\u005Cd\\u003Be\\u0024f\\u000Ag'"


def test_statements(catalog: Catalog) -> None:
    fill(catalog)
    statements = list(catalog.export_statements())
    assert statements[0].startswith("-- s.odd is left out: Hive has no type for column")
    assert statements[1] == "CREATE DATABASE IF NOT EXISTS `s`\nWITH DBPROPERTIES ('owner'='me')"
    (create,) = (s for s in statements if s.startswith("CREATE") and "`s`.`t`" in s)
    assert "PARTITIONED BY (`ds` date" in create
    (add,) = (s for s in statements if s.startswith("ALTER TABLE"))
    assert add.count("PARTITION (`ds`=") == 28


def test_partitions_leave_with_their_descriptors(catalog: Catalog, own: FakeMetastore, other: FakeMetastore) -> None:
    fill(catalog)
    table = catalog.load_table("s.t")
    piped = replace(own.get_table("s", "t").storage, serde_parameters={"field.delim": "|"})
    hive = {
        "serde": piped.serde, "input_format": piped.input_format, "output_format": piped.output_format,
        "serde_parameters": {"field.delim": "|"}, "columns": [["x", "int", None]],
    }  # fmt: skip
    descriptor = PartitionDescriptor("csv", {"sep": "|"}, (Column("x", "int"),), hive)
    name = "ds=2030-01-01"
    catalog.index.commits.apply_changes(
        table.table_id, [AddPartition(name, (), descriptor=descriptor)], operation="x", deliver=False
    )
    *_, use, of_files, of_serde, of_columns = catalog.export_statements("s.t")
    assert (use, of_files[:23]) == ("USE `s`", "ALTER TABLE `t` PARTITI")
    assert of_files.endswith(f"OUTPUTFORMAT '{piped.output_format}' SERDE '{piped.serde}'")
    assert of_serde.endswith("SET SERDEPROPERTIES ('field.delim'='|')")
    assert of_columns.endswith("REPLACE COLUMNS (`x` int)")
    list(catalog.export("s.t", to=URIS))
    (there,) = [p for p in other.partitions("s", "t") if p.values == ("2030-01-01",)]
    assert there.storage == piped
    assert [c.name for c in there.columns] == ["x"]
    (again,) = catalog.export("s.t", to=URIS)
    assert again.action == "in sync"


def test_a_partition_of_null_is_a_comment(catalog: Catalog) -> None:
    managed(catalog, partition_columns=(Column("k", "string"),))
    table = catalog.load_table("s.t")
    added = [AddPartition("k=__HIVE_DEFAULT_PARTITION__", ()), AddPartition("k=a%27b%3B", ())]
    catalog.index.commits.apply_changes(table.table_id, added, operation="repair", deliver=True)
    *_, null, add = catalog.export_statements("s.t")
    assert null.startswith("-- the partition k=__HIVE_DEFAULT_PARTITION__ of s.t is left out: no statement of Hive")
    assert "PARTITION (`k`='a\\u0027b\\u003B') LOCATION" in add


def test_the_command(
    catalog: Catalog, other: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    fill(catalog)
    monkeypatch.chdir(tmp_path)
    options = ["--index", "index.db", "--metastore", "none", "export"]
    assert main([*options, "--to", URIS, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(r["table"], r["action"]) for r in rows] == [("s.odd", "left out"), ("s.plain", "made"), ("s.t", "made")]
    other.alter_table(replace(other.get_table("s", "plain"), location="s3a://b/x"))
    assert main([*options, "s.pl*", "--to", URIS]) == 1
    assert "refused" in capsys.readouterr().out
    assert main([*options, "s.t", "--sql"]) == 0
    assert capsys.readouterr().out.count(";\n") == 3
    for wrong in ([], ["--to", URIS, "--sql"], ["--sql", "--json"]):
        assert main([*options, *wrong]) == 2
    assert "--sql prints statements, and nothing else" in capsys.readouterr().err
    for way in (["--sql"], ["--to", URIS]):
        assert main([*options, "s.xyz*", *way]) == 1
        reported = capsys.readouterr()
        assert (reported.out, "The index has no table that matches 's.xyz*'" in reported.err) == ("", True)


# What stays in the own metastore after a table has left


DOCUMENTED = {"numFiles", "totalSize", "numRows", "transient_lastDdlTime", "numFilesErasureCoded"}
"""What docs/spec/metastore.md says that a commit sets of a partition."""


def test_unregister_leaves_nothing_of_ours_but_documented_parameters(
    catalog: Catalog, own: FakeMetastore, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    write(root, "k=1/1.csv", "k=2/1.csv")
    definition = TableDefinition(
        TableIdentifier.of("s", "t"), TableType.EXTERNAL, "csv", f"file://{root}", (Column("x", "int"),),
        (Column("k", "int"),), properties={"owner-team": "data"},
    )  # fmt: skip
    table = to_hive(definition)
    theirs = {k: v for k, v in table.parameters.items() if not k.startswith("spark.")}
    theirs |= {"spark.sql.statistics.totalSize": "9", "last_modified_by": "hive"}
    own.create_table(replace(table, parameters=theirs))
    hives = {"numFiles": "1", "numRows": "2", "COLUMN_STATS_ACCURATE": "{}", "rawDataSize": "4", "theirs": "stays"}
    own.add_partitions("s", "t", [HivePartition((k,), f"file://{root}/k={k}", hives) for k in "12"])
    before, partitions = own.get_table("s", "t"), {p.values: p for p in own.partitions("s", "t")}

    catalog.import_table("s.t")
    assert (own.get_table("s", "t"), {p.values: p for p in own.partitions("s", "t")}) == (before, partitions)

    write(root, "k=1/2.csv", "k=3/1.csv")
    catalog.repair_partitions("s.t")
    catalog.alter_table_properties("s.t", {"p": "1"})
    catalog.alter_table_properties("s.t", {}, ["p"])
    assert catalog.deliver().pending == 0
    calls = own.calls.copy()
    catalog.unregister_table("s.t")
    assert own.calls == calls, "it is not even asked"
    assert catalog.index.outbox.pending() == []

    after = own.get_table("s", "t")
    taken_away = {"spark.sql.statistics.totalSize"}
    assert after == replace(before, parameters={k: v for k, v in before.parameters.items() if k not in taken_away})
    left = {p.values: p for p in own.partitions("s", "t")}
    assert left["2",] == partitions["2",], "no commit has touched it"
    one = left["1",]
    assert set(one.parameters) - set(hives) <= DOCUMENTED
    assert set(hives) - set(one.parameters) == {"numRows", "COLUMN_STATS_ACCURATE", "rawDataSize"}
    assert one.parameters["theirs"] == "stays"
    assert set(left["3",].parameters) <= DOCUMENTED
