"""The doctor command."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.text import Text

from catalog_ext.cli.checks import Finding, State, findings
from catalog_ext.cli.invocation import Invocation, message_console, output_console
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import echo_json, make_table, note, shown
from catalog_ext.cli.progress import spinner
from catalog_ext.metastore.errors import CatalogExtError

_MARKS = {
    State.OK: ("✓", "green"),
    State.WARNING: ("!", "yellow"),
    State.WRONG: ("✗", "bold red"),
    State.SKIPPED: ("-", "dim"),
}


@click.command()
@click.option("--quick", is_flag=True, help="Leave out what starts a server or compiles the connector.")
@json_option
@click.pass_obj
def doctor(invocation: Invocation, quick: bool, as_json: bool) -> None:
    """Check the index, the metastore, the store and Spark; say what is wrong and how to mend it.

    Exits with 1 when something is wrong.
    """
    found: list[Finding] = []
    try:
        settings = invocation.settings()
    except CatalogExtError as error:
        found.append(Finding("settings", "valid", State.WRONG, error.message))
    else:
        with spinner(message_console(), "Looking at the index, the metastore, the store and Spark"):
            found.extend(findings(settings, quick=quick))
    wrong = sum(finding.state is State.WRONG for finding in found)
    if as_json:
        echo_json({"healthy": wrong == 0, "checks": [asdict(finding) for finding in found]})
    else:
        _print(found, wrong)
    if wrong:
        raise click.exceptions.Exit(1)


def _print(found: list[Finding], wrong: int) -> None:
    console = output_console()
    table = make_table((("", "left"), ("area", "left"), ("check", "left"), ("found", "left")))
    for finding in found:
        mark, style = _MARKS[finding.state]
        cells = (
            Text(mark, style),
            Text(finding.area),
            Text(finding.check),
            Text(shown(finding.found), style if wrong else ""),
        )
        table.add_row(*cells)
    console.print(table)
    note(console, "Everything is in order." if not wrong else f"{wrong} of {len(found)} checks found something wrong.")
