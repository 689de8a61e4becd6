"""Commands that drop partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.options import json_option, limit_option, where_of, where_options
from catalog_ext.cli.output import size
from catalog_ext.cli.writes import DURATION, UNCHANGED, Listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.repair.report import ReportEntry

_dry_run = click.option("--dry-run", is_flag=True, help="Preview: say what would be dropped and change nothing.")


@click.command("drop-partitions")
@click.argument("table")
@where_options
@click.option("--purge", is_flag=True, help="Delete a managed table's data outside its directory too.")
@_dry_run
@limit_option
@json_option
@click.pass_obj
def drop_partitions(
    invocation: Invocation,
    table: str,
    where: str | None,
    spec: tuple[str, ...],
    purge: bool,
    dry_run: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    """Drop the partitions of TABLE that a condition is true for, with the data of a managed table.

    \b
    catalog-ext drop-partitions sales.trips --where "ds < '2024-01-01'" --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog() as catalog:
        entries = catalog.partition_maintenance.drop(table, where_of(where, spec), purge=purge, dry_run=dry_run)
    _show(table, entries, limit, dry_run=dry_run, as_json=as_json)


@click.command("expire-partitions")
@click.argument("table")
@click.option(
    "--retention", metavar=DURATION, help="Age, by their values, from which they go. Default: the table's property."
)
@_dry_run
@limit_option
@json_option
@click.pass_obj
def expire_partitions(
    invocation: Invocation, table: str, retention: str | None, dry_run: bool, limit: int | None, as_json: bool
) -> None:
    """Drop the partitions of TABLE whose time, by their values, is longer ago than the retention.

    \b
    catalog-ext expire-partitions sales.trips --retention 90d --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog() as catalog:
        entries = catalog.partition_maintenance.expire(table, retention=retention, dry_run=dry_run)
    _show(table, entries, limit, dry_run=dry_run, as_json=as_json)


def _show(table: str, entries: Sequence[ReportEntry], limit: int | None, *, dry_run: bool, as_json: bool) -> None:
    listing = Listing(
        ("partition", "partitions"),
        [entry._asdict() for entry in entries],
        ("partition", "path", "files", "bytes", "reason"),
        {"table": table, "dry_run": dry_run},
        right=("files", "bytes"),
        cells={"bytes": size},
    )
    listing.show(limit, as_json=as_json, end=UNCHANGED if dry_run and entries else "")
