"""Commands about whole tables, and about the index itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, pairs, settle
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import add_row, echo_json, make_table, note, size
from catalog_ext.cli.progress import spinner
from catalog_ext.metastore.errors import NamespaceAlreadyExistsError, NamespaceNotFoundError, TableNotFoundError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import FORMATS, TableType
from catalog_ext.service.messages.core import table_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table


@click.command()
@click.argument("table")
@click.argument("location")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="parquet", show_default=True, help="Format of the files."
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="NAME[=TYPE]",
    help="A partition column, in the order of the directories; STRING without a type. Repeatable. "
    "Default: the keys found in the paths.",
)
@click.option(
    "--schema",
    metavar="DDL",
    help="The columns, such as 'id BIGINT, fare DECIMAL(10,2)'. Default: read from the files.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    metavar="KEY=VALUE",
    help="An option of Spark's reader, such as header=true. Repeatable.",
)
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A table property. Repeatable.")
@click.option("--comment", help="A comment.")
@click.option("--no-keys", is_flag=True, help="The table has no partition columns, whatever the paths have.")
@click.option("--create-namespace", is_flag=True, help="Create the table's namespace unless it is there.")
@click.option("--if-not-exists", is_flag=True, help="Leave a table that is registered at LOCATION already as it is.")
@json_option
@click.pass_obj
def register(
    invocation: Invocation,
    table: str,
    location: str,
    format_: str,
    keys: tuple[str, ...],
    schema: str | None,
    options: tuple[str, ...],
    properties: tuple[str, ...],
    comment: str | None,
    no_keys: bool,
    create_namespace: bool,
    if_not_exists: bool,
    as_json: bool,
) -> None:
    """Register the files at LOCATION as the external table TABLE.

    LOCATION is the directory above the key=value directories, or a pattern with wildcards (quote it): * and ? within a
    directory's name, ** across directories, {a,b} and {1..9} for each of several. The keys of a pattern are those in
    the paths that it matches, and its table is read only. No file is touched. `repair` then brings its partitions into
    the index.

    \b
    catalog-ext register sales.trips s3://bucket/trips --key ds=DATE
    catalog-ext register sales.trips 's3://bucket/trips/year=*/**.parquet'
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if no_keys and keys:
        raise click.UsageError("--no-keys and --key exclude each other.")
    named = {name: data_type or "STRING" for name, _, data_type in (key.partition("=") for key in keys)}
    columns = named if keys or no_keys else None
    with invocation.catalog(makes_index=True) as catalog, spinner(message_console(), "Looking at the location"):
        if create_namespace:
            _create_namespace(catalog, table)
        there = if_not_exists and _is_there(catalog, table)
        try:
            registered = catalog.register_table(
                table,
                location=_absolute(location),
                format=format_,
                partition_columns=columns,
                schema=schema,
                options=pairs(options, "--option"),
                properties=pairs(properties, "--property"),
                comment=comment,
                if_not_exists=if_not_exists,
            )
        except NamespaceNotFoundError as error:
            raise NamespaceNotFoundError(f"{error.message} Or say --create-namespace.", error.parameters) from error
        settle(catalog)
        state = catalog.metastore_state(registered)
    # What was asked of it is not compared: a table that is there is what somebody has made of it.
    show_table(registered, "Left as it is:" if there else "Registered", state, as_json=as_json)
    if not as_json:
        note(output_console(), f"Next: catalog-ext repair {registered.identifier}")


@click.command()
@click.argument("table")
@json_option
@click.pass_obj
def unregister(invocation: Invocation, table: str, as_json: bool) -> None:
    """Forget TABLE; its files, and the metastore's table, stay."""
    with invocation.catalog(with_metastore=False) as catalog:
        gone = catalog.unregister_table(table)
    show_table(gone, "Unregistered", None, as_json=as_json)
    if not as_json and gone.definition.table_type is TableType.MANAGED:
        note(
            output_console(),
            f"It was a managed table. catalog-ext import {gone.identifier} takes it from the metastore as it was; "
            "register makes an external one of its files, whose keys are STRING unless --key says otherwise.",
        )


