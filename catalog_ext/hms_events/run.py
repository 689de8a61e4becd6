"""One run of the follower: reads the metastore's log from its cursor, or compares everything, and moves the cursor."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.hms_events.comparison import Checked, FollowedComparison
from catalog_ext.hms_events.log import FIRST_CALL, SMALLEST_CALL, another_log, marks_at, read_batch
from catalog_ext.hms_events.suspects import FollowOutcome, SuspectTable, TableOutcome, suspects_of, with_new_names
from catalog_ext.hms_events.tables import TableFollowing
from catalog_ext.identity.record import METASTORE_ID
from catalog_ext.metastore.errors import (
    MetastoreError,
    MetastoreRefusedError,
    MetastoreReplacedError,
)
from catalog_ext.metastore.index.tables.followed import KEEPALIVE_MS, KeptSuspect, Progress
from catalog_ext.sync.pending import PendingMessages
from catalog_ext.sync.tables import known_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from catalog_ext.context import Context
    from catalog_ext.hms_events.log import LogEvents
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index.tables.followed import Followed
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.tables.hive_import import HiveImport
    from catalog_ext.tables.removal import TableRemoval

logger = logging.getLogger(__name__)

LOG, COMPARISON = "log", "comparison"
_FIRST_PAUSE_MS = 1000
_LONGEST_PAUSE_MS = 300_000
_MOST_READINGS = 2
"""The most consecutive failures at one position of the log before the follower compares instead: a server may crash by
each attempt."""


class FollowRun:
    """One run of the follower, which imports the metastore's changes since the last run into the index.

    Attributes:
        unread: The event after which the log could not be read, and the number of consecutive failures; None if the log
            could be read.
    """

    def __init__(
        self, context: Context, parts: tuple[TableRepair, HiveImport, TableRemoval], databases: frozenset[str],
        compare_s: float, holder: str, checked: Checked, *, dry_run: bool = False,
    ) -> None:  # fmt: skip
        self._context = context
        self._checked = checked
        self._index = context.index
        self._followed = context.index.followed
        self._tables = TableFollowing(context, *parts, databases, dry_run=dry_run)
        self._dry_run = dry_run
        self._compare_ms = round(compare_s * 1000)
        self._holder = holder
        self._mark: str | None = None
        self._renames: list[tuple[TableIdentifier, TableIdentifier]] = []
        self._forgotten = False
        self.unread: tuple[int, int] | None = None

    def run(self, done: Callable[[FollowOutcome], None] | None) -> FollowOutcome:
        """Import all changes; ``done`` is called after each batch of events.

        Raises:
            MetastoreUnavailableError: The metastore does not answer, or is not the index's own; no change is lost.
            IndexDatabaseError: The index does not answer.
        """
        client, state = self._context.metastore.client(), self._followed.load()
        # Read pending renames before the log: events of a rename that is delivered later come after the events of the
        # old name.
        self._renames = self._index.outbox.renames()
        newest = _newest(client)
        who = self._identity()
        # A metastore without an id was recorded by its address; it gets an id with the first delivery. Any other id
        # means a different metastore, whose events have other numbers.
        if state.metastore_id not in (who, self._context.metastore.uri()):
            state = replace(state, event_id=None, compared_at_ms=None)
            self._forget_seen()
        cursor = None if newest is None else state.event_id
        self._mark = state.mark if cursor is not None else None
        whole = FollowOutcome(COMPARISON if newest is None else LOG, event_id=cursor, newest_id=newest)
        for outcome in self._batches(client, state, who, newest, cursor):
            whole.source, whole.gap = outcome.source, outcome.gap or whole.gap
            whole.events += outcome.events
            whole.event_id, whole.newest_id = outcome.event_id, outcome.newest_id
            whole.tables += outcome.tables
            if done is not None:
                done(outcome)
        return whole

    def _identity(self) -> str:
        """Return the id of the metastore. The cursor is only valid for the log of this metastore."""
        metastore = self._context.metastore
        known = metastore.embedded_id or self._index.properties.load().get(METASTORE_ID)
        if known is not None and metastore.embedded and self._index.properties.load().get(METASTORE_ID, known) != known:
            raise MetastoreReplacedError(
                f"The embedded metastore of the index {self._index.url} was created anew, and is not the one that the "
                "index knows. Nothing is followed; catalog-ext publish --all fills it from the index and assigns it "
                "to the index.",
                {"index": self._index.url},
            )
        return known or metastore.uri()

    def _batches(
        self, client: HiveMetastore, state: Followed, who: str, newest: int | None, cursor: int | None
    ) -> Iterator[FollowOutcome]:
        if newest is None:
            yield from self._poll(client, state, who)
            return
        if cursor is None or cursor > newest:
            lost = None if cursor is None else f"the log has been lost: its newest event is {newest}, not {cursor}"
            yield self._begin(client, who, newest, lost)
            return
        if cursor == newest:
            yield from self._idle(client, state, who, newest)
            return
        unread = state.unread
        if unread >= _MOST_READINGS:
            gap = f"the events from {cursor + 1} to {newest} could not be read, {unread} times ({state.error})"
            logger.warning("%s. All that is followed is compared.", gap)
            yield self._compare(client, who, newest, newest, gap, again=False, drops=True)
            return
        suspects: dict[str, SuspectTable] = {}
        events = 0
        missing: str | None = None
        while cursor < newest:
            batch = self._read(client, cursor, newest, unread)
            if batch.lost is not None:
                yield self._begin(client, who, newest, batch.lost)
                return
            # The log may have grown since its newest event was read.
            newest = max(newest, batch.upto)
            if self._dry_run:
                # A preview does not apply a batch before it reads the next one, so it collects all events and checks
                # the final state once.
                events += len(batch.events)
                missing = batch.gap = missing or batch.gap
            if self._dry_run and batch.upto < newest:
                _add(suspects, batch)
                self._mark = batch.mark
            else:
                before = suspects if self._dry_run else {}
                yield self._apply(client, who, newest, batch, before, events or len(batch.events))
            cursor, unread = batch.upto, 0

    def _begin(self, client: HiveMetastore, who: str, newest: int, lost: str | None) -> FollowOutcome:
        """Compare everything, and set the cursor to the newest event: the log is new to the index, or was replaced."""
        if lost is not None:
            logger.warning("Of the metastore %s. All that is followed is compared.", lost)
            # The metastore may have been restored from a backup, so a missing partition does not mean that it was
            # dropped.
            self._forget_seen()
        # Events up to ``newest`` are covered by the comparison, which reads the metastore later.
        return self._compare(client, who, newest, newest, lost, again=False, drops=lost is None)

    def _read(self, client: HiveMetastore, after: int, newest: int, unread: int) -> LogEvents:
        """Return the next events; count a failure to read them.

        A server of release 2.3 reads the whole rest of its log for each call, and may run out of memory.
        """
        try:
            # After a failure ask for few events: the server may be able to send the log in small parts.
            first = SMALLEST_CALL if unread else FIRST_CALL
            return read_batch(client, after, newest, mark=self._mark, first_call=first)
        except MetastoreReplacedError:
            raise
        except MetastoreError:
            self.unread = after, unread + 1
            raise

    def _idle(self, client: HiveMetastore, state: Followed, who: str, newest: int) -> Iterator[FollowOutcome]:
        """Check suspects whose retry is due; without any, record from time to time that this process still follows."""
        looks_closely = state.error is not None or _is_old(state, KEEPALIVE_MS)
        if looks_closely:
            # Check the mark too: a replaced log may have reached the same event number.
            there = self._marks_at(client, newest)
            lost = None if self._mark is None else another_log(newest, self._mark, there)
            if lost is not None:
                yield self._begin(client, who, newest, lost)
                return
            self._mark = self._mark or next(iter(there), None)
        due = self._due()
        if due:
            yield self._settle(client, FollowOutcome(LOG, 0, newest, newest), due, who)
        elif looks_closely:
            self._advance(Progress(who, newest, newest, LOG, mark=self._mark))

    def _poll(self, client: HiveMetastore, state: Followed, who: str) -> Iterator[FollowOutcome]:
        """Compare all tables if the metastore has no log and the last comparison is older than the setting."""
        since = state.compared_at_ms
        if since is None or state.now_ms - since >= self._compare_ms:
            yield self._compare(client, who, None, None, None, again=since is not None, drops=True)
        elif due := self._due():
            yield self._settle(client, FollowOutcome(COMPARISON), due, who)

    def _apply(
        self, client: HiveMetastore, who: str, newest: int, batch: LogEvents, before: dict[str, SuspectTable],
        events: int,
    ) -> FollowOutcome:  # fmt: skip
        """Check the tables that a batch's events make suspect; a preview adds those of earlier batches (``before``).

        ``events`` is the number of events to report.
        """
        self._mark = batch.mark
        if batch.gap is not None:
            logger.warning("Events of the metastore are missing: %s. All that is followed is compared.", batch.gap)
            suspects = _add(before, batch)
            return self._compare(
                client, who, batch.upto, newest, batch.gap, again=False, drops=True, known=suspects,
                events=events,
            )  # fmt: skip
        outcome = FollowOutcome(LOG, events, batch.upto, newest)
        # Check due suspects now: while events keep arriving, no idle run would check them.
        return self._settle(client, outcome, {**self._due(), **_add(before, batch)}, who)

    def _compare(
        self, client: HiveMetastore, who: str, upto: int | None, newest: int | None, gap: str | None, *, again: bool,
        drops: bool, known: Mapping[str, SuspectTable] | None = None, events: int = 0,
    ) -> FollowOutcome:  # fmt: skip
        """Compare all tables that are followed."""
        drops = drops and not self._forgotten
        if upto is not None and known is None:
            self._mark = next(iter(self._marks_at(client, upto)), None)
        suspects = dict(known or {})
        for suspect in self._everything(client, drops=drops):
            if suspect.name in suspects:
                suspects[suspect.name].add(suspect)
            else:
                suspects[suspect.name] = suspect
        last = self._followed.load().looked_at_ms
        comparison = FollowedComparison(
            self._context, client, sizes_decide=again or gap is None, drops=drops,
            checked=self._checked if again else None, since_s=None if last is None else last // 1000,
        )  # fmt: skip
        outcome = FollowOutcome(COMPARISON if upto is None else LOG, events, upto, newest, gap)
        return self._settle(client, outcome, suspects, who, comparison)

    def _marks_at(self, client: HiveMetastore, event_id: int) -> list[str]:
        """Return the marks of the events with a number; none if the log cannot be read."""
        try:
            return marks_at(client, event_id)
        except MetastoreReplacedError:
            raise
        except MetastoreRefusedError as error:
            logger.warning("Whether the metastore's log is lost is not noticed: %s", error.message)
            return []

    def _everything(self, client: HiveMetastore, *, drops: bool) -> Iterator[SuspectTable]:
        """Yield each table that is followed or to be imported, as suspect with its definition and all partitions."""
        lost: list[SuspectTable] = []
        total = 0
        for database in self._index.namespaces.all():
            there = set(client.list_tables(database))
            for name in self._index.tables.all(database):
                total += 1
                suspect = SuspectTable(database, name, definition=True, whole=True, parameters=None)
                if name in there:
                    yield suspect
                else:
                    lost.append(suspect)
        # Count a table that the metastore lacks as dropped, except if most tables are missing: then the metastore was
        # probably restored to an older state.
        drops = drops and (len(lost) == 1 or len(lost) * 2 <= total)
        for suspect in lost:
            suspect.dropped = drops and self._was_seen(suspect)
            yield suspect
        yield from self._new_tables(client)

    def _was_seen(self, suspect: SuspectTable) -> bool:
        """Return whether the metastore once had the table. False while a pending message may still create it."""
        identifier = self._context.identify(suspect.name)
        ours = self._context.find_table(identifier)
        if ours is None or self._followed.seen(ours.table_id) is None:
            return False
        # With an unreadable message about this table its state is unknown, so it is not dropped. Other tables are not
        # affected.
        return not PendingMessages(self._index, identifier, ours).any

    def _new_tables(self, client: HiveMetastore) -> Iterator[SuspectTable]:
        refused = {kept.table for kept in self._followed.suspects() if kept.suspect is None}
        for database in client.list_databases():
            if not self._tables.takes(database):
                continue
            ours = known_names(self._index, database)
            for name in client.list_tables(database):
                if name not in ours and f"{database}.{name}" not in refused:
                    yield SuspectTable(database, name, definition=True, parameters=None)

    def _due(self) -> dict[str, SuspectTable]:
        kept = self._followed.suspects()
        return {
            each.table: SuspectTable.from_json(each.table, each.suspect) for each in kept if each.due and each.suspect
        }

    def _settle(
        self, client: HiveMetastore, outcome: FollowOutcome, suspects: Mapping[str, SuspectTable], who: str,
        comparison: FollowedComparison | None = None,
    ) -> FollowOutcome:  # fmt: skip
        """Check suspects, and record the outcome.

        The cursor moves, since unfinished suspects are stored in the index.
        """
        suspects = with_new_names(suspects, self._renames)
        before = {each.table: each for each in self._followed.suspects()}
        settled: list[str] = []
        kept: list[tuple[KeptSuspect, int]] = []
        named = self._tables.settle_names(client, suspects)
        _note_made_anew(suspects, before)
        for name, suspect in suspects.items():
            known = before.get(name)
            if known is not None and known.suspect is not None:
                # Merge the suspect parts left by earlier runs, even if not due: storing the new ones overwrites them.
                suspect.come_after(SuspectTable.from_json(name, known.suspect))
            refused = known is not None and known.suspect is None
            done = self._tables.bring_in_sync(client, suspect, comparison, refused=refused)
            if done.action == "followed":
                done.action = named.get(name, done.action)
            outcome.tables.append(done)
            if done.action in ("left", "refused"):
                kept.append(_kept(done, known))
            elif known is None or known.suspect is not None or suspect.definition:
                settled.append(name)
        compared = comparison is not None
        self._advance(
            Progress(
                who, outcome.event_id, outcome.newest_id, outcome.source, compared, settled, kept,
                None if outcome.event_id is None else self._mark,
            )
        )  # fmt: skip
        return outcome

    def _forget_seen(self) -> None:
        self._forgotten = True
        if self._dry_run:
            self._tables.forget_seen()
        else:
            self._followed.forget_seen()

    def _advance(self, progress: Progress) -> None:
        if not self._dry_run and not self._followed.advance(self._holder, progress):
            logger.warning("Another process follows the metastore now; what was done meanwhile is done again there.")


def _add(suspects: dict[str, SuspectTable], batch: LogEvents) -> dict[str, SuspectTable]:
    """Merge the suspect tables from a batch's events into ``suspects``, and return ``suspects``."""
    for name, suspect in suspects_of(batch.events).items():
        if name in suspects:
            suspect.come_after(suspects[name])
        suspects[name] = suspect
    return suspects


