"""Commands about where store, index and metastore differ, and by which they come together."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import add_row, echo_json_rows, make_table, note
from catalog_ext.cli.progress import progress_bar
from catalog_ext.drift.difference import Side
from catalog_ext.repair.report import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from catalog_ext.catalog import Catalog
    from catalog_ext.drift.difference import Difference
    from catalog_ext.drift.mended import Mended

_EXIT_FOUND = 3
_AT_ONCE = 20
"""Rows of one printed table: so many are found before they are shown."""

_HEADINGS = ("table", "what", "of", "store", "index", "metastore", "newer", "why")


@click.command()
@click.argument("table", required=False)
@click.option("--mend", is_flag=True, help="Bring the sides together: see --from.")
@click.option("--from", "source", type=click.Choice([str(s) for s in Side]), help="The side that is right, for --mend.")
@click.option("--dry-run", is_flag=True, help="With --mend: say what would be done and change nothing.")
@click.option("--drop", is_flag=True, help="With --from metastore: drop what the metastore does not have, too.")
@click.option("--force", is_flag=True, help="With --mend: drop however much has gone.")
@click.option("--check", is_flag=True, help="Exit with 3 unless all sides were compared and agree.")
@json_option
@click.pass_obj
def drift(
    invocation: Invocation, table: str | None, mend: bool, source: str | None, dry_run: bool, drop: bool, force: bool,
    check: bool, as_json: bool,
) -> int:  # fmt: skip
    """Show where the store, the index and the metastore differ, of TABLE or of all tables, or mend it.

    Nothing is changed without --mend. What the outbox still has to deliver is shown as pending. --mend takes the side
    that --from names for right: store repairs and publishes, index publishes, metastore takes over what Hive engines
    have changed. Exits with 1 if something could not be mended.

    \b
    catalog-ext drift sales.trips
    catalog-ext drift sales.trips --mend --from metastore --dry-run
    """  # noqa: D301 -- click wants the character, not a raw backslash
    _check_options(mend=mend, source=source, others=(dry_run, drop, force), check=check)
    if mend and table is None:
        raise click.UsageError("--mend takes one table: name it.")
    with invocation.catalog() as catalog:
        if source is not None and table is not None:
            rows = catalog.mend_drift(table, source=source, drop=drop, allow_mass_drop=force, dry_run=dry_run)
            return _show_mended(catalog, rows, dry_run=dry_run, as_json=as_json)
        with progress_bar(message_console(), "Comparing") as progress:
            count = _Counted(catalog.drift(table, progress=progress))
            if as_json:
                echo_json_rows({"table": table}, "differences", (each.to_dict() for each in count))
            else:
                _print(count, output_console())
    return _EXIT_FOUND if check and count.differ else 0


def _check_options(*, mend: bool, source: str | None, others: tuple[bool, ...], check: bool) -> None:
    if mend is not (source is not None):
        raise click.UsageError("--mend and --from go together: --mend --from store, index or metastore.")
    if not mend and any(others):
        raise click.UsageError("--dry-run, --drop and --force go with --mend; without it nothing is changed.")
    if mend and check:
        raise click.UsageError("--check goes without --mend.")


class _Counted:
    """Counts the differences that pass."""

    def __init__(self, differences: Iterator[Difference]) -> None:
        self._differences = differences
        self.drifted = self.pending = self.unknown = 0

    def __iter__(self) -> Iterator[Difference]:
        for each in self._differences:
            self.pending += each.pending
            self.drifted += each.is_drift
            self.unknown += not each.pending and not each.is_drift
            yield each

    @property
    def differ(self) -> bool:
        """Whether something differs, or may."""
        return bool(self.drifted or self.unknown)


def _print(count: _Counted, console: Console) -> None:
    rows = iter(count)
    while some := list(islice(rows, _AT_ONCE)):
        table = make_table([(heading, "left") for heading in _HEADINGS])
        for each in some:
            cells = (each.table, each.kind, each.subject or None, each.store, each.index, each.metastore)
            newer = "pending" if each.pending else each.newer
            add_row(table, *cells, newer, each.evidence or None, style="dim" if each.pending else "")
        console.print(table)
    words = [counted(count.drifted, "difference")]
    words += [f"{count.pending:,} pending"] if count.pending else []
    words += [f"{count.unknown:,} not compared"] if count.unknown else []
    note(console, "All sides agree." if not (count.differ or count.pending) else ", ".join(words) + ".")


def _show_mended(catalog: Catalog, rows: Iterator[Mended], *, dry_run: bool, as_json: bool) -> int:
    failed = 0

    def passed() -> Iterator[Mended]:
        nonlocal failed
        for each in rows:
            failed += not each.done
            yield each

    if as_json:
        echo_json_rows({"dry_run": dry_run}, "mended", (each.to_dict() for each in passed()))
    else:
        console = output_console()
        listed = passed()
        while some := list(islice(listed, _AT_ONCE)):
            table = make_table([(heading, "left") for heading in ("table", "action", "of", "why")])
            for row in some:
                add_row(
                    table, row.table, row.action, row.subject or None, row.why or None, style="" if row.done else "red"
                )
            console.print(table)
        note(console, "Nothing was changed. Run it without --dry-run to apply this." if dry_run else "Done.")
    if not dry_run:
        settle(catalog)
    return 1 if failed else 0
