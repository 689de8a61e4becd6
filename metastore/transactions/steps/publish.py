"""Step 5, ``publish``: delivers outbox messages to the metastore; messages that it does not accept stay for later."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.runtime.tracing import span

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)


def publish(resources: Resources, commit: Commit) -> Commit:
    """Publish the commit to the metastore; return it with the number of messages that the metastore has not accepted.

    The write is committed, so errors are logged and never fail it.
    """
    transaction = commit.transaction
    assert transaction.outcome is not None, "a committed transaction has an outcome"
    if transaction.state is State.COMMITTED:
        _complete_delete(resources, transaction)
    pending = _deliver(resources, transaction, transaction.outcome.pending_deliveries)
    outcome = replace(transaction.outcome, pending_deliveries=pending)
    return replace(commit, transaction=replace(transaction, outcome=outcome))


def _complete_delete(resources: Resources, transaction: Transaction) -> None:
    """Complete a deferred delete before the delivery, so that the metastore drops all deleted partitions."""
    try:
        resources.index.deletions.complete(transaction.transaction_id)
    except Exception as error:  # noqa: BLE001 -- the write is committed, whatever goes wrong after that
        logger.warning(
            "Table %s is written; its rows in the index could not all be ended yet, recover does it: %s",
            transaction.table,
            error,
        )


def _deliver(resources: Resources, transaction: Transaction, enqueued: int) -> int:
    """Deliver the due messages to the metastore; return the number of messages that it has not accepted."""
    try:
        fault_point("publish.before")
        with span("deliver"):
            report = resources.publish(transaction.table_id)
        fault_point("publish.after")
    except Exception as error:  # noqa: BLE001 -- the write is committed, whatever goes wrong after that
        logger.warning(
            "Table %s is written; it could not be published to the metastore yet: %s", transaction.table, error
        )
        return enqueued
    return 0 if report is None else report.pending
