"""Binding predicates to a table's partition columns."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import InvalidPredicateError, InvalidValueError
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Key
from catalog_ext.metastore.predicates.evaluation import Evaluator
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
    all_of,
    bind,
    columns_of,
)

if TYPE_CHECKING:
    from catalog_ext.metastore.model.values import Value

KEYS = (
    Key(0, "Ds", parse_type("date")),
    Key(1, "region", parse_type("string")),
    Key(2, "hour", parse_type("int")),
    Key(3, "ratio", parse_type("decimal(5,2)")),
)


def _bound(predicate: Predicate) -> Predicate:
    return bind(predicate, KEYS, "sales.trips")


def test_names_get_the_tables_spelling_and_values_their_types() -> None:
    unbound = And(
        (Comparison(Operator.GE, "DS", "2025-01-02"), Not(In("HOUR", ("07", None))), Or((IsNull("Region"), TRUE)))
    )
    assert _bound(unbound) == And(
        (Comparison(Operator.GE, "Ds", date(2025, 1, 2)), Not(In("hour", (7, None))), Or((IsNull("region"), TRUE)))
    )


@pytest.mark.parametrize(
    ("column", "literal", "value"),
    [
        ("hour", Decimal(7), 7),
        ("hour", Decimal("7.0"), 7),
        ("hour", Decimal("1E+2"), 100),
        ("hour", Decimal("-0"), 0),
        ("ratio", Decimal("1.5"), Decimal("1.50")),
        ("ratio", "1.500", Decimal("1.50")),
        ("Ds", "2025-01", date(2025, 1, 1)),
        ("region", "eu", "eu"),
        ("region", None, None),
    ],
)
def test_literals(column: str, literal: Value, value: Value) -> None:
    assert _bound(Comparison(Operator.EQ, column, literal)) == Comparison(Operator.EQ, column, value)


@pytest.mark.parametrize(
    ("column", "literal"),
    [
        ("hour", "x"),
        ("hour", "1.5"),
        ("Ds", "2025-02-30"),
        ("Ds", Decimal(2025) ** 2),
    ],
)
def test_a_value_that_does_not_fit_names_table_column_and_value(column: str, literal: Value) -> None:
    with pytest.raises(InvalidValueError, match=r"sales\.trips") as caught:
        _bound(In(column, (literal,)))
    assert caught.value.parameters["column"] == column
    assert column in caught.value.message


NUMBERS = tuple(Decimal(n) for n in ("-1E+30", "-2147483648.5", "-3", "-0.5", "0", "1.005", "1.5", "999.995", "3E+9"))
BEYOND: dict[str, tuple[tuple[Value, ...], tuple[tuple[Value, object], ...]]] = {
    # Values of the type, and literals with what they are to be compared as.
    "int": ((-(2**31), -3, 0, 1, 2, 2**31 - 1), tuple((n, n) for n in NUMBERS)),
    "tinyint": ((-128, -1, 0, 127), (*((n, n) for n in NUMBERS), ("300", 300), ("-300", -300))),
    "decimal(5,2)": (
        tuple(map(Decimal, ("-999.99", "0.00", "1.00", "1.01", "999.99"))),
        (*((n, n) for n in NUMBERS), ("1.005", Decimal("1.005"))),
    ),
    "date": (
        (date(1, 1, 1), date(2025, 1, 2), date(9999, 12, 31)),
        (("+10000-01-01", date.max.toordinal() + 0.5), ("12025-02", date.max.toordinal() + 0.5),
         ("0000-12-31", 0), ("-0044-03-15", 0), ("2025-01-02", date(2025, 1, 2).toordinal())),
    ),
    "varchar(3)": (("", "a", "ab ", "abc"), tuple((t, t) for t in ("abc   ", "abcd", "ab", "ab ", "zzzz", ""))),
    # A directory without bytes has the value NULL, so no key is empty; a literal may be.
    "binary": (("a", "ab"), (("", ""), ("a", "a"), ("b", "b"))),
    "char(3)": (("", "a", "abc"), (("a     ", "a"), ("abc  ", "abc"), ("abcd", "abcd"), ("   ", ""))),
}  # fmt: skip


def _comparable(value: Value) -> Any:
    return value.toordinal() if isinstance(value, date) else value


@pytest.mark.parametrize("kind", BEYOND)
@pytest.mark.parametrize("op", list(Operator))
def test_a_literal_that_is_no_value_of_the_type_is_compared_as_it_is(kind: str, op: Operator) -> None:
    """By the meaning of each operator, with SQL's logic for NULL; also negated, and among others in a list."""
    key = Key(0, "k", parse_type(kind))
    values, literals = BEYOND[kind]
    for literal, meant in literals:
        bound = bind(Comparison(op, "k", literal), (key,), "s.t")
        for value in values:
            here = _comparable(value)
            expected = {
                Operator.EQ: here == meant, Operator.NULL_SAFE_EQ: here == meant, Operator.NE: here != meant,
                Operator.LT: here < meant, Operator.LE: here <= meant, Operator.GT: here > meant,
                Operator.GE: here >= meant,
            }[op]  # fmt: skip
            assert Evaluator(bound, (key,)).matches((value,)) is expected, (literal, value)
            assert Evaluator(Not(bound), (key,)).matches((value,)) is not expected, (literal, value)
            among = bind(In("k", (literal, None)), (key,), "s.t")
            assert Evaluator(among, (key,)).matches((value,)) is (here == meant)
            assert not Evaluator(Not(among), (key,)).matches((value,)), "NULL is in the list"
        for unknown in (bound, Not(bound)):
            null_safe = op is Operator.NULL_SAFE_EQ
            assert Evaluator(unknown, (key,)).matches((None,)) is (null_safe and unknown is not bound)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_an_instant_beyond_the_years_that_we_keep(kind: str) -> None:
    key = Key(0, "k", parse_type(kind))
    for literal, before in (("+10000-01-01 00:00:00", True), ("0000-06-01 10:00:00.5", False)):
        bound = bind(Comparison(Operator.LT, "k", literal), (key,), "s.t")
        assert Evaluator(bound, (key,)).matches((datetime(2025, 1, 2, 3),)) is before
        with pytest.raises(InvalidValueError):
            bind(
                Comparison(Operator.LT, "k", literal.replace("-01-01", "-02-30").replace("06-01", "02-30")), (key,), "t"
            )


