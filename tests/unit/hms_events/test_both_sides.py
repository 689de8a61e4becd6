"""Hive and we change one table, and its names: no acknowledged write is lost."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.repair_cases import indexed, write
from tests.kit.writes import insert
from tests.unit.hms_events.test_following import add, counts, followed, hive_table
from tests.unit.hms_events.test_following import catalog as catalog
from tests.unit.hms_events.test_following import root as root
from tests.unit.hms_events.test_following import server as server

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore_log import LoggingMetastore


def held_insert(catalog: Catalog, server: LoggingMetastore, partition: str) -> None:
    """A write of ours of which the metastore has not heard yet."""
    server.down = True
    insert(catalog, partition)
    server.down = False


def test_what_events_say_before_a_rename_holds_under_the_new_name(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    write(root, "ds=a/two", "ds=b/one")
    add(server, root, "b")
    followed(catalog)
    (root / "ds=a" / "one").unlink()
    server.insert("s", "t", "ds=a")
    server.drop_partitions("s", "t", ["ds=b"])
    server.rename_table("s", "t", "s", "u")
    catalog.follower.look()
    assert catalog.list_tables("s") == ["u"]
    assert indexed(catalog, "s.u") == {"ds=a": {"two": 1}}


def test_what_is_pending_goes_to_the_name_that_hive_has_given(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    server.rename_table("s", "t", "s", "u")
    held_insert(catalog, server, "ds=b")
    catalog.follower.look()
    assert catalog.list_tables("s") == ["u"]
    assert catalog.deliver().pending == 0
    assert list(server.partition_names("s", "u")) == ["ds=a", "ds=b"]


def test_partition_of_an_undelivered_table_is_checked_again(
    catalog: Catalog, server: LoggingMetastore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive has made the table of the name before our message came, and has added a partition to it."""
    monkeypatch.setattr("catalog_ext.hms_events.run._FIRST_PAUSE_MS", 0)
    place = tmp_path / "n"
    write(place, "ds=b/one")
    server.down = True
    catalog.register_table(
        "s.n", location=str(place), partition_columns={"ds": "STRING"}, schema="x INT", format="parquet"
    )
    server.down = False
    server.create_table(hive_table(place, "n"))
    add(server, place, "b", table="n")
    catalog.follower.look()
    assert indexed(catalog, "s.n") == {}, "our own message may change it"
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    for _ in range(3):
        catalog.follower.look()
    assert indexed(catalog, "s.n") == {"ds=b": {"one": 1}}


def test_partitions_of_events_before_the_end_of_their_table_go_with_it(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    server.insert("s", "t", "ds=a")
    server.drop_table("s", "t")
    server.create_table(hive_table(root))
    assert counts(followed(catalog)) == (0, 1, 0)
    server.rename_table("s", "t", "s", "u")
    catalog.follower.look()
    server.drop_table("s", "u")
    server.create_table(hive_table(root, "u"))
    add(server, root, "a", table="u")
    server.drop_table("s", "u")
    server.create_table(hive_table(root, "u"))
    server.rename_table("s", "u", "s", "t")
    catalog.follower.look()
    assert indexed(catalog) == {}


def test_a_dropped_table_to_which_we_have_written_stays(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    held_insert(catalog, server, "ds=b")
    server.drop_table("s", "t")
    outcome = followed(catalog)
    assert outcome.action == "left"
    assert sorted(indexed(catalog)) == ["ds=a", "ds=b"]
    (entry,) = [each for each in catalog.status() if each.kind == "suspect"]
    assert "publish s.t creates it again" in entry.detail
    assert [each.pending for each in catalog.publish("s.t")] == [0]
    catalog.follower.look()
    assert sorted(server.partition_names("s", "t")) == ["ds=a", "ds=b"]
    assert [each for each in catalog.status() if each.kind == "suspect"] == []


@pytest.mark.slow
def test_table_dropped_without_an_event_stays_if_we_have_written(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    held_insert(catalog, server, "ds=b")
    server.drop_table("s", "t")
    server.log.clear()
    outcome = followed(catalog)
    assert outcome.action == "refused"
    assert sorted(indexed(catalog)) == ["ds=a", "ds=b"]


@pytest.mark.parametrize("names", [["u"], ["u", "v"], ["swap"]])
def test_a_partition_that_hive_drops_before_our_rename_arrives_goes(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    """One rename, two, and a swap with another table: the drop waits until the metastore has the new name."""
    monkeypatch.setattr("catalog_ext.hms_events.run._FIRST_PAUSE_MS", 0)
    other = root.parent / "o"
    write(other, "ds=a/other")
    server.create_table(hive_table(other, "o"))
    add(server, other, "a", table="o")
    catalog.import_table("s.o")
    add(server, root, "b")
    catalog.follower.look()
    steps = [("t", "x"), ("o", "t"), ("x", "o")] if names == ["swap"] else list(zip(["t", *names], names, strict=False))
    server.down = True
    for before, after in steps:
        catalog.alterations.rename(f"s.{before}", f"s.{after}")
    server.down = False
    new = f"s.{steps[-1][1]}"
    server.drop_partitions("s", "t", ["ds=b"])
    outcome = followed(catalog, new)
    assert (outcome.action, outcome.dropped) == ("left", 0)
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    catalog.follower.look()
    assert indexed(catalog, new) == {"ds=a": {"one": 1}}
    assert not catalog.index.followed.suspects()
    if names == ["swap"]:
        assert indexed(catalog, "s.t") == {"ds=a": {"other": 1}}


def test_a_partition_that_hive_drops_before_our_alteration_arrives_goes(
    catalog: Catalog, server: LoggingMetastore, root: Path
) -> None:
    server.down = True
    catalog.alterations.alter_table_properties("s.t", set_={"ours": "1"})
    server.down = False
    server.drop_partitions("s", "t", ["ds=a"])
    assert followed(catalog).dropped == 1
    assert indexed(catalog) == {}


def test_a_property_that_hive_sets_before_our_alteration_is_adopted(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog_ext.hms_events.run._FIRST_PAUSE_MS", 0)
    server.down = True
    catalog.alterations.alter_table_properties("s.t", set_={"ours": "1"})
    server.down = False
    table = server.get_table("s", "t")
    server.alter_table(replace(table, parameters={**table.parameters, "hives": "1"}))
    assert followed(catalog).action == "left"
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    catalog.follower.look()
    assert catalog.load_table("s.t").definition.properties == {"ours": "1", "hives": "1"}
    assert not catalog.index.followed.suspects()
