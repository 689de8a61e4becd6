"""The repair command and its report."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from catalog_ext.cli import EXIT_REFUSED
from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.listing import Listing, print_table
from catalog_ext.cli.options import list_options, where_of, where_options
from catalog_ext.cli.output import note
from catalog_ext.cli.progress import progress_bar
from catalog_ext.metastore.errors import RepairRefusedError
from catalog_ext.metastore.runtime.wording import counted, format_bytes
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from rich.console import Console

    from catalog_ext.cli.listing import Shape
    from catalog_ext.repair.report import RepairReport, ReportEntries

_SHOWN = 20
_BYTES = ListColumn("bytes", "size", right=True, cell=format_bytes, rank=2)
_ENTRIES = (
    ListColumn("action", hidden=True), ListColumn("partition", hidden=True), ListColumn("path"),
    ListColumn("files", right=True, rank=3), _BYTES, ListColumn("reason", "why", wraps=True),
)  # fmt: skip
_SUMS = (ListColumn("what", ""), ListColumn("partitions", right=True), ListColumn("files", right=True), _BYTES)
_STYLES = {"add": "green", "drop": "red", "change": "yellow", "skip": "magenta", "warn": "yellow"}
_WORDS = {"add": "added", "drop": "dropped", "change": "changed", "skip": "skipped", "warn": "warnings"}
_FUTURE = {"add": "to add", "drop": "to drop", "change": "to change", "skip": "skipped", "warn": "warnings"}


@click.command(short_help="Sync the index and the metastore with TABLE's files.")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--mode", type=click.Choice(["add", "drop", "sync"]), default="sync", show_default=True,
    help="add: only register new partitions; drop: only remove vanished ones; sync: both, and record changed files.",
)  # fmt: skip
@where_options
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="No limit on the share of partitions that may be dropped at once. Default: `repair.mass-drop-percent` (50).",
)
@click.option("--strict", is_flag=True, help="If any path would be skipped, change nothing and exit with 3.")
@click.option(
    "--verify",
    is_flag=True,
    help="Open new and changed files, and skip those that Spark cannot read with the table's schema.",
)
@click.option(
    "--verify-all", is_flag=True, help="As --verify, and also report registered files that Spark cannot read."
)
@click.option("--check", is_flag=True, help="As --dry-run, and exit with 3 if the table is out of sync.")
@list_options(_ENTRIES, shown=_SHOWN)
@click.pass_obj
def repair(
    invocation: Invocation, table: str, mode: str, where: str | None, spec: tuple[str, ...], dry_run: bool, force: bool,
    strict: bool, verify: bool, verify_all: bool, check: bool, shape: Shape,
) -> None:  # fmt: skip
    """Bring the index, and then the metastore, in sync with the files of TABLE.

    Lists the table's location in the store and registers new partitions and files, removes vanished ones, and records
    changed files. It is what MSCK REPAIR TABLE does in Hive. No data file is changed or deleted.

    \b
    catalog-ext repair sales.trips --dry-run
    catalog-ext repair sales.trips --where "ds >= '2025-01-01'"
    catalog-ext repair sales.trips --mode add -p region=eu --strict
    """  # noqa: D301 -- click wants the character, not a raw backslash
    preview = dry_run or check
    with invocation.catalog(with_metastore=not preview) as catalog:
        with progress_bar(message_console(), f"Repairing {table}", catalog) as progress:
            report = catalog.repair_partitions(
                table, mode=mode, where=where_of(where, spec), dry_run=preview, strict=strict and not check,
                verify="all" if verify_all else verify, allow_mass_drop=force, progress=progress,
            )  # fmt: skip
            if report.pending_deliveries and (delivery := settle(catalog)) is not None:
                report.pending_deliveries, report.delivery_error = delivery.pending, delivery.error
        _show(report, shape)
    if strict and report.skipped:
        raise RepairRefusedError(
            f"{counted(len(report.skipped), 'path')} of table {report.table} "
            f"{'is' if len(report.skipped) == 1 else 'are'} skipped, and --strict was given."
        )
    if check and not report.in_sync:
        raise click.exceptions.Exit(EXIT_REFUSED)


def _show(report: RepairReport, shape: Shape) -> None:
    if shape.is_json:
        click.echo(report.to_json())
    elif shape.is_text:
        print_report(report, output_console(), shape)
    else:
        Listing(("entry", "entries"), _ENTRIES).show_rows(shape, (entry._asdict() for entry in report))


def print_report(report: RepairReport, console: Console, shape: Shape) -> None:
    """Print the report: the table, the totals, and the first entries of each kind of change."""
    words = _FUTURE if report.dry_run else _WORDS
    title = f"Preview of the repair of {report.table}" if report.dry_run else f"Repaired {report.table}"
    note(console, f"{title}, mode {report.mode}{f', where {report.where}' if report.where else ''}", "bold")
    if not len(report):
        note(console, "In sync: nothing to add, drop or change, nothing skipped.")
    else:
        console.print()
        _print_sums(console, report, words, shape)
        kinds = {
            "add": report.added, "drop": report.dropped, "change": report.changed, "skip": report.skipped,
            "warn": report.warnings,
        }  # fmt: skip
        for action, entries in kinds.items():
            if entries:
                _print_entries(console, action, words[action], entries, shape)
    _print_end(report, console)


def _differs(report: RepairReport) -> bool:
    return bool(report.added or report.dropped or report.changed)


def _print_sums(console: Console, report: RepairReport, words: dict[str, str], shape: Shape) -> None:
    rows, styles = [], {}
    for action in ("add", "drop", "change"):
        counts = report.counts(action)
        rows.append(
            {"what": words[action], "partitions": counts.partitions, "files": counts.files, "bytes": counts.bytes}
        )
        styles[words[action]] = _STYLES[action] if counts.partitions else "dim"
    skipped = report.counts("skip")
    name = f"{words['skip']} ({counted(len(report.skipped), 'path')})"
    rows.append({"what": name, "partitions": None, "files": skipped.files, "bytes": skipped.bytes})
    styles[name] = _STYLES["skip"] if report.skipped else "dim"
    print_table(console, _SUMS, rows, shape.width, lambda row: styles[row["what"]])


def _print_entries(console: Console, action: str, word: str, entries: ReportEntries, shape: Shape) -> None:
    most = shape.most(_SHOWN) or len(entries)
    more = f", the first {most:,} of {len(entries):,}" if most < len(entries) else ""
    console.print()
    note(console, f"{word.capitalize()}{more}", f"bold {_STYLES[action]}")
    rows = (entry._asdict() for entry in islice(entries, most))
    print_table(console, shape.chosen(_ENTRIES), rows, shape.width)


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
        from catalog_ext.metastore.hive.outbox.delivery import UNDER_WAY

        why = (report.delivery_error or UNDER_WAY).rstrip(".")
        note(
            console,
            f"The metastore has not taken everything yet ({report.pending_deliveries:,} pending: {why}). It is kept "
            "and delivered later, in order.",
            "yellow",
        )
