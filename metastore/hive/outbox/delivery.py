"""Delivers the outbox: applies the index's committed changes to the metastore, in order.

A failure for one table does not stop the others (module ``order``). A message is claimed before it is applied, and the
claim is checked before each call (``FencedMetastore``), so that processes which deliver at the same time do not
overtake each other. A message that the metastore refuses repeatedly is set aside, and retried from time to time.
"""

from __future__ import annotations

import logging
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from catalog_ext.metastore.errors import CatalogExtError, IndexDatabaseError, MetastoreUnavailableError
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.hive.outbox.order import Order, Wait
from catalog_ext.metastore.hive.thrift.forwarder import CallForwarder
from catalog_ext.metastore.messages import SET_ASIDE_AFTER, Delivery, payload_of, read_message
from catalog_ext.metastore.runtime.error_kinds import ErrorKinds
from catalog_ext.metastore.runtime.measures import Delivered, emit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.messages import Message, SyncPartitions


CLAIM_SECONDS = 300.0
"""The lease of a claim, in seconds: then another process may deliver the message of a process that was killed."""

MESSAGES_PER_COMMIT = 200
"""The most messages that a delivery looks at while a commit waits for it; the background delivers the others."""

_CLAIM_MS = int(CLAIM_SECONDS * 1000)
_PAGE = 100
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_UNAVAILABLE_SECONDS = 30.0
_LONGEST_PAUSE_REFUSED_SECONDS = 600.0
_log = logging.getLogger(__name__)


UNDER_WAY = "it is under way, or waits for its next attempt"
"""The status of a pending message that has no error."""
Result = TypeVar("Result")


