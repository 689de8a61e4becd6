"""Options that several commands have."""

from __future__ import annotations

import difflib
import functools
from typing import TYPE_CHECKING, Any, TypeVar

import click

from catalog_ext.cli.completion import complete_column, complete_partition
from catalog_ext.cli.invocation import pairs
from catalog_ext.cli.listing import CSV, JSON, SHOWN, TABLE, Shape
from catalog_ext.metastore.model.as_of import time_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from catalog_ext.metastore.predicates.conditions import Where
    from catalog_ext.overview.layout import ListColumn

F = TypeVar("F", bound="Callable[..., Any]")

TEXT = "text"
_JSON_FLAG = click.option("--json", "as_json", is_flag=True, help="Short for --output json.")


def json_option(command: F) -> F:
    """Add ``--output`` (``text`` or ``json``) and ``--json``; the command is called with ``as_json``."""

    @functools.wraps(command)
    def with_json(*args: Any, output: str | None, as_json: bool, **kwargs: Any) -> Any:  # noqa: ANN401 -- any command's
        return command(*args, as_json=_output(output, as_json, TEXT) == JSON, **kwargs)

    choose = click.option("-o", "--output", type=click.Choice([TEXT, JSON]), help="Output format.  [default: text]")
    return choose(_JSON_FLAG(with_json))  # type: ignore[return-value]


def list_options(columns: Sequence[ListColumn], *, shown: int = SHOWN) -> Callable[[F], F]:
    """Add the options of a list: ``--output``, ``--json``, ``--columns``, ``--wide`` and ``--limit``.

    The command is called with a ``shape``; a table has ``shown`` rows by default.
    """

    def add(command: F) -> F:
        @functools.wraps(command)
        def with_shape(
            *args: Any,  # noqa: ANN401 -- any command's
            output: str | None,
            as_json: bool,
            wide: bool,
            columns: tuple[str, ...],
            limit: int | None,
            **kwargs: Any,  # noqa: ANN401
        ) -> Any:  # noqa: ANN401
            shape = Shape(_output(output, as_json, TABLE), wide, columns, limit)
            return command(*args, shape=shape, **kwargs)

        decorated: Any = _JSON_FLAG(with_shape)
        for option in reversed(_options_of_list(columns, shown)):
            decorated = option(decorated)
        return decorated  # type: ignore[no-any-return]

    return add


def _options_of_list(columns: Sequence[ListColumn], shown: int) -> tuple[Callable[[F], F], ...]:
    def parse(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
        return _columns(value, columns)

    names = [c.name for c in columns]
    return (
        click.option(
            "--limit", type=click.IntRange(min=0), metavar="ROWS",
            help=f"Rows to show; 0 shows all. Default: {shown} as a table, all as JSON or CSV.",
        ),
        click.option(
            "--columns", metavar="NAMES", callback=parse, shell_complete=complete_column(names),
            help=f"Columns to show, comma-separated: {', '.join(names)}.",
        ),
        click.option("--wide", is_flag=True, help="Show every column, even if a row is wider than the terminal."),
        click.option(
            "-o", "--output", type=click.Choice([TABLE, JSON, CSV]),
            help=f"Output format.  [default: {TABLE}]",
        ),
    )  # fmt: skip


def _output(output: str | None, as_json: bool, default: str) -> str:
    if as_json and output not in (None, JSON):
        raise click.UsageError(f"--json and --output {output} exclude each other: say one of them.")
    return JSON if as_json else output or default


def _columns(value: str | None, columns: Sequence[ListColumn]) -> tuple[str, ...]:
    if value is None:
        return ()
    known = {name.lower(): c.name for c in columns for name in (c.title, c.name)}
    chosen = []
    for part in (part.strip() for part in value.split(",")):
        if not part:
            continue
        if part.lower() not in known:
            near = difflib.get_close_matches(part.lower(), known, 1)
            question = f" Did you mean {known[near[0]]}?" if near else ""
            names = ", ".join(c.name for c in columns)
            raise click.BadParameter(f"There is no column {part[:60]!r}.{question} The columns are {names}.")
        if known[part.lower()] not in chosen:
            chosen.append(known[part.lower()])
    if not chosen:
        raise click.BadParameter("No column is named.")
    return tuple(chosen)


def where_options(command: F) -> F:
    """Add ``--where`` and ``--partition``, which limit a command to some partitions."""
    command = click.option(
        "--partition",
        "-p",
        "spec",
        multiple=True,
        metavar="KEY=VALUE",
        shell_complete=complete_partition,
        help="Only partitions with this value. Repeatable: all must match. The value __HIVE_DEFAULT_PARTITION__ "
        "means NULL. Excludes --where.",
    )(command)
    return click.option(
        "--where",
        metavar="CONDITION",
        help="Only partitions that match this SQL condition on partition columns, such as \"ds >= '2025-01-01'\".",
    )(command)


def where_of(where: str | None, spec: tuple[str, ...]) -> Where:
    """Return the condition of ``--where`` or ``--partition``.

    Raises:
        click.UsageError: Both options are given, or a value of ``--partition`` is not KEY=VALUE.
    """
    from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION

    if where is not None and spec:
        raise click.UsageError("--where and --partition exclude each other; say it all in --where.")
    if spec:
        values = pairs(spec, "--partition")
        return {key: None if value == DEFAULT_PARTITION else value for key, value in values.items()}
    return where


def version_options(meant: str, default: str) -> Callable[[F], F]:
    """Add ``--version`` and ``--timestamp``; the command is called with a ``version``, None without both.

    ``meant`` and ``default`` are parts of the help: which version is meant, and a sentence on the default.
    """

    def add(command: F) -> F:
        @functools.wraps(command)
        def with_version(*args: Any, named: int | str | None, at: datetime | None, **kwargs: Any) -> Any:  # noqa: ANN401 -- any command's
            if named is not None and at is not None:
                raise click.UsageError("--version and --timestamp exclude each other: say one of them.")
            return command(*args, version=at if named is None else named, **kwargs)

        with_time = click.option(
            "--timestamp", "at", metavar="TIME", callback=_time,
            help=f"A time of {meant}, such as 2025-01-01T09:00:00+01:00: the newest version of that time. Without an "
            "offset it is in UTC, as the command `history` shows it.",
        )(with_version)  # fmt: skip
        return click.option(  # type: ignore[return-value]
            "--version", "named", metavar="VERSION", callback=_version,
            help=f"The number of {meant}, as the command `history` lists them, or its tag.{default}",
        )(with_time)  # fmt: skip

    return add


def _version(context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    return int(value) if value is not None and value.isascii() and value.isdigit() else value


def _time(context: click.Context, parameter: click.Parameter, value: str | None) -> datetime | None:
    return None if value is None else time_of(value)
