"""Options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from catalog_ext.cli.invocation import pairs
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.predicates.conditions import Where

F = TypeVar("F", bound="Callable[..., Any]")


def json_option(command: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def where_options(command: F) -> F:
    """Add ``--where`` and ``--partition``, which limit a command to some partitions."""
    command = click.option(
        "--partition",
        "-p",
        "spec",
        multiple=True,
        metavar="KEY=VALUE",
        help="Limit to partitions with this value; repeatable. The value __HIVE_DEFAULT_PARTITION__ is NULL.",
    )(command)
    return click.option(
        "--where",
        metavar="CONDITION",
        help="Limit to partitions that satisfy a SQL condition, such as \"ds >= '2025-01-01'\".",
    )(command)


def limit_option(command: F) -> F:
    """Add ``--limit``."""
    return click.option(
        "--limit",
        type=click.IntRange(min=0),
        default=None,
        metavar="ROWS",
        help="Rows to show, 0 for all. Default: 100 as text, all as JSON.",
    )(command)


def where_of(where: str | None, spec: tuple[str, ...]) -> Where:
    """Return the limit that the options state.

    Raises:
        click.UsageError: Both are given, or a spec is not KEY=VALUE.
    """
    if where is not None and spec:
        raise click.UsageError("--where and --partition exclude each other; say it all in --where.")
    if spec:
        values = pairs(spec, "--partition")
        return {key: None if value == DEFAULT_PARTITION else value for key, value in values.items()}
    return where
