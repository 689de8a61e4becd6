"""``python -m tests.benchmarks [NAME …]``: measures, prints the tables, and keeps them in docs/benchmarks.md.

What people have written there, below the tables, stays.
Single benchmarks are printed and not kept, unless ``--keep`` says so: then their sections are renewed, and no others.
``peers`` takes hours and is never among "all": its section of the page, its figures and its curves stay until it is
asked for by name.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from tests.benchmarks import (
    committing,
    drifting,
    following,
    kept,
    learning,
    many_files,
    planning,
    repairing,
    scan,
    startup,
    writing,
)
from tests.benchmarks import page as pages
from tests.benchmarks.measure import Outcome, machine
from tests.benchmarks.peers import comparing, page
from tests.benchmarks.stand import open_stand

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
FIGURES = PAGE.parent / "benchmarks" / "figures.json"
NOTES = "## Where the time goes"
"""The heading under which people write; everything above it is written anew."""

BENCHMARKS = {
    "startup": startup.run,
    "planning": planning.run,
    "many": many_files.run,
    "scan": scan.run,
    "learning": learning.run,
    "unchanged": repairing.unchanged,
    "first": repairing.first,
    "memory": repairing.memory,
    "writing": writing.run,
    "commits": committing.commits,
    "appenders": committing.appenders,
    "following": following.following,
    "drift": drifting.drift,
    "drift-hive": drifting.drift_on_hive,
    "page": lambda _: pages.page(),
}
PEERS = "peers"
"""It needs no stand: every contender has its own process."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default; or {PEERS}"
    )
    parser.add_argument(
        "--keep", action="store_true", help="renew the sections of single benchmarks in docs/benchmarks.md, too"
    )
    comparing.add_arguments(parser.add_argument_group(PEERS))
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {*BENCHMARKS, PEERS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    console = Console(width=120, highlight=False)
    measured_on = machine()
    console.print(measured_on)
    outcomes: dict[str, Outcome] = {}
    if PEERS in options.names:
        target = PAGE if options.keep else None
        comparing.run(options.sizes, options.contenders, options.limits, measured_on, page=target, notes=NOTES)
    names = [name for name in options.names if name != PEERS] if options.names else list(BENCHMARKS)
    if not names:
        return 0
    with ExitStack() as stack:
        # The page has a catalog of its own, and no Spark.
        stand = stack.enter_context(open_stand()) if set(names) != {"page"} else None
        for name in names:
            started = time.monotonic()
            outcome = pages.page() if stand is None else BENCHMARKS[name](stand)
            outcomes[name] = outcome
            _show(console, outcome)
            console.print(f"({name} took {time.monotonic() - started:.0f} s)", style="dim")
    if options.keep or not options.names:
        _keep(outcomes, measured_on)
        console.print(f"kept in {PAGE.name}")
    return 0


def _keep(outcomes: Mapping[str, Outcome], measured_on: str) -> None:
    figures = kept.renewed(kept.read(FIGURES), outcomes, measured_on, BENCHMARKS)
    kept.write(FIGURES, figures)
    PAGE.write_text(kept.drawn(figures) + _notes(), encoding="utf-8")


def _show(console: Console, outcome: Outcome) -> None:
    table = Table(title=outcome.title, caption=outcome.how, title_justify="left", caption_justify="left")
    for position, column in enumerate(outcome.columns):
        table.add_column(column, justify="right" if position else "left")
    for row in outcome.rows:
        table.add_row(*row)
    console.print(table)
    for aim, reached, figure in outcome.aims:
        console.print(f"{'reached' if reached else 'MISSED '}  {aim}: {figure}", style="green" if reached else "red")


def _notes() -> str:
    """The sections that the tables do not make: the peers' and people's."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    _, peers, text = page.parted(text) if page.TITLE in text else ("", "", text)
    _, found, notes = text.partition(NOTES)
    return "".join(f"\n{section.strip()}\n" for section in (peers, f"{found}{notes}") if section)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
