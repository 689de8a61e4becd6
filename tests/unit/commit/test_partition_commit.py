"""Flink's partition-commit options: what they may be, when a partition is due, and what is done for it then."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.commit.partition_commit import (
    DELAY,
    OPTIONS,
    POLICY_CLASS,
    POLICY_KIND,
    SUCCESS_FILE,
    TIME_PATTERN,
    TIME_ZONE,
    TRIGGER,
    Decision,
    PartitionCommit,
    PolicyKind,
    Trigger,
    chosen_options,
    run_policies,
)
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidValueError, PartitionPolicyError

if TYPE_CHECKING:
    from collections.abc import Mapping

HOUR = 3_600_000
BY_TIME = {TRIGGER: "partition-time"}
HOURLY = {**BY_TIME, TIME_PATTERN: "$ds $hour:00:00", DELAY: "1 h"}
KEYS = ("ds", "hour")


def at_ms(*parts: int) -> int:
    return int(datetime(*parts, tzinfo=timezone.utc).timestamp() * 1000)  # type: ignore[arg-type]


def test_nothing_given_is_with_the_epoch() -> None:
    commit = PartitionCommit.of({"other": "x"}, KEYS)
    assert (commit.trigger, commit.delay_ms, commit.policies) == (Trigger.PROCESS_TIME, 0, (PolicyKind.METASTORE,))
    assert not commit.acts
    assert commit.decide(["ds=1/hour=1"], {}, watermark_ms=0, final=False, now_ms=5) == Decision()


def test_flinks_own_example() -> None:
    options = {
        TRIGGER: "partition-time",
        TIME_PATTERN: "$year-$month-$day $hour:00:00",
        DELAY: "1 h",
        TIME_ZONE: "Asia/Shanghai",
        POLICY_KIND: "metastore,success-file",
    }
    commit = PartitionCommit.of(options, ("year", "month", "day", "hour"))
    assert commit.policies == (PolicyKind.METASTORE, PolicyKind.SUCCESS_FILE)
    assert commit.acts
    assert commit.partition_time_ms("year=2025/month=1/day=02/hour=9") == at_ms(2025, 1, 2, 1)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (TRIGGER, "sometimes"),
        (TRIGGER, ""),
        (DELAY, "soon"),
        (DELAY, "-1 h"),
        (TIME_ZONE, "Mars/Olympus"),
        (TIME_ZONE, "+99:00"),
        (TIME_ZONE, "../etc/passwd"),
        (POLICY_KIND, "metastore,mail"),
        (POLICY_KIND, ""),
        (POLICY_KIND, "custom"),
        (POLICY_CLASS, "no callable"),
        (POLICY_CLASS, "name"),
        (SUCCESS_FILE, "DONE"),
        (SUCCESS_FILE, "_a/b"),
        (SUCCESS_FILE, "_k=v"),
        (SUCCESS_FILE, ""),
    ],
)
def test_a_value_that_does_not_fit_is_refused(option: str, text: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=option.replace(".", r"\.")):
        PartitionCommit.of({option: text}, KEYS)


@pytest.mark.parametrize("pattern", ["$day", "2025-01-01", "${ds", ""])
def test_a_pattern_names_partition_columns(pattern: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="partition columns"):
        PartitionCommit.of({**BY_TIME, TIME_PATTERN: pattern}, KEYS)


def test_partition_time_needs_partitions() -> None:
    with pytest.raises(InvalidConfigurationError, match="no partition columns"):
        PartitionCommit.of(BY_TIME, ())
    assert PartitionCommit.of({POLICY_KIND: "success-file"}, ()).acts


@pytest.mark.parametrize(
    ("pattern", "partition", "expected"),
    [
        (None, "ds=2025-03-01/hour=x", at_ms(2025, 3, 1)),
        ("$ds", "ds=2025-03-01 10%3A30%3A00/hour=x", at_ms(2025, 3, 1, 10, 30)),
        ("$DS $Hour:00:00", "ds=2025-3-1/hour=7", at_ms(2025, 3, 1, 7)),
        ("${ds}T${hour}:15", "DS=2025-03-01/HOUR=23", at_ms(2025, 3, 1, 23, 15)),
    ],
)
def test_the_time_of_a_partition(pattern: str | None, partition: str, expected: int) -> None:
    options = {**BY_TIME, **({TIME_PATTERN: pattern} if pattern else {})}
    assert PartitionCommit.of(options, KEYS).partition_time_ms(partition) == expected


@pytest.mark.parametrize(
    ("zone", "hours"), [("UTC", 0), ("+02:00", 2), ("GMT-3", -3), ("utc+0530", 5.5), ("Europe/Berlin", 1)]
)
def test_a_partitions_time_is_local_time(zone: str, hours: float) -> None:
    commit = PartitionCommit.of({**BY_TIME, TIME_ZONE: zone}, ("ds",))
    assert commit.partition_time_ms("ds=2025-01-10") == at_ms(2025, 1, 10) - round(hours * HOUR)


@pytest.mark.parametrize("partition", ["ds=__HIVE_DEFAULT_PARTITION__/hour=1", "ds=today/hour=1", "ds=/hour=2"])
def test_a_partition_without_a_time_is_named(partition: str) -> None:
    commit = PartitionCommit.of(HOURLY, KEYS)
    with pytest.raises(InvalidValueError, match="has no time") as raised:
        commit.decide([partition], {}, watermark_ms=0, final=False, now_ms=0)
    assert raised.value.parameters["partition"] == partition


def test_partitions_wait_for_the_watermark() -> None:
    commit = PartitionCommit.of(HOURLY, KEYS)
    early, late = "ds=2025-01-01/hour=09", "ds=2025-01-01/hour=10"
    staged, waiting = [early, late], {early: 0}

    def decide(watermark_ms: int | None, *, final: bool = False) -> Decision:
        return commit.decide(staged, waiting, watermark_ms=watermark_ms, final=final, now_ms=0)

    assert decide(0) == Decision(waiting=(early, late))
    assert decide(at_ms(2025, 1, 1, 10) - 1) == Decision(waiting=(early, late))
    assert decide(at_ms(2025, 1, 1, 10)) == Decision(waiting=(late,), due=(early,))
    assert decide(at_ms(2025, 1, 1, 11)) == Decision(due=(early,))
    assert decide(0, final=True) == Decision(due=(early,))


def test_a_write_that_is_no_streams_neither_waits_nor_releases() -> None:
    commit = PartitionCommit.of(HOURLY, KEYS)
    waiting = {"ds=2025-01-01/hour=09": 0}
    assert commit.decide(["ds=x/hour=y"], waiting, watermark_ms=None, final=False, now_ms=0) == Decision()


def test_with_a_delay_process_time_is_the_age_of_a_partition() -> None:
    commit = PartitionCommit.of({DELAY: "10s"}, KEYS)
    assert commit.decide(["a=1"], {"b=1": 1_000, "c=1": 2_000}, watermark_ms=0, final=False, now_ms=11_000) == Decision(
        waiting=("a=1",), due=("b=1",)
    )


@given(
    hours=st.lists(st.integers(0, 23), max_size=8),
    kept=st.sets(st.integers(0, 23)),
    watermark=st.integers(-1, 30),
    final=st.booleans(),
)
def test_every_partition_is_decided_on(hours: list[int], kept: set[int], watermark: int, final: bool) -> None:
    commit = PartitionCommit.of({**BY_TIME, TIME_PATTERN: "$ds $hour:00:00"}, KEYS)
    names = {h: f"ds=2025-01-01/hour={h}" for h in range(24)}
    decision = commit.decide(
        [names[h] for h in hours],
        {names[h]: 0 for h in kept},
        watermark_ms=at_ms(2025, 1, 1) + watermark * HOUR,
        final=final,
        now_ms=0,
    )
    due = {names[h] for h in range(24) if final or h <= watermark}
    assert set(decision.waiting) == {names[h] for h in hours} - due
    assert set(decision.due) == {names[h] for h in kept} & due


def test_a_writes_options_go_before_the_tables() -> None:
    chosen = chosen_options({TRIGGER: "process-time", DELAY: "1h", "other": "x"}, {TRIGGER: "partition-time", "y": "z"})
    assert chosen == {TRIGGER: "partition-time", DELAY: "1h"}
    assert set(chosen) <= set(OPTIONS)


@pytest.mark.parametrize("name", ["json:no_such_thing", "no_such_module_here:x", "json:__name__"])
def test_a_custom_policy_that_cannot_be_had_is_refused(name: str) -> None:
    commit = PartitionCommit.of({POLICY_KIND: "custom", POLICY_CLASS: name}, KEYS)
    with pytest.raises(InvalidConfigurationError, match=r"policy\.class"):
        commit.custom_policy()


def policies_of(monkeypatch: pytest.MonkeyPatch, kinds: str, policy: object) -> PartitionCommit:
    monkeypatch.setattr("json.committed", policy, raising=False)
    return PartitionCommit.of({POLICY_KIND: kinds, POLICY_CLASS: "json.committed"}, KEYS)


def test_policies_run_in_order_once_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    def committed(values: Mapping[str, str | None], location: str) -> None:
        done.append((dict(values), location))

    commit = policies_of(monkeypatch, "metastore,success-file,custom", committed)
    run_policies(commit, [("ds=a%20b/hour=__HIVE_DEFAULT_PARTITION__", "file:///t/p"), ("", "file:///t")], done.append)
    assert done == [
        "file:///t/p/_SUCCESS",
        ({"ds": "a b", "hour": None}, "file:///t/p"),
        "file:///t/_SUCCESS",
        ({}, "file:///t"),
    ]


def test_failing_policy_stops_no_other_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def committed(values: Mapping[str, str | None], location: str) -> None:
        if values["ds"] == "1":
            raise RuntimeError("the pager is off")
        done.append(location)

    commit = policies_of(monkeypatch, "custom,success-file", committed)
    with pytest.raises(PartitionPolicyError, match=r"1 partition.*'ds=1/hour=1'.*the pager is off") as raised:
        run_policies(commit, [("ds=1/hour=1", "file:///a"), ("ds=2/hour=1", "file:///b")], done.append)
    assert done == ["file:///a/_SUCCESS", "file:///b", "file:///b/_SUCCESS"]
    assert isinstance(raised.value.__cause__, RuntimeError)
