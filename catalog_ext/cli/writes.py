"""Commands on writes: running and past writes, recovery, and vacuum."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.listing import SHOWN, UNCHANGED, Listing, Shape
from catalog_ext.cli.options import list_options
from catalog_ext.cli.output import note, one_line
from catalog_ext.cli.progress import spinner
from catalog_ext.metastore.runtime.wording import counted, format_bytes
from catalog_ext.metastore.transactions.reports import VacuumAction
from catalog_ext.overview.layout import ListColumn
from catalog_ext.overview.lists import HISTORY, SINCE, STATUS, commit_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.transactions.reports import RecoveredTransaction, VacuumEntry


DURATION = "DURATION"

_FILES = ListColumn("files", right=True)
_ROWS = ListColumn("rows", right=True)
_BYTES = ListColumn("bytes", right=True, cell=format_bytes)
_RECOVERED = (
    ListColumn("action"), ListColumn("table"), ListColumn("operation", rank=2), ListColumn("files", right=True, rank=3),
    ListColumn("transaction_id", "transaction"), ListColumn("owner", rank=4), ListColumn("error", wraps=True),
)  # fmt: skip
_REMOVALS = (
    ListColumn("action"),
    ListColumn("path"),
    ListColumn("bytes", right=True, cell=format_bytes, rank=1),
    ListColumn("reason", wraps=True, rank=2),
    ListColumn("table", rank=3),
)
_REMOVAL = ("removal", "removals")
_STAYS = (VacuumAction.KEPT, VacuumAction.SKIPPED, VacuumAction.FAILED)
_RELEASED = (ListColumn("partition"), ListColumn("application", rank=2), _FILES, _ROWS, _BYTES, SINCE)
_DISCARDED = (
    ListColumn("partition", rank=2), ListColumn("location"), _ROWS, _BYTES, SINCE,
    ListColumn("transaction_id", "transaction", rank=3),
)  # fmt: skip


@click.command(short_help="Finish or undo writes whose owners are gone.")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option(
    "--older-than",
    metavar=DURATION,
    help="Take writes whose last sign of life is so long ago: 0s where their owners are known to be dead. Default: "
    "those whose lease is over.",
)
@click.option(
    "--undo",
    metavar="TRANSACTION",
    help="Undo this one write, which is not committed, instead of finishing it: `status` has its id.",
)
@click.option("--dry-run", is_flag=True, help="Preview: say what would be done and change nothing.")
@list_options(_RECOVERED)
@click.pass_obj
def recover(
    invocation: Invocation, table: str | None, older_than: str | None, undo: str | None, dry_run: bool,
    shape: Shape
) -> int:  # fmt: skip
    """Finish or undo writes whose owners are gone, of TABLE or of all tables.

    A write that had begun to show its files is finished, any other one undone. Exits with 1 if one could be neither.

    \b
    catalog-ext recover --dry-run
    catalog-ext recover sales.trips --older-than 0s
    catalog-ext recover --undo 0f7e6d5c4b3a29180f7e6d5c4b3a2918
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=not dry_run) as catalog:
        with spinner(message_console(), "Looking for unfinished writes"):
            report = catalog.recover(table, older_than=older_than, undo=undo, dry_run=dry_run)
        if not dry_run:
            settle(catalog)
    rows = [asdict(transaction) for transaction in report.transactions]
    head = {"dry_run": dry_run, "waiting": [asdict(transaction) for transaction in report.waiting]}
    end = UNCHANGED if dry_run and rows else ""
    Listing(("transaction", "transactions"), _RECOVERED, head).show(shape, rows, len(rows), end=end)
    if report.waiting and shape.is_text:
        _show_waiting(report.waiting)
    return 1 if report.failed else 0


def _show_waiting(waiting: Sequence[RecoveredTransaction]) -> None:
    """Print the transactions that recovery did not touch yet, and the option that recovers them at once."""
    console = output_console()
    note(console, f"{counted(len(waiting), 'write')} left alone, as their leases are not over:")
    for each in waiting[:SHOWN]:
        note(console, one_line(f"  {each.table}: {each.operation} {each.transaction_id} by {each.owner}; {each.error}"))
    note(console, "To have them now, where their owners are known to be dead: catalog-ext recover --older-than 0s")


