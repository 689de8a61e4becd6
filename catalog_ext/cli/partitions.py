"""Commands that list what is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.listing import Listing
from catalog_ext.cli.options import list_options, where_of, where_options
from catalog_ext.cli.output import arrow_rows
from catalog_ext.metastore.runtime.wording import format_bytes
from catalog_ext.overview.formats import moment
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.cli.listing import Shape

_ROWS = ListColumn("rows", right=True, rank=3)
_ELSEWHERE = ListColumn("location", rank=5)
_PARTITIONS = (
    ListColumn("partition"),
    ListColumn("files", right=True, rank=2),
    ListColumn("bytes", "size", right=True, cell=format_bytes, rank=1),
    _ROWS,
    ListColumn("created_ms", "created (UTC)", cell=moment, rank=4),
    _ELSEWHERE,
)
_FILES = (
    ListColumn("partition"), ListColumn("path", "file"), ListColumn("size", right=True, cell=format_bytes, rank=1),
    _ROWS, ListColumn("modified_ms", "modified (UTC)", cell=moment, rank=4), _ELSEWHERE,
)  # fmt: skip


@click.command(short_help="List the registered partitions of TABLE.")
@click.argument("table", shell_complete=complete_table)
@where_options
@list_options(_PARTITIONS)
@click.pass_obj
def partitions(invocation: Invocation, table: str, where: str | None, spec: tuple[str, ...], shape: Shape) -> None:
    """List the registered partitions of TABLE, in the order of their values."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.partitions(table, where_of(where, spec))
    _show(found, table, ("partition", "partitions"), _PARTITIONS, shape)


@click.command(short_help="List the registered files of TABLE.")
@click.argument("table", shell_complete=complete_table)
@where_options
@list_options(_FILES)
@click.pass_obj
def files(invocation: Invocation, table: str, where: str | None, spec: tuple[str, ...], shape: Shape) -> None:
    """List the registered files of TABLE, as a query would read them."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.files(table, where_of(where, spec))
    _show(found, table, ("file", "files"), _FILES, shape)


def _show(found: pa.Table, table: str, name: tuple[str, str], columns: Sequence[ListColumn], shape: Shape) -> None:
    # Only partitions that lie elsewhere say where: in most tables there is none.
    is_needed = shape.columns or not shape.is_text or found.num_rows > found.column("location").null_count
    kept = columns if is_needed else [c for c in columns if c is not _ELSEWHERE]
    Listing(name, kept, {"table": table}).show(shape, arrow_rows(found), found.num_rows)
