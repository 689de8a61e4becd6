"""Conditions of thousands of terms are answered as the evaluator answers them (SQLite; the others: integration)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.index.read import clauses
from catalog_ext.metastore.index.read.marked_rows import condition_of
from catalog_ext.metastore.index.read.metadata_rows import NumberPredicate
from catalog_ext.metastore.predicates.tree import And, Comparison, IsNull, Operator, Or
from tests.kit.index_cases import Filled, listed_names, local_index
from tests.kit.large_predicates import LARGE

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with local_index(tmp_path_factory.mktemp("index")) as index:
        yield Filled(index)


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_predicate_is_answered(filled: Filled, name: str) -> None:
    filled.check(LARGE[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["more negated ranges", "pairs and a range", "alternating"])
def test_predicate_beyond_the_limits_is_answered(filled: Filled, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is asked for more partitions, among which the evaluator chooses."""
    monkeypatch.setattr(clauses, "MAX_TERMS", 50)
    filled.check(LARGE[name])


@pytest.mark.slow
def test_as_many_terms_as_are_asked_fit_into_a_statement(filled: Filled) -> None:
    each = tuple(
        And((Comparison(Operator.GE, "i", n), Comparison(Operator.LE, "i", n))) for n in range(clauses.MAX_TERMS // 2)
    )
    condition = condition_of("sqlite", filled.table, Or(each))
    assert (condition.exact, condition.terms) == (True, clauses.MAX_TERMS)
    assert listed_names(filled.index, filled.table, Or(each))
    assert not condition_of("sqlite", filled.table, Or((*each, IsNull("s")))).exact


@pytest.mark.slow
def test_large_condition_on_numbers_is_answered(filled: Filled) -> None:
    ranges = tuple(
        And((Comparison(Operator.GE, "size", str(n)), Comparison(Operator.LE, "size", str(n)))) for n in range(1100)
    )
    found = filled.index.metadata_rows.files(
        filled.table, None, ["size"], NumberPredicate("files", Or(ranges))
    ).read_all()
    assert found.num_rows == len(filled.names)
