"""Publishing again: a metastore that was lost, replaced or changed comes to the index's state."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    MetastoreRefusedError,
    MetastoreUnavailableError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.conversion import to_hive
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, DataFile
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.sync import publishing
from catalog_ext.sync.tables import TablesInMetastore, compare_tables, not_taken
from catalog_ext.views.views import NewViewPartition, ViewRequest
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.unit.tables.test_table_ddl import managed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table


class Replaceable:
    """What a catalog is connected to: a metastore that can be taken away and replaced by an empty one."""

    def __init__(self) -> None:
        self.fake = FakeMetastore()

    def __getattr__(self, name: str) -> object:
        return getattr(self.fake, name)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Replaceable:
    made = Replaceable()
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: made))
    return made


@pytest.fixture
def catalog(tmp_path: Path, server: Replaceable) -> Iterator[Catalog]:
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.create_namespace("s", properties={"owner": "me"})
        yield catalog


DAYS = [f"ds=2025-01-{day:02}" for day in range(1, 29)]


def fill(catalog: Catalog) -> None:
    managed(catalog)
    managed(catalog, "plain", partition_columns=())
    managed(catalog, "odd", columns=(Column("x", "variant"),))
    table = catalog.load_table("s.t")
    changes = [AddPartition(day, (DataFile("f", 7, 1),)) for day in DAYS]
    catalog.index.commits.apply_changes(table.table_id, changes, operation="repair", deliver=True)
    plain = catalog.load_table("s.plain")
    changes = [AddPartition("", (DataFile("f", 9, 1, rows=3),))]
    catalog.index.commits.apply_changes(plain.table_id, changes, operation="repair", deliver=True)
    assert catalog.deliver().pending == 0


def everything(metastore: FakeMetastore) -> object:
    """What the metastore has, but for times."""

    def timeless(parameters: dict[str, str]) -> dict[str, str]:
        return {k: v for k, v in parameters.items() if k != "transient_lastDdlTime"}

    tables = {}
    for database in metastore.list_databases():
        for name in metastore.list_tables(database):
            table = metastore.get_table(database, name)
            partitions = {
                p.values: (p.location, timeless(dict(p.parameters))) for p in metastore.partitions(database, name)
            }
            tables[database, name] = replace(table, parameters=timeless(dict(table.parameters))), partitions
    return [metastore.get_database(name) for name in metastore.list_databases()], tables


def published(catalog: Catalog, table: str | None = None, *, dry_run: bool = False) -> dict[str, tuple[object, ...]]:
    return {e.table: tuple(e[1:5]) for e in catalog.publish(table, dry_run=dry_run)}


def test_a_lost_metastore_is_filled_again(catalog: Catalog, server: Replaceable) -> None:
    fill(catalog)
    before = everything(server.fake)
    compared = compare_tables(catalog.index, server.fake)
    assert (compared.compared, compared.missing, compared.elsewhere) == (2, (), ())
    in_sync = {"s.odd": ("left out", 0, 0, 0), "s.plain": ("in sync", 0, 0, 0), "s.t": ("in sync", 0, 0, 0)}
    assert published(catalog) == in_sync
    server.fake = FakeMetastore()
    assert compare_tables(catalog.index, server.fake) == TablesInMetastore(2, ("s.plain", "s.t"), ())
    expected = in_sync | {"s.plain": ("create", 0, 0, 0), "s.t": ("create", 28, 0, 0)}
    assert published(catalog, dry_run=True) == expected
    assert server.fake.list_databases() == []
    assert published(catalog) == expected
    assert everything(server.fake) == before
    assert published(catalog) == in_sync


def test_what_failed_meanwhile_is_replaced_by_the_state(catalog: Catalog, server: Replaceable) -> None:
    """Changes that the empty metastore refuses do not stand in the way of the table's creation."""
    fill(catalog)
    server.fake = FakeMetastore()
    table = catalog.load_table("s.t")
    for _ in range(3):
        catalog.index.commits.apply_changes(table.table_id, [DropPartition(DAYS[0])], operation="x", deliver=True)
        catalog.index.commits.apply_changes(table.table_id, [AddPartition(DAYS[0], ())], operation="x", deliver=True)
    catalog.alterations.alter("s.t", [], set_={"a": "1"})
    assert catalog.deliver().pending == 7
    assert published(catalog, "s.t") == {"s.t": ("create", 28, 0, 0)}
    assert server.fake.get_table("s", "t").parameters["a"] == "1"
    assert len(list(server.fake.partition_names("s", "t"))) == 28


