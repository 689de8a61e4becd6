"""Lists a tree on S3: in parallel by prefix, with few requests and little memory.

The levels below the root are walked (a LIST with a delimiter for each prefix) until there are enough prefixes. Then
each prefix is a *unit*, which is listed recursively with 1,000 keys per LIST, several units in parallel. If the first
units turn out to be small, their parents are listed instead, so that a table of many small partitions does not cost a
request for each.

A page is yielded while the next page of its unit is requested. The memory holds at most one page per thread, whatever
the number of keys below a prefix, and the names of the directories to list. The files of a directory that may continue
on the next page are held back until then. A unit that fails in the middle yields a `ListingFailure` after its pages.
"""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, IncompleteListingError, StorageError
from catalog_ext.metastore.storage.entries import Descend, Listed, ListedFile, ListingFailure
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.s3.keys import KEYS_PER_PAGE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    from catalog_ext.metastore.storage.s3.keys import KeyPage
    from catalog_ext.metastore.storage.store import Storage

# The number of prefixes (units) that are listed first; their size decides whether the other prefixes or their parents
# are listed.
_SAMPLE = 4
# The most files of one directory that are held back; a larger directory is yielded in parts.
_LARGEST_WAITING = 10_000
# The number of directories whose result of ``descend`` is cached: S3 returns all keys of one directory in sequence.
_REMEMBERED = 10_000


@dataclass(slots=True, eq=False)
class _Unit:
    """A directory that is listed, page by page.

    Attributes:
        directory: Its path relative to the root.
        skip: Directories that are listed already: the directory itself (its own files) and directories below it
            (everything).
        whole: Whether it is listed recursively.
        keys: The number of keys received.
        current: The directory of the last key.
        take: Whether the files of ``current`` are yielded.
        waiting: The files of ``current`` so far; they are held back, because it may continue on the next page.
        wanted: A cache: whether the files of a directory below this one are yielded.
        children: Its subdirectories, if it is not listed recursively.
        turned_down: The number of subdirectories that ``descend`` rejected.
        has_empty_child: Whether a subdirectory has an empty name.
    """

    directory: str
    skip: frozenset[str] = frozenset()
    whole: bool = True
    keys: int = 0
    current: str | None = None
    take: bool = False
    waiting: list[Listed] = field(default_factory=list)
    wanted: dict[str, bool] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)
    turned_down: int = 0
    has_empty_child: bool = False

    def __post_init__(self) -> None:
        self._forget()

    def enter(self, directory: str, *, take: bool) -> None:
        """Continue with the keys of another directory."""
        self.current, self.take = directory, take
        self.waiting.clear()
        if len(self.wanted) > _REMEMBERED + len(self.skip):
            self._forget()

    def _forget(self) -> None:
        self.wanted = {self.directory: True, **dict.fromkeys(self.skip, False)}


