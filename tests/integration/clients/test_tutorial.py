"""The tutorial, run again from its first cell to its last: each shows what the kept one shows."""

from __future__ import annotations

import pytest

from docs.tools import tutorial
from tests.integration.standing_service import environment

pytestmark = pytest.mark.spark


def test_each_cell_shows_what_is_kept() -> None:
    run, kept = tutorial.execute(environment(None)), tutorial.read_kept()
    for cell, there, expected in zip(run.cells, tutorial.shown(run), tutorial.shown(kept), strict=True):
        assert there == expected, f"`make tutorial` renews it: {cell.source}"
    plain = [output.get("data", {}).get("text/plain", "") for cell in kept.cells for output in cell.get("outputs", [])]
    assert sum(text.startswith("<Picture: ") for text in plain) == 2


def test_nothing_of_a_machine_is_kept() -> None:
    text = tutorial.TUTORIAL.read_text(encoding="utf-8")
    assert len(text) < 200_000
    for trace in ("/tmp", "/root", "/work", " at 0x", "localhost", "127.0.0.1"):
        assert trace not in text
