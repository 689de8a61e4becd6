"""The doctor command."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from catalog_ext.cli.invocation import Invocation, message_console
from catalog_ext.cli.listing import Listing
from catalog_ext.cli.options import list_options
from catalog_ext.cli.progress import spinner
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview.layout import ListColumn, can_draw

if TYPE_CHECKING:
    from catalog_ext.cli.checks import Finding
    from catalog_ext.cli.listing import Shape

_MARKS = {"ok": "✓", "warning": "!", "wrong": "✗", "skipped": "-"}
_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red", "skipped": "dim"}
_CHECKS = (
    ListColumn("state", "", cell=lambda state: _MARKS[state] if can_draw(sys.stdout.encoding) else state),
    ListColumn("area"),
    ListColumn("check"),
    ListColumn("found", wraps=True),
    ListColumn("remedy", "", wraps=True, own_line=True),
)
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z])")


@click.command(short_help="Check index, metastore, store and Spark.")
@click.option("--quick", is_flag=True, help="Skip the checks that start a server or compile the connector.")
@list_options(_CHECKS)
@click.pass_obj
def doctor(invocation: Invocation, quick: bool, shape: Shape) -> None:
    """Check the index, the metastore, the store and Spark, and print a remedy for each problem.

    Nothing is changed. Exits with 1 if a check failed; a warning is no failure.
    """
    from catalog_ext.cli.checks import CheckState, Finding, findings

    found: list[Finding] = []
    try:
        settings = invocation.settings()
    except CatalogExtError as error:
        found.append(Finding("settings", "valid", CheckState.WRONG, error.message))
    else:
        with spinner(message_console(), "Looking at the index, the metastore, the store and Spark"):
            found.extend(findings(settings, quick=quick))
    wrong = sum(finding.state is CheckState.WRONG for finding in found)
    rows = [_row(finding, is_text=shape.is_text) for finding in found]
    end = _end(found)
    listing = Listing(("check", "checks"), _CHECKS, {"healthy": wrong == 0}, style=lambda row: _STYLES[row["state"]])
    listing.show(shape, rows, len(rows), end=end)
    if wrong:
        raise click.exceptions.Exit(1)


def _row(finding: Finding, *, is_text: bool) -> dict[str, Any]:
    """Return a finding as a row. In a text table the remedy is on lines of its own, and is removed from ``found``."""
    problem, *remedy = _SENTENCE.split(finding.found, maxsplit=1) if finding.needs_action else [finding.found]
    fields = asdict(finding) | {"state": finding.state.value, "remedy": remedy[0] if remedy else None}
    return fields | {"found": problem} if is_text else fields


def _end(found: list[Finding]) -> str:
    states = [finding.state.value for finding in found]
    wrong, warnings, of = states.count("wrong"), states.count("warning"), counted(len(found), "check")
    also = f" {counted(warnings, 'warning')}: see the lines with !." if warnings else ""
    if wrong:
        return f"{wrong:,} of {of} found something wrong.{also}"
    return f"Nothing is wrong.{also}" if warnings else "Everything is in order."
