"""A queue in which there are messages that are no notifications."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.events import sqs
from catalog_ext.events.sqs import Queue
from catalog_ext.events.store_events import EventsOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.events.notifications import StoreEvent

GOOD = {"Records": [{"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": "t/f"}}}]}


class _Messages:
    """SQS with some messages, that shows what was not deleted again at once, ``again`` times."""

    def __init__(self, bodies: list[str], again: int = 0) -> None:
        self.left = {str(number): body for number, body in enumerate(bodies)}
        self._shown = itertools.chain(*(list(self.left) for _ in range(again + 1)))

    def receive_message(self, MaxNumberOfMessages: int, **_: object) -> dict[str, Any]:
        numbers = [n for n in itertools.islice(self._shown, MaxNumberOfMessages) if n in self.left]
        return {"Messages": [{"MessageId": n, "ReceiptHandle": n, "Body": self.left[n]} for n in numbers]}

    def delete_message_batch(self, Entries: list[dict[str, str]], **_: object) -> dict[str, Any]:
        for entry in Entries:
            del self.left[entry["ReceiptHandle"]]
        return {}


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Callable[[_Messages], Queue]:
    def make(messages: _Messages) -> Queue:
        monkeypatch.setattr(sqs, "_connect", lambda *_: messages)
        return Queue("https://sqs.eu-central-1.amazonaws.com/1/n", {}, batch_messages=20)

    return make


def _all_taken(events: list[StoreEvent]) -> EventsOutcome:
    return EventsOutcome(events=len(events), ignored=0, tables=[], left=[])


@pytest.mark.parametrize("again", [0, 100])
def test_behind_what_is_no_notification_there_is_more(queue: Callable[[_Messages], Queue], again: int) -> None:
    messages = _Messages([*["poison"] * 20, json.dumps(GOOD)], again)
    taken = queue(messages)
    outcome = taken.take(_all_taken, wait=False)
    assert outcome is not None
    assert outcome.events == 1
    assert taken.take(_all_taken, wait=False) is None
    assert set(messages.left.values()) == {"poison"}
