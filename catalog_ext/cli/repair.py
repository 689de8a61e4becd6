"""The repair command and its report."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.options import json_option, where_of, where_options
from catalog_ext.cli.output import add_row, make_table, note, size
from catalog_ext.cli.progress import progress_bar
from catalog_ext.metastore.errors import RepairRefusedError

if TYPE_CHECKING:
    from rich.console import Console

    from catalog_ext.repair.report import RepairReport, ReportEntries

_EXIT_FOUND = 3
_STYLES = {"add": "green", "drop": "red", "change": "yellow", "skip": "magenta"}
_WORDS = {"add": "added", "drop": "dropped", "change": "changed", "skip": "skipped"}
_FUTURE = {"add": "to add", "drop": "to drop", "change": "to change", "skip": "skipped"}


@click.command()
@click.argument("table")
@click.option(
    "--mode",
    type=click.Choice(["add", "drop", "sync"]),
    default="sync",
    show_default=True,
    help="add: register what is new; drop: remove what is gone; sync: both, and refresh changed files.",
)
@where_options
@click.option("--dry-run", is_flag=True, help="Preview: say what would be done and change nothing.")
@click.option("--force", is_flag=True, help="Drop however much has gone, such as all that the table has.")
@click.option("--strict", is_flag=True, help="Change nothing and exit with 3 if a path would be skipped.")
@click.option("--verify", is_flag=True, help="Skip new and changed files that cannot be read as their format.")
@click.option("--check", is_flag=True, help="As --dry-run, and exit with 3 unless the table is in step.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    metavar="ROWS",
    help="Entries to show of each kind, 0 for all.",
)
@json_option
@click.pass_obj
def repair(
    invocation: Invocation,
    table: str,
    mode: str,
    where: str | None,
    spec: tuple[str, ...],
    dry_run: bool,
    force: bool,
    strict: bool,
    verify: bool,
    check: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Bring the index, and after it the metastore, in step with the files of TABLE.

    \b
    catalog-ext repair sales.trips --dry-run
    catalog-ext repair sales.trips --where "ds >= '2025-01-01'"
    catalog-ext repair sales.trips --mode add -p region=eu --strict
    """  # noqa: D301 -- click wants the character, not a raw backslash
    preview = dry_run or check
    with invocation.catalog(with_metastore=not preview) as catalog:
        with progress_bar(message_console(), f"Repairing {table}") as progress:
            report = catalog.repair_partitions(
                table,
                mode=mode,
                where=where_of(where, spec),
                dry_run=preview,
                strict=strict and not check,
                verify=verify,
                allow_mass_drop=force,
                progress=progress,
            )
            if report.pending_deliveries and (delivery := settle(catalog)) is not None:
                report.pending_deliveries, report.delivery_error = delivery.pending, delivery.error
        if as_json:
            click.echo(report.to_json())
        else:
            print_report(report, output_console(), limit)
    if strict and report.skipped:
        raise RepairRefusedError(
            f"{len(report.skipped)} paths of table {report.table} are skipped, and --strict was given."
        )
    if check and not report.in_step:
        raise click.exceptions.Exit(_EXIT_FOUND)


def print_report(report: RepairReport, console: Console, limit: int) -> None:
    """Print the report: what it is about, the sums, and the first entries of each kind.

    Args:
        report: The report.
        console: Where to.
        limit: Entries of each kind at most; 0 for all.
    """
    words = _FUTURE if report.dry_run else _WORDS
    title = f"Preview of the repair of {report.table}" if report.dry_run else f"Repaired {report.table}"
    note(console, f"{title}, mode {report.mode}{f', where {report.where}' if report.where else ''}", "bold")
    if not len(report):
        note(console, "In step: nothing to add, drop or change, nothing skipped.")
    else:
        console.print()
        console.print(_sums(report, words))
        kinds = {"add": report.added, "drop": report.dropped, "change": report.changed, "skip": report.skipped}
        for action, entries in kinds.items():
            if entries:
                _print_entries(console, action, words[action], entries, limit)
    _print_end(report, console)


def _differs(report: RepairReport) -> bool:
    return bool(report.added or report.dropped or report.changed)


def _sums(report: RepairReport, words: dict[str, str]) -> object:
    table = make_table((("", "left"), ("partitions", "right"), ("files", "right"), ("size", "right")))
    for action in ("add", "drop", "change"):
        counts = report.counts(action)
        style = _STYLES[action] if counts.partitions else "dim"
        add_row(table, words[action], counts.partitions, counts.files, size(counts.bytes), style=style)
    skipped = report.counts("skip")
    noun = "path" if len(report.skipped) == 1 else "paths"
    row = (f"{words['skip']} ({len(report.skipped):,} {noun})", "", skipped.files, size(skipped.bytes))
    add_row(table, *row, style=_STYLES["skip"] if report.skipped else "dim")
    return table


def _print_entries(console: Console, action: str, word: str, entries: ReportEntries, limit: int) -> None:
    shown = len(entries) if limit == 0 else min(limit, len(entries))
    more = f", the first {shown:,} of {len(entries):,}" if shown < len(entries) else ""
    console.print()
    note(console, f"{word.capitalize()}{more}", f"bold {_STYLES[action]}")
    table = make_table((("path", "left"), ("files", "right"), ("size", "right"), ("why", "left")))
    for entry in islice(entries, shown):
        add_row(table, entry.path, entry.files, size(entry.bytes), entry.reason)
    console.print(table)


def _print_end(report: RepairReport, console: Console) -> None:
    if len(report):
        console.print()
    if report.dry_run:
        again = " Without --check or --dry-run it is applied." if _differs(report) and not report.refused else ""
        note(console, f"Nothing was changed.{again}")
        for entry in report.refused:
            note(console, f"{entry.reason[:1].upper()}{entry.reason[1:]}", "red")
        return
    note(console, f"The table is at version {report.version}.")
    if report.pending_deliveries:
        note(
            console,
            f"The metastore has not taken everything yet ({report.pending_deliveries:,} pending: "
            f"{report.delivery_error}). It is kept and delivered later, in order.",
            "yellow",
        )