def _note_made_anew(suspects: Mapping[str, SuspectTable], before: Mapping[str, KeptSuspect]) -> None:
    """Mark a renamed table as created anew if it was dropped and created again under its old name.

    The drop was in an earlier run and could not be processed; the creation and the rename are in this one. All
    partitions have to be checked under the new name.
    """
    for name, suspect in suspects.items():
        known = before.get(name)
        if known is None or known.suspect is None or not suspect.created or suspect.renamed_to is None:
            continue
        renamed = suspects.get(".".join(suspect.renamed_to))
        if renamed is not None and SuspectTable.from_json(name, known.suspect).dropped:
            renamed.take_over(suspect, made_anew=True)
            renamed.whole, renamed.parameters = True, None


def _kept(done: TableOutcome, known: KeptSuspect | None) -> tuple[KeptSuspect, int]:
    attempts = 1 if known is None else known.attempts + 1
    pause = min(_FIRST_PAUSE_MS * 2 ** min(attempts - 1, 20), _LONGEST_PAUSE_MS)
    suspect = None if done.left is None else done.left.to_json()
    return KeptSuspect(done.table, suspect, done.error or "it is to be looked at again", attempts), pause


def _is_old(state: Followed, age_ms: int) -> bool:
    return state.looked_at_ms is None or state.now_ms - state.looked_at_ms > age_ms


def _newest(client: HiveMetastore) -> int | None:
    """Return the newest event's number; None if the server keeps no log, or does not show it."""
    try:
        return client.newest_event_id() or None
    except MetastoreReplacedError:
        raise
    except MetastoreRefusedError as error:
        logger.info("The metastore shows no log of events, and is compared: %s", error.message)
        return None
