"""Plans as the index keeps them: those that an earlier release wrote are read, and written again as they were.

``recorded/plans.json`` has the plans of real transactions, as begun and as reserved, from before plans had one class a
kind (release 0.9 of the index's schema); a recoverer of this release may find each of them.
``recorded/later_fields.json`` has the fields that have come since.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.json import plan_from_dict, plan_to_dict
from catalog_ext.metastore.commit.lock_settings import LockMode, LockSettings
from catalog_ext.metastore.commit.plan import (
    CHECKED,
    COMMANDS,
    Append,
    CheckedWrite,
    Overwrite,
    Promotion,
    WriteKind,
    WritePlan,
)
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.predicates.tree import IsNull

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.plan import Asked

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recorded" / "plans.json").read_text())


def test_every_kind_is_recorded() -> None:
    assert {plans["reserved"]["kind"] for plans in RECORDED.values()} == set(WriteKind)


@pytest.mark.parametrize("name", RECORDED)
def test_reserved_plan_of_an_earlier_release_is_read_and_kept(name: str) -> None:
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
    assert plan.hides_uploads
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


def later(change: Asked | CheckedWrite, **fields: Any) -> WritePlan:
    place = "file:///lake/t"
    return WritePlan(change, place, "_catalog_ext_staging", place, Promotion.RENAME, **fields)


_FOUND = CheckedWrite(Append(), static_partition="k=1", published=("k=1",), digest="table")
LATER = {
    "load": later(Append(), moves_user_files=True),
    "load_reserved": later(_FOUND, moves_user_files=True),
    "with_locks": later(Append(), hive_locks=LockSettings(LockMode.STRICT, 2.5)),
    "load_reserved_with_locks": later(_FOUND, moves_user_files=True, hive_locks=LockSettings(LockMode.SHARED)),
    "waiting_locks": later(Append(), hive_locks=LockSettings(wait_s=1.0)),
    "replacing": later(replace(_FOUND, replaced_version=7)),
    "others": later(
        Overwrite(IsNull("k"), adds_others=True), asks_locations=True, beside_located=True, hides_uploads=True
    ),
}
"""Plans with the fields that came after those of ``recorded/plans.json``, by their names in ``later_fields.json``."""


@pytest.mark.parametrize("name", LATER)
def test_fields_that_came_later_are_written_and_read_as_recorded(name: str) -> None:
    """A recoverer of a later release may find each of them."""
    recorded = json.loads((Path(__file__).parent / "recorded" / "later_fields.json").read_text())
    plan = LATER[name]
    assert json.loads(to_json(plan_to_dict(plan))) == recorded[name]
    assert plan_from_dict(recorded[name], checked=isinstance(plan.change, CheckedWrite)) == plan
    assert set(recorded) == set(LATER)
