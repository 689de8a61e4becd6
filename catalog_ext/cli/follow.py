"""The command ``follow``: applies changes that Hive engines make in the metastore to the index."""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from typing import TYPE_CHECKING

import click

from catalog_ext.cli import EXIT_ERROR, EXIT_UNAVAILABLE
from catalog_ext.cli.invocation import Invocation, message_console, output_console
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import echo_json, note, one_line
from catalog_ext.conf import metastore_keys
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview.formats import moment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from catalog_ext.hms_events.suspects import FollowOutcome, TableOutcome

_WAITING_PAUSE_S = 5.0
_ACTIONS = {"imported": "imported", "removed": "gone there, and removed", "renamed": "renamed"}


@click.command(short_help="Import what Hive engines change in the metastore.")
@click.option(
    "--databases",
    metavar="NAMES",
    help="Databases whose new tables are imported, comma-separated; * for all. Tables of the index are followed in "
    "any case. Default: `follow.databases` (none). A missing database is a warning, and with --once an error.",
)
@click.option("--once", is_flag=True, help="Process the pending changes, then end.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, change nothing and end.")
@json_option
@click.pass_obj
def follow(invocation: Invocation, databases: str | None, once: bool, dry_run: bool, as_json: bool) -> int:
    """Import the changes that Hive engines make in the metastore into the index, until interrupted.

    Reads the metastore's event log. A metastore without a log is compared with the index at intervals. Changed
    partitions are listed in the store and repaired in the index. Files are never changed. If several processes follow
    one index, one works and the others stand by.

    What fails is retried, and shown by `status`. Tables that can never be imported (views, ACID, Avro, …) are reported
    once. --dry-run does not consume events, and exits with 1 if a table would be refused or retried later. --once exits
    with 1 while any table of the index is out of sync, also by an earlier run, and with 4 if another process follows.

    \b
    catalog-ext follow
    catalog-ext follow --databases sales,logs
    catalog-ext follow --once --json
    """  # noqa: D301 -- click wants the character, not a raw backslash
    chosen = None if databases is None else metastore_keys.FOLLOW_DATABASES.value_of(databases)
    with invocation.catalog(at_once=True) as catalog, _without_warnings():
        if dry_run:
            return _preview(catalog, chosen, as_json)
        if once:
            return _once(catalog, chosen, as_json)
        try:
            # SIGTERM ends the command as Ctrl-C does. Committed changes stay, and the next follower continues after
            # them.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            _follow(catalog, chosen, as_json)
        except KeyboardInterrupt:
            _note("ended; the next follower goes on from here")
    return 0


def _once(catalog: Catalog, databases: frozenset[str] | None, as_json: bool) -> int:
    from catalog_ext.hms_events.follower import WAITING

    if databases is not None:
        catalog.follower.check_databases(databases)
    outcome = catalog.follower.look(databases, lambda part: _print(part, as_json), at_once=True)
    if outcome.is_idle:
        _print(outcome, as_json)
    if outcome.source == WAITING:
        return EXIT_UNAVAILABLE
    kept = catalog.follower.kept()
    noted = {each.table for each in outcome.tables if each.says_something}
    for each in kept:
        if each.table not in noted:
            state = "refused" if each.suspect is None else "left"
            note(message_console(), f"{one_line(each.table)} is still {state}: {one_line(each.error)}")
    return EXIT_ERROR if kept else 0


def _preview(catalog: Catalog, databases: frozenset[str] | None, as_json: bool) -> int:
    if databases is not None:
        catalog.follower.check_databases(databases)
    outcome = catalog.follower.look(databases, dry_run=True)
    _print(outcome, as_json)
    if not as_json:
        note(output_console(), "Nothing was changed: this is a preview.")
    return EXIT_ERROR if any(each.action in ("left", "refused") for each in outcome.tables) else 0


def _follow(catalog: Catalog, databases: frozenset[str] | None, as_json: bool) -> None:
    from catalog_ext.hms_events.follower import WAITING, pause_s

    interval_s = metastore_keys.FOLLOW_INTERVAL.read(catalog.settings.conf)
    _note(f"following {catalog.metastore.uri()}, every {interval_s:g} s; Ctrl-C ends it")
    trouble: str | None = None
    failures = 0
    before: str | None = None
    while True:
        try:
            outcome = catalog.follower.look(databases, lambda part: _print_news(part, as_json))
        except CatalogExtError as error:
            if not error.retryable:
                raise
            failures += 1
            if error.message != trouble:
                _note(f"warning: {one_line(error.message)} It is tried again until it works.")
            trouble = error.message
            time.sleep(pause_s(interval_s, failures))
            continue
        if trouble is not None:
            _note("the metastore answers again, and is followed")
        trouble, failures = None, 0
        waiting = outcome.source == WAITING
        if waiting and before != WAITING:
            _note("another process follows the metastore; this one takes over when it ends")
        elif not waiting and before in (None, WAITING):
            upto = "" if outcome.event_id is None else f" up to event {outcome.event_id:,}"
            _note(f"{'in sync' if before is None else 'this process follows from now on; in sync'}{upto}")
        before = outcome.source
        time.sleep(_WAITING_PAUSE_S if waiting else interval_s)


def _note(text: str) -> None:
    """Write a line to the terminal, with the time before it."""
    note(message_console(), f"{_now()} {text}")


def _now() -> str:
    return moment(round(time.time() * 1000))


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep the follower's warnings about tables out of the log: this command prints them."""
    log = logging.getLogger("catalog_ext.hms_events.tables")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _print_news(outcome: FollowOutcome, as_json: bool) -> None:
    """Print the outcome with the time. A comparison without findings is not printed: comparisons are frequent."""
    if outcome.events or outcome.gap is not None or any(each.says_something for each in outcome.tables):
        _print(outcome, as_json, f"{_now()} ")


def _print(outcome: FollowOutcome, as_json: bool, time_of_day: str = "") -> None:
    from catalog_ext.hms_events.follower import WAITING
    from catalog_ext.hms_events.suspects import outcome_json

    if as_json:
        echo_json(outcome_json(outcome))
        return
    console = output_console()
    if outcome.source == WAITING:
        note(console, "another process follows the metastore")
        return
    upto = "" if outcome.event_id is None else f", up to {outcome.event_id:,} of {outcome.newest_id:,}"
    read = "everything compared" if outcome.event_id is None or outcome.gap else counted(outcome.events, "event")
    note(console, f"{time_of_day}{read}{upto}{'' if outcome.gap is None else f': {outcome.gap}'}")
    for each in outcome.tables:
        if each.says_something:
            note(console, _line(each))


def _line(each: TableOutcome) -> str:
    parts = [f"{count:,} {word}" for word in ("added", "dropped", "changed") if (count := getattr(each, word))]
    if each.altered:
        parts.append("columns or properties altered")
    if each.action in _ACTIONS:
        parts.append(_ACTIONS[each.action])
    if each.action in ("left", "refused"):
        parts.append(f"{each.action}: {one_line(each.error or 'it is looked at again')}")
    parts += [f"stays as it is: {one_line(what)}" for what in each.skipped]
    return f"  {each.table}: {'; '.join(parts)}"
