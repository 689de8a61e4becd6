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
"""The environment variable that names another folder for what is fetched and compiled."""


def cache_folder() -> Path:
    """Return the folder in the user's cache, or the one that ``CATALOG_EXT_CACHE`` names; it may not exist yet.

    Raises:
        EnvironmentSetupError: The user has no home folder, as in a container with only a user number.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    try:
        folder = Path(chosen or platformdirs.user_cache_dir("catalog-ext")).expanduser()
    except RuntimeError as error:
        raise EnvironmentSetupError(
            "There is no folder for what catalog-ext keeps: HOME is not set, and the system knows no home folder of "
            f"this user. Set HOME, or {CACHE_VARIABLE} to a folder that can be written.",
            {"variable": CACHE_VARIABLE},
        ) from error
    return folder.absolute()


def kept(
    target: Path, make: Callable[[Path], Path], timeout_s: float, is_whole: Callable[[Path], bool] = Path.exists
) -> Path:
    """Return a file or folder, making it first if it is missing.

    If several processes ask at once, one of them makes it, and none sees a part of it.

    Args:
        target: Its place.
        make: Gets an empty folder, and returns the path in it that becomes the target.
        timeout_s: The time in seconds to wait for another process that makes it.
        is_whole: Returns whether the target exists and is usable; an unusable file is made again.

    Raises:
        filelock.Timeout: Another process has been making it for longer than that.
        OSError: It cannot be written there.
    """
    # Imported here: callers that only need the path do not need the lock.
    import filelock

    if not is_whole(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(lock_of(target), timeout=timeout_s):
            if not is_whole(target):
                # Beside the target, so that the last step is a rename.
                with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as folder:
                    make(Path(folder)).replace(target)
    return target


def lock_of(target: Path) -> Path:
    """Return the lock for making a file or folder."""
    return target.with_name(f"{target.name}.lock")
