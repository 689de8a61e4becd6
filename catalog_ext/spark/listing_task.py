"""What a task of a Spark job does to list a part of a tree: it runs in Python on an executor."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.errors import IncompleteListingError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.listed import Listed, ListedDirectory, ListedFile, ListedOther, ListingFailure
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.partial_tree import list_part
from catalog_ext.metastore.storage.store import Storage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENTRIES_TOGETHER = 20_000
_FAST = 1

_Files: TypeAlias = list[tuple[str, int, int, "int | None"]]
_Packed: TypeAlias = tuple[list[tuple[str, _Files]], list[str], list[ListedOther], list[tuple[str, str]]]
"""Files by their directory, directories, what no reader can open, failures with their messages."""


class OtherReleaseError(Exception):
    """An executor has another release of catalog-ext than the driver, or none that is installed."""


@dataclass(frozen=True, slots=True)
class ListingTask:
    """Lists directories one after the other.

    Attributes:
        release: The driver's release of catalog-ext.
        settings: How the store is reached, as Hadoop's keys, secrets included.
        threads: Prefixes that one listing asks for at the same time.
        root: The location that the directories are relative to.
        depth: Levels of directories between each directory and the files.
        indexes: The driver's SQLite indexes, whose files are left out where the executor is on its machine.
    """

    release: str
    settings: dict[str, str]
    threads: int
    root: str
    depth: int
    indexes: tuple[str, ...] = ()

    def __call__(self, directories: Iterable[str]) -> Iterator[bytes]:
        """Yield what lies below the directories, packed; `unpacked` takes it apart.

        Raises:
            OtherReleaseError: This machine has another release than the driver.
        """
        if (here := version("catalog-ext")) != self.release:
            raise OtherReleaseError(f"the driver has catalog-ext {self.release} and the executor {here}")
        storage = Storage(self.settings, listing_threads=self.threads, indexes=self.indexes)
        root = Location.parse(self.root)
        for directory in directories:
            listed = list_part(storage, root, directory, descend=_any, depth_hint=self.depth)
            for some in batched(listed, _ENTRIES_TOGETHER):
                yield zlib.compress(pickle.dumps(_packed(some)), _FAST)


def unpacked(part: bytes) -> Iterator[Listed]:
    """Yield what a task has packed; its failures say why, whatever kind of error it was there."""
    packed: _Packed = pickle.loads(zlib.decompress(part))
    by_directory, directories, others, failures = packed
    for directory in directories:
        yield ListedDirectory(directory)
    for directory, files in by_directory:
        for file in files:
            yield ListedFile(directory, *file)
    yield from others
    for directory, message in failures:
        yield ListingFailure(directory, IncompleteListingError(message))


def _any(_: str) -> bool:
    return True


def _packed(events: Iterable[Listed]) -> _Packed:
    files, directories, others, failures = [], [], [], []
    for event in events:
        if isinstance(event, ListedFile):
            files.append(event)
        elif isinstance(event, ListedDirectory):
            directories.append(event.directory)
        elif isinstance(event, ListedOther):
            others.append(event)
        else:
            failures.append((event.directory, event.error.message))
    by_directory = [
        (directory, [(file.name, file.size, file.modified_ms, file.etag) for file in group])
        for directory, group in groupby(files, attrgetter("directory"))
    ]
    return by_directory, directories, others, failures
