"""Values of partition columns by the rules of Spark casts; the table was read off Spark 4.3's ``try_cast``."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Scalar, cast_text, epoch_microseconds, value_text

# type: {text: what Spark casts it to, as text; None where it does not cast}
SPARK = {
    "int": {
        "1": "1",
        "+1": "1",
        "-1": "-1",
        "007": "7",
        "-0": "0",
        " 1 ": "1",
        "\t1\n": "1",
        "1\x00": "1",
        "1\u00a0": None,
        "1.0": None,
        "1.": None,
        "1e2": None,
        "2147483647": "2147483647",
        "2147483648": None,
        "-2147483648": "-2147483648",
        "-2147483649": None,
        "1L": None,
        "0x1": None,
        "abc": None,
        "1_000": None,
        "٣": None,
        "+": None,
        "-": None,
        "--1": None,
        "+ 1": None,
        ".5": None,
        "0000000000000000000000000000000000000000000001": "1",
        "9" * 10_000: None,
    },
    "bigint": {"9223372036854775807": "9223372036854775807", "9223372036854775808": None, "1.9": None},
    "tinyint": {"127": "127", "128": None, "-128": "-128", "-129": None},
    "smallint": {"32767": "32767", "32768": None},
    "boolean": {
        "true": "true",
        "TRUE": "true",
        "t": "true",
        "y": "true",
        "Yes": "true",
        "1": "true",
        "false": "false",
        "f": "false",
        "n": "false",
        "no": "false",
        "0": "false",
        " true ": "true",
        "on": None,
        "2": None,
        "tru": None,
        "01": None,
    },
    "double": {
        "1": "1.0",
        ".5": "0.5",
        "1.": "1.0",
        "1e3": "1000.0",
        "1E+7": "1.0E7",
        "NaN": "NaN",
        "nan": "NaN",
        "-nan": None,
        "Infinity": "Infinity",
        "-inf": "-Infinity",
        "+inf": "Infinity",
        "infinit": None,
        "1d": "1.0",
        "1F": "1.0",
        "1e400": "Infinity",
        "1e-400": "0.0",
        " 2 ": "2.0",
        "1_0": None,
        "1e": None,
        "e1": None,
        "d": None,
        "0.001": "0.001",
        "0.00001": "1.0E-5",
        "123456789.5": "1.234567895E8",
        "9007199254740993": "9.007199254740992E15",
        "9999999": "9999999.0",
    },
    "float": {
        "0.1": "0.1",
        "16777217": "1.6777216E7",
        "3.4e38": "3.4E38",
        "3.4028235e38": "3.4028235E38",
        "1e39": "Infinity",
        "1e10": "1.0E10",
    },
    "decimal(5,2)": {
        "1": "1.00",
        "1.005": "1.01",
        "1.015": "1.02",
        "-1.555": "-1.56",
        "999.99": "999.99",
        "999.995": None,
        "1000": None,
        "1e2": "100.00",
        ".5": "0.50",
        "1.": "1.00",
        " 1 ": "1.00",
        "1e-5": "0.00",
        "+1.2": "1.20",
        "abc": None,
        "1e": None,
        "NaN": None,
    },
    "decimal(20,10)": {"0.0000000001": "0.0000000001"},
    "date": {
        "2025-01-02": "2025-01-02",
        "2025-1-2": "2025-01-02",
        "2025-01": "2025-01-01",
        "2025": "2025-01-01",
        "2025-01-02 10:00": "2025-01-02",
        "2025-01-02Tabc": "2025-01-02",
        "2025-02-29": None,
        "2024-02-29": "2024-02-29",
        "0001-01-01": "0001-01-01",
        "+2025-01-01": "2025-01-01",
        "20250102": None,
        "2025/01/02": None,
        " 2025-01-02 ": "2025-01-02",
        "202-01-01": None,
        "2025-13-01": None,
        "2025-01-32": None,
        "2025-001-01": None,
        "today": None,
        "2025-": None,
        "2025-01-": None,
        "02025-01-01": "2025-01-01",
    },
    "timestamp_ntz": {
        "2025-01-02": "2025-01-02 00:00:00",
        "2025-01-02 10": "2025-01-02 10:00:00",
        "2025-01-02 10:00": "2025-01-02 10:00:00",
        "2025-01-02T10:00:00": "2025-01-02 10:00:00",
        "2025-01-02 10:00:00.5": "2025-01-02 10:00:00.5",
        "2025-01-02 10:00:00.1234567890": "2025-01-02 10:00:00.123456",
        "2025-01-02 10:00:00.": "2025-01-02 10:00:00",
        "2025-1-2 1:2:3": "2025-01-02 01:02:03",
        "2025": "2025-01-01 00:00:00",
        "10:00:00": None,
        "2025-01-02 10:00:00Z": "2025-01-02 10:00:00",
        "2025-01-02 10:00:00+01:00": "2025-01-02 10:00:00",
        "2025-01-02 10:00:00 UTC": "2025-01-02 10:00:00",
        "2025-01-02 24:00:00": None,
        "2025-01-02 10:60:00": None,
        "2025-01-02 10:00:60": None,
        "2025-01-02T": None,
        "2025-01-02 10:": None,
        "abc": None,
        " 2025-01-02 10:00:00 ": "2025-01-02 10:00:00",
    },
    "timestamp": {
        "2025-01-02 10:00:00.25": "2025-01-02 10:00:00.25",
        "T10:00": None,
        "now": None,
        "2025-13-01 00:00:00": None,
    },
    "time(6)": {
        "10:00": "10:00:00",
        "1:2:3": "01:02:03",
        "10:00:00.5": "10:00:00.5",
        "24:00:00": None,
        "10": None,
        "10:00:00.": "10:00:00",
    },
}

# Ours is narrower than Spark on purpose: (type, text)
REFUSED_BY_US = [
    ("timestamp", "2025-01-02 10:00:00Z"),  # an instant: its local time depends on the reader's zone
    ("timestamp", "2025-01-02 10:00:00+01:00"),
    ("timestamp", "10:00:00"),  # means another day every day
    ("date", "10000-01-01"),  # beyond Python's years
    ("date", "0000-01-01"),
    ("date", "-2025-01-01"),
    ("char(3)", "abcd"),  # Spark's cast does not look at the length
    ("varchar(3)", "abcd"),
]


@pytest.mark.parametrize(
    ("name", "text", "expected"), [(n, t, e) for n, table in SPARK.items() for t, e in table.items()]
)
def test_casts_as_spark(name: str, text: str, expected: str | None) -> None:
    data_type = parse_type(name)
    if expected is None:
        with pytest.raises(InvalidValueError, match="does not fit") as caught:
            cast_text(text, data_type)
        assert len(caught.value.message) < 200
    else:
        value = cast_text(text, data_type)
        assert value is not None
        assert value_text(value, data_type) == expected


@pytest.mark.parametrize(("name", "text"), REFUSED_BY_US)
def test_narrower_than_spark_on_purpose(name: str, text: str) -> None:
    with pytest.raises(InvalidValueError, match="does not fit"):
        cast_text(text, parse_type(name))


@pytest.mark.parametrize(
    "name", ["int", "double", "decimal(5,2)", "boolean", "date", "timestamp", "timestamp_ntz", "time"]
)
def test_an_empty_value_is_null_for_every_type_but_strings(name: str) -> None:
    assert cast_text("", parse_type(name)) is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("string", "", ""),
        ("string", " a ", " a "),
        ("char(3)", "ab  ", "ab"),
        ("char(3)", "abc  ", "abc"),
        ("varchar(3)", "ab ", "ab "),
        ("varchar(3)", "abc  ", "abc"),
        ("char(3)", "", ""),
    ],
)
def test_strings(name: str, text: str, value: str) -> None:
    assert cast_text(text, parse_type(name)) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("int", "007", 7),
        ("boolean", "Y", True),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("date", "2025-01", date(2025, 1, 1)),
        ("timestamp", "2025-01-02 03", datetime(2025, 1, 2, 3)),
        ("time", "1:2", time(1, 2)),
    ],
)
def test_python_types(name: str, text: str, value: Scalar) -> None:
    cast = cast_text(text, parse_type(name))
    assert cast == value
    assert type(cast) is type(value)


@pytest.mark.parametrize("name", ["float", "double"])
def test_negative_zero_is_zero(name: str) -> None:
    value = cast_text("-0.0", parse_type(name))
    assert isinstance(value, float)
    assert math.copysign(1, value) == 1


@given(st.floats(width=32, allow_nan=False))
def test_the_text_of_a_float_comes_back(value: float) -> None:
    single = parse_type("float")
    assert cast_text(value_text(value, single), single) == value


@given(
    st.one_of(
        st.tuples(st.just("bigint"), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just("double"), st.floats(allow_nan=False)),
        st.tuples(st.just("boolean"), st.booleans()),
        st.tuples(st.just("date"), st.dates()),
        st.tuples(st.just("timestamp"), st.datetimes()),
        st.tuples(st.just("time"), st.times()),
        st.tuples(st.just("decimal(38,4)"), st.decimals(-(10**30), 10**30, places=4)),
        st.tuples(st.just("string"), st.text()),
    )
)
def test_the_canonical_text_of_a_value_comes_back(pair: tuple[str, Scalar]) -> None:
    name, value = pair
    assert cast_text(value_text(value), parse_type(name)) == value


def test_epoch_microseconds() -> None:
    assert epoch_microseconds(datetime(1970, 1, 1)) == 0
    assert epoch_microseconds(datetime(1969, 12, 31, 23, 59, 59, 999_999)) == -1
    assert epoch_microseconds(datetime(2025, 1, 1, 0, 0, 1)) == 1_735_689_601_000_000
