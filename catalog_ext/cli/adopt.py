"""The command by which an index takes on another metastore or warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from catalog_ext.cli.listing import UNCHANGED, Listing
from catalog_ext.cli.options import list_options
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.overview.layout import ListColumn

if TYPE_CHECKING:
    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.cli.listing import Shape

_CHANGES = (ListColumn("what"), ListColumn("before"), ListColumn("after"))

_NEXT = "Restart the services and sessions that have it open. What another metastore lacks: catalog-ext publish --all"


@click.command(short_help="Make another metastore or warehouse the index's own.")
@click.option("--dry-run", is_flag=True, help="Preview: say what would change and change nothing.")
@list_options(_CHANGES)
@click.pass_obj
def adopt(invocation: Invocation, dry_run: bool, shape: Shape) -> None:
    """Make the --metastore and the --warehouse that are named the index's own, in the place of those that it has.

    An index has one of each: whoever opens it gets both, and others are refused. Tables stay where they are. The three
    options go before the command; name the index, which is not looked for beside the warehouse that it is to take on.
    The warehouse's mark, the file _catalog_ext_index, names this index from then on, whoever's it was.
    After a project's folder was moved, name its metastore (embedded) and warehouse as they are now.

    \b
    catalog-ext --index lake.db --metastore thrift://new-host:9083 adopt
    catalog-ext --index lake.db --warehouse s3://bucket/lake adopt --dry-run
    catalog-ext --index .catalog-ext/index.db --metastore embedded \\
        --warehouse spark-warehouse adopt
    """  # noqa: D301 -- click wants the character, not a raw backslash
    from catalog_ext.metastore.index.database.urls import missing_file
    from catalog_ext.metastore_sync.home import adopt as adopt_home

    if invocation.index is None and invocation.warehouse is not None and missing_file(invocation.settings().index):
        raise InvalidConfigurationError(
            f"No index is named, and none lies beside the warehouse {invocation.warehouse} that it is to take on. Name "
            f"it: catalog-ext --index URL --warehouse '{invocation.warehouse}' adopt"
        )
    invocation.require_index()
    adopted = adopt_home(
        index=invocation.index, metastore=invocation.metastore, warehouse=invocation.warehouse,
        storage=invocation.storage, dry_run=dry_run,
    )  # fmt: skip
    rows = [entry._asdict() for entry in adopted]
    end = UNCHANGED if dry_run else _NEXT
    Listing(("change", "changes"), _CHANGES, {"dry_run": dry_run}).show(shape, rows, len(rows), end=end)
