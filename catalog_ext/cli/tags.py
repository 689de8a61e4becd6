"""Commands on tags: names of versions that vacuum keeps."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.listing import Listing, Shape
from catalog_ext.cli.options import list_options
from catalog_ext.overview.lists import TAGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.cli.invocation import Invocation
    from catalog_ext.metastore.index.write.version_holds import Tag


@click.command(short_help="Give a version of TABLE a name, and keep it.")
@click.argument("table", shell_complete=complete_table)
@click.argument("version", type=click.IntRange(min=0))
@click.argument("name")
@click.option("--until", metavar="TIME", help="When the tag ends, such as 2027-01-31 (UTC). Default: at `untag`.")
@list_options(TAGS)
@click.pass_obj
def tag(invocation: Invocation, table: str, version: int, name: str, until: str | None, shape: Shape) -> None:
    """Give VERSION of TABLE the name NAME, and keep it: vacuum does not remove the version or its files.

    Queries read it by VERSION AS OF 'name'. A name of digits only is refused, as is a version that vacuum has removed.

    \b
    catalog-ext tag sales.trips 41 before-load
    catalog-ext tag sales.trips 41 audit-2026 --until 2027-01-31
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=False) as catalog:
        _show(shape, table, [catalog.tag(table, version, name, until)])


@click.command(short_help="Remove a tag of TABLE.")
@click.argument("table", shell_complete=complete_table)
@click.argument("name")
@list_options(TAGS)
@click.pass_obj
def untag(invocation: Invocation, table: str, name: str, shape: Shape) -> None:
    """Remove the tag NAME of TABLE. Vacuum then removes the version like any other.

    \b
    catalog-ext untag sales.trips before-load
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=False) as catalog:
        _show(shape, table, [catalog.untag(table, name)])


@click.command(short_help="List the tags of TABLE.")
@click.argument("table", shell_complete=complete_table)
@list_options(TAGS)
@click.pass_obj
def tags(invocation: Invocation, table: str, shape: Shape) -> None:
    """List the tags of TABLE: name, version, end, user, and whether the version can be read."""
    with invocation.catalog(with_metastore=False) as catalog:
        _show(shape, table, catalog.tags(table))


def _show(shape: Shape, table: str, found: Sequence[Tag]) -> None:
    rows = [asdict(each) for each in found]
    end = "" if rows else "No version is tagged."
    Listing(("tag", "tags"), TAGS, {"table": table}).show(shape, rows, len(rows), end=end)
