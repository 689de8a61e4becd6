"""Plans as JSON in the index: a next release must read what this one wrote.

``recorded/plans.json`` has the plans of real transactions, as begun and as reserved; ``recorded/rare_fields.json`` has
plans with values in fields that are empty there.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.json import plan_from_dict, plan_to_dict
from catalog_ext.metastore.commit.lock_settings import LockMode, LockSettings
from catalog_ext.metastore.commit.partition_plans import COMMANDS
from catalog_ext.metastore.commit.plan import CHECKED, Append, CheckedWrite, Overwrite, Promotion, WritePlan
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.predicates.tree import IsNull

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.plan import Asked

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "recorded" / "plans.json").read_text())


def test_every_kind_is_recorded() -> None:
    assert {plans["reserved"]["kind"] for plans in RECORDED.values()} == set(WriteKind)


@pytest.mark.parametrize("name", RECORDED)
def test_reserved_plan_is_read_and_written_as_recorded(name: str) -> None:
    recorded = RECORDED[name]["reserved"]
    plan = plan_from_dict(recorded, checked=True)
    assert isinstance(plan.change, CHECKED)
    assert plan.asked.kind == recorded["kind"]
    assert json.loads(to_json(plan_to_dict(plan))) == recorded


@pytest.mark.parametrize("name", RECORDED)
def test_begun_plan_is_read_and_written_as_recorded(name: str) -> None:
    recorded = RECORDED[name]["begun"]
    plan = plan_from_dict(recorded, checked=False)
    assert not isinstance(plan.change, CHECKED)
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
def test_fields_of_a_newer_release_are_ignored(name: str) -> None:
    recorded = RECORDED[name]["reserved"]
    assert plan_from_dict({**recorded, "from_the_future": 1}, checked=True) == plan_from_dict(recorded, checked=True)


def with_rare(change: Asked | CheckedWrite, **fields: Any) -> WritePlan:
    place = "file:///lake/t"
    return WritePlan(change, place, "_catalog_ext_staging", place, Promotion.RENAME, **fields)


_FOUND = CheckedWrite(Append(), static_partition="k=1", published=("k=1",), digest="table")
RARE = {
    "load": with_rare(Append(), moves_user_files=True),
    "load_reserved": with_rare(_FOUND, moves_user_files=True),
    "with_locks": with_rare(Append(), hive_locks=LockSettings(LockMode.STRICT, 2.5)),
    "load_reserved_with_locks": with_rare(_FOUND, moves_user_files=True, hive_locks=LockSettings(LockMode.SHARED)),
    "waiting_locks": with_rare(Append(), hive_locks=LockSettings(wait_s=1.0)),
    "replacing": with_rare(replace(_FOUND, replaced_version=7)),
    "others": with_rare(
        Overwrite(IsNull("k"), adds_others=True), asks_locations=True, beside_located=True, hides_uploads=True
    ),
}
"""The plans of ``rare_fields.json`` by name."""


@pytest.mark.parametrize("name", RARE)
def test_rare_fields_are_written_and_read_as_recorded(name: str) -> None:
    recorded = json.loads((Path(__file__).parent / "recorded" / "rare_fields.json").read_text())
    plan = RARE[name]
    assert json.loads(to_json(plan_to_dict(plan))) == recorded[name]
    assert plan_from_dict(recorded[name], checked=isinstance(plan.change, CheckedWrite)) == plan
    assert set(recorded) == set(RARE)
