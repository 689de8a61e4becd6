"""Helper processes that read directories of the local file system in parallel to this process.

A listing spends most of its time in the kernel and in Python's loop over the entries, so a second core takes over half
of the work. Directories with unusual entries are left to this process, so that only one place handles links, errors and
special names.
"""

from __future__ import annotations

import logging
import marshal
import os
import select
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

logger = logging.getLogger(__name__)

_SCRIPT = Path(__file__).with_name("scan_process.py")
_MOST = 4
_MOST_FILES = 50_000
"""The most files in one answer; a directory with more files is read by this process, which streams them."""
_AHEAD = 2
"""The most requests that a helper process gets in advance: with a second request it need not wait for this process."""


class WantedDirectories(NamedTuple):
    """A directory to read: its path relative to the listing's root, and its path on the file system."""

    directory: str
    path: str


Files = list[tuple[str, int, int]]
"""The files of a directory: name, bytes and modification time (milliseconds since 1970) of each."""

Answer = list[tuple[WantedDirectories, "Files | None"]]


def spare_cores() -> int:
    """Return the number of helper processes that can run in parallel to this process."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable - 1, _MOST) if sys.executable else 0


class ScanProcesses:
    """The helper processes of one listing; they must be closed.

    Args:
        count: The number of processes.
        own_names: Names of files that are left to this process.
    """

    def __init__(self, count: int, own_names: Collection[str]) -> None:
        self._processes: list[_Process] = []
        try:
            for _ in range(count):
                self._processes.append(_Process(frozenset(own_names)))
        except OSError as error:
            logger.debug("This process lists alone: no other can be started: %s", error)

    @property
    def are_any(self) -> bool:
        """Whether at least one helper process still works."""
        return any(process.lives for process in self._processes)

    def close(self) -> None:
        """End the helper processes."""
        for process in self._processes:
            process.end()
        self._processes = []

    def take(self, wanted: Iterable[WantedDirectories]) -> tuple[bool, Answer]:
        """Pass directories to an idle process; return whether one took them, and an earlier answer that was ready."""
        answer: Answer = []
        free = next((p for p in self._processes if p.has_time), None)
        if free is None:
            free = next((p for p in self._processes if p.lives and p.is_ready), None)
            answer = [] if free is None else self._answer(free)
        if free is None or not free.lives:
            return False, answer
        free.ask(list(wanted))
        return True, answer

    def rest(self) -> Iterable[Answer]:
        """Wait for all outstanding answers, and yield them."""
        for process in self._processes:
            while process.asked:
                yield self._answer(process)

    def _answer(self, process: _Process) -> Answer:
        asked = process.asked[0]
        files = process.answer()
        return list(zip(asked, files or [None] * len(asked), strict=True))


class _Process:
    """One helper process.

    Attributes:
        asked: The requests that it has not answered yet, in order.
        lives: Whether it has answered all requests so far.
    """

    def __init__(self, own_names: frozenset[str]) -> None:
        # Isolated mode without site-packages makes the process start in 20 ms. With this process's UTF-8 mode, both
        # decode file names in the same way.
        command = [sys.executable, "-I", "-S", "-X", f"utf8={sys.flags.utf8_mode}", str(_SCRIPT)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        self._answers = select.poll()
        self._answers.register(self._from, select.POLLIN)
        self._pipes = select.poll()
        self._pipes.register(self._from, select.POLLIN)
        self._pipes.register(self._to, select.POLLOUT)
        self._received = b""
        self.asked: deque[list[WantedDirectories]] = deque()
        self.lives = True
        self._send((own_names, _MOST_FILES))

    @property
    def has_time(self) -> bool:
        return self.lives and len(self.asked) < _AHEAD

    @property
    def is_ready(self) -> bool:
        return bool(self._received or self._answers.poll(0))

    def ask(self, wanted: list[WantedDirectories]) -> None:
        self.asked.append(wanted)
        self._send([each.path for each in wanted])

    def _send(self, message: list[str] | tuple[frozenset[str], int]) -> None:
        data = marshal.dumps(message)
        left = memoryview(len(data).to_bytes(4, "big") + data)
        while left and self.lives:
            # Read answers while sending: the helper reads nothing while its own output pipe is full, so both would wait
            # forever.
            if self._from in (ready := dict(self._pipes.poll())):
                self._receive()
            elif self._to in ready:
                try:
                    left = left[os.write(self._to, left) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    self.lives = False

    def answer(self) -> list[Files | None] | None:
        """Return the next answer; None if the process has ended without it."""
        self.asked.popleft()
        while self.lives and len(self._received) < 4:
            self._receive()
        end = 4 + int.from_bytes(self._received[:4], "big")
        while self.lives and len(self._received) < end:
            self._receive()
        if not self.lives:
            return None
        answer, self._received = self._received[4:end], self._received[end:]
        found: list[Files | None] = marshal.loads(answer)
        return found

    def _receive(self) -> None:
        data = os.read(self._from, 1 << 20)
        self._received += data
        self.lives = bool(data)

    def end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.kill()
        self._process.wait()
