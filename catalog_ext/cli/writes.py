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
_STAYS = (VacuumAction.KEPT, VacuumAction.SKIPPED, VacuumAction.FAILED, VacuumAction.REFUSED)
_RELEASED = (ListColumn("partition"), ListColumn("application", rank=2), _FILES, _ROWS, _BYTES, SINCE)
_DISCARDED = (
    ListColumn("partition", rank=2), ListColumn("location"), _ROWS, _BYTES, SINCE,
    ListColumn("transaction_id", "transaction", rank=3),
)  # fmt: skip


@click.command(short_help="Finish or undo the writes of processes that died.")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option(
    "--older-than",
    metavar=DURATION,
    help="Recover writes without a keepalive for this long, such as 10m. Use 0s only if their processes are dead. "
    "Default: each write's lease (`transaction.lease`, 10m).",
)
@click.option(
    "--undo",
    metavar="TRANSACTION",
    help="Undo this one uncommitted write instead of finishing it. `status` shows its id.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@list_options(_RECOVERED)
@click.pass_obj
def recover(
    invocation: Invocation, table: str | None, older_than: str | None, undo: str | None, dry_run: bool,
    shape: Shape
) -> int:  # fmt: skip
    """Finish or undo the writes of processes that died, for TABLE or for all tables.

    A write that was already making its files visible is finished; every other one is undone. Services do this by
    themselves every minute. A write whose lease is still valid is left alone. Exits with 1 if a write could be neither
    finished nor undone.

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
    """Print the unfinished transactions whose leases are still valid, and the option that recovers them at once."""
    console = output_console()
    note(console, f"{counted(len(waiting), 'write')} left alone, as their leases are not over:")
    for each in waiting[:SHOWN]:
        note(console, one_line(f"  {each.table}: {each.operation} {each.transaction_id} by {each.owner}; {each.error}"))
    note(console, "To have them now, where their owners are known to be dead: catalog-ext recover --older-than 0s")


@click.command(short_help="Delete replaced files, leftovers and old versions.")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--all", "all_tables", is_flag=True, help="All tables of the index.")
@click.option(
    "--retention",
    metavar=DURATION,
    help="Minimum age of what is deleted, such as 7d or 12h. Default: `vacuum.retention` (7d).",
)
@click.option(
    "--force",
    is_flag=True,
    help="Allow a retention below one hour. Use it only while no query and no write is running.",
)
@click.option(
    "--unknown-writes",
    is_flag=True,
    help="Also delete what would be `skipped`. Use it only if no other index has a table at the location.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, change nothing.")
@list_options(_REMOVALS)
@click.pass_obj
def vacuum(
    invocation: Invocation, table: str | None, all_tables: bool, retention: str | None, force: bool,
    unknown_writes: bool, dry_run: bool, shape: Shape
) -> int:  # fmt: skip
    """Delete replaced files, leftovers of aborted writes and old versions of TABLE.

    Files of the current version are never deleted. A replaced file is `kept` while a version, another table or a
    running statement needs it, or while it is younger than the retention; the list gives the reason by directory.
    Staged files of unknown writes are `skipped`, since another index may have a table at this location. Exits with 1 if
    something could not be deleted.

    \b
    catalog-ext vacuum sales.trips --dry-run
    catalog-ext vacuum sales.trips --retention 1d
    catalog-ext vacuum --all
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if (table is None) is not all_tables:
        raise click.UsageError("Name a table, or say --all.")
    with (
        # vacuum asks the metastore for the locations of its partitions, because it must not delete files there.
        invocation.catalog() as catalog,
        spinner(message_console(), f"Looking for unneeded files of {f'table {table}' if table else 'all tables'}"),
    ):
        report = catalog.vacuum(
            table, retention=retention, allow_short_retention=force, unknown_writes=unknown_writes, dry_run=dry_run
        )
    rows = [asdict(entry) for entry in report.entries]
    head = {"table": table, "dry_run": dry_run}
    count = _count_removals(report.entries)
    end = UNCHANGED if dry_run and any(entry.action not in _STAYS for entry in report.entries) else ""
    if any(entry.action is VacuumAction.REFUSED for entry in report.entries):
        end = "Nothing was changed. Without --dry-run the command is refused."
    Listing(_REMOVAL, _REMOVALS, head).show(shape, rows, len(rows), end=end, count=count)
    return 1 if report.failed else 0


def _count_removals(entries: Sequence[VacuumEntry]) -> str:
    """Return a text with the numbers of removed, kept, skipped and failed entries."""
    stays = Counter(entry.action for entry in entries if entry.action in _STAYS)
    removed = counted(len(entries) - stays.total(), *_REMOVAL)
    return ", ".join((removed, *(f"{stays[action]:,} {action}" for action in _STAYS if stays[action])))


@click.command("release-waiting", short_help="Commit partitions that streaming queries hold back.")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--application", metavar="ID", help="Commit the rows of this streaming query only. Default: of all queries."
)
@click.option("--dry-run", is_flag=True, help="Show what waits, change nothing.")
@list_options(_RELEASED)
@click.pass_obj
def release_waiting(invocation: Invocation, table: str, application: str | None, dry_run: bool, shape: Shape) -> None:
    """Commit the partitions that streaming queries into TABLE hold back until they are due.

    A streaming query with the options sink.partition-commit.* commits a partition only when the watermark or the clock
    has passed the partition's time plus a delay. Use this command for a query that never starts again, for example
    because its checkpoint is lost. A running query commits its partitions itself.

    \b
    catalog-ext release-waiting sales.trips --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with (
        invocation.catalog() as catalog,
        spinner(message_console(), f"Committing the partitions that wait in table {table}"),
    ):
        report = catalog.release_waiting(table, application=application, dry_run=dry_run)
    rows = [asdict(partition) for partition in report.partitions]
    head = {"table": table, "dry_run": dry_run, "version": report.version}
    end = UNCHANGED if dry_run and rows else "" if rows else "Nothing waits."
    Listing(("partition", "partitions"), _RELEASED, head).show(shape, rows, len(rows), end=end)


@click.command("discard-waiting", short_help="Give up held-back stream files that are missing.")
@click.argument("table", shell_complete=complete_table)
@click.option("--dry-run", is_flag=True, help="Show what would be given up, change nothing.")
@list_options(_DISCARDED)
@click.pass_obj
def discard_waiting(invocation: Invocation, table: str, dry_run: bool, shape: Shape) -> None:
    """Give up the files that streaming queries into TABLE held back and that are missing.

    A query that fails with CATALOG_EXT_WAITING_FILES_MISSING runs again after this command and a restart, without the
    rows of the missing files. Held-back files that exist stay, and are committed when they are due.

    \b
    catalog-ext discard-waiting sales.trips --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with (
        # The metastore is asked for the locations of its partitions, because files there must not be deleted.
        invocation.catalog() as catalog,
        spinner(message_console(), f"Looking for missing files of waiting partitions in table {table}"),
    ):
        report = catalog.discard_waiting(table, dry_run=dry_run)
    rows = [asdict(file) for file in report.files]
    head = {"table": table, "dry_run": dry_run}
    end = UNCHANGED if dry_run and rows else "" if rows else "Nothing is lost."
    Listing(("file", "files"), _DISCARDED, head).show(shape, rows, len(rows), end=end)


@click.command(short_help="Show running writes and undelivered changes.")
@click.argument("table", required=False, shell_complete=complete_table)
@list_options(STATUS)
@click.pass_obj
def status(invocation: Invocation, table: str | None, shape: Shape) -> None:
    """Show running writes, waiting partitions and undelivered metastore changes, for TABLE or all tables.

    Without TABLE, and if the metastore is followed, it also shows the follower, its last processed and the newest
    metastore event, and the tables that could not be imported. Nothing is changed.
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
    """List the commits of TABLE, newest first: version, operation, time, user and a summary."""
    with invocation.catalog(with_metastore=False) as catalog:
        versions = catalog.history(table)
    rows = list(map(commit_fields, versions))
    Listing(("version", "versions"), HISTORY, {"table": table}).show(shape, rows, len(rows))
