"""Script of a helper process that reads local directories; ``ScanProcesses`` starts it.

Messages in both directions consist of a length in four bytes and data in ``marshal`` form. The first message to this
process has the names of files to leave to the parent, and the largest number of files in an answer, which both
processes hold in memory. Each later message is a list of directory paths. Each list is answered by a list: for each
directory its files as (name, bytes, modification time in milliseconds since 1970), or None if the parent has to read
the directory, because it contains other entries than regular files, an error occurred, or the answer would become too
large.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
from typing import Any


def main() -> None:
    """Answer requests until the parent closes the pipe."""
    # Ignore Ctrl-C, which the terminal sends to all processes: the parent then closes the pipe, which ends this
    # process.
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
        # The parent closed the pipe. Redirect the output, because Python's flush at exit would fail on the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
