"""Maintains a table's partitions: drops them by a condition or by age, and changes partition columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_expiry import REGISTERED_AGAIN, RETENTION, Expiry
from catalog_ext.metastore.commit.rules import lies_inside
from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionSpecError, MassDropError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.definition_checks import check_keys
from catalog_ext.metastore.model.partition_names import DeclaredNames, parse_partition_name
from catalog_ext.metastore.model.tables import PARTITION_MODE_PROPERTY, Column, TableType
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.predicates.conditions import bound_where
from catalog_ext.metastore.predicates.tree import And, Comparison, In, Operator, Or, unbound
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.repair.options import DropLimit
from catalog_ext.repair.report import REFUSE, ReportEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.partitions.commands import PartitionCommands
    from catalog_ext.tables.alter import TableAlterations

_VALUES_AT_ONCE = 500


class PartitionMaintenance:
    """Maintains the partitions of a catalog's tables."""

    def __init__(self, context: Context, commands: PartitionCommands, alterations: TableAlterations) -> None:
        self._context = context
        self._commands = commands
        self._alterations = alterations

    def drop(self, table: str, where: Where, *, purge: bool = False, dry_run: bool = False) -> list[ReportEntry]:
        """Drop the partitions that satisfy a condition, in one transaction, and return report entries for them.

        Args:
            table: The table's name.
            where: A condition in SQL over partition columns, or a spec, which may be partial; it is required.
            purge: Whether data of a managed table outside its directory is deleted too.
            dry_run: Preview: report and change nothing.

        Raises:
            TableNotFoundError: There is no such table.
            InvalidPredicateError, InvalidValueError: ``where`` is not valid for the table.
            ConflictError: Another writer was first.
        """
        target = self._context.load_table(table)
        bound = bound_where(target, where)
        if bound is None or not target.definition.keys:
            raise InvalidPartitionSpecError(
                f"The partitions to drop of table {target.identifier} must be named: give a condition on its "
                "partition columns, such as \"ds < '2024-01-01'\".",
                {"table": str(target.identifier)},
            )
        entries = list(self._entries(target, self._context.index.partitions.all(target, bound), purge, "dropped"))
        if entries and not dry_run:
            predicate = unbound(bound, target.definition.keys)
            self._commands.drop(target, [predicate], if_exists=True, purge=purge)
        return entries

    def expire(
        self, table: str, *, retention: str | None = None, allow_mass_drop: bool = False, dry_run: bool = False
    ) -> list[ReportEntry]:
        """Drop the partitions whose time, given by their values, is older than the retention.

        Args:
            table: The table's name.
            retention: A duration such as ``30d``; None for the property ``partition.retention.period``.
            allow_mass_drop: Drop any number of partitions, beyond the limits of the settings ``repair.mass-drop-*``.
            dry_run: Preview: report and change nothing. An entry ``refuse`` comes first if the run would be refused.

        Raises:
            TableNotFoundError: There is no such table.
            InvalidInputError: There is no retention, or the partitions have no times.
            MassDropError: More partitions, or all, would be dropped than allowed at once; nothing was changed.
            ConflictError: Another writer was first; partitions dropped before stay dropped.
        """
        target = self._context.load_table(table)
        expiry = Expiry.of(target.definition, retention)
        if expiry is None:
            raise InvalidInputError(
                f"Table {target.identifier} has no property {RETENTION!r}, so that its partitions never expire. Set "
                "it, or give the retention, such as 30d.",
                {"table": str(target.identifier), "key": RETENTION},
            )
        now = self._context.index.now_ms()
        rows = self._context.index.partitions.all(target, None)
        found = self._entries(target, rows, False, expiry.reason(now))
        entries = [entry for entry in found if expiry.expired(entry.partition, now)]
        refusal = None if allow_mass_drop else self._refusal(target, len(entries), expiry.period(now))
        if refusal is not None and not dry_run:
            raise MassDropError(
                f"Nothing was changed: expiring partitions of table {target.identifier} is refused: {refusal}",
                {"table": str(target.identifier), "partitions": str(len(entries)),
                 "registered": str(target.totals.partitions)},
            )  # fmt: skip
        lasting = Expiry.of(target.definition)
        entries = [_with_return(entry, target, lasting, now) for entry in entries]
        if refusal is not None:
            files, size = sum(entry.files or 0 for entry in entries), sum(entry.bytes or 0 for entry in entries)
            return [ReportEntry(REFUSE, "", "", files, size, f"the run would be refused: {refusal}"), *entries]
        if not dry_run:
            for condition in _conditions(expiry, entries):
                self._commands.drop(table, [condition], if_exists=True)
        return entries

    def _refusal(self, table: Table, count: int, period: str) -> str | None:
        """Return why an expiry must not drop this number of partitions, with the remedy; None if it may."""
        limit, total = DropLimit.of(table, self._context.settings.conf), table.totals.partitions
        if not count or limit.percent == 100 or (limit.allows(count, total) and count < total):
            return None
        share = "all of them" if count >= total else f"more than the {limit.percent} % that it may drop at once"
        return (
            f"it would drop the {counted(count, 'partition')} of {total:,} that are {period}, {share}. Check the "
            "period: a number without a unit is a number of seconds, so 90 days is 90d. If the period is right, allow "
            "it: --force on the command line, allow_mass_drop => true in CALL, allow_mass_drop=True in Python; for "
            "every run, set the table's property repair.mass-drop-percent to 100."
        )

    def set_partition_columns(
        self, table: str, *, mode: str | None = None, types: Mapping[str, str] | None = None
    ) -> Table:
        """Change the visibility or the types of partition columns; files and directories are not changed.

        Args:
            table: The table's name.
            mode: ``virtual`` or ``declared``; None leaves it unchanged.
            types: New types by column name; None or empty leaves them unchanged.

        Raises:
            TableNotFoundError: There is no such table.
            InvalidInputError: A name is not a partition column of the table, a type cannot be a key's, or no change is
                given.
            InvalidValueError: Values of partitions do not fit the new types. Nothing was changed.
            ConflictError: Another process is writing to the table.
        """
        target = self._context.load_table(table)
        if mode is None and not types:
            raise InvalidInputError(
                f"Give the change of the partition columns of table {target.identifier}: a mode "
                "('declared' or 'virtual'), types, or both.",
                {"table": str(target.identifier)},
            )
        wanted = self._checked_types(target, types or {})
        if wanted:
            deliver = self._context.metastore.accepts(target.definition)
            target = self._context.index.alterations.change_key_types(target, wanted, deliver=deliver)
            self._context.sync.publish(target.table_id)
        if mode is not None:
            target = self._alterations.alter_table_properties(table, {PARTITION_MODE_PROPERTY: mode})
        return target

    @staticmethod
    def _checked_types(table: Table, types: Mapping[str, str]) -> dict[str, str]:
        columns = {column.name.lower(): column.name for column in table.definition.partition_columns}
        unknown_column = next((name for name in types if name.lower() not in columns), None)
        if unknown_column is not None:
            raise InvalidPartitionSpecError(
                f"{unknown_column[:60]!r} is no partition column of table {table.identifier}; they are "
                f"{', '.join(columns.values()) or 'none'}.",
                {"table": str(table.identifier), "column": unknown_column[:60]},
            )
        wanted = {columns[name.lower()]: str(parse_type(text)) for name, text in types.items()}
        check_keys([Column(name, text) for name, text in wanted.items()], str(table.identifier))
        return wanted

    @staticmethod
    def _entries(table: Table, batches: Iterable[pa.RecordBatch], purge: bool, reason: str) -> Iterator[ReportEntry]:
        root = table.definition.location
        managed = table.definition.table_type is TableType.MANAGED
        declared = DeclaredNames([key.name for key in table.definition.partition_columns])
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("partition", "location", "files", "bytes"))
            for name, own, files, size in zip(*columns, strict=True):
                gone = managed and (purge or lies_inside(table, own or f"{root}/{name}"))
                kept = "" if gone else "; its files stay"
                yield ReportEntry("drop", declared.of(name), own or name, files, size, f"{reason}{kept}")


