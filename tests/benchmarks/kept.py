"""What the benchmarks found last, kept as figures; docs/benchmarks.md is drawn from them."""

from __future__ import annotations

import itertools
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
    shared = _shared_machine([one.machine for one in kept.values()])
    lines = [
        "# Benchmarks",
        "",
        "<!-- Made by `make bench`, but for the last section. -->",
        "",
        f"Each section says when it was measured{f', on a machine with {shared}' if shared else ' and where'}. "
        '`make bench` runs all benchmarks again, `make bench B="NAME --keep"` the one with this name.',
        "",
        "| aim | result | measured |",
        "|---|---|---|",
    ]
    for one in kept.values():
        lines += [f"| {aim} | {'reached' if ok else '**missed**'} | {figure} |" for aim, ok, figure in one.outcome.aims]
    for name, one in kept.items():
        outcome = one.outcome
        own = one.machine.removeprefix(shared).removeprefix(", ")
        measured = ": ".join(part for part in (f"`{name}`, {one.date}", own) if part)
        lines += ["", f"## {outcome.title}", "", f"{measured}. {outcome.how}", ""]
        lines += [f"| {' | '.join(outcome.columns)} |", "|---" + "|--:" * (len(outcome.columns) - 1) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in outcome.rows]
    return "\n".join(lines) + "\n"


def _shared_machine(machines: list[str]) -> str:
    """The parts of the machines' descriptions that all benchmarks share, from the start; empty for one benchmark."""
    if len(machines) < 2:
        return ""
    parts_of_all = zip(*(machine.split(", ") for machine in machines), strict=False)
    common = itertools.takewhile(lambda parts: len(set(parts)) == 1, parts_of_all)
    return ", ".join(parts[0] for parts in common)
