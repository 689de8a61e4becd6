"""Aggregations of metadata tables against the rows themselves."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog_ext.metastore.index.read.metadata_groups import AGGREGATED, Aggregate, Function
from catalog_ext.metastore.index.read.metadata_rows import NumberPredicate
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.typed_values import sort_key, typed_values
from catalog_ext.metastore.predicates.tree import And, Comparison, Constant, In, IsNull, Not, Operator, Or
from tests.kit.examples import examples
from tests.kit.index_cases import KEY_TYPES, create, fill_with_every_kind, local_index, predicates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

_COMBINED: dict[Function, Callable[[list[int]], int]] = {
    Function.COUNT: sum, Function.SUM: sum, Function.MIN: min, Function.MAX: max,
}  # fmt: skip


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, Table]]:
    with local_index(tmp_path_factory.mktemp("groups")) as index:
        yield index, fill_with_every_kind(index)


@pytest.fixture(scope="module")
def short(filled: tuple[Index, Table]) -> tuple[Index, Table]:
    """A table at a second version whose keys the index distinguishes, with partitions without files."""
    index, rng = filled[0], random.Random(3)
    table = create(index, "short", keys={"s": "string", "i": "int", "d": "date"})
    names = {
        f"s={s}/i={i}/d={d}"
        for s, i, d in product(("", "a%20b", "ü", DEFAULT_PARTITION), ("1", "01", "-3"), ("2025-01-01", "2025-01-02"))
    }
    for removed in (frozenset(), frozenset(rng.sample(sorted(names), 5))):
        changes = [DropPartition(name) for name in sorted(removed)] or [
            AddPartition(name, tuple(
                DataFile(f"{n}", rng.randint(0, 2**40), n, rng.choice((None, 0, 5))) for n in range(rng.randint(0, 3))
            ))
            for name in sorted(names)
        ]  # fmt: skip
        index.commits.apply_changes(table.table_id, changes, operation="test", deliver=False)
    return index, index.tables.load(table.identifier)


def rows_of(index: Index, table: Table, name: str, predicate: Predicate | None = None) -> pa.RecordBatchReader:
    return (index.metadata_rows.partitions if name == "partitions" else index.metadata_rows.files)(table, predicate)


def group_of(table: Table, keys: Sequence[str] | None, partition: str) -> tuple[str, ...]:
    """The values that determine a partition's group, as the index compares them, or its name."""
    if keys is None:
        return (partition,)
    encoded = sort_key(typed_values(partition, table.definition.keys), table.definition.keys)
    return tuple(encoded[key.position] for key in table.definition.keys if key.name in keys)


def answered(
    index: Index, table: Table, name: str, predicate: Predicate | None, keys: Sequence[str] | None,
    aggregates: Sequence[Aggregate],
) -> dict[tuple[str, ...], list[int | None]]:  # fmt: skip
    """The aggregates by group, put together of their parts."""
    chosen = None if keys is None else [key for key in table.definition.keys if key.name in keys]
    parts: dict[tuple[str, ...], list[list[Any]]] = defaultdict(list)
    for row in index.metadata_groups.groups(table, name, predicate, chosen, aggregates).read_all().to_pylist():
        group = group_of(table, keys, row["partition"]) if keys != () else ()
        parts[group].append([row[f"value_{i}"] for i in range(len(aggregates))])
    return {group: [combined(a, column) for a, column in zip(aggregates, zip(*of, strict=True), strict=True)]
            for group, of in parts.items()}  # fmt: skip


