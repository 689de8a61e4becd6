"""Repairs the partitions of a table: recovery, locks, the comparison (``Repair``), the report and its publication."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from catalog_ext.conf import keys
from catalog_ext.conf.write_keys import lock_settings
from catalog_ext.context import Progress, RepairProgress, no_progress
from catalog_ext.display import shown_progress
from catalog_ext.metastore.commit.lock_settings import WITHOUT_LOCKS
from catalog_ext.metastore.errors import LocationNotFoundError, StorageError
from catalog_ext.metastore.predicates.conditions import Where, bound_where
from catalog_ext.metastore.runtime.error_kinds import FIELDS
from catalog_ext.metastore.runtime.measures import Repaired, emit
from catalog_ext.metastore.runtime.tracing import span
from catalog_ext.metastore.runtime.users import current_user
from catalog_ext.metastore_sync.named_places import still_named
from catalog_ext.repair.options import DropLimit, MetastoreState, RepairMode, RepairOptions, Verify
from catalog_ext.repair.repair import Repair
from catalog_ext.repair.report import RepairReport
from catalog_ext.scan.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate


logger = logging.getLogger(__name__)


class TableRepair:
    """Repairs tables of a catalog."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def repair_partitions(
        self, table: str, *, mode: str = "sync", where: Where = None, dry_run: bool = False, strict: bool = False,
        verify: bool | str = False, allow_mass_drop: bool = False, progress: Progress | None = None,
        session: Mapping[str, str] | None = None,
    ) -> RepairReport:  # fmt: skip
        """Update the index, and then the metastore, to the partitions and files on the store.

        Args:
            table: The table's name.
            mode: ``add`` registers new partitions, ``drop`` removes missing ones, ``sync`` also refreshes files.
            where: Limits the repair, and the listing, to partitions that satisfy a condition or match a spec.
            dry_run: Preview: report what would be done and change nothing.
            strict: Change nothing and raise if any path would be skipped.
            verify: True or ``new`` opens new and changed files, and skips those that Spark cannot read as the table;
                for a changed file the registered state stays. ``all`` opens registered files too, and reports
                unreadable ones.
            allow_mass_drop: Drop any number of partitions, beyond the limits of the settings ``repair.mass-drop-*``.
            progress: A callback for progress, from this thread; None shows a bar in a notebook's cell.
            session: The caller's session settings for Hive locks, by key; they override the table's properties.

        Raises:
            TableNotFoundError: The table does not exist.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            LocationNotFoundError: The table's location does not exist.
            StorageError: The table's location cannot be listed. If only a part cannot be listed, its paths are skipped.
            RepairRefusedError: ``strict`` is set, and a path would be skipped.
            MassDropError: The repair would drop more than the limit allows; a preview reports that instead.
            HiveLockTimeoutError, HiveLockLostError: Hive locks were not granted, or lost: committed batches stay.
        """
        if not dry_run:
            self._recover(table)  # first, so that published files of dead writers are registered by their own commits
        target = self._context.load_table(table)
        given = (target.definition.properties, self._context.settings.conf)
        locks = WITHOUT_LOCKS if dry_run else lock_settings(session or {}, *given)
        with self._context.transactions.locks.of_repair(target, locks) as held:
            if locks != WITHOUT_LOCKS:  # the table may have changed during the wait
                target = self._context.load_table(table)
            options = RepairOptions(
                RepairMode.parse(mode), bound_where(target, where), _words(where), dry_run, strict,
                Verify.parse(verify), allow_mass_drop, DropLimit.of(target, self._context.settings.conf),
                self._context.metastore.accepts(target.definition),
                keys.BATCH_PARTITIONS.read(*given), confirm=held.confirm,
            )  # fmt: skip
            with shown_progress(progress, f"Repairing {target.identifier}") as report_progress:
                return self._repair(target, options, report_progress)

    def look_at(
        self,
        table: Table,
        names: Sequence[str] | None,
        *,
        predicate: Predicate | None = None,
        why: str,
        metastore_state: MetastoreState | None = None,
        dry_run: bool = False,
        deliver: bool = False,
        operation: str = "repair",
    ) -> RepairReport:
        """Compare single partitions with the store, commit the differences and publish them.

        Unfinished writes of dead processes are not recovered first: a repair registers none of their files.

        Args:
            table: The table, at the version to compare with. Partitions that later versions have changed are not
                touched.
            names: Names of partitions, registered or not. None for those that satisfy the predicate.
            predicate: A bound predicate that all of them satisfy; it limits the listing of a location with wildcards.
            why: The reason in the history.
            metastore_state: The metastore's partitions. No limit applies to partitions dropped there, and the metastore
                is not updated unless ``deliver`` is set.
            dry_run: Preview only.
            deliver: Whether the metastore gets the commits, with ``metastore_state`` too.
            operation: The operation in the history: ``repair`` or ``mend``.

        Raises:
            StorageError: The table's location cannot be listed.
            MassDropError: The repair would drop more than the limit allows.
        """
        given = (table.definition.properties, self._context.settings.conf)
        options = RepairOptions(
            predicate=predicate,
            where=why,
            dry_run=dry_run,
            drop_limit=DropLimit.of(table, self._context.settings.conf),
            deliver=(metastore_state is None or deliver) and self._context.metastore.accepts(table.definition),
            batch_partitions=keys.BATCH_PARTITIONS.read(*given),
            names=None if names is None else tuple(names),
            metastore_state=metastore_state,
            operation=operation,
        )
        return self._repair(table, options, no_progress)

    def preview(self, table: Table, progress: Progress | None = None) -> Scratch:
        """Compare a table, at its version, with the store, and change nothing.

        Returns:
            The scratch database, with all changes among its ``entries``. The caller closes it.

        Raises:
            LocationNotFoundError: The table's location does not exist.
            StorageError: The location cannot be listed. If only a part cannot be listed, its paths are skipped.
        """
        deliver = self._context.metastore.accepts(table.definition)
        options = RepairOptions(dry_run=True, allow_mass_drop=True, deliver=deliver)
        scratch = Scratch()
        try:
            self._repair_of(table, options, progress or no_progress).run(scratch)
        except BaseException:
            scratch.close()
            raise
        return scratch

    def _repair_of(self, table: Table, options: RepairOptions, report_progress: Progress) -> Repair:
        context = self._context

        def ask(names: Sequence[str], directories: Sequence[str]) -> Sequence[str]:
            return still_named(context.metastore.client(), table, names, directories)

        named = ask if context.metastore.accepts(table.definition) else None
        return Repair(context.index, context.storage, table, options, report_progress, named)

    def _repair(self, target: Table, options: RepairOptions, report_progress: Progress) -> RepairReport:
        table = str(target.identifier)
        scratch = Scratch()
        started = time.monotonic()
        try:
            with span("repair", table=table, mode=str(options.mode)):
                version = self._repair_of(target, options, report_progress).run(scratch)
        except BaseException as error:
            scratch.close()
            emit(Repaired(time.monotonic() - started))
            if isinstance(error, StorageError | LocationNotFoundError):
                raise error.about(f"Table {table} cannot be repaired", {"table": table}) from error
            raise
        report_progress(RepairProgress("delivering", 0, 0))
        # A check of single partitions that found no change has nothing to publish.
        quiet = options.dry_run or (options.names is not None and version == target.version)
        delivery = self._context.sync.publish(target.table_id) if not quiet else None
        report = RepairReport(
            scratch,
            table=table,
            mode=str(options.mode),
            where=options.where,
            dry_run=options.dry_run,
            version=version,
            pending_deliveries=delivery.pending if delivery else 0,
            delivery_error=delivery.error if delivery else None,
            keys=[key.name for key in target.definition.partition_columns],
        )
        if not options.dry_run:
            _emit(report, time.monotonic() - started, is_logged=version != target.version)
        return report

    def _recover(self, table: str) -> None:
        context = self._context
        context.transactions.recover(context.identify(table))


def _emit(report: RepairReport, seconds: float, *, is_logged: bool) -> None:
    """Emit metrics for a repair; log it if it changed anything."""
    added, dropped, changed = len(report.added), len(report.dropped), len(report.changed)
    emit(Repaired(seconds, added, dropped, changed))
    if is_logged:
        fields = {
            "table": report.table, "version": report.version, "operation": "REPAIR", "partitions_added": added,
            "partitions_removed": dropped, "partitions_changed": changed, "duration_ms": round(seconds * 1000),
            "pending_deliveries": report.pending_deliveries, "user": current_user(),
        }  # fmt: skip
        logger.info(
            "REPAIR of %s: version %d, partitions +%d -%d ~%d, %d ms, %d pending for the metastore",
            report.table, report.version, added, dropped, changed, seconds * 1000, report.pending_deliveries,
            extra={FIELDS: fields},
        )  # fmt: skip


def _words(where: Where) -> str | None:
    """Return the condition as the user wrote it."""
    if where is None or isinstance(where, str):
        return where
    return ", ".join(f"{key}={'NULL' if value is None else value}" for key, value in where.items())