@click.command()
@click.argument("table")
@json_option
@click.pass_obj
def describe(invocation: Invocation, table: str, as_json: bool) -> None:
    """Show what TABLE is: its location, format, columns, options and properties."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.load_table(table)
    show_table(found, f"{found.definition.table_type.capitalize()} table", None, as_json=as_json)
    if as_json:
        return
    definition = found.definition
    lines = [("comment", definition.comment or "-"), ("version", str(found.version))]
    for what, pairs_ in (("option", definition.options), ("property", definition.properties)):
        lines += [(what, f"{name}={value}") for name, value in sorted(pairs_.items())]
    for label, text in lines:
        note(output_console(), f"  {label:<18} {text}")


@click.command()
@click.argument("namespaces", nargs=-1, metavar="[NAMESPACE]...")
@json_option
@click.pass_obj
def tables(invocation: Invocation, namespaces: tuple[str, ...], as_json: bool) -> None:
    """List the tables and views, of all namespaces or of those named."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = list(_tables(catalog, namespaces))
    if as_json:
        echo_json({"tables": [table_json(t) for t in found]})
        return
    headings = ("table", "left"), ("format", "left"), ("partitions", "right"), ("files", "right"), ("size", "right")
    listed = make_table((*headings, ("version", "right"), ("location", "left")))
    for t in found:
        totals = t.totals
        row = (t.identifier, t.definition.format, totals.partitions, totals.files, size(totals.bytes), t.version)
        add_row(listed, *row, t.definition.location)
    console = output_console()
    if found:
        console.print(listed)
    else:
        note(console, "No table is registered.")


@click.command()
@click.option(
    "--check", is_flag=True, help="Change nothing; exit with 1 when the index is not at the schema of this release."
)
@json_option
@click.pass_obj
def migrate(invocation: Invocation, check: bool, as_json: bool) -> None:
    """Bring the index database to the schema of this release."""
    with Index.connect(invocation.settings().index) as index:
        head, before = index.head_revision(), index.current_revision()
        if not check:
            before, _ = index.migrate()
        after = index.current_revision()
        url = index.url
    if as_json:
        echo_json({"index": url, "before": before, "revision": after, "head": head, "at_head": after == head})
    else:
        came = "" if before == after else f" (before: {before or 'no index'})"
        state = "is at" if after == head else f"is NOT at {head}; run catalog-ext migrate. It is at"
        note(output_console(), f"The index {url} {state} revision {after or 'none'}{came}.")
    if after != head:
        raise click.exceptions.Exit(1)


def _absolute(location: str) -> str:
    # In a shell a bare path is one in the working directory.
    return location if "://" in location or location.startswith("file:") else str(Path(location).absolute())


def _create_namespace(catalog: Catalog, table: str) -> None:
    namespace = catalog.identify(table).namespace
    if namespace in catalog.list_namespaces():
        return
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        # Somebody else was first, which is as good.
        return


def _tables(catalog: Catalog, namespaces: tuple[str, ...]) -> Iterator[Table]:
    for namespace in namespaces or catalog.list_namespaces():
        for name in catalog.list_tables(namespace):
            yield catalog.load_table(str(TableIdentifier(namespace.lower(), name)))
        for name in catalog.views.list_names(namespace):
            yield catalog.views.load(str(TableIdentifier(namespace.lower(), name))).table


def _is_there(catalog: Catalog, table: str) -> bool:
    try:
        catalog.load_table(table)
    except TableNotFoundError:
        return False
    return True


def show_table(table: Table, what: str, metastore: str | None, *, as_json: bool) -> None:
    """Print what a table is.

    Args:
        table: The table.
        what: What was done to it, before its name.
        metastore: What the metastore has of it; None where that is not said.
        as_json: Whether to print JSON.
    """
    if as_json:
        echo_json(table_json(table) | ({} if metastore is None else {"metastore": metastore}))
        return
    definition = table.definition
    console = output_console()
    keys = ", ".join(f"{c.name} {c.type.upper()}" for c in definition.partition_columns) or "none"
    columns = ", ".join(f"{c.name} {c.type.upper()}" for c in definition.columns)
    note(console, f"{what} {table.identifier}", "bold")
    lines = [
        ("location", definition.location),
        ("format", definition.format),
        ("partition columns", keys),
        ("columns", columns),
    ]
    if table.totals.partitions:
        lines.append(
            ("partitions", f"{table.totals.partitions:,} with {table.totals.files:,} files, {size(table.totals.bytes)}")
        )
    if metastore is not None:
        lines.append(("metastore", metastore))
    for label, text in lines:
        note(console, f"  {label:<18} {text}")
