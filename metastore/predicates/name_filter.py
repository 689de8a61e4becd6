"""Chooses partitions by their names, also partitions that the index does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError, InvalidValueError
from catalog_ext.metastore.model.typed_values import checked_values
from catalog_ext.metastore.predicates.evaluation import Evaluator

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate


class NameFilter:
    """Evaluates a bound predicate on partition names.

    Args:
        table: The table, whose partition columns the predicate is over.
        predicate: The predicate; None chooses everything.
    """

    def __init__(self, table: Table, predicate: Predicate | None) -> None:
        self._keys = table.definition.keys
        self._table = str(table.identifier)
        self._evaluator = None if predicate is None else Evaluator(predicate, self._keys)

    @property
    def is_limited(self) -> bool:
        """Whether there is a predicate."""
        return self._evaluator is not None

    def chooses(self, name: str) -> bool:
        """Return whether the predicate is true for a partition; false for a name that is no partition's."""
        if self._evaluator is None:
            return True
        try:
            values = checked_values(name, self._keys, self._table)
        except (InvalidPartitionNameError, InvalidValueError):
            return False
        return self._evaluator.matches(values)
