"""Commands about writes: those in flight, what became of others, and the end of what nobody finishes or needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.options import json_option, limit_option
from catalog_ext.cli.output import add_row, echo_json_rows, make_table, moment, note, shown, size
from catalog_ext.cli.progress import spinner
from catalog_ext.repair.report import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.transactions.reports import RecoveredTransaction


_SHOWN = 100
DURATION = "DURATION"
UNCHANGED = "Nothing was changed. Run it without --dry-run to apply this."


@click.command()
@click.argument("table", required=False)
@click.option(
    "--older-than",
    metavar=DURATION,
    help="Take writes whose last sign of life is so long ago: 0s where their owners are known to be dead. Default: "
    "those whose lease is over.",
)
@click.option(
    "--undo",
    metavar="TRANSACTION",
    help="Undo this one write, which is not committed, instead of finishing it: `status` has its id.",
)
@click.option("--dry-run", is_flag=True, help="Preview: say what would be done and change nothing.")
@limit_option
@json_option
@click.pass_obj
def recover(
    invocation: Invocation, table: str | None, older_than: str | None, undo: str | None, dry_run: bool,
    limit: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Finish or undo writes whose owners are gone, of TABLE or of all tables.

    A write that had begun to show its files is finished, any other one undone. Exits with 1 if one could be neither.

    \b
    catalog-ext recover --dry-run
    catalog-ext recover sales.trips --older-than 0s
    catalog-ext recover --undo 0f7e6d5c4b3a29180f7e6d5c4b3a2918
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with invocation.catalog(with_metastore=not dry_run) as catalog:
        with spinner(message_console(), "Looking for unfinished writes"):
            report = catalog.recover(table, older_than=older_than, undo=undo, dry_run=dry_run)
        if not dry_run:
            settle(catalog)
    rows = [asdict(transaction) for transaction in report.transactions]
    columns = ("action", "table", "operation", "files", "transaction_id", "owner", "error")
    head = {"dry_run": dry_run, "waiting": [asdict(transaction) for transaction in report.waiting]}
    listing = Listing(("transaction", "transactions"), rows, columns, head, right=("files",))
    listing.show(limit, as_json=as_json, end=UNCHANGED if dry_run and rows else "")
    if report.waiting and not as_json:
        _show_waiting(report.waiting)
    return 1 if report.failed else 0


def _show_waiting(waiting: Sequence[RecoveredTransaction]) -> None:
    """Say what was left alone, and how to have it at once."""
    console = output_console()
    note(console, f"{counted(len(waiting), 'write')} left alone, as their leases are not over:")
    for each in waiting[:_SHOWN]:
        note(console, shown(f"  {each.table}: {each.operation} {each.transaction_id} by {each.owner}; {each.error}"))
    note(console, "To have them now, where their owners are known to be dead: catalog-ext recover --older-than 0s")


@click.command()
@click.argument("table", required=False)
@click.option("--all", "all_tables", is_flag=True, help="Every table of the index.")
@click.option(
    "--retention", metavar=DURATION, help="Age from which files and versions go. Default: `vacuum.retention` (7d)."
)
@click.option("--force", is_flag=True, help="Take a retention below an hour too: no query and no write is under way.")
@click.option(
    "--unknown-writes",
    is_flag=True,
    help="Remove what writes have staged that this index does not know, too: no other index writes to the location.",
)
@click.option("--dry-run", is_flag=True, help="Preview: say what would be removed and change nothing.")
@limit_option
@json_option
@click.pass_obj
def vacuum(
    invocation: Invocation, table: str | None, all_tables: bool, retention: str | None, force: bool,
    unknown_writes: bool, dry_run: bool, limit: int | None, as_json: bool,
) -> int:  # fmt: skip
    """Remove what no version of TABLE needs any more: replaced files, leftovers of aborted writes, old versions.

    What writes have staged that this index does not know is left, and shown as skipped: another index may have a table
    at the same location. Exits with 1 if something could not be removed.

    \b
    catalog-ext vacuum sales.trips --dry-run
    catalog-ext vacuum sales.trips --retention 1d
    catalog-ext vacuum --all
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if (table is None) is not all_tables:
        raise click.UsageError("Name a table, or say --all.")
    with (
        invocation.catalog(with_metastore=False) as catalog,
        spinner(message_console(), f"Looking for what {f'table {table}' if table else 'the tables'} can do without"),
    ):
        report = catalog.vacuum(
            table, retention=retention, allow_short_retention=force, unknown_writes=unknown_writes, dry_run=dry_run
        )
    rows = [asdict(entry) for entry in report.entries]
    listing = Listing(
        ("removal", "removals"),
        rows,
        ("action", "path", "bytes", "reason", *(("table",) if table is None else ())),
        {"table": table, "dry_run": dry_run},
        right=("bytes",),
        cells={"bytes": size},
    )
    listing.show(limit, as_json=as_json, end=UNCHANGED if dry_run and rows else "")
    return 1 if report.failed else 0


