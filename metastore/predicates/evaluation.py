"""The exact evaluator of bound predicates: SQL's three-valued logic, also for partition values not known yet."""

from __future__ import annotations

import math
import re
from enum import Enum, IntFlag
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from catalog_ext.metastore.predicates.compaction import compacted
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
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.metastore.model.values import Key, Scalar, Value


class Unknown(Enum):
    """The type of ``UNKNOWN``, which stands for a partition value that is not known yet."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
"""The value of a partition column that is not known yet, as when only the first directories of a path are known."""


class Outcome(IntFlag):
    """The set of possible outcomes of a predicate; it has several members if the value of a key is unknown."""

    TRUE = 1
    FALSE = 2
    NULL = 4
    ANY = 7


_NEGATED = {bits: Outcome(((bits & 1) << 1) | ((bits & 2) >> 1) | (bits & 4)) for bits in range(8)}
_SINGLE = (Outcome.TRUE, Outcome.FALSE, Outcome.NULL)


def _conjunction(left: Outcome, right: Outcome) -> Outcome:
    result = Outcome(0)
    for a in _SINGLE:
        for b in _SINGLE:
            if a & left and b & right:
                both = {a, b}
                result |= (
                    Outcome.FALSE if Outcome.FALSE in both else Outcome.NULL if Outcome.NULL in both else Outcome.TRUE
                )
    return result


_AND = {(a, b): _conjunction(Outcome(a), Outcome(b)) for a in range(8) for b in range(8)}


class Evaluator:
    """Evaluates one bound predicate on partitions, given by their typed values in the order of the columns."""

    def __init__(self, predicate: Predicate, keys: Sequence[Key]) -> None:
        self._predicate = compacted(predicate)
        self._positions: Mapping[str, int] = {key.name: key.position for key in keys}
        self._members: dict[int, frozenset[Any]] = {}

    def matches(self, values: Sequence[Value | Unknown]) -> bool:
        """Return whether the predicate is true for these values, regardless of the values that are ``UNKNOWN``."""
        return self._evaluate(self._predicate, values) == Outcome.TRUE

    def may_match(self, values: Sequence[Value | Unknown]) -> bool:
        """Return whether the predicate is true for at least one choice of the values that are ``UNKNOWN``."""
        return bool(self._evaluate(self._predicate, values) & Outcome.TRUE)

    def _evaluate(self, predicate: Predicate, values: Sequence[Value | Unknown]) -> Outcome:
        match predicate:
            case Constant(truth):
                return Outcome.TRUE if truth else Outcome.FALSE
            case And(args):
                result = Outcome.TRUE
                for arg in args:
                    result = _AND[result, self._evaluate(arg, values)]
                    if result is Outcome.FALSE:
                        break
                return result
            case Or(args):
                result = Outcome.TRUE
                for arg in args:
                    result = _AND[result, _NEGATED[self._evaluate(arg, values)]]
                    if result is Outcome.FALSE:
                        break
                return _NEGATED[result]
            case Not(arg):
                return _NEGATED[self._evaluate(arg, values)]
            case IsNull(column):
                value = values[self._positions[column]]
                return Outcome.TRUE | Outcome.FALSE if value is UNKNOWN else _outcome(value is None)
            case Comparison(op, column, other):
                return self._compare(op, values[self._positions[column]], other)
            case In(column, others):
                return self._member(values[self._positions[column]], others)
            case StringMatch(kind, column, pattern):
                value = values[self._positions[column]]
                if value is UNKNOWN:
                    return Outcome.ANY
                return Outcome.NULL if value is None else _outcome(matches_string(kind, str(value), pattern))

    @staticmethod
    def _compare(op: Operator, value: Value | Unknown, other: Value) -> Outcome:
        if op is Operator.NULL_SAFE_EQ:
            if value is UNKNOWN:
                return Outcome.TRUE | Outcome.FALSE
            equal = (
                value is other
                if value is None or other is None
                else _COMPARE[Operator.EQ](order_key(value), order_key(other))
            )
            return _outcome(equal)
        if other is None or value is None:
            return Outcome.NULL
        if value is UNKNOWN:
            return Outcome.ANY
        return _outcome(_COMPARE[op](order_key(value), order_key(other)))

    def _member(self, value: Value | Unknown, others: Sequence[Value]) -> Outcome:
        if not others:
            return Outcome.FALSE
        if value is UNKNOWN:
            return Outcome.NULL if all(other is None for other in others) else Outcome.ANY
        if value is None:
            return Outcome.NULL
        # The set is cached by the id of the tuple. The predicate holds the tuple as long as this evaluator lives, so
        # Python does not give the id to another object.
        members = self._members.get(id(others))
        if members is None:
            members = frozenset(None if other is None else order_key(other) for other in others)
            self._members[id(others)] = members
        if order_key(value) in members:
            return Outcome.TRUE
        return Outcome.NULL if None in members else Outcome.FALSE


def _outcome(value: bool) -> Outcome:
    return Outcome.TRUE if value else Outcome.FALSE


_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: lambda a, b: a == b, Operator.NE: lambda a, b: a != b, Operator.LT: lambda a, b: a < b,
    Operator.LE: lambda a, b: a <= b, Operator.GT: lambda a, b: a > b, Operator.GE: lambda a, b: a >= b,
}  # fmt: skip


def order_key(value: Scalar) -> Any:  # noqa: ANN401 -- comparable with its like, which no type says
    """Return the sort key of a value within its type: NaN equals itself and is above every number, as in Spark."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value


def matches_string(kind: Match, value: str, pattern: str) -> bool:
    """Return whether the string matches, as Spark's ``startswith``, ``endswith``, ``contains`` and ``LIKE`` do."""
    match kind:
        case Match.STARTS_WITH:
            return value.startswith(pattern)
        case Match.ENDS_WITH:
            return value.endswith(pattern)
        case Match.CONTAINS:
            return pattern in value
        case Match.LIKE:
            return like_regex(pattern).fullmatch(value) is not None


@lru_cache(maxsize=8192)
def like_regex(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of a LIKE pattern whose escape character is a backslash."""
    parts: list[str] = []
    escaped = False
    for character in pattern:
        if escaped:
            parts.append(re.escape(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    if escaped:
        parts.append(re.escape("\\"))
    return re.compile("".join(parts), re.DOTALL)
