"""Makes predicates small: a chain of comparisons becomes one IN, and nested ANDs (or nested ORs) become one.

Generated SQL writes ``k = 1 OR k = 2 OR …`` with thousands of terms. Databases limit the depth of expressions, and an
evaluator looks at each term for each partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.predicates.tree import And, Comparison, In, Not, Operator, Or, Predicate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from catalog_ext.metastore.model.values import Scalar, Value

_OPPOSITE = {Operator.EQ: Operator.NE, Operator.NE: Operator.EQ}


def compacted(predicate: Predicate) -> Predicate:
    """Return an equivalent, shorter predicate, with the same outcome for every partition, NULL included.

    >>> compacted(Or((Comparison(Operator.EQ, "k", 1), Comparison(Operator.EQ, "k", 2))))
    In(column='k', values=(1, 2))
    """
    match predicate:
        case And(args):
            kept = tuple(_merged(_flat(args, And), negated=True))
            return kept[0] if len(kept) == 1 else And(kept)
        case Or(args):
            kept = tuple(_merged(_flat(args, Or), negated=False))
            return kept[0] if len(kept) == 1 else Or(kept)
        case Not(arg):
            return _negation(compacted(arg))
        case _:
            return predicate


def equalities(predicate: Predicate) -> dict[str, Scalar] | None:
    """Return the value of each column if the predicate is only an AND of ``column = value`` terms; otherwise None."""
    if not isinstance(predicate, And):
        return None
    values: dict[str, Scalar] = {}
    for arg in predicate.args:
        match arg:
            case Comparison(Operator.EQ, column, value) if value is not None and column not in values:
                values[column] = value
            case _:
                return None
    return values


def _negation(predicate: Predicate) -> Predicate:
    match predicate:
        case Not(arg):
            return arg
        case Comparison(op, column, value) if op in _OPPOSITE:
            return Comparison(_OPPOSITE[op], column, value)
        case _:
            return Not(predicate)


def _flat(args: Iterable[Predicate], kind: type[And | Or]) -> Iterator[Predicate]:
    for arg in map(compacted, args):
        if isinstance(arg, kind):
            yield from arg.args
        else:
            yield arg


def _merged(args: Iterable[Predicate], *, negated: bool) -> list[Predicate]:
    """Merge the arguments of an OR (``negated``: of an AND) that list values of the same column into one IN or NOT IN.

    The merged term takes the position of the column's first term. Other arguments stay unchanged.
    """
    kept: list[Predicate] = []
    places: dict[str, int] = {}
    first: dict[str, set[Value]] = {}
    values: dict[str, dict[Value, None]] = {}
    for arg in args:
        listed = _listed(arg, negated=negated)
        if listed is None:
            kept.append(arg)
            continue
        if listed.column not in places:
            places[listed.column], first[listed.column] = len(kept), set(listed.values)
            kept.append(arg)
        values.setdefault(listed.column, {}).update(dict.fromkeys(listed.values))
    for column, place in places.items():
        if values[column].keys() != first[column] or len(first[column]) > 1:
            member = In(column, tuple(values[column]))
            kept[place] = Not(member) if negated else member
    return kept


def _listed(predicate: Predicate, *, negated: bool) -> In | None:
    """Return, as an IN, the values that a term of an OR allows for a column; None for a term of another form.

    With ``negated``, the values that a term of an AND excludes.
    """
    match predicate:
        case Comparison(op, column, value) if op is (Operator.NE if negated else Operator.EQ):
            return In(column, (value,))
        case In() if not negated:
            return predicate
        case Not(In() as member) if negated:
            return member
        case _:
            return None
