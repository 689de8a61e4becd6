"""Commands about what the metastore has not taken, or has lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import message_console, settle
from catalog_ext.cli.options import json_option, limit_option
from catalog_ext.cli.output import moment
from catalog_ext.cli.progress import spinner
from catalog_ext.cli.writes import UNCHANGED, Listing
from catalog_ext.metastore_sync.outbox import ACTIONS, LIST, RETRY, SKIP, OutboxEntry

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from catalog_ext.cli.invocation import Invocation

_SKIPPED = "The metastore does not get it. catalog-ext publish brings a table there to the index's state."


@click.command()
@click.argument("action", type=click.Choice(ACTIONS), default=LIST)
@click.argument("message_id", type=int, required=False, metavar="[ID]")
@limit_option
@json_option
@click.pass_obj
def outbox(invocation: Invocation, action: str, message_id: int | None, limit: int | None, as_json: bool) -> None:
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
    columns = ("id", "table", "operation", "state", "attempts", "since_ms", "error")
    Listing(
        ("change", "changes"),
        rows,
        columns,
        {"action": action},
        right=("id", "attempts"),
        cells={"since_ms": moment, "id": str},
        headings={"since_ms": "since (UTC)"},
    ).show(limit, as_json=as_json, end=_SKIPPED if action == SKIP else "")


def _delivered(catalog: Catalog, entries: list[OutboxEntry]) -> list[OutboxEntry]:
    """Deliver, and return what became of the messages."""
    if settle(catalog) is None:
        catalog.deliver()
    left = {entry.id: entry for entry in catalog.outbox()}
    return [left.get(entry.id, entry._replace(state="delivered", error=None)) for entry in entries]


@click.command()
@click.argument("table", required=False)
@click.option("--all", "all_tables", is_flag=True, help="Every table and view of the index.")
@click.option("--dry-run", is_flag=True, help="Preview: compare, and change nothing.")
@limit_option
@json_option
@click.pass_obj
def publish(
    invocation: Invocation, table: str | None, all_tables: bool, dry_run: bool, limit: int | None, as_json: bool
) -> int:
    """Bring the metastore to the index's state, for TABLE or all tables: after it was lost, replaced or changed.

    Compares both sides, and sends what is missing or differs; partitions that the index does not have are dropped
    there, never their files. Run it again after an interruption. Exits with 1 if a table could not be published.

    \b
    catalog-ext publish --all --dry-run
    catalog-ext publish sales.trips
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if (table is None) is not all_tables:
        raise click.UsageError("Name a table, or say --all.")
    with invocation.catalog() as catalog, spinner(message_console(), "Comparing with the metastore"):
        rows = [entry._asdict() for entry in catalog.publish(table, dry_run=dry_run)]
    columns = ("table", "action", "published", "dropped", "pending", "error")
    changed = any(row["action"] not in ("in step", "left out") for row in rows)
    Listing(("table", "tables"), rows, columns, {"dry_run": dry_run}, right=("published", "dropped", "pending")).show(
        limit, as_json=as_json, end=UNCHANGED if dry_run and changed else ""
    )
    return 1 if any(row["action"] == "refused" or (row["error"] and row["pending"]) for row in rows) else 0