class OutboxDelivery(Protocol):
    """The part of the index that delivery needs; all times are by the index database's clock."""

    def pending(self, limit: int = ..., *, after: int = ...) -> Sequence[Delivery]:
        """Return the next messages with an ``outbox_id`` above ``after``, in order, due or not."""
        ...

    def count(self) -> int:
        """Return the number of messages, due or not."""
        ...

    def claim(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        """Claim the message for ``lease_ms`` milliseconds; return False if the message is gone or not due."""
        ...

    def keep_claim(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        """Renew the claim if half of its time has passed; return False if another process has claimed the message."""
        ...

    def done(self, outbox_id: int, claim: str) -> bool:
        """Remove the delivered message; return False if another process has claimed it."""
        ...

    def failed(
        self, outbox_id: int, claim: str, error: str, pause_ms: int, *, refused: bool, rest: Message | None = None
    ) -> None:  # fmt: skip
        """Record a failed attempt: store the error, count attempt and refusal, and set the time of the next attempt.

        If ``rest`` is given, it replaces the message, and is set aside at once.
        """
        ...


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The result of one delivery.

    Attributes:
        delivered: The number of messages that the metastore has accepted.
        pending: The number of messages that are still in the outbox.
        error: Why the first undelivered message failed; None without a failure.
        reached: Whether a metastore answered; if not, no message was delivered, and ``error`` says why.
    """

    delivered: int
    pending: int
    error: str | None = None
    reached: bool = field(default=True, compare=False)


class Deliverer:
    """Delivers the outbox of one index to one metastore.

    Args:
        outbox: The outbox of the index.
        metastore_factory: Returns the metastore; called when there is a message to deliver. The metastore is not closed
            here.
    """

    def __init__(self, outbox: OutboxDelivery, metastore_factory: Callable[[], HiveMetastore]) -> None:
        self._outbox = outbox
        self._metastore_factory = metastore_factory
        self._kinds = ErrorKinds()

    def deliver(self, *, timeout_s: float, most: int | None = None) -> DeliveryReport:
        """Deliver due messages; no message is started after ``timeout_s`` seconds.

        Failures of the metastore are reported, not raised: the messages stay, and the next delivery retries them.

        Args:
            timeout_s: The time limit for starting messages.
            most: The number of messages to look at; None for all.

        Raises:
            IndexDatabaseError: The index cannot be read or written.
        """
        run = _Run(give_up=time.monotonic() + timeout_s)
        for number, delivery in enumerate(self._rows()):
            if run.stopped or number == most:
                # Stop after ``most`` messages and only count the rest: every commit delivers, and reading a whole
                # backlog each time would be slow.
                run.note(delivery)
                return DeliveryReport(run.delivered, self._outbox.count(), run.error, not run.halted)
            wait = run.order.wait(delivery)
            if wait is not Wait.NO or not delivery.due:
                run.hold(delivery, wait)
            else:
                self._attempt(delivery, run)
        return DeliveryReport(run.delivered, run.pending, run.error, not run.halted)

    def _rows(self) -> Iterator[Delivery]:
        after = 0
        while page := self._outbox.pending(_PAGE, after=after):
            yield from page
            after = page[-1].outbox_id

    def _attempt(self, delivery: Delivery, run: _Run) -> None:
        metastore, claim = self._metastore(run), uuid.uuid4().hex
        if metastore is None or not self._outbox.claim(delivery.outbox_id, claim, _CLAIM_MS):
            run.hold(delivery)  # another process delivers the message, or has just done so
        else:
            self._carry_out(metastore, delivery, claim, run)

    def _metastore(self, run: _Run) -> HiveMetastore | None:
        if run.metastore is None:
            try:
                run.metastore = self._metastore_factory()
            except CatalogExtError as error:
                run.stop(error.message)
            except Exception as error:  # noqa: BLE001 -- the commit has succeeded, and must not look as if it had failed
                run.stop(self._unexpected(error))
        return run.metastore

    def _carry_out(self, metastore: HiveMetastore, delivery: Delivery, claim: str, run: _Run) -> None:
        fenced = FencedMetastore(metastore, lambda: self._outbox.keep_claim(delivery.outbox_id, claim, _CLAIM_MS))
        try:
            undelivered = carry_out(fenced, read_message(delivery))
        except IndexDatabaseError:
            raise
        except ClaimLostError:
            _log.warning(
                "Lost the claim on outbox message %d (%s); another process delivers it.",
                delivery.outbox_id,
                delivery.subject,
            )
            run.hold(delivery)
        except MetastoreUnavailableError as error:
            self._failed(delivery, claim, error.message, refused=False)
            run.stop(error.message)
            run.hold(delivery)
        except CatalogExtError as error:
            self._refused(delivery, claim, error.message, run)
        except Exception as error:  # noqa: BLE001 -- the other tables' messages go on, and the message keeps the error
            self._refused(delivery, claim, self._unexpected(error), run)
        else:
            if undelivered is not None:
                self._refused(delivery, claim, undelivered.error, run, undelivered.message)
            elif self._outbox.done(delivery.outbox_id, claim):
                run.delivered += 1
                emit(Delivered("delivered"))
            else:
                run.hold(delivery)

    def _refused(
        self, delivery: Delivery, claim: str, error: str, run: _Run, rest: SyncPartitions | None = None
    ) -> None:  # fmt: skip
        self._failed(delivery, claim, error, refused=True, rest=rest)
        run.error = run.error or f"{delivery.operation} of {delivery.subject}: {error}"
        now = replace(delivery, refusals=delivery.refusals + 1, last_error=error)
        if rest is not None:
            now = replace(now, payload=payload_of(rest), refusals=delivery.refusals + SET_ASIDE_AFTER)
        if now.set_aside and not delivery.set_aside:
            after = "" if rest is not None else f" after {now.refusals} refusals"
            _log.warning(
                "Message %d for the metastore (%s of %s) is set aside%s: %s. See: catalog-ext outbox",
                now.outbox_id, now.operation, now.subject, after, error.rstrip("."),
            )  # fmt: skip
        run.hold(now)

    def _failed(
        self, delivery: Delivery, claim: str, error: str, *, refused: bool, rest: SyncPartitions | None = None
    ) -> None:  # fmt: skip
        emit(Delivered("refused" if refused else "unavailable"))
        longest = _LONGEST_PAUSE_REFUSED_SECONDS if refused else _LONGEST_PAUSE_UNAVAILABLE_SECONDS
        pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(delivery.attempts, 20), longest)
        self._outbox.failed(delivery.outbox_id, claim, error, int(pause * 1000), refused=refused, rest=rest)

    def _unexpected(self, error: Exception) -> str:
        """Return the error as text; the first error of each kind is logged with its traceback."""
        if self._kinds.is_new(error):
            _log.error("Unexpected %s while delivering to the metastore", type(error).__name__, exc_info=error)
        return f"Unexpected {type(error).__name__}: {error}"


@dataclass(slots=True)
class _Run:
    """The state of one delivery."""

    give_up: float
    metastore: HiveMetastore | None = None
    delivered: int = 0
    pending: int = 0
    error: str | None = None
    halted: bool = False
    order: Order = field(default_factory=Order)

    @property
    def stopped(self) -> bool:
        return self.halted or time.monotonic() >= self.give_up

    def stop(self, error: str) -> None:
        self.halted = True
        self.error = self.error or error

    def hold(self, delivery: Delivery, wait: Wait = Wait.NO) -> None:
        self.pending += 1
        self.note(delivery)
        self.order.hold(delivery, wait)

    def note(self, delivery: Delivery) -> None:
        # Report the last error of a message that waits for its next attempt, since it is not tried now.
        self.error = self.error or delivery.last_error


class ClaimLostError(Exception):
    """Another process has claimed the message, so the remaining calls of this process may be outdated."""


class FencedMetastore(CallForwarder):
    """Passes calls on to the metastore while this process holds the claim on the message.

    Args:
        metastore: Answers the calls.
        keep: Renews the claim; returns False if the claim is lost.
    """

    def __init__(self, metastore: HiveMetastore, keep: Callable[[], bool]) -> None:
        self._metastore = metastore
        self._keep = keep

    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        if not self._keep():
            raise ClaimLostError(f"{method} is not called: another process has the claim on the message now.")
        return function(self._metastore)

    def close(self) -> None:
        """Do not close the metastore: the caller uses it for other messages, too."""
