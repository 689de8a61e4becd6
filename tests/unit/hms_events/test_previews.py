"""Previews of a look say what the look then does, where names are exchanged, the log is lost or has several batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.hms_events import run as follow_run
from catalog_ext.hms_events.log import read_batch
from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveStorage
from catalog_ext.metastore.model.tables import Column
from tests.kit.repair_cases import indexed, write
from tests.unit.hms_events.states import set_cursor
from tests.unit.hms_events.test_following import add, hive_table
from tests.unit.hms_events.test_following import catalog as catalog
from tests.unit.hms_events.test_following import root as root
from tests.unit.hms_events.test_following import server as server
from tests.unit.hms_events.test_new_names import SWAP, names, rename
from tests.unit.hms_events.test_new_names import both as both

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.hms_events.suspects import FollowOutcome
    from tests.kit.fakes_metastore_log import LoggingMetastore


def actions(outcome: FollowOutcome) -> dict[str, str]:
    return {each.table: each.action for each in outcome.tables if each.says_something}


RENAMES = [
    (SWAP, {"s.t": "renamed", "s.tmp": "renamed", "s.u": "renamed"}),
    ((("t", "old"), ("u", "t")), {"s.t": "renamed", "s.u": "renamed"}),
    ((("t", "x"), ("x", "y")), {"s.t": "renamed"}),
]


@pytest.mark.parametrize("databases", [None, ["s"]])
@pytest.mark.parametrize(("hops", "expected"), RENAMES)
def test_preview_names_each_table_that_would_be_renamed(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int], hops: tuple[tuple[str, str], ...],
    expected: dict[str, str], databases: list[str] | None,
) -> None:  # fmt: skip
    rename(server, *hops)
    before = names(catalog)
    assert actions(catalog.follower.look(databases, dry_run=True)) == expected
    assert actions(catalog.follower.look(databases, dry_run=True)) == expected
    assert names(catalog) == before
    assert actions(catalog.follower.look(databases)) == expected


@pytest.mark.parametrize("goes", ["dropped", "renamed", "replaced"])
def test_preview_takes_a_name_that_would_be_free(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int], root: Path, goes: str
) -> None:
    """The table that has the name now is dropped or renamed, and another one gets its name."""
    if goes == "replaced":
        server.drop_table("s", "u")
        rename(server, ("t", "u"))
        expected = {"s.u": "removed", "s.t": "renamed"}
    else:
        if goes == "dropped":
            server.drop_table("s", "t")
        else:
            rename(server, ("t", "v"))
        write(root.parent / "new", "ds=n/one")
        server.create_table(hive_table(root.parent / "new"))
        add(server, root.parent / "new", "n")
        expected = {"s.t": "imported"}
    assert actions(catalog.follower.look(["s"], dry_run=True)) == expected
    assert actions(catalog.follower.look(["s"])) == expected


def test_preview_counts_what_an_import_would_register(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    for name, keys in (("n", ("ds",)), ("whole", ())):
        write(root.parent / name, *(("ds=a/one", "ds=b/one") if keys else ("one",)))
        server.create_table(hive_table(root.parent / name, name, keys))
    add(server, root.parent / "n", "a", "b", table="n")
    expected = {"s.n": 2, "s.whole": 1}
    for dry_run in (True, False):
        outcome = catalog.follower.look(["s"], dry_run=dry_run)
        assert {each.table: each.added for each in outcome.tables} == expected


def test_preview_says_why_a_table_would_not_be_imported(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    write(root.parent / "n", "ds=a/one")
    server.create_table(hive_table(root.parent / "n", "n"))
    avro = HiveStorage("x.AvroInput", "x.AvroOutput", "x.UnknownSerDe")
    server.add_partitions("s", "n", [HivePartition(("a",), f"file:{root.parent}/n/ds=a", {}, avro)])
    for dry_run in (True, False):
        outcome = catalog.follower.look(["s"], dry_run=dry_run)
        assert actions(outcome) == {"s.n": "left"}
        assert "UnknownSerDe" in str(outcome.tables[0].error)


def test_preview_after_a_lost_log_forgets_what_was_seen(catalog: Catalog, server: LoggingMetastore, root: Path) -> None:
    """Which side's definition is newer is unknown after a loss: the look takes over none."""
    set_cursor(catalog, None)
    catalog.follower.look()
    table = server.get_table("s", "t")
    server._tables["s", "t"] = replace(table, columns=(*table.columns, Column("z", "double")))
    server.log, server.newest = [], 1
    assert not any(each.altered for each in catalog.follower.look(dry_run=True).tables)
    assert not any(each.altered for each in catalog.follower.look().tables)


@pytest.mark.parametrize("missing", [None, -2, -5])
def test_preview_counts_events_and_partitions_of_all_batches_once(
    catalog: Catalog, server: LoggingMetastore, root: Path, monkeypatch: pytest.MonkeyPatch, missing: int | None
) -> None:
    monkeypatch.setattr(
        follow_run, "read_batch",
        lambda client, after, newest, **more: read_batch(client, after, newest, 2, sleep=lambda _: None, **more),
    )  # fmt: skip
    for value in "bcdefg":
        write(root, f"ds={value}/one")
        add(server, root, value)
    if missing is not None:
        del server.log[missing]
    preview = catalog.follower.look(dry_run=True)
    done = catalog.follower.look()
    assert sum(each.added for each in preview.tables) == sum(each.added for each in done.tables) == 6
    assert (preview.events, preview.event_id, preview.gap) == (done.events, done.event_id, done.gap)
    if missing is None:
        assert sum(each.checked for each in done.tables) == 6, "a batch looks at its own partitions alone"


def test_message_that_cannot_be_read_stops_only_its_table(
    catalog: Catalog, server: LoggingMetastore, both: dict[str, int], root: Path
) -> None:
    """The metastore does not have the table any more, and a message about it is of another release."""
    set_cursor(catalog, None)
    catalog.follower.look()
    server.down = True
    write(root, "ds=b/one")
    catalog.repair_partitions("s.t")
    catalog.index._database.write(lambda connection: connection.execute(sa.text("UPDATE outbox SET payload = '{}'")))
    server.down = False
    del server._tables["s", "t"]
    write(root.parent / "u", "ds=n/one")
    add(server, root.parent / "u", "n", table="u")
    set_cursor(catalog, None)
    assert actions(catalog.follower.look())["s.t"] == "refused"
    assert set(indexed(catalog, "s.u")) == {"ds=a", "ds=n"}
    assert set(indexed(catalog, "s.t")) == {"ds=a", "ds=b"}
