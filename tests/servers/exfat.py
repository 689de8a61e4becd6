"""A file system on which case does not count: exFAT, mounted by FUSE."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.runtime.cache import cache_folder, kept
from tests.servers.debian import FETCH_S, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SIZE = 32 * 1024 * 1024


@contextmanager
def mounted_exfat(folder: Path) -> Iterator[Path]:
    """An empty exFAT file system, mounted below the folder; the test is skipped where none can be mounted."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("only root can mount a file system, and FUSE must be there")
    driver = kept(cache_folder() / "exfat-fuse", lambda work: unpacked(work, "exfat-fuse", r"libfuse\S+"), FETCH_S)
    maker = kept(cache_folder() / "exfatprogs", lambda work: unpacked(work, "exfatprogs"), FETCH_S)
    image, place = folder / "exfat.img", folder / "exfat"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(_SIZE)
    _run(str(_program(maker, "mkfs.exfat")), str(image))
    device = _run("losetup", "-f", "--show", str(image)).strip()
    try:
        library = next(driver.rglob("libfuse.so.2")).parent
        _run(str(_program(driver, "mount.exfat-fuse")), device, str(place), LD_LIBRARY_PATH=str(library))
        try:
            yield place
        finally:
            _run("umount", str(place))
    finally:
        _run("losetup", "-d", device)


def _program(files: Path, name: str) -> Path:
    return next(path for path in files.rglob(name) if path.is_file())


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )
    if done.returncode:
        pytest.skip(f"{command[0]} cannot run here: {done.stderr.strip()}")
    return done.stdout
