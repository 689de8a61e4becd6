"""How lists fit a screen: nothing is broken or cut but the words of people, whatever the width."""

from __future__ import annotations

import builtins
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from catalog_ext.cli.output import type_name
from catalog_ext.overview.layout import ListColumn, fit, record_lines, width_of, wrapped
from catalog_ext.overview.list_table import list_text, print_list
from tests.kit.examples import examples

_COLUMNS = (
    ListColumn("table"),
    ListColumn("files", right=True, rank=1),
    ListColumn("location", rank=3),
    ListColumn("why", wraps=True),
    ListColumn("owner", rank=2),
)
_NAME = st.text(st.sampled_from("abz_/=%.日本é-"), min_size=1, max_size=60)
_WORDS = st.lists(_NAME, min_size=1, max_size=12).map(" ".join)
_ROW = st.tuples(_NAME, st.integers(0, 10**9).map(str), st.none() | _NAME, _WORDS, st.none() | _NAME)


def _lines(rows: list[tuple[str | None, ...]], width: int | None) -> list[str]:
    _heading, _rule, *lines = list_text(_COLUMNS, rows, width).splitlines()
    return lines


@given(st.lists(_ROW, min_size=1, max_size=5), st.sampled_from([20, 40, 80, 200]))
def test_whatever_is_shown_is_shown_whole(rows: list[tuple[str | None, ...]], width: int) -> None:
    layout = fit(_COLUMNS, rows, width)
    lines = _lines(rows, width)
    text = "\n".join(lines)
    seen = {*layout.columns, *layout.below}
    assert {0, 3} <= seen, "what a list is about is never left out"
    assert seen.isdisjoint(layout.left_out)
    words = text.split()
    for row in rows:
        assert row[0] in words
        assert set(str(row[3]).split()) <= set(words)
    longest = max(width_of(word) for row in rows for cell in (row[0], row[3]) for word in str(cell).split())
    assert max(map(width_of, lines)) <= max(width, longest + 2)


@given(st.lists(_ROW, min_size=1, max_size=5))
def test_without_a_width_there_is_a_line_a_row(rows: list[tuple[str | None, ...]]) -> None:
    lines = _lines(rows, None)
    assert len(lines) == len(rows)
    assert all(str(row[3]) in line for row, line in zip(rows, lines, strict=True))


def test_columns_are_left_out_by_rank_and_the_next_ones_aligned() -> None:
    rows = [
        ("sales.trips", "12", "s3://bucket/a/long/path/of/trips", "it is new", "me"),
        ("日本.x", "3", None, "-", None),
    ]
    layout = fit(_COLUMNS, rows, 40)
    assert layout.left_out == (2,)
    assert _lines(rows, 40) == [
        "sales.trips     12  it is new  me",
        "日本.x           3  -          -",
    ]


def test_what_is_too_wide_for_a_column_stands_below() -> None:
    rows = [("s.t", "1", None, "because of s3://bucket/a/very/long/path/indeed/it/is/part.parquet", None)]
    assert _lines(rows, 40) == [
        "s.t        1",
        "  because of",
        "  s3://bucket/a/very/long/path/indeed/it/is/part.parquet",
    ]


@settings(max_examples=examples(30))
@given(st.lists(_ROW, min_size=1, max_size=3))
def test_a_pipe_gets_the_text_of_a_wide_terminal(rows: list[tuple[str | None, ...]]) -> None:
    assert list_text(_COLUMNS, rows, None) == list_text(_COLUMNS, rows, 10_000)


def test_width_of_the_terminal_does_not_change_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("sales.trips", "12", "s3://bucket/a/long/path/of/trips", "it is new " * 40, "me")]
    shown = list_text(_COLUMNS, rows, None)
    assert len(shown.splitlines()) == 3
    # rich reads them where it measures a terminal.
    for name, value in (("COLUMNS", "20"), ("TERM", "dumb"), ("FORCE_COLOR", "1")):
        monkeypatch.setenv(name, value)
        assert list_text(_COLUMNS, rows, None) == shown


def test_list_is_text_in_the_kernel_of_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list_text(_COLUMNS, [("s.t", "1", None, "new", None)], 60)
    shell = type("ZMQInteractiveShell", (), {})
    monkeypatch.setattr(builtins, "get_ipython", shell, raising=False)
    assert list_text(_COLUMNS, [("s.t", "1", None, "new", None)], 60) == shown != ""


def test_styles_are_for_terminals_only() -> None:
    for terminal in (True, False):
        made = io.StringIO()
        console = Console(file=made, force_terminal=terminal, color_system="standard", width=60)
        print_list(console, _COLUMNS, [("[red]a[/red]", "1", None, "new", None)], 60 if terminal else None, ["red"])
        assert ("\x1b[31m" in made.getvalue()) is terminal
        assert "[red]a[/red]" in made.getvalue(), "names are not markup"


def test_words_wrap_at_blanks_and_a_size_keeps_its_unit() -> None:
    assert wrapped("files +10, 8.2 KiB more", 14) == ["files +10,", "8.2 KiB more"]
    assert wrapped("abcdefghij klm", 4) == ["abcdefghij", "klm"]
    assert wrapped("", 4) == [""]


def test_labels_with_values() -> None:
    lines = list(record_lines([("location", "s3://bucket/a/long/path"), ("columns", "a INT, b INT, c INT")], 24))
    assert lines == ["location", "  s3://bucket/a/long/path", "columns   a INT, b INT,", "          c INT"]
    assert list(record_lines([("a", "b c")], None)) == ["a  b c"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("struct<aB:bigint,c:array<string>>", "STRUCT<aB:BIGINT,c:ARRAY<STRING>>"),
        ("map<string,struct<`a b`:int>>", "MAP<STRING,STRUCT<`a b`:INT>>"),
        ("decimal(10,2)", "DECIMAL(10,2)"),
    ],
)
def test_names_of_fields_stay_as_they_are(text: str, shown: str) -> None:
    assert type_name(text) == shown
