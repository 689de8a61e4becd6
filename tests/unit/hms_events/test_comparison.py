"""Following a metastore that keeps no log: partition lists are compared, and what an earlier look saw was dropped."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.hms_events import comparison
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import Column
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.kit.repair_cases import indexed, write
from tests.kit.writes import insert
from tests.unit.hms_events.test_following import counts, followed, hive_table, open_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

ONE = {"one": 1}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    made = FakeMetastore()
    made.create_database(HiveDatabase("default"))
    made.create_database(HiveDatabase("s"))
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: made))
    monkeypatch.setattr("catalog_ext.metastore.hive.identity.CONFIRM_AFTER_S", 0.0)
    monkeypatch.setenv("CATALOG_EXT_FOLLOW_COMPARE_INTERVAL", "0.1ms")  # in whole milliseconds: always due
    return made


@pytest.fixture
def catalog(tmp_path: Path, server: FakeMetastore) -> Iterator[Catalog]:
    with open_catalog(tmp_path) as catalog:
        yield catalog


def hold(server: FakeMetastore, root: Path, *names: str, table: str = "t", files: int = 1) -> None:
    """Partitions as Hive adds them, which counts their files of one byte."""
    server.add_partitions(
        "s", table,
        [
            HivePartition((n,), f"file:{root}/ds={n}", {"numFiles": str(files), "totalSize": str(files)}) for n in names
        ],
    )  # fmt: skip


@pytest.fixture
def root(catalog: Catalog, server: FakeMetastore, tmp_path: Path) -> Path:
    root = tmp_path / "t"
    write(root, *(f"ds={name}/one" for name in "abc"))
    server.create_table(hive_table(root))
    hold(server, root, *"abc")
    catalog.import_table("s.t")
    assert catalog.follower.look().source == "comparison"
    return root


def test_what_came_changed_and_went_is_found(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    write(root, "ds=d/one", "ds=a/two")
    hold(server, root, "d")
    (a,) = server.partitions_by_names("s", "t", ["ds=a"])
    server.alter_partitions("s", "t", [replace(a, parameters={"numFiles": "2", "totalSize": "2"})])
    server.drop_partitions("s", "t", ["ds=b"])
    there = server.get_table("s", "t")
    server.alter_table(replace(there, columns=(*there.columns, Column("y", "string"))))
    outcome = followed(catalog)
    assert (counts(outcome), outcome.checked, outcome.altered) == ((1, 1, 1), 2, True)
    assert indexed(catalog) == {"ds=a": {"one": 1, "two": 1}, "ds=c": ONE, "ds=d": ONE}
    assert counts(followed(catalog)) == (0, 0, 0)


def test_what_is_otherwise_since_ever_is_left_as_it_is(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    """Which side is newer is unknown for columns and properties that differ at the first comparison."""
    catalog.index.alterations.alter(
        catalog.identify("s.t"),
        lambda d: replace(d, columns=(*d.columns, Column("mine", "int")), properties={"p": "mine"}),
        deliver=False,
    )
    there = server.get_table("s", "t")
    server.alter_table(replace(there, parameters={**there.parameters, "q": "theirs"}))
    assert followed(catalog).altered
    definition = catalog.load_table("s.t").definition
    assert [c.name for c in definition.columns] == ["x", "mine"]
    assert dict(definition.properties) == {"p": "mine", "q": "theirs"}
    there = server.get_table("s", "t")
    server.alter_table(replace(there, parameters={k: v for k, v in there.parameters.items() if k != "q"}))
    assert followed(catalog).altered
    assert dict(catalog.load_table("s.t").definition.properties) == {"p": "mine"}


def test_a_dropped_table_without_partition_columns_goes(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    server.create_table(hive_table(root.parent / "plain", "plain", keys=()))
    write(root.parent / "plain", "one")
    catalog.import_table("s.plain")
    catalog.follower.look()
    server.drop_table("s", "plain")
    assert followed(catalog, "s.plain").action == "removed"


def test_partitions_whose_sizes_are_ours_are_not_listed(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    write(root, "ds=a/two")
    assert followed(catalog).checked == 0


def test_what_the_metastore_has_counted_otherwise_is_looked_at_once(
    catalog: Catalog, server: FakeMetastore, root: Path
) -> None:
    (a,) = server.partitions_by_names("s", "t", ["ds=a"])
    server.alter_partitions("s", "t", [replace(a, parameters={"numFiles": "9", "totalSize": "9"})])
    looks = [followed(catalog).checked for _ in range(5)]
    assert looks == [1, 0, 1, 0, 0], "once, and once when the statistics have been set, which is a change"
    write(root, "ds=a/two")
    server.alter_partitions("s", "t", [replace(a, parameters={"numFiles": "8", "totalSize": "9"})])
    assert counts(followed(catalog)) == (0, 0, 1)


def test_what_hive_has_inserted_before_our_append_is_found(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    """The metastore has the partition as our last message has it."""
    (there,) = server.partitions_by_names("s", "t", ["ds=a"])
    write(root, "ds=a/hive")
    changed = {"numFiles": "2", "totalSize": "2", "transient_lastDdlTime": str(int(time.time()))}
    server.alter_partitions("s", "t", [replace(there, parameters={**there.parameters, **changed})])
    insert(catalog, "ds=a")
    assert catalog.deliver().pending == 0
    assert followed(catalog).checked == 1
    assert {"one", "hive"} < set(indexed(catalog)["ds=a"])
    followed(catalog)
    assert followed(catalog).checked == 0, "once for each commit, that of the look included"


def test_a_job_that_has_run_once_more_and_left_as_many_bytes(
    catalog: Catalog, server: FakeMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "_WAITED_S", -3600)
    (there,) = server.partitions_by_names("s", "t", ["ds=a"])
    (root / "ds=a" / "one").unlink()
    write(root, "ds=a/two")
    for since_s, checked in ((-7200, 0), (5, 1)):
        changed = {"transient_lastDdlTime": str(int(time.time()) + since_s)}
        server.alter_partitions("s", "t", [replace(there, parameters={**there.parameters, **changed})])
        assert followed(catalog).checked == checked
    followed(catalog)
    assert followed(catalog).checked == 0, "not again and again"
    assert indexed(catalog)["ds=a"] == {"two": 1}


def test_a_partition_that_no_comparison_has_seen_stays(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    """A process adds partitions to the index alone: the metastore has never had them."""
    table = catalog.load_table("s.t")
    write(root, "ds=z/one")
    catalog.index.commits.apply_changes(table.table_id, [AddPartition("ds=z", ())], operation="repair", deliver=False)
    for _ in range(2):
        outcome = followed(catalog)
        assert counts(outcome) == (0, 0, 0)
        assert "ds=z: the metastore does not have it" in outcome.skipped[0]
    assert "ds=z" in indexed(catalog)


def test_most_partitions_at_once_are_not_dropped(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    names = [f"n{number:02}" for number in range(30)]
    write(root, *(f"ds={name}/one" for name in names))
    hold(server, root, *names)
    followed(catalog)
    followed(catalog)
    server.drop_partitions("s", "t", [f"ds={name}" for name in names])
    outcome = followed(catalog)
    assert outcome.action == "refused"
    assert "does not have 30 of the 33 partitions" in (outcome.error or "")
    assert len(indexed(catalog)) == 33


def test_a_dropped_table_goes_and_most_tables_stay(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    for name in ("u", "v", "w"):
        place = root.parent / name
        write(place, "ds=a/one")
        server.create_table(hive_table(place, name))
        hold(server, place, "a", table=name)
    outcome = catalog.follower.look(databases=["s"])
    assert {t.table: t.action for t in outcome.tables if t.table != "s.t"} == dict.fromkeys(
        ("s.u", "s.v", "s.w"), "imported"
    )
    server.drop_table("s", "u")
    assert followed(catalog, "s.u").action == "removed"
    server.drop_table("s", "v")
    server.drop_table("s", "w")
    catalog.follower.look()
    assert catalog.list_tables("s") == ["t", "v", "w"], "two of three at once: rather the metastore is broken"


def test_comparisons_come_at_their_interval(
    catalog: Catalog, server: FakeMetastore, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CATALOG_EXT_FOLLOW_COMPARE_INTERVAL", "1h")
    catalog.follower.close()
    with open_catalog(tmp_path) as patient:
        calls = server.calls["partition_names"]
        assert patient.follower.look().is_idle
        assert server.calls["partition_names"] == calls
        (entry,) = [e for e in patient.status() if e.kind == "follower"]
        assert entry.detail.startswith("no log, compared from time to time")


def import_plain(catalog: Catalog, server: FakeMetastore, root: Path) -> Path:
    """A table of one file and no partition columns; where it lies."""
    place = root.parent / "plain"
    write(place, "one")
    server.create_table(hive_table(place, "plain", keys=()))
    catalog.import_table("s.plain")
    return place


def test_tables_without_partition_columns_are_compared_by_their_sizes(
    catalog: Catalog, server: FakeMetastore, root: Path
) -> None:
    place = import_plain(catalog, server, root)
    catalog.follower.look()
    write(place, "two")
    assert followed(catalog, "s.plain").checked == 0
    there = server.get_table("s", "plain")
    server.alter_table(replace(there, parameters={**there.parameters, "numFiles": "2", "totalSize": "2"}))
    assert counts(followed(catalog, "s.plain")) == (0, 0, 1)
    assert indexed(catalog, "s.plain") == {"": {"one": 1, "two": 1}}


def test_a_descriptor_of_a_partition_without_statistics_is_seen(
    catalog: Catalog, server: FakeMetastore, root: Path
) -> None:
    (a,) = server.partitions_by_names("s", "t", ["ds=a"])
    unknown = replace(a, parameters={})
    server.alter_partitions("s", "t", [unknown])
    catalog.follower.look()
    orc = storage_of("orc", {}, "file:///t")
    server.alter_partitions("s", "t", [replace(unknown, storage=orc, columns=(Column("x", "int"),))])
    assert counts(followed(catalog)) == (0, 0, 1)
    assert [d.format for d in catalog.index.descriptors.of_table(catalog.load_table("s.t")).values()] == ["orc"]
    assert followed(catalog).checked == 0, "what is known is as it was"
    server.alter_partitions(
        "s", "t", [replace(unknown, storage=replace(orc, serde="Avro"), columns=(Column("x", "int"),))]
    )
    assert any("ds=a: its storage is Avro" in why for why in followed(catalog).skipped)
    server.alter_partitions("s", "t", [unknown])
    assert counts(followed(catalog)) == (0, 0, 1)
    assert catalog.index.descriptors.of_table(catalog.load_table("s.t")) == {}


def differing(catalog: Catalog, table: str = "s.t") -> set[tuple[str, str]]:
    return {(each.kind.value, each.subject) for each in catalog.drift(table)}


def sizes(server: FakeMetastore, name: str) -> tuple[str, str]:
    (there,) = server.partitions_by_names("s", "t", [name])
    return there.parameters["numFiles"], there.parameters["totalSize"]


def test_stale_statistics_are_set_once_they_stay(catalog: Catalog, server: FakeMetastore, root: Path) -> None:
    """Spark's Hive catalog inserts into a partition and leaves its statistics as they were."""
    write(root, "ds=a/two")
    (a,) = server.partitions_by_names("s", "t", ["ds=a"])
    touched = {**a.parameters, "transient_lastDdlTime": str(int(time.time()) + 5)}
    server.alter_partitions("s", "t", [replace(a, parameters=touched)])
    assert counts(followed(catalog)) == (0, 0, 1)
    assert (differing(catalog), sizes(server, "ds=a")) == ({("statistics", "ds=a")}, ("1", "1"))
    assert followed(catalog).checked == 1, "the sizes are others now"
    assert sizes(server, "ds=a") == ("1", "1"), "Hive moves files first, and counts them then"
    followed(catalog)
    assert (differing(catalog), sizes(server, "ds=a")) == (set(), ("2", "2"))
    followed(catalog)
    calls = server.calls["alter_partitions"]
    assert [followed(catalog).checked for _ in range(3)] == [0, 0, 0]
    assert server.calls["alter_partitions"] == calls, "once"


