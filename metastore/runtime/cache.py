"""The cache folder for compiled and downloaded files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from catalog_ext.metastore.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from collections.abc import Callable

CACHE_VARIABLE = "CATALOG_EXT_CACHE"
"""The environment variable that names another cache folder."""


def cache_folder() -> Path:
    """Return the folder in the user's cache, or the one in ``CATALOG_EXT_CACHE``; it may not exist yet.

    Raises:
        EnvironmentSetupError: The user has no home folder, as in a container whose user has only a number.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        folder = Path(chosen or platformdirs.user_cache_dir("catalog-ext")).expanduser()
    except RuntimeError as error:
        raise EnvironmentSetupError(
            "catalog-ext has no folder for its cache: HOME is not set, and the system knows no home folder of "
            f"this user. Set HOME, or {CACHE_VARIABLE} to a folder that can be written.",
            {"variable": CACHE_VARIABLE},
        ) from error
    return folder.absolute()


def kept(
    target: Path, make: Callable[[Path], Path], timeout_s: float, is_whole: Callable[[Path], bool] = Path.exists
) -> Path:
    """Return a cached file or folder, making it first if it is missing.

    If several processes call this at once, one of them makes the target, and no process sees an incomplete one.

    Args:
        target: The path of the cached file or folder.
        make: Gets an empty folder, makes the content in it, and returns the path that is moved to ``target``.
        timeout_s: The time in seconds to wait for another process that makes the target.
        is_whole: Returns whether the target exists and is usable; an unusable target is made again.

    Raises:
        filelock.Timeout: Another process has been making the target for longer than ``timeout_s``.
        OSError: The target cannot be written.
    """
    # Import here: callers that only need the cache's path do not need filelock.
    import filelock

    if not is_whole(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(lock_of(target), timeout=timeout_s):
            if not is_whole(target):
                # Make it in a folder beside the target, on the same file system, so that the last step is an atomic
                # rename.
                with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as folder:
                    make(Path(folder)).replace(target)
    return target


def lock_of(target: Path) -> Path:
    """Return the path of the lock file for making a cached file or folder."""
    return target.with_name(f"{target.name}.lock")
