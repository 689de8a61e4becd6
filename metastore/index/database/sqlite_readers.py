"""Reads a SQLite index by other processes, which use ADBC's driver: a million rows in a fourth of the time.

In this process that driver must not be used, since it brings a SQLite of its own (``docs/spec/index.md``); the locks of
another process are its own.
"""

from __future__ import annotations

import io
import json
import logging
import os
import queue
import select
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.metastore.errors import IndexDatabaseError, IndexUnavailableError
from catalog_ext.metastore.runtime.forked import forget_in_children
from catalog_ext.metastore.runtime.measures import Subject, failed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from _typeshed import WriteableBuffer
    from sqlalchemy.engine import URL

logger = logging.getLogger(__name__)

_SCRIPT = Path(__file__).with_name("sqlite_process.py")
_KEPT = 2
MOST = 8
"""Processes that read at once, of some 80 MB each."""
_END_TIMEOUT_S = 5
_BUFFER = 1 << 20
_ALIVE = b"alive\n"

SHORTEST_TIMEOUT_S = 10.0
"""A process starts in a second, or in several where many do: a shorter time-out is for locks."""


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
        timeout_s: For how long a process may give no sign of life while it is asked, in seconds; then it is killed.
    """

    def __init__(self, path: str, shown: str, timeout_s: float) -> None:
        self._timeout_s = max(timeout_s, SHORTEST_TIMEOUT_S)
        # No module of the script's folder has a name that another module is imported by; 3.11 can make sure of it.
        safe = ["-P"] if sys.version_info >= (3, 11) else []
        self._command = [sys.executable, *safe, str(_SCRIPT), str(Path(path).resolve())]
        self._shown = shown
        self._begin()
        forget_in_children(self)

    def _begin(self) -> None:
        self._idle: queue.LifoQueue[_Process] = queue.LifoQueue()
        self._free = threading.BoundedSemaphore(MOST)

    def close(self) -> None:
        """End the processes that wait."""
        while True:
            try:
                self._idle.get_nowait().end()
            except queue.Empty:
                return

    def forget(self) -> None:
        """Begin without processes, in a forked child: those of its parent would get the queries of both."""
        self._begin()

    def reserve(self, place: ExitStack) -> bool:
        """Return whether one process more may read, until a context ends; not where so many read already."""
        free = self._free
        if not free.acquire(blocking=False):
            return False
        place.callback(free.release)
        return True

    def read(self, text: str, values: Sequence[object]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a query, as they arrive.

        Args:
            text: SQL whose first row has a value in each column, by which the driver knows their types.
            values: What its question marks stand for.

        Raises:
            IndexUnavailableError: No process can be started, or it has ended, or hangs.
            IndexDatabaseError: SQLite or its driver refused the query, or there is no way to send a value.
        """
        process = self._answering(self._query(text, values))
        finished = False
        try:
            with pa.ipc.open_stream(pa.PythonFile(process.answers, mode="r")) as stream:
                # One without rows is a sign of life.
                yield from (batch for batch in stream if batch.num_rows)
            # Arrow itself takes a stream that breaks off between two batches for a whole one.
            finished = process.answers.readline() == b"end\n"
        except TimeoutError as error:
            raise self._hung(process) from error
        except (OSError, pa.ArrowInvalid) as error:
            raise self._ended(process) from error
        finally:
            if finished and self._idle.qsize() < _KEPT:
                self._idle.put(process)
            else:
                # Of an abandoned query the rest is still on its way.
                process.end()
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

    def _answering(self, query: bytes) -> _Process:
        """Return a process that is about to give the rows of the query."""
        while True:
            try:
                process, fresh = self._idle.get_nowait(), False
            except queue.Empty:
                process, fresh = self._started(), True
            try:
                line = process.asked(query)
            except TimeoutError as error:
                process.end()
                raise self._hung(process) from error
            if line == b"\n":
                return process
            process.end()
            if line:
                text = line.decode().strip()[:300]
                refused = IndexDatabaseError(
                    f"The index {self._shown} refused a statement: {text}.", {"index": self._shown}
                )
                raise failed(Subject.INDEX, refused)
            # One that waited may have ended meanwhile; a fresh one tells the truth.
            if fresh:
                raise self._ended(process)

    def _started(self) -> _Process:
        try:
            return _Process(self._command, self._timeout_s)
        except OSError as error:
            raise IndexUnavailableError(
                f"No process can be started that reads the index {self._shown}: {error}.", {"index": self._shown}
            ) from error

    def _hung(self, process: _Process) -> IndexUnavailableError:
        unavailable = IndexUnavailableError(
            f"The process {process.pid} that read the index {self._shown} gave no sign of life for "
            f"{self._timeout_s:.0f} seconds and was killed: it was stopped, or its disk does not answer. Run the "
            "statement again.",
            {"index": self._shown},
        )
        return failed(Subject.INDEX, unavailable)

    def _ended(self, process: _Process) -> IndexUnavailableError:
        unavailable = IndexUnavailableError(
            f"The process {process.pid} that read the index {self._shown} ended before it had given all rows. Run the "
            "statement again.",
            {"index": self._shown},
        )
        return failed(Subject.INDEX, unavailable)


class _Process:
    """One process, whose answers are waited for no longer than a time-out.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        # Its own session: Ctrl-C in the terminal is for who has started it, also while it is being loaded.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._timeout_s = timeout_s
        self._queries = self._process.stdin.fileno()
        os.set_blocking(self._queries, False)
        self.pid = self._process.pid
        self.answers = io.BufferedReader(_Answers(self._process.stdout.fileno(), timeout_s), _BUFFER)
        forget_in_children(self)

    def asked(self, query: bytes) -> bytes:
        """Return the first line of the answer to a query; nothing where the process has ended.

        Raises:
            TimeoutError: It gives no sign of life.
        """
        rest = memoryview(query)
        try:
            while rest:
                # It takes long queries as it reads them.
                _wait(self._queries, select.POLLOUT, self._timeout_s)
                rest = rest[os.write(self._queries, rest) :]
        except TimeoutError:
            raise
        except OSError:
            return b""
        line = _ALIVE
        while line == _ALIVE:
            line = self.answers.readline()
        return line

    def forget(self) -> None:
        """Close the pipes of a forked child, so that the process ends when the child's parent has."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def end(self) -> None:
        """Kill the process, also one that is stopped."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            # What was not taken of a query by then is lost with the process.
            with suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # It waits for a disk that does not answer, and ends when that does.
            logger.warning("The process %d that read a SQLite index was killed and has not ended yet.", self.pid)


class _Answers(io.RawIOBase):
    """What comes through a pipe.

    Raises:
        TimeoutError: Nothing comes for too long.
    """

    def __init__(self, pipe: int, timeout_s: float) -> None:
        self._pipe = pipe
        self._timeout_s = timeout_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        _wait(self._pipe, select.POLLIN, self._timeout_s)
        return os.readv(self._pipe, [buffer])


def _wait(pipe: int, event: int, timeout_s: float) -> None:
    poll = select.poll()
    poll.register(pipe, event)
    if not poll.poll(timeout_s * 1000):
        raise TimeoutError
