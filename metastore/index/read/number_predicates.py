"""Predicates over the columns of numbers of metadata tables, as clauses of SQL, whose NULL is theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.index.database.schema import files, partitions
from catalog_ext.metastore.index.read.clauses import in_groups
from catalog_ext.metastore.model.types import DataType
from catalog_ext.metastore.model.values import Key
from catalog_ext.metastore.predicates.compaction import compacted
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import And, Comparison, Constant, In, IsNull, Not, Operator, Or, bind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.predicates.tree import Predicate

    _Column = sa.ColumnElement[Any]
    _Clause = sa.ColumnElement[bool]

_COLUMNS: Mapping[str, Mapping[str, _Column]] = {
    "partitions": {"files": partitions.c.n_files, "bytes": partitions.c.n_bytes, "rows": partitions.c.n_rows},
    "files": {"size": files.c.size, "rows": files.c.n_rows, "version": files.c.begin_version},
}
_BIGINT = DataType("bigint")


class NumberPredicate:
    """A condition on the rows of a metadata table.

    Args:
        name: ``partitions`` or ``files``.
        predicate: An unbound tree over its columns of numbers.

    Raises:
        InvalidPredicateError: It names another column, or matches text.
        InvalidValueError: A value is no number.
    """

    def __init__(self, name: str, predicate: Predicate) -> None:
        self._columns = _COLUMNS[name]
        self._keys = [Key(i, column, _BIGINT) for i, column in enumerate(self._columns)]
        bound = bind(predicate, self._keys, name)
        self._evaluator = Evaluator(bound, self._keys)
        self.clause = self._clause(compacted(bound))

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Return whether it is true for a row of the metadata table."""
        return self._evaluator.matches([row[column] for column in self._columns])

    def _clause(self, predicate: Predicate) -> _Clause:
        match predicate:
            case Constant(value):
                return sa.true() if value else sa.false()
            case And(args):
                return in_groups(sa.and_, sa.true(), map(self._clause, args))
            case Or(args):
                return in_groups(sa.or_, sa.false(), map(self._clause, args))
            case Not(arg):
                return sa.not_(self._clause(arg))
            case IsNull(column):
                return self._columns[column].is_(None)
            case Comparison(Operator.NULL_SAFE_EQ, column, value):
                return self._columns[column].is_not_distinct_from(_number(value))
            case Comparison(operator, column, value):
                return self._columns[column].bool_op(str(operator))(_number(value))
            case In(column, values):
                return self._columns[column].in_([_number(value) for value in values])
        raise InvalidPredicateError("Numbers of a metadata table are compared, and not matched as text.")


def _number(value: object) -> _Column:
    # Not as parameters, of which databases take so many only.
    return sa.null() if value is None else sa.literal_column(str(value), sa.BigInteger)
