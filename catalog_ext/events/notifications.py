"""Parses the notifications of object stores about created and removed objects.

The format is that of Amazon's S3 event notifications, which other stores send too: plain, wrapped by SNS, or in
EventBridge's form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timezone
from typing import Any
from urllib.parse import unquote_plus

from catalog_ext.metastore.backports import from_iso
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.etags import etag_hash

_CREATED = ("ObjectCreated:", "ObjectRestore:Completed")
_REMOVED = ("ObjectRemoved:", "LifecycleExpiration:")
_BRIDGED = {"Object Created": False, "Object Restore Completed": False, "Object Deleted": True}
_OF_SNS = ("SubscriptionConfirmation", "UnsubscribeConfirmation")


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """The creation, change or removal of an object in a store.

    Attributes:
        uri: The object's location in the form of this catalog (``s3a://bucket/key``).
        removed: Whether it was removed.
        size: The size in bytes; None if the event has no size.
        at_ms: The time by the store's clock, in milliseconds since the epoch; None if the event has no time.
        sequencer: Orders the events of one object; None if the store has no sequencers.
        of_version: Whether it names a version of the object: removing a version may bring an older one back.
        etag: The hash of the object's ETag; None if the event has no ETag.
    """

    uri: str
    removed: bool
    size: int | None = None
    at_ms: int | None = None
    sequencer: str | None = None
    of_version: bool = False
    etag: int | None = None


def read_notification(notification: str | bytes) -> list[StoreEvent]:
    """Return the events of a notification in its order; none for a test message or other kinds of events.

    Raises:
        InvalidInputError: The text is not JSON, or not a notification of a store.
    """
    try:
        body = json.loads(notification)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"A notification is not JSON: {error}: {_shown(notification)}") from error
    return events_of(body)


def events_of(body: object) -> list[StoreEvent]:
    """Return the events in a notification's JSON value, as ``read_notification`` does.

    Raises:
        InvalidInputError: The value is not a notification of a store.
    """
    if not isinstance(body, Mapping):
        raise _none(body)
    if body.get("Event") == "s3:TestEvent" or body.get("Type") in _OF_SNS:
        return []
    if isinstance(body.get("Message"), str) and "Records" not in body:
        return read_notification(body["Message"])
    try:
        if isinstance(body.get("Records"), list):
            found = [_of_record(record) for record in body["Records"]]
        elif "detail-type" in body:
            found = [_of_bridge(body)]
        else:
            raise _none(body)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _none(body) from error
    return [event for event in found if event is not None]


def _of_record(record: Mapping[str, Any]) -> StoreEvent | None:
    if "Sns" in record:
        # A record in the form that SNS passes to a Lambda function, not a record of S3.
        raise ValueError("a record of SNS")
    name = str(record["eventName"]).removeprefix("s3:")
    if not name.startswith((*_CREATED, *_REMOVED)):
        return None
    bucket, thing = record["s3"]["bucket"]["name"], record["s3"]["object"]
    return _event(
        bucket, unquote_plus(_text(thing["key"]), errors="surrogateescape"), thing, record.get("eventTime"),
        removed=name.startswith(_REMOVED),
    )  # fmt: skip


def _of_bridge(body: Mapping[str, Any]) -> StoreEvent | None:
    removed = _BRIDGED.get(body["detail-type"])
    if removed is None:
        return None
    detail = body["detail"]
    return _event(
        detail["bucket"]["name"], _text(detail["object"]["key"]), detail["object"], body.get("time"), removed=removed
    )


def _event(bucket: object, key: str, thing: Mapping[str, Any], time: object, *, removed: bool) -> StoreEvent:
    size, version = thing.get("size"), thing.get("versionId", thing.get("version-id"))
    sequencer, etag = thing.get("sequencer"), thing.get("eTag", thing.get("etag")) or None
    return StoreEvent(
        _uri(_text(bucket), key), removed, None if size is None else int(size),
        None if time is None else _milliseconds(_text(time)), None if not sequencer else _text(sequencer).upper(),
        version not in (None, "", "null"), etag_hash(None if etag is None else _text(etag)),
    )  # fmt: skip


def _uri(bucket: str, key: str) -> str:
    return f"s3a://{bucket}/{key}"


def _milliseconds(time: str) -> int:
    at = from_iso(time)
    return round((at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("a text is expected")
    return value


def _none(notification: object) -> InvalidInputError:
    return InvalidInputError(
        f"No notification of a store: {_shown(json.dumps(notification, default=str))}. Send S3 event notifications "
        "(Records with eventName, s3.bucket.name and s3.object.key), as they are, by SNS, or by EventBridge."
    )


def _shown(text: str | bytes) -> str:
    return repr(text[:200])
