"""The predicate tree over partition columns, shared by SQL, the Hive Metastore's filters and the exact evaluator.

A tree is *unbound* when it comes from text or JSON (its values are texts), and *bound* to a table's partition columns
by ``bind``: names in the table's spelling, values typed. Visitors take bound trees:

* ``catalog_ext.metastore.predicates.evaluation`` answers exactly, with SQL's three-valued logic;
* ``catalog_ext.metastore.index.read.predicate_sql`` makes a WHERE clause of it;
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidPredicateError, InvalidValueError
from catalog_ext.metastore.model.values import Scalar, Value, value_text
from catalog_ext.metastore.predicates.literals import Literal, least_value, literal_of
from catalog_ext.metastore.runtime.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.model.values import Key


class Operator(StrEnum):
    """A comparison operator; ``<=>`` is Spark's null-safe equality."""

    EQ = "="
    NULL_SAFE_EQ = "<=>"
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Match(StrEnum):
    r"""The way in which a string is matched; ``LIKE`` has ``%``, ``_`` and the escape character ``\\``."""

    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"
    LIKE = "like"


@dataclass(frozen=True, slots=True)
class Constant:
    """The predicate TRUE or FALSE."""

    value: bool


@dataclass(frozen=True, slots=True)
class And:
    """The conjunction of its arguments; TRUE without arguments."""

    args: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """The disjunction of its arguments; FALSE without arguments."""

    args: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a predicate; NULL stays NULL."""

    arg: Predicate


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a value."""

    op: Operator
    column: str
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """The condition that a column's value is one of the given values."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """The condition that a column is NULL."""

    column: str


@dataclass(frozen=True, slots=True)
class StringMatch:
    """The condition that a string column matches a pattern."""

    kind: Match
    column: str
    pattern: str


Predicate: TypeAlias = "Constant | And | Or | Not | Comparison | In | IsNull | StringMatch"

_BAD_ESCAPE = re.compile(r"^(?:[^\\]|\\[%_\\])*\\(?![%_\\])", re.DOTALL)
"""A LIKE pattern that Spark refuses (``INVALID_FORMAT.ESC_IN_THE_MIDDLE`` and ``ESC_AT_THE_END``)."""

TRUE = Constant(value=True)
FALSE = Constant(value=False)


def all_of(*args: Predicate | None) -> Predicate:
    """Return the conjunction of the arguments that are not None; ``TRUE`` if there are no arguments."""
    given = tuple(a for a in args if a is not None)
    return given[0] if len(given) == 1 else And(given) if given else TRUE


def any_of(*args: Predicate) -> Predicate:
    """Return the disjunction of the arguments; ``FALSE`` if there are no arguments."""
    return args[0] if len(args) == 1 else Or(args) if args else FALSE


def columns_of(predicate: Predicate) -> Iterator[str]:
    """Yield the columns that the predicate names; a column that it names twice comes twice."""
    match predicate:
        case And(args) | Or(args):
            for arg in args:
                yield from columns_of(arg)
        case Not(arg):
            yield from columns_of(arg)
        case Comparison(column=column) | In(column=column) | IsNull(column=column) | StringMatch(column=column):
            yield column
        case Constant():
            return


def constant_of(predicate: Predicate | None) -> bool | None:
    """Return the outcome of a predicate that is the same for every partition; None if it depends on the partition.

    Only the form of the predicate is looked at, so some constant predicates are not recognized.

    >>> constant_of(Or((IsNull("k"), Not(IsNull("k")))))
    True
    """
    match predicate:
        case None:
            return True
        case Constant(value):
            return value
        case Not(arg):
            inner = constant_of(arg)
            return None if inner is None else not inner
        case And(args):
            return _together(args, decisive=False)
        case Or(args):
            return (
                True if any(isinstance(a, IsNull) and Not(a) in args for a in args) else _together(args, decisive=True)
            )
    return None


def _together(args: tuple[Predicate, ...], *, decisive: bool) -> bool | None:
    found = [constant_of(arg) for arg in args]
    if decisive in found:
        return decisive
    return None if None in found else not decisive


def bind(predicate: Predicate, keys: Sequence[Key], table: str) -> Predicate:
    """Return the predicate with columns in the table's spelling and values of the columns' types.

    The given values are texts, ``Decimal`` (a number in SQL text) or None.

    Raises:
        InvalidPredicateError: The predicate names a column that is not a partition column of the table, or matches a
            pattern on a column that is not a string.
        InvalidValueError: A value cannot be compared with its column, such as a word with a DATE.
    """
    return _Binder({key.name.lower(): key for key in keys}, table).bind(predicate)


def unbound(predicate: Predicate, keys: Sequence[Key]) -> Predicate:
    """Return a bound predicate in unbound form, with the canonical texts of the values: the inverse of ``bind``."""
    types = {key.name: key.type for key in keys}

    def text(column: str, value: Value) -> str | None:
        return None if value is None else value_text(value, types[column])

    def texts(part: Predicate) -> Predicate:
        match part:
            case And(args):
                return And(tuple(texts(arg) for arg in args))
            case Or(args):
                return Or(tuple(texts(arg) for arg in args))
            case Not(arg):
                return Not(texts(arg))
            case In(column, values):
                return In(column, tuple(text(column, value) for value in values))
            case Comparison(operator, column, value):
                return Comparison(operator, column, text(column, value))
            case Constant() | IsNull() | StringMatch():
                return part

    return texts(predicate)


def _for_no_value(key: Key) -> Predicate:
    """Return a predicate that is false for every non-NULL value of a column, and NULL for NULL."""
    return Comparison(Operator.LT, key.name, least_value(key.type))


def _for_each_value(key: Key) -> Predicate:
    """Return a predicate that is true for every non-NULL value of a column, and NULL for NULL."""
    return Comparison(Operator.GE, key.name, least_value(key.type))


def no_such_key(column: str, keys: Iterable[Key], table: str) -> InvalidPredicateError:
    """Return the error that a table has no partition column of that name, with a suggestion of a similar name."""
    names = [key.name for key in keys]
    return InvalidPredicateError(
        f"{column[:120]!r} is not a partition column of table {table}. "
        f"{did_you_mean(column[:120], names)}Its partition columns are: {', '.join(names) or 'none'}.",
        {"table": table, "column": column[:120]},
    )


class _Binder:
    def __init__(self, keys: Mapping[str, Key], table: str) -> None:
        self._keys = keys
        self._table = table

    def bind(self, predicate: Predicate) -> Predicate:
        match predicate:
            case Constant():
                return predicate
            case And(args):
                return And(tuple(self.bind(a) for a in args))
            case Or(args):
                return Or(tuple(self.bind(a) for a in args))
            case Not(arg):
                return Not(self.bind(arg))
            case IsNull(column):
                return IsNull(self._key(column).name)
            case In(column, values):
                return self._in(self._key(column), values)
            case Comparison(op, column, value):
                return self._comparison(self._key(column), op, value)
            case StringMatch(kind, column, pattern):
                key = self._key(column)
                if not key.type.is_string:
                    raise InvalidPredicateError(
                        f"The partition column {key.name!r} of table {self._table} is {str(key.type).upper()}; only "
                        "strings can be matched with a pattern. Compare it with =, <, BETWEEN or IN.",
                        {"table": self._table, "column": key.name},
                    )
                if kind is Match.LIKE and _BAD_ESCAPE.search(pattern):
                    raise InvalidPredicateError(
                        f"The LIKE pattern {pattern[:120]!r} on column {key.name!r} of table {self._table} has "
                        "a backslash that escapes neither '%', '_' nor a backslash. Write it twice.",
                        {"table": self._table, "column": key.name},
                    )
                return replace(predicate, column=key.name)

    def _key(self, column: str) -> Key:
        key = self._keys.get(column.lower())
        if key is None:
            raise no_such_key(column, self._keys.values(), self._table)
        return key

    def _comparison(self, key: Key, op: Operator, value: Value) -> Predicate:
        """Return the comparison; if the column's type cannot hold the literal, an equivalent predicate without it."""
        if value is None:
            return Comparison(op, key.name, None)
        literal = self._literal(value, key)
        if literal.is_value:
            return Comparison(op, key.name, literal.floor)
        below_all = literal.floor is None
        match op:
            case Operator.NULL_SAFE_EQ:
                return FALSE
            case Operator.EQ:
                return _for_no_value(key)
            case Operator.NE:
                return _for_each_value(key)
            case Operator.LT | Operator.LE:
                return _for_no_value(key) if below_all else Comparison(Operator.LE, key.name, literal.floor)
            case Operator.GT | Operator.GE:
                return _for_each_value(key) if below_all else Comparison(Operator.GT, key.name, literal.floor)

    def _in(self, key: Key, values: Sequence[Value]) -> Predicate:
        literals = [None if value is None else self._literal(value, key) for value in values]
        kept = tuple(None if one is None else one.floor for one in literals if one is None or one.is_value)
        return In(key.name, kept) if kept or not values else _for_no_value(key)

    def _literal(self, value: Scalar, key: Key) -> Literal:
        if isinstance(value, Decimal) and key.type.is_string:
            raise InvalidPredicateError(
                f"The partition column {key.name!r} of table {self._table} is {str(key.type).upper()}, and {value} is "
                f"a number. Write '{value}' in quotes, or register the key with a number type.",
                {"table": self._table, "column": key.name},
            )
        try:
            return literal_of(value, key.type)
        except InvalidValueError as error:
            raise InvalidValueError(
                f"In the predicate on table {self._table}: the value of partition column {key.name!r}: {error.message}",
                {"table": self._table, "column": key.name, **error.parameters},
            ) from error
