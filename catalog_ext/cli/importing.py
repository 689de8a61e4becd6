"""The command ``import``: imports tables of a metastore into the index."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from catalog_ext.cli.invocation import Invocation, message_console, pairs
from catalog_ext.cli.listing import Listing
from catalog_ext.cli.options import list_options
from catalog_ext.cli.progress import progress_bar, spinner
from catalog_ext.cli.tables import show_table
from catalog_ext.metastore.errors import TableAlreadyExistsError, UnsupportedFormatError
from catalog_ext.metastore.model.identifiers import is_pattern
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview.layout import ListColumn
from catalog_ext.tables.import_tables import JOBS, REFUSED, TAKEN, THERE, ImportEntry

if TYPE_CHECKING:
    from catalog_ext.cli.listing import Shape

_FOR_GOOD = (UnsupportedFormatError.code,)
"""Codes of errors that no later import can avoid: the table's format is not supported."""

_ENTRIES = (
    ListColumn("table"), ListColumn("action"), ListColumn("partitions", right=True, rank=1),
    ListColumn("files", right=True, rank=2), ListColumn("code", rank=3, hidden=True),
    ListColumn("reason", "why", wraps=True),
)  # fmt: skip


@click.command("import", short_help="Import TABLE from the metastore into the index.")
@click.argument("table")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Set a table property. Repeatable.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=JOBS,
    show_default=True,
    help="How many tables of a pattern are imported at the same time.",
)
@click.option(
    "--refused-ok",
    is_flag=True,
    help="Exit with 0 even if tables were refused because they can never be imported (views, ACID, Avro, …).",
)
@list_options(_ENTRIES)
@click.pass_obj
def import_(
    invocation: Invocation, table: str, properties: tuple[str, ...], jobs: int, refused_ok: bool, shape: Shape
) -> int:
    """Import TABLE from the Hive Metastore into the index, with its partitions and files.

    Nothing is changed in the metastore. TABLE is one table, a database, or a pattern such as sales.* (quote it). Of a
    database or pattern, each table is listed as imported, as already in the index, or as refused with the reason. A
    managed table stays managed: `drop-partitions`, DROP TABLE and overwrites delete its files from then on.

    Exits with 1 if no table matches or one was refused. With --refused-ok only a temporary failure counts.

    \b
    catalog-ext import sales.trips
    catalog-ext import 'sales.*' --jobs 8 --refused-ok
    """  # noqa: D301 -- click wants the character, not a raw backslash
    given = pairs(properties, "--property")
    invocation.require_metastore()
    if is_pattern(table):
        return _import_many(invocation, table, given, jobs, refused_ok=refused_ok, shape=shape)
    with (
        invocation.catalog(makes_index=True, at_once=True) as catalog,
        progress_bar(message_console(), "Reading the metastore") as progress,
    ):
        done = "Imported"
        try:
            imported = catalog.import_table(table, given, progress=progress)
        except TableAlreadyExistsError:
            # Without given properties, report an existing table as "already there". With properties raise the error,
            # because the existing table may have different ones.
            if given or next(catalog.import_tables(table)).action != THERE:
                raise
            imported, done = catalog.load_table(table), "There already:"
    if shape.is_text or shape.is_json:
        show_table(imported, done, None, as_json=shape.is_json)
    else:
        totals = imported.totals
        action = TAKEN if done == "Imported" else THERE
        _show([ImportEntry(str(imported.identifier), action, totals.partitions, totals.files)], {}, shape)
    return 0


def _import_many(
    invocation: Invocation, pattern: str, properties: dict[str, str], jobs: int, *, refused_ok: bool, shape: Shape
) -> int:
    with (
        invocation.catalog(makes_index=True, at_once=True) as catalog,
        spinner(message_console(), f"Importing {pattern}"),
    ):
        entries = list(catalog.import_tables(pattern, properties, jobs=jobs))
    _show(entries, {"pattern": pattern}, shape)
    refused = [entry for entry in entries if entry.action == REFUSED]
    if refused_ok:
        refused = [entry for entry in refused if entry.code not in _FOR_GOOD]
    return 1 if refused else 0


def _show(entries: list[ImportEntry], head: dict[str, Any], shape: Shape) -> None:
    taken = sum(entry.action == TAKEN for entry in entries)
    end = f"{taken:,} of {counted(len(entries), 'table')} taken." if entries else "No table matches."
    listing = Listing(("table", "tables"), _ENTRIES, head, style=lambda row: "red" if row["action"] == REFUSED else "")
    listing.show(shape, map(_row, entries), len(entries), end=end, as_json=_fields)


def _row(entry: ImportEntry) -> dict[str, Any]:
    row = asdict(entry)
    if entry.action == REFUSED:
        # A table that was not imported has no counts.
        row |= {"partitions": None, "files": None}
    return row


def _fields(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"partitions": row["partitions"] or 0, "files": row["files"] or 0}