@click.command(short_help="Remove files and versions that nothing needs any more.")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--all", "all_tables", is_flag=True, help="Every table of the index.")
@click.option(
    "--retention", metavar=DURATION, help="Age from which files and versions go. Default: `vacuum.retention` (7d)."
)
@click.option("--force", is_flag=True, help="Take a retention below an hour too: no query and no write is under way.")
@click.option(
    "--unknown-writes",
    is_flag=True,
    help="Remove what is shown as skipped, too: no other index has a table at the location.",
)
@click.option("--dry-run", is_flag=True, help="Preview: say what would be removed and change nothing.")
@list_options(_REMOVALS)
@click.pass_obj
def vacuum(
    invocation: Invocation, table: str | None, all_tables: bool, retention: str | None, force: bool,
    unknown_writes: bool, dry_run: bool, shape: Shape
) -> int:  # fmt: skip
    """Remove what no version of TABLE needs any more: replaced files, leftovers of aborted writes, old versions.

    Replaced files that stay are shown as kept, by directory and with the reason: a version, another table or a
    statement under way needs them, or they are younger than the retention. What writes have staged that this index
    does not know is left, and shown as skipped: another index may have a table at the same location. Exits with 1 if
    something could not be removed.

    \b
    catalog-ext vacuum sales.trips --dry-run
    catalog-ext vacuum sales.trips --retention 1d
    catalog-ext vacuum --all
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if (table is None) is not all_tables:
        raise click.UsageError("Name a table, or say --all.")
    with (
        # Needs the metastore, because its partitions may be in directories of files that vacuum would delete.
        invocation.catalog() as catalog,
        spinner(message_console(), f"Looking for what {f'table {table}' if table else 'the tables'} can do without"),
    ):
        report = catalog.vacuum(
            table, retention=retention, allow_short_retention=force, unknown_writes=unknown_writes, dry_run=dry_run
        )
    rows = [asdict(entry) for entry in report.entries]
    head = {"table": table, "dry_run": dry_run}
    count = _count_removals(report.entries)
    end = UNCHANGED if dry_run and any(entry.action not in _STAYS for entry in report.entries) else ""
    Listing(_REMOVAL, _REMOVALS, head).show(shape, rows, len(rows), end=end, count=count)
    return 1 if report.failed else 0


def _count_removals(entries: Sequence[VacuumEntry]) -> str:
    """Return a text with the numbers of removed, kept, skipped and failed entries."""
    stays = Counter(entry.action for entry in entries if entry.action in _STAYS)
    removed = counted(len(entries) - stays.total(), *_REMOVAL)
    return ", ".join((removed, *(f"{stays[action]:,} {action}" for action in _STAYS if stays[action])))


@click.command("release-waiting", short_help="Commit what streams have kept back.")
@click.argument("table", shell_complete=complete_table)
@click.option("--application", metavar="ID", help="The one query whose rows are committed; all of them by default.")
@click.option("--dry-run", is_flag=True, help="Preview: say what waits and change nothing.")
@list_options(_RELEASED)
@click.pass_obj
def release_waiting(invocation: Invocation, table: str, application: str | None, dry_run: bool, shape: Shape) -> None:
    """Commit what streams into TABLE have kept back until their partitions are due.

    For queries that are never started again, as where a checkpoint is lost. A query that runs commits its partitions
    itself.

    \b
    catalog-ext release-waiting sales.trips --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with (
        invocation.catalog() as catalog,
        spinner(message_console(), f"Committing what waits in table {table}"),
    ):
        report = catalog.release_waiting(table, application=application, dry_run=dry_run)
    rows = [asdict(partition) for partition in report.partitions]
    head = {"table": table, "dry_run": dry_run, "version": report.version}
    end = UNCHANGED if dry_run and rows else "" if rows else "Nothing waits."
    Listing(("partition", "partitions"), _RELEASED, head).show(shape, rows, len(rows), end=end)


@click.command("discard-waiting", short_help="Give up what streams kept back and is gone.")
@click.argument("table", shell_complete=complete_table)
@click.option("--dry-run", is_flag=True, help="Preview: say what would be given up and change nothing.")
@list_options(_DISCARDED)
@click.pass_obj
def discard_waiting(invocation: Invocation, table: str, dry_run: bool, shape: Shape) -> None:
    """Give up files of streams into TABLE that waited for their partitions to be due and are gone.

    A query whose epochs fail with CATALOG_EXT_WAITING_FILES_MISSING goes on when it is started again, without their
    rows. What is there goes on waiting.

    \b
    catalog-ext discard-waiting sales.trips --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with (
        # Needs the metastore, because its partitions may be in directories of files that vacuum would delete.
        invocation.catalog() as catalog,
        spinner(message_console(), f"Looking for what waits in table {table}"),
    ):
        report = catalog.discard_waiting(table, dry_run=dry_run)
    rows = [asdict(file) for file in report.files]
    head = {"table": table, "dry_run": dry_run}
    end = UNCHANGED if dry_run and rows else "" if rows else "Nothing is lost."
    Listing(("file", "files"), _DISCARDED, head).show(shape, rows, len(rows), end=end)


@click.command(short_help="Show what is under way, or waits for the metastore.")
@click.argument("table", required=False, shell_complete=complete_table)
@list_options(STATUS)
@click.pass_obj
def status(invocation: Invocation, table: str | None, shape: Shape) -> None:
    """Show what is under way, for TABLE or all tables: writes, waiting partitions, changes for the metastore.

    Where the metastore is followed, also how far: the last event dealt with, the newest there is, and who follows; and
    which of its tables were not taken, in the namespaces of the index.
    """
    with invocation.catalog(with_metastore=table is None) as catalog:
        rows = [entry._asdict() for entry in catalog.status(table)]
    end = "" if rows else "Nothing is under way."
    Listing(("entry", "entries"), STATUS, {"table": table}).show(shape, rows, len(rows), end=end)


@click.command(short_help="List the commits of TABLE, newest first.")
@click.argument("table", shell_complete=complete_table)
@list_options(HISTORY)
@click.pass_obj
def history(invocation: Invocation, table: str, shape: Shape) -> None:
    """List the commits of TABLE, newest first: when, by what, and what changed."""
    with invocation.catalog(with_metastore=False) as catalog:
        versions = catalog.history(table)
    rows = list(map(commit_fields, versions))
    Listing(("version", "versions"), HISTORY, {"table": table}).show(shape, rows, len(rows))
