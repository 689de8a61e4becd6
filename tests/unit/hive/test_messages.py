"""Messages of the outbox: their JSON outlives a release.

``tests/contract/outbox/messages.json`` holds what ``enqueue_one_of_each`` enqueues, ``descriptors.json`` messages about
partitions with descriptors of their own. A next release must read both files.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.messages import (
    AlterTable,
    Delivery,
    DropTable,
    Message,
    PublishedPartition,
    RenameTable,
    SyncPartitions,
    payload_of,
    read_message,
    subject,
)
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.tables import Column, DataFile, Namespace, TableDefinition, TableType
from catalog_ext.metastore.model.views import VIEW_FORMAT, ViewQuery
from tests.kit.fakes_metastore import FakeMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).resolve().parents[2] / "contract" / "outbox" / "messages.json"
DESCRIPTORS = RECORDED.with_name("descriptors.json")
TRIPS = TableIdentifier("sales", "trips")
OWN = PartitionDescriptor(
    "orc", {}, (Column("id", "int"),),
    {
        "serde": "o.SerDe", "input_format": "o.In", "output_format": "o.Out", "columns": [["id", "int", None]],
        "serde_parameters": {"serialization.format": "1"},
    },
)  # fmt: skip


def enqueue_one_of_each(index: Index) -> None:
    """Make every kind of change that the metastore is to have."""
    index.namespaces.create(Namespace("sales", "s3a://b/sales", "ours", {"a": "b"}), deliver=True)
    index.namespaces.alter("sales", {"comment": "ours, altered", "c": "d"}, ["a"], deliver=True)
    trips = TableDefinition(
        TRIPS, TableType.EXTERNAL, "parquet", "s3a://b/trips",
        (Column("id", "bigint", comment="number"), Column("fee", "decimal(9,2)", True, None, "1.5", "0.5")),
        (Column("ds", "string"), Column("n", "string")),
        {"compression": "gzip"}, {"a": "b", "gone": "1"}, "trips", "owner",
    )  # fmt: skip
    table = index.tables.create(trips, deliver=True)
    file = DataFile("part-1.parquet", 10, 1, rows=3)
    adds = [AddPartition(f"ds=a/n={n}", (file,)) for n in range(3)]
    index.commits.apply_changes(table.table_id, adds, operation="repair", deliver=True)
    second = ReplaceFiles("ds=a/n=1", (DataFile("part-2.parquet", 20, 2, rows=4),), ())
    index.commits.apply_changes(table.table_id, [DropPartition("ds=a/n=0"), second], operation="repair", deliver=True)
    altered = replace(trips, properties={"a": "c"})
    index.alterations.alter(TRIPS, lambda _: altered, removed=["gone"], deliver=True)
    wider = replace(altered, columns=(*trips.columns, Column("note", "string")))
    index.alterations.alter(TRIPS, lambda _: wider, removed=[], deliver=True)
    index.alterations.change_key_types(index.tables.load(TRIPS), {"n": "int"}, deliver=True)
    index.alterations.rename(TRIPS, TableIdentifier("sales", "journeys"), deliver=True)
    flat = TableIdentifier("sales", "flat")
    whole = index.tables.create(
        TableDefinition(flat, TableType.MANAGED, "orc", "s3a://b/flat", (Column("id", "int"),)), deliver=True
    )
    index.commits.apply_changes(whole.table_id, [AddPartition("", (file,))], operation="repair", deliver=True)
    view = TableDefinition(
        TableIdentifier("sales", "recent"), TableType.VIEW, VIEW_FORMAT, "", (Column("id", "bigint"),),
        (Column("ds", "string"),),
    )  # fmt: skip
    query = ViewQuery("SELECT id, ds FROM journeys", "lake", ("sales",), {"k": "v"}, "BINDING", ("id", "ds"))
    made = index.views.create(view, query, [], deliver=True)
    index.views.add_partitions(made.table.table_id, {"ds=a": []}, if_not_exists=False, deliver=True)
    index.views.rename(view.identifier, TableIdentifier("sales", "latest"), deliver=True)


def finish(index: Index) -> None:
    """Drop all; this takes messages that wait out of the outbox."""
    index.views.drop(TableIdentifier("sales", "latest"), deliver=True)
    for name in ("flat", "journeys"):
        index.tables.drop(TableIdentifier("sales", name), deliver=True, purge=name == "flat")
    index.namespaces.drop("sales", deliver=True)


def enqueued(folder: Path) -> list[dict[str, Any]]:
    """The messages that this release enqueues; those of the drops last."""
    with Index.open(f"sqlite:///{folder / 'index.db'}") as index:
        enqueue_one_of_each(index)
        messages = index.outbox.pending(1000)
        finish(index)
        messages += index.outbox.pending(1000, after=messages[-1].outbox_id)
    return [without_times(m.operation, m.namespace, m.table, m.payload) for m in messages]


def without_times(operation: str, namespace: str, table: str | None, payload: Any) -> dict[str, Any]:
    for item in (payload, *payload.get("add", ()), *payload.get("alter", ())):
        if "transient_lastDdlTime" in item.get("parameters", {}):
            item["parameters"]["transient_lastDdlTime"] = "1700000000"
    return {"operation": operation, "namespace": namespace, "table": table, "payload": payload}


def recorded() -> list[Delivery]:
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))
    return [Delivery(number, **row) for number, row in enumerate(rows, start=1)]


def test_every_operation_is_recorded() -> None:
    assert {m.operation for m in recorded()} == {kind.operation for kind in get_args(Message)}


def test_enqueued_messages_are_as_recorded(tmp_path: Path) -> None:
    assert enqueued(tmp_path) == json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("delivery", recorded(), ids=lambda d: f"{d.outbox_id}-{d.operation}")
def test_recorded_message_is_written_as_it_was_read(delivery: Delivery) -> None:
    message = read_message(delivery)
    assert (message.operation, *subject(message)) == (delivery.operation, delivery.namespace, delivery.table)
    assert payload_of(message) == delivery.payload


def states(metastore: FakeMetastore) -> Iterator[Message]:
    """Yield each message after it was applied twice."""
    for delivery in recorded():
        message = read_message(delivery)
        carry_out(metastore, message)
        carry_out(metastore, message)
        yield message


def test_recorded_messages_are_delivered() -> None:
    metastore = FakeMetastore()
    steps = states(metastore)

    def after(count: int) -> Message:
        for _ in range(count - 1):
            next(steps)
        return next(steps)

    after(2)
    assert metastore.get_database("sales").comment == "ours, altered"
    after(3)
    found = {p.values: p for p in metastore.partitions("sales", "trips")}
    assert set(found) == {("a", "1"), ("a", "2")}
    assert (found["a", "1"].parameters["numRows"], found["a", "1"].location) == ("7", "s3a://b/trips/ds=a/n=1")
    assert isinstance(after(1), AlterTable)
    parameters = metastore.get_table("sales", "trips").parameters
    assert (parameters["a"], "gone" in parameters) == ("c", False)
    after(2)
    table = metastore.get_table("sales", "trips")
    assert [c.name for c in table.columns] == ["id", "fee", "note"]
    assert [c.type for c in table.partition_columns] == ["string", "int"]
    assert isinstance(after(1), RenameTable)
    assert metastore.list_tables("sales") == ["journeys"]
    assert metastore.get_table("sales", "journeys").table_type == EXTERNAL_TABLE
    after(2)
    assert metastore.get_table("sales", "flat").parameters["numRows"] == "3"
    after(2)
    assert metastore.get_table("sales", "recent").table_type == VIRTUAL_VIEW
    assert "FROM sales.journeys" in metastore.get_table("sales", "recent").view_expanded_text
    after(3)
    assert metastore.list_tables("sales") == ["flat", "journeys", "latest"]
    assert [p.values for p in metastore.partitions("sales", "latest")] == [("a",)]
    after(1)
    assert metastore.list_tables("sales") == ["flat", "journeys"]
    last = after(2)
    assert isinstance(last, DropTable)
    assert metastore.list_tables("sales") == []
    after(1)
    assert metastore.list_databases() == []
    assert next(steps, None) is None


def of_described_partitions() -> list[Message]:
    own = OWN.to_dict()
    trips = TableDefinition(
        TRIPS, TableType.EXTERNAL, "parquet", "s3a://b/trips", (Column("id", "bigint"),), (Column("ds", "string"),)
    )
    added = (
        PublishedPartition("ds=a", "s3a://b/trips/ds=a", {"numFiles": "1"}, own),
        PublishedPartition("ds=b", None),
    )
    altered = PublishedPartition("ds=c", "s3a://b/trips/ds=c", {}, {})
    return [
        SyncPartitions(TRIPS, added, (altered,), ("ds=d",), "s3a://b/trips"),
        AlterTable(trips, rebuild=True, previous_location="s3a://b/trips", kept=(own,), settings={"field.delim": ";"}),
    ]


@pytest.mark.parametrize("number", [0, 1])
def test_messages_about_described_partitions_are_as_recorded(number: int) -> None:
    """``descriptors.json`` has the fields of such partitions: a descriptor, that of the table, and none said."""
    row = json.loads(DESCRIPTORS.read_text(encoding="utf-8"))[number]
    message = of_described_partitions()[number]
    assert read_message(Delivery(number, **row)) == message
    assert json.loads(to_json(payload_of(message))) == row["payload"]


@pytest.mark.parametrize("delivery", recorded(), ids=lambda d: f"{d.outbox_id}-{d.operation}")
def test_fields_of_a_newer_release_are_ignored(delivery: Delivery) -> None:
    newer = replace(delivery, payload={**delivery.payload, "from_the_future": {"a": 1}})
    assert read_message(newer) == read_message(delivery)


@pytest.mark.parametrize(
    "operation", ["from_the_future", *sorted({m.operation for m in recorded()} - {"drop_namespace", "drop_view"})]
)
def test_a_message_that_cannot_be_read_names_itself(operation: str) -> None:
    with pytest.raises(MetastoreRefusedError, match=f"Message 7 of the outbox .{operation} of sales.trips. cannot"):
        read_message(Delivery(7, operation, "sales", "trips", {"nonsense": 1}))


def test_a_descriptor_is_in_a_message_once() -> None:
    """A thousand partitions of a table of 400 columns: MySQL's rows of the outbox end at 16 MiB."""
    columns = [[f"column_{i}", "decimal(38,10)", "said of it " * 5] for i in range(400)]
    wide: dict[str, Any] = {"format": "orc", "options": {}, "hive": {"columns": columns}}
    added = [PublishedPartition(f"ds={i}", None, {"numFiles": "1"}, wide if i % 2 else {}) for i in range(1000)]
    message = SyncPartitions(TRIPS, tuple(added), (PublishedPartition("ds=x", None, {}, None),))
    payload = payload_of(message)
    assert len(json.dumps(payload)) < 300_000
    delivery = Delivery(1, message.operation, "sales", "trips", json.loads(json.dumps(payload)))
    assert read_message(delivery) == message
