"""The command that takes tables of a metastore into the index."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, pairs
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import add_row, echo_json_rows, make_table, note
from catalog_ext.cli.progress import progress_bar, spinner
from catalog_ext.cli.tables import show_table
from catalog_ext.tables.import_tables import JOBS, REFUSED, TAKEN

if TYPE_CHECKING:
    from catalog_ext.tables.import_tables import ImportEntry


@click.command("import")
@click.argument("table")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A table property. Repeatable.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=JOBS, show_default=True, help="Tables of a pattern at a time."
)
@json_option
@click.pass_obj
def import_(invocation: Invocation, table: str, properties: tuple[str, ...], jobs: int, as_json: bool) -> int:
    """Take TABLE of the metastore into the index, with its partitions and files.

    Nothing changes in the metastore. TABLE is a table, a database, or tables of one with * and ? (quote it): then each
    is taken, there already, or refused with the reason, and the command exits with 1 if one was refused.

    \b
    catalog-ext import sales.trips
    catalog-ext import 'sales.*' --jobs 8
    """  # noqa: D301 -- click wants the character, not a raw backslash
    given = pairs(properties, "--property")
    if "." not in table or any(c in table for c in "*?"):
        return _import_many(invocation, table, given, jobs, as_json=as_json)
    with (
        invocation.catalog(makes_index=True) as catalog,
        progress_bar(message_console(), "Reading the metastore") as progress,
    ):
        imported = catalog.import_table(table, given, progress=progress)
    show_table(imported, "Imported", None, as_json=as_json)
    return 0


def _import_many(invocation: Invocation, pattern: str, properties: dict[str, str], jobs: int, *, as_json: bool) -> int:
    with (
        invocation.catalog(makes_index=True) as catalog,
        spinner(message_console(), f"Importing {pattern}"),
    ):
        entries = list(catalog.import_tables(pattern, properties, jobs=jobs))
    if as_json:
        echo_json_rows({"pattern": pattern}, "tables", map(asdict, entries))
    else:
        _print(entries)
    return 1 if any(entry.action == REFUSED for entry in entries) else 0


def _print(entries: list[ImportEntry]) -> None:
    console = output_console()
    headings = ("table", "left"), ("", "left"), ("partitions", "right"), ("files", "right"), ("why", "left")
    listed = make_table(headings)
    for entry in entries:
        counts = (None, None) if entry.action == REFUSED else (entry.partitions, entry.files)
        style = "red" if entry.action == REFUSED else ""
        why = entry.reason if entry.code is None else f"[{entry.code}] {entry.reason}"
        add_row(listed, entry.table, entry.action, *counts, why, style=style)
    if entries:
        console.print(listed)
    taken = sum(entry.action == TAKEN for entry in entries)
    note(console, f"{taken} of {len(entries)} tables taken." if entries else "No table matches.")
