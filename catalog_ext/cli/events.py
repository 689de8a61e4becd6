"""The command ``events``: reads an object store's notifications from lines of a file or from an SQS queue."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import click

from catalog_ext.cli.invocation import Invocation, message_console, output_console, settle
from catalog_ext.cli.options import json_option
from catalog_ext.cli.output import echo_json, note, one_line
from catalog_ext.metastore.errors import CatalogExtError, InvalidInputError, StorageUnavailableError
from catalog_ext.metastore.runtime.wording import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from catalog_ext.catalog import Catalog
    from catalog_ext.events.notifications import StoreEvent
    from catalog_ext.events.store_events import EventsOutcome

_BATCH_EVENTS = 10_000
_LINGER_S = 1.0
_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0


@click.command(short_help="Update the index from object store notifications.")
@click.argument("file", type=click.File("rb"), default="-", required=False)
@click.option("--sqs", metavar="URL", help="Read the notifications from this Amazon SQS queue instead of FILE.")
@click.option("--once", is_flag=True, help="With --sqs: end when the queue is empty, or at the first failure.")
@json_option
@click.pass_obj
def events(invocation: Invocation, file: BinaryIO, sqs: str | None, once: bool, as_json: bool) -> None:
    """Update the index from an object store's notifications about created and deleted objects.

    Reads S3 event notifications (JSON), one per line, from FILE or standard input until it ends, or with --sqs from a
    queue until interrupted. Affected partitions are listed in the store and repaired in the index. Notifications that
    the index already reflects cost no listing. A queue's message is deleted after its changes are committed. Files are
    never changed.

    \b
    tail -F events.jsonl | catalog-ext events
    catalog-ext events --sqs https://sqs.eu-west-1.amazonaws.com/123456789012/lake
    """  # noqa: D301 -- click wants the character, not a raw backslash
    if once and sqs is None:
        raise click.UsageError("--once goes with --sqs: a file is read to its end anyway.")
    with invocation.catalog() as catalog:
        if sqs is None:
            _take_lines(catalog, file, as_json)
        else:
            with contextlib.suppress(KeyboardInterrupt):
                # SIGTERM ends the command as Ctrl-C does. Committed changes stay, and the queue delivers its undeleted
                # messages again.
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                _take_queue(catalog, sqs, once, as_json)
        settle(catalog)


def _take_lines(catalog: Catalog, file: BinaryIO, as_json: bool) -> None:
    """Apply the notifications in a file's lines to the index.

    Raises:
        InvalidInputError: A line is not a notification. The lines before and after it are applied.
        CatalogExtError: The index or the store could not be read for some event.
    """
    wrong: list[InvalidInputError] = []
    failed: list[CatalogExtError | str] = []
    for batch in _batches(file, wrong):
        outcome = catalog.events.take(batch)
        _print(outcome, as_json)
        if outcome.left:
            failed += [each.error for each in outcome.tables if each.error is not None]
    if failed:
        first = failed[0]
        raise first if isinstance(first, CatalogExtError) else StorageUnavailableError(
            f"Not all changed files could be checked: {first}. Send the events again, or repair the table."
        )  # fmt: skip
    if wrong:
        raise wrong[0]


def _batches(file: BinaryIO, wrong: list[InvalidInputError]) -> Iterator[list[StoreEvent]]:
    """Yield the events of lines in batches of about a second; put the errors of malformed lines into ``wrong``."""
    from catalog_ext.events.notifications import read_notification

    lines: SimpleQueue[bytes | None] = SimpleQueue()

    def read() -> None:
        try:
            for line in file:
                lines.put(line)
        finally:
            lines.put(None)

    threading.Thread(target=read, name="catalog-ext-events", daemon=True).start()
    number, ended = 0, False
    while not ended:
        batch: list[StoreEvent] = []
        until: float | None = None
        while len(batch) < _BATCH_EVENTS:
            try:
                line = lines.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
            except Empty:
                break
            if line is None:
                ended = True
                break
            number += 1
            until = until or time.monotonic() + _LINGER_S
            if not line.strip():
                continue
            try:
                batch += read_notification(line)
            except InvalidInputError as error:
                wrong.append(InvalidInputError(f"Line {number}: {error.message}"))
                note(message_console(), f"warning: line {number} is left out: {one_line(error.message)}")
        if batch:
            yield batch


def _take_queue(catalog: Catalog, url: str, once: bool, as_json: bool) -> None:
    from catalog_ext.events.sqs import Queue

    queue = Queue(url, catalog.events.queue_access())
    failures = 0
    with contextlib.closing(queue):
        while True:
            try:
                outcome = queue.take(catalog.events.take, wait=not once)
                failures = 0
            except CatalogExtError as error:
                if once or not error.retryable:
                    raise
                failures += 1
                note(message_console(), f"warning: {one_line(error.message)}")
                time.sleep(min(_PAUSE_S * 2 ** (failures - 1), _LONGEST_PAUSE_S))
                continue
            if outcome is not None:
                _print(outcome, as_json)
                _say_what_is_left(outcome, once)
            elif once:
                return


def _say_what_is_left(outcome: EventsOutcome, once: bool) -> None:
    """Warn of events that were not applied, and that the queue has to deliver again.

    Raises:
        StorageUnavailableError: ``once`` is set, and events are left.
    """
    error = next((each.error for each in outcome.tables if each.error is not None), None)
    if not outcome.left or error is None:
        return
    message = error.message if isinstance(error, CatalogExtError) else error
    are = "is" if len(outcome.left) == 1 else "are"
    left = f"{counted(len(outcome.left), 'event')} {are} left in the queue: {message}"
    if once:
        raise StorageUnavailableError(left)
    note(message_console(), f"warning: {one_line(left)}")
    # Pause between two reads: a queue may deliver the messages that could not be applied again at once.
    time.sleep(_PAUSE_S)


def _print(outcome: EventsOutcome, as_json: bool) -> None:
    from catalog_ext.events.store_events import outcome_json

    if as_json:
        echo_json(outcome_json(outcome))
        return
    console = output_console()
    note(
        console, f"{counted(outcome.events, 'event')}, {outcome.ignored:,} of them about no partition or known already"
    )
    for each in outcome.tables:
        note(
            console,
            f"  {each.table}: {counted(each.checked, 'partition')} looked at; {each.added:,} added, "
            f"{each.dropped:,} dropped, {each.changed:,} changed; version {each.version}",
        )
