"""Commands about tables: register, unregister, describe, and list."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.completion import complete_namespace, complete_table
from catalog_ext.cli.invocation import Invocation, message_console, output_console, pairs, settle
from catalog_ext.cli.listing import Listing
from catalog_ext.cli.options import json_option, list_options
from catalog_ext.cli.output import echo_json, note, one_line, type_name
from catalog_ext.cli.progress import spinner
from catalog_ext.metastore.errors import NamespaceAlreadyExistsError, NamespaceNotFoundError, TableNotFoundError
from catalog_ext.metastore.model.tables import FORMATS, PartitionMode, TableType
from catalog_ext.metastore.runtime.wording import counted, format_bytes
from catalog_ext.overview.layout import ListColumn, record_lines, room

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from catalog_ext.catalog import Catalog
    from catalog_ext.cli.listing import Shape
    from catalog_ext.metastore.model.tables import Column, Table

_TABLES = (
    ListColumn("table"), ListColumn("type", hidden=True, rank=9), ListColumn("format", rank=2),
    ListColumn("partitions", right=True), ListColumn("files", right=True, rank=1),
    ListColumn("bytes", "size", right=True, cell=format_bytes, rank=1), ListColumn("version", right=True, rank=3),
    ListColumn("location", rank=4),
)  # fmt: skip
_LABEL = 17
"""The width of the labels in a table's description, in characters."""


@click.command(short_help="Register the files at LOCATION as the table TABLE.")
@click.argument("table")
@click.argument("location")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), default="parquet", show_default=True, help="Format of the files."
)
@click.option(
    "--key", "keys", multiple=True, metavar="NAME[=TYPE]",
    help="A partition column, in the order of the directories; the type is STRING if omitted. Repeatable. Default: "
    "the keys found in the paths.",
)  # fmt: skip
@click.option(
    "--partition-mode",
    type=click.Choice([str(mode) for mode in PartitionMode]),
    help="virtual: SELECT * omits partition columns; declared: SELECT * includes them.  [default: virtual]",
)
@click.option(
    "--schema",
    metavar="DDL",
    help="The columns, such as 'id BIGINT, fare DECIMAL(10,2)'. Default: inferred from the files.",
)
@click.option(
    "--option", "options", multiple=True, metavar="KEY=VALUE",
    help="An option of Spark's reader, such as header=true. Repeatable.",
)  # fmt: skip
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="Set a table property. Repeatable.")
@click.option("--comment", help="The table's comment.")
@click.option("--no-keys", is_flag=True, help="Register an unpartitioned table, even if the paths contain key=value.")
@click.option("--create-namespace", is_flag=True, help="Create the namespace if it is missing.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing if TABLE is already registered at LOCATION.")
@json_option
@click.pass_obj
def register(
    invocation: Invocation, table: str, location: str, format_: str, keys: tuple[str, ...], partition_mode: str | None,
    schema: str | None, options: tuple[str, ...], properties: tuple[str, ...], comment: str | None, no_keys: bool,
    create_namespace: bool, if_not_exists: bool, as_json: bool,
) -> None:  # fmt: skip
    """Register the files at LOCATION as the external table TABLE.

    LOCATION is the directory above the key=value directories, or a pattern with wildcards (quote it): * and ? within
    one name, ** across directories, {a,b} and {1..9} for alternatives. A table with a pattern is read-only, and its
    partition columns are the keys in the matching paths. No file is changed. Run `repair` next: it adds the partitions
    to the index.

    \b
    catalog-ext register sales.trips s3://bucket/trips --key ds=DATE
    catalog-ext register sales.trips 's3://bucket/trips/year=*/**.parquet'
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if no_keys and keys:
        raise click.UsageError("--no-keys and --key exclude each other.")
    named = {name: data_type or "STRING" for name, _, data_type in (key.partition("=") for key in keys)}
    columns = named if keys or no_keys else None
    with (
        invocation.catalog(makes_index=True, at_once=True) as catalog,
        spinner(message_console(), "Looking at the location"),
    ):
        if create_namespace:
            _create_namespace(catalog, table)
        there = if_not_exists and _is_there(catalog, table)
        try:
            registered = catalog.register_table(
                table, location=_absolute(location), format=format_, partition_columns=columns,
                partition_mode=partition_mode, schema=schema, options=pairs(options, "--option"),
                properties=pairs(properties, "--property"), comment=comment, if_not_exists=if_not_exists,
            )  # fmt: skip
        except NamespaceNotFoundError as error:
            raise NamespaceNotFoundError(f"{error.message} Or say --create-namespace.", error.parameters) from error
        settle(catalog)
        state = catalog.metastore_state(registered)
    # The options are not compared with an existing table, which may have been altered since its registration.
    show_table(registered, "Left as it is:" if there else "Registered", state, as_json=as_json)
    if not as_json:
        note(output_console(), f"Next: catalog-ext repair {registered.identifier}")


@click.command(short_help="Remove TABLE from the index only.")
@click.argument("table", shell_complete=complete_table)
@json_option
@click.pass_obj
def unregister(invocation: Invocation, table: str, as_json: bool) -> None:
    """Remove TABLE from the index only.

    Its files and its table in the metastore stay. `import` or `register` brings it back; its history is lost.
    """
    with invocation.catalog(with_metastore=False) as catalog:
        gone = catalog.unregister_table(table)
    show_table(gone, "Unregistered", None, as_json=as_json)
    if not as_json and gone.definition.table_type is TableType.MANAGED:
        note(
            output_console(),
            f"It was a managed table. catalog-ext import {gone.identifier} takes it from the metastore as it was; "
            "register makes an external one of its files, whose keys are STRING unless --key says otherwise.",
        )


@click.command(short_help="Show location, format, columns and options of TABLE.")
@click.argument("table", shell_complete=complete_table)
@json_option
@click.pass_obj
def describe(invocation: Invocation, table: str, as_json: bool) -> None:
    """Show the location, the format, the columns, the options and the properties of TABLE."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = catalog.load_table(table)
    show_table(found, f"{found.definition.table_type.capitalize()} table", None, as_json=as_json)
    if as_json:
        return
    definition = found.definition
    lines = [("comment", definition.comment or "-"), ("version", str(found.version))]
    for what, pairs_ in (("option", definition.options), ("property", definition.properties)):
        lines += [(what, f"{name}={value}") for name, value in sorted(pairs_.items())]
    print_lines(lines)


