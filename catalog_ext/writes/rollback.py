"""Rollback of a table, or of some of its partitions, to an earlier version."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from catalog_ext.conf.properties import check_one_directory
from catalog_ext.conf.write_keys import transaction_options
from catalog_ext.metastore.commit.partition_plans import Rollback
from catalog_ext.metastore.commit.rules import not_found
from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.errors import OperationNotSupportedError
from catalog_ext.metastore.model.as_of import AsOf
from catalog_ext.metastore.model.partition_names import parse_partition_name
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.predicates.conditions import bound_to, bound_where
from catalog_ext.metastore.predicates.partition_specs import partition_name, spec_condition
from catalog_ext.metastore.predicates.tree import unbound
from catalog_ext.metastore.transactions.reports import RollbackAction, RollbackEntry
from catalog_ext.tables.time_travel import TimeTravel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from catalog_ext.context import Context
    from catalog_ext.metastore.index.read.version_differences import VersionDifference
    from catalog_ext.metastore.model.as_of import Version
    from catalog_ext.metastore.model.tables import DataFile, Table
    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.transactions.restorable_files import UnrestorableFile

_STAY = "its files stay until a vacuum"
_DELETED = "they are deleted, as the directory stays in use"


class Rollbacks:
    """Gives tables, or some of their partitions, the state of an earlier version."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def rollback(
        self, table: str, version: Version, where: Where = None, *, dry_run: bool = False
    ) -> list[RollbackEntry]:
        """Give a table, or some of its partitions, the files of an earlier version; return a report.

        The rollback is a new version of the table. Columns, options and properties stay. If files of the earlier
        version are gone, nothing is changed.

        A rollback to the version before it undoes it, except that newer files in a directory that a partition keeps are
        deleted: a dry run reports them.

        Args:
            table: The table's name.
            version: The number of the earlier version, the name of a tag, or a time with a zone.
            where: A condition in SQL over partition columns, or a spec, which may be partial; None for the whole table.
            dry_run: Preview: report and change nothing. Files that cannot be restored are reported as ``missing`` or
                ``changed``.

        Raises:
            TableNotFoundError: There is no such table.
            OperationNotSupportedError: The table's location has wildcards, or its format, its options or, without
                partition columns, its location changed since the version.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            VersionNotFoundError: The table has no such version.
            VersionExpiredError: Vacuum, or a change of the types of partition columns, has removed the version.
            InvalidInputError: ``version`` is a time without zone.
            FilesLostError: Files of the version do not exist any more, or were changed. Nothing was changed.
            TableLayoutError: A directory that a partition keeps or gets again has files of other programs, which the
                rollback may not delete.
            ConflictError: Another writer was first.
            StorageError: The store refuses or does not answer.
        """
        target = self._table(table)
        return self._run(target, version, bound_where(target, where), "ROLLBACK", dry_run=dry_run)

    def restore_partition(
        self, table: str, partition: str, version: Version | None = None, *, dry_run: bool = False
    ) -> list[RollbackEntry]:
        """Give one partition the files of an earlier version; return a report.

        A call without a version that follows another one undoes it.

        Args:
            table: The table's name.
            partition: The partition's name, such as ``ds=2025-01-31/region=eu``. It may have been dropped.
            version: The number of the earlier version, the name of a tag, or a time with a zone; None for the state
                before the partition's last change.
            dry_run: Preview: report and change nothing.

        Raises:
            PartitionNotFoundError: The partition does not exist, and no kept version has it.
            InvalidPartitionNameError, InvalidPartitionSpecError, InvalidValueError: The name does not fit the table's
                partition columns.
            CatalogExtError: As ``rollback``.
        """
        target = self._table(table)
        spec = dict(parse_partition_name(partition))
        partition_name(target, spec)
        bound = bound_to(target, spec_condition(target, spec))
        assert bound is not None, "a partition is named"
        last = self._context.index.version_differences.last_change(target, bound)
        if last is None:
            raise not_found(target, partition)
        before = last - 1 if version is None else version
        return self._run(target, before, bound, "RESTORE PARTITION", dry_run=dry_run)

    def _run(
        self, target: Table, named: Version, bound: Predicate | None, operation: str, *, dry_run: bool
    ) -> list[RollbackEntry]:
        index, transactions = self._context.index, self._context.transactions
        then = TimeTravel(self._context).load(target, AsOf.of(named))
        version = then.version
        _require_readable(target, then)
        if dry_run:
            found = transactions.restorable(target, version, bound)
            return sorted(
                [*_lost(found.lost, version), *_changes(target, found.differences, version)],
                key=attrgetter("partition"),
            )
        differences = index.version_differences.between(target, version, bound)
        if differences:
            predicate = None if bound is None else unbound(bound, target.definition.keys)
            options = transaction_options({}, {}, target.definition.properties, self._context.settings.conf)
            transactions.command(target, Rollback(version, predicate), operation, options)
        return list(_changes(target, differences, version))

    def _table(self, table: str) -> Table:
        found = self._context.load_table(table)
        check_one_directory(found.definition, "ROLLBACK")
        return found


