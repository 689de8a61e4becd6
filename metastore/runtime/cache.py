"""The folder of what is compiled and fetched, in the user's cache."""

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
        EnvironmentSetupError: The user has no home folder, as in a container with a user of a number alone.
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
    """Return a file or folder that is made now unless it is there.

    If several processes ask at once, one of them makes it, and none sees a part of it.

    Args:
        target: Where it is.
        make: Gets an empty folder, and returns what in it becomes the target.
        timeout_s: How long, in seconds, one waits for another process that makes it.
        is_whole: Whether the target is there and can be used; a file that cannot is made again in its place.

    Raises:
        filelock.Timeout: Another process has made it for longer than that.
        OSError: It cannot be written there.
    """
    # Not at the top: who only asks where things are makes none.
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
    """Return the lock of those who make a file or folder."""
    return target.with_name(f"{target.name}.lock")
