from __future__ import annotations

import math
import struct
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.model.key_encoding import (
    MAX_KEY_BYTES,
    NULL_KEY,
    decoded_text,
    encode_key,
    encode_scalar,
    is_truncated,
    next_prefix,
    truncate_key,
)
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import cast_text
from catalog_ext.metastore.predicates.evaluation import order_key

if TYPE_CHECKING:
    from catalog_ext.metastore.model.values import Scalar

_text = st.text(st.characters(exclude_categories=["Cs"]))
_PAIRS: dict[str, st.SearchStrategy[Scalar]] = {
    "bigint": st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-200, 200)),
    "decimal(38,4)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-4, Context(prec=60))),
    "double": st.one_of(st.floats(), st.floats(-10, 10)),
    "float": st.floats(width=32),
    "boolean": st.booleans(),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "timestamp_ntz": st.datetimes(),
    "time": st.times(),
    "binary": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), min_size=1),
    "string": st.one_of(_text, st.text(st.sampled_from("\x00\x01\x02ab\ud7ff\ue000\uffff\U00010000"))),
}


@pytest.mark.parametrize("type_text", _PAIRS)
def test_texts_compare_by_bytes_as_the_values_compare(type_text: str) -> None:
    data_type = parse_type(type_text)

    @given(_PAIRS[type_text], _PAIRS[type_text])
    def check(left: Scalar, right: Scalar) -> None:
        a, b = (encode_scalar(v, data_type).encode("utf-8") for v in (left, right))
        x, y = order_key(left), order_key(right)
        assert (a < b, a == b) == (x < y, x == y)
        assert a > b""
        assert b"\x00" not in a

    check()


def test_numbers_across_lengths_and_signs() -> None:
    numbers = [-(2**63), -(10**18), -100, -99, -12, -10, -9, -7, -1, 0, 1, 7, 9, 10, 12, 99, 100, 10**18, 2**63 - 1]
    texts = [encode_scalar(n, parse_type("bigint")) for n in numbers]
    assert texts == sorted(texts)


def test_nan_is_one_value_above_infinity_and_negative_zero_is_zero() -> None:
    double = parse_type("double")
    other_nan = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
    assert encode_scalar(other_nan, double) == encode_scalar(math.nan, double) > encode_scalar(math.inf, double)
    assert encode_scalar(-0.0, double) == encode_scalar(0.0, double)
    assert encode_scalar(-math.inf, double) < encode_scalar(-1e308, double) < encode_scalar(0.0, double)


def test_decimals_of_38_digits_keep_them_all() -> None:
    decimal = parse_type("decimal(38,0)")
    assert encode_scalar(Decimal(10**37 + 1), decimal) == f"p38{10**37 + 1}"


def test_integers_stand_for_decimals_and_doubles() -> None:
    assert encode_scalar(5, parse_type("decimal(10,2)")) == encode_scalar(Decimal("5.00"), parse_type("decimal(10,2)"))
    assert encode_scalar(5, parse_type("double")) == encode_scalar(5.0, parse_type("double"))


@pytest.mark.parametrize(
    ("value", "type_text", "text"),
    [
        (None, "string", ""),
        ("", "string", "\x01"),
        ("\x00", "string", "\x01\x01"),
        ("\x01", "string", "\x01\x02"),
        ("eu", "string", "eu"),
        (12, "int", "p0212"),
        (-12, "int", "n9787"),
        (Decimal("-1.50"), "decimal(5,2)", "n96849"),
        (True, "boolean", "1"),
        (date(2025, 1, 31), "date", "2025-01-31"),
        (datetime(1970, 1, 1, 0, 0, 1), "timestamp", "p071000000"),
        (time(1, 2, 3), "time", "01:02:03.000000"),
        (1.0, "double", "bff0000000000000"),
        (-1.0, "double", "400fffffffffffff"),
    ],
)
def test_the_written_form_stays(value: Scalar | None, type_text: str, text: str) -> None:
    assert encode_key(value, parse_type(type_text)) == text


@given(_text.map(lambda t: t * 9))
def test_truncation_keeps_whole_characters_and_enough_of_them(text: str) -> None:
    encoded = encode_scalar(text, parse_type("string"))
    kept = truncate_key(encoded)
    size = len(kept.encode("utf-8"))
    assert encoded.startswith(kept)
    assert size <= MAX_KEY_BYTES
    assert is_truncated(encoded) == (kept != encoded)
    assert kept == encoded or size > MAX_KEY_BYTES - 4


@given(_text, _text)
def test_next_prefix_is_above_what_starts_with_it_and_below_the_rest(prefix: str, other: str) -> None:
    assume(prefix)
    end = next_prefix(prefix)
    if end is None:
        assert set(prefix) == {"\U0010ffff"}
        return
    assert (prefix + other).encode("utf-8") < end.encode("utf-8")
    if not other.startswith(prefix):
        assert (other.encode("utf-8") < end.encode("utf-8")) == (other.encode("utf-8") < prefix.encode("utf-8"))


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="lone surrogate"):
        encode_scalar("a\udc80", parse_type("string"))


def test_null_is_the_empty_text() -> None:
    assert encode_key(None, parse_type("int")) == NULL_KEY == ""


@pytest.mark.parametrize("kind", _PAIRS)
@given(data=st.data())
def test_an_encoding_can_be_read_again(kind: str, data: st.DataObject) -> None:
    data_type = parse_type(kind)
    encoded = encode_scalar(data.draw(_PAIRS[kind]), data_type)
    read = decoded_text(encoded, data_type)
    assert read is not None
    value = read if kind == "string" else cast_text(read, data_type)
    assert value is not None
    assert encode_scalar(value, data_type) == encoded


def test_what_is_left_of_a_long_text_can_be_read() -> None:
    string = parse_type("string")
    assert decoded_text(NULL_KEY, string) is None
    # The cut may be in the middle of a pair that stands for one character.
    assert decoded_text(encode_key("a" * 254 + "\x00b", string), string) == "a" * 254
    assert decoded_text(encode_key("é" * 200, string), string) == "é" * 127
