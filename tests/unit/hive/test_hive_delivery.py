"""Delivery of the outbox: order, repetition, claims, and what trouble does."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import EnvironmentSetupError, MetastoreUnavailableError, TableNotFoundError
from catalog_ext.metastore.hive.mapping.conversion import from_hive, to_hive
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.hive.outbox.delivery import CLAIM_SECONDS, Deliverer, DeliveryReport
from catalog_ext.metastore.messages import SET_ASIDE_AFTER, Delivery, payload_of, read_message
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, TableDefinition, TableType
from tests.kit.counting_metastore import CountingMetastore
from tests.kit.fakes_metastore import FakeMetastore
from tests.kit.index_cases import local_index

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.metastore.messages import Message
    from catalog_ext.metastore.model.json import JsonObject


FROM_TRIPS = {"from": {"namespace": "sales", "name": "trips"}}


class Clock:
    """Milliseconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


_FIELDS: dict[str, JsonObject] = {
    "alter_table": {"removed": [], "rebuild": False},
    "alter_table_statistics": {"location": "file:///data/trips"},
    "drop_table": {"purge": False},
    "sync_partitions": {"add": [], "alter": [], "drop": [], "location": "file:///data/trips"},
}


@dataclass
class FakeOutbox:
    """The outbox of an index, in memory."""

    rows: dict[int, Delivery] = field(default_factory=dict)
    last_id: int = 0
    read: int = 0
    clock: Clock = field(default_factory=Clock)
    claims: dict[int, str] = field(default_factory=dict)

    def put(self, operation: str, subject: str, **payload: object) -> int:
        """Add a message; fields that each message of the operation has may be left out."""
        return self.put_as_is(operation, subject, {**_FIELDS.get(operation, {}), **payload})

    def put_as_is(self, operation: str, subject: str, payload: JsonObject) -> int:
        namespace, _, table = subject.partition(".")
        self.last_id += 1
        self.rows[self.last_id] = Delivery(self.last_id, operation, namespace, table or None, payload)
        return self.last_id

    def pending(self, limit: int = 100, *, after: int = 0) -> list[Delivery]:
        rows = [row for number, row in sorted(self.rows.items()) if number > after][:limit]
        self.read += len(rows)
        return [replace(row, due=row.next_attempt_at_ms <= self.clock.now) for row in rows]

    def count(self) -> int:
        return len(self.rows)

    def claim(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        row = self.rows.get(outbox_id)
        if row is None or row.next_attempt_at_ms > self.clock.now:
            return False
        self.rows[outbox_id] = replace(row, next_attempt_at_ms=self.clock.now + lease_ms)
        self.claims[outbox_id] = claim
        return True

    def keep_claim(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        return outbox_id in self.rows and self.claims.get(outbox_id) == claim

    def done(self, outbox_id: int, claim: str) -> bool:
        return self.keep_claim(outbox_id, claim, 0) and self.rows.pop(outbox_id, None) is not None

    def failed(
        self, outbox_id: int, claim: str, error: str, pause_ms: int, *, refused: bool, rest: Message | None = None
    ) -> None:
        row = self.rows[outbox_id]
        if rest is not None:
            row = replace(row, payload=payload_of(rest), refusals=row.refusals + SET_ASIDE_AFTER)
        self.rows[outbox_id] = replace(
            row, attempts=row.attempts + 1, refusals=row.refusals + refused, last_error=error,
            next_attempt_at_ms=self.clock.now + pause_ms,
        )  # fmt: skip
        del self.claims[outbox_id]


@pytest.fixture
def outbox() -> FakeOutbox:
    return FakeOutbox()


@pytest.fixture
def metastore() -> FakeMetastore:
    return FakeMetastore()


@pytest.fixture
def clock(outbox: FakeOutbox) -> Clock:
    return outbox.clock


@pytest.fixture
def deliverer(outbox: FakeOutbox, metastore: FakeMetastore) -> Deliverer:
    return Deliverer(outbox, lambda: metastore)


def definition(name: str = "trips", location: str = "file:///data/trips", **properties: str) -> TableDefinition:
    return TableDefinition(
        TableIdentifier("sales", name),
        TableType.EXTERNAL,
        "parquet",
        location,
        (Column("id", "bigint"),),
        (Column("ds", "string"), Column("n", "int")),
        properties=properties,
    )


def done(count: int) -> DeliveryReport:
    """What a delivery reports that left nothing over."""
    return DeliveryReport(count, 0, None)


def document(table: TableDefinition) -> dict[str, Any]:
    def columns(items: tuple[Column, ...]) -> list[dict[str, Any]]:
        return [{"name": c.name, "type": c.type, "nullable": c.nullable, "comment": c.comment} for c in items]

    return {
        "namespace": table.identifier.namespace,
        "name": table.identifier.name,
        "table_type": str(table.table_type),
        "format": table.format,
        "location": table.location,
        "columns": columns(table.columns),
        "partition_columns": columns(table.partition_columns),
        "options": dict(table.options),
        "properties": dict(table.properties),
        "comment": table.comment,
        "owner": table.owner,
    }


def create(outbox: FakeOutbox, table: TableDefinition) -> int:
    return outbox.put("create_table", str(table.identifier), **document(table))


def sync(outbox: FakeOutbox, table: str, add: list[str], drop: list[str] | None = None) -> int:
    return outbox.put("sync_partitions", table, add=[state(n) for n in add], drop=drop or [])


def state(name: str, location: str | None = None, **parameters: str) -> dict[str, Any]:
    return {"name": name, "location": location, "parameters": parameters}


def moved(name: str, location: str, **parameters: str) -> dict[str, Any]:
    return {**state(name, location, **parameters), "moved": True}


def partitions(metastore: FakeMetastore, table: str = "trips") -> dict[str, str]:
    found = metastore.partitions_by_names("sales", table, list(metastore.partition_names("sales", table)))
    return {"/".join(p.values): p.location for p in found}


def test_the_life_of_a_table(outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer) -> None:
    outbox.put("create_namespace", "sales", name="sales", location=None, comment="c", properties={"a": "b"})
    create(outbox, definition())
    sync(outbox, "sales.trips", ["ds=a%2Fb/n=1", "DS=x/N=01"])
    outbox.put("sync_partitions", "sales.trips", add=[state("ds=y/n=2", "s3a://b/y")], drop=["ds=a%2fb/n=1"])
    assert deliverer.deliver(timeout_s=60) == done(4)
    assert metastore.get_database("sales").parameters == {"a": "b"}
    assert metastore.get_table("sales", "trips") == to_hive(definition())
    assert partitions(metastore) == {"x/01": "file:///data/trips/DS=x/N=01", "y/2": "s3a://b/y"}
    outbox.put("drop_table", "sales.trips", **document(definition()), purge=False)
    outbox.put("alter_namespace", "sales", name="sales", location=None, comment=None, properties={})
    outbox.put("drop_namespace", "sales", name="sales")
    assert deliverer.deliver(timeout_s=60) == done(3)
    assert metastore.list_databases() == []
    assert deliverer.deliver(timeout_s=60) == done(0)


def test_empty_outbox_needs_no_metastore(outbox: FakeOutbox) -> None:
    def no_metastore() -> FakeMetastore:
        raise AssertionError("the metastore was asked for")

    assert Deliverer(outbox, no_metastore).deliver(timeout_s=1).delivered == 0


def test_every_message_can_be_carried_out_twice(outbox: FakeOutbox, metastore: FakeMetastore, clock: Clock) -> None:
    outbox.put("create_namespace", "sales", name="sales", location=None, comment=None, properties={})
    create(outbox, definition())
    outbox.put("alter_table", "sales.trips", **document(definition(a="1")), removed=["b"])
    sync(outbox, "sales.trips", ["ds=a/n=1"], ["ds=b/n=1"])
    outbox.put("drop_table", "sales.trips", **document(definition()))
    outbox.put("drop_namespace", "sales", name="sales")
    messages = list(outbox.rows.values())
    for message in messages:
        outbox.rows = {message.outbox_id: message}
        deliver_and_die(metastore, outbox, clock)
        assert Deliverer(outbox, lambda: metastore).deliver(timeout_s=60) == done(1)
    assert metastore.list_databases() == []


def deliver_and_die(metastore: FakeMetastore, outbox: FakeOutbox, clock: Clock) -> None:
    """Deliver; the process dies after the metastore has done all, before the outbox hears of it."""

    class Dying(FakeOutbox):
        def done(self, outbox_id: int, claim: str) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Deliverer(Dying(dict(outbox.rows)), lambda: metastore).deliver(timeout_s=60)


def test_a_namespace_from_before_the_metastore_is_made(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    create(outbox, definition())
    assert deliverer.deliver(timeout_s=60).delivered == 1
    assert metastore.list_databases() == ["sales"]


def test_foreign_table_is_left_alone(outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer) -> None:
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition(location="file:///other")))
    first = create(outbox, definition())
    sync(outbox, "sales.trips", ["ds=a/n=1"])
    create(outbox, definition("orders"))
    report = deliverer.deliver(timeout_s=60)
    assert (report.delivered, report.pending) == (1, 2)
    assert "file:///other" in (report.error or "")
    assert "file:///data/trips" in (outbox.rows[first].last_error or "")
    assert metastore.get_table("sales", "trips").location == "file:///other"
    assert partitions(metastore) == {}
    outbox.rows.clear()
    outbox.put("drop_table", "sales.trips", **document(definition()))
    assert deliverer.deliver(timeout_s=60).delivered == 1
    assert metastore.get_table("sales", "trips").location == "file:///other"


def test_a_table_that_hive_cannot_have_waits_with_its_reason(outbox: FakeOutbox, deliverer: Deliverer) -> None:
    number = create(outbox, replace(definition(), columns=(Column("odd", "variant"),)))
    report = deliverer.deliver(timeout_s=60)
    assert (report.delivered, report.pending) == (0, 1)
    assert "'odd'" in (outbox.rows[number].last_error or "")


def test_altering_keeps_what_others_have_set(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    table = to_hive(definition(old="1", gone="1"))
    metastore.create_table(replace(table, parameters={**table.parameters, "numFiles": "7", "theirs": "x"}))
    outbox.put("alter_table", "sales.trips", **document(definition(old="2", new="3")), removed=["gone"])
    assert deliverer.deliver(timeout_s=60).delivered == 1
    parameters = metastore.get_table("sales", "trips").parameters
    assert {k: parameters.get(k) for k in ("old", "new", "gone", "numFiles", "theirs")} == {
        "old": "2", "new": "3", "gone": None, "numFiles": "7", "theirs": "x",
    }  # fmt: skip


def test_altered_columns_reach_the_partitions_whatever_their_order(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    create(outbox, definition())
    new = replace(definition(), columns=(Column("Note", "string", comment="c"), Column("id", "bigint")))
    outbox.put("alter_table", "sales.trips", **document(new), removed=[], rebuild=True)
    assert deliverer.deliver(timeout_s=60).delivered == 2
    found = metastore.get_table("sales", "trips")
    assert from_hive(found).columns == new.columns
    assert metastore.cascaded[-1] == ("note", "id")


def test_the_columns_of_a_table_of_hives_stay_hives(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    table = to_hive(definition())
    theirs = {k: v for k, v in table.parameters.items() if not k.startswith("spark.sql.")}
    metastore.create_table(replace(table, parameters=theirs))
    new = replace(definition(), columns=(*definition().columns, Column("more", "int")), location="file:///new")
    before = definition().location
    outbox.put("alter_table", "sales.trips", **document(new), removed=[], rebuild=True, previous_location=before)
    assert deliverer.deliver(timeout_s=60).delivered == 1
    found = metastore.get_table("sales", "trips")
    assert found.columns[-1].name == "more"
    assert (found.location, found.storage.serde_parameters["path"]) == ("file:///new", "file:///new")
    assert found.parameters == theirs


@pytest.mark.parametrize("kind", [TableType.MANAGED, TableType.EXTERNAL])
def test_a_renamed_table_keeps_its_files_and_its_partitions(
    outbox: FakeOutbox, metastore: FakeMetastore, clock: Clock, kind: TableType
) -> None:
    deliverer = Deliverer(outbox, lambda: metastore)
    create(outbox, replace(definition(), table_type=kind))
    sync(outbox, "sales.trips", ["ds=a/n=1"])
    new = replace(definition(), table_type=kind, identifier=TableIdentifier("archive", "old"))
    rename = outbox.put(
        "rename_table", "sales.trips", **document(new), **{"from": {"namespace": "sales", "name": "trips"}}
    )
    message = outbox.rows[rename]
    assert deliverer.deliver(timeout_s=60) == done(3)
    outbox.rows[rename] = message
    assert deliverer.deliver(timeout_s=60) == done(1)
    assert metastore.list_tables("sales") == []
    assert metastore.get_table("archive", "old") == to_hive(new)
    assert list(metastore.partition_names("archive", "old")) == ["ds=a/n=1"]


def test_a_rename_is_finished_after_a_crash_between_its_steps(outbox: FakeOutbox, metastore: FakeMetastore) -> None:
    metastore.create_database(HiveDatabase("sales"))
    managed = replace(definition(), table_type=TableType.MANAGED)
    new = replace(managed, identifier=TableIdentifier("sales", "old"))
    rename = outbox.put(
        "rename_table", "sales.trips", **document(new), **{"from": {"namespace": "sales", "name": "trips"}}
    )
    message = outbox.rows[rename]
    for steps in range(3):
        metastore.create_table(to_hive(managed))

        class Dying(FakeMetastore):
            left = steps

            def _step(self) -> None:
                if not self.left:
                    raise KeyboardInterrupt
                self.left -= 1

        dying = Dying()
        dying._databases, dying._tables, dying._partitions = (
            metastore._databases, metastore._tables, metastore._partitions,
        )  # fmt: skip
        for name in ("alter_table", "rename_table"):
            whole = getattr(dying, name)
            setattr(dying, name, lambda *a, _w=whole, _d=dying, **k: (_d._step(), _w(*a, **k)))
        with pytest.raises(KeyboardInterrupt):
            carry_out(dying, read_message(message))
        carry_out(metastore, read_message(message))
        assert metastore.list_tables("sales") == ["old"]
        assert metastore.get_table("sales", "old") == to_hive(new)
        metastore.drop_table("sales", "old")


def test_rename_leaves_foreign_tables_alone_and_blocks_both_names(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(replace(definition("old"), location="file:///other")))
    create(outbox, definition())
    new = replace(definition(), identifier=TableIdentifier("sales", "old"))
    outbox.put("rename_table", "sales.trips", **document(new), **FROM_TRIPS)
    sync(outbox, "sales.old", ["ds=a/n=1"])
    create(outbox, definition("trips"))
    create(outbox, definition("free"))
    report = deliverer.deliver(timeout_s=60)
    assert (report.delivered, report.pending) == (2, 3)
    assert "file:///other" in (report.error or "")
    assert metastore.list_tables("sales") == ["free", "old", "trips"]
    assert list(metastore.partition_names("sales", "old")) == []


def test_what_is_not_in_the_metastore_needs_no_new_name_there(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    new = replace(definition(), identifier=TableIdentifier("sales", "old"))
    outbox.put("rename_table", "sales.trips", **document(new), **FROM_TRIPS)
    assert deliverer.deliver(timeout_s=60) == done(1)
    metastore.create_table(to_hive(definition(location="file:///other")))
    outbox.put("rename_table", "sales.trips", **document(new), **FROM_TRIPS)
    assert deliverer.deliver(timeout_s=60) == done(1)
    assert metastore.list_tables("sales") == ["trips"]


def test_order_within_a_table_and_freedom_between_tables(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, clock: Clock
) -> None:
    outbox.put("create_namespace", "sales", name="sales", location=None, comment=None, properties={})
    sync(outbox, "sales.missing", ["ds=a/n=1"])
    create(outbox, definition("missing"))
    create(outbox, definition())
    outbox.put("drop_namespace", "sales", name="sales")
    outbox.put("create_namespace", "other", name="other", location=None, comment=None, properties={})
    create(outbox, definition("late"))
    report = deliverer.deliver(timeout_s=60)
    # The table missing waits for its own message, the namespace's end for all of its tables, "late" for that end.
    assert [row.operation for row in outbox.rows.values()] == [
        "sync_partitions", "create_table", "drop_namespace", "create_table",
    ]  # fmt: skip
    assert (report.delivered, report.pending) == (3, 4)
    assert "sales.missing" in (report.error or "")
    assert metastore.list_tables("sales") == ["trips"]
    assert metastore.list_databases() == ["other", "sales"]
    clock.now += 10**9
    with pytest.raises(TableNotFoundError):
        metastore.get_table("sales", "late")


def test_pauses_grow_and_are_kept(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, clock: Clock
) -> None:
    metastore.down = True
    number = create(outbox, definition())
    create(outbox, definition("orders"))
    pauses = []
    for _ in range(8):
        report = deliverer.deliver(timeout_s=60)
        assert (report.delivered, report.pending) == (0, 2)
        pauses.append((outbox.rows[number].next_attempt_at_ms - clock.now) // 1000)
        asked = metastore.calls.total()
        deliverer.deliver(timeout_s=60)
        # Only the second table's message was due; the first one's pause was kept.
        assert metastore.calls.total() - asked <= 1
        clock.now += 10**6
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]
    assert "fake.invalid" in (report.error or "")
    metastore.down = False
    assert deliverer.deliver(timeout_s=60) == done(2)


def test_one_failure_to_reach_the_metastore_ends_the_delivery(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.down = True
    for number in range(300):
        create(outbox, definition(f"t{number}"))
    assert deliverer.deliver(timeout_s=60).pending == 300
    assert metastore.calls.total() == 1


def test_a_metastore_that_cannot_be_set_up_is_reported(outbox: FakeOutbox) -> None:
    def fails() -> FakeMetastore:
        raise EnvironmentSetupError("No Java was found")

    create(outbox, definition())
    report = Deliverer(outbox, fails).deliver(timeout_s=60)
    assert (report.pending, report.error) == (1, "No Java was found")


@pytest.mark.parametrize(
    "operation",
    [
        "create_table", "sync_partitions", "alter_table_statistics", "create_namespace", "rename_table",
        "from_the_future",
    ],
)  # fmt: skip
def test_a_message_that_cannot_be_read_stays_and_says_so(
    outbox: FakeOutbox, deliverer: Deliverer, operation: str
) -> None:
    number = outbox.put_as_is(operation, "sales.trips", {"nonsense": 1})
    if operation == "sync_partitions":
        outbox.rows[number] = replace(outbox.rows[number], payload={"add": [7]})
    report = deliverer.deliver(timeout_s=60)
    assert report.pending == 1
    assert f"Message {number}" in (outbox.rows[number].last_error or "")


def test_batches_and_twins_and_what_can_never_be_held(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition()))
    names = [f"ds={i}/n=1" for i in range(2500)]
    sync(outbox, "sales.trips", [*names, "ds=a b/n=1", "ds=a%20b/n=1", "ds=/n=1"])
    assert deliverer.deliver(timeout_s=60).delivered == 1
    assert metastore.batches == [1000, 1000, 501]
    assert "/1" not in partitions(metastore)
    sync(outbox, "sales.trips", ["ds=a%20b/n=1"], ["ds=a b/n=1", "ds=/n=1"])
    sync(outbox, "sales.trips", [], names[:500])
    assert deliverer.deliver(timeout_s=60).delivered == 2
    assert metastore.batches[3:] == [1, 1, 200, 200, 100]
    assert partitions(metastore)["a b/1"] == "file:///data/trips/ds=a%20b/n=1"


def parameters(metastore: FakeMetastore, name: str) -> dict[str, str]:
    return dict(metastore.partitions_by_names("sales", "trips", [name])[0].parameters)


def test_partitions_come_to_what_the_message_says(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    """What is missing is added, what differs is altered, whichever of the two the message expected."""
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition()))
    sync(outbox, "sales.trips", ["ds=a/n=1", "ds=b/n=1"])
    counts = {"numFiles": "2", "totalSize": "20", "numRows": "7", "transient_lastDdlTime": "1700000000"}
    message = outbox.put(
        "sync_partitions", "sales.trips",
        add=[moved("ds=a/n=1", "file:///elsewhere/a", **counts), state("ds=c/n=1", **counts)],
        alter=[state("ds=b/n=1", "file:/data/trips/ds=b/n=1", **counts), state("ds=d/n=1", **counts)],
        drop=[],
    )  # fmt: skip
    again = outbox.rows[message]
    assert deliverer.deliver(timeout_s=60) == done(2)
    assert partitions(metastore) == {
        "a/1": "file:///elsewhere/a",
        "b/1": "file:/data/trips/ds=b/n=1",
        "c/1": "file:///data/trips/ds=c/n=1",
        "d/1": "file:///data/trips/ds=d/n=1",
    }
    # Releases from 3 on list a directory unless they are given a third one.
    assert all(parameters(metastore, f"ds={ds}/n=1") == counts | {"numFilesErasureCoded": "0"} for ds in "abcd")
    outbox.rows[message] = again
    before = metastore.calls.copy()
    assert deliverer.deliver(timeout_s=60) == done(1)
    assert metastore.calls - before == {"get_table": 1, "partitions_by_names": 1}


@pytest.mark.parametrize("change", ["add", "alter"])
def test_a_partition_that_hive_has_put_elsewhere_stays_there(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, clock: Clock, change: str
) -> None:
    """The others of the message are delivered, what comes later about it waits; a rename in Hive makes room."""
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition()))
    hives = HivePartition(("a", "1"), "file:///hive/a", {"numFiles": "9"})
    metastore.add_partitions("sales", "trips", [hives])
    empty: dict[str, object] = {"add": [], "alter": [], "drop": []}
    first = outbox.put(
        "sync_partitions", "sales.trips", **{**empty, change: [state("ds=a/n=1", numFiles="1"), state("ds=b/n=1")]}
    )
    later = outbox.put("sync_partitions", "sales.trips", **{**empty, "alter": [state("ds=a/n=1", numFiles="2")]})
    outbox.put("sync_partitions", "sales.trips", **{**empty, "drop": ["ds=b/n=1"]})
    report = deliverer.deliver(timeout_s=60)
    assert (report.delivered, report.pending) == (1, 2)
    assert "file:///hive/a, where a Hive engine has put it" in (report.error or "")
    assert "RENAME TO PARTITION" in (report.error or "")
    assert metastore.partitions_by_names("sales", "trips", ["ds=a/n=1"]) == [hives]
    assert partitions(metastore) == {"a/1": "file:///hive/a"}, "what was delivered is not delivered once more"
    assert outbox.rows[first].set_aside
    assert [p["name"] for p in outbox.rows[first].payload[change]] == ["ds=a/n=1"]
    assert not outbox.rows[later].attempts
    metastore.drop_partitions("sales", "trips", ["ds=a/n=1"])
    metastore.add_partitions("sales", "trips", [replace(hives, values=("z", "1"))])
    clock.now += 10_000
    assert deliverer.deliver(timeout_s=60) == done(2)
    assert partitions(metastore) == {"a/1": "file:///data/trips/ds=a/n=1", "z/1": "file:///hive/a"}
    assert parameters(metastore, "ds=a/n=1")["numFiles"] == "2"


def test_a_rename_to_a_partition_that_hive_has_elsewhere_waits(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    """Its old name stays in the metastore, or no Hive engine would see its rows."""
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition()))
    sync(outbox, "sales.trips", ["ds=a/n=1"])
    assert deliverer.deliver(timeout_s=60) == done(1)
    metastore.add_partitions("sales", "trips", [HivePartition(("b", "1"), "file:///hive/b")])
    sync(outbox, "sales.trips", ["ds=b/n=1"], ["ds=a/n=1"])
    assert deliverer.deliver(timeout_s=60).pending == 1
    assert partitions(metastore) == {"a/1": "file:///data/trips/ds=a/n=1", "b/1": "file:///hive/b"}
    metastore.drop_partitions("sales", "trips", ["ds=b/n=1"])
    assert outbox.rows[2].payload["drop"] == ["ds=a/n=1"]


def test_statistics_are_replaced_and_the_rest_is_kept(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    computed = {
        "numFiles": "1", "numRows": "3", "rawDataSize": "33", "spark.sql.statistics.numRows": "3", "theirs": "x",
        "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}',
    }  # fmt: skip
    table = to_hive(definition())
    metastore.create_table(replace(table, parameters={**table.parameters, "spark.sql.statistics.totalSize": "9"}))
    there = HivePartition(("a", "1"), "file:///data/trips/ds=a/n=1", computed)
    metastore.add_partitions(
        "sales", "trips", [there, replace(there, values=("b", "1"), location="file:///data/trips/ds=b/n=1")]
    )
    counts = {"numFiles": "2", "totalSize": "20", "transient_lastDdlTime": "1700000000"}
    outbox.put(
        "sync_partitions", "sales.trips", drop=[], add=[],
        alter=[state("ds=a/n=1", **counts), state("ds=b/n=1", **counts, numRows="7"), state("ds=c/n=1")],
    )  # fmt: skip
    assert deliverer.deliver(timeout_s=60) == done(1)
    assert parameters(metastore, "ds=a/n=1") == counts | {"numFilesErasureCoded": "0", "theirs": "x"}
    assert parameters(metastore, "ds=b/n=1") == parameters(metastore, "ds=a/n=1") | {"numRows": "7"}
    assert parameters(metastore, "ds=c/n=1") == {}
    assert metastore.get_table("sales", "trips").parameters == table.parameters


def test_statistics_of_an_unpartitioned_table(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    table = to_hive(replace(definition(), partition_columns=()))
    metastore.create_table(replace(table, parameters={**table.parameters, "rawDataSize": "1", "theirs": "x"}))
    counts = {"numFiles": "2", "totalSize": "20", "numRows": "7", "transient_lastDdlTime": "1700000000"}
    for _ in range(2):
        outbox.put("alter_table_statistics", "sales.trips", parameters=counts)
        assert deliverer.deliver(timeout_s=60) == done(1)
        assert metastore.get_table("sales", "trips").parameters == {
            **table.parameters, **counts, "theirs": "x", "numFilesErasureCoded": "0",
        }  # fmt: skip
    assert metastore.calls["alter_table"] == 1


def test_a_full_message_takes_few_calls(outbox: FakeOutbox, metastore: FakeMetastore, clock: Clock) -> None:
    counting = CountingMetastore(metastore)
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition()))
    names = [f"ds={i}/n=1" for i in range(1000)]
    calls = []
    for message in (
        {"add": [state(n, numFiles="1", totalSize="1") for n in names], "alter": [], "drop": []},
        {"add": [], "alter": [moved(n, f"file:///moved/{n}", numFiles="2", totalSize="2") for n in names], "drop": []},
        {"add": [], "alter": [], "drop": names},
    ):
        outbox.put("sync_partitions", "sales.trips", **message)
        before = Counter(counting.calls)
        assert Deliverer(outbox, lambda: counting).deliver(timeout_s=60) == done(1)
        calls.append(Counter(counting.calls) - before)
    look = {"get_table": 1, "partitions_by_names": 1}
    assert calls == [
        look | {"add_partitions": 1},
        look | {"alter_partitions": 1},
        {"get_table": 1, "drop_partitions": 5},
    ]


def test_what_is_too_much_at_once_goes_in_parts(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition()))
    names = [f"ds={i}/n=1" for i in range(450)]
    sync(outbox, "sales.trips", names)
    outbox.put("sync_partitions", "sales.trips", add=[], alter=[moved(n, f"s3a://b/{n}") for n in names], drop=[])
    metastore.most_altered = 300
    assert deliverer.deliver(timeout_s=60) == done(2)
    assert metastore.batches == [450, 200, 200, 50]
    assert set(partitions(metastore).values()) == {f"s3a://b/{n}" for n in names}
    outbox.put("sync_partitions", "sales.trips", add=[], alter=[moved(n, f"s3a://c/{n}") for n in names], drop=[])
    metastore.most_altered = 100
    assert "JDOException" in (deliverer.deliver(timeout_s=60).error or "")


