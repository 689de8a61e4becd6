"""Commands for the metastore: ``outbox`` with pending changes, ``publish``, and ``export`` to another metastore."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.invocation import message_console, output_console, settle
from catalog_ext.cli.listing import TABLE, UNCHANGED, Listing
from catalog_ext.cli.options import list_options
from catalog_ext.cli.output import note, one_line
from catalog_ext.cli.progress import spinner
from catalog_ext.metastore_sync.outbox import ACTIONS, LIST, RETRY, SKIP, OutboxEntry
from catalog_ext.overview.layout import ListColumn
from catalog_ext.overview.lists import SINCE

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.cli.listing import Shape

_CHANGES = (
    ListColumn("id", right=True, cell=str), ListColumn("table"), ListColumn("operation", rank=1), ListColumn("state"),
    ListColumn("attempts", right=True, rank=3), SINCE, ListColumn("error", wraps=True),
)  # fmt: skip
_PUBLISHED = (
    ListColumn("table"), ListColumn("action"), ListColumn("differs", wraps=True),
    ListColumn("published", right=True, rank=1), ListColumn("dropped", right=True, rank=1),
    ListColumn("pending", right=True, rank=2), ListColumn("error", wraps=True),
    ListColumn("drops", hidden=True, rank=3, cell=", ".join),
)  # fmt: skip
_NAMED = 10
"""The number of partition names that are printed below the table."""

_SKIPPED = "The metastore does not get it. catalog-ext publish brings a table there to the index's state."
_EXPORTED = (
    ListColumn("table"), ListColumn("action"), ListColumn("partition", rank=2), ListColumn("sent", right=True, rank=1),
    ListColumn("kept", right=True, rank=1), ListColumn("reason", wraps=True),
)  # fmt: skip


@click.command(short_help="List, retry or skip what the metastore has not taken.")
@click.argument("action", type=click.Choice(ACTIONS), default=LIST)
@click.argument("message_id", type=int, required=False, metavar="[ID]")
@list_options(_CHANGES)
@click.pass_obj
def outbox(invocation: Invocation, action: str, message_id: int | None, shape: Shape) -> None:
    """List the changes that the metastore has not taken, retry them now, or skip one for good.

    A change that was refused again and again is set aside: it is tried every ten minutes, and holds up only what
    depends on it.

    \b
    catalog-ext outbox
    catalog-ext outbox retry 17
    catalog-ext outbox skip 17
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=action == RETRY) as catalog:
        entries = catalog.outbox(action, message_id)
        if action == RETRY:
            entries = _delivered(catalog, entries)
    rows = [entry._asdict() for entry in entries]
    end = _SKIPPED if action == SKIP else ""
    Listing(("change", "changes"), _CHANGES, {"action": action}).show(shape, rows, len(rows), end=end)


def _delivered(catalog: Catalog, entries: list[OutboxEntry]) -> list[OutboxEntry]:
    """Deliver the messages and return the outcome of each."""
    if settle(catalog) is None:
        catalog.deliver()
    left = {entry.id: entry for entry in catalog.outbox()}
    return [left.get(entry.id, entry._replace(state="delivered", error=None)) for entry in entries]


@click.command(short_help="Bring the metastore to the index's state.")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--all", "all_tables", is_flag=True, help="Every table and view of the index.")
@click.option("--dry-run", is_flag=True, help="Preview: compare, and change nothing.")
@list_options(_PUBLISHED)
@click.pass_obj
def publish(invocation: Invocation, table: str | None, all_tables: bool, dry_run: bool, shape: Shape) -> int:
    """Bring the metastore to the index's state, for TABLE or all tables: after it was lost, replaced or changed.

    Compares both sides, and sends what is missing or differs; the column `differs` says what that is. Partitions that
    the index does not have are dropped there, never their files. Run it again after an interruption. Exits with 1 if a
    table could not be published.

    \b
    catalog-ext publish --all --dry-run
    catalog-ext publish sales.trips
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if (table is None) is not all_tables:
        raise click.UsageError("Name a table, or say --all.")
    with (
        invocation.catalog(at_once=not dry_run, looks=dry_run) as catalog,
        spinner(message_console(), "Comparing with the metastore"),
    ):
        rows = [entry._asdict() for entry in catalog.publish(table, dry_run=dry_run)]
    changed = any(row["action"] not in ("in sync", "left out") for row in rows)
    Listing(("table", "tables"), _PUBLISHED, {"dry_run": dry_run}).show(shape, rows, len(rows))
    if shape.is_text:
        _print_drops(rows, dry_run=dry_run)
    if shape.is_text and dry_run and changed:
        note(output_console(), UNCHANGED)
    return 1 if any(row["action"] == "refused" or (row["error"] and row["pending"]) for row in rows) else 0


def _print_drops(rows: list[dict[str, Any]], *, dry_run: bool) -> None:
    """Print the names of the partitions that ``publish`` drops from the metastore."""
    for row in rows:
        named = [one_line(name) for name in row["drops"][:_NAMED]]
        if named:
            more = f" and {row['dropped'] - len(named):,} more" if row["dropped"] > len(named) else ""
            words = "would be dropped" if dry_run else "dropped"
            note(output_console(), f"{row['table']}: {words} there: {', '.join(named)}{more}")


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
