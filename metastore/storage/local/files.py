"""What changes files on the local file system, by the operating system's own calls."""

from __future__ import annotations

import errno
import os

_WITHOUT_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems answer that have no hard links, or not for this file."""


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
        """Move a file to a name that nobody has, in a directory that is there; it may be called again.

        Raises:
            FileExistsError: Another file has the name.
            FileNotFoundError: The file or the directory is not there.
            OSError: The operating system refuses.
        """
        # A rename would take the place of a file that somebody else makes meanwhile; a link does not.
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            # A process that died after the link has left both names.
            if not os.path.lexists(source) or not os.path.samestat(os.lstat(source), os.lstat(target)):
                raise
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            if os.path.lexists(target):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from error
            os.rename(source, target)
            return
        os.unlink(source)

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
