"""Drift: each kind of difference between the store, the index and the metastore, who has what and who is newer."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from catalog_ext.drift.difference import Difference, DriftKind, Side
from catalog_ext.metastore.errors import InvalidInputError, StorageAccessDeniedError, TableNotFoundError
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.model.alterations import AddColumn
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.views.views import NewViewPartition, ViewRequest
from tests.kit.repair_cases import deny, local_catalog, register, write
from tests.unit.index.test_deferred_deletes import delete

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore

LATER = str(4_000_000_000)
"""A time of the metastore's after everything."""


def found(catalog: Catalog, table: str | None = "s.t") -> list[Difference]:
    return list(catalog.drift(table))


def only(catalog: Catalog, table: str | None = "s.t") -> Difference:
    (one,) = found(catalog, table)
    return one


def sides(difference: Difference) -> tuple[str | None, str | None, str | None]:
    return difference.store, difference.index, difference.metastore


def altered(metastore: FakeMetastore, name: str = "ds=1", **changes: object) -> None:
    """A Hive engine alters a partition."""
    (there,) = metastore.partitions_by_names("s", "t", [name])
    parameters = {**there.parameters, "transient_lastDdlTime": LATER, **changes.pop("parameters", {})}  # type: ignore[dict-item]
    metastore.alter_partitions("s", "t", [replace(there, parameters=parameters, **changes)])  # type: ignore[arg-type]


def test_equal_tables_are_not_reported(catalog: Catalog) -> None:
    assert found(catalog) == found(catalog, None) == []


def test_nothing_differs_after_partitions_of_an_external_table_expired(catalog: Catalog, tmp_path: Path) -> None:
    """Trial F7: drift was never clean again, where only the statement named the retention."""
    today = datetime.now(timezone.utc).date()
    root = tmp_path / "days"
    write(root, "ds=2020-01-01/a.csv", f"ds={today}/a.csv")
    register(catalog, root, {"ds": "DATE"}, table="s.days")
    catalog.repair_partitions("s.days")
    assert catalog.deliver().pending == 0
    (expired,) = catalog.partition_maintenance.expire("s.days", retention="30d")
    assert "the next repair registers it again" in expired.reason
    assert [each.subject for each in found(catalog, "s.days")] == ["ds=2020-01-01"]
    catalog.alter_table_properties("s.days", {"partition.retention.period": "30d"})
    assert catalog.deliver().pending == 0
    assert found(catalog, "s.days") == []


def test_a_partition_that_a_hive_engine_has_inserted(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "t", "ds=3/a.csv")
    three = HivePartition(("3",), f"file://{tmp_path}/t/ds=3", {"numFiles": "1", "totalSize": "1", "numRows": "5"})
    metastore.add_partitions(
        "s", "t", [replace(three, parameters={**three.parameters, "transient_lastDdlTime": LATER})]
    )
    one = only(catalog)
    assert (one.kind, one.subject, one.newer, one.pending) == (DriftKind.PARTITION, "ds=3", Side.METASTORE, False)
    assert sides(one) == ("1 file, 1 byte", "missing", "1 file, 1 byte, 5 rows")
    assert "transient_lastDdlTime" in one.evidence
    assert "version 1" in one.evidence


