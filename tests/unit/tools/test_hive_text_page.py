"""The page of the values that Hive reads in text."""

from __future__ import annotations

from tests.kit.hive_text_cases import PART, TABLES, expected


def test_the_page_has_the_values_that_the_engines_gave() -> None:
    assert PART.problems() == []
    assert list(expected()) == [table.name for table in TABLES]
