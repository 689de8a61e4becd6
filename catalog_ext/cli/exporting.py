"""The command by which tables leave for another metastore."""

from __future__ import annotations

from dataclasses import asdict

import click

from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.invocation import Invocation, message_console
from catalog_ext.cli.listing import TABLE, UNCHANGED, Listing, Shape
from catalog_ext.cli.options import list_options
from catalog_ext.cli.progress import spinner
from catalog_ext.overview.layout import ListColumn

_EXPORTED = (
    ListColumn("table"), ListColumn("action"), ListColumn("partition", rank=2), ListColumn("sent", right=True, rank=1),
    ListColumn("kept", right=True, rank=1), ListColumn("reason", wraps=True),
)  # fmt: skip


@click.command(short_help="Fill another metastore, or print HiveQL that does.")
@click.argument("pattern", required=False, shell_complete=complete_table)
@click.option("--to", metavar="URIS", help="The other metastore: thrift://host:9083.")
@click.option("--sql", is_flag=True, help="Print HiveQL statements instead, for a Hive engine to run.")
@click.option("--dry-run", is_flag=True, help="With --to: compare, and change nothing.")
@list_options(_EXPORTED)
@click.pass_obj
def export(
    invocation: Invocation, pattern: str | None, to: str | None, sql: bool, dry_run: bool, shape: Shape,
) -> int:  # fmt: skip
    """Write what another metastore, which may be empty, needs of all tables and views, or of those of PATTERN.

    PATTERN is a database, or tables of one with * and ? (quote it). The index goes on with its own metastore. What is
    there already and differs is altered; nothing is dropped there: partitions that only that metastore has are counted
    as kept, those that were added or altered as sent. What no metastore can hold is listed as left out. Exits with 1 if
    no table matches, or one was refused: the metastore has another of the name.

    \b
    catalog-ext export --to thrift://new-host:9083
    catalog-ext export 'sales.*' --sql > sales.sql
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if sql and to is not None:
        raise click.UsageError("--to and --sql exclude each other: say one of them.")
    if not sql and to is None:
        raise click.UsageError("Say where to: --to thrift://host:9083, or --sql for statements.")
    if sql and (shape.output != TABLE or dry_run):
        raise click.UsageError("--sql prints statements, and nothing else: leave --output and --dry-run out.")
    from catalog_ext.sync.exporting import REFUSED

    with invocation.catalog(with_metastore=False) as catalog:
        if to is None:
            for statement in catalog.export_statements(pattern):
                click.echo(statement if statement.startswith("--") else f"{statement};\n")
            return 0
        with spinner(message_console(), f"Exporting to {to}"):
            rows = [asdict(entry) for entry in catalog.export(pattern, to=to, dry_run=dry_run)]
    head = {"to": to, "dry_run": dry_run}
    Listing(("row", "rows"), _EXPORTED, head).show(shape, rows, len(rows), end=UNCHANGED if dry_run else "")
    return 1 if any(row["action"] == REFUSED for row in rows) else 0
