"""``--in-memory``: puts the tests' folders into memory if the machine has enough; ``make unit`` sets it.

``make test`` does not, so that the tests see directories of both kinds of file systems.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 4 << 30
"""Many times what a run leaves. A container's share is often 64 MB."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--in-memory", action="store_true", help=f"keep the tests' folders in {_MEMORY} where there is room"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose before the first folder is made; the processes that this one starts do as it does."""
    if config.getoption("in_memory") and "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = tempfile.tempdir = str(_MEMORY)


def _has_room() -> bool:
    """Return whether much may be written there, and programs be run: some systems forbid it."""
    if not (_MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)):
        return False
    runs_programs = not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
    return runs_programs and shutil.disk_usage(_MEMORY).free >= _ROOM_BYTES
