"""Mending: each source, what it leaves alone, previews, and what bad luck leaves."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.conf.service_keys import allowed_locations
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    InvalidPredicateError,
    MassDropError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore_sync.sync import MetastoreSync
from tests.kit.repair_cases import indexed, local_catalog, register, write

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.drift.from_metastore import Mended
    from catalog_ext.metastore.hive.outbox.delivery import DeliveryReport
    from tests.kit.fakes_metastore import FakeMetastore


def mended(catalog: Catalog, source: str, **options: Any) -> list[Mended]:
    return list(catalog.mend_drift("s.t", source=source, **options))


def actions(entries: list[Mended]) -> dict[tuple[str, str], bool]:
    return {(e.action, e.subject): e.done for e in entries}


def at(place: Path, value: str, **parameters: str) -> HivePartition:
    return HivePartition((value,), f"file://{place}", parameters)


def hive_changes(metastore: FakeMetastore, tmp_path: Path) -> None:
    """A Hive engine inserts into a partition, adds two, moves one."""
    write(tmp_path / "t", "ds=1/b.csv", "ds=3/a.csv", "ds=3/b.csv")
    write(tmp_path, "moved/m.csv", "away/n.csv")
    table = metastore.get_table("s", "t")
    (one,) = metastore.partitions_by_names("s", "t", ["ds=1"])
    (two,) = metastore.partitions_by_names("s", "t", ["ds=2"])
    counted = {**one.parameters, "numFiles": "2", "totalSize": "2"}
    metastore.alter_partitions(
        "s", "t", [replace(one, parameters=counted), replace(two, location=f"file://{tmp_path}/moved")]
    )
    metastore.add_partitions("s", "t", [at(tmp_path / "t" / "ds=3", "3"), at(tmp_path / "away", "4")])
    columns = (*table.columns, Column("z", "double"))
    metastore._tables["s", "t"] = replace(table, columns=columns, parameters={**table.parameters, "p": "1"})


HIVE_DID = {
    ("alter", "z"): True, ("alter", "p"): True, ("add", "ds=3"): True, ("add", "ds=4"): True, ("move", "ds=2"): True,
}  # fmt: skip


def test_the_index_follows_what_a_hive_engine_has_changed(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    hive_changes(metastore, tmp_path)
    before = catalog.load_table("s.t")
    preview = actions(mended(catalog, "metastore", dry_run=True))
    assert preview == {**HIVE_DID, ("change", "ds=1/b.csv"): True}
    assert catalog.load_table("s.t") == before

    assert actions(mended(catalog, "metastore")) == {**HIVE_DID, ("change", "ds=1/b.csv"): True}
    table = catalog.load_table("s.t")
    assert indexed(catalog) == {
        "ds=1": {"a.csv": 1, "b.csv": 1}, "ds=2": {"m.csv": 1}, "ds=3": {"a.csv": 1, "b.csv": 1}, "ds=4": {"n.csv": 1},
    }  # fmt: skip
    assert [(c.name, c.type) for c in table.definition.columns] == [("x", "int"), ("y", "string"), ("z", "double")]
    assert table.definition.properties["p"] == "1"
    operations = [v.operation for v in catalog.history("s.t")]
    assert operations[:3] == ["repair", "mend", "mend"]
    assert catalog.deliver().pending == 0
    assert [d for d in catalog.drift("s.t") if d.subject != "ds=2"] == [], "the old directory of ds=2 is on the store"
    assert mended(catalog, "metastore") == []


def test_preview_of_partition_that_moved_with_its_files_is_one_move(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    write(tmp_path, "moved/a.csv", "moved/b.csv")
    shutil.rmtree(tmp_path / "t" / "ds=2")
    (two,) = metastore.partitions_by_names("s", "t", ["ds=2"])
    counted = {**two.parameters, "numFiles": "2", "totalSize": "2"}
    metastore.alter_partitions("s", "t", [replace(two, location=f"file://{tmp_path}/moved", parameters=counted)])
    preview = mended(catalog, "metastore", dry_run=True)
    assert actions(preview) == {("move", "ds=2"): True}
    assert mended(catalog, "metastore") == preview
    assert indexed(catalog)["ds=2"] == {"a.csv": 1, "b.csv": 1}


@pytest.mark.parametrize("source", ["store", "metastore"])
def test_preview_of_a_mend_that_would_be_refused_does_nothing(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, source: str
) -> None:
    """The store is away, and the metastore has counted other files."""
    for name in ("ds=1", "ds=2"):
        (one,) = metastore.partitions_by_names("s", "t", [name])
        counted = {**one.parameters, "numFiles": "2", "totalSize": "2"}
        metastore.alter_partitions("s", "t", [replace(one, parameters=counted)])
    for name in ("ds=1", "ds=2"):
        shutil.rmtree(tmp_path / "t" / name)
    preview = mended(catalog, source, dry_run=True)
    assert not any(each.done for each in preview)
    if source == "store":
        assert any("would be refused" in each.why for each in preview)
        with pytest.raises(MassDropError):
            mended(catalog, source)
    else:
        assert all("nothing lies at" in each.why for each in preview)
        assert mended(catalog, source) == preview
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}


def test_partition_at_a_location_that_is_not_allowed_is_left_alone(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    catalog.allowed.restrict(allowed_locations({}, standing=True))
    write(tmp_path, "t/ds=3/a.csv", "away/n.csv")
    metastore.add_partitions("s", "t", [at(tmp_path / "t" / "ds=3", "3"), at(tmp_path / "away", "4")])
    found = mended(catalog, "metastore")
    assert actions(found) == {("add", "ds=3"): True, ("left alone", "ds=4"): False}
    assert ["storage.allow" in each.why for each in found if each.subject == "ds=4"] == [True]
    assert set(indexed(catalog)) == {"ds=1", "ds=2", "ds=3"}


def test_mend_from_the_metastore_keeps_partitions_without_directory(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    """Its store may be away in part; the metastore, which is right, has it."""
    shutil.rmtree(tmp_path / "t" / "ds=1")
    (one,) = metastore.partitions_by_names("s", "t", ["ds=1"])
    metastore.alter_partitions("s", "t", [replace(one, parameters={**one.parameters, "numFiles": "7"})])
    for dry_run in (True, False):
        (left,) = mended(catalog, "metastore", dry_run=dry_run)
        assert (left.action, left.subject, left.done) == ("left alone", "ds=1", False)
        assert "nothing lies at file:" in left.why
    assert indexed(catalog) == {"ds=1": {"a.csv": 1}, "ds=2": {"a.csv": 1}}
    assert catalog.deliver().pending == 0
    assert len(metastore.partitions_by_names("s", "t", ["ds=1"])) == 1


def test_nothing_is_dropped_because_the_metastore_does_not_have_it(catalog: Catalog, metastore: FakeMetastore) -> None:
    metastore.drop_partitions("s", "t", ["ds=1"])
    (left,) = mended(catalog, "metastore")
    assert (left.action, left.subject, left.done) == ("left alone", "ds=1", False)
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}
    assert actions(mended(catalog, "metastore", drop=True, dry_run=True)) == {("drop", "ds=1"): True}
    assert actions(mended(catalog, "metastore", drop=True)) == {("drop", "ds=1"): True}
    assert set(indexed(catalog)) == {"ds=2"}


def test_not_everything_is_dropped_at_once(catalog: Catalog, metastore: FakeMetastore) -> None:
    metastore.drop_partitions("s", "t", ["ds=1", "ds=2"])
    with pytest.raises(MassDropError, match="would drop 2 of 2"):
        mended(catalog, "metastore", drop=True)
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}
    assert len(mended(catalog, "metastore", drop=True, allow_mass_drop=True)) == 2
    assert indexed(catalog) == {}


def test_what_is_pending_is_not_undone(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    metastore.down = True
    write(tmp_path / "t", "ds=3/a.csv")
    catalog.repair_partitions("s.t")
    metastore.down = False
    (left,) = mended(catalog, "metastore", drop=True)
    assert (left.subject, left.done) == ("ds=3", False)
    assert "the outbox has it to deliver" in left.why


def test_what_cannot_be_taken_over_is_left_alone_and_said(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    table = metastore.get_table("s", "t")
    other = replace(table.storage, serde="Avro")
    write(tmp_path / "t", "ds=4/a.csv")
    four = replace(at(tmp_path / "t" / "ds=4", "4"), storage=other)
    metastore.add_partitions("s", "t", [at(tmp_path / "t" / "ds=3", "3"), four])
    metastore._tables["s", "t"] = replace(table, columns=(Column("x", "date"), table.columns[1]))
    left = {e.subject: e.why for e in mended(catalog, "metastore")}
    assert set(left) == {"x", "ds=3", "ds=4"}
    assert "only wider types" in left["x"]
    assert "nothing lies at file:" in left["ds=3"]
    assert "its storage is Avro over" in left["ds=4"]
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}
    assert catalog.load_table("s.t").definition.columns[0].type == "int"


def test_a_descriptor_is_taken_over_and_brought_back(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    table = metastore.get_table("s", "t")
    other = replace(table.storage, serde_parameters={"field.delim": ";"})
    two = next(p for p in metastore.partitions_by_names("s", "t", ["ds=2"]))
    metastore.alter_partitions("s", "t", [replace(two, storage=other, columns=table.columns)])
    (done,) = mended(catalog, "metastore")
    assert (done.action, done.subject, done.why) == ("describe", "ds=2", "it is read as the metastore says")
    (descriptor,) = catalog.index.descriptors.of_table(catalog.load_table("s.t")).values()
    assert (descriptor.format, descriptor.options["sep"]) == ("csv", ";")
    assert list(catalog.drift("s.t")) == []
    (there,) = metastore.partitions_by_names("s", "t", ["ds=2"])
    assert there.storage is not None
    assert there.storage.serde_parameters == {"field.delim": ";"}, "what we deliver keeps it"

    metastore.alter_partitions("s", "t", [replace(there, storage=table.storage)])
    (difference,) = list(catalog.drift("s.t"))
    assert (difference.index, difference.metastore) == ("csv, by a descriptor of its own", "as its table")
    assert all(each.done for each in mended(catalog, "index"))
    (back,) = metastore.partitions_by_names("s", "t", ["ds=2"])
    assert back.storage is not None
    assert back.storage.serde_parameters == {"field.delim": ";"}
    assert list(catalog.drift("s.t")) == []


def test_preview_names_partitions_left_alone_and_remaining_differences(
    catalog: Catalog, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = metastore.get_table("s", "t")
    metastore._tables["s", "t"] = replace(table, columns=(Column("col", "date"), *table.columns[1:]))
    for dry_run in (True, False):
        left = {e.subject: e for e in mended(catalog, "metastore", dry_run=dry_run)}
        assert {(e.action, e.done) for e in left.values()} == {("left alone", False)}
        assert "the column 'col' of table s.t as DATE at the place of 'x' INT" in left["col"].why
    metastore._tables["s", "t"] = replace(table, columns=(*table.columns, Column("z", "double")))
    monkeypatch.setattr("catalog_ext.drift.from_metastore.adopted_columns", lambda definition, _: definition)
    for dry_run in (True, False):
        (one,) = mended(catalog, "metastore", dry_run=dry_run)
        assert (one.subject, one.done) == ("z", False)
        assert "missing here, double in the metastore" in one.why


def test_a_metastore_that_does_not_answer_is_an_error_of_a_mend(catalog: Catalog, metastore: FakeMetastore) -> None:
    metastore.down = True
    for source in ("metastore", "index", "store"):
        with pytest.raises(MetastoreUnavailableError):
            mended(catalog, source)


def test_directory_goes_to_another_partition_after_columns_changed(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    """The version that alters the columns is no change of another process, which would refuse the directory."""
    before, table = catalog.load_table("s.t"), metastore.get_table("s", "t")
    metastore._tables["s", "t"] = replace(table, columns=(*table.columns, Column("z", "double")))
    metastore.drop_partitions("s", "t", ["ds=2"])
    metastore.add_partitions("s", "t", [at(tmp_path / "t" / "ds=2", "7")])
    found = mended(catalog, "metastore", drop=True, allow_mass_drop=True)
    assert actions(found) == {("alter", "z"): True, ("drop", "ds=2"): True, ("add", "ds=7"): True}
    assert indexed(catalog) == {"ds=1": {"a.csv": 1}, "ds=7": {"a.csv": 1}}
    operations = [v.operation for v in catalog.history("s.t")]
    assert operations[:3] == ["mend", "mend", "ALTER TABLE"]
    then = catalog.index.definition_history.at(catalog.load_table("s.t"), before.version)
    assert then.definition == before.definition


def test_a_metastore_that_dies_changes_nothing(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hive_changes(metastore, tmp_path)
    before = catalog.load_table("s.t")

    def dies(*_: object) -> object:
        metastore.down = True
        return metastore.get_table("s", "t")

    monkeypatch.setattr(metastore, "partitions_by_names", dies)
    with pytest.raises(MetastoreUnavailableError):
        mended(catalog, "metastore")
    assert catalog.load_table("s.t").version == before.version
    assert indexed(catalog) == {"ds=1": {"a.csv": 1}, "ds=2": {"a.csv": 1}}


def test_more_partitions_than_a_batch_and_one_changed_meanwhile(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog.alter_table_properties("s.t", {"repair.batch-partitions": "2"})
    for value in "34567":
        write(tmp_path / "t", f"ds={value}/a.csv")
        metastore.add_partitions("s", "t", [at(tmp_path / "t" / f"ds={value}", value)])
    entries = catalog.mend_drift("s.t", source="metastore")
    first = next(entries)
    assert (first.action, first.subject) == ("add", "ds=3")
    catalog.repair_partitions("s.t", where="ds = '5'")
    assert actions(list(entries)) == {
        ("add", "ds=4"): True, ("left alone", "ds=5"): False, ("add", "ds=6"): True, ("add", "ds=7"): True,
    }  # fmt: skip
    assert set(indexed(catalog)) == {f"ds={value}" for value in "1234567"}


def test_the_metastore_follows_the_index(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    hive_changes(metastore, tmp_path)
    metastore.drop_partitions("s", "t", ["ds=2"])
    assert actions(mended(catalog, "index", dry_run=True)) == {
        ("drop", "ds=3"): True, ("drop", "ds=4"): True, ("publish", ""): True,
    }, "what would be dropped in the metastore is named"  # fmt: skip
    assert len(list(metastore.partition_names("s", "t"))) == 3
    *dropped, entry = mended(catalog, "index")
    assert [each.subject for each in dropped] == ["ds=3", "ds=4"]
    assert "no file is touched" in dropped[0].why
    assert "sent" in entry.why
    assert list(metastore.partition_names("s", "t")) == ["ds=1", "ds=2"]
    assert {(d.kind.value, d.subject) for d in catalog.drift("s.t")} == {
        ("files", "ds=1"), ("partition", "ds=3"), ("parameter", "p"),
    }  # fmt: skip


def test_index_and_metastore_follow_the_store(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=3/a.csv")
    shutil.rmtree(tmp_path / "t" / "ds=1")
    metastore.add_partitions("s", "t", [at(tmp_path / "x", "9")])
    assert actions(mended(catalog, "store", dry_run=True)) == {
        ("add", "ds=3"): True, ("drop", "ds=1"): True, ("drop", "ds=9"): True, ("publish", ""): True,
    }  # fmt: skip
    assert set(indexed(catalog)) == {"ds=1", "ds=2"}
    mended(catalog, "store")
    assert set(indexed(catalog)) == {"ds=2", "ds=3"}
    assert sorted(metastore.partition_names("s", "t")) == ["ds=2", "ds=3"]
    assert list(catalog.drift("s.t")) == []


def test_a_mass_drop_by_the_store_is_refused_in_a_preview_and_in_earnest(catalog: Catalog, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "t")
    (tmp_path / "t").mkdir()
    assert not actions(mended(catalog, "store", dry_run=True))["refuse", ""]
    with pytest.raises(MassDropError):
        mended(catalog, "store")


def test_what_cannot_be_asked_for(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="not a side by which"):
        mended(catalog, "hive")
    folder = tmp_path / "alone"
    folder.mkdir()
    with local_catalog(folder) as alone:
        register(alone, folder / "t")
        with pytest.raises(InvalidConfigurationError, match="has no metastore"):
            mended(alone, "metastore")
        assert mended(alone, "store") == []


def test_mend_by_the_metastore_is_limited_to_partitions(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    """Columns and properties stay, and so do partitions that the condition is not true for."""
    hive_changes(metastore, tmp_path)
    assert actions(mended(catalog, "metastore", where="ds = '3'", dry_run=True)) == {("add", "ds=3"): True}
    assert actions(mended(catalog, "metastore", where={"ds": "3"})) == {("add", "ds=3"): True}
    assert set(indexed(catalog)) == {"ds=1", "ds=2", "ds=3"}
    assert len(catalog.load_table("s.t").definition.columns) == 2


def test_mend_by_the_store_is_limited_to_partitions(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    """An expired day is not registered again because a broken directory is mended."""
    write(tmp_path / "t", "ds=3/a.csv", "ds=4/a.csv")
    shutil.rmtree(tmp_path / "t" / "ds=1")
    done = actions(mended(catalog, "store", where="ds >= '4'"))
    assert done == {("add", "ds=4"): True}
    assert set(indexed(catalog)) == {"ds=1", "ds=2", "ds=4"}
    assert set(metastore.partition_names("s", "t")) == {"ds=1", "ds=2", "ds=4"}


def test_mend_by_the_index_is_limited_to_partitions(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    metastore.drop_partitions("s", "t", ["ds=1", "ds=2"])
    metastore.add_partitions("s", "t", [at(tmp_path / "away", "4"), at(tmp_path / "away", "5")])
    assert actions(mended(catalog, "index", where="ds IN ('2', '4')")) == {
        ("drop", "ds=4"): True,
        ("publish", ""): True,
    }
    assert set(metastore.partition_names("s", "t")) == {"ds=2", "ds=5"}


def test_limited_mend_keeps_pending_messages_of_other_partitions(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    write(tmp_path / "t", "ds=3/a.csv")
    metastore.down = True
    catalog.repair_partitions("s.t")
    metastore.down = False
    assert set(metastore.partition_names("s", "t")) == {"ds=1", "ds=2"}
    mended(catalog, "index", where="ds = '1'")
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    assert set(metastore.partition_names("s", "t")) == {"ds=1", "ds=2", "ds=3"}


def test_condition_of_a_mend_is_checked(catalog: Catalog) -> None:
    for source in ("store", "index", "metastore"):
        with pytest.raises(InvalidPredicateError, match="x"):
            mended(catalog, source, where="x = 1")


def test_partition_that_comes_back_during_a_mend_stays_in_the_metastore(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Hive engine drops the partition, and creates it again before the mend has delivered its messages."""
    publish, created = MetastoreSync.publish, [at(tmp_path / "t" / "ds=2", "2")]

    def late(sync: MetastoreSync, table_id: int | None = None) -> DeliveryReport | None:
        metastore.add_partitions("s", "t", [created.pop()] if created else [])
        return publish(sync, table_id)

    metastore.drop_partitions("s", "t", ["ds=2"])
    monkeypatch.setattr(MetastoreSync, "publish", late)
    assert actions(mended(catalog, "metastore", drop=True)) == {("drop", "ds=2"): True}
    catalog.deliver()
    assert list(metastore.partition_names("s", "t")) == ["ds=1", "ds=2"]
    assert actions(mended(catalog, "metastore")) == {("add", "ds=2"): True}
    assert indexed(catalog) == {"ds=1": {"a.csv": 1}, "ds=2": {"a.csv": 1}}


def test_partition_that_hive_drops_after_a_mend_does_not_come_back(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mend sends no message about a partition that it takes from the metastore: it could arrive after the drop."""

    def refuses(*_: object) -> None:
        raise MetastoreUnavailableError("no change is accepted now")

    write(tmp_path / "t", "ds=3/b.csv")
    metastore.add_partitions("s", "t", [at(tmp_path / "t" / "ds=3", "3")])
    with monkeypatch.context() as broken:
        broken.setattr(metastore, "alter_partitions", refuses)
        assert actions(mended(catalog, "metastore")) == {("add", "ds=3"): True}
    metastore.drop_partitions("s", "t", ["ds=3"])
    catalog.index.outbox.retry()
    catalog.deliver()
    assert list(metastore.partition_names("s", "t")) == ["ds=1", "ds=2"]