def test_a_delivery_waits_for_the_one_of_the_background(catalog: Catalog, server: Replaceable) -> None:
    """What another thread of the process has claimed is neither left out of the answer nor overtaken."""
    managed(catalog)
    table = catalog.load_table("s.t")
    catalog.index.commits.apply_changes(table.table_id, [AddPartition(DAYS[0], ())], operation="repair", deliver=True)
    fake, claimed, go_on = server.fake, threading.Event(), threading.Event()

    class Slow:
        def __getattr__(self, name: str) -> object:
            claimed.set()
            assert go_on.wait(30)
            return getattr(fake, name)

    server.fake = Slow()  # type: ignore[assignment]
    with ThreadPoolExecutor(2) as threads:
        background = threads.submit(catalog.deliver)
        assert claimed.wait(30)
        late = catalog.deliver(0.05)
        assert (late.delivered, late.pending) == (0, 1)
        waiting = threads.submit(catalog.deliver, 30)
        go_on.set()
        assert background.result(30).pending == waiting.result(30).pending == 0
    assert list(fake.partition_names("s", "t")) == [DAYS[0]]


@pytest.mark.parametrize("back", [True, False], ids=["added again", "dropped again"])
def test_message_on_its_way_does_not_outlive_the_published_state(
    catalog: Catalog, server: Replaceable, back: bool
) -> None:
    """The metastore still has what the message will change, so the comparison finds no difference there."""
    fill(catalog)
    fake, arrived, go_on = server.fake, threading.Event(), threading.Event()
    table, day = catalog.load_table("s.t"), DAYS[0] if back else "ds=2026-01-01"
    there, gone = AddPartition(day, (DataFile("f", 7, 1),)), DropPartition(day)

    class Slow:
        """Makes the first change of partitions wait."""

        def __getattr__(self, name: str) -> object:
            if name in ("drop_partitions", "add_partitions") and not arrived.is_set():
                arrived.set()
                assert go_on.wait(30)
            return getattr(fake, name)

    def commit(change: AddPartition | DropPartition) -> None:
        catalog.index.commits.apply_changes(table.table_id, [change], operation="x", deliver=True)

    server.fake = Slow()  # type: ignore[assignment]
    commit(gone if back else there)
    with ThreadPoolExecutor(2) as threads:
        on_its_way = threads.submit(catalog.deliver)
        assert arrived.wait(30)
        commit(there if back else gone)
        publication = publishing.Publication(partitions=DAYS[5:6], upto=catalog.index.publications.last_delivery(table))
        catalog.index.publications.publish(table, publication)
        go_on.set()
        on_its_way.result(30)
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    assert (day in set(fake.partition_names("s", "t"))) is back