@dataclass(slots=True)
class _Frontier:
    """The state of the walk through the upper levels.

    Attributes:
        parents: The directories of the level above ``prefixes``.
        prefixes: The directories to list next.
        whole: Directories with a child of an empty name (``a//x``), which only a recursive listing reaches.
        turned_down: The number of directories on the level of ``prefixes`` that ``descend`` rejected.
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
        descend: Returns whether to list a directory.
        levels: The most levels that are walked before the rest is listed recursively.
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
            levels = [_Unit(directory, whole=False) for directory in asked]
            yield from self._list(levels)
            for level in levels:
                frontier.turned_down += level.turned_down
                if level.has_empty_child:
                    frontier.whole.append(level.directory)
                elif level.children:
                    frontier.parents.append(level.directory)
                    frontier.prefixes.extend(level.children)

    def _list_units(self, frontier: _Frontier) -> Iterator[Listed]:
        first, rest = frontier.prefixes[:_SAMPLE], frontier.prefixes[_SAMPLE:]
        sample = [_Unit(directory) for directory in first]
        yield from self._list(sample)
        units: Iterable[_Unit] = map(_Unit, rest)
        if rest and self._parents_are_cheaper(sum(unit.keys for unit in sample) / len(sample), len(rest), frontier):
            units = [_Unit(parent, frozenset({parent, *first})) for parent in frontier.parents]
        whole = [_Unit(directory, frozenset({directory})) for directory in frontier.whole]
        yield from self._list(chain(whole, units))

    def _parents_are_cheaper(self, keys_per_prefix: float, prefixes: int, frontier: _Frontier) -> bool:
        """Return whether listing the level above takes less time: it has fewer prefixes, but more keys to skip."""
        keys = keys_per_prefix * (prefixes + frontier.turned_down)
        pages = keys / KEYS_PER_PAGE / max(1, min(len(frontier.parents), self._threads))
        rounds = prefixes * max(1.0, keys_per_prefix / KEYS_PER_PAGE) / self._threads
        return bool(frontier.parents) and max(1.0, pages) < rounds

    def _list(self, units: Iterable[_Unit]) -> Iterator[Listed]:
        """Yield the contents of each directory (unit); if its listing fails, yield the failure instead of the rest."""
        source = iter(units)
        running = {self._ask(unit): unit for unit in islice(source, self._threads)}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for answer in done:
                unit = running.pop(answer)
                try:
                    page = answer.result()
                except CatalogExtError as error:
                    unit.children, unit.has_empty_child = [], False
                    yield self._failure(unit.directory, error)
                    page = None
                if page is not None and page.next is not None:
                    running[self._ask(unit, page.next)] = unit
                else:
                    running |= {self._ask(following): following for following in islice(source, 1)}
                if page is not None:
                    yield from self._taken(unit, page)

    def _ask(self, unit: _Unit, begin: str | None = None) -> Future[KeyPage]:
        return self._pool.submit(self._page, unit.directory, whole=unit.whole, begin=begin)

    def _page(self, directory: str, *, whole: bool, begin: str | None) -> KeyPage:
        place = self._place(directory)
        return self._storage.keys_of(place).page(place, whole=whole, begin=begin, stop=self._stop)

    def _taken(self, unit: _Unit, page: KeyPage) -> Iterator[Listed]:
        """Yield the wanted files of a page; the files of each directory are yielded when the directory ends."""
        start = len(self._root.key) + 1 if self._root.key else 0
        unit.keys += len(page.keys)
        for key, size, modified_ms, etag in page.keys:
            if key.endswith("/") and (not size or len(key) == start):
                # The object only marks a directory. A non-empty object of this kind is yielded without a name, since
                # readers ignore it.
                continue
            head, slash, name = key[start:].rpartition("/")
            directory = head or slash
            if directory != unit.current:
                yield from unit.waiting
                unit.enter(directory, take=self._decide(directory, unit))
            if unit.take:
                unit.waiting.append(ListedFile(directory, name, size, modified_ms, etag))
                if len(unit.waiting) >= _LARGEST_WAITING:
                    yield from unit.waiting
                    unit.waiting.clear()
        if page.next is None:
            yield from unit.waiting
        self._note_children(unit, page.prefixes, start)

    def _note_children(self, unit: _Unit, prefixes: Iterable[str], start: int) -> None:
        own = len(unit.directory) + 1 if unit.directory else 0
        for prefix in prefixes:
            child = prefix[start:-1]
            if not child[own:]:
                unit.has_empty_child = True
            elif self._descend(child):
                unit.children.append(child)
            else:
                unit.turned_down += 1

    def _decide(self, directory: str, unit: _Unit) -> bool:
        """Return whether files of ``directory`` are wanted: ``descend`` must accept it and its parents in the unit."""
        missing, wanted = [], unit.wanted
        if (known := wanted.get(directory)) is not None:
            return known
        current = directory
        while current != unit.directory and current not in wanted:
            missing.append(current)
            current = current.rpartition("/")[0]
        # The unit's directory is wanted here, so that directories below it can be. ``wanted`` may have False for it,
        # which says only that its own files are listed already.
        take = current == unit.directory or wanted[current]
        for step in reversed(missing):
            take = take and self._descend(step)
            wanted[step] = take
        return take

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
