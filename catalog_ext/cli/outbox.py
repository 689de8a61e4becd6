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


@click.command(short_help="List, retry or skip undelivered metastore changes.")
@click.argument("action", type=click.Choice(ACTIONS), default=LIST)
@click.argument("message_id", type=int, required=False, metavar="[ID]")
@list_options(_CHANGES)
@click.pass_obj
def outbox(invocation: Invocation, action: str, message_id: int | None, shape: Shape) -> None:
    """List the changes that the metastore has not applied yet, retry them, or discard one.

    Every change of a table is first committed to the index, and then delivered to the metastore from a queue, the
    outbox. If the metastore is down, changes wait there and are delivered later, in order. A change that the metastore
    refuses repeatedly is set aside: it is retried every ten minutes, and blocks only changes that depend on it. A
    skipped change is lost for the metastore until `publish` compares the table. The actions retry and skip take the ID
    of a change; retry without one takes all.

    \b
    catalog-ext outbox           # list all
    catalog-ext outbox retry 17  # deliver it now
    catalog-ext outbox skip 17   # never deliver it
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


@click.command(short_help="Make the metastore match the index.")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--all", "all_tables", is_flag=True, help="All tables and views of the index.")
@click.option("--dry-run", is_flag=True, help="Compare only, change nothing.")
@list_options(_PUBLISHED)
@click.pass_obj
def publish(invocation: Invocation, table: str | None, all_tables: bool, dry_run: bool, shape: Shape) -> int:
    """Make the metastore match the index, for TABLE or for all tables.

    Use it after the metastore was lost, replaced, or changed by mistake. Both sides are compared, and only what is
    missing or different is sent; the column `differs` names it. Partitions that the index does not have are dropped in
    the metastore. Files and the index are never changed. After an interruption, run it again. Exits with 1 if a table
    could not be published.

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


@click.command(short_help="Copy table definitions to another metastore.")
@click.argument("pattern", required=False, shell_complete=complete_table)
@click.option("--to", metavar="URIS", help="Address of the other metastore: thrift://host:9083.")
@click.option("--sql", is_flag=True, help="Print HiveQL statements that a Hive engine can run, instead of connecting.")
@click.option("--dry-run", is_flag=True, help="With --to: compare only, change nothing.")
@list_options(_EXPORTED)
@click.pass_obj
def export(
    invocation: Invocation, pattern: str | None, to: str | None, sql: bool, dry_run: bool, shape: Shape,
) -> int:  # fmt: skip
    """Copy the definitions of tables and views to another metastore, or print them as HiveQL.

    PATTERN is one table, a database, or a pattern such as sales.* (quote it); all tables without it. Missing tables and
    partitions are created in the other metastore, and different ones are altered. Nothing is dropped there: `sent`
    counts created and altered partitions, `kept` those that only the other metastore has. Tables that no metastore can
    hold are listed as left out. Neither the files nor the index nor its own metastore are changed.

    Exits with 1 if no table matches, or the other metastore has a different table of the same name.

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
