"""Joins conditions by AND and OR within the databases' limits on expressions.

SQLite takes expressions up to 1,000 levels deep, and a chain of 1,000 ORs is that deep; its parser holds 100 open
parentheses and operators; other databases run out of stack later. So a chain is written in groups. A condition that is
too large for a database is replaced by one that holds for more rows, and the caller evaluates the original again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sqlalchemy.sql.compiler import SQLCompiler

    _Clause = sa.ColumnElement[bool]

MAX_TERMS = 5_000
"""Terms of a whole condition: twice as many parameters are below SQLite's limit of 32,766."""

MAX_NESTING = 16
"""Groups in each other."""

_IN_GROUP = 40


@dataclass(frozen=True, slots=True)
class Condition:
    """A clause, and whether it selects exactly the rows of the predicate or a superset.

    Attributes:
        ids: Selects the ``partition_id`` of a few partitions, to which the clause is then limited.
        terms: The number of comparisons.
        nesting: The depth of nested groups.
    """

    clause: _Clause
    exact: bool = True
    ids: sa.Subquery | None = None
    terms: int = 1
    nesting: int = 0

    def within(self, rows: sa.FromClause) -> _Clause:
        """Return the whole condition as a clause on the rows."""
        if self.ids is None:
            return self.clause
        return sa.and_(rows.c.partition_id.in_(sa.select(self.ids.c.partition_id)), self.clause)


EVERYTHING = Condition(sa.true(), exact=False)
"""A superset of the rows of any predicate."""


class group(FunctionElement[bool]):
    """A clause in parentheses, which SQLAlchemy does not flatten into the clauses around it."""

    type = sa.Boolean()
    inherit_cache = True


@compiles(group)
def _write_group(element: group, compiler: SQLCompiler, **options: Any) -> str:  # noqa: ANN401 -- SQLAlchemy's
    return f"({compiler.process(element.clauses, **options)})"


def every(conditions: Sequence[Condition], rows: sa.FromClause) -> Condition:
    """Return the conjunction; conditions beyond the limits on number or depth are left out."""
    kept: list[Condition] = []
    terms = 0
    for condition in conditions:
        if terms + condition.terms <= MAX_TERMS and condition.nesting < MAX_NESTING - 1:
            kept.append(condition)
            terms += condition.terms
    exact = len(kept) == len(conditions) and all(c.exact for c in kept)
    first = next((c for c in kept if c.ids is not None), None)
    joined = _joined([replace(c, ids=None) if c is first else c for c in kept], rows, sa.and_, sa.true())
    return replace(joined, exact=exact, ids=None if first is None else first.ids)


def some(conditions: Sequence[Condition], rows: sa.FromClause) -> Condition:
    """Return the disjunction; everything where it is too large or too deep."""
    too_deep = any(condition.nesting >= MAX_NESTING - 1 for condition in conditions)
    if too_deep or sum(condition.terms for condition in conditions) > MAX_TERMS:
        return EVERYTHING
    joined = _joined(conditions, rows, sa.or_, sa.false())
    return replace(joined, exact=all(condition.exact for condition in conditions))


def in_groups(join: Callable[..., _Clause], nothing: _Clause, clauses: Iterable[_Clause]) -> _Clause:
    """Return clauses joined by ``sa.and_`` or ``sa.or_``; many clauses are joined in nested groups.

    ``join`` is the function, and ``nothing`` is the result for no clauses: true or false.
    """
    joined = list(clauses)
    while len(joined) > _IN_GROUP:
        joined = [group(join(*some_of_them)) for some_of_them in batched(joined, _IN_GROUP)]
    return join(nothing, *joined)


def _joined(
    conditions: Sequence[Condition], rows: sa.FromClause, join: Callable[..., _Clause], nothing: _Clause
) -> Condition:
    clause = in_groups(join, nothing, (condition.within(rows) for condition in conditions))
    deepest = max((condition.nesting + (condition.ids is not None) for condition in conditions), default=0)
    groups = 1 if len(conditions) <= _IN_GROUP else 3
    return Condition(clause, terms=max(1, sum(condition.terms for condition in conditions)), nesting=deepest + groups)
