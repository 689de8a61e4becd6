"""What the metastore refuses for good is set aside; carriers that stall, fail or meet a backlog harm no other."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.hive.mapping.conversion import to_hive
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HiveTable
from catalog_ext.metastore.hive.outbox.delivery import CLAIM_SECONDS, Deliverer, DeliveryReport
from catalog_ext.metastore.messages import SET_ASIDE_AFTER
from catalog_ext.metastore.model.tables import Column
from tests.kit.fakes_metastore import FakeMetastore
from tests.unit.hive.test_hive_delivery import FakeOutbox, create, definition, document, partitions, sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.mapping.model import HivePartition


class Picky(FakeMetastore):
    """Refuses partitions with a value that it cannot hold, and fails of itself at another."""

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[HivePartition], *, if_not_exists: bool = True
    ) -> None:
        if any("poison" in p.values for p in partitions):
            raise MetastoreRefusedError("Data too long for column 'PART_NAME'")
        if any("odd" in p.values for p in partitions):
            raise RuntimeError("an unexpected error")
        super().add_partitions(database, table, partitions, if_not_exists=if_not_exists)


@pytest.fixture
def outbox() -> FakeOutbox:
    return FakeOutbox()


@pytest.fixture
def metastore() -> FakeMetastore:
    made = Picky()
    made.create_database(HiveDatabase("sales"))
    made.create_table(to_hive(definition()))
    return made


@pytest.fixture
def deliverer(outbox: FakeOutbox, metastore: FakeMetastore) -> Deliverer:
    return Deliverer(outbox, lambda: metastore)


def refuse(outbox: FakeOutbox, deliverer: Deliverer, times: int = SET_ASIDE_AFTER) -> DeliveryReport:
    for _ in range(times):
        report = deliverer.deliver(timeout_s=60)
        outbox.clock.now += 10**6
    return report


def test_what_is_refused_for_good_is_set_aside(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, caplog: pytest.LogCaptureFixture
) -> None:
    """Other partitions of the table go on; what is about the same ones, by whatever spelling, waits in order."""
    poison = sync(outbox, "sales.trips", ["ds=poison/n=1", "ds=a b/n=1"])
    same = sync(outbox, "sales.trips", [], ["DS=a%20b/n=1"])
    after_same = sync(outbox, "sales.trips", ["ds=a b/n=1", "ds=z/n=1"])
    sync(outbox, "sales.trips", ["ds=free/n=1"])
    outbox.put("alter_table", "sales.trips", **document(definition(a="1")), removed=[])
    refuse(outbox, deliverer, SET_ASIDE_AFTER - 1)
    assert partitions(metastore) == {}, "until then the order is kept as it is"
    assert "set aside" not in caplog.text
    report = refuse(outbox, deliverer, 1)
    assert set(outbox.rows) == {poison, same, after_same}
    assert partitions(metastore) == {"free/1": "file:///data/trips/ds=free/n=1"}
    assert metastore.get_table("sales", "trips").parameters["a"] == "1"
    assert (report.delivered, report.pending) == (2, 3)
    assert "too long" in (report.error or "")
    assert caplog.text.count("is set aside after 8 refusals") == 1
    assert "catalog-ext outbox" in caplog.text
    # Columns, names and the end of the table wait: they may depend on what was refused.
    new = replace(definition(), columns=(*definition().columns, Column("more", "int")))
    outbox.put("alter_table", "sales.trips", **document(new), removed=[], rebuild=True)
    last = sync(outbox, "sales.trips", ["ds=late/n=1"])
    outbox.put("alter_namespace", "sales", name="sales", location=None, comment=None, properties={"x": "y"})
    assert deliverer.deliver(timeout_s=60).delivered == 1
    assert metastore.get_database("sales").parameters == {"x": "y"}
    assert last in outbox.rows
    del outbox.rows[poison]  # skipped
    assert deliverer.deliver(timeout_s=60) == DeliveryReport(4, 0, None)
    assert set(partitions(metastore)) == {"free/1", "a b/1", "z/1", "late/1"}


def test_mended_message_is_delivered_without_a_retry_command(outbox: FakeOutbox, deliverer: Deliverer) -> None:
    sync(outbox, "sales.trips", ["ds=poison/n=1"])
    refuse(outbox, deliverer)
    mended = FakeMetastore()
    mended.create_database(HiveDatabase("sales"))
    mended.create_table(to_hive(definition()))
    assert Deliverer(outbox, lambda: mended).deliver(timeout_s=60) == DeliveryReport(1, 0, None)


def test_a_namespaces_refused_change_holds_up_no_table(
    outbox: FakeOutbox, metastore: FakeMetastore, monkeypatch: pytest.MonkeyPatch, deliverer: Deliverer
) -> None:
    def refuses(database: HiveDatabase) -> None:
        raise MetastoreRefusedError("not yours")

    monkeypatch.setattr(metastore, "alter_database", refuses)
    for comment in ("one", "two"):
        outbox.put("alter_namespace", "sales", name="sales", location=None, comment=comment, properties={})
    sync(outbox, "sales.trips", ["ds=a/n=1"])
    assert refuse(outbox, deliverer, SET_ASIDE_AFTER - 1).pending == 3
    report = refuse(outbox, deliverer, 1)
    assert (report.delivered, report.pending) == (1, 2)
    outbox.put("drop_namespace", "sales", name="sales")
    create(outbox, definition("orders"))
    assert refuse(outbox, deliverer, 1).pending == 4, "the end of a namespace waits, and holds up what comes after it"


def test_a_table_that_cannot_be_made_holds_up_all_that_is_about_it(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    create(outbox, definition("more", "file:///elsewhere"))
    metastore.create_table(to_hive(definition("more", "file:///foreign")))
    sync(outbox, "sales.more", ["ds=a/n=1"])
    sync(outbox, "sales.trips", ["ds=a/n=1"])
    assert refuse(outbox, deliverer, SET_ASIDE_AFTER + 2).pending == 2
    assert partitions(metastore, "more") == {}


def test_the_unexpected_is_one_tables_trouble(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, caplog: pytest.LogCaptureFixture
) -> None:
    odd = sync(outbox, "sales.trips", ["ds=odd/n=1"])
    create(outbox, definition("orders"))
    report = refuse(outbox, deliverer, 2)
    assert metastore.list_tables("sales") == ["orders", "trips"]
    assert outbox.rows[odd].last_error == "Unexpected RuntimeError: an unexpected error"
    assert (report.pending, outbox.rows[odd].refusals) == (1, 2)
    assert odd not in outbox.claims
    assert [r.levelno for r in caplog.records if r.exc_info] == [logging.ERROR], "once a kind, with its traceback"


def test_no_metastore_for_an_unexpected_reason(outbox: FakeOutbox) -> None:
    def fails() -> FakeMetastore:
        raise ValueError("what")

    create(outbox, definition())
    assert Deliverer(outbox, fails).deliver(timeout_s=60) == DeliveryReport(0, 1, "Unexpected ValueError: what")


def test_a_carrier_that_stalled_undoes_nothing_newer(outbox: FakeOutbox, metastore: FakeMetastore) -> None:
    """It sleeps past its claim within an old message; another carries out that one and the drop after it."""
    sync(outbox, "sales.trips", ["ds=a/n=1"])
    sync(outbox, "sales.trips", [], ["ds=a/n=1"])
    others: list[DeliveryReport] = []

    def stalls(function: Callable[..., HiveTable]) -> Callable[..., HiveTable]:
        def call(*args: object) -> HiveTable:
            found = function(*args)
            if not others:
                others.append(DeliveryReport(0, 0))
                outbox.clock.now += int(CLAIM_SECONDS * 1000)
                others[0] = Deliverer(outbox, lambda: metastore).deliver(timeout_s=60)
            return found

        return call

    metastore.get_table = stalls(metastore.get_table)  # type: ignore[method-assign]
    report = Deliverer(outbox, lambda: metastore).deliver(timeout_s=60)
    assert others == [DeliveryReport(2, 0, None)]
    assert report.delivered == 0
    assert partitions(metastore) == {}
    assert outbox.rows == {}


def test_a_commit_looks_at_so_many_messages(outbox: FakeOutbox, deliverer: Deliverer) -> None:
    for number in range(200):
        sync(outbox, "sales.trips", [f"ds={number}/n=1"])
    assert deliverer.deliver(timeout_s=60, most=30) == DeliveryReport(30, 170, None)
    assert outbox.read == 100
    assert deliverer.deliver(timeout_s=60) == DeliveryReport(170, 0, None)
