"""Commands that list what is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from catalog_ext.cli.invocation import Invocation, output_console
from catalog_ext.cli.options import json_option, limit_option, where_of, where_options
from catalog_ext.cli.output import add_row, arrow_rows, echo_json_rows, make_table, moment, note, size
from catalog_ext.repair.report import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

_SHOWN = 100


@click.command()
@click.argument("table")
@where_options
@limit_option
@json_option
@click.pass_obj
def partitions(
    invocation: Invocation, table: str, where: str | None, spec: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    """List the registered partitions of TABLE, in the order of their values."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.partitions(table, where_of(where, spec))
    columns = (
        ("partition", "left"),
        ("files", "right"),
        ("size", "right"),
        ("rows", "right"),
        ("created (UTC)", "left"),
    )

    def cells(row: dict[str, Any]) -> list[object]:
        return [row["partition"], row["files"], size(row["bytes"]), row["rows"], moment(row["created_ms"])]

    _print(found, table, "partitions", columns, cells, limit, as_json=as_json)


@click.command()
@click.argument("table")
@where_options
@limit_option
@json_option
@click.pass_obj
def files(
    invocation: Invocation, table: str, where: str | None, spec: tuple[str, ...], limit: int | None, as_json: bool
) -> None:
    """List the registered files of TABLE, as a query would read them."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.files(table, where_of(where, spec))
    columns = (
        ("partition", "left"),
        ("file", "left"),
        ("size", "right"),
        ("rows", "right"),
        ("modified (UTC)", "left"),
    )

    def cells(row: dict[str, Any]) -> list[object]:
        return [row["partition"], row["path"], size(row["size"]), row["rows"], moment(row["modified_ms"])]

    _print(found, table, "files", columns, cells, limit, as_json=as_json)


def _print(
    found: pa.Table,
    table: str,
    what: str,
    columns: Sequence[tuple[str, str]],
    cells: Callable[[dict[str, Any]], list[object]],
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        echo_json_rows({"table": table}, what, arrow_rows(found, limit or None))
        return
    console = output_console()
    elsewhere = found.num_rows - found.column("location").null_count > 0
    listed = make_table((*columns, ("location", "left")) if elsewhere else columns)
    shown_rows = (_SHOWN if limit is None else limit) or found.num_rows
    for row in arrow_rows(found, shown_rows):
        add_row(listed, *cells(row), *([row["location"]] if elsewhere else []))
    if found.num_rows:
        console.print(listed)
    more = f"; {shown_rows:,} shown, --limit 0 shows all" if found.num_rows > shown_rows else ""
    note(console, f"{counted(found.num_rows, what[:-1], what)}{more}")
