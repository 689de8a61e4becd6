"""Predicates as the service's contract has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.predicates.json import predicate_from_json, predicate_to_json
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
    bind,
    unbound,
)
from tests.kit.index_cases import KEY_TYPES, POOLS, definition, predicates

if TYPE_CHECKING:
    from catalog_ext.metastore.model.values import Key


@pytest.mark.parametrize("op", list(Operator))
def test_every_comparison(op: Operator) -> None:
    assert predicate_from_json({"op": str(op), "column": "ds", "value": "1"}) == Comparison(op, "ds", "1")
    assert predicate_from_json({"op": str(op), "column": "ds", "value": None}) == Comparison(op, "ds", None)


@pytest.mark.parametrize("kind", list(Match))
def test_every_match(kind: Match) -> None:
    assert predicate_from_json({"op": str(kind), "column": "r", "value": "eu"}) == StringMatch(kind, "r", "eu")


_NULL_A: dict[str, Any] = {"op": "is_null", "column": "a"}


@pytest.mark.parametrize(
    ("node", "predicate"),
    [
        ({"op": "true"}, TRUE),
        ({"op": "false"}, FALSE),
        (_NULL_A, IsNull("a")),
        ({"op": "is_not_null", "column": "a"}, Not(IsNull("a"))),
        ({"op": "not", "arg": _NULL_A}, Not(IsNull("a"))),
        ({"op": "and", "args": [_NULL_A, {"op": "true"}]}, And((IsNull("a"), TRUE))),
        ({"op": "or", "args": [_NULL_A]}, Or((IsNull("a"),))),
        ({"op": "in", "column": "ds", "values": ["1", None]}, In("ds", ("1", None))),
        ({"op": "in", "column": "ds", "values": []}, In("ds", ())),
    ],
)
def test_parse(node: dict[str, Any], predicate: Predicate) -> None:
    assert predicate_from_json(node) == predicate


KEYS = definition("s", "t", KEY_TYPES).keys


@given(predicate=predicates)
def test_what_is_written_is_read_and_written_again_as_it_was(predicate: Predicate) -> None:
    written = predicate_to_json(unbound(predicate, KEYS))
    assert predicate_to_json(predicate_from_json(written)) == written


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_bound_value_comes_back_from_its_text(key: Key) -> None:
    for value in POOLS[str(KEY_TYPES[key.name])]:
        for predicate in (Comparison(Operator.EQ, key.name, value), Not(In(key.name, (value, None)))):
            # NaN equals nothing, but for its text.
            again = bind(predicate_from_json(predicate_to_json(unbound(predicate, KEYS))), KEYS, "s.t")
            assert repr(again) == repr(predicate)


@pytest.mark.parametrize(
    "node",
    [
        None,
        [],
        "true",
        1,
        {},
        {"op": "nope"},
        {"op": "true", "more": 1},
        {"op": "and", "args": []},
        {"op": "and", "args": _NULL_A},
        {"op": "and", "args": [None]},
        {"op": "not"},
        {"op": "is_null"},
        {"op": "is_null", "column": 1},
        {"op": "=", "column": "a"},
        {"op": "=", "column": "a", "value": 1},
        {"op": "=", "column": "a", "value": True},
        {"op": "=", "column": "a", "value": "1", "more": 1},
        {"op": "in", "column": "a", "values": [1]},
        {"op": "in", "column": "a", "values": "1"},
        {"op": "like", "column": "a", "value": None},
        {"op": "x" * 10_000, "column": "a", "value": "1"},
    ],
)
def test_what_is_not_of_the_contract_is_refused(node: object) -> None:
    with pytest.raises(InvalidPredicateError, match=r"service\.md") as caught:
        predicate_from_json(node)
    assert len(caught.value.message) < 400


def test_depth_is_limited() -> None:
    node: dict[str, Any] = {"op": "true"}
    for _ in range(100):
        node = {"op": "not", "arg": node}
    assert isinstance(predicate_from_json(node), Not)
    for _ in range(200):
        node = {"op": "not", "arg": node}
    with pytest.raises(InvalidPredicateError):
        predicate_from_json(node)
