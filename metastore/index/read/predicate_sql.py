"""Translates a bound predicate to a WHERE clause over the encoded key columns ``k1`` to ``k8`` of ``partitions``.

The key column of a partition column is never SQL's NULL (``''`` stands for NULL, the default partition), so each clause
is either true or false. Three-valued logic is translated as two separate questions: "is the predicate true?" and "is it
false?"; NOT swaps them. If SQL cannot evaluate a predicate exactly, the clause selects more rows, and the caller
evaluates the predicate again on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from catalog_ext.metastore.index.database.schema import KEY_COLUMNS, partitions
from catalog_ext.metastore.index.read.clauses import EVERYTHING, MAX_NESTING, Condition, every, some
from catalog_ext.metastore.model.key_encoding import MAX_KEY_BYTES, NULL_KEY, encode_key, encode_scalar, next_prefix
from catalog_ext.metastore.predicates.compaction import compacted, equalities
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
    columns_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_ext.metastore.model.values import Key, Scalar, Value

_Clause = sa.ColumnElement[bool]

DECISIVE_KEY_BYTES = MAX_KEY_BYTES - 3
"""A stored key shorter than this is certainly not truncated: a truncated key has at least so many bytes."""

_IN_LIST = 200
"""Longer lists of values are sent to SQLite as one JSON value, because it limits the number of parameters of a
statement."""

_MANY_PAIRS = 20
"""If an OR has at least so many combinations of values of the same keys, they are sent as one list."""

_APART = 50
"""The most terms of an OR over several keys that are written as a UNION. SQLite allows 500 SELECTs in a UNION."""

_MAX_LIST_BYTES = 4 << 20
"""The greatest size of a list of values for MariaDB and MySQL, whose ``max_allowed_packet`` is 16 MB by default."""

_NEGATED = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.LE: Operator.GT,
    Operator.GT: Operator.LE,
}


Scope = Callable[[sa.FromClause], Sequence[_Clause]]
"""Returns the clauses that select a table's partitions at a version, from ``partitions`` or an alias of it."""

_TRUE = Condition(sa.true())
_FALSE = Condition(sa.false())


def predicate_sql(
    predicate: Predicate, keys: Sequence[Key], dialect: str, scope: Scope, rows: sa.FromClause
) -> Condition:
    """Return the condition under which a partition's row satisfies the predicate.

    ``scope`` selects the table's partitions in subqueries; ``rows`` is ``partitions``, or the alias of it that the
    query reads. The predicate is bound, and the dialect ``sqlite``, ``postgresql`` or ``mysql``.
    """
    return _Visitor({key.name: key for key in keys}, dialect, scope).holds(compacted(predicate), rows)


