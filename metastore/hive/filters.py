"""The visitor that makes the metastore's filter string of a bound predicate.

The metastore compares the texts of partition values, by the order of its database, and knows a few operators only.
What it cannot answer is left out, so that it finds a superset: the caller evaluates the predicate again on what it
gets, unless the filter is exact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION
from catalog_ext.metastore.predicates.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Match,
    Not,
    Operator,
    Or,
    Predicate,
    StringMatch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.model.values import Key, Value

MAX_VALUES = 200
"""Longer IN lists are left out: the metastore's parser and its database both have limits."""

_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_KEYWORDS = frozenset({"and", "or", "not", "like", "between", "in", "date", "timestamp"})
_OPPOSITE = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


@dataclass(frozen=True, slots=True)
class MetastoreFilter:
    """A filter for ``partitions_by_filter``.

    Attributes:
        text: The filter string; None: nothing can be expressed, ask for all partitions.
        exact: Whether what it finds is what the predicate wants, no more.
    """

    text: str | None
    exact: bool


_ALL = MetastoreFilter(None, exact=False)
_EVERYTHING = MetastoreFilter(None, exact=True)


def metastore_filter(predicate: Predicate, keys: Sequence[Key], *, binary_order: bool = False) -> MetastoreFilter:
    """The filter that finds at least the partitions for which the predicate is true.

    Args:
        predicate: A bound tree.
        keys: The table's partition columns.
        binary_order: Whether the metastore's database compares strings by their code points (the embedded Derby does);
            only then are ranges and ``!=`` over strings asked for.
    """
    return _Visitor({key.name: key for key in keys}, binary_order).visit(predicate, negated=False)


class _Visitor:
    def __init__(self, keys: Mapping[str, Key], binary_order: bool) -> None:
        self._keys = keys
        self._binary_order = binary_order

    def visit(self, predicate: Predicate, *, negated: bool) -> MetastoreFilter:
        """The filter of the predicate or of its negation, which goes down to the leaves: there supersets stay sound."""
        match predicate:
            case Constant(value):
                return _EVERYTHING if value is not negated else _ALL
            case Not(arg):
                return self.visit(arg, negated=not negated)
            case And(args) if not negated:
                return _conjunction([self.visit(a, negated=False) for a in args])
            case Or(args) if negated:
                return _conjunction([self.visit(a, negated=True) for a in args])
            case And(args) | Or(args):
                return _disjunction([self.visit(a, negated=negated) for a in args])
            case IsNull(column):
                return self._null(column, negated=negated)
            case In(column, values):
                return self._member(column, values, negated=negated)
            case Comparison(op, column, value):
                return self._comparison(op, column, value, negated=negated)
            case StringMatch(kind, column, pattern):
                return self._match(kind, column, pattern, negated=negated)

    def _null(self, column: str, *, negated: bool) -> MetastoreFilter:
        if not self._is_string(column):
            return _ALL
        return self._leaf("!=" if negated else "=", column, DEFAULT_PARTITION, exact=True)

    def _comparison(self, op: Operator, column: str, value: Value, *, negated: bool) -> MetastoreFilter:
        if op is Operator.NULL_SAFE_EQ:
            if negated:
                return _ALL
            if value is None:
                return self._null(column, negated=False)
            op = Operator.EQ
        elif negated:
            op = _OPPOSITE[op]
        if value is None:
            return _ALL  # never true: rare enough to be left to the evaluator
        return self._leaf(str(op), column, value, exact=op is Operator.EQ)

    def _member(self, column: str, values: Sequence[Value], *, negated: bool) -> MetastoreFilter:
        present = [value for value in values if value is not None]
        if not present or len(present) > MAX_VALUES or (negated and len(present) < len(values)):
            return _ALL
        op = "!=" if negated else "="
        leaves = [self._leaf(op, column, value, exact=not negated) for value in present]
        return _conjunction(leaves) if negated else _disjunction(leaves)

    def _match(self, kind: Match, column: str, pattern: str, *, negated: bool) -> MetastoreFilter:
        # LIKE is a regular expression in release 2, SQL's in release 4; a range means the same in both.
        if negated or not pattern:
            return _ALL
        prefix = pattern if kind is Match.STARTS_WITH else _like_prefix(pattern) if kind is Match.LIKE else ""
        return MetastoreFilter(self._leaf(">=", column, prefix, exact=False).text, exact=False) if prefix else _ALL

    def _leaf(self, op: str, column: str, value: Value, *, exact: bool) -> MetastoreFilter:
        name = column.lower()
        if not _IDENTIFIER.fullmatch(name) or name in _KEYWORDS:
            return _ALL
        if self._is_string(column) and isinstance(value, str):
            if op != "=" and not self._binary_order:
                return _ALL
            literal = _quoted(value)
            # CHAR values may be padded in a directory's name, and a database may call texts equal that differ in case.
            exact = exact and self._binary_order and self._keys[column].type.name == "string"
            return MetastoreFilter(f"{name} {op} {literal}", exact) if literal else _ALL
        if self._keys[column].type.is_integer and isinstance(value, int) and op in ("=", "!="):
            return MetastoreFilter(f"{name} {op} {value}", exact=False) if value >= 0 else _ALL
        return _ALL

    def _is_string(self, column: str) -> bool:
        return self._keys[column].type.is_string


def _quoted(text: str) -> str | None:
    """The string literal; None for text that the metastore's parser does not give back as it is."""
    if "\\" in text or not text:
        return None
    return f'"{text}"' if '"' not in text else f"'{text}'" if "'" not in text else None


def _like_prefix(pattern: str) -> str:
    return re.split(r"[%_\\]", pattern, maxsplit=1)[0]


def _conjunction(filters: Sequence[MetastoreFilter]) -> MetastoreFilter:
    texts = [f.text for f in filters if f.text is not None]
    text = " and ".join(f"({t})" for t in texts) if len(texts) > 1 else texts[0] if texts else None
    return MetastoreFilter(text, all(f.exact for f in filters))


def _disjunction(filters: Sequence[MetastoreFilter]) -> MetastoreFilter:
    if _EVERYTHING in filters:
        return _EVERYTHING
    texts = [f.text for f in filters if f.text is not None]
    if len(texts) < len(filters) or not texts:
        return _ALL
    text = " or ".join(f"({t})" for t in texts) if len(texts) > 1 else texts[0]
    return MetastoreFilter(text, all(f.exact for f in filters))
