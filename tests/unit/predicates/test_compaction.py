"""A compacted predicate has the outcome of the one that it was made of, for every value and for NULL."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Key
from catalog_ext.metastore.predicates import evaluation
from catalog_ext.metastore.predicates.compaction import compacted
from catalog_ext.metastore.predicates.evaluation import UNKNOWN, Evaluator
from catalog_ext.metastore.predicates.tree import And, Comparison, In, IsNull, Not, Operator, Or, Predicate

KEYS = (Key(0, "k", parse_type("int")), Key(1, "s", parse_type("string")))


def equal(value: int | None) -> Predicate:
    return Comparison(Operator.EQ, "k", value)


def other(value: int | None) -> Predicate:
    return Comparison(Operator.NE, "k", value)


X = Comparison(Operator.EQ, "s", "x")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Or((equal(1), X, equal(2), In("k", (2, 3)))), Or((In("k", (1, 2, 3)), X))),
        (Or((equal(1), Or((equal(2), equal(None))))), In("k", (1, 2, None))),
        (Or((equal(1), In("k", ()))), equal(1)),
        (Or((In("k", ()), equal(1))), In("k", (1,))),
        (Or((In("k", (1, 1)), equal(2))), In("k", (1, 2))),
        (And((Not(In("k", ())), other(1))), Not(In("k", (1,)))),
        (And((other(1), And((Not(equal(2)), Not(In("k", (1, 3))))))), Not(In("k", (1, 2, 3)))),
        (And((other(1), Not(In("k", (None, 1))))), Not(In("k", (1, None)))),
        (Not(And((Not(Or((equal(1), equal(2)))),))), In("k", (1, 2))),
        (And((equal(1), equal(2), X)), And((equal(1), equal(2), X))),
        (Or((IsNull("k"), Not(IsNull("k")))), Or((IsNull("k"), Not(IsNull("k"))))),
        (And(()), And(())),
    ],
)
def test_compacted_predicate_has_the_same_outcome(
    given: Predicate, expected: Predicate, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compacted(given) == expected
    small = Evaluator(given, KEYS)
    monkeypatch.setattr(evaluation, "compacted", lambda predicate: predicate)
    plain = Evaluator(given, KEYS)
    for k in (None, 1, 2, 3, 4, UNKNOWN):
        for s in (None, "x", "y", UNKNOWN):
            assert small.matches((k, s)) == plain.matches((k, s))
            assert small.may_match((k, s)) == plain.may_match((k, s))
