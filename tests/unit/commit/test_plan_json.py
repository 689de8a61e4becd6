"""Plans as the index keeps them: those that an earlier release wrote are read, and written again as they were.

``recorded/plans.json`` has the plans of real transactions, as begun and as reserved, from before plans had one class a
kind (release 0.9 of the index's schema); a recoverer of this release may find each of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catalog_ext.metastore.commit.plan import CHECKED, COMMANDS, CheckedWrite, WriteKind
from catalog_ext.metastore.commit.plan_json import plan_from_dict, plan_to_dict
from catalog_ext.metastore.model.json import to_json

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recorded" / "plans.json").read_text())


def test_every_kind_is_recorded() -> None:
    assert {plans["reserved"]["kind"] for plans in RECORDED.values()} == set(WriteKind)


@pytest.mark.parametrize("name", RECORDED)
def test_a_reserved_plan_of_an_earlier_release_is_read_and_written_as_it_was(name: str) -> None:
    recorded = RECORDED[name]["reserved"]
    plan = plan_from_dict(recorded, checked=True)
    assert isinstance(plan.change, CHECKED)
    assert plan.asked.kind == recorded["kind"]
    assert json.loads(to_json(plan_to_dict(plan))) == recorded


@pytest.mark.parametrize("name", RECORDED)
def test_a_begun_plan_of_an_earlier_release_is_read_and_written_as_it_was(name: str) -> None:
    recorded = RECORDED[name]["begun"]
    plan = plan_from_dict(recorded, checked=False)
    assert not isinstance(plan.change, CHECKED)
    assert json.loads(to_json(plan_to_dict(plan))) == recorded


def test_a_plan_whose_uploads_go_aside_says_so() -> None:
    recorded = {**RECORDED["streaming"]["reserved"], "aside": True}
    plan = plan_from_dict(recorded, checked=True)
    assert plan.aside
    assert json.loads(to_json(plan_to_dict(plan))) == recorded


@pytest.mark.parametrize("name", RECORDED)
def test_the_plan_of_an_aborted_transaction_shows_whether_it_was_checked(name: str) -> None:
    """One that is aborting may have been open or reserved before."""
    plan = plan_from_dict(RECORDED[name]["begun"], checked=True)
    moved = isinstance(plan.asked, COMMANDS) and plan.moves
    assert not moved
    if isinstance(plan.change, CheckedWrite):
        assert plan.change == CheckedWrite(plan.change.asked)


@pytest.mark.parametrize("name", RECORDED)
def test_fields_that_came_later_are_empty_in_older_plans(name: str) -> None:
    """Plans from before there were partition commands have no ``command`` and no ``moves``, at the same schema."""
    recorded = RECORDED[name]["reserved"]
    empty = {key for key in ("command", "moves") if not recorded[key]}
    older = {key: value for key, value in recorded.items() if key not in empty}
    assert plan_from_dict(older, checked=True) == plan_from_dict(recorded, checked=True)
