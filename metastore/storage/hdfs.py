"""HDFS through ``hdfs-native``, a client without a JVM, as a pyarrow file system.

The client raises Python's own errors for missing and existing paths, and for other failures a ``RuntimeError`` whose
text has the name of the server's exception class. This module translates each into an ``OSError`` with its ``errno``.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs as pafs

from catalog_ext.metastore.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hdfs_native import Client, FileStatus


# With one name node, give up after 5 s: the client's default of 15 attempts takes three minutes. A name service with
# several nodes keeps the default, because a failover takes time.
_ONE_NAME_NODE = {"dfs.client.failover.max.attempts": "3"}
_SERVER_ERROR = re.compile(r'RPCError\("([\w.$]+)", "(.*?)(?:\\n|"\)$)', re.DOTALL)
_NUMBERS = {
    "AccessControlException": errno.EACCES, "SafeModeException": errno.EAGAIN, "RetriableException": errno.EAGAIN,
    "StandbyException": errno.EAGAIN, "ParentNotDirectoryException": errno.ENOTDIR,
    "PathIsNotDirectoryException": errno.ENOTDIR, "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "PathComponentTooLongException": errno.ENAMETOOLONG, "NSQuotaExceededException": errno.EDQUOT,
    "DSQuotaExceededException": errno.EDQUOT, "InvalidPathException": errno.EINVAL,
}  # fmt: skip
_DIRECTORY_MODE = 0o755


class Hdfs(pafs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """One HDFS, as a handler for pyarrow; safe to use from several threads.

    Every method takes absolute paths and raises ``OSError``. pyarrow's own ``FSSpecHandler`` over
    ``hdfs_native.fsspec`` is not used: it parses paths as URLs (``ds=a#b`` becomes ``ds=a``), has no modification
    times, and raises the name node's errors as ``RuntimeError`` without ``errno``.

    Args:
        authority: ``host:port`` of the name node, or the name of a name service that is described in ``settings`` or in
            the files in ``HADOOP_CONF_DIR``.
        settings: Hadoop's ``dfs.*`` keys.

    Raises:
        EnvironmentSetupError: The client is not installed.
    """

    def __init__(self, authority: str, settings: Mapping[str, str]) -> None:
        try:
            from hdfs_native import Client
        except ImportError as error:
            raise EnvironmentSetupError(
                "Tables on HDFS need the package hdfs-native, which is not installed. Install it: pip install "
                "'catalog-ext[hdfs]'."
            ) from error
        defaults = _ONE_NAME_NODE if ":" in authority else {}
        self.url = f"hdfs://{authority}"
        with os_errors():
            self._client: Client = Client(self.url, {**defaults, **settings})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hdfs) and self.url == other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def status(self, path: str) -> FileStatus | None:
        """Return the status of ``path``; None if it does not exist."""
        with os_errors():
            try:
                return self._client.get_file_info(path)
            except FileNotFoundError:
                return None

    def entries(self, path: str) -> list[FileStatus]:
        """Return the entries directly in a directory."""
        with os_errors():
            found = list(self._client.list_status(path))
        if len(found) == 1 and found[0].path == path and not found[0].isdir:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return found

    def check_readable(self, path: str) -> None:
        """Check that a directory may be listed."""
        with os_errors():
            next(iter(self._client.list_status(path)), None)

    def obstacle(self, directory: str, source: str) -> str | None:
        """Return why a file cannot be moved to a directory, as in ``LocalFiles``; permissions are not checked here."""
        found = self.status(directory)
        return f"{directory} is no directory" if found is not None and not found.isdir else None

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory; see `catalog_ext.metastore.storage.local.files.LocalFiles`."""
        with os_errors():
            self._client.rename(source, target, overwrite=False)

    move = rename

    def delete_file(self, path: str) -> None:
        """Remove a file; a missing file is no error."""
        with os_errors():
            self._client.delete(path, recursive=False)

    def remove_directory(self, path: str) -> None:
        """Remove a directory if it is empty; see `catalog_ext.metastore.storage.local.files.LocalFiles`."""
        found = self.status(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not found.isdir:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        self.delete_file(path)

    def get_type_name(self) -> str:
        """Return the name of the kind of file system."""
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        """Return ``path`` unchanged: it is canonical already."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Return the information about each path."""
        return [_info(path, self.status(path)) for path in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """Return the information about the entries in a directory, or below it."""
        try:
            found = self.entries(selector.base_dir)
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        infos = [_info(status.path, status) for status in found]
        if selector.recursive:
            for status in found:
                if status.isdir:
                    infos += self.get_file_info_selector(
                        pafs.FileSelector(status.path, allow_not_found=True, recursive=True)
                    )
        return infos

    def create_dir(self, path: str, recursive: bool) -> None:
        """Create the directory ``path`` unless it exists."""
        with os_errors():
            self._client.mkdirs(path, _DIRECTORY_MODE, recursive)

    def delete_dir(self, path: str) -> None:
        """Remove a file, or a directory with everything in it; a missing path is no error."""
        with os_errors():
            self._client.delete(path, recursive=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Remove everything in a directory."""
        selector = pafs.FileSelector(path, allow_not_found=missing_dir_ok)
        for found in self.get_file_info_selector(selector):
            self.delete_dir(found.path)

    def delete_root_dir_contents(self) -> None:
        """Refuse to delete everything: an HDFS is never deleted as a whole."""
        raise PermissionError(errno.EPERM, "the whole of an HDFS is never deleted")

    def copy_file(self, src: str, dest: str) -> None:
        """Copy a file."""
        with self.open_input_file(src) as source, self.open_output_stream(dest) as target:
            target.upload(source)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position."""
        with os_errors():
            return pa.PythonFile(self._client.read(path), mode="r")

    open_input_stream = open_input_file

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None = None) -> pa.NativeFile:
        """Create or empty a file, and open it for writing."""
        from hdfs_native import WriteOptions

        with os_errors():
            return pa.PythonFile(self._client.create(path, WriteOptions(overwrite=True)), mode="w")

    def open_append_stream(self, path: str, metadata: Mapping[str, str]) -> pa.NativeFile:
        """Refuse to append: no part of the project appends to files."""
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP), path)


@contextmanager
def os_errors() -> Iterator[None]:
    """Translate errors of the client into an ``OSError`` with ``errno`` and text."""
    try:
        yield
    except RuntimeError as error:
        raise _os_error(str(error)) from error
    except OSError as error:
        if type(error) is OSError and error.errno is None:
            # The client raises this general error also if a server does not answer.
            raise ConnectionError(str(error)) from error
        raise


def _os_error(text: str) -> OSError:
    found = _SERVER_ERROR.search(text)
    if found is None:
        return OSError(text)
    words = found[2].replace('\\"', '"').replace("\\'", "'")
    number = _NUMBERS.get(re.split(r"[.$]", found[1])[-1])
    if number == errno.EACCES and words.endswith("(is not a directory)"):
        number = errno.ENOTDIR
    return OSError(number, words) if number is not None else OSError(f"{found[1]}: {words}")


def _info(path: str, status: FileStatus | None) -> pafs.FileInfo:
    if status is None:
        return pafs.FileInfo(path, pafs.FileType.NotFound)
    modified_ns = status.modification_time * 1_000_000
    if status.isdir:
        return pafs.FileInfo(path, pafs.FileType.Directory, mtime_ns=modified_ns)
    return pafs.FileInfo(path, pafs.FileType.File, size=status.length, mtime_ns=modified_ns)
