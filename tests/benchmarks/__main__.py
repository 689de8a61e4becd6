"""``python -m tests.benchmarks [NAME …]``: measures, prints the tables, and keeps them in docs/benchmarks.md.

What people have written there, below the tables, stays.
Single benchmarks are printed and not kept, unless ``--keep`` says so. ``peers`` takes hours and is never among "all":
its section of the page, its figures and its curves stay until it is asked for by name.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks import committing, many_files, planning, repairing, scan, writing
from tests.benchmarks.measure import Outcome, machine
from tests.benchmarks.peers import comparing, page
from tests.benchmarks.stand import open_stand

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
NOTES = "## Where the time goes"
"""The heading under which people write; everything above it is written anew."""

BENCHMARKS = {
    "planning": planning.run,
    "many": many_files.run,
    "scan": scan.run,
    "unchanged": repairing.unchanged,
    "first": repairing.first,
    "memory": repairing.memory,
    "writing": writing.run,
    "commits": committing.commits,
    "appenders": committing.appenders,
}
PEERS = "peers"
"""It needs no stand: every contender has its own process."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default; or {PEERS}"
    )
    parser.add_argument("--keep", action="store_true", help="write docs/benchmarks.md even after single benchmarks")
    comparing.add_arguments(parser.add_argument_group(PEERS))
    options = parser.parse_args(arguments)
    unknown = set(options.names) - {*BENCHMARKS, PEERS}
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    console = Console(width=120, highlight=False)
    measured_on = machine()
    console.print(measured_on)
    outcomes = []
    if PEERS in options.names:
        kept = PAGE if options.keep else None
        comparing.run(options.sizes, options.contenders, options.limits, measured_on, page=kept, notes=NOTES)
    names = [name for name in options.names if name != PEERS] if options.names else list(BENCHMARKS)
    if not names:
        return 0
    with open_stand() as stand:
        for name in names:
            started = time.monotonic()
            outcome = BENCHMARKS[name](stand)
            outcomes.append(outcome)
            _show(console, outcome)
            console.print(f"({name} took {time.monotonic() - started:.0f} s)", style="dim")
    if options.keep or not options.names:
        PAGE.write_text(_page(outcomes, measured_on), encoding="utf-8")
        console.print(f"kept in {PAGE.name}")
    return 0


def _show(console: Console, outcome: Outcome) -> None:
    table = Table(title=outcome.title, caption=outcome.how, title_justify="left", caption_justify="left")
    for position, column in enumerate(outcome.columns):
        table.add_column(column, justify="right" if position else "left")
    for row in outcome.rows:
        table.add_row(*row)
    console.print(table)
    for aim, reached, figure in outcome.aims:
        console.print(f"{'reached' if reached else 'MISSED '}  {aim}: {figure}", style="green" if reached else "red")


def _page(outcomes: list[Outcome], measured_on: str) -> str:
    lines = [
        "# Benchmarks",
        "",
        "<!-- Made by `make bench`, but for the last section. -->",
        "",
        f"Measured on {time.strftime('%Y-%m-%d', time.gmtime())}: {measured_on}. Medians of warm runs that take turns. "
        "`make bench` measures again; `python -m tests.benchmarks NAME` measures one.",
        "",
        "| aim | | measured |",
        "|---|---|---|",
    ]
    for outcome in outcomes:
        lines += [f"| {aim} | {'reached' if ok else '**missed**'} | {figure} |" for aim, ok, figure in outcome.aims]
    for outcome in outcomes:
        lines += ["", f"## {outcome.title}", "", outcome.how, "", f"| {' | '.join(outcome.columns)} |"]
        lines.append("|---" + "|--:" * (len(outcome.columns) - 1) + "|")
        lines += [f"| {' | '.join(row)} |" for row in outcome.rows]
    return "\n".join(lines) + "\n" + _notes()


def _notes() -> str:
    """The sections that the tables do not make: the peers' and people's."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    _, peers, text = page.parted(text) if page.TITLE in text else ("", "", text)
    _, found, notes = text.partition(NOTES)
    return "".join(f"\n{section.strip()}\n" for section in (peers, f"{found}{notes}") if section)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