def test_a_table_is_replaced(outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer) -> None:
    """CREATE OR REPLACE: the old one goes with its partitions, at the same place or another; files stay."""
    old = definition()
    for new in (definition(made="again"), definition(location="file:///data/elsewhere")):
        metastore.create_database(HiveDatabase("sales"))
        create(outbox, old)
        sync(outbox, "sales.trips", ["ds=old/n=1"])
        outbox.put("drop_table", "sales.trips", **document(old), purge=False)
        create(outbox, new)
        outbox.put("sync_partitions", "sales.trips", add=[state("ds=new/n=1")], location=new.location)
        assert deliverer.deliver(timeout_s=60) == done(5)
        assert metastore.get_table("sales", "trips") == to_hive(new)
        assert partitions(metastore) == {"new/1": f"{new.location}/ds=new/n=1"}
        metastore.drop_table("sales", "trips")
        metastore.drop_database("sales")


FOREIGN = HivePartition(("a", "1"), "file:///foreign/ds=a/n=1", {"numRows": "1"})
COUNTS = {"numFiles": "2", "totalSize": "20"}


@pytest.mark.parametrize(
    ("operation", "payload"),
    [
        ("sync_partitions", {"add": [state("ds=b/n=1")], "drop": [], "location": "file:///data/trips"}),
        ("sync_partitions", {"add": [], "alter": [state("ds=a/n=1")], "drop": [], "location": "file:///data/trips"}),
        ("sync_partitions", {"add": [], "drop": ["ds=a/n=1"], "location": "file:///data/trips"}),
        ("alter_table_statistics", {"parameters": COUNTS, "location": "file:///data/trips"}),
        ("alter_table", {**document(definition(a="1")), "removed": ["b"]}),
        ("alter_table", {**document(definition()), "retype": True}),
        ("alter_table", {**document(definition()), "rebuild": True, "previous_location": "file:///data/before"}),
    ],
)
def test_foreign_table_of_the_name_is_not_changed(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, clock: Clock,
    operation: str, payload: dict[str, Any],
) -> None:  # fmt: skip
    """Another engine has dropped ours and made its own, elsewhere: refused, set aside, and nothing of it is touched."""
    metastore.create_database(HiveDatabase("sales"))
    theirs = to_hive(definition(location="file:///foreign"))
    metastore.create_table(theirs)
    metastore.add_partitions("sales", "trips", [FOREIGN])
    number = outbox.put(operation, "sales.trips", **payload)
    before = metastore.calls.copy()
    report = deliverer.deliver(timeout_s=60)
    assert (report.delivered, report.pending) == (0, 1)
    assert "another table of the name sales.trips: at file:///foreign, and the index's table is at" in (
        report.error or ""
    )
    assert metastore.calls - before == {"get_table": 1}
    for _ in range(8):
        clock.now += 600_000
        deliverer.deliver(timeout_s=60)
    assert outbox.rows[number].set_aside
    assert metastore.get_table("sales", "trips") == theirs
    assert list(metastore.partitions("sales", "trips")) == [FOREIGN]
    # When the foreign table is out of the way, and ours is back, it goes on.
    metastore.drop_table("sales", "trips")
    metastore.create_table(to_hive(definition()))
    clock.now += 600_000
    assert deliverer.deliver(timeout_s=60) == done(1)