def test_statistics_that_are_old_are_set_by_the_first_look(
    catalog: Catalog, server: FakeMetastore, root: Path, tmp_path: Path
) -> None:
    """As each run of `follow --once` is one of a process that remembers nothing."""
    (a,) = server.partitions_by_names("s", "t", ["ds=a"])
    old = {"numFiles": "9", "totalSize": "9", "transient_lastDdlTime": str(int(time.time()) - 4000)}
    server.alter_partitions("s", "t", [replace(a, parameters=old)])
    catalog.close()
    with open_catalog(tmp_path) as another:
        assert followed(another).checked == 1
        assert (differing(another), sizes(server, "ds=a")) == (set(), ("1", "1"))


def test_statistics_of_a_table_without_partition_columns_are_set(
    catalog: Catalog, server: FakeMetastore, root: Path
) -> None:
    import_plain(catalog, server, root)
    there = server.get_table("s", "plain")
    server.alter_table(replace(there, parameters={**there.parameters, "numFiles": "7", "totalSize": "7"}))
    assert [followed(catalog, "s.plain").checked for _ in range(5)] == [1, 0, 1, 0, 0]
    assert server.get_table("s", "plain").parameters["numFiles"] == "1"
    assert differing(catalog, "s.plain") == set()


def test_statistics_are_not_sent_while_a_change_of_ours_is_pending(
    catalog: Catalog, server: FakeMetastore, root: Path
) -> None:
    (a,) = server.partitions_by_names("s", "t", ["ds=a"])
    server.alter_partitions("s", "t", [replace(a, parameters={"numFiles": "9", "totalSize": "9"})])
    followed(catalog)
    table = catalog.load_table("s.t")
    catalog.index.file_statistics.enqueue_of(table, ["ds=a"])
    assert catalog.index.outbox.count() == 1
    server.calls.clear()
    followed(catalog)
    assert catalog.index.outbox.count() == 1, "it is on its way already"
