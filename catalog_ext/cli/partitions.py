"""Commands that list registered partitions and files, and drop partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.invocation import output_console
from catalog_ext.cli.listing import UNCHANGED, Listing
from catalog_ext.cli.options import list_options, version_options, where_of, where_options
from catalog_ext.cli.output import arrow_rows, note
from catalog_ext.cli.writes import DURATION
from catalog_ext.metastore.commit.partition_expiry import REGISTERED_AGAIN
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.runtime.wording import format_bytes
from catalog_ext.overview.formats import moment
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.cli.listing import Shape
    from catalog_ext.metastore.model.as_of import Version
    from catalog_ext.repair.report import ReportEntry

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
_DROPPED = (
    ListColumn("partition"),
    ListColumn("path", rank=3, hidden=True),
    ListColumn("files", right=True),
    ListColumn("bytes", "size", right=True, cell=format_bytes),
    ListColumn("reason", wraps=True, rank=1),
)
_AGAIN = (
    "The table is an external one: its files stay, and a repair adds the partitions again, unless its mode is drop. "
    "To prevent that, delete the files, or set partition.retention.period where partitions are to expire."
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be dropped, change nothing.")


@click.command(short_help="List the registered partitions of TABLE.")
@click.argument("table", shell_complete=complete_table)
@where_options
@version_options("the version to list", " Default: the newest.")
@list_options(_PARTITIONS)
@click.pass_obj
def partitions(
    invocation: Invocation, table: str, where: str | None, spec: tuple[str, ...], version: Version | None, shape: Shape
) -> None:
    """List the registered partitions of TABLE, sorted by their values."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.partitions(table, where_of(where, spec), version=version)
    _show(found, table, ("partition", "partitions"), _PARTITIONS, shape)


@click.command(short_help="List the registered files of TABLE.")
@click.argument("table", shell_complete=complete_table)
@where_options
@version_options("the version to list", " Default: the newest.")
@list_options(_FILES)
@click.pass_obj
def files(
    invocation: Invocation, table: str, where: str | None, spec: tuple[str, ...], version: Version | None, shape: Shape
) -> None:
    """List the registered files of TABLE: those that a query reads.

    With `--version` or `--timestamp`, the list has the files of that version, also those that were deleted since.
    """
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.files(table, where_of(where, spec), version=version)
    _show(found, table, ("file", "files"), _FILES, shape)


def _show(found: pa.Table, table: str, name: tuple[str, str], columns: Sequence[ListColumn], shape: Shape) -> None:
    # The column is empty unless a partition is outside the table's directory, which is rare: a text table leaves it
    # out.
    is_needed = shape.columns or not shape.is_text or found.num_rows > found.column("location").null_count
    kept = columns if is_needed else [c for c in columns if c is not _ELSEWHERE]
    Listing(name, kept, {"table": table}).show(shape, arrow_rows(found), found.num_rows)


@click.command("drop-partitions", short_help="Drop the partitions that match a condition.")
@click.argument("table", shell_complete=complete_table)
@where_options
@click.option(
    "--purge",
    is_flag=True,
    help="Also delete files of a managed table that lie outside its directory. Default: they stay.",
)
@_dry_run
@list_options(_DROPPED)
@click.pass_obj
def drop_partitions(
    invocation: Invocation, table: str, where: str | None, spec: tuple[str, ...], purge: bool, dry_run: bool,
    shape: Shape,
) -> None:  # fmt: skip
    """Drop the partitions of TABLE that match a condition.

    The index and the metastore forget the partitions. The files of a managed table are deleted; the files of an
    external table stay. The next `repair` with mode add or sync therefore registers dropped partitions of an external
    table again, unless the table has the property partition.retention.period and they are older than that.

    \b
    catalog-ext drop-partitions sales.trips --where "ds < '2024-01-01'" --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog() as catalog:
        entries = catalog.partition_maintenance.drop(table, where_of(where, spec), purge=purge, dry_run=dry_run)
        come_back = catalog.load_table(table).definition.table_type is TableType.EXTERNAL
    _show_dropped(table, entries, shape, dry_run=dry_run, come_back=come_back)


@click.command("expire-partitions", short_help="Drop partitions that are older than a retention.")
@click.argument("table", shell_complete=complete_table)
@click.option(
    "--retention",
    metavar=DURATION,
    help="Maximum age, such as 90d or 12h (a bare number is seconds); older partitions are dropped. Default: "
    "the table's property partition.retention.period.",
)
@_dry_run
@click.option(
    "--force",
    is_flag=True,
    help="No limit on the share of partitions that may be dropped at once. Default: `repair.mass-drop-percent` (50).",
)
@list_options(_DROPPED)
@click.pass_obj
def expire_partitions(
    invocation: Invocation, table: str, retention: str | None, dry_run: bool, force: bool, shape: Shape
) -> None:
    """Drop the partitions of TABLE whose date or time is older than a retention.

    The age of a partition is computed from its values (such as ds=2024-01-31), not from its files. The files of a
    managed table are deleted; the files of an external table stay. The next `repair` with mode add or sync registers
    dropped partitions of an external table again, unless the table has the property partition.retention.period and they
    are older than that. If all partitions, or more than half of at least 20, would be dropped, nothing is changed
    without --force.

    \b
    catalog-ext expire-partitions sales.trips --retention 90d --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    from catalog_ext.repair.report import REFUSE

    with invocation.catalog() as catalog:
        entries = catalog.partition_maintenance.expire(
            table, retention=retention, allow_mass_drop=force, dry_run=dry_run
        )
    refusal = next((entry.reason for entry in entries if entry.action == REFUSE), None)
    entries = [entry for entry in entries if entry.action != REFUSE]
    come_back = any(REGISTERED_AGAIN in entry.reason for entry in entries)
    _show_dropped(table, entries, shape, dry_run=dry_run, come_back=come_back, head={"refused": refusal})
    if refusal is not None and shape.is_text:
        note(output_console(), f"{refusal[0].upper()}{refusal[1:]}", "yellow")


def _show_dropped(
    table: str, entries: Sequence[ReportEntry], shape: Shape, *, dry_run: bool, come_back: bool,
    head: Mapping[str, object] | None = None,
) -> None:  # fmt: skip
    listing = Listing(("partition", "partitions"), _DROPPED, {"table": table, "dry_run": dry_run, **(head or {})})
    rows = (entry._asdict() for entry in entries)
    end = "Nothing was changed." if head and head["refused"] else UNCHANGED if dry_run and entries else ""
    listing.show(shape, rows, len(entries), end=end)
    if shape.is_text and entries and come_back and not dry_run:
        note(output_console(), _AGAIN, "yellow")
