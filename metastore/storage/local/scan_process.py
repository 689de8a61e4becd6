"""Reads directories of the local file system in a process of its own: run by ``ScanProcesses``, as a script.

Messages in both directions are four bytes of length and ``marshal``. The first message that comes in holds the names
of files to leave to the parent, and the most files of an answer, which both processes hold in memory. Each later one is
a list of paths of directories. For each list a list goes out: of each directory its files as (name, bytes, modification
time in milliseconds since 1970), or None where the parent has to read it: anything but regular files lies there, an
error occurred, or the answer would become too large.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
from typing import Any


def main() -> None:
    """Answer until the parent closes the pipe."""
    # The terminal interrupts the whole group: the parent closes the pipe then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    own_names, most_files = _receive()
    while (paths := _receive()) is not None:
        answer = marshal.dumps(_answer(paths, own_names, most_files))
        sys.stdout.buffer.write(len(answer).to_bytes(4, "big") + answer)
        sys.stdout.buffer.flush()


def _receive() -> Any:  # noqa: ANN401 -- names first, then paths; None at the end
    length = sys.stdin.buffer.read(4)
    return marshal.loads(sys.stdin.buffer.read(int.from_bytes(length, "big"))) if len(length) == 4 else None


def _answer(paths: list[str], own_names: frozenset[str], room: int) -> list[list[tuple[str, int, int]] | None]:
    found = []
    for path in paths:
        files = _files(path, own_names, room)
        found.append(files)
        room -= len(files or ())
    return found


def _files(path: str, own_names: frozenset[str], room: int) -> list[tuple[str, int, int]] | None:
    files: list[tuple[str, int, int]] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name in own_names or not entry.is_file(follow_symlinks=False) or len(files) >= room:
                    return None
                status = entry.stat(follow_symlinks=False)
                files.append((name, status.st_size, status.st_mtime_ns // 1_000_000))
    except OSError:
        return None
    return files


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # The parent was interrupted. Python flushes once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
