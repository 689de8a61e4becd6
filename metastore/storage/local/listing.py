"""Listing of a tree on the local file system.

``os.scandir`` in one thread is as fast as pyarrow's recursive listing (20,000 files in as many directories: 0.22 s
against 0.25 s) and streams: it holds one open directory a level, whatever the number of entries.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.storage.entries import Entry, EntryKind, child_location
from catalog_ext.metastore.storage.failures import translate
from catalog_ext.metastore.storage.listed import (
    NOT_TEXT,
    Descend,
    Listed,
    ListedDirectory,
    ListedFile,
    ListedOther,
    ListingFailure,
)
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from catalog_ext.metastore.storage.local.own_files import OwnFiles

# Below this depth directories are read whole, so that a hostile tree cannot use up the file descriptors.
_OPEN_LEVELS = 64
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)


class _Open(NamedTuple):
    directory: str
    path: str
    entries: Iterator[os.DirEntry[str]]


def list_local(root: Location, descend: Descend, own: OwnFiles) -> Generator[Listed, None, None]:
    """Yield every file and directory below ``root``; see `catalog_ext.metastore.storage.listing.list_tree`.

    Args:
        root: The directory.
        descend: Says whether to look into a directory.
        own: Files that are left out.
    """
    try:
        stack = [_Open("", root.path, os.scandir(root.path))]
    except OSError as error:
        raise translate(error, root, "list") from error
    try:
        while stack:
            yield from _next_step(stack, root, descend, own)
    finally:
        for level in stack:
            _close(level)


def _next_step(stack: list[_Open], root: Location, descend: Descend, own: OwnFiles) -> Iterator[Listed]:
    """Yield what the innermost open directory holds up to its next subdirectory, and open that one."""
    level = stack[-1]
    try:
        for entry in level.entries:
            listed = _look_at(entry, level, root, own)
            if isinstance(listed, ListedDirectory):
                if descend(listed.directory):
                    yield from _enter(stack, entry, listed, root)
                    return
            elif listed is not None:
                yield listed
    except OSError as error:
        yield _failure(level.directory, root, error)
    stack.pop()
    _close(level)


def _look_at(entry: os.DirEntry[str], level: _Open, root: Location, own: OwnFiles) -> Listed | None:
    name = entry.name
    if not name.isascii() and not _is_text(name):
        # The entry alone: a name that cannot be registered hides nothing that can be.
        shown_name = name.encode("utf-8", "backslashreplace").decode()
        return ListedOther(level.directory, shown_name, 0, NOT_TEXT)
    try:
        if entry.is_dir():
            return ListedDirectory(f"{level.directory}/{name}" if level.directory else name)
        if entry.is_file():
            if own.has(entry.path):
                return None
            status = entry.stat()
            return ListedFile(level.directory, name, status.st_size, status.st_mtime_ns // 1_000_000)
        return _other(entry, level)
    except FileNotFoundError:
        # Another process deleted it after its directory was read.
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            # The link alone: as a failure of its directory it would keep all other files from being registered.
            return ListedOther(level.directory, name, 0, "a symbolic link that leads to itself")
        return _failure(level.directory, root, error)


def _other(entry: os.DirEntry[str], level: _Open) -> ListedOther | None:
    """Return what an entry is that is neither a file nor a directory, None if it has gone; it is never opened.

    Raises:
        OSError: It cannot be looked at.
    """
    try:
        mode = entry.stat().st_mode
    except FileNotFoundError:
        dangling = ListedOther(level.directory, entry.name, 0, "a symbolic link to something that is not there")
        return dangling if entry.is_symlink() else None
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "of an unknown kind")
    return ListedOther(level.directory, entry.name, 0, f"not a file: {kind}")


def _enter(stack: list[_Open], entry: os.DirEntry[str], found: ListedDirectory, root: Location) -> Iterator[Listed]:
    try:
        if entry.is_symlink() and any(os.path.samefile(entry.path, level.path) for level in stack):
            yield ListedOther(stack[-1].directory, entry.name, 0, "a symbolic link to a directory that it lies in")
            return
        entries = os.scandir(entry.path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield _failure(found.directory, root, error)
        return
    if len(stack) < _OPEN_LEVELS:
        stack.append(_Open(found.directory, entry.path, entries))
    else:
        with entries:
            stack.append(_Open(found.directory, entry.path, iter(list(entries))))
    yield found


def _close(level: _Open) -> None:
    close = getattr(level.entries, "close", None)
    if close is not None:
        close()


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _failure(directory: str, root: Location, error: OSError) -> ListingFailure:
    key = "/".join(part for part in (root.key, directory) if part)
    place = Location("file", "", key)
    translated = translate(error, place, "list")
    if not isinstance(translated, StorageError):
        translated = StorageError(translated.message, translated.parameters)
    return ListingFailure(directory, translated)


def list_local_directory(place: Location, own: OwnFiles) -> list[Entry]:
    """Return the files and directories directly in a directory; what no reader can open is not there.

    Arrow's own listing ends at the first name that is not UTF-8.

    Raises:
        LocationNotFoundError: There is no such directory.
        StorageError: It cannot be read.
    """
    level = _Open("", place.path, iter(()))
    try:
        with os.scandir(place.path) as entries:
            found = [(entry, _look_at(entry, level, place, own)) for entry in entries]
    except OSError as error:
        raise translate(error, place, "list") from error
    listed: list[Entry] = []
    for entry, what in found:
        if isinstance(what, ListingFailure):
            raise what.error
        if isinstance(what, ListedFile):
            listed.append(Entry(child_location(place, what.name), EntryKind.FILE, what.size, what.modified_ms))
        elif isinstance(what, ListedDirectory) and (modified_ms := _modified_ms(entry, place)) is not None:
            listed.append(Entry(child_location(place, entry.name), EntryKind.DIRECTORY, 0, modified_ms))
    return listed


def _modified_ms(entry: os.DirEntry[str], place: Location) -> int | None:
    """Return when a directory was modified; None where another process has deleted it meanwhile."""
    try:
        return entry.stat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return None
    except OSError as error:
        raise translate(error, place, "list") from error
