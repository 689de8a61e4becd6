"""Lists work in flight: transactions, waiting partitions, messages pending for the metastore."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import MetastoreError
from catalog_ext.metastore.index.tables.followed import KEEPALIVE_MS
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.runtime.processes import is_gone
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.sync.tables import not_taken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore_sync.connection import MetastoreConnection

_PAGE = 100
_NAMED = 10
"""The most table names in an entry."""
_NEXT = {
    State.OPEN: "recover undoes it",
    State.RESERVED: "recover finishes it",
    State.COMMITTED: "readers see it; recover cleans up after it",
    State.ABORTING: "recover goes on undoing it",
}


class StatusEntry(NamedTuple):
    """A row of ``status``: a write, a waiting partition, a pending change for the metastore, or the follower's state.

    Attributes:
        kind: ``transaction``, ``waiting`` (a partition of a stream that is not due yet), ``delivery``; if the metastore
            is followed also ``follower``, ``suspect`` (a table that could not be followed) and ``not taken`` (tables of
            a namespace that the metastore has and the index has not).
        table: ``namespace.table``, or a namespace.
        id: The transaction's id, the partition's name, the message's number, or the number of the last processed event.
        state: Of a transaction its state, followed by ``live``, ``dead`` (its process on this host has ended) or
            ``expired`` (its lease has ended); of a message ``pending``, ``failed`` or ``set aside``; of the follower
            ``in sync``, ``behind``, ``failed`` or ``stopped``; of a suspect table ``left`` or ``refused``.
        since_ms: Milliseconds since the epoch, UTC.
        detail: A description and what happens next, in words.
    """

    kind: str
    table: str
    id: str
    state: str
    since_ms: int
    detail: str


def not_taken_entries(index: Index, connection: MetastoreConnection) -> Iterator[StatusEntry]:
    """Yield the metastore's tables that were not imported, an entry per namespace, if a follower runs."""
    state = index.followed.load()
    if state.source is None or state.error:
        return
    try:
        client = connection.running_client()
        found = [] if client is None else list(not_taken(index, client))
    except MetastoreError as error:
        why = f"tables that were not taken are not known: {error.message}"
        yield StatusEntry("not taken", "", "", "not known", state.now_ms, why)
        return
    for each in found:
        names = ", ".join(each.names[:_NAMED]) + (", …" if len(each.names) > _NAMED else "")
        what = f"{counted(len(each.names), 'table')}: {names}"
        how = f"catalog-ext import '{each.namespace}.*' takes them, or the setting follow.databases"
        yield StatusEntry("not taken", each.namespace, "", "not taken", state.now_ms, f"{what}; {how}")


def status_entries(index: Index, table: Table | None, most: int | None = None) -> Iterator[StatusEntry]:
    """Yield all work that is in flight or pending, for one table or (``table`` is None) for all."""
    yield from _transactions(index, table, most)
    yield from islice(_waiting(index, table), most)
    yield from islice(_deliveries(index, table), most)
    if table is None:
        yield from _follower(index)
    yield from islice(_suspects(index, table), most)


def _transactions(index: Index, table: Table | None, most: int | None) -> Iterator[StatusEntry]:
    now, table_id = index.now_ms(), None if table is None else table.table_id
    for one in index.transactions.all(table_id, states=IN_FLIGHT, limit=most):
        lease, owner = _of_owner(one, now)
        detail = f"{one.operation} by {one.owner}, {owner}{f' ({one.error})' if one.error else ''}"
        state = f"{one.state} ({lease})"
        yield StatusEntry("transaction", one.table, one.transaction_id, state, one.began_at_ms, detail)


def _of_owner(transaction: Transaction, now: int) -> tuple[str, str]:
    """Return whether a transaction's owner is ``live``, ``dead`` or ``expired``, and a text that explains it."""
    left_ms, then = transaction.expires_at_ms - now, _NEXT[transaction.state]
    if left_ms <= 0:
        return "expired", f"its lease ended {-left_ms // 1000} s ago: {then}"
    if is_gone(transaction.owner):
        return (
            "dead",
            f"its process is gone: {then} in {left_ms // 1000} s, or at once with the age 0s",
        )
    return "live", "its owner is at work"


def _waiting(index: Index, table: Table | None) -> Iterator[StatusEntry]:
    tables = [table] if table is not None else map(index.tables.load_by_id, index.waiting_files.tables())
    for each in tables:
        for partition, documents in groupby(index.waiting_files.all(each.table_id), key=lambda d: d.partition):
            kept = list(documents)
            files = sum(len(d.files) for d in kept)
            yield StatusEntry(
                "waiting",
                str(each.identifier),
                partition,
                "waiting",
                min(d.since_ms for d in kept),
                f"{files:,} {'file' if files == 1 else 'files'} of a stream, until the watermark passes its time",
            )


def _deliveries(index: Index, table: Table | None) -> Iterator[StatusEntry]:
    after = 0
    named = None if table is None else table.identifier
    while page := index.outbox.pending(_PAGE, after=after, named=named):
        after = page[-1].outbox_id
        for message in page:
            name = f"{message.namespace}.{message.table}" if message.table else message.namespace
            times = "once" if message.attempts == 1 else f"{message.attempts} times"
            tried = f"; tried {times}: {message.last_error}" if message.attempts else ""
            yield StatusEntry(
                "delivery",
                name,
                str(message.outbox_id),
                "set aside" if message.set_aside else "failed" if message.last_error else "pending",
                message.created_at_ms,
                f"{message.operation} for the metastore{tried}",
            )


def _follower(index: Index) -> Iterator[StatusEntry]:
    """Yield the follower's state, as its last run has recorded it; nothing if no follower ever ran."""
    state = index.followed.load()
    if state.source is None and state.holder is None:
        return
    behind = (state.newest_id or 0) - (state.event_id or 0) if state.event_id is not None else 0
    if state.holder is None or state.held_for_ms <= 0 or is_gone(state.holder):
        word, who = "stopped", "no process follows"
    else:
        word, who = "failed" if state.error else "behind" if behind > 0 else "in sync", f"by {state.holder}"
    looked = state.looked_at_ms
    when = "not looked yet" if looked is None else f"last heard of {max(state.now_ms - looked, 0) / 1000:.0f} s ago"
    if state.event_id is not None and looked is not None:
        # Add the interval at which idle runs are recorded, so that an old time does not look like a stopped follower.
        when += f" (every {KEEPALIVE_MS // 1000} s where nothing happens)"
    if state.event_id is not None:
        what = f"the log up to event {state.event_id:,} of {state.newest_id or 0:,}, {behind:,} behind"
    else:
        what = "no log, compared from time to time"
    error = f"; {state.error}" if state.error else ""
    number = "" if state.event_id is None else str(state.event_id)
    yield StatusEntry("follower", "", number, word, looked or state.now_ms, f"{what}; {when}; {who}{error}")


def _suspects(index: Index, table: Table | None) -> Iterator[StatusEntry]:
    for kept in index.followed.suspects():
        if table is None or kept.table == str(table.identifier):
            state = "refused" if kept.suspect is None else "left"
            tried = "once" if kept.attempts == 1 else f"{kept.attempts} times"
            yield StatusEntry("suspect", kept.table, "", state, kept.since_ms, f"tried {tried}: {kept.error}")
