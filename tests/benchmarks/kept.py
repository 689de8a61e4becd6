"""What the benchmarks found last, kept as figures; docs/benchmarks.md is drawn from them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tests.benchmarks.measure import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Kept:
    """A benchmark's figures, and where they come from.

    Attributes:
        date: When it was run, as ``2026-11-24``.
        machine: What it ran on.
        outcome: What it found.
    """

    date: str
    machine: str
    outcome: Outcome


def read(file: Path) -> dict[str, Kept]:
    """What is kept of each benchmark, by its name; nothing where there is no file."""
    if not file.is_file():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return {name: _kept(**value) for name, value in found.items()}


def _kept(date: str, machine: str, outcome: Mapping[str, object]) -> Kept:
    return Kept(date, machine, Outcome(**outcome))  # type: ignore[arg-type]


def renewed(
    known: Mapping[str, Kept], found: Mapping[str, Outcome], machine: str, order: Iterable[str]
) -> dict[str, Kept]:
    """What is kept after a run: what it found, and of the benchmarks that it left out what they found before."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    merged = {**known, **{name: Kept(today, machine, outcome) for name, outcome in found.items()}}
    return {name: merged[name] for name in order if name in merged}


def write(file: Path, kept: Mapping[str, Kept]) -> None:
    """Keep the figures in the file."""
    text = json.dumps({name: asdict(one) for name, one in kept.items()}, indent=1, ensure_ascii=False)
    file.write_text(f"{text}\n", encoding="utf-8")


def drawn(kept: Mapping[str, Kept]) -> str:
    """The page's part that is made: the aims of all, and a section of each."""
    lines = [
        "# Benchmarks",
        "",
        "<!-- Made by `make bench`, but for the last section. -->",
        "",
        "Each section says when and on which machine it was measured. `make bench` runs all benchmarks again, "
        '`make bench B="NAME --keep"` the one with this name.',
        "",
        "| aim | result | measured |",
        "|---|---|---|",
    ]
    for one in kept.values():
        lines += [f"| {aim} | {'reached' if ok else '**missed**'} | {figure} |" for aim, ok, figure in one.outcome.aims]
    for name, one in kept.items():
        outcome = one.outcome
        lines += ["", f"## {outcome.title}", "", f"`{name}`, {one.date}: {one.machine}. {outcome.how}", ""]
        lines += [f"| {' | '.join(outcome.columns)} |", "|---" + "|--:" * (len(outcome.columns) - 1) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in outcome.rows]
    return "\n".join(lines) + "\n"