class _Visitor:
    def __init__(self, keys: dict[str, Key], dialect: str, scope: Scope) -> None:
        self._keys = keys
        self._dialect = dialect
        self._scope = scope

    def holds(self, predicate: Predicate, rows: sa.FromClause, *, negated: bool = False) -> Condition:
        """Return the condition that the predicate is true; with ``negated``, that it is false (and not NULL)."""
        match predicate:
            case Constant(value):
                return _TRUE if value is not negated else _FALSE
            case And(args) if negated:
                return self._any(tuple(Not(a) for a in args), rows)
            case Or(args) if not negated:
                return self._any(args, rows)
            case And(args) | Or(args):
                return every([self.holds(a, rows, negated=negated) for a in args], rows)
            case Not(arg):
                return self.holds(arg, rows, negated=not negated)
            case IsNull(column) | Comparison(column=column) | In(column=column) | StringMatch(column=column):
                return self._leaf(predicate, column, rows, negated=negated)

    def _any(self, args: Sequence[Predicate], rows: sa.FromClause) -> Condition:
        combined, rest = self._combinations(args)
        if combined:
            return some([*(self._among(*each, rows) for each in combined), *(self.holds(a, rows) for a in rest)], rows)
        # A database index serves one key only. SQLite and MariaDB are fast for an OR over several keys if the rows for
        # each key are found by a separate SELECT, and joined by UNION.
        apart = self._dialect != "postgresql" and len({c for a in args for c in columns_of(a)}) > 1
        if not apart or len(args) > _APART or not all(is_bounded(a) for a in args):
            return some([self.holds(a, rows) for a in args], rows)
        aliases = [partitions.alias() for _ in args]
        found = [self.holds(arg, alias) for arg, alias in zip(args, aliases, strict=True)]
        nesting = 2 + max(condition.nesting for condition in found)
        if nesting >= MAX_NESTING:
            return EVERYTHING
        queries = [
            sa.select(alias.c.partition_id).where(*self._scope(alias), condition.within(alias))
            for condition, alias in zip(found, aliases, strict=True)
        ]
        return Condition(
            sa.true(), all(c.exact for c in found), sa.union(*queries).subquery(), sum(c.terms for c in found), nesting
        )

    def _combinations(
        self, args: Sequence[Predicate]
    ) -> tuple[list[tuple[tuple[Key, ...], list[tuple[Scalar, ...]]]], list[Predicate]]:
        """Split the terms of an OR into combinations of values of several keys, grouped by keys, and other terms."""
        found: dict[tuple[str, ...], list[tuple[Predicate, tuple[Scalar, ...]]]] = {}
        rest: list[Predicate] = []
        for arg in args:
            values = equalities(arg)
            columns = tuple(sorted(values or ()))
            if values is None or any(self._keys[column].position >= KEY_COLUMNS for column in columns):
                rest.append(arg)
            else:
                found.setdefault(columns, []).append((arg, tuple(values[column] for column in columns)))
        many = {columns: terms for columns, terms in found.items() if len(terms) >= _MANY_PAIRS}
        rest += [arg for columns, terms in found.items() if columns not in many for arg, _ in terms]
        return [
            (tuple(self._keys[column] for column in columns), [values for _, values in terms])
            for columns, terms in many.items()
        ], rest

    def _among(self, keys: Sequence[Key], combinations: Sequence[tuple[Scalar, ...]], rows: sa.FromClause) -> Condition:
        """Return the condition that the keys have one of some combinations of values."""
        encoded = sorted({
            tuple(encode_key(value, key.type) for value, key in zip(values, keys, strict=True))
            for values in combinations
        })  # fmt: skip
        exact = all(
            _is_decisive(encode_scalar(value, key.type))
            for values in combinations
            for value, key in zip(values, keys, strict=True)
        )
        columns = sa.tuple_(*(rows.c[f"k{key.position + 1}"] for key in keys))
        if self._dialect == "postgresql":
            lists = [_array(list(texts)) for texts in zip(*encoded, strict=True)]
            names = [f"v{position}" for position in range(len(keys))]
            given = sa.func.unnest(*lists).table_valued(*(sa.column(name, sa.Text) for name in names)).render_derived()
            return Condition(columns.in_(sa.select(*(given.c[name] for name in names))), exact)
        if self._dialect == "sqlite":
            each = sa.func.json_each(sa.bindparam(None, encoded, type_=sa.JSON)).table_valued("value")
            parts = (sa.func.json_extract(each.c.value, f"$[{position}]") for position in range(len(keys)))
            return Condition(columns.in_(sa.select(*parts)), exact)
        if _is_long(itertools.chain.from_iterable(encoded)):
            return EVERYTHING
        return Condition(columns.in_(encoded), exact)

    def _leaf(self, leaf: Predicate, name: str, rows: sa.FromClause, *, negated: bool) -> Condition:
        key = self._keys[name]
        if key.position >= KEY_COLUMNS:
            return Condition(sa.true(), exact=False)
        column = rows.c[f"k{key.position + 1}"]
        match leaf:
            case IsNull():
                return Condition(column > NULL_KEY if negated else column == NULL_KEY)
            case Comparison(op, _, value):
                return self._comparison(op, column, value, key, negated=negated)
            case In(_, values):
                return self._membership(column, values, key, negated=negated)
            case StringMatch(kind, _, pattern):
                return _match(kind, column, pattern, key, negated=negated)
            case _:
                raise AssertionError(leaf)

    def _comparison(
        self, op: Operator, column: sa.ColumnElement[str], value: Value, key: Key, *, negated: bool
    ) -> Condition:
        if op is Operator.NULL_SAFE_EQ:
            if value is None:
                return Condition(column > NULL_KEY if negated else column == NULL_KEY)
            if not negated:
                return _compare(Operator.EQ, column, value, key)
            different = _compare(Operator.NE, column, value, key)
            return Condition(sa.or_(column == NULL_KEY, different.clause), different.exact)
        if value is None:
            return _FALSE
        return _compare(_NEGATED[op] if negated else op, column, value, key)

    def _membership(
        self, column: sa.ColumnElement[str], values: Sequence[Value], key: Key, *, negated: bool
    ) -> Condition:
        given = [v for v in values if v is not None]
        if not negated:
            exact = all(_is_decisive(encode_scalar(v, key.type)) for v in given)
            encoded = sorted({encode_key(v, key.type) for v in given})
            if self._dialect == "mysql" and _is_long(encoded):
                return Condition(column > NULL_KEY, exact=False)
            return Condition(self._one_of(column, encoded), exact) if encoded else _FALSE
        if not values:
            return _TRUE
        if len(given) < len(values):
            return _FALSE
        decisive = sorted({e for v in given if _is_decisive(e := encode_scalar(v, key.type))})
        if self._dialect == "mysql" and _is_long(decisive):
            return Condition(column > NULL_KEY, exact=False)
        clauses = [column > NULL_KEY]
        if decisive:
            clauses.append(self._none_of(column, decisive))
        return Condition(sa.and_(*clauses), exact=all(_is_decisive(encode_scalar(v, key.type)) for v in given))

    def _one_of(self, column: sa.ColumnElement[str], values: list[str]) -> _Clause:
        if len(values) == 1:
            return column == values[0]
        if self._dialect == "postgresql":
            return column == sa.any_(_array(values))
        return column.in_(self._list(values))

    def _none_of(self, column: sa.ColumnElement[str], values: list[str]) -> _Clause:
        if self._dialect == "postgresql":
            return column != sa.all_(_array(values))
        return column.not_in(self._list(values))

    def _list(self, values: list[str]) -> list[str] | sa.Select[Any]:
        if self._dialect == "sqlite" and len(values) > _IN_LIST:
            each = sa.func.json_each(sa.bindparam(None, values, type_=sa.JSON)).table_valued("value")
            return sa.select(each.c.value)
        return values