def test_altered_definition_is_not_taken_for_a_drop(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    """A version of the definition alone drops no partition, so the metastore's younger partition is the newer side."""
    added_s = int(time.time()) - 50
    with closing(sqlite3.connect(tmp_path / "index.db")) as database, database:
        database.execute("UPDATE table_versions SET committed_at_ms = ?", [(added_s - 50) * 1000])
    write(tmp_path / "t", "ds=3/a.csv")
    counts = {"numFiles": "1", "totalSize": "1", "transient_lastDdlTime": str(added_s)}
    metastore.add_partitions("s", "t", [HivePartition(("3",), f"file://{tmp_path}/t/ds=3", counts)])
    assert catalog.alterations.alter("s.t", [AddColumn(("n",), "int")]).version == 2
    assert catalog.deliver().pending == 0
    one = only(catalog)
    assert (one.subject, one.newer) == ("ds=3", Side.METASTORE)
    assert "version 1" in one.evidence


def test_partitions_that_the_metastore_alone_has(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    metastore.add_partitions(
        "s", "t", [HivePartition(("3",), f"file://{tmp_path}/t/ds=3"), HivePartition(("4",), f"file://{tmp_path}/x")]
    )
    three, four = found(catalog)
    assert (sides(three), three.newer) == (("missing", "missing", "has it"), None)
    assert (four.subject, sides(four)) == ("ds=4", (None, "missing", f"has it at file://{tmp_path}/x"))


def test_a_partition_that_a_hive_engine_has_dropped(catalog: Catalog, metastore: FakeMetastore) -> None:
    metastore.drop_partitions("s", "t", ["ds=1"])
    one = only(catalog)
    assert (one.kind, one.subject, one.newer) == (DriftKind.PARTITION, "ds=1", None)
    assert sides(one) == ("1 file, 1 byte", "1 file, 1 byte", "missing")
    assert "the other side does not say when it was dropped" in one.evidence


def test_a_partition_that_the_store_has_lost(catalog: Catalog, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "t" / "ds=2")
    one = only(catalog)
    assert (one.kind, one.subject) == (DriftKind.PARTITION, "ds=2")
    assert sides(one) == ("missing", "1 file, 1 byte", "1 file, 1 byte")


def test_a_partition_that_is_on_the_store_alone(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=3/a.csv", "ds=3/b.csv")
    one = only(catalog)
    assert (one.kind, one.subject, sides(one)) == (
        DriftKind.PARTITION, "ds=3", ("2 files, 2 bytes", "missing", "missing"),
    )  # fmt: skip


def test_files_that_came_and_what_the_metastore_says_of_them(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "t", "ds=1/b.csv")
    files = only(catalog)
    assert (files.kind, files.subject) == (DriftKind.FILES, "ds=1")
    assert sides(files) == ("other files: 1 file, 1 byte differ", "1 file, 1 byte", "1 file, 1 byte")
    altered(metastore, parameters={"numFiles": "2", "totalSize": "2", "numRows": "4"})
    statistics, files = found(catalog)
    assert (statistics.kind, statistics.newer) == (DriftKind.STATISTICS, Side.METASTORE)
    assert sides(statistics) == ("other files: 1 file, 1 byte differ", "1 file, 1 byte", "2 files, 2 bytes, 4 rows")
    assert files.kind is DriftKind.FILES


def test_statistics_of_which_one_side_knows_nothing_are_no_difference(
    catalog: Catalog, metastore: FakeMetastore
) -> None:
    altered(metastore, parameters={"numRows": "4", "COLUMN_STATS_ACCURATE": "{}", "rawDataSize": "9"})
    assert found(catalog) == []


def test_another_location_and_another_descriptor(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    altered(metastore, location=f"file://{tmp_path}/elsewhere")
    table = metastore.get_table("s", "t")
    altered(metastore, "ds=2", storage=replace(table.storage, serde_parameters={"field.delim": ";"}))
    moved, other = found(catalog)
    assert (moved.kind, moved.subject, moved.newer) == (DriftKind.PARTITION_LOCATION, "ds=1", Side.METASTORE)
    assert sides(moved) == (None, f"file://{tmp_path}/t/ds=1", f"file://{tmp_path}/elsewhere")
    assert (other.kind, other.subject) == (DriftKind.PARTITION_DESCRIPTOR, "ds=2")
    assert other.metastore is not None
    assert "its option nullValue" in other.metastore


def test_definitions(catalog: Catalog, metastore: FakeMetastore) -> None:
    table = metastore.get_table("s", "t")
    parameters = {k: v for k, v in table.parameters.items() if k != "owner-team"}
    changed = replace(
        table, columns=(Column("x", "int", comment="new"), Column("z", "bigint")), parameters={**parameters, "p": "1"}
    )
    metastore._tables["s", "t"] = changed
    differences = {(d.kind, d.subject): sides(d)[1:] for d in found(catalog)}
    assert differences == {
        (DriftKind.COLUMN, "x"): ("int", "int COMMENT 'new'"),
        (DriftKind.COLUMN, "y"): ("string", "missing"),
        (DriftKind.COLUMN, "z"): ("missing", "bigint"),
        (DriftKind.PARAMETER, "owner-team"): ("data", "missing"),
        (DriftKind.PARAMETER, "p"): ("missing", "1"),
    }
    metastore._tables["s", "t"] = replace(table, columns=tuple(reversed(table.columns)))
    order = only(catalog)
    assert (order.kind, order.subject, sides(order)[1:]) == (DriftKind.COLUMN, "(order)", ("x, y", "y, x"))


def test_columns_that_only_spark_can_express_do_not_differ(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "deep", "a.parquet")
    write(tmp_path / "csv", "a.csv")
    catalog.register_table("s.deep", location=str(tmp_path / "deep"), schema="s STRUCT<a: INT>", format="parquet")
    catalog.register_table("s.csv", location=str(tmp_path / "csv"), schema="a INT, b STRING", format="csv")
    for name, column in (
        ("deep", Column("s", "struct<A:int>")),
        ("csv", Column("col", "array<string>", comment="from deserializer")),
    ):
        there = metastore.get_table("s", name)
        metastore._tables["s", name] = replace(there, columns=(column,))
    assert [d for d in found(catalog, None) if d.kind is DriftKind.COLUMN] == []
    there = metastore.get_table("s", "deep")
    metastore._tables["s", "deep"] = replace(there, columns=(Column("s", "struct<A:bigint>"),))
    (one,) = (d for d in found(catalog, None) if d.kind is DriftKind.COLUMN)
    assert (one.index, one.metastore) == ("struct<a:int>", "struct<A:bigint>")


def test_a_comment_that_hive_makes_up_does_not_differ(catalog: Catalog, metastore: FakeMetastore) -> None:
    table = metastore.get_table("s", "t")
    made_up = tuple(replace(column, comment="from deserializer") for column in table.columns)
    metastore._tables["s", "t"] = replace(table, columns=made_up)
    assert found(catalog) == []


def test_table_at_another_location_is_reported_without_its_partitions(
    catalog: Catalog, metastore: FakeMetastore
) -> None:
    table = metastore.get_table("s", "t")
    metastore._tables["s", "t"] = replace(table, location="s3a://b/t")
    metastore.drop_partitions("s", "t", ["ds=1"])
    where, rest = found(catalog)
    assert (where.kind, where.metastore) == (DriftKind.LOCATION, "s3a://b/t")
    assert (rest.kind, rest.metastore) == (DriftKind.NOT_COMPARED, "not known")
    assert "another table of the name" in rest.evidence


def test_another_format(catalog: Catalog, metastore: FakeMetastore) -> None:
    table = metastore.get_table("s", "t")
    parameters = {k: v for k, v in table.parameters.items() if not k.startswith("spark.")}
    orc = storage_of("orc", {}, "")
    metastore._tables["s", "t"] = replace(table, storage=orc, parameters=parameters)
    one = only(catalog)
    assert (one.kind, sides(one)) == (DriftKind.FORMAT, (None, "csv", "orc"))
    metastore._tables["s", "t"] = replace(table, storage=replace(orc, serde="Avro"), parameters=parameters)
    assert "its storage is Avro" in (only(catalog).metastore or "")


def test_table_that_only_the_metastore_has_names_import(catalog: Catalog) -> None:
    catalog.unregister_table("s.t")
    (only,) = found(catalog, None)
    assert (only.kind, sides(only)) == (DriftKind.TABLE, (None, "missing", "has it"))
    assert only.evidence == "to take it: catalog-ext import s.t"


def test_tables_that_a_side_lacks(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    storage = HiveStorage("i", "o", "s")
    metastore.create_table(HiveTable("s", "theirs", EXTERNAL_TABLE, f"file://{tmp_path}/x", (), (), storage))
    metastore.drop_table("s", "t")
    ours, theirs = found(catalog, None)
    assert (ours.table, ours.kind, ours.metastore) == ("s.t", DriftKind.TABLE, "missing")
    assert (theirs.table, sides(theirs)) == ("s.theirs", (None, "missing", "has it"))
    assert theirs.kind is DriftKind.NOT_TAKEN
    shutil.rmtree(tmp_path / "t")
    gone, _ = found(catalog)
    assert (gone.kind, gone.store) == (DriftKind.TABLE, "missing")
    with pytest.raises(TableNotFoundError):
        catalog.drift("s.nosuch")


def test_table_that_cannot_be_imported_is_reported_but_is_no_drift(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    there = metastore.get_table("s", "t")
    avro = HiveStorage("i", "o", "Avro")
    metastore.create_table(HiveTable("s", "old", EXTERNAL_TABLE, f"file://{tmp_path}/x", (), (), avro))
    metastore.create_table(replace(there, name="view", table_type="VIRTUAL_VIEW", location=""))
    metastore.create_table(replace(there, name="free"))
    reported = {d.table: d for d in found(catalog, None)}
    assert {name: (d.kind, d.is_drift) for name, d in reported.items()} == {
        "s.free": (DriftKind.TABLE, True), "s.old": (DriftKind.NOT_TAKEN, False),
        "s.view": (DriftKind.NOT_TAKEN, False),
    }  # fmt: skip
    assert "its storage is Avro" in reported["s.old"].evidence
    assert "it is a view" in reported["s.view"].evidence
    assert {d.table for d in catalog.drift("s", exclude=["s.v*", "s.fr?e"])} == {"s.old"}
    assert {d.table for d in catalog.drift("S.F*")} == {"s.free"}
    for wrong in ("s.nosuch*", "nosuch"):
        with pytest.raises(TableNotFoundError, match="no table that matches"):
            list(catalog.drift(wrong))


def test_what_the_outbox_has_to_deliver_is_pending(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    metastore.down = True
    write(tmp_path / "t", "ds=1/b.csv", "ds=3/a.csv")
    shutil.rmtree(tmp_path / "t" / "ds=2")
    catalog.repair_partitions("s.t")
    catalog.alter_table_properties("s.t", {"p": "2"})
    metastore.down = False
    differences = found(catalog)
    assert {(d.kind, d.subject) for d in differences} == {
        (DriftKind.PARAMETER, "p"), (DriftKind.STATISTICS, "ds=1"), (DriftKind.PARTITION, "ds=2"),
        (DriftKind.PARTITION, "ds=3"),
    }  # fmt: skip
    assert all(d.pending and d.failed and not d.is_drift for d in differences)
    assert all("the outbox has it to deliver, and failed: " in d.evidence for d in differences)
    catalog.outbox("retry")
    assert catalog.deliver().pending == 0
    assert found(catalog) == []


def test_pending_descriptor_names_the_outbox_as_its_reason(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    metastore.down = True
    write(tmp_path / "t", "ds=1/b.csv")
    catalog.repair_partitions("s.t")
    metastore.down = False
    table = metastore.get_table("s", "t")
    (one,) = metastore.partitions_by_names("s", "t", ["ds=1"])
    other = replace(table.storage, serde_parameters={"field.delim": ";"})
    metastore.alter_partitions("s", "t", [replace(one, storage=other, columns=table.columns)])
    (descriptor,) = [d for d in found(catalog) if d.kind is DriftKind.PARTITION_DESCRIPTOR]
    assert descriptor.pending
    assert "the outbox has it to deliver" in descriptor.evidence


def test_a_table_whose_creation_and_one_whose_end_is_pending(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    metastore.down = True
    catalog.drop_table("s.t")
    catalog.register_table("s.u", location=str(tmp_path / "t"), partition_columns={"ds": "STRING"}, schema="x INT")
    metastore.down = False
    differences = {d.table: (d.kind, d.pending) for d in found(catalog, None) if d.kind is DriftKind.TABLE}
    assert differences == {"s.u": (DriftKind.TABLE, True), "s.t": (DriftKind.TABLE, True)}


def test_a_failed_listing_is_reported_and_not_as_missing_partitions(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny(monkeypatch, tmp_path / "t" / "ds=1")
    hidden = only(catalog)
    assert (hidden.kind, hidden.subject) == (DriftKind.NOT_COMPARED, "ds=1")
    assert "permission is denied" in hidden.evidence
    metastore.drop_partitions("s", "t", ["ds=1"])
    _, dropped = found(catalog)
    assert sides(dropped) == ("not known", "1 file, 1 byte", "missing")


def test_a_store_that_does_not_answer(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> object:
        raise StorageAccessDeniedError("no entry")

    monkeypatch.setattr("catalog_ext.scan.observe.list_tree", refused)
    metastore.drop_partitions("s", "t", ["ds=1"])
    unseen, dropped = found(catalog)
    assert (unseen.kind, unseen.store, unseen.evidence) == (DriftKind.NOT_COMPARED, "not known", "no entry")
    assert sides(dropped) == ("not known", "1 file, 1 byte", "missing")


class AnswersInPart:
    """A metastore that gives all partitions but one, and dies after so many answers."""

    def __init__(self, metastore: FakeMetastore) -> None:
        self.metastore = metastore
        self.asked = 0
        self.dies_after = 1000

    def __call__(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        self.asked += 1
        if self.asked > self.dies_after:
            self.metastore.down = True
        given = type(self.metastore).partitions_by_names(self.metastore, database, table, names)
        return [p for p in given if p.values != ("1",)]


def test_an_answer_in_part_is_no_missing_partition(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    partly = AnswersInPart(metastore)
    monkeypatch.setattr(metastore, "partitions_by_names", partly)
    one = only(catalog)
    assert (one.kind, one.subject, partly.asked) == (DriftKind.NOT_COMPARED, "ds=1", 2)
    assert "it answers in part" in one.evidence
    partly.dies_after = 3
    assert "no connection" in only(catalog).evidence


def test_a_metastore_that_is_gone_leaves_the_comparison_with_the_store(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "u", "a.csv")
    catalog.register_table("s.u", location=str(tmp_path / "u"), partition_columns={}, schema="x INT", format="csv")
    write(tmp_path / "t", "ds=3/a.csv")
    metastore.down = True
    before = metastore.calls.total()
    t_gone, t_new, u_gone, u_files = found(catalog, None)
    assert metastore.calls.total() - before == 1, "who is gone is asked once"
    assert t_gone.kind is u_gone.kind is DriftKind.NOT_COMPARED
    assert (t_new.subject, sides(t_new)) == ("ds=3", ("1 file, 1 byte", "missing", None))
    assert (u_files.table, u_files.kind, u_files.store) == ("s.u", DriftKind.PARTITION, "1 file, 1 byte")


def test_statistics_of_a_table_without_partition_columns(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "u", "a.csv")
    catalog.register_table("s.u", location=str(tmp_path / "u"), partition_columns={}, schema="x INT", format="csv")
    catalog.repair_partitions("s.u")
    assert found(catalog, "s.u") == []
    table = metastore.get_table("s", "u")
    metastore.alter_table(
        replace(table, parameters={**table.parameters, "numFiles": "3", "transient_lastDdlTime": LATER})
    )
    one = only(catalog, "s.u")
    assert (one.kind, one.newer, sides(one)) == (
        DriftKind.STATISTICS, Side.METASTORE, (None, "1 file, 1 byte", "3 files, 1 byte"),
    )  # fmt: skip


def test_what_is_committed_meanwhile_is_not_compared(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition_names = metastore.partition_names

    def late(database: str, table: str) -> object:
        names = partition_names(database, table)
        monkeypatch.setattr(metastore, "partition_names", partition_names)
        metastore.down = True
        write(tmp_path / "t", "ds=1/b.csv", "ds=9/a.csv")
        catalog.repair_partitions("s.t")
        metastore.down = False
        return names

    monkeypatch.setattr(metastore, "partition_names", late)
    differences = list(catalog.drift("s.t"))
    assert {(d.kind, d.subject) for d in differences} == {
        (DriftKind.NOT_COMPARED, "ds=1"), (DriftKind.NOT_COMPARED, "ds=9"),
    }  # fmt: skip
    assert "version 2 of the table changed it meanwhile" in differences[0].evidence


def test_a_definition_that_is_altered_meanwhile_is_compared_again(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_table = metastore.get_table

    def late(database: str, table: str) -> HiveTable:
        monkeypatch.setattr(metastore, "get_table", get_table)
        catalog.alter_table_properties("s.t", {"p": "1"})
        return get_table(database, table)

    monkeypatch.setattr(metastore, "get_table", late)
    assert found(catalog) == []
    assert catalog.load_table("s.t").definition.properties["p"] == "1"


def test_views(catalog: Catalog, metastore: FakeMetastore) -> None:
    columns = (Column("x", "int"), Column("ds", "string"))
    query = ViewQuery("SELECT x, ds FROM t", "lake", ("s",))
    catalog.views.create(ViewRequest(TableIdentifier("s", "v"), query, columns, ("ds",), {}))
    catalog.views.add_partitions("s.v", [NewViewPartition({"ds": day}) for day in "12"])
    assert found(catalog, "s.v") == found(catalog, None) == []
    metastore.drop_partitions("s", "v", ["ds=1"])
    metastore.add_partitions("s", "v", [HivePartition(("3",), "")])
    view = metastore.get_table("s", "v")
    metastore.alter_table(replace(view, view_original_text="SELECT 1"))
    assert [(d.kind, d.subject, *sides(d)[1:]) for d in found(catalog, "s.v")] == [
        (DriftKind.VIEW, "", "SELECT x, ds FROM t", "SELECT 1"),
        (DriftKind.PARTITION, "ds=1", "has it", "missing"),
        (DriftKind.PARTITION, "ds=3", "missing", "has it"),
    ]
    assert [(m.action, m.subject) for m in catalog.mend_drift("s.v", source="index")] == [
        ("drop", "ds=3"), ("publish", ""),
    ]  # fmt: skip
    assert found(catalog, "s.v") == []
    with pytest.raises(InvalidInputError, match="is a view"):
        catalog.mend_drift("s.v", source="store")
    metastore.drop_table("s", "v")
    assert only(catalog, "s.v").metastore == "missing"


def test_a_catalog_without_a_metastore_compares_the_store_alone(tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    folder.mkdir()
    with local_catalog(folder) as alone:
        write(folder / "t", "ds=2025-01-01/region=eu/a.csv")
        register(alone, folder / "t")
        one = only(alone, None)
        assert (one.kind, sides(one)) == (DriftKind.PARTITION, ("1 file, 1 byte", "missing", None))


def test_undelivered_drops_of_a_delete_of_everything_are_pending(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferred_deletes, "MANY", 0)
    delete(catalog.index, catalog.load_table("s.t"))
    gone = [d for d in found(catalog) if d.kind is DriftKind.PARTITION]
    assert [(d.subject, d.index, d.pending) for d in gone] == [("ds=1", "missing", True), ("ds=2", "missing", True)]
    assert all(not each.done for each in catalog.mend_drift("s.t", source="metastore"))
    assert catalog.load_table("s.t").totals.partitions == 0