def test_view_and_table_of_one_name_are_foreign_to_each_other(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    table = to_hive(definition())
    metastore.create_table(replace(table, name="view", table_type="VIRTUAL_VIEW", location=""))
    metastore.create_table(table)
    sent = {"add": [state("ds=a/n=1", "")], "drop": []}
    outbox.put("sync_partitions", "sales.view", **sent, location="file:///data/view")
    outbox.put("sync_partitions", "sales.trips", **sent, location="")
    report = deliverer.deliver(timeout_s=60)
    assert (report.delivered, report.pending) == (0, 2)
    assert {row.last_error for row in outbox.rows.values()} == {
        "The metastore has another table of the name sales.view: it is a view, and the index's table is at "
        "file:///data/view. Rename or drop one of the two.",
        "The metastore has another table of the name sales.trips: at file:///data/trips, and the index has a view. "
        "Rename or drop one of the two.",
    }
    assert not any(list(metastore.partitions("sales", name)) for name in ("view", "trips"))


@pytest.mark.parametrize("there", ["file:/data/trips", "file:///data/before/"])
def test_a_table_whose_location_changed_may_be_at_either(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, there: str
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition(location=there)))
    moved = {**document(definition()), "rebuild": True, "previous_location": "file:///data/before"}
    outbox.put("alter_table", "sales.trips", **moved)
    assert deliverer.deliver(timeout_s=60) == done(1)
    assert metastore.get_table("sales", "trips").location.endswith("/data/trips")


