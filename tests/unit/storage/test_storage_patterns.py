"""Wildcard patterns: what they are parsed to, and what a component matches."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.storage.patterns import compile_components, escape, parse_pattern


def written_out(pattern: str) -> list[str]:
    return [str(alternative).removeprefix("file:///") for alternative in parse_pattern("/" + pattern)]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("a/b", ["a/b"]),
        ("a//./b/", ["a/b"]),
        ("{a,b}/c", ["a/c", "b/c"]),
        ("{a,b}{c,d}", ["ac", "ad", "bc", "bd"]),
        ("{a}", ["a"]),
        ("x{,y}", ["x", "xy"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"]),
        ("{a/b,c}/d", ["a/b/d", "c/d"]),
        ("{a,a}", ["a"]),
        ("{1..3}", ["1", "2", "3"]),
        ("{3..3}", ["3"]),
        ("m={08..11}", ["m=08", "m=09", "m=10", "m=11"]),
        ("{0..2}", ["0", "1", "2"]),
        ("{1..003}", ["001", "002", "003"]),
        ("{-1..1}", ["-1", "0", "1"]),
        ("{a..b,c}", ["a..b", "c"]),
        (r"\{a,b\}", ["{a,b}"]),
        (r"\*\?\\", [r"*?" + "\\"]),
        (r"{a\,b,c}", ["a,b", "c"]),
        ("a,b}", ["a,b}"]),
        ("[ab]", ["[ab]"]),
        ("k=%2A", ["k=%2A"]),
    ],
)
def test_lists_ranges_and_escapes_are_written_out(pattern: str, paths: list[str]) -> None:
    assert written_out(pattern) == paths


@pytest.mark.parametrize("pattern", ["*", "a?", "a/**/b", "***", "x{1,2}*"])
def test_wildcards_stay_wild(pattern: str) -> None:
    assert all(alternative.wild for alternative in parse_pattern("s3://bucket/" + pattern))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{3..1}", "reversed"),
        ("{a..c}", "not integers"),
        ("{1..}", "not integers"),
        ("{..}", "not integers"),
        ("{1..2..3}", "not integers"),
        ("{1.5..2}", "not integers"),
        ("{a,b", "without its }"),
        ("{{a,b}", "without its }"),
        ("{", "without its }"),
        ("{}", "empty braces"),
        ("a\\", "nothing to escape"),
        ("{1..1000000000}", "100,000"),
        ("{1..1000}{1..1000}", "100,000"),
        ("{..,a}/x", "'..'"),
        ("a/../b*", "'..'"),
    ],
)
def test_what_is_refused(pattern: str, words: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_pattern("/warehouse/" + pattern)
    assert words in refused.value.message


def test_a_bucket_has_no_wildcards() -> None:
    with pytest.raises(InvalidInputError, match="bucket"):
        parse_pattern("s3://b*/x")


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*", "abc", True),
        ("*", "a/c", False),
        ("a*c", "ac", True),
        ("?", "/", False),
        ("k=?", "k=1", True),
        ("k=?", "k=", False),
        ("**", "a/b/c", True),
        ("**", "", False),
        ("**/c", "c", True),
        ("**/c", "a/b/c", True),
        ("**/c", "abc", False),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/x/y/c", True),
        ("a/**/c", "b/c", False),
        ("a**c", "a/b/c", True),
        ("a**c", "ac", True),
        ("*.parquet", "line\nbreak.parquet", True),
        ("a.c", "abc", False),
    ],
)
def test_what_matches(pattern: str, path: str, matches: bool) -> None:
    (alternative,) = parse_pattern("/" + pattern)
    assert (compile_components(alternative.components).fullmatch(path) is not None) is matches


@given(st.text(alphabet=st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_an_escaped_name_stands_for_itself(name: str) -> None:
    if name in (".", ".."):
        return
    (alternative,) = parse_pattern("/t/" + escape(name))
    assert [component.literal for component in alternative.components] == ["t", name]


@given(st.integers(-50, 200), st.integers(0, 60), st.integers(0, 4))
def test_a_range_is_every_integer_of_one_width(low: int, count: int, zeros: int) -> None:
    sign, digits = ("-", str(-low)) if low < 0 else ("", str(low))
    first = sign + "0" * zeros + digits
    found = written_out(f"{{{first}..{low + count}}}")
    assert [int(text) for text in found] == list(range(low, low + count + 1))
    if zeros:
        assert len({len(text) for text in found}) == 1
    else:
        assert found == [str(number) for number in range(low, low + count + 1)]


@given(st.text(alphabet="ab*?", min_size=1, max_size=8), st.text(alphabet="ab", max_size=8))
def test_a_component_matches_as_its_characters_say(pattern: str, name: str) -> None:
    (alternative,) = parse_pattern("/" + pattern)
    reference = re.compile(pattern.replace("*", "[ab]*").replace("?", "[ab]"))
    # ``**`` on its own at the end stands for at least one name.
    expected = reference.fullmatch(name) is not None and not (set(pattern) == {"*"} and len(pattern) > 1 and not name)
    assert (compile_components(alternative.components).fullmatch(name) is not None) == expected
