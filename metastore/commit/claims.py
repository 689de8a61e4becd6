"""Decides which transactions conflict: the table of conflicts in ``docs/spec/commit-protocol.md``, as a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    CheckedAdd,
    CheckedExchange,
    CheckedRelocate,
    CheckedRename,
    CheckedRollback,
    DropPartitions,
    ExchangePartitions,
    Rollback,
)
from catalog_ext.metastore.commit.plan import Append, CheckedWrite, CreateOrReplace, Overwrite, Replace
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import TRUE, Predicate, bind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class Claims:
    """The partitions and directories that a transaction claims, to find conflicts with other transactions.

    Attributes:
        exclusive: Whether the transaction replaces existing files; otherwise it only adds files.
        names: Partition names by the hash of their typed values (``claim_hash``), and URIs of directories outside the
            table that a command gives to partitions.
        covers: Returns whether the transaction's predicate is true for a partition name; None without a predicate.
    """

    exclusive: bool
    names: Mapping[str, str]
    covers: Callable[[str], bool] | None = None

    def collision(self, other: Claims, existing: Iterable[str] = ()) -> str | None:
        """Return a partition that both transactions write and at least one of them replaces; None if both may commit.

        Args:
            other: The claims of a transaction that is reserved, or was committed after this one's base version.
            existing: Partitions that exist, or that the other transaction ended. If both transactions have a predicate,
                only these partitions are compared: a write that creates a partition claims its name, too.
        """
        if not (self.exclusive or other.exclusive):
            return None
        for digest, name in self.names.items():
            if digest in other.names or (other.covers is not None and other.covers(name)):
                return name
        if self.covers is None:
            return None
        # Skip directories that a command claims: the predicate can only be evaluated on partition names.
        partitions = (name for name in other.names.values() if "://" not in name)
        named = next((name for name in partitions if self.covers(name)), None)
        if named is not None or other.covers is None:
            return named
        return next((name for name in existing if self.covers(name) and other.covers(name)), None)


def replaces(plan: WritePlan) -> bool:
    """Return whether the transaction removes existing files from the table."""
    return not isinstance(plan.asked, Append | AddPartitions)


def touched(plan: WritePlan, staged: Iterable[str]) -> set[str]:
    """Return the names of the table's partitions that the transaction claims by name.

    Partitions that a predicate selects are claimed by the predicate instead: those of a DROP, and the source's
    partitions of an EXCHANGE.
    """
    match plan.change:
        case CheckedWrite() as write:
            kept = () if write.static_partition is None else (write.static_partition,)
            return {*staged, *write.found, *write.unknown, *write.due, *kept}
        case CheckedAdd(partitions=partitions) | CheckedExchange(partitions=partitions):
            return {partition.name for partition in partitions}
        case CheckedRename(asked=asked):
            return {asked.name, asked.to}
        case CheckedRelocate(asked=asked):
            return {asked.name}
        case CheckedRollback(returning=returning):
            # Two predicates are compared only in partitions that exist, so a partition that comes back is claimed by
            # its name.
            return set(returning)
        case _:
            return set()


def chosen_places(plan: WritePlan) -> list[str]:
    """Return the directories that ADD PARTITION or SET LOCATION gives to partitions; the transaction claims them."""
    match plan.change:
        case CheckedAdd(partitions=partitions):
            return [partition.location for partition in partitions if partition.location is not None]
        case CheckedRelocate(asked=asked):
            return [asked.location]
        case _:
            return []


def bound_predicate(plan: WritePlan, table: Table) -> Predicate | None:
    """Return the predicate for the partitions that an overwrite, DROP, EXCHANGE or rollback takes from this table.

    ``TRUE`` means the whole table. None for all other writes, and for the target table of an EXCHANGE.
    """
    asked = plan.asked
    if not isinstance(asked, Overwrite | DropPartitions | ExchangePartitions | Rollback):
        return None
    if isinstance(asked, ExchangePartitions) and table.table_id != asked.source_id:
        return None
    if asked.predicate is None:
        return TRUE
    return bind(asked.predicate, table.definition.keys, str(table.identifier))


def claimed_predicate(plan: WritePlan, table: Table) -> Predicate | None:
    """Return the predicate of a write's claim: ``bound_predicate``, or ``TRUE`` if it replaces the table."""
    return TRUE if isinstance(plan.asked, Replace | CreateOrReplace) else bound_predicate(plan, table)


def covers(predicate: Predicate | None, table: Table) -> Callable[[str], bool] | None:
    """Return a function that says whether the predicate is true for a partition name; None without a predicate."""
    if predicate is None:
        return None
    keys = table.definition.keys
    evaluator = Evaluator(predicate, keys)
    return lambda name: evaluator.matches(typed_values(name, keys))


def replaced_by(plan: WritePlan, table: Table) -> Callable[[str], bool]:
    """Return a function that says, by name, whether the write replaces a partition's files or only adds some."""
    if isinstance(plan.asked, Append):
        return lambda _: False
    return covers(bound_predicate(plan, table), table) or (lambda _: True)