def _array(values: list[str]) -> sa.BindParameter[Any]:
    return sa.bindparam(None, values, type_=postgresql.ARRAY(sa.Text))


def _is_long(texts: Iterable[str]) -> bool:
    return sum(map(len, texts)) > _MAX_LIST_BYTES


def _is_decisive(encoded: str) -> bool:
    return len(encoded) * 4 < DECISIVE_KEY_BYTES or len(encoded.encode("utf-8")) < DECISIVE_KEY_BYTES


def _certain_prefix(encoded: str) -> str:
    """Return the longest prefix of an encoded text that its stored key, which may be truncated, certainly contains."""
    return encoded.encode("utf-8")[: DECISIVE_KEY_BYTES - 1].decode("utf-8", "ignore")


def _compare(op: Operator, column: sa.ColumnElement[str], value: Scalar, key: Key) -> Condition:
    encoded = encode_scalar(value, key.type)
    if not _is_decisive(encoded):
        return _compare_long(op, column, encoded, encode_key(value, key.type))
    match op:
        case Operator.EQ:
            return Condition(column == encoded)
        case Operator.NE:
            return Condition(sa.and_(column > NULL_KEY, column != encoded))
        case Operator.LT:
            return Condition(sa.and_(column > NULL_KEY, column < encoded))
        case Operator.LE:
            return Condition(sa.and_(column > NULL_KEY, column <= encoded))
        case Operator.GT:
            return Condition(column > encoded)
        case _:
            return Condition(column >= encoded)


def _compare_long(op: Operator, column: sa.ColumnElement[str], encoded: str, truncated: str) -> Condition:
    # Keys are truncated at a character boundary, so their last character cannot be compared. Only a shorter prefix is a
    # safe bound.
    prefix = _certain_prefix(encoded)
    match op:
        case Operator.EQ:
            return Condition(column == truncated, exact=False)
        case Operator.NE:
            return Condition(column > NULL_KEY, exact=False)
        case Operator.LT | Operator.LE:
            return Condition(_below_prefix_end(column, prefix), exact=False)
        case _:
            return Condition(column >= prefix, exact=False)


def _below_prefix_end(column: sa.ColumnElement[str], prefix: str) -> _Clause:
    end = next_prefix(prefix)
    return column > NULL_KEY if end is None else sa.and_(column > NULL_KEY, column < end)


def _match(kind: Match, column: sa.ColumnElement[str], pattern: str, key: Key, *, negated: bool) -> Condition:
    prefix, exact, whole = _literal_prefix(kind, pattern)
    if whole:
        return _compare(Operator.NE if negated else Operator.EQ, column, prefix, key)
    if prefix == "":
        return Condition(sa.false() if exact and negated else column > NULL_KEY, exact)
    encoded = encode_scalar(prefix, key.type)
    exact = exact and _is_decisive(encoded)
    lower = encoded if _is_decisive(encoded) else _certain_prefix(encoded)
    upper = next_prefix(lower)
    if not negated:
        return Condition(column >= lower if upper is None else sa.and_(column >= lower, column < upper), exact)
    if not exact:
        return Condition(column > NULL_KEY, exact=False)
    outside = column < lower if upper is None else sa.or_(column < lower, column >= upper)
    return Condition(sa.and_(column > NULL_KEY, outside))


def _literal_prefix(kind: Match, pattern: str) -> tuple[str, bool, bool]:
    """Return a pattern's literal prefix, and two flags.

    The first flag says that a value matches exactly if it begins with the prefix (``LIKE 'abc%'``), the second that a
    value matches only if it equals the prefix (``LIKE 'abc'``).
    """
    if kind is Match.STARTS_WITH:
        return pattern, True, False
    if kind is not Match.LIKE:
        return "", pattern == "", False
    literal: list[str] = []
    position = 0
    while position < len(pattern) and pattern[position] not in "%_":
        if pattern[position] == "\\" and position + 1 < len(pattern):
            position += 1
        literal.append(pattern[position])
        position += 1
    rest = pattern[position:]
    return "".join(literal), set(rest) == {"%"}, rest == ""


def is_bounded(predicate: Predicate) -> bool:
    """Return whether a database index on a key can find the rows, estimated by the form of the predicate.

    Ranges of a single key count; inequalities do not.
    """
    match predicate:
        case Comparison(op, _, _):
            return op is not Operator.NE
        case In() | IsNull():
            return True
        case StringMatch(kind, _, pattern):
            return _literal_prefix(kind, pattern)[0] != ""
        case And(args):
            return any(is_bounded(a) for a in args)
        case Or(args):
            return all(is_bounded(a) for a in args)
        case _:
            return False
