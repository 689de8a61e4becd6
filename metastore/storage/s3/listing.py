"""Listing of a tree on S3: in parallel by prefix, few requests, bounded memory.

The levels below the root are walked (one LIST with a delimiter for each prefix) until there are enough prefixes;
then each prefix is a *unit*, listed recursively with 1,000 keys a LIST, several at a time. Where the first units turn
out to be small, their parents are listed instead, so that a table of many small partitions does not cost a request
for each.

pyarrow cannot stream a recursive listing: a unit is held in memory while it is taken apart, about 750 bytes a key
(measured with pyarrow 26, one key a directory). The number of units in flight is lowered where units are large.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from pyarrow import fs as pafs

from catalog_ext.metastore.errors import CatalogExtError, IncompleteListingError, LocationNotFoundError, StorageError
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.listed import Descend, Listed, ListedFile, ListingFailure
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from catalog_ext.metastore.storage.store import Storage

T = TypeVar("T")
R = TypeVar("R")

_KEYS_PER_REQUEST = 1000
# Units listed before their size decides how the others are listed.
_SAMPLE = 4
# Keys that all units in flight may hold together.
_KEYS_IN_FLIGHT = 100_000


@dataclass(frozen=True, slots=True)
class _Level:
    """What lies directly in one directory."""

    directory: str
    files: Sequence[Listed]
    children: Sequence[str] = ()
    turned_down: int = 0
    has_empty_child: bool = False


@dataclass(frozen=True, slots=True)
class _Unit:
    """A directory to list recursively.

    ``skip`` holds what is known already: the directory itself (its own files) and directories below it (everything).
    """

    directory: str
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Content:
    """What a unit holds: how many entries the store listed, and those that are wanted."""

    keys: int
    listed: Sequence[Listed]


@dataclass(slots=True)
class _Frontier:
    """Where the walk has come to.

    Attributes:
        parents: The directories of the level above.
        prefixes: The directories to list next.
        whole: Directories with a child of an empty name (``a//x``), which only a recursive listing reaches.
        turned_down: Directories of the present level that ``descend`` turned down.
    """

    parents: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    whole: list[str] = field(default_factory=list)
    turned_down: int = 0


class S3Listing:
    """One listing of a tree on S3; see `catalog_ext.metastore.storage.listing.list_tree`.

    Args:
        storage: The store.
        root: The location to list.
        descend: Says whether to look into a directory.
        levels: How many levels the walk may go down before the rest is listed recursively.
    """

    def __init__(self, storage: Storage, root: Location, descend: Descend, levels: int) -> None:
        self._storage = storage
        self._root = root
        self._descend = descend
        self._levels = levels
        self._threads = storage.listing_threads
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="catalog-ext-listing")

    def run(self) -> Generator[Listed, None, None]:
        """Yield every file below the root."""
        frontier = _Frontier(prefixes=[""])
        try:
            yield from self._walk(frontier)
            yield from self._list_units(frontier)
        finally:
            self._stop.set()
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _walk(self, frontier: _Frontier) -> Iterator[Listed]:
        for _ in range(self._levels):
            if not frontier.prefixes or len(frontier.prefixes) >= self._storage.target_prefixes:
                return
            asked, frontier.prefixes = frontier.prefixes, []
            frontier.parents, frontier.turned_down = [], 0
            for level in self._parallel(self._list_level, asked, lambda: self._threads):
                yield from level.files
                frontier.turned_down += level.turned_down
                if level.has_empty_child:
                    frontier.whole.append(level.directory)
                elif level.children:
                    frontier.parents.append(level.directory)
                    frontier.prefixes.extend(level.children)

    def _list_units(self, frontier: _Frontier) -> Iterator[Listed]:
        sample, rest = frontier.prefixes[:_SAMPLE], frontier.prefixes[_SAMPLE:]
        largest = total = 0
        for content in self._parallel(self._list_unit, map(_Unit, sample), lambda: _SAMPLE):
            yield from content.listed
            largest, total = max(largest, content.keys), total + content.keys
        units: Iterable[_Unit] = map(_Unit, rest)
        if rest and self._parents_are_cheaper(total / len(sample), len(rest), frontier):
            units = [_Unit(parent, frozenset({parent, *sample})) for parent in frontier.parents]
        whole = [_Unit(directory, frozenset({directory})) for directory in frontier.whole]

        def window() -> int:
            return max(1, min(self._threads, _KEYS_IN_FLIGHT // max(1, largest)))

        for content in self._parallel(self._list_unit, chain(whole, units), window):
            yield from content.listed
            largest = max(largest, content.keys)

    def _parents_are_cheaper(self, keys_per_prefix: float, prefixes: int, frontier: _Frontier) -> bool:
        """Return whether listing the level above costs less time: pages one after the other against parallel LISTs."""
        keys = keys_per_prefix * (prefixes + frontier.turned_down)
        pages = keys / _KEYS_PER_REQUEST / max(1, min(len(frontier.parents), self._threads))
        rounds = prefixes * max(1.0, keys_per_prefix / _KEYS_PER_REQUEST) / self._threads
        return bool(frontier.parents) and keys <= _KEYS_IN_FLIGHT and max(1.0, pages) < rounds

    def _parallel(self, work: Callable[[T], R], items: Iterable[T], window: Callable[[], int]) -> Iterator[R]:
        """Yield ``work(item)`` for each item as it is ready; at most ``window()`` are in flight or waiting."""
        source = iter(items)
        running: set[Future[R]] = {self._pool.submit(work, item) for item in islice(source, window())}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            while done:
                yield done.pop().result()
                free = window() - len(running) - len(done)
                running |= {self._pool.submit(work, item) for item in islice(source, max(0, free))}

    def _list_level(self, directory: str) -> _Level:
        try:
            infos = self._infos(directory, recursive=False)
        except CatalogExtError as error:
            return _Level(directory, [self._failure(directory, error)])
        base = self._place(directory).path
        files: list[Listed] = []
        children: list[str] = []
        turned_down, has_empty_child = 0, False
        for info in infos:
            if info.is_file:
                files.append(ListedFile(directory, info.base_name, info.size, info.mtime_ns // 1_000_000))
            elif info.path.rstrip("/") == base:
                # pyarrow shows a child of an empty name under the name of its parent.
                has_empty_child = True
            elif self._descend(child := _below(directory, info.base_name)):
                children.append(child)
            else:
                turned_down += 1
        return _Level(directory, files, children, turned_down, has_empty_child)

    def _list_unit(self, unit: _Unit) -> _Content:
        try:
            infos = self._infos(unit.directory, recursive=True)
        except CatalogExtError as error:
            return _Content(0, [self._failure(unit.directory, error)])
        start = len(self._root.path) + 1
        wanted = {unit.directory: True, **dict.fromkeys(unit.skip, False)}
        files: list[Listed] = []
        for info in infos:
            if not info.is_file:
                continue
            head, slash, name = info.path[start:].rpartition("/")
            directory = head or slash
            if (take := wanted.get(directory)) is None:
                take = self._decide(directory, unit, wanted)
            if take:
                files.append(ListedFile(directory, name, info.size, info.mtime_ns // 1_000_000))
        return _Content(len(infos), files)

    def _decide(self, directory: str, unit: _Unit, wanted: dict[str, bool]) -> bool:
        """Return whether files of ``directory`` are wanted: its parents up to the unit, and itself, not turned down."""
        missing = []
        current = directory
        while current != unit.directory and current not in wanted:
            missing.append(current)
            current = current.rpartition("/")[0]
        # A unit whose own files are known is in ``wanted`` as not wanted; what lies below it is.
        take = current == unit.directory or wanted[current]
        for step in reversed(missing):
            take = take and self._descend(step)
            wanted[step] = take
        return take

    def _infos(self, directory: str, *, recursive: bool) -> list[pafs.FileInfo]:
        place = self._place(directory)
        selector = pafs.FileSelector(place.path, recursive=recursive)
        try:
            return self._storage.attempt(
                place, "list", lambda filesystem: filesystem.get_file_info(selector), stop=self._stop
            )
        except LocationNotFoundError as error:
            # A prefix without keys is an empty one; a bucket that does not exist is an error.
            if is_missing_bucket(error):
                raise
            return []

    def _failure(self, directory: str, error: CatalogExtError) -> ListingFailure:
        if not directory:
            raise error
        if isinstance(error, StorageError):
            return ListingFailure(directory, error)
        return ListingFailure(directory, IncompleteListingError(error.message, error.parameters))

    def _place(self, directory: str) -> Location:
        return Location(
            self._root.scheme, self._root.bucket, _below(self._root.key, directory) if directory else self._root.key
        )


def _below(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
