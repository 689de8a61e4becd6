"""Commands on the index itself: create, migrate, copy and restore it, and change its metastore or warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.listing import UNCHANGED, Listing
from catalog_ext.cli.options import json_option, list_options
from catalog_ext.cli.output import echo_json, note
from catalog_ext.cli.progress import spinner
from catalog_ext.cli.tables import print_lines
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from catalog_ext.cli.listing import Shape

_CHANGES = (ListColumn("what"), ListColumn("before"), ListColumn("after"))
_AFTER_ADOPTION = (
    "Restart the services and sessions that have it open. What another metastore lacks: catalog-ext publish --all"
)
_ENTRIES = (ListColumn("action"), ListColumn("subject"), ListColumn("detail", wraps=True, rank=1))
_AFTER_RESTORATION = "Compare the metastore now: catalog-ext drift --check (docs/operations.md)"


@click.command(short_help="Create the index database.")
@json_option
@click.pass_obj
def init(invocation: Invocation, as_json: bool) -> None:
    """Create the index database, and record the metastore and the warehouse that belong to it.

    An index that exists is left unchanged. Name the index, the metastore and the warehouse by the global options,
    before the command. By default the index is a SQLite file beside the warehouse in this folder, with the embedded
    metastore. On a database server the database must exist, and its user must be allowed to create tables.

    \b
    catalog-ext init
    catalog-ext --index postgresql+psycopg://user@host/lake \\
        --metastore thrift://host:9083 --warehouse s3://b/lake init
    """  # noqa: D301 -- click wants the character, not a raw backslash
    from catalog_ext.metastore.index import Index

    invocation.require_index(or_none=True)
    invocation.require_java()
    with Index.connect(invocation.settings().index) as index:
        there = index.current_revision()
        if there is None:
            index.migrate()
    with invocation.catalog(makes_index=True) as catalog:
        made = {"index": catalog.index.url, "metastore": catalog.settings.metastore or "none"}
        made["warehouse"] = catalog.settings.warehouse
    if as_json:
        echo_json({"made": there is None, **made})
        return
    note(output_console(), "Made the index" if there is None else "The index is there already", "bold")
    print_lines(list(made.items()))


@click.command(short_help="Upgrade the index database to this release's schema.")
@click.option("--check", is_flag=True, help="Only compare: exit with 1 if the schema is not that of this release.")
@json_option
@click.pass_obj
def migrate(invocation: Invocation, check: bool, as_json: bool) -> None:
    """Upgrade the schema of the index database to this release.

    Run it after an upgrade of catalog-ext; it does nothing if the schema is current. Files and the metastore are not
    touched. The command `init` creates a new index.
    """
    from catalog_ext.metastore.index import Index

    invocation.require_index()
    with Index.connect(invocation.settings().index) as index:
        head, before = index.head_revision(), index.current_revision()
        if not check:
            before, _ = index.migrate()
        after = index.current_revision()
        url = index.url
    if as_json:
        echo_json({"index": url, "before": before, "revision": after, "head": head, "at_head": after == head})
    else:
        came = "" if before == after else f" (before: {before or 'no index'})"
        state = "is at" if after == head else f"is NOT at {head}; run catalog-ext migrate. It is at"
        note(output_console(), f"The index {url} {state} revision {after or 'none'}{came}.")
    if after != head:
        raise click.exceptions.Exit(1)


@click.command(short_help="Change the index's recorded metastore or warehouse.")
@click.option("--dry-run", is_flag=True, help="Show what would change, change nothing.")
@list_options(_CHANGES)
@click.pass_obj
def adopt(invocation: Invocation, dry_run: bool, shape: Shape) -> None:
    """Change the metastore or the warehouse that is recorded in the index.

    An index belongs to one metastore and one warehouse. Sessions and commands get both from the index, and are refused
    if they name another one. Use this command after the metastore or the warehouse has moved. It changes the record in
    the index, and the file _catalog_ext_index in the warehouse, which names the warehouse's index. Tables and their
    files stay where they are, and nothing is sent to the metastore.

    Give the new values, and the index itself, by the global options before the command. After a project's folder was
    moved, name its metastore (embedded) and its warehouse at their new places.

    \b
    catalog-ext --index lake.db --metastore thrift://new-host:9083 adopt
    catalog-ext --index lake.db --warehouse s3://bucket/lake adopt --dry-run
    catalog-ext --index .catalog-ext/index.db --metastore embedded \\
        --warehouse spark-warehouse adopt
    """  # noqa: D301 -- click wants the character, not a raw backslash
    from catalog_ext.identity.adoption import adopt as adopt_home
    from catalog_ext.metastore.index.database.urls import missing_file

    if invocation.index is None and invocation.warehouse is not None and missing_file(invocation.settings().index):
        raise InvalidConfigurationError(
            f"No index is named, and none lies beside the warehouse {invocation.warehouse} that it is to take on. Name "
            f"it: catalog-ext --index URL --warehouse '{invocation.warehouse}' adopt"
        )
    invocation.require_index()
    adopted = adopt_home(
        index=invocation.index, metastore=invocation.metastore, warehouse=invocation.warehouse,
        storage=invocation.storage, dry_run=dry_run,
    )  # fmt: skip
    rows = [entry._asdict() for entry in adopted]
    end = UNCHANGED if dry_run else _AFTER_ADOPTION
    if not rows:
        end = "Nothing to change: the index already has this metastore and this warehouse."
    Listing(("change", "changes"), _CHANGES, {"dry_run": dry_run}).show(shape, rows, len(rows), end=end)


@click.command(short_help="Make an index usable after a restore from a backup.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing.")
@list_options(_ENTRIES)
@click.pass_obj
def restored(invocation: Invocation, dry_run: bool, shape: Shape) -> int:
    """Make an index usable again after it was restored from a backup, copied, or lost commits in a failover.

    Such an index is older than the files and the metastore. The command aborts every unfinished write and DROP without
    touching a file, discards pending changes for the metastore, and repairs all tables from their files. Partitions
    that were dropped since the backup come back if their files still exist. Tables and versions get new
    numbers, so that caches of other processes cannot confuse them with old ones. No file is deleted.

    End all services and sessions that use the index first. Exits with 1 if a table could not be repaired.

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
    end = UNCHANGED if dry_run else _AFTER_RESTORATION
    Listing(("entry", "entries"), _ENTRIES, {"dry_run": dry_run}).show(shape, rows, len(rows), end=end)
    return 1 if any(entry.action == "failed" for entry in entries) else 0


@click.command(short_help="Copy a SQLite index, even while it is in use.")
@click.argument("file", type=click.Path(dir_okay=False))
@json_option
@click.pass_obj
def backup(invocation: Invocation, file: str, as_json: bool) -> None:
    """Copy the SQLite index to the new file FILE, which only its owner can read.

    The copy is consistent, even while other processes use the index. Do not copy the file with cp: recent changes may
    still be in SQLite's write-ahead log. An index in PostgreSQL or MariaDB is backed up with that database's own tool.

    \b
    catalog-ext --index lake.db backup lake-backup.db
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=False) as catalog:
        made = catalog.backup(file)
    if as_json:
        echo_json({"backup": made})
    else:
        note(output_console(), f"The index was copied to {made}.")
