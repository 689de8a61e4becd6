"""Reads a SQLite index by other processes, which use ADBC's driver: a million rows in a fourth of the time.

In this process that driver must not be used, since it brings a SQLite of its own (``docs/spec/index.md``); the locks of
another process are its own.
"""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.metastore.errors import IndexDatabaseError, IndexUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy.engine import URL

logger = logging.getLogger(__name__)

_SCRIPT = Path(__file__).with_name("sqlite_process.py")
_KEPT = 2
_END_TIMEOUT_S = 5


def is_available(url: URL) -> bool:
    """Return whether the database at the URL is a file that another process can read this way."""
    return (
        url.get_backend_name() == "sqlite"
        and url.database not in (None, "", ":memory:")
        and not str(url.database).startswith("file:")
        and bool(sys.executable)
        and find_spec("adbc_driver_sqlite") is not None
    )


class SqliteReaders:
    """Processes that read one SQLite file; those that have nothing to read wait, and end after a while.

    Args:
        path: The file.
        shown: The index's URL, for people.
    """

    def __init__(self, path: str, shown: str) -> None:
        self._command = [sys.executable, "-P", str(_SCRIPT), str(Path(path).resolve())]
        self._shown = shown
        self._idle: queue.LifoQueue[subprocess.Popen[bytes]] = queue.LifoQueue()

    def close(self) -> None:
        """End the processes that wait."""
        while True:
            try:
                _end(self._idle.get_nowait())
            except queue.Empty:
                return

    def read(self, text: str, values: Sequence[object]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a query, as they arrive.

        Args:
            text: SQL whose first row has a value in each column, by which the driver knows their types.
            values: What its question marks stand for.

        Raises:
            IndexUnavailableError: No process can be started, or it has ended.
            IndexDatabaseError: SQLite or its driver refused the query, or there is no way to send a value.
        """
        process = self._answering(self._query(text, values))
        finished = False
        try:
            with pa.ipc.open_stream(pa.PythonFile(process.stdout, mode="r")) as stream:
                yield from stream
            # Arrow itself takes a stream that breaks off between two batches for a whole one.
            finished = process.stdout is not None and process.stdout.readline() == b"end\n"
        except (OSError, pa.ArrowInvalid) as error:
            raise self._ended(process) from error
        finally:
            if finished and self._idle.qsize() < _KEPT:
                self._idle.put(process)
            else:
                # Of an abandoned query the rest is still on its way.
                _end(process)
        if not finished:
            raise self._ended(process)

    def _query(self, text: str, values: Sequence[object]) -> bytes:
        try:
            return json.dumps({"text": text, "values": list(values)}).encode() + b"\n"
        except TypeError as error:
            raise IndexDatabaseError(
                f"A statement cannot be sent to the process that reads the index {self._shown}: {error}.",
                {"index": self._shown},
            ) from error

    def _answering(self, query: bytes) -> subprocess.Popen[bytes]:
        """Return a process that is about to give the rows of the query."""
        while True:
            try:
                process, fresh = self._idle.get_nowait(), False
            except queue.Empty:
                process, fresh = self._started(), True
            line = _asked(process, query)
            if line == b"\n":
                return process
            _end(process)
            if line:
                text = line.decode().strip()[:300]
                raise IndexDatabaseError(
                    f"The index {self._shown} refused a statement: {text}.", {"index": self._shown}
                )
            # One that waited may have ended meanwhile; a fresh one tells the truth.
            if fresh:
                raise self._ended(process)

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise IndexUnavailableError(
                f"No process can be started that reads the index {self._shown}: {error}.", {"index": self._shown}
            ) from error

    def _ended(self, process: subprocess.Popen[bytes]) -> IndexUnavailableError:
        return IndexUnavailableError(
            f"The process {process.pid} that read the index {self._shown} ended before it had given all rows. Run the "
            "statement again.",
            {"index": self._shown},
        )


def _asked(process: subprocess.Popen[bytes], query: bytes) -> bytes:
    """Return the first line of the process's answer; nothing where it has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(query)
        process.stdin.flush()
    except OSError:
        return b""
    return process.stdout.readline()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        # What was not taken of a query by then is lost with the process.
        with suppress(BrokenPipeError):
            if pipe is not None:
                pipe.close()
    process.wait(_END_TIMEOUT_S)
