"""The forms of object stores' notifications."""

from __future__ import annotations

import json

import pytest

from catalog_ext.events.notifications import StoreEvent, read_notification
from catalog_ext.events.store_events import Sequencers
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.etags import etag_hash

RECORD = {
    "eventVersion": "2.1", "eventSource": "aws:s3", "awsRegion": "us-east-1", "eventTime": "2025-01-02T03:04:05.678Z",
    "eventName": "ObjectCreated:Put",
    "s3": {
        "s3SchemaVersion": "1.0", "bucket": {"name": "lake", "arn": "arn:aws:s3:::lake"},
        "object": {"key": "t/ds%3D2025-01-01/a+b%2Bc.csv", "size": 7, "eTag": "x", "sequencer": "0055aed6dcd90281e5"},
    },
}  # fmt: skip
EVENT = StoreEvent(
    "s3a://lake/t/ds=2025-01-01/a b+c.csv", False, 7, 1735787045678, "0055AED6DCD90281E5", etag=etag_hash("x")
)


def named(name: str, **more: object) -> dict[str, object]:
    return {**RECORD, "eventName": name, "s3": {**RECORD["s3"], "object": {**RECORD["s3"]["object"], **more}}}  # type: ignore[dict-item]


def test_records() -> None:
    assert read_notification(json.dumps({"Records": [RECORD]})) == [EVENT]
    assert read_notification(b'\xef\xbb\xbf{"Records": []}') == []


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("ObjectCreated:CompleteMultipartUpload", False), ("s3:ObjectCreated:Copy", False),
        ("ObjectRemoved:Delete", True), ("s3:ObjectRemoved:DeleteMarkerCreated", True),
        ("LifecycleExpiration:Delete", True), ("ObjectRestore:Completed", False),
        ("ObjectTagging:Put", None), ("ReducedRedundancyLostObject", None),
    ],
)  # fmt: skip
def test_names_of_events(name: str, removed: bool | None) -> None:
    found = read_notification(json.dumps({"Records": [named(name)]}))
    assert [event.removed for event in found] == ([] if removed is None else [removed])


def test_by_sns_and_by_eventbridge() -> None:
    inner = json.dumps({"Records": [RECORD]})
    assert read_notification(json.dumps({"Type": "Notification", "MessageId": "1", "Message": inner})) == [EVENT]
    assert read_notification(json.dumps({"Type": "SubscriptionConfirmation", "SubscribeURL": "x"})) == []
    bridged = {
        "version": "0", "detail-type": "Object Deleted", "source": "aws.s3", "time": "2025-01-02T03:04:05Z",
        "detail": {
            "bucket": {"name": "lake"}, "object": {"key": "t/ds=1/a+b%.csv", "version-id": "v", "sequencer": "01"},
        },
    }  # fmt: skip
    of = StoreEvent("s3a://lake/t/ds=1/a+b%.csv", True, None, 1735787045000, "01", True)
    assert read_notification(json.dumps(bridged)) == [of]
    assert read_notification(json.dumps({**bridged, "detail-type": "Object Tags Added"})) == []


def test_a_test_event_says_nothing() -> None:
    assert read_notification('{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"}') == []


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "7", "{}", '{"Records": 7}', '{"Records": [7]}', '{"Records": [{}]}', '{"Message": "hello"}',
        '{"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": ""}, "object": {"key": "a"}}}]}',
        json.dumps({"Records": [named("ObjectCreated:Put", size="many")]}), "[" * 100_000,
        json.dumps({"Records": [named("ObjectCreated:Put", size=float("inf"))]}),
    ],
)  # fmt: skip
def test_what_is_no_notification(text: str) -> None:
    with pytest.raises(InvalidInputError, match="notification"):
        read_notification(text)


def test_the_last_event_of_an_object_counts_and_late_ones_do_not() -> None:
    def event(sequencer: str | None, *, removed: bool = False, key: str = "k") -> StoreEvent:
        return StoreEvent(f"s3a://b/{key}", removed, 1, 1, sequencer)

    memory = Sequencers()
    late, last = event("0A"), event("0B1", removed=True)
    assert memory.latest([late, last, late, last]) == [last]
    assert memory.latest([last, late]) == [last]
    memory.note([last])
    assert memory.latest([late, last]) == []
    memory.note([late])
    assert memory.latest([event("0B10"), event("0B2")]) == [event("0B2")]
    assert memory.latest([event(None), event("00", key="other")]) == [event("00", key="other"), event(None)]
    unordered = [event(None, removed=True), event(None)]
    assert memory.latest([*unordered, *unordered]) == unordered
    assert memory.latest([event("0D", removed=True), event(None), event("0C")]) == [
        event("0D", removed=True),
        event(None),
    ]
