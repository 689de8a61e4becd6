"""What SQL answers equals what the exact evaluator answers, on SQLite (the other databases: tests/integration)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.predicates.tree import And, Comparison, In, Operator, Or, Predicate
from tests.kit.examples import examples
from tests.kit.index_cases import Filled, create, data_files, local_index, planned_names, predicates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with local_index(tmp_path_factory.mktemp("index")) as index:
        yield Filled(index)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(predicate=predicates)
def test_sql_answers_as_the_evaluator(filled: Filled, predicate: Predicate) -> None:
    filled.check(predicate)


@pytest.mark.slow
def test_many_values_are_one_parameter(filled: Filled) -> None:
    assert filled.check(In("i", tuple(range(-20_000, 20_000))))


def test_or_over_two_keys_in_and(filled: Filled) -> None:
    either = Or((Comparison(Operator.EQ, "i", 7), Comparison(Operator.EQ, "b", value=True)))
    assert filled.check(And((either, Comparison(Operator.GE, "i", 0))))


def test_a_table_without_keys_has_one_partition(tmp_path: Path) -> None:
    with local_index(tmp_path) as index:
        table = create(index)
        index.commits.apply_changes(table.table_id, [AddPartition("", data_files(3))], operation="test", deliver=False)
        table = index.tables.load(table.identifier)
        assert planned_names(index, table) == ["", "", ""]
