"""The partition-name codec against what Hive's own ``FileUtils.escapePathName`` does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidPartitionNameError
from catalog_ext.metastore.model.partition_names import (
    DEFAULT_PARTITION,
    MAX_VALUE_LENGTH,
    escape_path_name,
    format_partition_name,
    is_hidden,
    parse_partition_name,
    partition_values,
    split_component,
    unescape_path_name,
)

# What hive-common 2.3.10 was seen to escape, asked for every character up to U+0120 and a few beyond.
HIVE_ESCAPES = {*range(32), *map(ord, "\"#%'*/:=?[\\]^{"), 127}

_texts = st.text(st.characters(exclude_categories=("Cs",)))
_keys = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
_values = st.none() | st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=24).filter(
    lambda v: v != DEFAULT_PARTITION
)


def test_the_escape_set_is_hives() -> None:
    escaped = {
        code for code in (*range(0x120), 0x2028, 0xFEFF, 0xFFFF, 0x1F600) if escape_path_name(chr(code)) != chr(code)
    }
    assert escaped == HIVE_ESCAPES


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a/b\n%", "a%2Fb%0A%25"),
        ("a b", "a b"),
        ("a+b", "a+b"),
        ("é€", "é€"),
        ("10:30", "10%3A30"),
        ("}", "}"),
        ("\x7f", "%7F"),
        ("", ""),
        ("..", ".."),
    ],
)
def test_escape(text: str, escaped: str) -> None:
    assert escape_path_name(text) == escaped


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("%2F", "/"),
        ("%2f", "/"),
        ("%252F", "%2F"),
        ("%", "%"),
        ("%2", "%2"),
        ("%zz", "%zz"),
        ("%+5", "%+5"),
        ("%%41", "%A"),
        ("%4%31", "%41"),
        ("+", "+"),
        # Each escape is one character, not one byte of UTF-8: so read Hive and Spark.
        ("%E2%82%AC", "\xe2\x82\xac"),
        ("%FF", "\xff"),
        ("é%20", "é "),
    ],
)
def test_unescape_leaves_malformed_escapes(text: str, plain: str) -> None:
    assert unescape_path_name(text) == plain


@given(_texts)
def test_an_escaped_text_comes_back(text: str) -> None:
    escaped = escape_path_name(text)
    assert unescape_path_name(escaped) == text
    assert not {ord(c) for c in escaped} & (HIVE_ESCAPES - {ord("%")})


@given(st.lists(st.tuples(_keys, _values), min_size=1, max_size=4))
def test_a_partition_name_comes_back(pairs: list[tuple[str, str | None]]) -> None:
    keys = [k for k, _ in pairs]
    values = [v for _, v in pairs]
    name = format_partition_name(keys, values)
    assert parse_partition_name(name) == tuple(pairs)
    assert partition_values(name) == tuple(values)
    assert name.count("/") == len(pairs) - 1


def test_null_and_empty_are_written_to_the_default_partition() -> None:
    assert format_partition_name(["a", "b"], [None, ""]) == f"a={DEFAULT_PARTITION}/b={DEFAULT_PARTITION}"
    assert partition_values(f"a={DEFAULT_PARTITION}") == (None,)


def test_an_empty_value_on_the_store_is_not_null() -> None:
    assert partition_values("a=/b=1") == ("", "1")


def test_an_unpartitioned_table_has_no_values() -> None:
    assert partition_values("") == ()


def test_an_escaped_default_partition_is_a_string() -> None:
    # Only the directory's own text means NULL; this one cannot be written by us, but may lie there.
    assert partition_values("a=%5F_HIVE_DEFAULT_PARTITION__") == (DEFAULT_PARTITION,)


def test_the_default_partitions_name_is_refused_as_data() -> None:
    with pytest.raises(InvalidPartitionNameError, match="stands for NULL"):
        format_partition_name(["a"], [DEFAULT_PARTITION])


def test_values_of_1024_characters_are_refused() -> None:
    assert format_partition_name(["a"], ["x" * MAX_VALUE_LENGTH]) == "a=" + "x" * 1023
    with pytest.raises(InvalidPartitionNameError, match="'a' has 1024 characters") as caught:
        format_partition_name(["a"], ["x" * 1024])
    assert len(caught.value.message) < 300


def test_keys_and_values_must_pair() -> None:
    with pytest.raises(InvalidPartitionNameError, match="1 values were given for 2 partition columns"):
        format_partition_name(["a", "b"], ["1"])


@pytest.mark.parametrize("name", ["a", "a=1/b", "=1", "a=1//b=2", "/a=1", "a=1/", "a=1/../b=2", "x" * 10_000])
def test_what_is_no_partition_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidPartitionNameError) as caught:
        parse_partition_name(name)
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    ("component", "split"),
    [
        ("a=1", ("a", "1")),
        ("a=", ("a", "")),
        ("a=b=c", ("a", "b=c")),
        ("a%3Db=x%2Fy", ("a=b", "x%2Fy")),
        ("=1", None),
        ("a", None),
        ("", None),
        ("..", None),
    ],
)
def test_split_component_keeps_the_value_as_found(component: str, split: tuple[str, str] | None) -> None:
    assert split_component(component) == split


@pytest.mark.parametrize(
    ("component", "hidden"),
    [
        ("_SUCCESS", True),
        (".part.crc", True),
        ("_temporary", True),
        ("_", True),
        (".", True),
        ("_%3D", True),
        ("_a=1", False),
        (".a=1", True),
        ("._a=1.parquet.crc", True),
        ("_=", False),
        ("=", False),
        ("a_b", False),
        ("part.0", False),
        (" _a", False),
    ],
)
def test_hidden_names(component: str, hidden: bool) -> None:
    assert is_hidden(component) is hidden
