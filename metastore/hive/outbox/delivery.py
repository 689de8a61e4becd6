"""Delivery of the outbox: what the index has committed is applied to the metastore, in order, until it is there.

Order holds where it matters: the messages of one table follow one another, and a message about a namespace waits for
those before it in the namespace and holds up those after it. One table's trouble does not stop the others. A message is
claimed before it is carried out, so that processes that deliver at the same time do not overtake each other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from catalog_ext.metastore.errors import CatalogExtError, MetastoreRefusedError, MetastoreUnavailableError
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.messages import Delivery, RenameTable, read_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

CLAIM_SECONDS = 300.0
"""A message whose carrier was killed is taken up again after this time."""

_PAGE = 100
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_UNAVAILABLE_SECONDS = 30.0
_LONGEST_PAUSE_REFUSED_SECONDS = 600.0


class Outbox(Protocol):
    """The part of the index that delivery needs."""

    def pending_deliveries(self, limit: int = ..., *, after: int = ...) -> Sequence[Delivery]:
        """Return the next messages with an ``outbox_id`` above ``after``, in order, due or not."""
        ...

    def count_deliveries(self) -> int:
        """Return how many messages there are, due or not."""
        ...

    def claim_delivery(self, outbox_id: int, now_ms: int, until_ms: int) -> bool:
        """Claim the message until ``until_ms``; False where it is gone, or not due at ``now_ms``."""
        ...

    def delivery_done(self, outbox_id: int) -> None:
        """Take the message out."""
        ...

    def delivery_failed(self, outbox_id: int, error: str, next_attempt_at_ms: int) -> None:
        """Keep the message with the error, and count the attempt."""
        ...


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The result of one delivery.

    Attributes:
        delivered: Messages that the metastore has accepted.
        pending: Messages that are still in the outbox.
        error: Why the first of them could not be delivered; None when nothing went wrong.
    """

    delivered: int
    pending: int
    error: str | None = None


class Deliverer:
    """Delivers the outbox of one index to one metastore.

    Args:
        index: Holds the outbox.
        metastore_factory: Gives the metastore; called when there is something to deliver, and not closed here.
        clock: Milliseconds since the epoch.
    """

    def __init__(
        self,
        index: Outbox,
        metastore_factory: Callable[[], HiveMetastore],
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._index = index
        self._metastore_factory = metastore_factory
        self._clock = clock

    def deliver(self, *, timeout_s: float) -> DeliveryReport:
        """Deliver what is due; no message is begun after ``timeout_s`` seconds.

        Trouble with the metastore is reported, not raised: the messages stay, and the next delivery takes them up.

        Raises:
            IndexDatabaseError: The index cannot be read or written.
        """
        run = _Run(give_up=time.monotonic() + timeout_s)
        for delivery in self._rows():
            if run.stopped:
                # Every commit delivers: it counts what is left of a backlog, and does not read it.
                run.hold(delivery)
                return DeliveryReport(run.delivered, self._index.count_deliveries(), run.error)
            if run.waits(delivery):
                run.hold(delivery)
            else:
                self._attempt(delivery, run)
        return DeliveryReport(run.delivered, run.pending, run.error)

    def _rows(self) -> Iterator[Delivery]:
        after = 0
        while page := self._index.pending_deliveries(_PAGE, after=after):
            yield from page
            after = page[-1].outbox_id

    def _attempt(self, delivery: Delivery, run: _Run) -> None:
        metastore = self._metastore(run)
        now = self._clock()
        until = now + int(CLAIM_SECONDS * 1000)
        if metastore is None or delivery.next_attempt_at_ms > now:
            run.hold(delivery)
        elif not self._index.claim_delivery(delivery.outbox_id, now, until):
            run.hold(delivery)  # another process carries it out, or has just done so
        else:
            self._carry_out(metastore, delivery, run)

    def _metastore(self, run: _Run) -> HiveMetastore | None:
        if run.metastore is None:
            try:
                run.metastore = self._metastore_factory()
            except CatalogExtError as error:
                run.stop(error.message)
        return run.metastore

    def _carry_out(self, metastore: HiveMetastore, delivery: Delivery, run: _Run) -> None:
        try:
            carry_out(metastore, read_message(delivery))
        except MetastoreUnavailableError as error:
            self._failed(delivery, error, _LONGEST_PAUSE_UNAVAILABLE_SECONDS)
            run.stop(error.message)
            run.hold(delivery)
        except CatalogExtError as error:
            self._failed(delivery, error, _LONGEST_PAUSE_REFUSED_SECONDS)
            run.error = run.error or f"{delivery.operation} of {delivery.subject}: {error.message}"
            run.hold(delivery)
        else:
            self._index.delivery_done(delivery.outbox_id)
            run.delivered += 1

    def _failed(self, delivery: Delivery, error: CatalogExtError, longest: float) -> None:
        pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(delivery.attempts, 20), longest)
        self._index.delivery_failed(delivery.outbox_id, error.message, self._clock() + int(pause * 1000))


@dataclass(slots=True)
class _Run:
    """The state of one delivery: who has to wait for whom."""

    give_up: float
    metastore: HiveMetastore | None = None
    delivered: int = 0
    pending: int = 0
    error: str | None = None
    halted: bool = False
    tables: set[tuple[str, str]] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    namespaces_with_waiting: set[str] = field(default_factory=set)

    @property
    def stopped(self) -> bool:
        return self.halted or time.monotonic() >= self.give_up

    def stop(self, error: str) -> None:
        self.halted = True
        self.error = self.error or error

    def waits(self, delivery: Delivery) -> bool:
        if delivery.table is None:
            return delivery.namespace in self.namespaces_with_waiting
        names = [(delivery.namespace, delivery.table), _new_name(delivery)]
        return any(name[0] in self.namespaces or name in self.tables for name in names if name is not None)

    def hold(self, delivery: Delivery) -> None:
        self.pending += 1
        # A message that waits for its next attempt still has to say why.
        self.error = self.error or delivery.last_error
        self.namespaces_with_waiting.add(delivery.namespace)
        if delivery.table is None:
            self.namespaces.add(delivery.namespace)
        else:
            self.tables.add((delivery.namespace, delivery.table))
        # What follows about a renamed table is about its new name.
        if (new := _new_name(delivery)) is not None:
            self.tables.add(new)
            self.namespaces_with_waiting.add(new[0])


def _new_name(delivery: Delivery) -> tuple[str, str] | None:
    """Return the namespace and name that a rename gives its table; None of any other message."""
    if delivery.operation != RenameTable.operation:
        return None
    try:
        message = read_message(delivery)
    except MetastoreRefusedError:
        # Delivery reports it, and holds the table under its old name.
        return None
    if not isinstance(message, RenameTable):
        return None
    new = message.definition.identifier
    return new.namespace, new.name
