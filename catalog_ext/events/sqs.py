"""Reads notifications from an Amazon SQS queue. A message is deleted after its changes have been committed."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from catalog_ext.events.notifications import read_notification
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError, StorageUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from botocore.client import BaseClient

    from catalog_ext.events.notifications import StoreEvent
    from catalog_ext.events.store_events import EventsOutcome

logger = logging.getLogger(__name__)

_AT_ONCE = 10
_AMAZON = re.compile(r"sqs\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?|([a-z0-9-]+)\.queue\.amazonaws\.com")
_LONG_POLL_S = 20
_REMEMBERED = 100_000
"""The most ids of unreadable messages that are remembered."""


@dataclass(frozen=True, slots=True)
class _Message:
    number: str
    receipt: str
    events: list[StoreEvent]


class Queue:
    """A queue of notifications.

    Args:
        url: The queue's URL. For a server other than Amazon's, requests go to the URL's host.
        access: Further arguments of boto3's client: credentials, the region.
        batch_messages: The most messages of a batch.
        linger_s: How long to wait for more messages after the first of a batch.
    """

    def __init__(
        self, url: str, access: Mapping[str, str | None], *, batch_messages: int = 1000, linger_s: float = 2.0
    ) -> None:
        self._url = url
        self._client = _connect(url, access)
        self._batch_messages = batch_messages
        self._linger_s = linger_s
        self._unreadable: set[str] = set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def take(self, handle: Callable[[list[StoreEvent]], EventsOutcome], *, wait: bool) -> EventsOutcome | None:
        """Read a batch of messages from the queue, pass their events to ``handle``, and return its outcome.

        A message is deleted when all its events are handled. A message with an event that has to be repeated stays, and
        so does a message that is not a notification: the queue delivers them again, as often as its redrive policy
        allows. If the queue has no message, the result is None.

        Args:
            handle: Applies events to the index.
            wait: Whether to wait some seconds for a message.

        Raises:
            StorageUnavailableError: The queue does not answer.
        """
        messages = self._receive(wait=wait)
        if not messages:
            return None
        outcome = handle([event for message in messages for event in message.events])
        left = {event.uri for event in outcome.left}
        self._delete([message for message in messages if not any(event.uri in left for event in message.events)])
        return outcome

    def _receive(self, *, wait: bool) -> list[_Message]:
        while True:
            known = len(self._unreadable)
            messages = self._receive_batch(wait=wait)
            # If a batch had only new unreadable messages, read again: readable ones may follow. Known unreadable
            # messages end the loop.
            if messages or len(self._unreadable) == known:
                return messages

    def _receive_batch(self, *, wait: bool) -> list[_Message]:
        messages: dict[str, _Message] = {}
        unread = 0
        until: float | None = None
        while len(messages) + unread < self._batch_messages:
            left_s = _LONG_POLL_S if until is None else until - time.monotonic()
            if until is not None and left_s <= 0:
                break
            answer = self._call(
                "receive_message",
                MaxNumberOfMessages=min(_AT_ONCE, self._batch_messages - len(messages) - unread),
                # Wait at least a second: without waiting, SQS asks only some of its servers, and may return no message
                # although there are some.
                WaitTimeSeconds=max(1, min(_LONG_POLL_S, int(left_s))) if wait else 1,
            )
            found = answer.get("Messages", ())
            if not found:
                break
            until = until or time.monotonic() + self._linger_s
            for each in found:
                try:
                    events = read_notification(each["Body"])
                except InvalidInputError as error:
                    unread += 1
                    self._log_unreadable(each["MessageId"], error)
                    continue
                # If a message is delivered twice in a batch, keep its last receipt handle: only that can delete it.
                messages[each["MessageId"]] = _Message(each["MessageId"], each["ReceiptHandle"], events)
        return list(messages.values())

    def _log_unreadable(self, number: str, error: InvalidInputError) -> None:
        if len(self._unreadable) < _REMEMBERED:
            self._unreadable.add(number)
        logger.warning("Message %s of %s is left: %s", number, self._url, error.message)

    def _delete(self, messages: list[_Message]) -> None:
        """Delete messages from the queue. After a failure the queue delivers them again, and they change nothing."""
        for start in range(0, len(messages), _AT_ONCE):
            some = messages[start : start + _AT_ONCE]
            entries = [{"Id": str(i), "ReceiptHandle": message.receipt} for i, message in enumerate(some)]
            for failure in self._call("delete_message_batch", Entries=entries).get("Failed", ()):
                number = some[int(failure["Id"])].number
                logger.warning("Message %s of %s was not deleted: %s", number, self._url, failure.get("Message"))

    def _call(self, name: str, **arguments: object) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer: dict[str, Any] = getattr(self._client, name)(QueueUrl=self._url, **arguments)
        except (BotoCoreError, ClientError) as error:
            raise StorageUnavailableError(
                f"The queue {self._url} does not answer: {error}. What was committed stays, and messages that were not "
                "deleted come again.",
                {"queue": self._url},
            ) from error
        return answer


def _connect(url: str, access: Mapping[str, str | None]) -> BaseClient:
    import boto3.session

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or not parts.path.strip("/"):
        raise InvalidConfigurationError(
            f"{url[:200]!r} is no URL of a queue. Give it as SQS has it, such as "
            "https://sqs.eu-central-1.amazonaws.com/123456789012/name.",
            {"queue": url[:200]},
        )
    amazon = _AMAZON.fullmatch(parts.hostname or "")
    region = (amazon.group(1) or amazon.group(2)) if amazon else access.get("region_name")
    given = {key: value for key, value in access.items() if value is not None and key != "region_name"}
    session = boto3.session.Session()
    return session.client(
        "sqs", region_name=region or session.region_name or "us-east-1",
        endpoint_url=None if amazon else f"{parts.scheme}://{parts.netloc}", **given,
    )  # fmt: skip
