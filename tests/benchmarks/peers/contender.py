"""What a contender can do, and how it is measured: in a process of its own, ``contender_process``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tests.benchmarks.peers.table import Layout, Partition, written_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUNDS = 7
WARMUPS = 6
WARM_SECONDS = 15.0
"""Runs before that do not count. Iceberg's set-up runs in Spark for 20 s, in which the JVM compiles the planner; ours
runs in Python. Without this time the first measure would compare how warm the JVMs are."""
COMMITS = ROUNDS + WARMUPS
ENOUGH_SECONDS = 30.0
"""A measure that has taken so long ends after the run that it is in, if that counts."""

ONCE = ("first", "rows")
"""What can be done once only, without a warm-up."""

UNTIMED_WARMUP = (*ONCE, "commit")
"""Measures whose runs are numbered beforehand: each commit writes to a partition that is checked and restored later."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a contender is given.

    Attributes:
        contender: Of ``figures.CONTENDERS``.
        root: The directory of the tree.
        folder: Where it may keep what it needs; a process that goes on after another finds it.
        partitions: How many the tree has.
        measures: What to measure, in this order.
        options: Of this kind of contender.
    """

    contender: str
    root: Path
    folder: Path
    partitions: int
    measures: tuple[str, ...]
    options: dict[str, str]

    @property
    def layout(self) -> Layout:
        """The table's."""
        return Layout(self.partitions)


class NoSuchThingError(Exception):
    """The contender has no such operation; the message says what it has instead."""


class Contender(Protocol):
    """What each engine does; everything blocks until it is done and raises NoSuchThingError where it has none."""

    version: str

    def first(self) -> None:
        """Registers the tree, all partitions."""

    def rows(self) -> None:
        """Counts the rows of files where registering has not."""

    def plan(self, condition: str) -> int | None:
        """Plans ``SELECT sum(x)`` up to the list of files; how many they are, None if it does not say."""

    def value(self, expression: str, condition: str = "") -> object:
        """What ``SELECT expression`` gives."""

    def unchanged(self) -> None:
        """A repair that finds nothing to do."""

    def commit(self, partition: Partition) -> None:
        """Appends a row to the partition."""

    def close(self) -> None:
        """Stops it."""


def runs_of(contender: Contender, layout: Layout, measure: str) -> Callable[[int], None]:
    """The run of a measure, by the number of the round; it checks what comes out."""
    year, in_year = layout.year

    def plan(condition: str, expected: int) -> None:
        files = contender.plan(condition)
        if files not in {None, expected}:
            raise AssertionError(f"{measure}: {files} files were planned, expected {expected}")

    def value(expected: object, expression: str, condition: str = "") -> None:
        found = contender.value(expression, condition)
        if found != expected:
            raise AssertionError(f"{measure}: {expression} is {found!r}, expected {expected!r}")

    commits = list(written_to(layout, COMMITS))
    found: dict[str, Callable[[int], None]] = {
        "first": lambda _: contender.first(),
        "rows": lambda _: contender.rows(),
        "plan one": lambda number: plan(layout.one(number).condition, 1),
        "run one": lambda number: value(1, "count(x)", layout.one(number + 100).condition),
        "plan year": lambda _: plan(year, in_year),
        "plan all": lambda _: plan("", layout.partitions),
        "count": lambda _: value(layout.partitions, "count(*)"),
        "max": lambda _: value(layout.last_day, "max(ds)"),
        "unchanged": lambda _: contender.unchanged(),
        "commit": lambda number: contender.commit(commits[number]),
    }
    return found[measure]


def measure_all(task: Task, contender: Contender, say: Callable[[dict[str, object]], None]) -> None:
    """Measures, and says so."""
    for measure in task.measures:
        say({"measure": measure, "begun": True})
        run = runs_of(contender, task.layout, measure)
        warmups, rounds = (0, 1) if measure in ONCE else (WARMUPS, ROUNDS)
        begun = time.perf_counter()
        done = 0
        try:
            counted = 0
            while counted < rounds:
                is_warm = done >= warmups and (measure in UNTIMED_WARMUP or time.perf_counter() - begun >= WARM_SECONDS)
                started = time.perf_counter()
                run(done)
                taken = time.perf_counter() - started
                done += 1
                # A run of many seconds is its own warm-up, but for the first.
                is_warm = is_warm or (done > 1 and time.perf_counter() - begun > ENOUGH_SECONDS)
                counted += is_warm
                say({"measure": measure, "seconds": taken, "warm": is_warm})
                if is_warm and time.perf_counter() - begun > ENOUGH_SECONDS:
                    break
        except NoSuchThingError as error:
            say({"measure": measure, "reason": str(error)})
            continue
        if measure == "commit":
            _check_commits(contender, task.layout, done)
        say({"measure": measure, "ended": True})


def _check_commits(contender: Contender, layout: Layout, done: int) -> None:
    partitions = list(written_to(layout, done))
    for partition in dict.fromkeys(partitions):
        found = contender.value("count(x)", partition.condition)
        if found != 1 + partitions.count(partition):
            raise AssertionError(f"commit: {found} rows in {partition.name}")