def test_an_unpartitioned_table_has_no_partitions_there(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer
) -> None:
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(replace(definition(), partition_columns=())))
    sync(outbox, "sales.trips", [""])
    assert deliverer.deliver(timeout_s=60) == done(1)


def test_time_is_kept(outbox: FakeOutbox, metastore: FakeMetastore) -> None:
    class Slow(FakeMetastore):
        def create_table(self, table: object) -> None:
            time.sleep(0.05)
            super().create_table(table)  # type: ignore[arg-type]

    slow = Slow()
    for number in range(20):
        create(outbox, definition(f"t{number}"))
    report = Deliverer(outbox, lambda: slow).deliver(timeout_s=0.12)
    assert 1 <= report.delivered < 10
    assert (report.pending, report.error) == (20 - report.delivered, None)


@pytest.mark.parametrize("trouble", ["down", "no time"])
def test_a_backlog_is_counted_and_not_read(outbox: FakeOutbox, trouble: str) -> None:
    def unavailable() -> FakeMetastore:
        raise MetastoreUnavailableError("down")

    for number in range(5000):
        create(outbox, definition(f"t{number}"))
    report = Deliverer(outbox, unavailable).deliver(timeout_s=60 if trouble == "down" else 0)
    assert report == DeliveryReport(0, 5000, "down" if trouble == "down" else None)
    assert outbox.read <= 100, "one page of it"


