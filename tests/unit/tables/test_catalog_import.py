"""Importing a table of the metastore: what is taken over, and that a failed import leaves nothing behind."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.conf.service_keys import allowed_locations
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IncompleteListingError,
    LocationNotAllowedError,
    LocationNotFoundError,
    OperationNotSupportedError,
    SchemaMismatchError,
    StorageAccessDeniedError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.conversion import to_hive, to_hive_database, to_hive_partition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, PartitionMode, TableDefinition, TableType
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.writes.writes import Batch
from tests.kit.fakes_metastore import serving
from tests.kit.repair_cases import indexed, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore


@pytest.fixture
def catalog(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        yield catalog


def fill(metastore: FakeMetastore, root: Path, *names: str, **elsewhere: str) -> None:
    """A table ``s.t`` in the metastore with these partitions, some (``k`` → location) not at their default place."""
    definition = TableDefinition(
        TableIdentifier.of("s", "t"), TableType.EXTERNAL, "csv", f"file://{root}", (Column("x", "int"),),
        (Column("k", "int"),), properties={"owner-team": "data"},
    )  # fmt: skip
    table = to_hive(definition)
    metastore.create_database(to_hive_database(Namespace("s", comment="c")))
    metastore.create_table(table)
    metastore.add_partitions("s", "t", [to_hive_partition(table, name) for name in names])
    metastore.add_partitions(
        "s", "t", [to_hive_partition(table, f"k={k[1:]}", place) for k, place in elsewhere.items()]
    )


def test_the_metastores_partitions_come_with_their_files_and_no_others(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    root, away = tmp_path / "t", tmp_path / "away"
    write(root, "k=1/1.csv", "k=1/_hidden", "k=2/1.csv", "k=3/not-mine.csv", "k=9/unregistered.csv", "stray.csv")
    write(away, "there.csv")
    fill(metastore, root, "k=1", "k=2", "k=4", k3=f"file://{away}")
    before = metastore.calls.copy()
    table = catalog.import_table("s.t", {"p": "1"})
    assert indexed(catalog) == {"k=1": {"1.csv": 1}, "k=2": {"1.csv": 1}, "k=3": {"there.csv": 1}, "k=4": {}}
    assert table.totals.partitions == 4
    assert table.definition.properties["p"] == "1"
    assert table.definition.properties["owner-team"] == "data"
    assert catalog.load_namespace("s").comment == "c"
    assert not {call for call in metastore.calls - before if call.startswith(("create", "alter", "drop", "add"))}
    assert catalog.index.outbox.pending() == []


def test_import_says_what_it_leaves_out(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Hive writes a UNION ALL into directories below the partition, and reads them there."""
    root = tmp_path / "t"
    write(root, "k=1/HIVE_UNION_SUBDIR_1/000000_0", "k=1/HIVE_UNION_SUBDIR_2/000000_0", "k=2/1.csv")
    (root / "k=2" / os.fsdecode(b"\xff")).touch()
    fill(metastore, root, "k=1", "k=2")
    catalog.import_table("s.t")
    assert "imported without 3 paths" in caplog.text
    assert "'k=1/HIVE_UNION_SUBDIR_1': lies deeper than the partition column" in caplog.text


def test_what_cannot_be_imported_leaves_nothing_behind(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "t"
    write(root, "k=1/1.csv", "k=2/1.csv")
    fill(metastore, root, "k=1", "k=2", k3=f"file://{tmp_path}/away")

    def refused(error: type[CatalogExtError], message: str) -> None:
        with pytest.raises(error, match=message):
            catalog.import_table("s.t")
        assert "s" not in catalog.list_namespaces() or catalog.list_tables("s") == []

    scandir = os.scandir

    def denied(path: str) -> object:
        if str(path).endswith("k=2"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    refused(IncompleteListingError, r"s\.t was not imported: 'k=2' cannot be listed")
    monkeypatch.undo()

    def no_entry(_: object) -> object:
        raise StorageAccessDeniedError("no entry")

    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: metastore))
    listing = catalog.storage.list_directory
    monkeypatch.setattr(catalog.storage, "list_directory", no_entry)
    refused(IncompleteListingError, r"s\.t was not imported: 'k=3' cannot be listed: no entry")
    monkeypatch.setattr(catalog.storage, "list_directory", listing)

    table = metastore.get_table("s", "t")
    metastore.alter_table(replace(table, location=f"file://{tmp_path}/nowhere"))
    refused(LocationNotFoundError, r"s\.t was not imported")
    metastore.alter_table(table)
    metastore.down = True
    refused(CatalogExtError, "no connection")
    metastore.down = False
    catalog.import_table("s.t")
    with pytest.raises(TableAlreadyExistsError):
        catalog.import_table("s.t")
    with pytest.raises(TableNotFoundError):
        catalog.import_table("s.nosuch")