def combined(aggregate: Aggregate, values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return _COMBINED[aggregate.function](known) if known else None


def expected(
    index: Index, table: Table, name: str, predicate: Predicate | None, keys: Sequence[str] | None,
    aggregates: Sequence[Aggregate],
) -> dict[tuple[str, ...], list[int | None]]:  # fmt: skip
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    if keys == ():
        groups[()] = []
    for row in rows_of(index, table, name, predicate).read_all().to_pylist():
        groups[group_of(table, keys, row["partition"]) if keys != () else ()].append(row)
    return {group: [value_of(a, rows) for a in aggregates] for group, rows in groups.items()}


def value_of(aggregate: Aggregate, rows: list[dict[str, Any]]) -> int | None:
    values = [1 if aggregate.column is None else row[aggregate.column] for row in rows]
    if aggregate.function is Function.COUNT:
        return sum(value is not None for value in values)
    return combined(aggregate, values)


def _aggregates(name: str) -> st.SearchStrategy[list[Aggregate]]:
    of_columns = st.builds(Aggregate, st.sampled_from(Function), st.sampled_from(sorted(AGGREGATED[name])))
    return st.lists(st.one_of(st.just(Aggregate(Function.COUNT, None)), of_columns), max_size=4, unique=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", AGGREGATED)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_groups_are_those_of_the_rows(filled: tuple[Index, Table], name: str, data: st.DataObject) -> None:
    check(*filled, name, data, predicates, sorted(KEY_TYPES))


@pytest.mark.slow
@pytest.mark.parametrize("name", AGGREGATED)
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_groups_by_short_keys_are_those_of_the_rows(short: tuple[Index, Table], name: str, data: st.DataObject) -> None:
    leaves: st.SearchStrategy[Predicate] = st.sampled_from(
        (In("s", ("a b", "")), IsNull("s"), Comparison(Operator.GT, "i", 0), Comparison(Operator.EQ, "i", 7))
    )
    check(*short, name, data, leaves | leaves.map(Not), ("s", "i", "d"))


def check(
    index: Index, table: Table, name: str, data: st.DataObject, some: st.SearchStrategy[Predicate], names: Sequence[str]
) -> None:
    predicate = data.draw(st.none() | some)
    keys = data.draw(st.none() | st.lists(st.sampled_from(names), max_size=2, unique=True).map(tuple))
    aggregates = data.draw(_aggregates(name))
    assert answered(index, table, name, predicate, keys, aggregates) == expected(
        index, table, name, predicate, keys, aggregates
    )
    assert index.metadata_groups.count(table, name, predicate).read_all().num_rows == len(
        rows_of(index, table, name, predicate).read_all()
    )


_NUMBERS = st.sampled_from((None, "0", "1", "5", "-9223372036854775808", "9223372036854775807"))


@pytest.mark.slow
@pytest.mark.parametrize("name", AGGREGATED)
@settings(max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_conditions_on_numbers_are_those_of_sql(short: tuple[Index, Table], name: str, data: st.DataObject) -> None:
    index, table = short
    columns = st.sampled_from(sorted(AGGREGATED[name]))
    leaves: st.SearchStrategy[Predicate] = st.one_of(
        st.builds(Comparison, st.sampled_from(Operator), columns, _NUMBERS),
        st.builds(In, columns, st.lists(_NUMBERS, max_size=3).map(tuple)),
        st.builds(IsNull, columns), st.builds(Constant, st.booleans()),
    )  # fmt: skip
    tree = data.draw(st.recursive(leaves, lambda inner: st.one_of(
        st.builds(Not, inner), st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
    ), max_leaves=6))  # fmt: skip
    numbers, some = NumberPredicate(name, tree), data.draw(st.sampled_from((None, ["rows"], ["partition", "rows"])))
    read = index.metadata_rows.partitions if name == "partitions" else index.metadata_rows.files
    rows = [row for row in read(table).read_all().to_pylist() if numbers.matches(row)]
    found = read(table, None, some, numbers).read_all().to_pylist()
    shown = [{column: row[column] for column in some or row} for row in rows]
    assert sorted(map(repr, found)) == sorted(map(repr, shown))
    assert index.metadata_groups.count(table, name, None, numbers).read_all().num_rows == len(rows)
    count = [Aggregate(Function.COUNT, None)]
    groups = index.metadata_groups.groups(table, name, None, table.definition.keys[:1], count, numbers).read_all()
    assert sum(groups.column("value_0").to_pylist()) == len(rows)


@pytest.mark.parametrize("name", AGGREGATED)
def test_some_columns_are_those_of_all(filled: tuple[Index, Table], name: str) -> None:
    index, table = filled
    read = index.metadata_rows.partitions if name == "partitions" else index.metadata_rows.files
    whole = read(table).read_all()
    for column in whole.schema.names:
        some = read(table, None, [column]).read_all()
        assert some.schema.names == [column]
        assert sorted(map(repr, some[column].to_pylist())) == sorted(map(repr, whole[column].to_pylist()))


def test_sums_above_64_bits_come_in_parts(filled: tuple[Index, Table]) -> None:
    index, _ = filled
    table = create(index, "huge", keys={"k": "int"})
    rows = (2**63 - 1, 2**63 - 1, 2**62, 7, None)
    files = tuple(DataFile(str(i), 1, 0, count) for i, count in enumerate(rows))
    index.commits.apply_changes(table.table_id, [AddPartition("k=1", files)], operation="test", deliver=False)
    table = index.tables.load(table.identifier)
    aggregates = [Aggregate(Function.SUM, "rows"), Aggregate(Function.COUNT, None)]
    assert answered(index, table, "files", None, ("k",), aggregates) == expected(
        index, table, "files", None, ("k",), aggregates
    )
