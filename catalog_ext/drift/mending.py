"""Mends a table: makes two of store, index and metastore equal to the third side, which the user declares right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.drift.difference import Side
from catalog_ext.drift.from_metastore import DROP, Mended, MendFromMetastore, left_alone
from catalog_ext.identity.record import no_metastore
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.views import View
from catalog_ext.metastore.predicates.conditions import NameFilter, bound_where
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.sync.publishing import IN_SYNC, LEFT_OUT, REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.repair.table_repair import TableRepair
    from catalog_ext.sync.publishing import Publishing
    from catalog_ext.tables.alter import TableAlterations

_NOT_IN_INDEX = "in the metastore: the index does not have it; no file is touched"


class DriftMending:
    """Mends tables of a catalog.

    Args:
        context: The catalog's context.
        repair: Updates the index from the store.
        publishing: Updates the metastore from the index.
        alterations: Sets properties of tables.
    """

    def __init__(
        self, context: Context, repair: TableRepair, publishing: Publishing, alterations: TableAlterations
    ) -> None:
        self._context = context
        self._repair = repair
        self._publishing = publishing
        self._alterations = alterations

    def mend_drift(
        self, table: str, *, source: str, where: Where = None, drop: bool = False, allow_mass_drop: bool = False,
        dry_run: bool = False,
    ) -> Iterator[Mended]:  # fmt: skip
        """Make the sides of a table equal; yield each change as it is made.

        Args:
            table: A table; for views ``index`` is the only possible source.
            source: The side that is right: ``store`` (repair, then publish), ``index`` (publish) or ``metastore`` (the
                index imports the changes of Hive engines).
            where: A condition, or a partition spec, that limits the mend to partitions: columns and properties stay.
                The whole table is compared all the same.
            drop: With ``metastore``: drop partitions, and remove properties, that the metastore does not have.
            allow_mass_drop: Drop any number of missing partitions (``repair_partitions``).
            dry_run: Preview: report what would be done and change nothing.

        Raises:
            TableNotFoundError: The table does not exist.
            InvalidInputError: The source is not a ``Side``, or cannot mend a view.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            InvalidConfigurationError: The mend needs a metastore, and the catalog has none.
            MassDropError: More partitions would be dropped than allowed at once; nothing was changed.
            StorageError, MetastoreUnavailableError: A side does not answer; committed changes stay.
        """
        side, found = self._side_and_table(table, source)
        wanted = NameFilter(found, bound_where(found, where))
        match side:
            case Side.STORE:
                return self._from_store(str(found.identifier), where, allow_mass_drop=allow_mass_drop, dry_run=dry_run)
            case Side.INDEX:
                return self._publish(str(found.identifier), where, dry_run=dry_run)
            case Side.METASTORE:
                mend = MendFromMetastore(
                    self._context, self._repair, self._alterations, found, wanted=wanted, drop=drop,
                    allow_mass_drop=allow_mass_drop,
                )  # fmt: skip
                return mend.run(dry_run=dry_run)

    def _side_and_table(self, table: str, source: str) -> tuple[Side, Table]:
        """Return the source side and the table (of a view, the view's table). Refuse a side that cannot mend it."""
        if source not in set(Side):
            raise InvalidInputError(
                f"{source[:60]!r} is not a side by which {table} can be mended. Use 'store', 'index' or 'metastore'."
            )
        side = Side(source)
        found = self._context.index.views.load_relation(self._context.identify(table))
        if isinstance(found, View):
            if side is not Side.INDEX:
                raise InvalidInputError(
                    f"{table} is a view, which has no files and is made by its statement: mend it by 'index'."
                )
            found = found.table
        if side is not Side.STORE and not self._context.metastore.enabled:
            raise no_metastore(self._context.index, f"with which {table} could be compared")
        return side, found

    def _from_store(self, table: str, where: Where, *, allow_mass_drop: bool, dry_run: bool) -> Iterator[Mended]:
        report = self._repair.repair_partitions(
            table, mode="sync", where=where, allow_mass_drop=allow_mass_drop, dry_run=dry_run
        )
        # Only a preview reports a refusal. Without ``dry_run`` the repair raises before any side is changed.
        is_refused = len(report.refused) > 0
        for entries, done in (
            (report.added, not is_refused), (report.dropped, not is_refused), (report.changed, not is_refused),
            (report.refused, False),
        ):  # fmt: skip
            for entry in entries:
                yield Mended(table, entry.action, entry.path, entry.reason, done)
        for entry in report.skipped:
            yield left_alone(table, entry.path, entry.reason)
        if self._context.metastore.enabled and not is_refused:
            yield from self._publish(table, where, dry_run=dry_run)

    def _publish(self, table: str, where: Where, *, dry_run: bool) -> Iterator[Mended]:
        for entry in self._publishing.publish(table, where=where, dry_run=dry_run):
            if entry.action == IN_SYNC:
                continue
            if entry.action in (REFUSED, LEFT_OUT):
                yield left_alone(entry.table, "", entry.error or entry.action)
                continue
            words = f"{entry.action}: {counted(entry.published, 'partition')} sent, {entry.dropped:,} dropped there"
            # In a preview ``entry.pending`` counts messages of earlier changes, because nothing is sent. So report
            # every drop as one that would be done.
            delivered = dry_run or not entry.pending
            yield from (Mended(entry.table, DROP, name, _NOT_IN_INDEX, delivered) for name in entry.drops)
            yield Mended(entry.table, "publish", "", words if delivered else f"{words}; {entry.error}", delivered)