def test_catalog_option_sets_the_partition_mode_of_imported_tables(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    (tmp_path / "t").mkdir()
    fill(metastore, tmp_path / "t")
    assert catalog.import_table("s.t").definition.partition_mode is PartitionMode.VIRTUAL
    catalog.unregister_table("s.t")
    settings = replace(catalog.settings, conf={"partition-columns": "declared"})
    with catalog_ext.Catalog(settings, settings.open_storage) as other:
        assert other.import_table("s.t").definition.partition_mode is PartitionMode.DECLARED


def test_a_bucketed_table_is_read_and_not_written(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, "k=1/000000_0", "k=2/000000_0")
    fill(metastore, root, "k=1")
    found = metastore.get_table("s", "t")
    metastore.alter_table(replace(found, storage=replace(found.storage, bucket_columns=("x",), bucket_count=2)))
    table = catalog.import_table("s.t")
    assert table.definition.properties["bucketed-by"] == "x into 2 buckets"
    assert indexed(catalog) == {"k=1": {"000000_0": 1}}
    assert len(catalog.repair_partitions("s.t").added) == 1, "what its engine has written is read"

    batch = Batch("INSERT", "me")
    for kind in (WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS, WriteKind.OVERWRITE):
        with pytest.raises(
            OperationNotSupportedError, match=r"s\.t is bucketed \(x into 2 buckets\), and is read but not"
        ):
            catalog.writes.begin(kind, table.table_id, table.version, batch)
    for kind in (WriteKind.REPLACE, WriteKind.CREATE_OR_REPLACE):
        with pytest.raises(OperationNotSupportedError, match="is bucketed"):
            catalog.writes.begin_creation(kind, replace(table.definition, properties={}), None, batch)
    assert catalog.list_transactions("s.t") == []
    catalog.partition_commands.rename("s.t", {"k": "2"}, {"k": "3"})
    now = catalog.load_table("s.t")
    catalog.writes.delete(now.table_id, now.version, Comparison(Operator.EQ, "k", "3"), truncate=False)
    assert indexed(catalog) == {"k=1": {"000000_0": 1}}

    catalog.unregister_table("s.t")
    with pytest.raises(TableAlreadyExistsError, match=r"bucketed \(x into 2 buckets\)\. Import it with"):
        catalog.register_table("s.t", location=str(root), format="csv", schema="x INT", partition_columns={"k": "INT"})


def test_partitions_are_not_moved_into_buckets(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    root, other = tmp_path / "t", tmp_path / "plain"
    write(root, "k=1/000000_0")
    write(other, "k=2/1.csv")
    fill(metastore, root, "k=1")
    found = metastore.get_table("s", "t")
    metastore.alter_table(replace(found, storage=replace(found.storage, bucket_columns=("x",), bucket_count=2)))
    options = catalog.import_table("s.t").definition.options
    catalog.register_table(
        "s.plain", location=str(other), format="csv", schema="x INT", partition_columns={"k": "INT"}, options=options
    )
    catalog.repair_partitions("s.plain")
    with pytest.raises(SchemaMismatchError, match=r"their buckets differ \(none and x into 2 buckets\)"):
        catalog.partition_commands.exchange("s.t", "s.plain", [{"k": "2"}])
    catalog.partition_commands.exchange("s.plain", "s.t", [{"k": "1"}])
    assert set(indexed(catalog, "s.plain")) == {"k=1", "k=2"}
    with pytest.raises(OperationNotSupportedError, match="have no buckets"):
        catalog.create_table(
            replace(
                catalog.load_table("s.plain").definition,
                identifier=TableIdentifier.of("s", "new"),
                properties={"bucketed-by": "x into 2 buckets"},
            ),
            str(tmp_path / "new"),
        )


def test_import_leaves_out_the_location_that_the_embedded_metastore_chose(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    """It is in the metastore's private folder, which no statement may name; the namespace never had a location."""
    root, chosen = tmp_path / "t", catalog.settings.embedded_folder / "warehouse" / "s.db"
    write(root, "k=1/1.csv")
    fill(metastore, root, "k=1")
    metastore._databases["s"] = replace(metastore.get_database("s"), location=chosen.as_uri())
    (entry,) = catalog.import_tables("s")
    assert entry.action == "taken", entry
    assert catalog.index.namespaces.load("s").location is None
    assert indexed(catalog) == {"k=1": {"1.csv": 1}}


@pytest.mark.parametrize("outside", ["table", "partition", "database"])
def test_import_is_refused_where_its_location_is_not_allowed(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, outside: str
) -> None:
    """The location of a namespace in the index would be allowed to every statement."""
    root, away = (tmp_path / "away" if outside == "table" else tmp_path / "warehouse" / "t"), tmp_path / "away"
    write(root, "k=1/1.csv")
    write(away, "k=3/x.csv")
    fill(metastore, root, "k=1", **({"k3": f"file://{away}/k=3"} if outside == "partition" else {}))
    if outside == "database":
        metastore._databases["s"] = replace(metastore.get_database("s"), location=f"file://{away}")
    catalog.allowed.restrict(allowed_locations({}, standing=True))
    with pytest.raises(LocationNotAllowedError):
        catalog.import_table("s.t")
    assert "s" not in catalog.list_namespaces() or catalog.list_tables("s") == []
    with pytest.raises(LocationNotAllowedError):
        catalog.allowed.require(str(away))
    (entry,) = catalog.import_tables("s")
    assert (entry.action, entry.code) == ("refused", "CATALOG_EXT_LOCATION_NOT_ALLOWED")
