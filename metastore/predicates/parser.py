"""Parses SQL conditions over partition columns, as the ``where=`` argument takes them, and partial partition specs."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from catalog_ext.metastore.errors import InvalidPredicateError
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
    all_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]+'>")
"""The message of sqlglot, with names of its classes, for an incomplete condition such as ``ds =``."""
MAX_LENGTH = 1_000_000
"""Characters of the longest predicate text that is parsed."""

_MAX_EXPONENT = 400
"""Numbers with a larger exponent fit no column type, and their text would fill the memory."""

_OPERATORS: dict[type[exp.Expression], tuple[Operator, Operator]] = {
    exp.EQ: (Operator.EQ, Operator.EQ), exp.NullSafeEQ: (Operator.NULL_SAFE_EQ, Operator.NULL_SAFE_EQ),
    exp.NEQ: (Operator.NE, Operator.NE), exp.LT: (Operator.LT, Operator.GT), exp.LTE: (Operator.LE, Operator.GE),
    exp.GT: (Operator.GT, Operator.LT), exp.GTE: (Operator.GE, Operator.LE),
}  # fmt: skip
"""Each comparison of sqlglot: its operator, and the operator that means the same with the two sides exchanged."""

_MATCHES: dict[type[exp.Expression], Match] = {
    exp.StartsWith: Match.STARTS_WITH,
    exp.EndsWith: Match.ENDS_WITH,
    exp.Contains: Match.CONTAINS,
}


def parse_predicate(text: str) -> Predicate:
    """Parse a SQL condition over partition columns into an unbound predicate; its numbers are ``Decimal``.

    Accepted are comparisons of a column with a literal (in either order), ``[NOT] IN``, ``BETWEEN``, ``LIKE``,
    ``IS [NOT] NULL``, ``startswith``, ``endswith``, ``contains``, ``AND``, ``OR``, ``NOT``, TRUE and FALSE.
    Literals are strings, numbers, booleans, NULL, ``DATE '…'`` and ``TIMESTAMP '…'``.

    Raises:
        InvalidPredicateError: The text is not a condition of this form.
    """
    if not text.strip() or len(text) > MAX_LENGTH:
        raise InvalidPredicateError(
            f"The predicate has {len(text)} characters; write a condition such as \"ds >= '2025-01-01'\"."
        )
    try:
        statements = sqlglot.parse(text, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        raise InvalidPredicateError(f"{_shown(text)} is not a SQL condition: {_first_line(error)}") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Expression):
        raise InvalidPredicateError(f"{_shown(text)} is not one SQL condition.")
    try:
        return _Converter(text).convert(statements[0])
    except RecursionError as error:
        raise InvalidPredicateError(f"{_shown(text)} is nested too deeply.") from error


def spec_predicate(spec: Mapping[str, str | None]) -> Predicate:
    """Return the predicate of a (maybe partial) partition spec: equality on every key it names; None means NULL."""
    return all_of(*(IsNull(k) if v is None else Comparison(Operator.EQ, k, v) for k, v in spec.items()))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:160]}… ({len(text)} characters)")


def _first_line(error: Exception) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return _MISSING.sub("an operand is missing", text)[:200]


class _Converter:
    def __init__(self, text: str) -> None:
        self._text = text
        self._handlers: dict[type[exp.Expression], Callable[[exp.Expression], Predicate]] = {
            exp.Paren: lambda node: self.convert(node.this), exp.Not: lambda node: Not(self.convert(node.this)),
            exp.Boolean: lambda node: Constant(value=bool(node.this)),
            exp.And: lambda node: And(self._sides(node, exp.And)), exp.Or: lambda node: Or(self._sides(node, exp.Or)),
            exp.Is: self._is, exp.In: self._in, exp.Between: self._between, exp.Like: self._like,
        }  # fmt: skip

    def convert(self, node: exp.Expression) -> Predicate:
        handler = self._handlers.get(type(node))
        if handler is not None:
            return handler(node)
        if type(node) in _OPERATORS:
            return self._comparison(node)
        if type(node) in _MATCHES:
            return StringMatch(_MATCHES[type(node)], self._column(node.this), self._text_literal(node.expression))
        raise self._unsupported(node)

    def _sides(self, node: exp.Expression, kind: type[exp.Expression]) -> tuple[Predicate, ...]:
        # A chain of a thousand ORs is a left-deep tree. A loop walks it, since recursion would exceed Python's limit.
        sides: list[exp.Expression] = []
        while isinstance(node, kind):
            sides.append(node.expression)
            node = node.this
        return tuple(self.convert(side) for side in (node, *reversed(sides)))

    def _comparison(self, node: exp.Expression) -> Predicate:
        straight, exchanged = _OPERATORS[type(node)]
        if isinstance(node.this, exp.Column):
            return Comparison(straight, self._column(node.this), self._literal(node.expression))
        return Comparison(exchanged, self._column(node.expression), self._literal(node.this))

    def _is(self, node: exp.Expression) -> Predicate:
        if isinstance(node.expression, exp.Null):
            return IsNull(self._column(node.this))
        raise self._unsupported(node)

    def _in(self, node: exp.Expression) -> Predicate:
        if node.args.get("query") is not None or not node.expressions:
            raise self._unsupported(node)
        return In(self._column(node.this), tuple(self._literal(e) for e in node.expressions))

    def _between(self, node: exp.Expression) -> Predicate:
        column = self._column(node.this)
        if node.args.get("symmetric"):
            raise self._unsupported(node)
        low, high = self._literal(node.args["low"]), self._literal(node.args["high"])
        return And((Comparison(Operator.GE, column, low), Comparison(Operator.LE, column, high)))

    def _like(self, node: exp.Expression) -> Predicate:
        match = StringMatch(Match.LIKE, self._column(node.this), self._text_literal(node.expression))
        return Not(match) if node.args.get("negate") else match

    def _column(self, node: exp.Expression) -> str:
        if isinstance(node, exp.Column) and not node.table and isinstance(node.this, exp.Identifier):
            return str(node.this.this)
        raise self._unsupported(node, "a partition column")

    def _literal(self, node: exp.Expression) -> str | Decimal | None:
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Literal):
            return str(node.this) if node.is_string else self._number(node)
        if isinstance(node, exp.RawString):
            return str(node.this)
        if isinstance(node, exp.Boolean):
            return "true" if node.this else "false"
        if isinstance(node, exp.Neg) and isinstance(number := self._literal(node.this), Decimal):
            return -number
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            # sqlglot parses ``DATE '…'``, and numbers with a suffix such as ``10L``, as casts of a literal.
            return self._literal(node.this)
        raise self._unsupported(node, "a literal")

    def _number(self, node: exp.Expression) -> Decimal:
        try:
            number = Decimal(node.this)
        except InvalidOperation as error:
            raise self._unsupported(node, "a number") from error
        if abs(number.adjusted()) > _MAX_EXPONENT:
            raise self._unsupported(node, f"a number below 1e{_MAX_EXPONENT}")
        return number

    def _text_literal(self, node: exp.Expression) -> str:
        if isinstance(node, exp.RawString) or (isinstance(node, exp.Literal) and node.is_string):
            return str(node.this)
        raise self._unsupported(node, "a string literal")

    def _unsupported(
        self, node: exp.Expression, expected_expression: str = "a comparison of a partition column with a literal"
    ) -> InvalidPredicateError:
        expression = node.sql(dialect="spark")
        return InvalidPredicateError(
            f"The predicate {_shown(self._text)} cannot be used: {expression[:120]!r} is not {expected_expression}. "
            "Use =, <=>, !=, <, <=, >, >=, IN, BETWEEN, LIKE and IS NULL on partition columns, with AND, OR and NOT.",
            {"predicate": self._text[:200]},
        )
