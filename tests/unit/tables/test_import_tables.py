"""Importing a database or a pattern: what is taken, there already or refused and why; and partitions of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import catalog_ext
from catalog_ext.cli.main import main
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidInputError,
    MetastoreUnavailableError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.hive.mapping.conversion import to_hive, to_hive_database
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, TableDefinition, TableType
from catalog_ext.notebook import cell_progress
from tests.kit.repair_cases import indexed, write
from tests.kit.write_cases import DYNAMIC, Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore

ORC = "org.apache.hadoop.hive.ql.io.orc"


@pytest.fixture
def catalog(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        yield catalog


def make(metastore: FakeMetastore, root: Path, name: str, namespace: str = "s", format_: str = "csv") -> HiveTable:
    """A Hive table with the partition ``k=1``, of one file."""
    write(root / name, "k=1/1.csv")
    definition = TableDefinition(
        TableIdentifier.of(namespace, name), TableType.EXTERNAL, format_, f"file://{root}/{name}",
        (Column("x", "int"), Column("y", "string")), (Column("k", "int"),),
    )  # fmt: skip
    table = to_hive(definition)
    parameters = {k: v for k, v in table.parameters.items() if not k.startswith("spark.")}
    table = replace(table, parameters=parameters)
    if namespace not in metastore.list_databases():
        metastore.create_database(to_hive_database(Namespace(namespace)))
    metastore.create_table(table)
    metastore.add_partitions(namespace, name, [HivePartition(("1",), f"{table.location}/k=1")])
    return table


def set_storage(metastore: FakeMetastore, name: str, **changes: object) -> None:
    table = metastore.get_table("s", name)
    metastore.alter_table(replace(table, storage=replace(table.storage, **changes)))  # type: ignore[arg-type]


def fill(metastore: FakeMetastore, root: Path) -> None:
    for name in ("acid", "avro", "bucketed", "good", "handler", "skewed", "skewed_dirs", "there"):
        make(metastore, root, name)
    for name, parameters in (("acid", {"transactional": "true"}), ("handler", {"storage_handler": "org.HBase"})):
        table = metastore.get_table("s", name)
        metastore.alter_table(replace(table, parameters={**table.parameters, **parameters}))
    set_storage(metastore, "avro", serde="org.apache.hadoop.hive.serde2.avro.AvroSerDe")
    set_storage(metastore, "bucketed", bucket_columns=("x",), bucket_count=2)
    set_storage(metastore, "skewed", skewed_columns=("x",))
    set_storage(metastore, "skewed_dirs", skewed_columns=("x",), skewed_directories=True)
    metastore.create_table(HiveTable("s", "v", VIRTUAL_VIEW, "", (), (), HiveStorage("", "", "")))
    make(metastore, root, "other", "other")


EXPECTED = {
    "s.acid": ("refused", "transactional (ACID)"),
    "s.avro": ("refused", "AvroSerDe"),
    "s.bucketed": ("taken", "x into 2 buckets"),
    "s.good": ("taken", ""),
    "s.handler": ("refused", "storage handler org.HBase"),
    "s.skewed": ("taken", ""),
    "s.skewed_dirs": ("refused", "SKEWED BY"),
    "s.there": ("there already", ""),
    "s.v": ("refused", "it is a view"),
}


def test_a_database(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    fill(metastore, tmp_path)
    catalog.import_table("s.there")
    before = metastore.calls.copy()
    entries = list(catalog.import_tables("s"))
    assert {e.table: e.action for e in entries} == {name: action for name, (action, _) in EXPECTED.items()}
    assert [e.table for e in entries] == sorted(EXPECTED)
    for entry in entries:
        assert EXPECTED[entry.table][1] in (entry.reason or "")
        assert (entry.code is not None) is (entry.action == "refused")
        assert (entry.partitions, entry.files) == ((0, 0) if entry.code else (1, 1))
    assert set(catalog.list_tables("s")) == {"bucketed", "good", "skewed", "there"}
    assert not {call for call in metastore.calls - before if call.startswith(("create", "alter", "drop", "add"))}
    assert list(catalog.drift()) == [d for d in catalog.drift() if d.index == "missing"], "what was taken is in sync"


def test_a_cell_shows_how_many_of_them_are_there(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(cell_progress, "_shower", lambda: lambda data, _: shown.append(data["text/plain"]))
    monkeypatch.setattr(cell_progress, "AFTER_S", 0.0)
    monkeypatch.setattr(cell_progress, "EVERY_S", 0.0)
    for name in ("a", "b"):
        make(metastore, tmp_path, name)
    assert len(list(catalog.import_tables("s"))) == 2
    ours = [words for words in shown if words.startswith("Importing tables")]
    assert ours[-2:] == ["Importing tables: 1 of 2, the last s.a", "Importing tables: 2 of 2, the last s.b"]
    assert shown[-1] == ""


def test_patterns(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    fill(metastore, tmp_path)

    def taken(pattern: str) -> list[str]:
        return [e.table for e in catalog.import_tables(pattern, {"p": "1"}, jobs=2) if e.action == "taken"]

    with pytest.raises(TableNotFoundError, match=r"no table that matches 's\.nothing\*'"):
        taken("s.nothing*")
    assert taken("lake.S.go?d") == ["s.good"]
    assert taken("o*.*") == ["other.other"]
    assert catalog.load_table("other.other").definition.properties["p"] == "1"
    for pattern in ("", "a.b.c", "s."):
        with pytest.raises(InvalidInputError, match="no pattern"):
            catalog.import_tables(pattern)
    with pytest.raises(NamespaceNotFoundError):
        catalog.import_tables("nosuch.*")


def test_a_table_of_the_name_at_another_location_is_refused(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    make(metastore, tmp_path, "t")
    catalog.import_table("s.t")
    table = metastore.get_table("s", "t")
    metastore.alter_table(replace(table, location=f"file://{tmp_path}/x"))
    (entry,) = catalog.import_tables("s.t")
    assert (entry.action, entry.code) == ("refused", "CATALOG_EXT_TABLE_ALREADY_EXISTS")


def test_a_metastore_that_dies_ends_it(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        make(metastore, tmp_path, name)
    entries = catalog.import_tables("s.*", jobs=1)
    get_table = metastore.get_table

    def dies(database: str, name: str) -> HiveTable:
        metastore.down = metastore.down or name == "b"
        return get_table(database, name)

    monkeypatch.setattr(metastore, "get_table", dies)
    assert next(entries).table == "s.a"
    with pytest.raises(MetastoreUnavailableError):
        next(entries)
    assert catalog.list_tables("s") == ["a"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"serde_parameters": {"field.delim": ";", "line.delim": "!"}}, "its SerDe has the setting line.delim='!'"),
        ({"bucket_columns": ("x",), "bucket_count": 2}, "it is bucketed by x, which its table is not"),
        ({"serde": "org.Own"}, "its storage is org.Own over"),
        ({"skewed_columns": ("x",), "skewed_directories": True}, "STORED AS DIRECTORIES"),
    ],
)  # fmt: skip
def test_partition_with_its_own_storage_format_is_read_correctly(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    table = make(metastore, tmp_path, "t")
    write(tmp_path / "t", "k=2/1.csv")
    storage = replace(table.storage, **changes)  # type: ignore[arg-type]
    same = HivePartition(("2",), f"{table.location}/k=2", storage=table.storage, columns=table.columns)
    metastore.add_partitions("s", "t", [same])
    metastore.alter_partitions("s", "t", [replace(same, storage=storage)])
    with pytest.raises(UnsupportedFormatError, match=r"of its partition 'k=2' ") as refused:
        catalog.import_table("s.t")
    assert reason in refused.value.message
    assert catalog.list_tables("s") == []
    metastore.alter_partitions("s", "t", [same])
    catalog.import_table("s.t")
    assert indexed(catalog) == {"k=1": {"1.csv": 1}, "k=2": {"1.csv": 1}}


@pytest.mark.parametrize(
    ("changes", "descriptor"),
    [
        ({"serde_parameters": {"field.delim": ";"}}, ("csv", ";")),
        ({"serde": f"{ORC}.OrcSerde", "input_format": f"{ORC}.OrcInputFormat"}, ("orc", None)),
    ],
)
def test_a_partition_is_imported_with_its_descriptor(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, changes: dict[str, object],
    descriptor: tuple[str, str | None],
) -> None:  # fmt: skip
    table = make(metastore, tmp_path, "t")
    write(tmp_path / "t", "k=2/1.csv", "k=3/1.csv")
    own = replace(table.storage, **changes)  # type: ignore[arg-type]
    two, three = (HivePartition((k,), f"{table.location}/k={k}", storage=own, columns=table.columns) for k in "23")
    metastore.add_partitions("s", "t", [two, three])
    catalog.import_table("s.t")
    imported = catalog.load_table("s.t")
    ((number, found),) = catalog.index.descriptors.of_table(imported).items()
    assert (found.format, found.options.get("sep")) == descriptor
    plan = catalog.index.files.plan(imported, None, descriptor=number).read_all()
    assert sorted(plan.column("partition").to_pylist()) == ["k=2", "k=3"]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ([("x", "int"), ("y", "string")], None),
        ([("x", "int")], None),
        ([("X", "smallint")], None),
        ([("x", "int"), ("y", "string"), ("more", "int")], None),
        ([("y", "string"), ("x", "int")], "its column 1 is 'y', and the table's is 'x'"),
        ([("x", "bigint")], "its column 'x' is BIGINT, and INT in the table: Hive would cut or round"),
    ],
)
def test_columns_of_partitions_are_read_by_their_tables(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, columns: list[tuple[str, str]], reason: str | None
) -> None:
    table = make(metastore, tmp_path, "t")
    write(tmp_path / "t", "k=2/1.csv")
    own = tuple(Column(name, kind) for name, kind in columns)
    metastore.add_partitions("s", "t", [HivePartition(("2",), f"{table.location}/k=2", columns=own)])
    if reason is None:
        assert catalog.import_table("s.t").totals.partitions == 2
        return
    with pytest.raises(UnsupportedFormatError) as refused:
        catalog.import_table("s.t")
    assert reason in refused.value.message


def test_the_command(
    metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(metastore, tmp_path, "good")
    make(metastore, tmp_path, "acid")
    table = metastore.get_table("s", "acid")
    metastore.alter_table(replace(table, parameters={"transactional": "true"}))
    monkeypatch.chdir(tmp_path)
    options = ["--index", "index.db", "--metastore", "thrift://fake:9083"]
    assert main([*options, "import", "s.*", "--wide"]) == 1
    reported = capsys.readouterr().out
    assert "CATALOG_EXT_UNSUPPORTED_FORMAT" in reported
    assert "The metastore's table s.acid cannot be imported" in reported
    assert "1 of 2 tables taken." in reported
    assert main([*options, "import", "s", "--json", "--jobs", "1"]) == 1
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert [(t["table"], t["action"]) for t in tables] == [("s.acid", "refused"), ("s.good", "there already")]
    assert main([*options, "import", "s.*", "--refused-ok"]) == 0
    assert main([*options, "import", "s.good"]) == 0
    assert "There already:" in capsys.readouterr().out
    assert main([*options, "import", "s.good", "--property", "p=1"]) == 1
    capsys.readouterr()
    assert main([*options, "import", "s.zzz*"]) == 1
    assert "The metastore has no table that matches 's.zzz*'" in capsys.readouterr().err
    assert main([*options, "import", "s.god"]) == 1
    reported = capsys.readouterr().err
    assert "Did you mean s.good? The metastore is thrift://fake:9083, and has 2 tables in s." in reported
    assert "catalog-ext tables" not in reported


@pytest.mark.parametrize(("value", "is_taken"), [("1", False), ("2", True)])
def test_import_looks_again_at_files_that_another_table_deletes(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str,
    *, is_taken: bool,
) -> None:  # fmt: skip
    """The import of a table over another one's folder registered files that were gone."""
    made = make(metastore, tmp_path, "hive")
    stand, commit = Stand(catalog.index), catalog.index.commits.apply_changes
    stand.create(definition(made.location, name="t", external=True))
    stand.write({"k=2": "2\n"})
    catalog.repair_partitions("s.t")

    def late(*given: Any, **named: Any) -> object:
        monkeypatch.setattr(catalog.index.commits, "apply_changes", commit)
        stand.write({f"k={value}": "9\n"}, DYNAMIC)
        return commit(*given, **named)

    monkeypatch.setattr(catalog.index.commits, "apply_changes", late)
    if is_taken:
        catalog.import_table("s.hive")
        assert indexed(catalog, "s.hive") == {"k=1": {"1.csv": 1}}
        return
    with pytest.raises(ConflictError, match="deleting or moving"):
        catalog.import_table("s.hive")
    assert "hive" not in catalog.list_tables("s")
