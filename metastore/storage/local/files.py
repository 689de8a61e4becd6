"""What changes files on the local file system, by the operating system's own calls."""

from __future__ import annotations

import errno
import os


class LocalFiles:
    """Renames and removals; each raises the operating system's error."""

    def check_readable(self, path: str) -> None:
        """Return if a directory may be listed.

        Raises:
            OSError: The operating system refuses.
        """
        with os.scandir(path):
            return

    def rename(self, source: str, target: str) -> None:
        """Move a file to a name that nobody has, in a directory that is there.

        Raises:
            FileExistsError: Something has the name.
            FileNotFoundError: The file or the directory is not there.
            OSError: The operating system refuses.
        """
        if os.path.lexists(target):
            # Names carry their transaction's id, so that nobody else makes this one in between.
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.rename(source, target)

    def delete_file(self, path: str) -> None:
        """Remove a file, and the checksum that Hadoop's local file system keeps beside it; gone is fine.

        Raises:
            OSError: The operating system refuses.
        """
        directory, name = os.path.split(path)
        for each in (path, os.path.join(directory, f".{name}.crc")):
            try:
                os.unlink(each)
            except (FileNotFoundError, NotADirectoryError):
                continue

    def remove_directory(self, path: str) -> None:
        """Remove a directory if it is empty.

        Raises:
            FileNotFoundError: It is not there.
            OSError: It is not empty (``ENOTEMPTY``) or no directory, or the operating system refuses.
        """
        os.rmdir(path)
