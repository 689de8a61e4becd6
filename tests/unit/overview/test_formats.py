"""How numbers and names are written for people."""

from __future__ import annotations

import pytest

from catalog_ext.overview.formats import short, visible


@pytest.mark.parametrize("hidden", [
    "\x00", "\n", "\x1b", "\x7f", "\x85", "\u00ad", "\u115f", "\u200b", "\u2028", "\u202e", "\u2066", "\u2800",
    "\u3164", "\ufeff", "\uffa0", "\ufffb", "\ud800", "\U000e0041",
])  # fmt: skip
def test_what_is_not_seen_is_shown(hidden: str) -> None:
    assert visible(f"a{hidden}b") == f"a⟨U+{ord(hidden):04X}⟩b"
    visible(hidden).encode()


def test_what_is_seen_stays_as_it_is() -> None:
    text = "ünïcødé 🦀 中文 العربية a b"
    assert visible(text) == text


@pytest.mark.parametrize(("number", "said"), [
    (0, "0"), (999.4, "999"), (999.6, "1k"), (1000, "1k"), (12_345, "12.3k"), (999_700, "1M"), (10**15, "1P"),
])  # fmt: skip
def test_a_short_number_has_no_exponent(number: float, said: str) -> None:
    assert short(number) == said
