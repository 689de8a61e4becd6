"""Commands about backups of the index: to make one, and to go on with one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.listing import UNCHANGED, Listing
from catalog_ext.cli.options import json_option, list_options
from catalog_ext.cli.output import echo_json, note
from catalog_ext.cli.progress import spinner
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from catalog_ext.cli.listing import Shape

_ENTRIES = (ListColumn("action"), ListColumn("subject"), ListColumn("detail", wraps=True, rank=1))
_NEXT = "Compare the metastore now: catalog-ext drift --check (docs/operations.md)"


@click.command(short_help="Go on with an index that was restored from a backup.")
@click.option("--dry-run", is_flag=True, help="Preview: say what would be done and change nothing.")
@list_options(_ENTRIES)
@click.pass_obj
def restored(invocation: Invocation, dry_run: bool, shape: Shape) -> int:
    """Go on with an index that was restored, copied, or whose database failed over without its last commits.

    It ends every unfinished write and DROP without touching a file, gives up what waits for the metastore, begins a new
    incarnation, so that no table and no version gets a number a second time, and repairs all tables: partitions that
    were dropped, and whose files stayed, come back. Stop services and sessions before. Exits with 1 if a table could
    not be repaired.

    \b
    catalog-ext --index lake.db restored --dry-run
    catalog-ext --index lake.db restored
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=not dry_run) as catalog:
        with spinner(message_console(), "Comparing tables with the store"):
            entries = catalog.restored(dry_run=dry_run)
        if not dry_run:
            settle(catalog)
    rows = [entry._asdict() for entry in entries]
    end = UNCHANGED if dry_run else _NEXT
    Listing(("entry", "entries"), _ENTRIES, {"dry_run": dry_run}).show(shape, rows, len(rows), end=end)
    return 1 if any(entry.action == "failed" for entry in entries) else 0


@click.command(short_help="Copy a SQLite index, also while it is in use.")
@click.argument("file", type=click.Path(dir_okay=False))
@json_option
@click.pass_obj
def backup(invocation: Invocation, file: str, as_json: bool) -> None:
    """Copy the SQLite index to a new FILE, which only its owner can read.

    The copy is consistent while others use the index; a copy of index.db by cp lacks what is in its write-ahead log. An
    index of PostgreSQL or MariaDB is backed up with the database's own tool.

    \b
    catalog-ext --index lake.db backup lake-backup.db
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=False) as catalog:
        made = catalog.backup(file)
    if as_json:
        echo_json({"backup": made})
    else:
        note(output_console(), f"The index was copied to {made}.")
