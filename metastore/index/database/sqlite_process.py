"""Reads a SQLite index through ADBC, as a process of its own: run by ``SqliteReaders``, as a script.

Each line that comes in is a query (JSON: its text and its values). Out goes an empty line, and then the rows as an
Arrow stream and the line ``end``; or a line that says why there are none. After a failure on the way nothing ends it.
While SQLite is at work on what comes next, lines ``alive`` go out before, and batches without rows amid the rows.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote


class _WithoutPandas:
    """Hides pandas from Arrow, which would load it where it is installed: most of the time that a start takes."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


sys.meta_path.insert(0, _WithoutPandas())

import pyarrow as pa  # noqa: E402
from adbc_driver_sqlite import dbapi  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

_BATCH_ROWS = "16384"
_SIGN_S = 0.5
_IDLE_S = 120
"""After which nobody asks for many rows any more, and the memory is better used by others."""


def main(path: str) -> None:
    """Answer queries until nobody asks any more."""
    # An interruption of the terminal is for who has started this; that one closes the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    queries, answers = sys.stdin.buffer, sys.stdout.buffer
    # Each query is a transaction: one that is left open would keep the write-ahead log from being written back.
    with dbapi.connect(f"file:{quote(path)}?mode=ro", autocommit=True) as connection:
        while select.select([queries], [], [], _IDLE_S)[0] and (line := queries.readline()):
            with connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": _BATCH_ROWS})
                _answer(cursor, json.loads(line), answers)


def _answer(cursor: Any, query: dict[str, Any], answers: BinaryIO) -> None:  # noqa: ANN401 -- it publishes no types
    def alive() -> None:
        answers.write(b"alive\n")
        answers.flush()

    try:
        with _signs(alive):
            cursor.execute(query["text"], query["values"] or None)
            reader = cursor.fetch_record_batch()
    except dbapi.Error as error:
        answers.write(" ".join(str(error).split()).encode() + b"\n")
    else:
        answers.write(b"\n")
        with pa.ipc.new_stream(answers, reader.schema) as stream:
            empty = [pa.array([], field.type) for field in reader.schema]
            nothing = pa.RecordBatch.from_arrays(empty, schema=reader.schema)

            def still_alive() -> None:
                stream.write_batch(nothing)
                answers.flush()

            while True:
                with _signs(still_alive):
                    batch = next(reader, None)
                if batch is None:
                    break
                stream.write_batch(batch)
        answers.write(b"end\n")
    answers.flush()


@contextmanager
def _signs(give: Callable[[], None]) -> Iterator[None]:
    """Give signs of life for as long as this thread is at work; none while its disk does not answer."""
    done = threading.Event()
    clock = time.pthread_getcpuclockid(threading.get_ident())

    def watch() -> None:
        before = time.clock_gettime(clock)
        while not done.wait(_SIGN_S):
            now = time.clock_gettime(clock)
            if now > before:
                try:
                    give()
                except BrokenPipeError:
                    return  # as the answer will find
            before = now

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except BrokenPipeError:
        # Who has asked was interrupted, and does not wait for the answer. Python flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
