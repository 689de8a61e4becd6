"""Predicates of thousands of terms, as generated SQL has them, over the table of ``index_cases``."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from catalog_ext.metastore.predicates.tree import And, Comparison, In, Match, Not, Operator, Or, StringMatch

if TYPE_CHECKING:
    from catalog_ext.metastore.predicates.tree import Predicate

EQ, NE, GE, LE = Operator.EQ, Operator.NE, Operator.GE, Operator.LE


def _pair(number: int, text: str) -> Predicate:
    return And((Comparison(EQ, "i", number), Comparison(EQ, "s", text)))


def _range(number: int) -> Predicate:
    return And((Comparison(GE, "i", number), Comparison(LE, "i", number)))


_PAIRS = (_pair(7, "a"), *(_pair(number, f"v{number}") for number in range(1100)), _pair(-1, "z" * 400))
LARGE: dict[str, Predicate] = {
    "chain of equalities": Or(tuple(Comparison(EQ, "i", number) for number in range(-600, 600))),
    "chains over two keys": Or(tuple(Comparison(EQ, "is"[n % 2], n if n % 2 == 0 else f"v{n}") for n in range(1200))),
    "chain of inequalities": And(tuple(Comparison(NE, "i", number) for number in range(5, 1205))),
    "chain of ranges": Or(tuple(_range(number) for number in range(1050))),
    "more negated ranges": And(tuple(Not(_range(number * 3)) for number in range(520))),
    "prefixes": Or(tuple(StringMatch(Match.LIKE, "s", f"{number}%") for number in range(1050))),
    "pairs": Or(_PAIRS),
    "pairs and a range": And((Or((*_PAIRS, Comparison(GE, "i", 100))), Comparison(GE, "f", 0.0))),
    "no pair": Not(Or(_PAIRS[:520])),
    "pairs with a key that has no column": Or(
        tuple(And((Comparison(EQ, "i", n), Comparison(EQ, "s9", "a"))) for n in range(300))
    ),
    "alternating": reduce(
        lambda inner, n: Or((Comparison(EQ, "i", n), And((Comparison(GE, "s", f"{n}"), inner)))),
        range(60),
        In("i", (7,)),
    ),
}
