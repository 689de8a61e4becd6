"""The exact evaluator: SQL's three-valued logic, and a sound answer while keys are still unknown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Key
from catalog_ext.metastore.predicates.evaluation import UNKNOWN, Evaluator, matches_string
from catalog_ext.metastore.predicates.tree import (
    FALSE,
    TRUE,
    And,
    Comparison,
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
    from collections.abc import Sequence

    from catalog_ext.metastore.model.values import Value

KEYS = (Key(0, "i", parse_type("int")), Key(1, "s", parse_type("string")), Key(2, "f", parse_type("double")))


def _matches(predicate: Predicate, *values: Value) -> bool:
    return Evaluator(predicate, KEYS).matches(values)


def _may(predicate: Predicate, *values: object) -> bool:
    return Evaluator(predicate, KEYS).may_match(values)  # type: ignore[arg-type]


def _i(op: Operator, value: Value) -> Comparison:
    return Comparison(op, "i", value)


@pytest.mark.parametrize(
    ("op", "below", "equal", "above"),
    [
        (Operator.EQ, False, True, False),
        (Operator.NULL_SAFE_EQ, False, True, False),
        (Operator.NE, True, False, True),
        (Operator.LT, True, False, False),
        (Operator.LE, True, True, False),
        (Operator.GT, False, False, True),
        (Operator.GE, False, True, True),
    ],
)
def test_comparisons(op: Operator, below: bool, equal: bool, above: bool) -> None:
    assert [_matches(_i(op, 5), v, "", 0.0) for v in (4, 5, 6)] == [below, equal, above]


@pytest.mark.parametrize("op", [o for o in Operator if o is not Operator.NULL_SAFE_EQ])
def test_null_is_neither_true_nor_false(op: Operator) -> None:
    for predicate, value in ((_i(op, 5), None), (_i(op, None), 5), (_i(op, None), None)):
        assert not _matches(predicate, value, "", 0.0)
        assert not _matches(Not(predicate), value, "", 0.0)


def test_null_safe_equality() -> None:
    same = Operator.NULL_SAFE_EQ
    assert _matches(_i(same, None), None, "", 0.0)
    assert not _matches(_i(same, None), 1, "", 0.0)
    assert _matches(Not(_i(same, 1)), None, "", 0.0)


def test_membership_has_three_values() -> None:
    assert _matches(In("i", (1, 2)), 1, "", 0.0)
    assert _matches(Not(In("i", (1, 2))), 3, "", 0.0)
    assert not _matches(Not(In("i", (1, None))), 3, "", 0.0)
    assert _matches(In("i", (1, None)), 1, "", 0.0)
    assert not _matches(Not(In("i", (1,))), None, "", 0.0)
    assert _matches(Not(In("i", ())), None, "", 0.0)


_NULL = Comparison(Operator.EQ, "i", None)


@pytest.mark.parametrize(
    ("predicate", "truth"),
    [
        (And((_NULL, FALSE)), False),
        (And((_NULL, TRUE)), None),
        (And(()), True),
        (And((TRUE, TRUE)), True),
        (And((TRUE, FALSE)), False),
        (Or((_NULL, TRUE)), True),
        (Or((_NULL, FALSE)), None),
        (Or(()), False),
        (Or((FALSE, TRUE)), True),
        (Or((FALSE, FALSE)), False),
        (Not(_NULL), None),
        (Not(TRUE), False),
        (Not(FALSE), True),
    ],
)
def test_the_truth_tables(predicate: Predicate, truth: bool | None) -> None:
    assert _matches(predicate, 1, "", 0.0) is (truth is True)
    assert _matches(Not(predicate), 1, "", 0.0) is (truth is False)


def test_nan_equals_itself_and_is_above_every_number() -> None:
    nan = Comparison(Operator.EQ, "f", math.nan)
    above = Comparison(Operator.GT, "f", math.inf)
    assert _matches(nan, 1, "", math.nan)
    assert _matches(above, 1, "", math.nan)
    assert _matches(In("f", (math.nan,)), 1, "", math.nan)
    assert not _matches(nan, 1, "", 1.0)
    assert _matches(Comparison(Operator.EQ, "f", 0.0), 1, "", -0.0)


@pytest.mark.parametrize(
    ("kind", "value", "pattern", "matched"),
    [
        (Match.STARTS_WITH, "eu-west", "eu", True),
        (Match.STARTS_WITH, "eu", "eu-", False),
        (Match.ENDS_WITH, "eu-west", "west", True),
        (Match.CONTAINS, "eu-west", "-", True),
        (Match.CONTAINS, "a", "", True),
        (Match.LIKE, "eu-west", "eu-%", True),
        (Match.LIKE, "eu", "EU", False),
        (Match.LIKE, "ab", "a_", True),
        (Match.LIKE, "a", "a_", False),
        (Match.LIKE, "a%", "a\\%", True),
        (Match.LIKE, "ab", "a\\%", False),
        (Match.LIKE, "a\\", "a\\\\", True),
        (Match.LIKE, "a\nb", "a%b", True),
        (Match.LIKE, "a\nb", "a_b", True),
        (Match.LIKE, "😀", "_", True),
        (Match.LIKE, "a.c", "a.c", True),
        (Match.LIKE, "abc", "a.c", False),
        (Match.LIKE, "", "", True),
        (Match.LIKE, "", "%", True),
        (Match.LIKE, "a\n", "a", False),
        (Match.CONTAINS, "a%b", "%", True),
        (Match.STARTS_WITH, "ab", "a%", False),
    ],
)
def test_string_matches(kind: Match, value: str, pattern: str, matched: bool) -> None:
    assert matches_string(kind, value, pattern) is matched
    assert _matches(StringMatch(kind, "s", pattern), 1, value, 0.0) is matched


def test_an_empty_string_is_not_null() -> None:
    assert not _matches(IsNull("s"), 1, "", 0.0)
    assert _matches(Comparison(Operator.EQ, "s", ""), 1, "", 0.0)


def test_what_is_unknown_excludes_only_what_is_certain() -> None:
    both = And((_i(Operator.EQ, 1), Comparison(Operator.EQ, "s", "x")))
    assert _may(both, 1, UNKNOWN, UNKNOWN)
    assert not _may(both, 2, UNKNOWN, UNKNOWN)
    assert not _may(both, UNKNOWN, "y", UNKNOWN)
    assert _may(Or((_i(Operator.EQ, 1), IsNull("s"))), 2, UNKNOWN, UNKNOWN)
    assert _may(Not(both), UNKNOWN, UNKNOWN, UNKNOWN)
    assert not _may(FALSE, UNKNOWN, UNKNOWN, UNKNOWN)
    assert not _may(_i(Operator.EQ, None), UNKNOWN, UNKNOWN, UNKNOWN)
    assert not _may(In("i", ()), UNKNOWN, UNKNOWN, UNKNOWN)


_ints = st.none() | st.integers(-2, 2)
_strings = st.none() | st.sampled_from(["", "a", "ab", "b%"])
_floats = st.none() | st.sampled_from([0.0, -1.0, math.inf, math.nan])
_BY_COLUMN = {"i": _ints, "s": _strings, "f": _floats}


def _leaves() -> st.SearchStrategy[Predicate]:
    columns = st.sampled_from(sorted(_BY_COLUMN))
    return st.one_of(
        st.sampled_from([TRUE, FALSE]),
        st.builds(IsNull, columns),
        columns.flatmap(lambda c: st.builds(Comparison, st.sampled_from(Operator), st.just(c), _BY_COLUMN[c])),
        columns.flatmap(lambda c: st.builds(In, st.just(c), st.lists(_BY_COLUMN[c], max_size=3).map(tuple))),
        st.builds(StringMatch, st.sampled_from(Match), st.just("s"), st.sampled_from(["", "a", "a%", "_", "%b%"])),
    )


def _nodes(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[Predicate]:
    args = st.lists(inner, max_size=3).map(tuple)
    return st.builds(And, args) | st.builds(Or, args) | st.builds(Not, inner)


_predicates = st.recursive(_leaves(), _nodes, max_leaves=8)
_rows = st.tuples(_ints, _strings, _floats)


@given(_predicates, _rows, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_may_match_is_a_superset_of_matches(
    predicate: Predicate, row: Sequence[Value], hidden: tuple[bool, ...]
) -> None:
    evaluator = Evaluator(predicate, KEYS)
    partly = [UNKNOWN if h else v for h, v in zip(hidden, row, strict=True)]
    if evaluator.matches(row):
        assert evaluator.may_match(partly)
    assert evaluator.may_match(row) is evaluator.matches(row)


def _reference(predicate: Predicate, row: Sequence[Value]) -> bool | None:
    """SQL's logic written down once more, by its definition."""
    match predicate:
        case And(args):
            truths = [_reference(a, row) for a in args]
            return False if False in truths else None if None in truths else True
        case Or(args):
            truths = [_reference(a, row) for a in args]
            return True if True in truths else None if None in truths else False
        case Not(arg):
            truth = _reference(arg, row)
            return None if truth is None else not truth
        case In(column, values):
            return _reference(Or(tuple(Comparison(Operator.EQ, column, v) for v in values)), row)
        case _:
            evaluator = Evaluator(predicate, KEYS)
            return True if evaluator.matches(row) else False if Evaluator(Not(predicate), KEYS).matches(row) else None


@given(_predicates, _rows)
def test_the_logic_is_sqls(predicate: Predicate, row: Sequence[Value]) -> None:
    truth = _reference(predicate, row)
    assert Evaluator(predicate, KEYS).matches(row) is (truth is True)
    assert Evaluator(Not(predicate), KEYS).matches(row) is (truth is False)
