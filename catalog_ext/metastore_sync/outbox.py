"""Shows, retries and skips undelivered messages for the metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import Delivery

LIST, RETRY, SKIP = "list", "retry", "skip"
ACTIONS = (LIST, RETRY, SKIP)
SET_ASIDE = "set aside"
_PAGE = 100


class OutboxEntry(NamedTuple):
    """An undelivered message for the metastore.

    Attributes:
        id: The message's number, by which it is retried or skipped.
        table: ``namespace.table``, or a namespace.
        operation: The operation in the metastore.
        state: ``pending``, ``failed`` (retried automatically), ``set aside`` (refused so often that other changes are
            delivered without it), ``retried`` or ``skipped``.
        attempts: The number of failed attempts.
        since_ms: The time when it was enqueued, in milliseconds since the epoch, UTC.
        error: The error of the last attempt, or None.
    """

    id: int
    table: str
    operation: str
    state: str
    attempts: int
    since_ms: int
    error: str | None


class OutboxCommands:
    """Shows and changes the outbox of an index, without delivering messages."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def outbox(self, action: str = LIST, outbox_id: int | str | None = None) -> list[OutboxEntry]:
        """Return the messages that the action concerns, in the order of delivery.

        Args:
            action: ``list`` shows them, ``retry`` makes them due now, ``skip`` removes one for good
                (the metastore then differs from the index, until the table is published).
            outbox_id: The number of one message; None for all, which ``skip`` refuses.

        Raises:
            InvalidInputError: There is no such action or message, or it is being delivered right now.
        """
        if action not in ACTIONS:
            raise InvalidInputError(
                f"{action[:60]!r} is no action of the outbox. The actions are: {', '.join(ACTIONS)}."
            )
        number = None if outbox_id is None else _number(outbox_id)
        if number is None and action == SKIP:
            raise InvalidInputError("Name the outbox message to skip by its id; the action 'list' shows the ids.")
        if number is not None:
            return [self._one(action, number)]
        entries = list(pending(self._index))
        if action == RETRY:
            self._index.outbox.retry()
            return [entry._replace(state="retried") for entry in entries]
        return entries

    def _one(self, action: str, number: int) -> OutboxEntry:
        found = self._index.outbox.find(number)
        if found is None:
            raise InvalidInputError(f"There is no message {number} in the outbox: it is delivered, or was never there.")
        if action == LIST:
            return entry_of(found)
        done = self._index.outbox.skip(number) if action == SKIP else self._index.outbox.retry(number) == 1
        if not done:
            raise InvalidInputError(f"Message {number} of the outbox is being delivered. Try again in some minutes.")
        return entry_of(found)._replace(state="skipped" if action == SKIP else "retried")


def pending(index: Index) -> Iterator[OutboxEntry]:
    """Yield all undelivered messages, in the order of delivery."""
    after = 0
    while page := index.outbox.pending(_PAGE, after=after):
        after = page[-1].outbox_id
        yield from map(entry_of, page)


def entry_of(delivery: Delivery) -> OutboxEntry:
    """Return a message in the form for users."""
    state = SET_ASIDE if delivery.set_aside else "failed" if delivery.last_error else "pending"
    return OutboxEntry(
        delivery.outbox_id, delivery.subject, delivery.operation, state, delivery.attempts, delivery.created_at_ms,
        delivery.last_error,
    )  # fmt: skip


def _number(text: int | str) -> int:
    if not str(text).isdecimal():
        raise InvalidInputError(f"{str(text)[:60]!r} is not the id of an outbox message.")
    return int(text)