def test_two_at_once_do_not_overtake_each_other(outbox: FakeOutbox, metastore: FakeMetastore, clock: Clock) -> None:
    """A second process delivers while the first is in the middle of a call."""
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition()))
    first = sync(outbox, "sales.trips", ["ds=a/n=1"])
    sync(outbox, "sales.trips", [], ["ds=a/n=1"])
    reports: list[object] = []

    def interleaved(function: Callable[..., None]) -> Callable[..., None]:
        def call(*args: object, **kwargs: object) -> None:
            if not reports:
                reports.append(None)
                reports[0] = Deliverer(outbox, lambda: metastore).deliver(timeout_s=60)
            function(*args, **kwargs)

        return call

    metastore.add_partitions = interleaved(metastore.add_partitions)  # type: ignore[method-assign]
    report = Deliverer(outbox, lambda: metastore).deliver(timeout_s=60)
    assert (reports[0].delivered, reports[0].pending) == (0, 2)  # type: ignore[attr-defined]
    assert report == done(2)
    assert partitions(metastore) == {}
    assert first not in outbox.rows


def test_a_killed_carriers_message_is_taken_up_again(
    outbox: FakeOutbox, metastore: FakeMetastore, deliverer: Deliverer, clock: Clock
) -> None:
    number = create(outbox, definition())
    assert outbox.claim(number, "another", int(CLAIM_SECONDS * 1000))
    assert deliverer.deliver(timeout_s=60).pending == 1
    clock.now += int(CLAIM_SECONDS * 1000)
    assert deliverer.deliver(timeout_s=60) == done(1)


def test_a_dropped_tables_messages_are_forgotten(metastore: FakeMetastore, tmp_path: Path) -> None:
    """With the index itself: what was refused for good does not outlive its table."""
    index = local_index(tmp_path)
    deliverer = Deliverer(index.outbox, lambda: metastore)
    metastore.create_database(HiveDatabase("sales"))
    metastore.create_table(to_hive(definition(location="file:///other")))
    index.namespaces.create(Namespace("sales"), deliver=True)
    for deliver in (True, False):
        table = index.tables.create(definition(), deliver=True)
        index.commits.apply_changes(table.table_id, [AddPartition("ds=a/n=1", ())], operation="repair", deliver=True)
        assert deliverer.deliver(timeout_s=60).pending == 2
        index.tables.drop(table.identifier, deliver=deliver)
        assert deliverer.deliver(timeout_s=60).pending == 0
    assert metastore.get_table("sales", "trips").location == "file:///other"
    table = index.tables.create(definition("orders"), deliver=True)
    message = index.outbox.pending()[0]
    assert index.outbox.claim(message.outbox_id, "another", 60_000)
    index.tables.drop(table.identifier, deliver=True)
    assert [m.operation for m in index.outbox.pending()] == ["create_table", "drop_table"]
    index.close()
