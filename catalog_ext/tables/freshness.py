"""Compares the partitions that a query selects with the store, if the last comparison is older than ``max-staleness``.

``docs/design/6-freshness.md`` has the rules: which partitions are listed, and at which version they are read.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import product
from threading import Lock
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError, StorageUnavailableError
from catalog_ext.metastore.model.partition_names import format_partition_name
from catalog_ext.metastore.model.values import Value, value_text
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import And, Comparison, In, IsNull, Operator, Or, constant_of
from catalog_ext.scan.observe import INCOMPLETE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.repair.table_repair import TableRepair

MOST_NAMED = 1000
"""The most partition names that a predicate may spell out, for unregistered partitions to be looked up on the store."""

_REMEMBERED_STATEMENTS = 256
_MANY = 100


@dataclass(frozen=True, slots=True)
class Staleness:
    """The freshness that a read requires of the partitions that it selects.

    Attributes:
        max_ms: The greatest age of the last comparison with the store, in milliseconds.
        statement: The id of the reading statement, which compares each partition at most once. None for a read outside
            of a statement.
    """

    max_ms: int
    statement: str | None = None


@dataclass(slots=True)
class _Statement:
    """The partitions that one statement has compared with the store, for one version of a table.

    Attributes:
        oldest_ms: The time of the oldest comparison that is still fresh. It is set once, at the statement's first read.
        compared: Names of the partitions that the statement has checked; None for all.
        moved: The versions of partitions that the statement reads at a later version than the table's, by name.
    """

    oldest_ms: int | None = None
    compared: set[str] | None = field(default_factory=set)
    moved: dict[str, int] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)


class Freshness:
    """Compares the partitions that a query selects with the store, unless the last comparison is recent enough."""

    def __init__(self, context: Context, repair: TableRepair) -> None:
        self._context = context
        self._repair = repair
        self._statements: OrderedDict[tuple[str, int, int, int], _Statement] = OrderedDict()
        self._lock = Lock()

    def bring_in_sync(
        self, table: Table, predicate: Predicate | None, ids: Sequence[int] | None, staleness: Staleness
    ) -> Mapping[str, int]:
        """Compare stale partitions with the store. Return the versions of partitions with changes, by name.

        The statement has to read such a partition at the returned version: it is the partition as of the table's
        version, plus the files that the comparison found. A bound predicate and the partition numbers ``ids`` select
        the partitions to compare; None selects all.

        Raises:
            StorageError: The store cannot be listed.
            MassDropError: More partitions have disappeared from the store than a repair may drop.
        """
        statement = self._statement(table, staleness)
        with statement.lock:
            if statement.compared is not None:
                self._compare(table, predicate, ids, staleness, statement)
            return dict(statement.moved)

    def _statement(self, table: Table, staleness: Staleness) -> _Statement:
        if staleness.statement is None:
            return _Statement()
        key = (staleness.statement, staleness.max_ms, table.table_id, table.version)
        with self._lock:
            found = self._statements.setdefault(key, _Statement())
            self._statements.move_to_end(key)
            while len(self._statements) > _REMEMBERED_STATEMENTS:
                self._statements.popitem(last=False)
        return found

    def _compare(
        self, table: Table, predicate: Predicate | None, ids: Sequence[int] | None, staleness: Staleness,
        statement: _Statement,
    ) -> None:  # fmt: skip
        index = self._context.index
        of_all = index.verifications.verified(table, None)
        if statement.oldest_ms is None:
            statement.oldest_ms = of_all.now_ms - staleness.max_ms
        oldest_ms = statement.oldest_ms
        if of_all.whole is not None and of_all.whole.at_ms >= oldest_ms and of_all.whole.version <= table.version:
            # The whole table is fresh, so this statement compares nothing more, whatever other processes compare later.
            statement.compared = None
            return
        selects_all = ids is None and constant_of(predicate) is True and bool(table.definition.partition_columns)
        if selects_all and (of_all.whole is None or of_all.whole.at_ms < oldest_ms):
            self._compare_all(table, statement)
            return
        names = [name for name in self._selected(table, predicate, ids) if name not in (statement.compared or ())]
        known = index.verifications.verified(table, names)
        stale, later = [], []
        for name in names:
            verified = known.of(name)
            if verified is None or verified.at_ms < oldest_ms:
                stale.append(name)
            elif verified.version > table.version:
                later.append(name)
        if len(stale) >= _MANY and 2 * len(stale) > table.totals.partitions:
            self._compare_all(table, statement)
            return
        if stale:
            self._look_at(table, stale, predicate)
        if stale or later:
            statement.moved |= index.verifications.first_repairs_after(table, [*stale, *later])
        if statement.compared is not None:
            statement.compared.update(names)

    def _compare_all(self, table: Table, statement: _Statement) -> None:
        """Compare the whole table in one repair, which takes fewer requests than listing its partitions one by one."""
        self._look_at(table, None, None)
        found, decided = self._context.index.verifications.first_repairs_after(table, None), statement.compared or ()
        statement.moved |= {name: version for name, version in found.items() if name not in decided}
        statement.compared = None

    def _selected(self, table: Table, predicate: Predicate | None, ids: Sequence[int] | None) -> list[str]:
        """Return the names of the selected partitions, and of unregistered partitions that the predicate names."""
        names: dict[str, None] = {}
        among = None if ids is None else frozenset(ids)
        for batch in self._context.index.partitions.all(table, predicate):
            found = batch.column("partition").to_pylist()
            if among is not None:
                numbers = batch.column("partition_id").to_pylist()
                found = [name for name, number in zip(found, numbers, strict=True) if number in among]
            names.update(dict.fromkeys(found))
        if ids is None and not table.definition.has_wildcards:
            names.update(dict.fromkeys(_named(table, predicate)))
        return list(names)

    def _look_at(self, table: Table, names: Sequence[str] | None, predicate: Predicate | None) -> None:
        limit = predicate if table.definition.has_wildcards and constant_of(predicate) is not True else None
        report = self._repair.look_at(table, names, predicate=limit, why="max-staleness")
        for entry in report.skipped:
            if entry.reason.startswith(INCOMPLETE):
                raise StorageUnavailableError(
                    f"The table {table.identifier} has max-staleness, and {entry.path!r} cannot be compared with the "
                    f"store: {entry.reason[len(INCOMPLETE) :].rstrip('.')}. Run the query again when the store "
                    "answers, or read what the index has with max-staleness = none.",
                    {"table": str(table.identifier), "path": entry.path},
                )


def _named(table: Table, predicate: Predicate | None) -> Iterator[str]:
    """Yield the partition names that satisfy a predicate, if it lists the values of every key; none above a limit."""
    keys = table.definition.keys
    if predicate is None:
        return
    choices = []
    for key in keys:
        values = _values_of(predicate, key.name)
        if values is None:
            return
        choices.append(sorted(values, key=repr))
    count = 1
    for choice in choices:
        count *= len(choice)
    if not keys or count > MOST_NAMED:
        return
    evaluator, columns = Evaluator(predicate, keys), [key.name for key in keys]
    for combination in product(*choices):
        if not evaluator.matches(combination):
            continue
        pairs = zip(keys, combination, strict=True)
        texts = [None if value is None else value_text(value, key.type) for key, value in pairs]
        try:
            yield format_partition_name(columns, texts)
        except InvalidPartitionNameError:
            # The values form an invalid partition name, so no such partition can exist.
            continue


def _values_of(predicate: Predicate, column: str) -> set[Value] | None:
    """Return the values of a column for which a predicate can be true; None if the predicate does not list them."""
    match predicate:
        case Comparison(Operator.EQ, name, value) if name == column:
            return {value} - {None}
        case Comparison(Operator.NULL_SAFE_EQ, name, value) if name == column:
            return {value}
        case In(name, values) if name == column:
            return set(values) - {None}
        case IsNull(name) if name == column:
            return {None}
        case And(args):
            found = [values for values in (_values_of(arg, column) for arg in args) if values is not None]
            return set.intersection(*found) if found else None
        case Or(args):
            each = [_values_of(arg, column) for arg in args]
            known = [values for values in each if values is not None]
            return set().union(*known) if each and len(known) == len(each) else None
    return None
