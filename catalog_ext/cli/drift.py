"""The command ``drift``: shows differences between store, index and metastore, and mends them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import click

from catalog_ext.cli import EXIT_REFUSED, EXIT_UNAVAILABLE
from catalog_ext.cli.completion import complete_table
from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.listing import UNCHANGED, Listing, print_csv
from catalog_ext.cli.options import list_options, where_of, where_options
from catalog_ext.cli.output import echo_json_rows, note, one_line
from catalog_ext.cli.progress import progress_bar
from catalog_ext.drift.difference import DriftKind, Side
from catalog_ext.metastore.model.identifiers import TablePattern, is_pattern
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview.layout import ListColumn
from catalog_ext.sync.tables import relations, table_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import Console

    from catalog_ext.catalog import Catalog
    from catalog_ext.cli.listing import Shape
    from catalog_ext.drift.difference import Difference
    from catalog_ext.drift.from_metastore import Mended

_DIFFERENCES = (
    ListColumn("table"), ListColumn("kind"), ListColumn("subject"),
    *(ListColumn(str(side), wraps=True) for side in Side), ListColumn("newer", rank=1),
    ListColumn("evidence", wraps=True, rank=2),
    *(ListColumn(name, hidden=True, rank=3) for name in ("pending", "failed", "unavailable")),
)  # fmt: skip
_MENDED = ("table", "action", "subject", "why", "done")


@click.command(short_help="Compare store, index and metastore; repair a table.")
@click.argument("table", required=False, shell_complete=complete_table)
@click.option("--mend", is_flag=True, help="Change the table's other sides to match the side of --from.")
@click.option(
    "--from", "source", type=click.Choice([str(s) for s in Side]), help="With --mend: the side that is right."
)
@click.option("--dry-run", is_flag=True, help="With --mend: show what would be done, change nothing.")
@click.option(
    "--drop",
    is_flag=True,
    help="With --from metastore: also remove partitions from the index that the metastore does not have. Their "
    "files stay, and a `repair` in mode add or sync would register them again.",
)
@click.option(
    "--force",
    is_flag=True,
    help="With --mend: no limit on the share of partitions that may be dropped. "
    "Default: `repair.mass-drop-percent` (50).",
)
@where_options
@click.option(
    "--check",
    is_flag=True,
    help="Exit with 0 if the sides agree, or differ only in changes that wait for delivery; with 3 if they differ, a "
    "part could not be compared, or a delivery failed; with 4 if a side is unavailable and no difference was found.",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Skip this database or table pattern. Repeatable.")
@list_options(_DIFFERENCES)
@click.pass_obj
def drift(
    invocation: Invocation, table: str | None, mend: bool, source: str | None, dry_run: bool, drop: bool, force: bool,
    where: str | None, spec: tuple[str, ...], check: bool, exclude: tuple[str, ...], shape: Shape,
) -> int:  # fmt: skip
    """Compare the store, the index and the metastore, and optionally repair one table.

    TABLE is one table, a database, or a pattern such as 'sales.*'; all tables without it. Nothing is changed without
    --mend. Changes that wait in the outbox are listed as pending, and count as differences only after a failed
    delivery. Tables that `import` refuses are listed with the reason, and never count.

    --mend makes the other sides of one table match the side that --from names. From the store: repair the index, then
    publish to the metastore. From the index: publish. From the metastore: import the changes of Hive engines into the
    index. With --where only those partitions are mended, and no columns or properties. Files are never changed. Exits
    with 1 if something could not be mended.

    \b
    catalog-ext drift sales.trips
    catalog-ext drift 'sales.*' --check --exclude 'sales.tmp_*'
    catalog-ext drift sales.trips --mend --from metastore --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    _check_options(
        mend=mend,
        source=source,
        others=(dry_run, drop, force, where is not None or bool(spec)),
        listing=check or bool(exclude or shape.columns),
    )
    if drop and source != Side.METASTORE:
        raise click.UsageError("--drop goes with --from metastore.")
    if mend and (table is None or is_pattern(table)):
        raise click.UsageError("--mend takes one table: name it, NAMESPACE.TABLE.")
    with invocation.catalog(at_once=mend and not dry_run, looks=not mend or dry_run) as catalog:
        if source is not None and table is not None:
            rows = catalog.mend_drift(
                table, source=source, where=where_of(where, spec), drop=drop, allow_mass_drop=force, dry_run=dry_run
            )
            return _show_mended(catalog, rows, dry_run=dry_run, shape=shape)
        with progress_bar(message_console(), "Comparing") as progress:
            differences = catalog.drift(table, exclude=exclude, progress=progress)
            count = _Counted(differences, lambda: _has_relation(catalog, table, exclude))
            _show(count, table, shape)
    return count.exit_code if check else 0


def _check_options(*, mend: bool, source: str | None, others: tuple[bool, ...], listing: bool) -> None:
    if mend is not (source is not None):
        raise click.UsageError("--mend and --from go together: --mend --from store, index or metastore.")
    if not mend and any(others):
        raise click.UsageError(
            "--dry-run, --drop, --force, --where and --partition go with --mend; without it nothing is changed."
        )
    if mend and listing:
        raise click.UsageError("--check, --exclude and --columns go without --mend.")