def _require_readable(table: Table, then: Table) -> None:
    """Check that files of an earlier version can be read by the table's present definition.

    Raises:
        OperationNotSupportedError: The version has another format or other options, which would read its files wrongly,
            or an unpartitioned table lay elsewhere.
    """
    before, now = then.definition, table.definition
    changed = [name for name in ("format", "options") if getattr(before, name) != getattr(now, name)]
    if not now.partition_columns and before.location != now.location:
        changed.append("location")
    if changed:
        raise OperationNotSupportedError(
            f"Table {table.identifier} cannot get the files of version {then.version} back: its "
            f"{' and '.join(changed)} changed since. Read them with VERSION AS OF {then.version}, and INSERT OVERWRITE "
            "the table with the rows.",
            {"table": str(table.identifier), "version": str(then.version)},
        )


def _changes(table: Table, differences: Iterable[VersionDifference], version: int) -> Iterator[RollbackEntry]:
    """Yield the entries of the files that a rollback restores, removes and keeps."""
    for each in differences:
        present, then = each.present, each.then
        if then is None:
            reason = (
                _DELETED if not each.name else f"the partition was added after version {version}; {_fate(table, each)}"
            )
            yield _entry(RollbackAction.REMOVED, each.name, each.ended, reason, version)
            continue
        place = table.directory_of(then)
        if present is None:
            reason = f"the partition was dropped after version {version}"
            yield _entry(RollbackAction.RESTORED, each.name, each.restored, reason, version)
            continue
        moves = table.directory_of(present) != place
        if each.restored or moves:
            reason = f"the partition moves back to {place}" if moves else ""
            yield _entry(RollbackAction.RESTORED, each.name, each.restored, reason, version)
        if each.ended:
            reason = _STAY if moves else _DELETED
            yield _entry(RollbackAction.REMOVED, each.name, each.ended, reason, version)
        if each.kept:
            yield _entry(RollbackAction.KEPT, each.name, each.kept, "both versions have them", version)


def _fate(table: Table, dropped: VersionDifference) -> str:
    """Return what becomes of the files of a partition that a rollback drops, as text for people."""
    external = table.definition.table_type is TableType.EXTERNAL
    if external and any(transaction_id_in(file.path) is None for file in dropped.ended):
        return "files of other programs stay, and the next repair registers them again"
    return _STAY


def _lost(files: Iterable[UnrestorableFile], version: int) -> Iterator[RollbackEntry]:
    """Yield the entries of the files that cannot be restored: at most two for each partition."""
    found = sorted(files, key=attrgetter("partition", "is_changed"))
    for (name, is_changed), some in groupby(found, key=attrgetter("partition", "is_changed")):
        lost = list(some)
        action = RollbackAction.CHANGED if is_changed else RollbackAction.MISSING
        yield _entry(action, name, [each.file for each in lost], f"{lost[0].uri} {lost[0].reason}", version)


def _entry(
    action: RollbackAction, partition: str, files: Iterable[DataFile], reason: str, version: int
) -> RollbackEntry:
    found = list(files)
    counts = [file.rows for file in found if file.rows is not None]
    rows = sum(counts) if len(counts) == len(found) else None
    return RollbackEntry(action, partition, len(found), rows, sum(file.size for file in found), reason, version)