@click.command("release-waiting")
@click.argument("table")
@click.option("--application", metavar="ID", help="The one query whose rows are committed; all of them by default.")
@click.option("--dry-run", is_flag=True, help="Preview: say what waits and change nothing.")
@limit_option
@json_option
@click.pass_obj
def release_waiting(
    invocation: Invocation, table: str, application: str | None, dry_run: bool, limit: int | None, as_json: bool
) -> None:
    """Commit what streams into TABLE have kept back until their partitions are due.

    For queries that nobody starts again, as where a checkpoint is lost. One that runs commits its partitions itself.

    \b
    catalog-ext release-waiting sales.trips --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with (
        invocation.catalog() as catalog,
        spinner(message_console(), f"Committing what waits in table {table}"),
    ):
        report = catalog.release_waiting(table, application=application, dry_run=dry_run)
    rows = [asdict(partition) for partition in report.partitions]
    Listing(
        ("partition", "partitions"),
        rows,
        ("partition", "application", "files", "rows", "bytes", "since_ms"),
        {"table": table, "dry_run": dry_run, "version": report.version},
        right=("files", "rows", "bytes"),
        cells={"bytes": size, "since_ms": moment},
        headings={"since_ms": "since (UTC)"},
    ).show(limit, as_json=as_json, end=UNCHANGED if dry_run and rows else "" if rows else "Nothing waits.")


@click.command("discard-waiting")
@click.argument("table")
@click.option("--dry-run", is_flag=True, help="Preview: say what would be given up and change nothing.")
@limit_option
@json_option
@click.pass_obj
def discard_waiting(invocation: Invocation, table: str, dry_run: bool, limit: int | None, as_json: bool) -> None:
    """Give up files of streams into TABLE that waited for their partitions to be due and are gone.

    A query whose epochs fail with CATALOG_EXT_WAITING_FILES_MISSING goes on when it is started again, without their
    rows. What is there goes on waiting.

    \b
    catalog-ext discard-waiting sales.trips --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    with (
        invocation.catalog(with_metastore=False) as catalog,
        spinner(message_console(), f"Looking for what waits in table {table}"),
    ):
        report = catalog.discard_waiting(table, dry_run=dry_run)
    rows = [asdict(file) for file in report.files]
    Listing(
        ("file", "files"),
        rows,
        ("partition", "location", "rows", "bytes", "since_ms", "transaction_id"),
        {"table": table, "dry_run": dry_run},
        right=("rows", "bytes"),
        cells={"bytes": size, "since_ms": moment},
        headings={"since_ms": "since (UTC)"},
    ).show(limit, as_json=as_json, end=UNCHANGED if dry_run and rows else "" if rows else "Nothing is lost.")


@click.command()
@click.argument("table", required=False)
@limit_option
@json_option
@click.pass_obj
def status(invocation: Invocation, table: str | None, limit: int | None, as_json: bool) -> None:
    """Show what is under way, for TABLE or all tables: writes, waiting partitions, changes for the metastore.

    Where the metastore is followed, also how far: the last event dealt with, the newest there is, and who follows.
    """
    with invocation.catalog(with_metastore=False) as catalog:
        rows = [entry._asdict() for entry in catalog.status(table)]
    columns = ("kind", "table", "id", "state", "since_ms", "detail")
    Listing(
        ("entry", "entries"),
        rows,
        columns,
        {"table": table},
        cells={"since_ms": moment},
        headings={"since_ms": "since (UTC)"},
    ).show(limit, as_json=as_json, end="" if rows else "Nothing is under way.")