def _has_relation(catalog: Catalog, table: str | None, exclude: Sequence[str]) -> bool:
    """Return whether the index has a table or view that the command's arguments select."""
    if table is not None and not is_pattern(table):
        return True
    name = catalog.settings.name
    left_out = [TablePattern.parse(each, name) for each in exclude]
    found = relations(catalog.index, TablePattern() if table is None else TablePattern.parse(table, name))
    names = (table_of(each).identifier for each in found)
    return any(not any(each.matches(one.namespace, one.name) for each in left_out) for one in names)


class _Counted:
    """Iterates over differences, and counts them for the summary and the exit code.

    Args:
        differences: The differences.
        has_relation: Returns whether the index has a table to compare; called only if there was no difference.
    """

    def __init__(self, differences: Iterator[Difference], has_relation: Callable[[], bool]) -> None:
        self._differences = differences
        self._has_relation = has_relation
        self.drifted = self.pending = self.failed = self.unknown = self.unavailable = self.not_taken = 0

    def __iter__(self) -> Iterator[Difference]:
        for each in self._differences:
            self.pending += each.pending
            self.failed += each.failed
            self.drifted += each.is_drift
            self.unknown += each.kind is DriftKind.NOT_COMPARED
            self.unavailable += each.unavailable
            self.not_taken += each.kind is DriftKind.NOT_TAKEN
            yield each

    @property
    def exit_code(self) -> int:
        """The exit code: 3 for a lasting difference or a failed comparison, 4 if a side is not available, else 0."""
        if self.drifted or self.failed or self.unknown > self.unavailable:
            return EXIT_REFUSED
        return EXIT_UNAVAILABLE if self.unavailable else 0

    def __str__(self) -> str:
        words = [counted(self.drifted, "difference")]
        words += [f"{self.pending:,} pending" + (f" ({self.failed:,} failed)" if self.failed else "")] * bool(
            self.pending
        )
        words += [f"{self.unknown:,} not compared"] * bool(self.unknown)
        words += [f"{self.not_taken:,} not taken by import"] * bool(self.not_taken)
        if words != ["0 differences"]:
            return ", ".join(words) + "."
        if self._has_relation():
            return "All sides agree."
        return "Nothing was compared: the index has no such table or view. catalog-ext import takes the metastore's."


def _show(count: _Counted, table: str | None, shape: Shape) -> None:
    """Print the first differences up to the limit of the options, and count all of them."""
    if shape.is_text and not (shape.columns or shape.wide):
        _print(count, output_console(), shape.most())
        return
    listing = Listing(("difference", "differences"), _DIFFERENCES, {"table": table})
    listing.show_rows(shape, (each.to_dict() for each in count))
    deque(count, maxlen=0)
    if shape.is_text:
        note(output_console(), f"{count}")


def _print(count: _Counted, console: Console, most: int | None) -> None:
    """Print up to ``most`` differences, each in two or three lines below its table's name, and count the rest."""
    printed, table = 0, None
    for each in count:
        if most and printed == most:
            continue
        if each.table != table:
            table = each.table
            note(console, one_line(table), "bold")
        printed += 1
        style = "dim" if each.pending and not each.failed else ""
        for line in _lines(each):
            note(console, line, style)
    listed = count.drifted + count.pending + count.unknown + count.not_taken
    note(console, f"{count}" if printed == listed else f"{count} {printed:,} shown, --limit 0 shows all.")


def _lines(each: Difference) -> Iterator[str]:
    sides = (("store", each.store), ("index", each.index), ("metastore", each.metastore))
    words = " | ".join(f"{side}: {one_line(text)}" for side, text in sides if text is not None)
    yield f"  {each.kind}{f' {one_line(each.subject)}' if each.subject else ''}"
    if words:
        yield f"    {words}"
    why = one_line(each.evidence)
    if each.newer:
        yield f"    newer: {each.newer}" + (f" ({why})" if why else "")
    elif why:
        yield f"    {'failed' if each.failed else 'pending' if each.pending else 'why'}: {why}"


def _show_mended(catalog: Catalog, rows: Iterator[Mended], *, dry_run: bool, shape: Shape) -> int:
    failed = passed = 0

    def counting() -> Iterator[Mended]:
        nonlocal failed, passed
        for each in rows:
            passed += 1
            failed += not each.done
            yield each

    as_json = (_mended_json(each, dry_run=dry_run) for each in counting())
    if shape.is_json:
        echo_json_rows({"dry_run": dry_run}, "mended", as_json)
    elif not shape.is_text:
        print_csv(_MENDED, as_json)
    else:
        console = output_console()
        most = shape.most()
        for each in counting():
            if not most or passed <= most:
                of = f" {one_line(each.subject)}" if each.subject else ""
                why = f": {one_line(each.why)}" if each.why else ""
                note(console, f"{each.table} {each.action}{of}{why}", "" if each.done else "red")
        if most and passed > most:
            note(console, f"{passed:,} in all; {most:,} shown, --limit 0 shows all.")
        done = "Done, but for what was left alone." if failed else "Done."
        note(console, UNCHANGED if dry_run else done)
    if not dry_run:
        settle(catalog)
    return 1 if failed else 0


def _mended_json(each: Mended, *, dry_run: bool) -> dict[str, Any]:
    """Return the change as JSON; a dry run has ``would_be_done`` in place of ``done``."""
    fields = each.to_dict()
    if dry_run:
        fields["would_be_done"], fields["done"] = fields["done"], False
    return fields
