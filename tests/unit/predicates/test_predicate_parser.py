"""Predicates as SQL text, and what is refused of SQL."""

from __future__ import annotations

import contextlib
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.predicates.parser import MAX_LENGTH, parse_predicate, spec_predicate
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
    columns_of,
)


def _eq(value: str | Decimal | None, column: str = "a") -> Comparison:
    return Comparison(Operator.EQ, column, value)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("ds >= '2025-01-01'", Comparison(Operator.GE, "ds", "2025-01-01")),
        ("'2025-01-01' <= ds", Comparison(Operator.GE, "ds", "2025-01-01")),
        ("-1 < a", Comparison(Operator.GT, "a", Decimal(-1))),
        ("a = 1", _eq(Decimal(1))),
        ("a == 1", _eq(Decimal(1))),
        ("a <> 1", Comparison(Operator.NE, "a", Decimal(1))),
        ("a != 1", Comparison(Operator.NE, "a", Decimal(1))),
        ("a <=> NULL", Comparison(Operator.NULL_SAFE_EQ, "a", None)),
        ("a = NULL", _eq(None)),
        ("a = -1.5e3", _eq(Decimal("-1500"))),
        ("a = 10L", _eq(Decimal(10))),
        ("a = -10Y", _eq(Decimal(-10))),
        ("a = true", _eq("true")),
        ("a = DATE '2025-01-01'", _eq("2025-01-01")),
        ("a = TIMESTAMP '2025-01-01 10:00:00'", _eq("2025-01-01 10:00:00")),
        ('a = "eu"', _eq("eu")),
        ("a = 'it\\'s'", _eq("it's")),
        ("a = 'a\\\\b'", _eq("a\\b")),
        ("a = r'a\\b'", _eq("a\\b")),
        ("a = 'naïve €😀'", _eq("naïve €😀")),
        ("`we ird` = 1", _eq(Decimal(1), "we ird")),
        ("a IN ('x', NULL)", In("a", ("x", None))),
        ("a NOT IN (1, 2)", Not(In("a", (Decimal(1), Decimal(2))))),
        (
            "a BETWEEN 1 AND 2",
            And((Comparison(Operator.GE, "a", Decimal(1)), Comparison(Operator.LE, "a", Decimal(2)))),
        ),
        ("a LIKE 'eu-%'", StringMatch(Match.LIKE, "a", "eu-%")),
        ("a NOT LIKE 'x'", Not(StringMatch(Match.LIKE, "a", "x"))),
        ("startswith(a, 'x')", StringMatch(Match.STARTS_WITH, "a", "x")),
        ("endswith(a, 'x')", StringMatch(Match.ENDS_WITH, "a", "x")),
        ("contains(a, 'x')", StringMatch(Match.CONTAINS, "a", "x")),
        ("a IS NULL", IsNull("a")),
        ("a IS NOT NULL", Not(IsNull("a"))),
        ("NOT a = 1", Not(_eq(Decimal(1)))),
        ("!(a = 1)", Not(_eq(Decimal(1)))),
        ("TRUE", TRUE),
        ("false", FALSE),
        ("a = 1 AND (b = 2 OR c = 3)", And((_eq(Decimal(1)), Or((_eq(Decimal(2), "b"), _eq(Decimal(3), "c")))))),
        ("a = 1 OR b = 2 AND c = 3", Or((_eq(Decimal(1)), And((_eq(Decimal(2), "b"), _eq(Decimal(3), "c")))))),
        ("a = 1 -- a comment", _eq(Decimal(1))),
    ],
)
def test_parse(text: str, predicate: Predicate) -> None:
    assert parse_predicate(text) == predicate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "a",
        "1",
        "a = b",
        "a = 1; DROP TABLE x",
        "SELECT 1",
        "DROP TABLE x",
        "a IN (SELECT 1)",
        "a IN ()",
        "t.a = 1",
        "a = :x",
        "a = ?",
        "a RLIKE 'x'",
        "a ILIKE 'x'",
        "a LIKE b",
        "a LIKE 'x' ESCAPE '!'",
        "a LIKE ANY ('x', 'y')",
        "'x' LIKE a",
        "lower(a) = 'x'",
        "a || '' = 'x'",
        "a + 1 = 2",
        "current_date() = a",
        "a = current_date()",
        "(a, b) = (1, 2)",
        "a = X'1F'",
        "a = INTERVAL 1 DAY",
        "a = 1e500",
        "a = 1e99999999999999999999",
        "a BETWEEN SYMMETRIC 2 AND 1",
        "a = 'unclosed",
        "a = = 1",
        "(a = 1",
        "a IS TRUE",
        "EXISTS (SELECT 1)",
        "a = 1 UNION SELECT 1",
        "1 = 1",
        "a[0] = 1",
        "a = 'x",
        "\x00",
        "a = 'x' 'y'",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        parse_predicate(text)
    assert len(caught.value.message) < 700


def test_a_refusal_names_what_cannot_be_used() -> None:
    with pytest.raises(InvalidPredicateError, match=r"LOWER\(a\).*is not a partition column|'x'.*is not"):
        parse_predicate("lower(a) = 'x'")


@pytest.mark.parametrize("text", ["(" * 5000 + "a = 1" + ")" * 5000, "NOT " * 5000 + "a = 1", "x" * (MAX_LENGTH + 1)])
def test_texts_without_end_are_refused(text: str) -> None:
    with pytest.raises(InvalidPredicateError) as caught:
        parse_predicate(text)
    assert len(caught.value.message) < 700


def test_a_long_chain_is_flat() -> None:
    predicate = parse_predicate(" OR ".join(f"a = {n}" for n in range(3000)))
    assert isinstance(predicate, Or)
    assert len(predicate.args) == 3000
    assert predicate.args[2999] == _eq(Decimal(2999))


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=20))
def test_a_quoted_string_comes_back(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    assert parse_predicate(f"a = '{quoted}'") == _eq(text)


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused(text: str) -> None:
    # Any other exception than the refusal fails the test.
    with contextlib.suppress(InvalidPredicateError):
        assert all(columns_of(parse_predicate(text)))


def test_spec() -> None:
    assert spec_predicate({"ds": "2025-01-01", "region": None}) == And((_eq("2025-01-01", "ds"), IsNull("region")))
    assert spec_predicate({"ds": "1"}) == _eq("1", "ds")
    assert spec_predicate({}) == TRUE