@click.command()
@click.argument("table")
@limit_option
@json_option
@click.pass_obj
def history(invocation: Invocation, table: str, limit: int | None, as_json: bool) -> None:
    """List the commits of TABLE, newest first: when, by what, and what changed."""
    with invocation.catalog(with_metastore=False) as catalog:
        versions = catalog.history(table)
    rows = [
        {
            "version": v.version,
            "operation": v.operation,
            "committed_at_ms": v.committed_at_ms,
            "user": v.summary.get("user"),
            "summary": v.summary,
        }
        for v in versions
    ]
    listing = Listing(
        ("version", "versions"),
        rows,
        ("version", "operation", "committed_at_ms", "user", "summary"),
        {"table": table},
        right=("version",),
        cells={"committed_at_ms": moment, "summary": _changes},
        headings={"committed_at_ms": "committed (UTC)", "summary": "changes"},
    )
    listing.show(limit, as_json=as_json)


def _changes(summary: Summary) -> str:
    """Return what a commit changed: ``partitions +1 ~2, files +3 -1, 120 rows, 4.5 KiB``."""
    parts = []
    for what in ("partitions", "files"):
        signs = (("added", "+"), ("removed", "-"), ("changed", "~"))
        counts = [f"{sign}{count:,}" for word, sign in signs if (count := _count(summary, f"{what}_{word}"))]
        if counts:
            parts.append(f"{what} {' '.join(counts)}")
    if rows := _count(summary, "rows"):
        parts.append(counted(rows, "row"))
    if in_bytes := _count(summary, "bytes"):
        parts.append(size(in_bytes))
    gone = [counted(rows, "row")] if (rows := _count(summary, "rows_removed")) else []
    gone += [size(in_bytes)] if (in_bytes := _count(summary, "bytes_removed")) else []
    if gone:
        parts.append(f"{' and '.join(gone)} removed")
    return ", ".join(parts)


def _count(summary: Summary, name: str) -> int:
    value = summary.get(name)
    return value if isinstance(value, int) else 0


class Listing:
    """Rows for people or programs.

    Args:
        name: What a row is, and what several are, which is also their field in JSON.
        rows: All of them.
        columns: The fields to show as text, in order.
        head: Further fields of the JSON.
        right: Columns that are aligned to the right.
        cells: How a field is shown as text, where not as it is.
        headings: Of columns whose field is not called so.
    """

    def __init__(
        self,
        name: tuple[str, str],
        rows: Sequence[dict[str, Any]],
        columns: Sequence[str],
        head: dict[str, Any],
        *,
        right: Sequence[str] = (),
        cells: dict[str, Callable[[Any], object]] | None = None,
        headings: dict[str, str] | None = None,
    ) -> None:
        self._name = name
        self._rows = rows
        self._columns = columns
        self._head = head
        self._right = right
        self._cells = cells or {}
        self._headings = headings or {}

    def show(self, limit: int | None, *, as_json: bool, end: str = "") -> None:
        """Print at most ``limit`` of them (0 is all, None all as JSON and a hundred as text), and a last line."""
        if as_json:
            echo_json_rows(self._head, self._name[1], self._rows[: limit or None])
            return
        console = output_console()
        count = (_SHOWN if limit is None else limit) or len(self._rows)
        sides = dict.fromkeys(self._right, "right")
        table = make_table([(self._headings.get(c, c), sides.get(c, "left")) for c in self._columns])
        for row in self._rows[:count]:
            add_row(table, *(self._cells.get(c, _as_it_is)(row[c]) for c in self._columns))
        if self._rows:
            console.print(table)
        more = f"; {count:,} shown, --limit 0 shows all" if len(self._rows) > count else ""
        note(console, f"{counted(len(self._rows), *self._name)}{more}")
        if end:
            note(console, end)


def _as_it_is(value: object) -> object:
    return value