def _with_return(entry: ReportEntry, table: Table, lasting: Expiry | None, now_ms: int) -> ReportEntry:
    """Return the entry. For an external table its reason says whether the next repair registers the partition again."""
    if table.definition.table_type is not TableType.EXTERNAL:
        return entry
    if lasting is not None and lasting.expired(entry.partition, now_ms):
        return entry
    has = "no" if lasting is None else "a longer"
    return entry._replace(reason=f"{entry.reason}, and {REGISTERED_AGAIN}: the table has {has} {RETENTION}")


def _conditions(expiry: Expiry, entries: Iterable[ReportEntry]) -> Iterator[Predicate]:
    """Yield predicates that together match the partitions of these entries; each has a limited number of values."""
    lower = [name.lower() for name in expiry.keys]
    values: dict[tuple[str, ...], None] = {}
    for entry in entries:
        given = {key.lower(): value for key, value in parse_partition_name(entry.partition)}
        # No value is None here, because a partition with NULL in its time never expires. ``or ""`` is for mypy.
        values[tuple(given[name] or "" for name in lower)] = None
    for chunk in batched(values, _VALUES_AT_ONCE):
        if len(lower) == 1:
            yield In(expiry.keys[0], tuple(value for (value,) in chunk))
            continue
        yield Or(tuple(
            And(tuple(Comparison(Operator.EQ, key, value) for key, value in zip(expiry.keys, row, strict=True)))
            for row in chunk
        ))  # fmt: skip
