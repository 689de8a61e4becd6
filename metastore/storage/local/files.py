"""Changes files on the local file system, and recognizes the files of a SQLite index, which belong to no table."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

from catalog_ext.metastore.storage.parallel import in_parallel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BESIDE = ("-wal", "-shm", "-journal")
"""The suffixes of the further files that SQLite creates beside a database."""


class OwnFiles:
    """Recognizes the files of SQLite indexes on the local file system, also through symbolic links.

    These files are never listed. Otherwise a repair of a table in the same folder would register them as data, and an
    overwrite of that table would delete them.
    """

    def __init__(self, databases: Iterable[str] = ()) -> None:
        self.databases = tuple(databases)
        paths = [path + end for path in self.databases for end in ("", *BESIDE)]
        self._real = frozenset(map(os.path.realpath, paths))
        self.names = frozenset(os.path.basename(path) for path in (*paths, *self._real))

    def has(self, path: str) -> bool:
        """Return whether a path is a file of a SQLite index."""
        # Compare the name first: following the links of all directories is slow, and hardly any file has such a name.
        return os.path.basename(path) in self.names and os.path.realpath(path) in self._real

    def within(self, directory: str) -> str | None:
        """Return the path of an index in a directory or below it; None if there is no index."""
        root = os.path.join(os.path.realpath(directory), "")
        return next((path for path in self.databases if os.path.realpath(path).startswith(root)), None)


_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
_SYNC_THREADS = 16
_SYNCED_SINGLY = 64
"""The most files that are synced one by one. For more, ``syncfs`` syncs the whole file system, including other data."""

_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
"""The error codes of kernels and file systems that do not support a rename that never replaces a file."""


@cache
def _renameat2() -> Callable[..., int] | None:
    """Return Linux's rename with flags (Python's ``os`` lacks it); None if the C library has no such function."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    return function


@cache
def _syncfs() -> Callable[..., int] | None:
    """Return Linux's call that syncs a whole file system; None on other systems."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync(path: str) -> None:
    with _opened(path) as descriptor:
        os.fsync(descriptor)


def _sync_if_there(directory: str) -> None:
    # Ignore a missing directory: another process may remove an empty directory at any time, and then nothing is left to
    # sync.
    with suppress(FileNotFoundError):
        _sync(directory)


def _nearest(directory: str) -> str:
    while not os.path.lexists(directory):
        directory = os.path.dirname(directory)
    return directory


def _sync_whole(syncfs: Callable[..., int], place: str) -> None:
    with _opened(place) as descriptor:
        if syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), place)


def _renamed_exclusively(source: str, target: str) -> bool:
    """Rename a file unless the target exists; return False, with nothing done, if the system does not support this.

    Raises:
        FileExistsError: The target exists.
        OSError: The operating system refuses.
    """
    rename = _renameat2()
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), source, None, target)


class LocalFiles:
    """Renames and removes local files; each method raises the operating system's ``OSError``."""

    def check_readable(self, path: str) -> None:
        """Check that a directory may be listed."""
        with os.scandir(path):
            return

    def obstacle(self, directory: str, source: str) -> str | None:
        """Return why a file cannot be moved to a directory; None if no obstacle is found.

        Args:
            directory: The target directory; it need not exist yet.
            source: An existing directory on the file system that the file comes from.
        """
        there = directory
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            return f"{there} is no directory"
        if not os.access(there, os.W_OK | os.X_OK):
            return f"{there} may not be written to"
        if os.stat(there).st_dev != os.stat(source).st_dev:
            return f"{there} is on another file system than {source}, where the files wait"
        return None

    def rename(self, source: str, target: str) -> None:
        """Move a file to a name that is not in use, in an existing directory.

        If the system has no rename that never replaces a file, a file that another process creates between the check
        and the rename is replaced.

        Raises:
            FileExistsError: Another file has the name.
            FileNotFoundError: The file or the directory does not exist.
            OSError: The operating system refuses.
        """
        if _renamed_exclusively(source, target):
            return
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.rename(source, target)

    def sync(self, files: Sequence[str], directories: Iterable[str]) -> None:
        """Sync new files and directories to the disk, so that they survive a power failure."""
        syncfs = _syncfs()
        if len(files) <= _SYNCED_SINGLY or syncfs is None:
            in_parallel(_sync, [*files, *directories], _SYNC_THREADS)
            return
        _sync_whole(syncfs, os.path.dirname(files[0]))

    def sync_directories(self, directories: Iterable[str]) -> None:
        """Sync directories from which entries were removed; for a removed directory, its nearest existing ancestor."""
        there = sorted({_nearest(directory) for directory in directories})
        syncfs = _syncfs()
        if len(there) <= _SYNCED_SINGLY or syncfs is None:
            in_parallel(_sync_if_there, there, _SYNC_THREADS)
        else:
            _sync_whole(syncfs, there[0])

    def delete_file(self, path: str) -> None:
        """Remove a file and the checksum file that Hadoop's local file system adds; missing files are no error."""
        directory, name = os.path.split(path)
        for each in (path, os.path.join(directory, f".{name}.crc")):
            try:
                os.unlink(each)
            except (FileNotFoundError, NotADirectoryError):
                continue

    def remove_directory(self, path: str) -> None:
        """Remove a directory if it is empty.

        Raises:
            FileNotFoundError: The directory does not exist.
            OSError: It is not empty (``ENOTEMPTY``) or not a directory, or the operating system refuses.
        """
        os.rmdir(path)
