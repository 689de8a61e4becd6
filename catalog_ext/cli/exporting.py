"""The command by which tables leave for another metastore."""

from __future__ import annotations

from dataclasses import asdict

import click

from catalog_ext.cli.invocation import Invocation, message_console
from catalog_ext.cli.options import json_option, limit_option
from catalog_ext.cli.progress import spinner
from catalog_ext.cli.writes import UNCHANGED, Listing
from catalog_ext.metastore_sync.exporting import REFUSED


@click.command()
@click.argument("pattern", required=False)
@click.option("--to", metavar="URIS", help="The other metastore: thrift://host:9083.")
@click.option("--sql", is_flag=True, help="Print HiveQL statements instead, for a Hive engine to run.")
@click.option("--dry-run", is_flag=True, help="With --to: compare, and change nothing.")
@limit_option
@json_option
@click.pass_obj
def export(
    invocation: Invocation, pattern: str | None, to: str | None, sql: bool, dry_run: bool, limit: int | None,
    as_json: bool,
) -> int:  # fmt: skip
    """Write what another metastore, which may be empty, needs of all tables and views, or of those of PATTERN.

    PATTERN is a database, or tables of one with * and ? (quote it). The index goes on with its own metastore. What is
    there already and differs is altered; nothing is dropped there. What no metastore can hold is listed as left out.
    Exits with 1 if a table was refused: the metastore has another of the name.

    \b
    catalog-ext export --to thrift://new-host:9083
    catalog-ext export 'sales.*' --sql > sales.sql
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if sql is (to is not None):
        raise click.UsageError("Say --to, or --sql.")
    if sql and (as_json or dry_run):
        raise click.UsageError("--sql prints statements, and nothing else: leave --json and --dry-run out.")
    with invocation.catalog(with_metastore=False) as catalog:
        if to is None:
            for statement in catalog.export_statements(pattern):
                click.echo(statement if statement.startswith("--") else f"{statement};\n")
            return 0
        with spinner(message_console(), f"Exporting to {to}"):
            rows = [asdict(entry) for entry in catalog.export(pattern, to=to, dry_run=dry_run)]
    columns = ("table", "action", "partition", "sent", "kept", "reason")
    Listing(("row", "rows"), rows, columns, {"to": to, "dry_run": dry_run}, right=("sent", "kept")).show(
        limit, as_json=as_json, end=UNCHANGED if dry_run else ""
    )
    return 1 if any(row["action"] == REFUSED for row in rows) else 0