def test_each_removed_message_is_replaced_if_not_all_are_removed(
    catalog: Catalog, server: Replaceable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages name more partitions than a publication may; several are removed at a time."""
    fill(catalog)
    table, new = catalog.load_table("s.t"), [f"ds=2026-01-0{day}" for day in range(1, 4)]
    for name in new:
        change = AddPartition(name, (DataFile("f", 7, 1),))
        catalog.index.commits.apply_changes(table.table_id, [change], operation="x", deliver=True)
    monkeypatch.setattr("catalog_ext.metastore.index.write.publishing._MOST_NAMES", 1)
    publication = publishing.Publication(partitions=[], upto=catalog.index.publications.last_delivery(table))
    catalog.index.publications.publish(table, publication)
    assert catalog.deliver().pending == 0
    assert set(new) <= set(server.fake.partition_names("s", "t"))


def test_only_differences_are_sent(catalog: Catalog, server: Replaceable) -> None:
    fill(catalog)
    before = everything(server.fake)
    metastore = server.fake
    metastore.drop_partitions("s", "t", DAYS[:2])
    there = metastore.partitions_by_names("s", "t", DAYS[2:4])
    metastore.alter_partitions("s", "t", [replace(there[0], location="file:///moved"), there[1]])
    metastore.add_partitions("s", "t", [HivePartition(("1999-01-01",), "file:///strange")])
    altered = metastore.get_table("s", "t")
    metastore.alter_table(replace(altered, columns=altered.columns[:1]))
    asked = metastore.calls.copy()
    assert published(catalog) == {
        "s.odd": ("left out", 0, 0, 0), "s.plain": ("in sync", 0, 0, 0), "s.t": ("alter", 3, 1, 0),
    }  # fmt: skip
    assert (metastore.calls - asked)["add_partitions"] == 1
    assert everything(metastore) == before


def test_what_is_committed_while_the_sides_are_compared_is_sent(
    catalog: Catalog, server: Replaceable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(catalog)
    server.fake.drop_partitions("s", "t", DAYS[:2])
    compared = publishing.Publishing._unknown

    def overtaken(*arguments: object) -> object:
        found = compared(*arguments)  # type: ignore[arg-type]
        changes = [AddPartition("ds=2026-01-01", (DataFile("f", 7, 1),)), DropPartition(DAYS[5])]
        catalog.index.commits.apply_changes(
            catalog.load_table("s.t").table_id, changes, operation="repair", deliver=True
        )
        return found

    monkeypatch.setattr(publishing.Publishing, "_unknown", overtaken)
    published(catalog, "s.t")
    catalog.deliver()
    names = set(server.fake.partition_names("s", "t"))
    assert names == {*DAYS, "ds=2026-01-01"} - {DAYS[5]}


def test_foreign_table_is_refused_and_the_others_are_published(catalog: Catalog, server: Replaceable) -> None:
    fill(catalog)
    server.fake = FakeMetastore()
    server.fake.create_database(HiveDatabase("s"))
    theirs = replace(to_hive(catalog.load_table("s.plain").definition), location="file:///theirs")
    server.fake.create_table(theirs)
    entries = {e.table: e for e in catalog.publish()}
    assert (entries["s.plain"].action, entries["s.t"].action) == ("refused", "create")
    assert "file:///theirs" in (entries["s.plain"].error or "")
    assert server.fake.get_table("s", "plain") == theirs
    assert compare_tables(catalog.index, server.fake).elsewhere == ("s.plain",)


def test_what_the_metastore_refuses_is_said(
    catalog: Catalog, server: Replaceable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(catalog)
    server.fake = FakeMetastore()

    def refuses(*_: object, **__: object) -> None:
        raise MetastoreRefusedError("no room")

    monkeypatch.setattr(server.fake, "add_partitions", refuses)
    (entry,) = catalog.publish("s.t")
    assert (entry.action, entry.pending, entry.error) == ("create", 1, "no room")


def test_one_that_does_not_answer(catalog: Catalog, server: Replaceable, tmp_path: Path) -> None:
    fill(catalog)
    server.fake.down = True
    with pytest.raises(MetastoreUnavailableError):
        list(catalog.publish())
    with pytest.raises(TableNotFoundError):
        catalog.publish("s.nothing")
    with (
        catalog_ext.connect(index=str(tmp_path / "other.db"), metastore=None, warehouse=str(tmp_path)) as alone,
        pytest.raises(InvalidConfigurationError, match="no metastore"),
    ):
        alone.publish()


def test_a_commit_hears_of_its_own_tables_trouble_once(
    catalog: Catalog, server: Replaceable, caplog: pytest.LogCaptureFixture
) -> None:
    """A table that the metastore refuses is in no warning, report or state of another table."""
    fill(catalog)
    server.fake.drop_table("s", "t")
    for _ in range(3):
        catalog.alterations.alter("s.t", [], set_={"a": "1"})
        assert "pending: The metastore has no table s.t." in catalog.metastore_state(catalog.load_table("s.t"))
        catalog.alterations.alter("s.t", [], remove=("a",))
        catalog.alterations.alter("s.plain", [], set_={"b": "1"})
        catalog.alterations.alter("s.plain", [], remove=("b",))
        assert catalog.metastore_state(catalog.load_table("s.plain")) == "in sync"
    warnings = [r.getMessage() for r in caplog.records if "has not taken everything" in r.getMessage()]
    assert len(warnings) == 1
    assert "s.t" in warnings[0]
    server.fake.down = True
    catalog.alterations.alter("s.plain", [], set_={"b": "1"})
    assert "fake.invalid" in catalog.metastore_state(catalog.load_table("s.plain")), "that concerns every table"


def test_a_table_whose_predecessor_the_metastore_still_has_is_created(catalog: Catalog, server: Replaceable) -> None:
    """Dropped and made again while the metastore was away: what it has of the name is the first one."""

    def made(days: list[str]) -> None:
        managed(catalog)
        changes = [AddPartition(day, (DataFile("f", 7, 1),)) for day in days]
        catalog.index.commits.apply_changes(
            catalog.load_table("s.t").table_id, changes, operation="repair", deliver=True
        )

    made(DAYS[:3])
    assert catalog.deliver().pending == 0
    server.fake.down = True
    catalog.drop_table("s.t")
    made(DAYS[5:8])
    server.fake.down = False
    (entry,) = catalog.publish("s.t")
    assert (entry.action, entry.published) == ("create", 3)
    catalog.index.outbox.retry()
    assert catalog.deliver().pending == 0
    assert list(server.fake.partition_names("s", "t")) == DAYS[5:8]
    (entry,) = catalog.publish("s.t")
    assert (entry.action, entry.pending) == ("in sync", 0)


def test_a_view_is_in_sync_until_the_two_sides_differ(catalog: Catalog, server: Replaceable) -> None:
    columns = (Column("x", "int"), Column("ds", "date"))
    query = ViewQuery("SELECT x, ds FROM t", "lake", ("s",))
    catalog.views.create(ViewRequest(TableIdentifier("s", "v"), query, columns, ("ds",), {"note": "a"}))
    in_sync = {"s.v": ("in sync", 0, 0, 0)}
    assert published(catalog, "s.v") == in_sync
    catalog.views.add_partitions("s.v", [NewViewPartition({"ds": f"2025-01-0{day}"}) for day in (1, 2)])
    before = everything(server.fake)
    assert published(catalog, "s.v") == in_sync

    server.fake.drop_partitions("s", "v", ["ds=2025-01-01"])
    assert published(catalog, "s.v", dry_run=True) == published(catalog, "s.v") == {"s.v": ("alter", 2, 0, 0)}
    assert everything(server.fake) == before
    assert published(catalog, "s.v") == in_sync

    server.fake.add_partitions("s", "v", [HivePartition(("2025-02-02",), "")])
    assert published(catalog, "s.v") == {"s.v": ("alter", 2, 1, 0)}
    assert everything(server.fake) == before

    other = replace(server.fake.get_table("s", "v"), view_expanded_text="SELECT 1", parameters={"added": "by Hive"})
    server.fake.alter_table(other)
    assert published(catalog, "s.v") == {"s.v": ("alter", 2, 0, 0)}
    assert everything(server.fake) == before
    server.fake.alter_table(replace(server.fake.get_table("s", "v"), parameters={"note": "a", "added": "by Hive"}))
    assert published(catalog, "s.v") == in_sync


def test_register_does_not_say_in_sync_where_publishing_would_alter(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "t" / "ds=2025-01-01").mkdir(parents=True)

    def register(type_: str) -> Table:
        return catalog.register_table(
            "s.t", location=str(tmp_path / "t"), format="csv", schema="x INT", partition_columns={"ds": type_}
        )

    assert catalog.metastore_state(register("DATE")) == "in sync"
    catalog.unregister_table("s.t")
    table = register("STRING")
    assert published(catalog, "s.t", dry_run=True)["s.t"][0] == "alter"
    assert "catalog-ext publish s.t alters it" in catalog.metastore_state(table)
    published(catalog, "s.t")
    assert catalog.metastore_state(table) == "in sync"


def test_equal_partitions_are_not_published_after_import(catalog: Catalog, server: Replaceable) -> None:
    """What an engine counted besides files and bytes is no difference, and an index that is new lacks it."""
    fill(catalog)
    found = server.fake.partitions_by_names("s", "t", DAYS)
    rows = {"numRows": "5", "rawDataSize": "9", "COLUMN_STATS_ACCURATE": "{}"}
    server.fake.alter_partitions("s", "t", [replace(p, parameters={**p.parameters, **rows}) for p in found])
    before = everything(server.fake)
    assert [e.action for e in catalog.publish("s.t", dry_run=True)] == ["in sync"]
    assert [e.action for e in catalog.publish("s.t")] == ["in sync"]
    assert everything(server.fake) == before


def test_preview_says_what_differs(catalog: Catalog, server: Replaceable) -> None:
    fill(catalog)
    (first, second, *_) = server.fake.partitions_by_names("s", "t", DAYS)
    server.fake.alter_partitions("s", "t", [
        replace(first, parameters={}), replace(second, location="file:///elsewhere"),
    ])  # fmt: skip
    server.fake.drop_partitions("s", "t", ["ds=2025-01-28"])
    (entry,) = catalog.publish("s.t", dry_run=True)
    assert (entry.action, entry.published, entry.differs) == (
        "partitions", 3, "1 missing, 1 location, 1 statistics",
    )  # fmt: skip
    assert [e.differs for e in catalog.publish("s.t")] == [entry.differs]
    assert [(e.action, e.differs) for e in catalog.publish("s.t")] == [("in sync", None)]


def test_limited_publication_asks_of_its_partitions_alone(
    catalog: Catalog, server: Replaceable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(catalog)
    (found,) = server.fake.partitions_by_names("s", "t", DAYS[:1])
    unknown = [replace(found, values=(f"2024-01-0{day}",)) for day in (1, 2, 3)]
    server.fake.add_partitions("s", "t", unknown)
    monkeypatch.setattr(publishing, "_MOST_NAMES", 1)
    asked: list[str] = []

    def partitions_by_names(_: FakeMetastore, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        asked.extend(names)
        return original(server.fake, database, table, names)

    original = FakeMetastore.partitions_by_names
    monkeypatch.setattr(FakeMetastore, "partitions_by_names", partitions_by_names)
    (entry,) = catalog.publish("s.t", where="ds = '2025-01-28'", dry_run=True)
    assert (entry.action, asked) == ("in sync", ["ds=2025-01-28"])
    (entry,) = catalog.publish("s.t", where="ds = '2024-01-03'")
    assert (entry.dropped, entry.drops) == (1, ("ds=2024-01-03",))
    assert sum(name < "ds=2025" for name in server.fake.partition_names("s", "t")) == 2


def test_drop_that_is_delivered_meanwhile_is_no_table_that_was_not_taken(catalog: Catalog, server: Replaceable) -> None:
    fill(catalog)
    server.fake.down = True
    catalog.drop_table("s.t")
    server.fake.down = False

    class Delivering(FakeMetastore):
        def list_tables(self, database: str) -> list[str]:
            names = super().list_tables(database)
            assert "t" in names
            for message in catalog.index.outbox.pending(10):
                assert catalog.index.outbox.skip(message.outbox_id)
            return names

    metastore = Delivering()
    metastore.take_over(server.fake)
    assert list(not_taken(catalog.index, metastore)) == []
