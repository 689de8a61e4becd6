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
from tests.benchmarks.peers.figures import CONTENDERS, MEASURES, Comparison
from tests.benchmarks.peers.processes import Assignment, Limits, measure
from tests.benchmarks.trees import seed_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SIZES = (1_000, 100_000, 1_000_000)


def compare(
    known: Comparison,
    sizes: Iterable[int],
    contenders: Iterable[str],
    limits: Limits,
    keep: Callable[[Comparison], None],
) -> Comparison:
    """What was known, with what is measured now in its place.

    Args:
        known: From earlier runs.
        sizes: Partitions of the tables.
        contenders: Of ``CONTENDERS``.
        limits: How long a contender may take.
        keep: Is given everything after each contender, so that a run that breaks off has not been for nothing.
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
                known = _measure(known, name, root, size, limits)
                keep(known)
            shutil.rmtree(root)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return known


def _measure(known: Comparison, name: str, root: Path, size: int, limits: Limits) -> Comparison:
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
    return known.merged(answers.figures, {name: answers.version})
