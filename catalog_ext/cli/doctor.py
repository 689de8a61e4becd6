"""The doctor command."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console
from catalog_ext.cli.listing import Listing
from catalog_ext.cli.options import list_options
from catalog_ext.cli.output import can_draw
from catalog_ext.cli.progress import spinner
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview.layout import Column

if TYPE_CHECKING:
    from catalog_ext.cli.checks import Finding
    from catalog_ext.cli.listing import Shape

_MARKS = {"ok": "✓", "warning": "!", "wrong": "✗", "skipped": "-"}
_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red", "skipped": "dim"}
_CHECKS = (
    Column("state", "", cell=lambda state: _MARKS[state] if can_draw(sys.stdout.encoding) else state),
    Column("area"),
    Column("check"),
    Column("found", wraps=True),
)


@click.command(short_help="Check index, metastore, store and Spark; say remedies.")
@click.option("--quick", is_flag=True, help="Leave out what starts a server or compiles the connector.")
@list_options(_CHECKS)
@click.pass_obj
def doctor(invocation: Invocation, quick: bool, shape: Shape) -> None:
    """Check the index, the metastore, the store and Spark; say what is wrong and how to mend it.

    Exits with 1 when something is wrong.
    """
    from catalog_ext.cli.checks import Finding, State, findings

    found: list[Finding] = []
    try:
        settings = invocation.settings()
    except CatalogExtError as error:
        found.append(Finding("settings", "valid", State.WRONG, error.message))
    else:
        with spinner(message_console(), "Looking at the index, the metastore, the store and Spark"):
            found.extend(findings(settings, quick=quick))
    wrong = sum(finding.state is State.WRONG for finding in found)
    rows = [asdict(finding) | {"state": finding.state.value} for finding in found]
    of = counted(len(found), "check")
    end = f"{wrong:,} of {of} found something wrong." if wrong else "Everything is in order."
    listing = Listing(("check", "checks"), _CHECKS, {"healthy": wrong == 0}, style=lambda row: _STYLES[row["state"]])
    listing.show(shape, rows, len(rows), end=end)
    if wrong:
        raise click.exceptions.Exit(1)
