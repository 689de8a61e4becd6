"""Timing: warm, interleaved, medians; and what the figures were measured on."""

from __future__ import annotations

import math
import os
import platform
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PROJECT = Path(__file__).resolve().parents[2]
"""Where ``python -m tests.…`` finds its modules."""

_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""The 97.5 % quantiles of Student's t with 1, 2, … degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One benchmark's figures.

    Attributes:
        title: What was measured.
        how: One sentence on how.
        columns: The heads of the table.
        rows: Its cells, as text.
        aims: Each aim, whether it was reached, and with which figure.
    """

    title: str
    how: str
    columns: list[str]
    rows: list[list[str]]
    aims: list[tuple[str, bool, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Interval:
    """A relative difference: 0.03 is 3 % more. In 95 of 100 such intervals lies what is true.

    Attributes:
        middle: The estimate.
        half: How far each end is from it.
    """

    middle: float
    half: float

    def __str__(self) -> str:
        return f"{self.middle * 100:+.1f} % ± {self.half * 100:.1f}"


def interval(logarithms: Sequence[float]) -> Interval:
    """Of the logarithms of independent ratios, at least two and at most sixteen.

    Raises:
        ValueError: They are too few or too many.
    """
    if not 2 <= len(logarithms) <= len(_STUDENT) + 1:
        raise ValueError(f"an interval is of 2 to {len(_STUDENT) + 1} ratios, not of {len(logarithms)}")
    error = statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    return Interval(math.expm1(statistics.fmean(logarithms)), _STUDENT[len(logarithms) - 2] * error)


def interleaved(
    contenders: Mapping[str, Callable[[int], object]], *, rounds: int, warmups: int = 1
) -> dict[str, list[float]]:
    """The seconds of each run of each contender; they take turns, so that a busy moment hits all of them alike.

    Args:
        contenders: Each is called with the number of the round, counted from 0 with the warm-ups.
        rounds: Runs that count.
        warmups: Runs before them that do not.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(warmups + rounds):
        # Another one begins each round: who runs first may pay for what the last one left behind.
        for name in names[number % len(names) :] + names[: number % len(names)]:
            run = contenders[name]
            started = time.perf_counter()
            run(number)
            taken = time.perf_counter() - started
            if number >= warmups:
                seconds[name].append(taken)
    return seconds


def median(values: list[float]) -> float:
    """The median."""
    return statistics.median(values)


def shown(seconds: float | None) -> str:
    """A duration for the table: milliseconds below a second."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def ratio(one: float, other: float) -> str:
    """How much longer ``one`` is than ``other``, in percent."""
    return f"{(one / other - 1) * 100:+.0f} %"


def machine() -> str:
    """What the figures were measured on, in one sentence."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cores} cores ({_processor()}), {memory:.0f} GiB of memory, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load average {os.getloadavg()[0]:.1f} when it began"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
