"""Following a metastore that keeps a log: what others change there reaches the index, once, and ours does nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.conf.service_keys import allowed_locations
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, HiveDatabase, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.index.write.applier import Applier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.allowed_locations import Allowed
from tests.kit.fakes_metastore import serving
from tests.kit.fakes_metastore_log import LoggingMetastore
from tests.kit.repair_cases import indexed, write
from tests.kit.writes import insert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.hms_events.suspects import FollowOutcome, TableOutcome

PARQUET = HiveStorage(
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> LoggingMetastore:
    made = LoggingMetastore()
    made.create_database(HiveDatabase("default"))
    made.create_database(HiveDatabase("s"))
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: made))
    monkeypatch.setattr("catalog_ext.metastore.hive.identity.CONFIRM_AFTER_S", 0.0)
    return made


def open_catalog(folder: Path) -> Catalog:
    return catalog_ext.connect(
        index=str(folder / "index.db"), metastore="thrift://fake:9083", warehouse=str(folder / "warehouse")
    )


@pytest.fixture
def catalog(tmp_path: Path, server: LoggingMetastore) -> Iterator[Catalog]:
    with open_catalog(tmp_path) as catalog:
        yield catalog


def hive_table(root: Path, name: str = "t", keys: tuple[str, ...] = ("ds",)) -> HiveTable:
    """A table that a Hive engine has made."""
    columns = (Column("x", "int"),)
    return HiveTable(
        "s", name, EXTERNAL_TABLE, f"file:{root}", columns, tuple(Column(k, "string") for k in keys), PARQUET,
        {"EXTERNAL": "TRUE"},
    )  # fmt: skip


def add(server: LoggingMetastore, root: Path, *values: str, table: str = "t", at: Path | None = None) -> None:
    """What Hive does for ADD PARTITION, and for an INSERT into a new one."""
    partitions = [HivePartition((value,), f"file:{at or root / f'ds={value}'}") for value in values]
    server.add_partitions("s", table, partitions)


@pytest.fixture
def root(catalog: Catalog, server: LoggingMetastore, tmp_path: Path) -> Path:
    """Where an imported table with the partition ``ds=a`` lies, which is followed from now on."""
    root = tmp_path / "t"
    write(root, "ds=a/one")
    server.create_table(hive_table(root))
    add(server, root, "a")
    catalog.import_table("s.t")
    assert catalog.follower.look().gap is None
    return root


def followed(catalog: Catalog, table: str = "s.t") -> TableOutcome:
    """What one look has come to in the table."""
    outcome = catalog.follower.look()
    (found,) = [each for each in outcome.tables if each.table == table]
    return found


def counts(outcome: TableOutcome) -> tuple[int, int, int]:
    return outcome.added, outcome.dropped, outcome.changed


def test_an_insert_into_a_known_partition_arrives(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    assert counts(followed(catalog)) == (0, 0, 1)
    assert indexed(catalog) == {"ds=a": {"one": 1, "two": 1}}


@pytest.mark.parametrize("version", ["import", "look"])
def test_event_with_old_statistics_in_our_versions_second_is_checked(
    catalog: Catalog, server: LoggingMetastore, root: Path, version: str
) -> None:
    """LOAD DATA of Hive 4 sets the statistics of before, and the second may be the one in which we registered them."""
    name = "ds=a" if version == "import" else "ds=b"
    if version == "look":
        write(root, "ds=b/one")
        add(server, root, "b")
        assert counts(followed(catalog)) == (1, 0, 0)
    newest = max(catalog.history("s.t"), key=lambda each: each.version)
    write(root, f"{name}/two")
    (there,) = server.partitions_by_names("s", "t", [name])
    second = str(newest.committed_at_ms // 1000)
    loaded = {**there.parameters, "numFiles": "1", "totalSize": "1", "transient_lastDdlTime": second}
    server.alter_partitions("s", "t", [replace(there, parameters=loaded)])
    assert counts(followed(catalog)) == (0, 0, 1)
    assert indexed(catalog)[name] == {"one": 1, "two": 1}


def test_a_new_partition_arrives_with_its_files(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    write(root, "ds=b/one", "ds=c/")
    add(server, root, "b", "c")
    add(server, root, "d", at=root.parent / "elsewhere")
    write(root.parent / "elsewhere", "x")
    assert counts(followed(catalog)) == (3, 0, 0)
    assert indexed(catalog) == {"ds=a": {"one": 1}, "ds=b": {"one": 1}, "ds=c": {}, "ds=d": {"x": 1}}
    table = catalog.load_table("s.t")
    assert catalog.index.partitions.located(table) == {"ds=d": f"file://{root.parent}/elsewhere"}


@pytest.mark.parametrize("vacuumed", [False, True], ids=["", "vacuum before the look"])
def test_a_hive_engine_takes_over_the_directory_of_replaced_files(
    catalog: Catalog, server: LoggingMetastore, root: Path, *, vacuumed: bool
) -> None:
    """A relocating overwrite replaced them, and the partition was dropped; Hive's ADD PARTITION names them again."""
    insert(catalog, "ds=a", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    catalog.partition_commands.drop("s.t", [Comparison(Operator.EQ, "ds", "a")])
    catalog.deliver()
    catalog.follower.look()
    add(server, root, "a")
    if vacuumed:
        report = catalog.vacuum("s.t", retention=0, allow_short_retention=True)
        assert [entry.path for entry in report.failed] == [f"file://{root}/ds=a"]
    assert counts(followed(catalog)) == (1, 0, 0)
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert indexed(catalog) == {"ds=a": {"one": 1}}
    assert (root / "ds=a" / "one").exists()


@pytest.mark.slow
@pytest.mark.parametrize("gap", [False, True])
def test_one_that_gets_its_first_name_back_is_where_it_lies(
    catalog: Catalog, server: LoggingMetastore, root: Path, *, gap: bool
) -> None:
    """Of an external table a renamed partition keeps its directory: another one's has had that until now."""
    server.rename_partition("s", "t", "ds=a", ("z",))
    assert counts(followed(catalog)) == (1, 1, 0)
    assert indexed(catalog) == {"ds=z": {"one": 1}}
    server.rename_partition("s", "t", "ds=z", ("a",))
    if gap:
        server.log.clear()
    assert counts(followed(catalog)) == (1, 1, 0)
    assert indexed(catalog) == {"ds=a": {"one": 1}}


def test_one_comes_to_a_directory_from_which_another_one_has_moved(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    server.rename_partition("s", "t", "ds=a", ("z",))
    followed(catalog)
    write(root, "moved/two")
    moved = replace(server._partitions["s", "t"]["z",], location=f"file:{root}/moved")
    server.alter_partitions("s", "t", [moved])
    add(server, root, "a")
    followed(catalog)
    assert indexed(catalog) == {"ds=a": {"one": 1}, "ds=z": {"two": 1}}


def test_another_descriptor_is_taken_over_and_one_that_is_not_read_is_said(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    (there,) = server.partitions_by_names("s", "t", ["ds=a"])
    orc = HiveStorage(
        "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat", "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
    )  # fmt: skip
    server.alter_partitions("s", "t", [replace(there, storage=orc, columns=(Column("x", "int"),))])
    assert counts(followed(catalog)) == (0, 0, 1)
    (descriptor,) = catalog.index.descriptors.of_table(catalog.load_table("s.t")).values()
    assert descriptor.format == "orc"
    assert catalog.index.outbox.count() == 0
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    assert counts(followed(catalog)) == (0, 0, 1)
    assert catalog.index.descriptors.of_table(catalog.load_table("s.t")), "new files do not change it"

    write(root, "ds=b/one", "ds=c/one")
    with_orc = HivePartition(("b",), f"file:{root}/ds=b", {}, orc, (Column("x", "int"), Column("more", "string")))
    server.add_partitions("s", "t", [with_orc, replace(with_orc, values=("c",), storage=replace(orc, serde="Avro"))])
    outcome = followed(catalog)
    assert counts(outcome) == (1, 0, 0)
    assert any("ds=c: its storage is Avro over" in why for why in outcome.skipped)
    assert len(catalog.index.descriptors.of_table(catalog.load_table("s.t"))) == 2

    server.alter_partitions("s", "t", [replace(there, storage=PARQUET)])
    assert counts(followed(catalog)) == (0, 0, 1)
    assert [d.columns[-1].name for d in catalog.index.descriptors.of_table(catalog.load_table("s.t")).values()] == [
        "more"
    ]


def test_table_that_hive_cannot_hold_is_reported(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    """A query of Hive's has made it, with a column of NULL alone."""
    place = root.parent / "v"
    columns = (Column("x", "int"), Column("nothing", "void"))
    server.create_table(replace(hive_table(place, "v"), columns=columns))
    write(place, "ds=a/one")
    catalog.import_table("s.v")
    add(server, place, "a", table="v")
    outcome = followed(catalog, "s.v")
    assert outcome.action == "left"
    assert "Hive has no type for column 'nothing' VOID" in (outcome.error or "")
    assert [entry.table for entry in catalog.status() if entry.kind == "suspect"] == ["s.v"]


def test_cascaded_columns_reach_partitions_with_a_descriptor(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    (there,) = server.partitions_by_names("s", "t", ["ds=a"])
    orc = storage_of("orc", {}, "")
    server.alter_partitions("s", "t", [replace(there, storage=orc, columns=(Column("x", "int"),))])
    followed(catalog)
    table = server.get_table("s", "t")
    columns = (*table.columns, Column("y", "string"))
    server._tables["s", "t"] = replace(table, columns=columns)
    held = server._partitions["s", "t"]
    held[("a",)] = replace(held[("a",)], columns=columns)
    server.emit("ALTER_TABLE", "s", "t", definition=True, columns=True)
    followed(catalog)
    (descriptor,) = catalog.index.descriptors.of_table(catalog.load_table("s.t")).values()
    assert [c.name for c in descriptor.columns] == ["x", "y"]


def test_a_partition_of_which_nothing_lies_on_the_store_is_there(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    add(server, root, "b")
    assert counts(followed(catalog)) == (1, 0, 0)
    (root / "ds=a" / "one").unlink()
    (root / "ds=a").rmdir()
    server.insert("s", "t", "ds=a")
    assert counts(followed(catalog)) == (0, 0, 1), "an overwrite by no rows leaves an empty partition"
    assert indexed(catalog) == {"ds=a": {}, "ds=b": {}}
    assert list(server.partition_names("s", "t")) == ["ds=a", "ds=b"]


def test_a_dropped_partition_goes_though_its_files_stay(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    write(root, "ds=b/one")
    add(server, root, "b")
    followed(catalog)
    server.drop_partitions("s", "t", ["ds=a"])
    assert counts(followed(catalog)) == (0, 1, 0)
    assert indexed(catalog) == {"ds=b": {"one": 1}}
    assert (root / "ds=a" / "one").exists()
    assert catalog.index.outbox.count() == 0, "the metastore gets no message about its own change"


def test_a_partition_that_was_dropped_and_came_again_stays(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    server.drop_partitions("s", "t", ["ds=a"])
    write(root, "ds=a/two")
    add(server, root, "a")
    assert counts(followed(catalog)) == (0, 0, 1)
    assert indexed(catalog) == {"ds=a": {"one": 1, "two": 1}}


def test_a_renamed_partition_has_its_files_in_one_version(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    before = catalog.load_table("s.t").version
    server.rename_partition("s", "t", "ds=a", ("b",))
    assert counts(followed(catalog)) == (1, 1, 0)
    assert indexed(catalog) == {"ds=b": {"one": 1}}
    table = catalog.load_table("s.t")
    assert table.version == before + 1
    assert catalog.index.partitions.located(table) == {"ds=b": f"file://{root}/ds=a"}
    assert counts(followed_again(catalog, server)) == (0, 0, 0)


def followed_again(catalog: Catalog, server: LoggingMetastore) -> TableOutcome:
    """All events once more, as after a kill: nothing is left to do."""
    catalog.follower.look()
    (found,) = replayed(catalog, server).tables
    return found


def replayed(catalog: Catalog, server: LoggingMetastore) -> FollowOutcome:
    from tests.unit.hms_events.states import set_cursor

    set_cursor(catalog, 0)
    return catalog.follower.look()


def test_a_partition_that_moved_is_read_at_its_new_place(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    write(root.parent / "moved", "new")
    (there,) = server.partitions_by_names("s", "t", ["ds=a"])
    server.alter_partitions("s", "t", [replace(there, location=f"file:{root.parent}/moved")])
    assert counts(followed(catalog)) == (0, 0, 1)
    assert indexed(catalog) == {"ds=a": {"new": 1}}


def test_columns_and_properties_changed_in_hive_are_imported(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    catalog.alterations.alter("s.t", [], set_={"mine": "1"})
    catalog.deliver()
    before = catalog.load_table("s.t")
    there = server.get_table("s", "t")
    server.alter_table(replace(
        there, columns=(*there.columns, Column("y", "string", comment="new")), parameters={**there.parameters, "a": "1"}
    ))  # fmt: skip
    assert followed(catalog).altered
    definition = catalog.load_table("s.t").definition
    assert [(c.name, c.type, c.comment) for c in definition.columns] == [("x", "int", None), ("y", "string", "new")]
    assert (definition.properties["a"], definition.properties["mine"]) == ("1", "1")
    # What files that are there have noted under the name may be of a column that was there before.
    assert [c.statistics_after for c in definition.columns] == [None, before.version]
    now = catalog.load_table("s.t")
    assert now.version == before.version + 1
    assert catalog.index.definition_history.at(now, before.version).definition.columns == before.definition.columns
    there = server.get_table("s", "t")
    server.alter_table(replace(there, parameters={k: v for k, v in there.parameters.items() if k != "a"}))
    assert followed(catalog).altered
    assert "a" not in catalog.load_table("s.t").definition.properties


def test_a_type_that_no_file_can_be_read_as_is_refused_and_said(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    server._tables["s", "t"] = replace(server.get_table("s", "t"), columns=(Column("x", "date"),))
    server.emit("ALTER_TABLE", "s", "t", definition=True, columns=True)
    write(root, "ds=a/two")
    server.insert("s", "t", "ds=a")
    outcome = followed(catalog)
    assert (outcome.action, counts(outcome)) == ("refused", (0, 0, 1))
    assert "has become DATE in the metastore" in (outcome.error or "")
    assert catalog.load_table("s.t").definition.columns[0].type == "int"
    (kept,) = catalog.index.followed.suspects()
    assert (kept.table, kept.suspect) == ("s.t", None)


def test_a_dropped_table_goes_and_its_files_stay(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    server.drop_table("s", "t")
    assert followed(catalog).action == "removed"
    assert catalog.list_tables("s") == []
    assert (root / "ds=a" / "one").exists()


def test_partition_at_a_location_that_is_not_allowed_is_left_out(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    """The other partitions of the table are followed all the same."""
    catalog.allowed.restrict(allowed_locations({}, standing=True))
    write(root, "ds=b/one")
    write(root.parent / "elsewhere", "x")
    add(server, root, "b")
    add(server, root, "c", at=root.parent / "elsewhere")
    (there,) = server.partitions_by_names("s", "t", ["ds=a"])
    server.alter_partitions("s", "t", [replace(there, location=f"file:{root.parent}/elsewhere")])
    outcome = followed(catalog)
    assert (counts(outcome), outcome.action) == ((1, 0, 0), "followed")
    assert indexed(catalog) == {"ds=a": {"one": 1}, "ds=b": {"one": 1}}
    assert {each.partition(":")[0] for each in outcome.skipped} == {"ds=a", "ds=c"}
    assert all("is refused" in each for each in outcome.skipped)
    assert catalog.follower.look().is_idle


def test_table_at_a_location_that_is_not_allowed_is_refused(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    catalog.allowed.restrict(allowed_locations({}, standing=True))
    write(root.parent / "u", "ds=a/one")
    server.create_table(hive_table(root.parent / "u", "u"))
    server.alter_table(replace(server.get_table("s", "t"), location=f"file:{root.parent}/u"))
    outcome = catalog.follower.look(databases=["s"])
    assert {each.table: "is refused" in (each.error or "") for each in outcome.tables} == {"s.t": True, "s.u": True}
    assert catalog.list_tables("s") == ["t"]
    assert catalog.load_table("s.t").definition.location == f"file://{root}"


def test_a_renamed_table_keeps_its_history(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    number = catalog.load_table("s.t").table_id
    server.rename_table("s", "t", "s", "u")
    assert followed(catalog).action == "renamed"
    assert catalog.load_table("s.u").table_id == number


def test_new_tables_of_followed_databases_are_taken_and_refusals_kept(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    write(root.parent / "u", "ds=a/one")
    server.create_table(hive_table(root.parent / "u", "u"))
    add(server, root.parent / "u", "a", table="u")
    acid = hive_table(root.parent / "acid", "acid")
    server.create_table(replace(acid, parameters={"transactional": "true"}))
    outcome = catalog.follower.look(databases=["s"])
    assert {each.table: each.action for each in outcome.tables} == {"s.u": "imported", "s.acid": "refused"}
    assert indexed(catalog, "s.u") == {"ds=a": {"one": 1}}
    (kept,) = catalog.index.followed.suspects()
    assert "ACID" in kept.error
    calls = server.calls["get_table"]
    assert catalog.follower.look(databases=["s"]).is_idle
    assert server.calls["get_table"] == calls, "a refused table is not asked for again"
    assert catalog.follower.look().is_idle


def test_tables_of_other_databases_are_left_alone(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    server.create_table(hive_table(root.parent / "u", "u"))
    followed(catalog, "s.u")
    assert catalog.list_tables("s") == ["t"]


def test_our_own_deliveries_are_not_looked_at(catalog: Catalog, server: LoggingMetastore, tmp_path: Path) -> None:
    place = tmp_path / "own"
    write(place, "ds=a/one", "ds=b/one")
    catalog.create_namespace("s")
    catalog.register_table(
        "s.own", location=str(place), partition_columns={"ds": "STRING"}, schema="x INT", format="parquet"
    )
    catalog.follower.look()
    catalog.repair_partitions("s.own")
    write(place, "ds=a/two")
    catalog.repair_partitions("s.own")
    assert catalog.deliver().pending == 0
    version = catalog.load_table("s.own").version
    outcome = catalog.follower.look()
    assert outcome.events == 2
    assert [each.checked for each in outcome.tables] == [0]
    assert catalog.load_table("s.own").version == version


@pytest.mark.slow
def test_an_own_delivery_is_known_again_when_the_commit_has_taken_seconds(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "own"
    write(place, "ds=a/one")
    catalog.create_namespace("s")
    catalog.register_table(
        "s.own", location=str(place), partition_columns={"ds": "STRING"}, schema="x INT", format="parquet"
    )
    catalog.follower.look()
    flush = Applier.flush

    def flushed(applier: Applier) -> None:
        flush(applier)
        time.sleep(1.0)

    monkeypatch.setattr(Applier, "flush", flushed)
    catalog.repair_partitions("s.own")
    assert catalog.deliver().pending == 0
    assert [each.checked for each in catalog.follower.look().tables] == [0]


def test_undelivered_changes_win(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    """A drop of ours that is on its way is not undone, and neither is a partition of ours that the other dropped."""
    write(root, "ds=b/one", "ds=c/one")
    add(server, root, "b", "c")
    followed(catalog)
    server.down = True
    catalog.partition_maintenance.drop("s.t", {"ds": "b"})
    write(root, "ds=c/two")
    catalog.repair_partitions("s.t", where="ds = 'c'")
    server.down = False
    server.insert("s", "t", "ds=b")
    server.drop_partitions("s", "t", ["ds=c"])
    outcome = followed(catalog)
    assert counts(outcome) == (0, 0, 0)
    assert indexed(catalog) == {"ds=a": {"one": 1}, "ds=c": {"one": 1, "two": 1}}
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    assert sorted(server.partition_names("s", "t")) == ["ds=a", "ds=c"]
    catalog.follower.look()
    assert sorted(indexed(catalog)) == ["ds=a", "ds=c"]


def test_a_write_of_ours_is_not_looked_at_and_hives_beside_it_is(
    catalog: Catalog, server: LoggingMetastore, tmp_path: Path
) -> None:
    """Both in one batch: what Hive has put beside our file is found, and our write costs nothing."""
    place = tmp_path / "own"
    place.mkdir()
    catalog.create_namespace("s")
    catalog.register_table(
        "s.own", location=str(place), partition_columns={"ds": "STRING"}, schema="x INT", format="parquet"
    )
    catalog.follower.look()
    insert(catalog, "ds=a", "ds=b", table="s.own")
    insert(catalog, "ds=a", "ds=x%2Fy", "ds=__HIVE_DEFAULT_PARTITION__", table="s.own")
    assert catalog.deliver().pending == 0
    outcome = catalog.follower.look()
    assert [each.checked for each in outcome.tables] == [0]
    write(place, "ds=a/hive", "ds=x%2Fy/hive")
    (there,) = server.partitions_by_names("s", "own", ["ds=a"])
    counted = {**there.parameters, "numFiles": "9", "totalSize": "9", "transient_lastDdlTime": "9"}
    server.alter_partitions("s", "own", [replace(there, parameters=counted)])
    insert(catalog, "ds=a", "ds=b", table="s.own")
    assert catalog.deliver().pending == 0
    server.insert("s", "own", "ds=x%2Fy")
    server.insert("s", "own", "ds=__HIVE_DEFAULT_PARTITION__")
    outcome = followed(catalog, "s.own")
    assert (outcome.checked, counts(outcome)) == (3, (0, 0, 2))
    assert {name: len(files) for name, files in indexed(catalog, "s.own").items()} == {
        "ds=a": 4, "ds=b": 2, "ds=x%2Fy": 2, "ds=__HIVE_DEFAULT_PARTITION__": 1,
    }  # fmt: skip


def test_a_table_that_was_dropped_and_made_again_is_the_new_one(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    server.drop_table("s", "t")
    made = hive_table(root)
    server.create_table(replace(made, columns=(*made.columns, Column("y", "string"))))
    write(root, "ds=b/one")
    add(server, root, "b")
    outcome = followed(catalog)
    assert (counts(outcome), outcome.altered) == ((1, 1, 0), True)
    assert indexed(catalog) == {"ds=b": {"one": 1}}
    assert [c.name for c in catalog.load_table("s.t").definition.columns] == ["x", "y"]


def test_partition_outside_the_allowed_locations_is_skipped(
    catalog: Catalog, server: LoggingMetastore, root: Path, tmp_path: Path
) -> None:
    """Its error kept the follower from the whole table, event after event."""
    catalog.allowed.restrict(Allowed(everything=False))
    write(root, "ds=c/one")
    write(tmp_path / "elsewhere", "one")
    add(server, root, "b", at=tmp_path / "elsewhere")
    add(server, root, "c")
    outcome = followed(catalog)
    assert counts(outcome) == (1, 0, 0)
    assert any("ds=b: The location" in why and "storage.allow" in why for why in outcome.skipped)
    assert set(indexed(catalog)) == {"ds=a", "ds=c"}
