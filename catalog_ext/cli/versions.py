"""Commands that give tables and partitions the state of an earlier version."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.listing import UNCHANGED, Listing
from catalog_ext.cli.options import list_options, version_options, where_of, where_options
from catalog_ext.metastore.runtime.wording import format_bytes
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.cli.listing import Shape
    from catalog_ext.metastore.model.as_of import Version
    from catalog_ext.metastore.transactions.reports import RollbackEntry

_ENTRIES = (
    ListColumn("action"),
    ListColumn("partition"),
    ListColumn("files", right=True),
    ListColumn("rows", right=True, rank=2),
    ListColumn("bytes", "size", right=True, cell=format_bytes, rank=1),
    ListColumn("reason", wraps=True, rank=3),
    ListColumn("version", right=True, rank=4),
)
_dry_run = click.option("--dry-run", is_flag=True, help="Show what would be restored, change nothing.")


@click.command(short_help="Give TABLE the files of an earlier version.")
@click.argument("table", shell_complete=complete_table)
@where_options
@version_options("the earlier version", "")
@_dry_run
@list_options(_ENTRIES)
@click.pass_obj
def rollback(
    invocation: Invocation, table: str, version: Version | None, where: str | None, spec: tuple[str, ...],
    dry_run: bool, shape: Shape,
) -> None:  # fmt: skip
    """Give TABLE, or the partitions that match a condition, the files of an earlier version.

    The files must still exist, as those that an overwrite with `overwrite-mode` relocate has replaced do until a
    vacuum. If one is missing or was changed, nothing is changed. The rollback is a new version, and a rollback to the
    version before it undoes it. But newer files in a directory that a partition keeps are deleted: see --dry-run.

    \b
    catalog-ext rollback sales.trips --version 41 --dry-run
    catalog-ext rollback sales.trips --version 41 --where "ds = '2025-01-31'"
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if version is None:
        raise click.UsageError("Name the earlier version by --version or --timestamp.")
    with invocation.catalog() as catalog:
        entries = catalog.rollback(table, version, where_of(where, spec), dry_run=dry_run)
    _show(table, entries, shape, dry_run=dry_run)


@click.command("restore-partition", short_help="Give a partition of TABLE its earlier files.")
@click.argument("table", shell_complete=complete_table)
@click.argument("partition")
@version_options("the earlier version", " Default: before the partition's last change.")
@_dry_run
@list_options(_ENTRIES)
@click.pass_obj
def restore_partition(
    invocation: Invocation, table: str, partition: str, version: Version | None, dry_run: bool, shape: Shape
) -> None:
    """Give PARTITION of TABLE, such as ds=2025-01-31, the files of an earlier version.

    The partition may have been dropped. The files must still exist, as for `rollback`. Run the command a second time
    without --version to undo it.

    \b
    catalog-ext restore-partition sales.trips ds=2025-01-31 --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog() as catalog:
        entries = catalog.restore_partition(table, partition, version, dry_run=dry_run)
    _show(table, entries, shape, dry_run=dry_run)


def _show(table: str, entries: Sequence[RollbackEntry], shape: Shape, *, dry_run: bool) -> None:
    rows = [asdict(entry) for entry in entries]
    end = UNCHANGED if dry_run and rows else "" if rows else "The partitions are as they were in that version."
    Listing(("change", "changes"), _ENTRIES, {"table": table, "dry_run": dry_run}).show(shape, rows, len(rows), end=end)
