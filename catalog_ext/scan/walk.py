"""Finds the files that match a pattern, without listing directories that a predicate on the keys excludes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import LocationNotFoundError, PathNotFoundError, StorageError
from catalog_ext.metastore.model.ignored_names import is_marker
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.entries import (
    NOT_TEXT,
    Entry,
    EntryKind,
    ListedFile,
    ListedOther,
    ListingFailure,
    obstacle,
)
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.scan.path_keys import Pruning, keys_of
from catalog_ext.scan.walk_states import EVERYTHING, FoundFile, WalkState, begin, below, step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.metastore.storage.patterns import Alternative
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.path_keys import Pruner

_FEW_TREES = 4
"""Up to this number of trees, each is listed by several parallel requests; more trees are listed in parallel
instead."""

_SHOWN_MISSING = 1000
_ABOUT = "(Failed to check existence of a key.)"
"""A text that the error for a missing path has to contain, by the requirements."""


@dataclass
class Matches:
    """The result of a walk.

    Attributes:
        files: The files, without duplicates.
        found: For each alternative of the pattern, whether something matches it.
        pruned: For each alternative, whether the predicate excluded a part of its search.
    """

    found: list[bool]
    pruned: list[bool]
    files: dict[Location, FoundFile] = field(default_factory=dict)

    def missing(self) -> list[int]:
        """Return the numbers of the alternatives that nothing matches.

        Alternatives of which the predicate excluded a part are omitted: the excluded part may have a match.
        """
        return [number for number in range(len(self.found)) if not (self.found[number] or self.pruned[number])]

    @property
    def complete(self) -> bool:
        """Whether the predicate excluded nothing, so that the whole pattern was searched."""
        return not any(self.pruned)

    def check(self, pattern: str, alternatives: list[Alternative]) -> None:
        """Check that every path that the pattern names exists, as far as it was searched.

        Raises:
            PathNotFoundError: Named paths do not exist (the message lists them), or no file matches at all.
        """
        missing = [str(alternatives[number]) for number in self.missing()]
        if missing:
            raise not_found(pattern, missing, len(alternatives))
        if self.complete and not self.files:
            raise PathNotFoundError(
                f"{shown(pattern)} has no file under it. Files whose names begin with '_' or '.' do not count; correct "
                f"the path. {_ABOUT}",
                {"path": pattern},
            )


def not_found(pattern: str, missing: list[str], of: int) -> PathNotFoundError:
    """Return the error for the paths of a pattern that do not exist; ``of`` is the number of all named paths."""
    listed = ", ".join(missing[:_SHOWN_MISSING]) + (", …" if len(missing) > _SHOWN_MISSING else "")
    if of == 1:
        what = f"There is no such path: nothing lies at {missing[0]}. Correct the path."
    else:
        what = (
            f"Paths are missing: nothing lies at {len(missing)} of the {of} paths that the pattern {shown(pattern)} "
            f"names: {listed}. Correct the pattern, or use * to take the paths that exist."
        )
    return PathNotFoundError(f"{what} {_ABOUT}", {"path": pattern, "missing": "\n".join(missing[:_SHOWN_MISSING])})


class Walk:
    """Searches the tree level by level, so that each directory is listed once.

    At a directory below which nothing can be pruned, and the pattern excludes little, the whole tree is listed instead:
    on S3 that costs a request for a thousand keys, and not one for each directory.

    Args:
        alternatives: The pattern, with lists and ranges expanded.
        keys: The expected number of keys in a path, for a good guess at the depth of a tree.
        take: Called from one thread with the files, perhaps with duplicates. The result then contains no files.
        failed: Called, from any thread, for directories that cannot be listed; without it they are errors.
        left_out: Called, from any thread, for entries that no reader can open, with the path relative to ``at`` and the
            reason. Without it, as in Spark's listing, they are ignored, except that names that are not text are errors.
    """

    def __init__(
        self,
        storage: Storage,
        alternatives: list[Alternative],
        pruner: Pruner,
        *,
        keys: int = 1,
        take: Callable[[FoundFile], None] | None = None,
        failed: Callable[[Location, CatalogExtError], None] | None = None,
        left_out: Callable[[Location, ListedFile | ListedOther, str], None] | None = None,
    ) -> None:
        self._take = take
        self._left_out = left_out
        self._failed = failed
        self._storage = storage
        self._alternatives = alternatives
        self._pruner = pruner
        self._keys = keys
        count = len(alternatives)
        self._matches = Matches([False] * count, [False] * count)

    def run(self) -> Matches:
        """Return the matches of the pattern.

        Raises:
            StorageError: The store refuses, does not answer or lists incompletely.
            LocationNotFoundError: The bucket does not exist.
        """
        states = begin(self._alternatives)
        with ThreadPoolExecutor(self._storage.listing_threads, thread_name_prefix="catalog-ext-paths") as pool:
            while states:
                states = self._round(states, pool)
        return self._matches

    def _round(self, states: list[WalkState], pool: ThreadPoolExecutor) -> list[WalkState]:
        """Advance all states by one level and return the new states; matching files are added to the result."""
        arrived = [state for each in states if (state := self._arrive(each.passing_literals())) is not None]
        further = self._look_at([state for state in arrived if not state.rest])
        listed = [state for state in arrived if state.rest]
        trees: dict[Location, list[WalkState]] = {}
        levels: dict[Location, list[WalkState]] = {}
        for state in listed:
            is_whole_best = state.settled and (state.crosses or (state.is_keys_only and not state.reaches_hidden))
            (trees if is_whole_best else levels).setdefault(state.at, []).append(state)
        few = len(trees) <= _FEW_TREES
        for numbers, file in chain.from_iterable(pool.map(lambda item: self._tree(*item, few=few), trees.items())):
            self._keep(numbers, file)
        listings = pool.map(lambda item: self._entries(*item), levels.items())
        for here, entries in zip(levels.values(), listings, strict=True):
            for entry in entries:
                further.extend(self._next(here, entry))
        return further

    def _arrive(self, state: WalkState) -> WalkState | None:
        """Return the state with the predicate's result for its directory, or None if the predicate excludes it."""
        if state.settled:
            return state
        # At the end of the pattern the path may be a file, whose name is no key, so judge its directories only.
        verdict = self._pruner.judge(state.at)
        if verdict is Pruning.PRUNED:
            self._matches.pruned[state.number] = True
            return None
        return replace(state, settled=verdict is Pruning.SETTLED)

    def _look_at(self, states: list[WalkState]) -> list[WalkState]:
        """Look up paths at the end of the pattern: add files to the result, and return the states of directories."""
        further = []
        entries = self._storage.stat_many([state.at for state in states])
        for state, entry in zip(states, entries, strict=True):
            if entry is None:
                continue
            self._matches.found[state.number] = True
            if entry.kind is EntryKind.DIRECTORY:
                further.append(replace(state, rest=EVERYTHING))
            else:
                file = FoundFile(state.at.parent, state.at.name, entry.size, entry.modified_ms)
                self._keep([state.number], file)
        return further

    def _tree(self, place: Location, states: list[WalkState], *, few: bool) -> list[tuple[list[int], FoundFile]]:
        """List the tree below the states' common directory; return matching files with their alternatives' numbers."""
        depth = max(1, self._keys - len(keys_of(place))) if few else 1
        listing = list_tree(
            self._storage,
            place,
            descend=lambda directory: not is_hidden(directory.rpartition("/")[2]),
            depth_hint=depth,
        )
        directories: dict[str, Location] = {"": place}
        found = []
        try:
            for event in listing:
                if isinstance(event, ListingFailure):
                    self._fail(states, below(place, event.directory) if event.directory else place, event.error)
                if not isinstance(event, ListedFile | ListedOther) or is_hidden(event.name) or is_marker(event.name):
                    continue
                reason = event.reason if isinstance(event, ListedOther) else obstacle(event)
                if reason is not None or isinstance(event, ListedOther):
                    self._leave_out(place, event, reason or "")
                    continue
                path = f"{event.directory}/{event.name}" if event.directory else event.name
                numbers = [state.number for state in states if state.matches(path)]
                if numbers:
                    if (directory := directories.get(event.directory)) is None:
                        directory = directories[event.directory] = below(place, event.directory)
                    found.append((numbers, FoundFile(directory, *event[1:])))
        except LocationNotFoundError as error:
            if is_missing_bucket(error):
                raise
        except StorageError as error:
            self._fail(states, place, error)
        finally:
            listing.close()
        return found

    def _entries(self, directory: Location, states: list[WalkState]) -> list[Entry]:
        """List a directory; return no entries if it is missing, and raise if its bucket is missing."""
        try:
            return self._storage.list_directory(directory)
        except LocationNotFoundError as error:
            if is_missing_bucket(error):
                raise
        except StorageError as error:
            self._fail(states, directory, error)
        return []

    def _fail(self, states: list[WalkState], directory: Location, error: CatalogExtError) -> None:
        if self._failed is None:
            raise error
        self._failed(directory, error)
        for state in states:
            self._matches.pruned[state.number] = True

    def _leave_out(self, place: Location, event: ListedFile | ListedOther, reason: str) -> None:
        if self._left_out is not None:
            self._left_out(place, event, reason)
        elif reason == NOT_TEXT:
            raise StorageError(
                f"The name {shown(event.name)} below {shown(str(place))} is not UTF-8 text, so no reader can open it. "
                "Rename the file or directory.",
                {"location": str(place)},
            )

    def _next(self, states: list[WalkState], entry: Entry) -> Iterator[WalkState]:
        for state in states:
            reached = step(state, entry)
            if isinstance(reached, FoundFile):
                self._keep([state.number], reached)
            elif reached is not None:
                if not state.crosses and len(state.rest) == 1:
                    self._matches.found[state.number] = True
                yield reached

    def _keep(self, numbers: list[int], file: FoundFile) -> None:
        for number in numbers:
            self._matches.found[number] = True
        if self._take is None:
            self._matches.files[file.location] = file
        else:
            self._take(file)