def test_a_number_for_a_string_key_is_refused() -> None:
    # Spark would compare numerically: '007' = 7. Guessing either way would give wrong partitions.
    with pytest.raises(InvalidPredicateError, match=r"Write '7' in quotes"):
        _bound(Comparison(Operator.EQ, "region", Decimal(7)))


def test_an_unknown_column_is_named_with_those_that_exist() -> None:
    with pytest.raises(
        InvalidPredicateError, match=r"'day' is not a partition column of table sales\.trips.* Ds, region, hour, ratio"
    ):
        _bound(Not(IsNull("day")))


def test_an_unpartitioned_table_has_no_column_to_name() -> None:
    with pytest.raises(InvalidPredicateError, match=r"are: none"):
        bind(IsNull("day"), (), "sales.flat")


def test_patterns_are_for_strings() -> None:
    with pytest.raises(InvalidPredicateError, match=r"'hour' of table sales\.trips is INT"):
        _bound(StringMatch(Match.LIKE, "hour", "1%"))


@pytest.mark.parametrize("pattern", ["a\\b", "a\\", "\\\\\\", "%\\x_"])
def test_like_patterns_that_spark_refuses(pattern: str) -> None:
    with pytest.raises(InvalidPredicateError, match=r"Write it twice"):
        _bound(StringMatch(Match.LIKE, "region", pattern))


@pytest.mark.parametrize("pattern", ["", "a%", "a\\%", "a\\_b", "\\\\", "a\\\\%\\\\"])
def test_like_patterns_that_spark_takes(pattern: str) -> None:
    match = StringMatch(Match.LIKE, "region", pattern)
    assert _bound(match) == match


def test_a_backslash_is_plain_outside_like() -> None:
    match = StringMatch(Match.STARTS_WITH, "region", "a\\b")
    assert _bound(match) == match


def test_all_of() -> None:
    one, two = IsNull("a"), IsNull("b")
    assert all_of() == TRUE
    assert all_of(None, one) == one
    assert all_of(one, None, two) == And((one, two))


def test_columns_of_names_every_mention() -> None:
    predicate = And(
        (
            IsNull("a"),
            Not(Or((In("b", ()), FALSE))),
            Comparison(Operator.LT, "a", "1"),
            StringMatch(Match.LIKE, "c", ""),
        )
    )
    assert list(columns_of(predicate)) == ["a", "b", "a", "c"]
