"""PARTITION clauses are checked in one place; their errors are those of the golden file that the connector has, too."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catalog_ext.metastore import errors
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Table, TableDefinition, TableType, Totals
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import local_text
from catalog_ext.metastore.predicates.json import predicate_to_json
from catalog_ext.metastore.predicates.partition_specs import (
    KeyComparison,
    Session,
    checked_spec,
    clause_condition,
    full_spec,
    require_partitioned,
    spec_condition,
)
from tests.contract.golden import read

GOLDEN = json.loads((Path(__file__).parents[2] / "contract" / "partition_specs.json").read_text(encoding="utf-8"))
TIMES = read("partition_times.json")["times"]


def relation(kind: TableType, **keys: str) -> Table:
    columns = tuple(Column(name, data_type) for name, data_type in keys.items())
    location = "" if kind is TableType.VIEW else "file:///data/t"
    definition = TableDefinition(
        TableIdentifier.of("s", "t"), kind, "parquet", location, (Column("id", "int"),), columns
    )  # fmt: skip
    return Table(1, definition, 0, Totals(0, 0, 0), 0)


TABLE = relation(TableType.EXTERNAL, k="int", r="string")


@pytest.mark.parametrize("kind", [TableType.EXTERNAL, TableType.VIEW])
@pytest.mark.parametrize("case", GOLDEN["specs"], ids=lambda case: case["mistake"])
def test_a_mistake_has_one_error_in_tables_and_views(case: dict[str, Any], kind: TableType) -> None:
    what = "view s.t" if kind is TableType.VIEW else "table s.t"
    with pytest.raises(errors.InvalidInputError) as caught:
        full_spec(relation(kind, k="int", r="string"), case["spec"])
    assert (caught.value.code, caught.value.message) == (case["code"], case["message"].format(what=what))
    if not case.get("full"):
        for check in (checked_spec, spec_condition):
            with pytest.raises(type(caught.value)):
                check(relation(kind, k="int", r="string"), case["spec"])


@pytest.mark.parametrize(("kind", "word"), [(TableType.MANAGED, "table"), (TableType.VIEW, "view")])
def test_what_has_no_partition_columns_takes_no_clause(kind: TableType, word: str) -> None:
    flat = relation(kind)
    for call in (
        lambda: require_partitioned(flat),
        lambda: checked_spec(flat, {"k": "1"}),
        lambda: checked_spec(flat, {}),
        lambda: clause_condition(flat, [KeyComparison("k", "<", ("1",))]),
    ):
        with pytest.raises(errors.InvalidPartitionSpecError) as caught:
            call()
        assert caught.value.message == GOLDEN["unpartitioned"][word].format(name="s.t")


def test_values_have_the_canonical_text_of_their_types() -> None:
    days = relation(TableType.EXTERNAL, ds="date", at="timestamp", c="char(4)", ok="boolean")
    spec = {"OK": "TRUE", "ds": "2024-1-2", "at": "2024-01-02T03:04:05.50Z", "c": "ab  "}
    assert list(full_spec(days, spec, Session("America/New_York")).items()) == [
        ("ds", "2024-01-02"), ("at", "2024-01-01 22:04:05.5"), ("c", "ab"), ("ok", "true"),
    ]  # fmt: skip
    assert checked_spec(TABLE, {"K": "07"}) == {"k": "7"}
    assert checked_spec(TABLE, {"r": "__HIVE_DEFAULT_PARTITION__"}) == checked_spec(TABLE, {"r": None}) == {"r": None}
    with pytest.raises(errors.InvalidPartitionSpecError, match="'K'"):
        checked_spec(TABLE, {"K": "07"}, Session(case_sensitive=True))


@pytest.mark.parametrize(
    ("zone", "literal", "local"),
    [
        ("UTC", "2024-07-01 12:00:00+02:00", "2024-07-01 10:00:00"),
        ("+05:30", "2024-07-01T12:00:00Z", "2024-07-01 17:30:00"),
        ("Europe/Berlin", "2024-07-01 12:00:00 UTC", "2024-07-01 14:00:00"),
        ("Europe/Berlin", "2024-07-01 12:00:00", "2024-07-01 12:00:00"),
        ("UTC", "2024-07-01 12:00:00 Europe/Berlin", "2024-07-01 10:00:00"),
        ("UTC", "2024-01-01 12:00:00.5America/Argentina/Buenos_Aires", "2024-01-01 15:00:00.5"),
        ("UTC", "2024-07-01 12:00:00 No/Where", "2024-07-01 12:00:00 No/Where"),
        ("nowhere", "2024-07-01 12:00:00Z", "2024-07-01 12:00:00Z"),
    ],
)
def test_an_instant_is_the_local_time_of_the_session(zone: str, literal: str, local: str) -> None:
    assert local_text(literal, parse_type("timestamp"), zone) == local
    assert local_text(literal, parse_type("timestamp_ntz"), zone) == literal


@pytest.mark.parametrize(
    ("literal", "local"),
    [
        ("2024-07-01 12:00:00", "2024-07-01 19:00:00"),
        ("2024-07-01", "2024-07-01 07:00:00"),
        ("2024-07-01 12:00:00Z", "2024-07-01 21:00:00"),
    ],
)
def test_the_time_of_a_session_is_that_of_the_tables_keys(literal: str, local: str) -> None:
    assert local_text(literal, parse_type("timestamp"), "Europe/Berlin", "Asia/Tokyo") == local
    assert local_text(literal, parse_type("timestamp_ntz"), "Europe/Berlin", "Asia/Tokyo") == literal
    of_tokyo = relation(TableType.EXTERNAL, at="timestamp")
    definition = replace(of_tokyo.definition, options={"timeZone": "Asia/Tokyo"})
    spec = full_spec(replace(of_tokyo, definition=definition), {"at": literal}, Session("Europe/Berlin"))
    assert spec == {"at": local}


@pytest.mark.parametrize(
    "case", read("partition_times.json")["times"], ids=lambda case: f"{case['session']} {case['literal']}"
)
def test_a_timestamp_has_the_golden_text_in_the_zone_of_the_keys(case: dict[str, str]) -> None:
    table = relation(TableType.EXTERNAL, at="timestamp")
    table = replace(table, definition=replace(table.definition, options={"timeZone": case["keys"]}))
    assert full_spec(table, {"at": case["literal"]}, Session(case["session"])) == {"at": case["text"]}


@pytest.mark.parametrize(
    ("comparisons", "predicate"),
    [
        ([("K", "<", "010")], {"op": "<", "column": "k", "value": "10"}),
        ([("k", "!=", None)], {"op": "is_not_null", "column": "k"}),
        ([("k", "=", "__HIVE_DEFAULT_PARTITION__")], {"op": "is_null", "column": "k"}),
        ([("r", "in", "a", "b")], {"op": "in", "column": "r", "values": ["a", "b"]}),
        (
            [("r", "in", "a", None)],
            {"op": "or", "args": [{"op": "is_null", "column": "r"}, {"op": "in", "column": "r", "values": ["a"]}]},
        ),
        (
            [("k", ">=", "1"), ("k", "<=", "4")],
            {
                "op": "and",
                "args": [{"op": ">=", "column": "k", "value": "1"}, {"op": "<=", "column": "k", "value": "4"}],
            },
        ),
    ],
)
def test_a_clause_is_a_predicate(comparisons: list[tuple[Any, ...]], predicate: dict[str, Any]) -> None:
    clause = [KeyComparison(key, operator, tuple(values)) for key, operator, *values in comparisons]
    assert predicate_to_json(clause_condition(TABLE, clause)) == predicate


@pytest.mark.parametrize(
    ("comparisons", "error", "words"),
    [
        ([("q", "<", "1")], errors.InvalidPartitionSpecError, "those are k, r"),
        ([("k", "=", "1"), ("K", "=", "2")], errors.InvalidPartitionSpecError, "'k' of table s.t two values"),
        ([("k", "=", "1"), ("r", "<", "x"), ("k", "=", "2")], errors.InvalidPartitionSpecError, "two values"),
        ([("k", ">", "abc")], errors.InvalidValueError, "'abc' does not fit the type INT"),
        ([("k", "<", None)], errors.InvalidValueError, "NULL has no order"),
        ([("r", "=", "")], errors.InvalidPartitionSpecError, "say r = NULL"),
    ],
)
def test_a_clause_that_does_not_fit_is_refused(
    comparisons: list[tuple[Any, ...]], error: type[errors.CatalogExtError], words: str
) -> None:
    clause = [KeyComparison(key, operator, tuple(values)) for key, operator, *values in comparisons]
    with pytest.raises(error, match=words):
        clause_condition(TABLE, clause)


def test_a_key_without_a_value_stands_for_all_its_values() -> None:
    named, chosen = KeyComparison("K", "any", ()), KeyComparison("r", "=", ("x",))
    assert clause_condition(TABLE, [named, chosen]) == clause_condition(TABLE, [chosen])
    with pytest.raises(errors.InvalidPartitionSpecError, match="'q'"):
        clause_condition(TABLE, [KeyComparison("q", "any", ())])