@click.command(short_help="List the tables and views of the index.")
@click.argument("namespaces", nargs=-1, metavar="[NAMESPACE]...", shell_complete=complete_namespace)
@list_options(_TABLES)
@click.pass_obj
def tables(invocation: Invocation, namespaces: tuple[str, ...], shape: Shape) -> None:
    """List the tables and views of the index, of all namespaces or of the named ones."""
    with invocation.catalog(with_metastore=False) as catalog:
        found = list(_tables(catalog, namespaces))
    from catalog_ext.service.messages.core import table_json

    by_name = {str(t.identifier): t for t in found}
    rows = [
        {
            "table": name,
            "type": t.definition.table_type.value.lower(),
            "format": t.definition.format,
            "partitions": t.totals.partitions,
            "files": t.totals.files,
            "bytes": t.totals.bytes,
            "version": t.version,
            "location": t.definition.location,
        }
        for name, t in by_name.items()
    ]
    Listing(("table", "tables"), _TABLES).show(
        shape, rows, len(rows), end="" if rows else "No table is registered.",
        as_json=lambda row: table_json(by_name[row["table"]]),
    )  # fmt: skip


def _absolute(location: str) -> str:
    # A path without a scheme is relative to the working directory of the shell.
    return location if "://" in location or location.startswith("file:") else str(Path(location).absolute())


def _create_namespace(catalog: Catalog, table: str) -> None:
    namespace = catalog.identify(table).namespace
    if namespace in catalog.list_namespaces():
        return
    try:
        catalog.create_namespace(namespace)
    except NamespaceAlreadyExistsError:
        # Another process created the namespace first.
        return


def _tables(catalog: Catalog, namespaces: tuple[str, ...]) -> Iterator[Table]:
    from catalog_ext.metastore.model.identifiers import TableIdentifier

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
    """Print a table below the heading ``what``, with its delivery state in the metastore unless that is None."""
    from catalog_ext.service.messages.core import table_json

    if as_json:
        echo_json(table_json(table) | ({} if metastore is None else {"metastore": metastore}))
        return
    definition, totals = table.definition, table.totals
    note(output_console(), f"{what} {table.identifier}", "bold")
    lines = [
        ("location", definition.location),
        ("format", definition.format),
        ("partition columns", _described(definition.partition_columns) or "none"),
        ("columns", _described(definition.columns)),
    ]
    if definition.partition_columns:
        shows = "shows" if definition.partition_mode is PartitionMode.DECLARED else "leaves out"
        lines.insert(3, ("SELECT *", f"{shows} the partition columns ({definition.partition_mode})"))
    if totals.partitions:
        files = f"{counted(totals.files, 'file')}, {format_bytes(totals.bytes)}"
        lines.append(("partitions", f"{totals.partitions:,} with {files}"))
    if metastore is not None:
        lines.append(("metastore", metastore))
    print_lines(lines)


def _described(columns: Iterable[Column]) -> str:
    return ", ".join(f"{c.name} {type_name(c.type)}" for c in columns)


def print_lines(lines: list[tuple[str, str]]) -> None:
    """Print pairs of label and text, wrapped at the terminal's width."""
    console, width = output_console(), room()
    texts = [(label, one_line(text)) for label, text in lines]
    for line in record_lines(texts, None if width is None else width - 2, _LABEL):
        console.out(f"  {line}", highlight=False)
