"""Imports the changes of one table from the metastore: the table, its columns, its partitions."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.hms_events.comparison import FollowedComparison
from catalog_ext.hms_events.names import NewNames, TableNames, lies_at
from catalog_ext.hms_events.partitions import PartitionFollowing
from catalog_ext.hms_events.suspects import SuspectPartition, TableOutcome
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ConflictError,
    IndexDatabaseError,
    InvalidInputError,
    MetastoreRefusedError,
    MetastoreUnavailableError,
    StorageError,
    TableNotFoundError,
    UnsupportedFormatError,
    UnsupportedTypeChangeError,
)
from catalog_ext.metastore.hive.mapping.conversion import hive_partition_name, unrepresentable_reason
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.outbox.ownership import check_location
from catalog_ext.metastore.index.tables.followed import Seen
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.views import View
from catalog_ext.metastore.storage.locations import Location, canonical_location
from catalog_ext.sync.definitions import (
    Changed,
    all_of,
    changed_since,
    check_keys,
    check_partitions,
    check_version,
    followed_definition,
    not_followed,
    written_definition,
)
from catalog_ext.sync.pending import pending_for
from catalog_ext.sync.tables import find_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.context import Context
    from catalog_ext.hms_events.suspects import SuspectTable
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.sync.pending import PendingMessages
    from catalog_ext.tables.hive_import import HiveImport
    from catalog_ext.tables.removal import TableRemoval

logger = logging.getLogger(__name__)

ALL = "*"
"""The database name that stands for all databases, in the list of followed ones."""


class TableFollowing:
    """Imports changes of tables from the metastore.

    Args:
        context: The catalog's context.
        repair: Checks partitions.
        imports: Imports new tables.
        removal: Removes dropped tables from the index.
        databases: Databases whose new tables are imported; ``*`` for all.
        dry_run: Whether nothing is changed, and outcomes say what would be done.
    """

    def __init__(
        self, context: Context, repair: TableRepair, imports: HiveImport, removal: TableRemoval,
        databases: frozenset[str], *, dry_run: bool,
    ) -> None:  # fmt: skip
        self._context = context
        self._imports = imports
        self._databases = databases
        self._dry_run = dry_run
        self._names = TableNames(context, imports, removal, dry_run=dry_run)
        self._forgotten = False
        self._partitions = PartitionFollowing(context, repair, dry_run=dry_run)

    def takes(self, database: str) -> bool:
        """Return whether new tables of a database are imported."""
        return ALL in self._databases or database in self._databases

    def forget_seen(self) -> None:
        """In a preview, treat all tables as never compared, because the real run deletes these records first."""
        self._forgotten = True

    def _seen(self, table: Table) -> Seen | None:
        return None if self._forgotten else self._context.index.followed.seen(table.table_id)

    def settle_names(self, client: HiveMetastore, suspects: Mapping[str, SuspectTable]) -> dict[str, str]:
        """Apply renames of tables to the index; return ``renamed`` or ``removed`` by the tables' old names.

        Raises:
            MetastoreUnavailableError: The metastore does not answer, or is a different one.
            IndexDatabaseError: The index does not answer.
        """
        names = NewNames(self._context.index, self._names, client, suspects)
        try:
            names.settle()
        except (MetastoreUnavailableError, IndexDatabaseError):
            raise
        except CatalogExtError as error:
            # Continue: each table is still checked, and reports itself why it cannot be renamed.
            logger.warning("Not all tables that were renamed have their names: %s", error.message)
        return names.settled

    def bring_in_sync(
        self,
        client: HiveMetastore,
        suspect: SuspectTable,
        comparison: FollowedComparison | None = None,
        *,
        refused: bool,
    ) -> TableOutcome:
        """Check the suspect parts of a table, and import their changes; return the outcome, with parts to check again.

        Args:
            client: The metastore.
            suspect: The suspect parts.
            comparison: Compares all partitions, if they are all suspect. None for a comparison of this table alone,
                which drops no partition.
            refused: Whether the table's state was refused in the last run.

        Raises:
            MetastoreUnavailableError: The metastore does not answer, or is a different one.
            IndexDatabaseError: The index does not answer.
        """
        outcome = TableOutcome(suspect.name)
        try:
            self._follow(client, suspect, outcome, comparison, refused=refused)
        except (MetastoreUnavailableError, IndexDatabaseError):
            raise
        except CatalogExtError as error:
            outcome.error = error.message
            # A refused table is retried when it changes, or when the cause is removed. A store that cannot be listed
            # says nothing about the table, and gives no sign when it can be listed again, so that table is retried
            # periodically.
            passes = error.retryable or isinstance(error, StorageError)
            outcome.action = "left" if passes or suspect.partitions else "refused"
            outcome.left = suspect if outcome.action == "left" else None
            logger.warning("Table %s is %s: %s", suspect.name, outcome.action, error.message)
        return outcome

    def _follow(
        self, client: HiveMetastore, suspect: SuspectTable, outcome: TableOutcome,
        comparison: FollowedComparison | None, *, refused: bool,
    ) -> None:  # fmt: skip
        identifier = TableIdentifier(suspect.database, suspect.table)
        ours = self._names.relation(identifier)
        if isinstance(ours, View):
            # Views are never imported. The index publishes them, and then reports differences.
            return
        if ours is None:
            self._take(client, identifier, outcome)
            return
        if (reason := unrepresentable_reason(ours.definition)) is not None:
            self._check_absent(client, ours, reason)
            return
        outcome.version = ours.version
        pending = pending_for(self._context.index, identifier, ours)
        theirs = find_table(client, identifier)
        if theirs is None or not lies_at(theirs, ours):
            if pending.definition:
                # The index's own creation, rename or move of the table is pending. Keep what the events say until it is
                # delivered.
                if not (pending.remakes or suspect.dropped):
                    _leave(suspect, outcome)
                return
            if theirs is None or not _has_moved(suspect, ours, theirs):
                self._end(client, suspect, ours, theirs, pending, outcome)
                return
            check_keys(ours.definition, theirs)
            ours = self._move(ours, theirs, outcome)
        if suspect.moved_from and not ours.definition.partition_columns:
            # Check the files also if a follower that was killed has stored the new location already.
            suspect.partitions[""] = SuspectPartition()
        check_keys(ours.definition, theirs)
        refused = refused and _may_retry(suspect)
        suspect.definition = suspect.definition or refused
        if suspect.definition and not pending.definition:
            self._alter(client, suspect, ours, theirs, outcome, refused=refused)
        if suspect.created and self._seen(ours) is None:
            # The import may have been killed, so that the index has only a part of the partitions.
            suspect.whole = True
        waits = suspect.definition and pending.definition and not pending.remakes
        self._bring_partitions_in_sync(client, theirs, ours, suspect, pending, outcome, comparison)
        if waits:
            _leave_definition(suspect, outcome)

    def _check_absent(self, client: HiveMetastore, ours: Table, reason: str) -> None:
        """Check that the metastore lacks a table that it cannot store.

        Raises:
            MetastoreRefusedError: The metastore has the table: it was imported from there, and its definition was
                changed so that only the index can store it.
        """
        theirs = find_table(client, ours.identifier)
        if lies_at(theirs, ours):
            raise not_followed(ours.definition, f"it could not be written there, as {reason}")

    def _take(self, client: HiveMetastore, identifier: TableIdentifier, outcome: TableOutcome) -> None:
        """Import a new table of a followed database."""
        if not self.takes(identifier.namespace) or pending_for(self._context.index, identifier, None).any:
            return
        theirs = find_table(client, identifier)
        if theirs is None:
            return
        if self._dry_run:
            outcome.added = self._imports.preview_table(identifier, is_free=self._names.is_previewed(identifier))
            outcome.action = "imported"
            return
        # Views and unsupported tables are refused by the import itself, with the reason.
        taken = self._imports.import_table(str(identifier))
        # Record the state before the import: later changes come with events, or are found by the next comparison.
        self._context.index.followed.note_seen(
            taken.table_id, Seen(taken.version, frozenset(), written_definition(theirs))
        )
        outcome.action, outcome.version, outcome.added = "imported", taken.version, taken.totals.partitions

    def _end(
        self, client: HiveMetastore, suspect: SuspectTable, ours: Table, theirs: HiveTable | None,
        pending: PendingMessages, outcome: TableOutcome,
    ) -> None:  # fmt: skip
        """Drop or rename the index's table if the metastore's table of its name is gone or is another one.

        Raises:
            MetastoreRefusedError: The metastore has another table of this name.
            TableNotFoundError: The metastore has no table of this name, and no event or comparison shows a drop.
            ConflictError: The table was dropped in the metastore, and the index has pending changes of it. The index
                keeps it, with the rows of these changes.
        """
        if not suspect.dropped:
            if theirs is not None:
                check_location(theirs, [ours.definition.location])
            raise TableNotFoundError(
                f"The metastore has no table {ours.identifier} any more, but its events show no drop. The table stays "
                f"in the index; catalog-ext publish {ours.identifier} creates it again in the metastore.",
                {"table": str(ours.identifier)},
            )
        name = TableIdentifier(suspect.database, suspect.table)
        if suspect.renamed_to is not None and self._rename(client, name, ours, TableIdentifier(*suspect.renamed_to)):
            outcome.action = "renamed"
        elif pending.any:
            table = str(ours.identifier)
            raise ConflictError(
                f"Table {table} was dropped in the metastore, which has not received the index's latest changes of "
                f"it. The table stays in the index: catalog-ext publish {table} creates it again in the metastore, "
                f"catalog-ext unregister {table} removes it from the index, too.",
                {"table": table},
            )
        else:
            self._names.remove(name)
            outcome.action = "removed"
        if theirs is not None:
            self._take(client, ours.identifier, outcome)

    def _rename(self, client: HiveMetastore, name: TableIdentifier, ours: Table, to: TableIdentifier) -> bool:
        """Rename the index's table if the metastore has this table under the new name; return whether it was renamed.

        If the metastore has no table of the new name, the table was renamed again meanwhile. The index uses the new
        name until the event of the next rename arrives.
        """
        theirs = find_table(client, to)
        if (theirs is not None and not lies_at(theirs, ours)) or self._names.relation(to) is not None:
            return False
        self._names.rename(client, name, to)
        return True

    def _move(self, ours: Table, theirs: HiveTable, outcome: TableOutcome) -> Table:
        """Import the table's new location: existing partitions stay at their locations, as in Hive.

        Raises:
            ConflictError: Another process is writing to the table.
            MetastoreRefusedError: The table is managed: its drop would delete the files at the new location.
        """
        if ours.definition.table_type is TableType.MANAGED:
            raise not_followed(ours.definition, f"it is a managed table, and lies at {theirs.location} now")
        place = canonical_location(theirs.location)
        self._context.allowed.require(Location.parse(place))
        outcome.altered = True
        if self._dry_run:
            return replace(ours, definition=replace(ours.definition, location=place))
        return self._context.index.alterations.alter(
            ours.identifier, lambda now: replace(now, location=place), deliver=False
        )  # fmt: skip

    def _alter(
        self, client: HiveMetastore, suspect: SuspectTable, ours: Table, theirs: HiveTable, outcome: TableOutcome, *,
        refused: bool,
    ) -> None:  # fmt: skip
        """Import columns, format and properties.

        Changes that cannot be imported are reported; partitions are still checked.
        """
        # After a refusal compare the whole definition: the index does not record which part of it was refused.
        changed = all_of(theirs) if refused else self._changed(suspect, ours, theirs)
        if not changed:
            return
        try:
            new = followed_definition(ours.definition, theirs, changed)
            if new == ours.definition:
                return
            check = None
            if (new.format, new.options) != (ours.definition.format, ours.definition.options):
                check_partitions(self._context.index, client, ours, theirs, new)
                check = partial(check_version, ours)
            if not self._dry_run:
                self._context.index.alterations.alter(
                    ours.identifier, lambda now: followed_definition(now, theirs, changed), check=check, deliver=False
                )
        except (UnsupportedFormatError, UnsupportedTypeChangeError, MetastoreRefusedError, InvalidInputError) as error:
            outcome.action, outcome.error = "refused", error.message
            logger.warning("What has become of table %s in the metastore is refused: %s", suspect.name, error.message)
            return
        outcome.altered = True
        if not self._dry_run:
            self._context.sync.publish(ours.table_id)

    def _changed(self, suspect: SuspectTable, ours: Table, theirs: HiveTable) -> Changed:
        """Return the changes of the definition: those that events list, or else those since the last comparison."""
        if suspect.parameters is not None:
            return Changed(suspect.columns, frozenset(suspect.parameters), suspect.storage)
        if suspect.dropped and suspect.created:
            return all_of(theirs)
        seen = self._seen(ours)
        # Without an earlier comparison it is unknown which side is newer.
        return Changed(False, frozenset()) if seen is None else changed_since(theirs, seen.definition)

    def _bring_partitions_in_sync(
        self, client: HiveMetastore, theirs: HiveTable, ours: Table, suspect: SuspectTable, pending: PendingMessages,
        outcome: TableOutcome, comparison: FollowedComparison | None,
    ) -> None:  # fmt: skip
        suspects = dict(suspect.partitions)
        if (suspect.columns or suspect.storage or outcome.altered) and theirs.partition_columns:
            # ALTER TABLE … CASCADE changes the partitions' columns without an event, and partitions may have the new
            # format, so check the partitions with descriptors.
            for name in self._context.index.descriptors.formats(ours):
                suspects.setdefault(hive_partition_name(theirs, name), SuspectPartition())
        if suspect.whole:
            comparison = comparison or FollowedComparison(self._context, client, sizes_decide=False, drops=False)
            made_anew = suspect.dropped and suspect.created
            found, missing = comparison.partitions(theirs, ours, outcome, pending, made_anew=made_anew)
            seen = Seen(ours.version, missing, written_definition(theirs))
            if not self._dry_run:
                self._context.index.followed.note_seen(ours.table_id, seen)
            for name, each in found.items():
                known = suspects.setdefault(name, each)
                known.dropped = known.dropped or each.dropped
                # The comparison found a difference, so check the partition even if all its events are deliveries of the
                # index.
                known.written = None
        left = self._partitions.bring_in_sync(client, theirs, ours, suspects, outcome)
        if comparison is not None and suspect.whole and not left:
            self._partitions.count(ours, comparison.miscounted)
        if left:
            suspect.definition, suspect.whole, suspect.partitions = False, False, left
            outcome.action, outcome.left = "left", suspect


def _leave(suspect: SuspectTable, outcome: TableOutcome) -> None:
    """Keep the suspect parts until the index's pending message about the table itself is delivered."""
    outcome.action, outcome.left = "left", suspect
    outcome.error = outcome.error or "the metastore does not have our last alteration of the table yet"


def _leave_definition(suspect: SuspectTable, outcome: TableOutcome) -> None:
    """Keep the table itself suspect, besides the remaining partitions."""
    if outcome.left is None:
        suspect.whole, suspect.partitions = False, {}
    suspect.definition = True
    _leave(suspect, outcome)


def _may_retry(suspect: SuspectTable) -> bool:
    """Return whether an event may have removed the cause of a refusal, so that the table is tried again."""
    return suspect.definition or any(each.dropped for each in suspect.partitions.values())


def _has_moved(suspect: SuspectTable, ours: Table, theirs: HiveTable) -> bool:
    """Return whether the metastore's table is the index's table at a new location, set by ALTER TABLE."""
    if suspect.dropped or theirs.table_type == VIRTUAL_VIEW:
        return False
    return any(same_location(place, ours.definition.location) for place in suspect.moved_from)
