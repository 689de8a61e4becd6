"""Measures the contenders side by side, size by size; every contender gets the same tree, one after the other."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.measure import shown
from tests.benchmarks.peers import table
from tests.benchmarks.peers.contender import COMMITS
from tests.benchmarks.peers.curves import draw
from tests.benchmarks.peers.figures import CONTENDERS, MEASURES, SIZES, Comparison
from tests.benchmarks.peers.page import FOLDER, curve_name, has_curve, placed, section
from tests.benchmarks.peers.processes import Assignment, Limits, measure
from tests.benchmarks.trees import seed_file

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from tests.benchmarks.peers.figures import Answers

PROJECT = Path(__file__).resolve().parents[3]
FIGURES = PROJECT / "docs" / FOLDER / "peers.json"


def add_arguments(group: argparse._ArgumentGroup) -> None:
    """The options of the comparison: ``sizes``, ``contenders`` and ``limits``."""
    group.add_argument(
        "--sizes", type=_numbers, default=SIZES, help="partitions of the tables, such as 1000,100000 (default: all)"
    )
    group.add_argument(
        "--contenders", type=_names, default=tuple(CONTENDERS), help=f"of {','.join(CONTENDERS)} (default: all)"
    )
    group.add_argument(
        "--limits", type=_limits, default=Limits(), help="seconds of a set-up and of a run (default: 600,120)"
    )


def run(
    sizes: Iterable[int], contenders: Iterable[str], limits: Limits, machine: str, *, page: Path | None, notes: str
) -> None:
    """Measures, prints the section, and keeps it with its figures and curves if there is a page.

    Args:
        sizes: Partitions of the tables.
        contenders: Of ``CONTENDERS``.
        limits: How long a contender may take.
        machine: What is measured on, in a sentence.
        page: The page; the figures of earlier runs, which are below it, stay where nothing newer is measured.
        notes: The heading of the page before which the section goes the first time.
    """
    measured = Comparison()
    for answers in compare(sizes, contenders, limits):
        measured = answers.added_to(measured)
        if page is not None:
            # After each contender: a run that breaks off has not been for nothing, nor what another has kept meanwhile.
            kept = answers.added_to(Comparison.load(FIGURES))
            kept.save(FIGURES)
            write_page(kept, machine, page, notes)
    print(section(measured, machine))


def write_page(comparison: Comparison, machine: str, page: Path, notes: str) -> None:
    """The section in its place on the page, and the curves beside it."""
    text = page.read_text(encoding="utf-8")
    page.write_text(placed(text, section(comparison, machine), notes), encoding="utf-8")
    for name, title in MEASURES.items():
        if has_curve(comparison, name):
            draw(comparison, name, title.replace("`", ""), page.parent / FOLDER / curve_name(name))


def compare(sizes: Iterable[int], contenders: Iterable[str], limits: Limits) -> Iterator[Answers]:
    """What each contender answers, size by size; every contender gets the same tree, one after the other.

    Args:
        sizes: Partitions of the tables.
        contenders: Of ``CONTENDERS``.
        limits: How long a contender may take.
    """
    folder = Path(tempfile.mkdtemp(prefix="catalog-ext-peers-"))
    chosen = [name for name in CONTENDERS if name in set(contenders)]
    try:
        seed = seed_file(folder / "seed")
        for size in sizes:
            root = folder / f"t{size}"
            started = time.monotonic()
            table.build(root, seed, size)
            print(f"{size:,} partitions built in {time.monotonic() - started:.0f} s", flush=True)
            for name in chosen:
                yield _measure(name, root, size, limits)
            shutil.rmtree(root)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(name: str, root: Path, size: int, limits: Limits) -> Answers:
    measured = f"{time.strftime('%Y-%m-%d', time.gmtime())}, load {os.getloadavg()[0]:.1f}"
    folder = root.parent / f"{name}-{size}"
    started = time.monotonic()
    try:
        answers = measure(Assignment(name, root, folder, size, tuple(MEASURES), limits), measured)
    finally:
        table.restore(root, list(table.written_to(table.Layout(size), COMMITS)))
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{CONTENDERS[name]}, {size:,} partitions ({time.monotonic() - started:.0f} s, {measured}):", flush=True)
    for figure in answers.figures:
        print(f"  {MEASURES[figure.measure]}: {figure.reason or shown(figure.seconds)}", flush=True)
    return answers


def _numbers(text: str) -> tuple[int, ...]:
    sizes = tuple(int(part.replace("_", "")) for part in text.split(","))
    if min(sizes) < 1:
        raise ValueError("a table has at least one partition")
    return sizes


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(CONTENDERS):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
    return names


def _limits(text: str) -> Limits:
    setup, one_run = text.split(",")
    return Limits(float(setup), float(one_run))
