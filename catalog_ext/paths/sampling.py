"""A few files of a pattern, for its keys, its format and its columns, at the cost of a few requests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.errors import LocationNotFoundError
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.scan.path_keys import Pruner
from catalog_ext.scan.walk import Walk
from catalog_ext.scan.walk_states import EVERYTHING, FoundFile, WalkState, begin, step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.storage.patterns import Alternative
    from catalog_ext.metastore.storage.store import Storage

T = TypeVar("T")

MAX_LOOKS = 200
"""Directories that are looked into for a sample one after the other, before the whole tree is listed in parallel."""


class _TooManyLooksError(Exception):
    """The sample is not found by going down a few paths."""


class Sampler:
    """Draws files that lie far apart, going down only as many paths as there are files wanted.

    Args:
        pattern: What the user wrote, for messages.
        alternatives: The pattern, with lists and ranges written out.
    """

    def __init__(self, storage: Storage, pattern: str, alternatives: list[Alternative]) -> None:
        self._storage = storage
        self._pattern = pattern
        self._alternatives = alternatives
        self._looks = 0

    def draw(self, wanted: int | None) -> list[FoundFile]:
        """Return at most ``wanted`` files in the order of their paths, at least one; None for all.

        Raises:
            PathNotFoundError: There is none, or the pattern names paths of which none is there.
            StorageError: The store refuses or does not answer.
        """
        if wanted is not None:
            try:
                if drawn := self._of_states(begin(self._alternatives), wanted):
                    return sorted(drawn)
            except _TooManyLooksError:
                pass
        matches = Walk(self._storage, self._alternatives, Pruner(None)).run()
        if not matches.files:
            matches.check(self._pattern, self._alternatives)
        return list(spread(sorted(matches.files.values()), wanted or len(matches.files)))[:wanted]

    def _of_states(self, states: Sequence[WalkState], wanted: int) -> list[FoundFile]:
        drawn: list[FoundFile] = []
        left = len(states)
        for state in spread(states, wanted):
            if len(drawn) >= wanted:
                break
            drawn += self._of_state(state, max(1, (wanted - len(drawn)) // left))
            left -= 1
        return drawn

    def _of_state(self, state: WalkState, wanted: int) -> list[FoundFile]:
        self._looks += 1
        if self._looks > MAX_LOOKS:
            raise _TooManyLooksError
        state = state.passing_literals()
        if not state.rest:
            entry = self._storage.stat(state.at)
            if entry is None:
                return []
            if entry.kind is EntryKind.FILE:
                return [FoundFile(state.at.parent, state.at.name, entry.size, entry.modified_ms)]
            state = replace(state, rest=EVERYTHING)
        try:
            entries = self._storage.list_directory(state.at)
        except LocationNotFoundError as error:
            if is_missing_bucket(error):
                raise
            return []
        steps = [step(state, entry) for entry in sorted(entries, key=lambda entry: entry.location)]
        files = [each for each in steps if isinstance(each, FoundFile)]
        drawn = list(spread(files, wanted))[:wanted]
        if len(drawn) < wanted:
            drawn += self._of_states([each for each in steps if isinstance(each, WalkState)], wanted - len(drawn))
        return drawn


def spread(items: Sequence[T], wanted: int) -> Iterator[T]:
    """Yield all items, the first ``wanted`` of them in equal distances."""
    count = len(items)
    first = dict.fromkeys(number * count // wanted for number in range(min(wanted, count))) if count else {}
    if count <= wanted:
        first = dict.fromkeys(range(count))
    for number in first:
        yield items[number]
    for number in range(count):
        if number not in first:
            yield items[number]
