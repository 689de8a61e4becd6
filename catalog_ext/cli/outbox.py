"""The outbox command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import settle
from catalog_ext.cli.options import json_option, limit_option
from catalog_ext.cli.output import moment
from catalog_ext.cli.writes import Listing
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
