"""Matching of wildcard patterns against a store; only directories that can match are listed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import LocationNotFoundError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.listed import ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.patterns import Alternative, Component, compile_components, parse_pattern
from catalog_ext.metastore.storage.store import Entry, EntryKind, Storage

if TYPE_CHECKING:
    from collections.abc import Iterable


def glob(storage: Storage, pattern: str, *, base: str | None = None) -> list[str]:
    """Return the URIs that ``pattern`` matches, sorted, each once: files and directories.

    A wildcard at the start of a component does not match hidden names. ``**`` as a component of its own stands for any
    number of directories, none included; at the end it stands for every file below.

    Args:
        storage: The store.
        pattern: A location with wildcards, see `catalog_ext.metastore.storage.patterns`.
        base: The location that a relative pattern is relative to.

    Raises:
        InvalidInputError: The pattern cannot be read.
        LocationNotFoundError: A path, or a pattern left when lists and ranges are written out, matches nothing; the
            message lists every such one.
        StorageError: The store refuses, does not answer or lists incompletely.
    """
    alternatives = parse_pattern(pattern, base=None if base is None else Location.parse(base))
    matched = _Matching(storage).run(alternatives)
    missing = [str(alternative) for alternative, found in zip(alternatives, matched, strict=True) if not found]
    if missing:
        raise LocationNotFoundError(
            f"Nothing lies at {len(missing)} of the {len(alternatives)} paths that the pattern {pattern!r} names: "
            f"{', '.join(missing)}. Correct the pattern, or use * to take what there is.",
            {"pattern": pattern, "missing": "\n".join(missing)},
        )
    return sorted({str(location) for found in matched for location in found})


def list_or_nothing(storage: Storage, place: Location) -> list[Entry]:
    """What lies directly in a directory; nothing where there is none.

    Raises:
        StorageError: The store does not answer, or has no such bucket.
    """
    try:
        return storage.list_directory(place)
    except LocationNotFoundError as error:
        if is_missing_bucket(error):
            raise
        return []


@dataclass(frozen=True, slots=True)
class _State:
    """One path that an alternative has come to, and what of the alternative is left."""

    number: int
    at: Location
    rest: tuple[Component, ...]


class _Matching:
    """Matches all alternatives of one pattern, so that each directory is listed once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._matched: list[set[Location]] = []

    def run(self, alternatives: list[Alternative]) -> list[set[Location]]:
        """Return what each alternative matches."""
        self._matched = [set() for _ in alternatives]
        states = [_State(number, each.root, each.components) for number, each in enumerate(alternatives)]
        with ThreadPoolExecutor(self._storage.listing_threads, thread_name_prefix="catalog-ext-glob") as pool:
            while states:
                states = [_skip_literals(state) for state in states]
                self._take_existing([state for state in states if not state.rest])
                crossing = [state for state in states if state.rest and state.rest[0].crosses]
                for state in crossing:
                    self._matched[state.number].update(self._match_across(state))
                states = self._match_component(
                    [state for state in states if state.rest and not state.rest[0].crosses], pool
                )
        return self._matched

    def _take_existing(self, states: list[_State]) -> None:
        entries = self._storage.stat_many([state.at for state in states])
        for state, entry in zip(states, entries, strict=True):
            if entry is not None:
                self._matched[state.number].add(state.at)

    def _match_component(self, states: list[_State], pool: ThreadPoolExecutor) -> list[_State]:
        """Return where the states' first component leads; the last component's matches are kept."""
        places = list(dict.fromkeys(state.at for state in states))
        listed = dict(zip(places, pool.map(partial(list_or_nothing, self._storage), places), strict=True))
        further = []
        for state in states:
            component, rest = state.rest[0], state.rest[1:]
            expression = compile_components((component,))
            for entry in listed[state.at]:
                name = entry.location.name
                if expression.fullmatch(name) is None or (is_hidden(name) and not component.matches_hidden):
                    continue
                if not rest:
                    self._matched[state.number].add(entry.location)
                elif entry.kind is EntryKind.DIRECTORY:
                    further.append(_State(state.number, entry.location, rest))
        return further

    def _match_across(self, state: _State) -> Iterable[Location]:
        expression = compile_components(state.rest)
        files_only = state.rest[-1].crosses
        seen: set[str] = set()
        for path in self._paths_below(state.at, files_only):
            if path not in seen and expression.fullmatch(path):
                yield Location(state.at.scheme, state.at.bucket, f"{state.at.key}/{path}" if state.at.key else path)
            seen.add(path)

    def _paths_below(self, place: Location, files_only: bool) -> Iterable[str]:
        """Yield the relative paths of everything below ``place`` that is not hidden."""
        if not self._storage.is_directory(place):
            return
        from_files = not files_only and not self._storage.store_has_directories(place)
        listing = list_tree(
            self._storage, place, descend=lambda directory: not is_hidden(directory.rpartition("/")[2]), depth_hint=2
        )
        for listed in listing:
            if isinstance(listed, ListingFailure):
                raise listed.error
            if isinstance(listed, ListedFile):
                if not is_hidden(listed.name):
                    yield f"{listed.directory}/{listed.name}" if listed.directory else listed.name
                if from_files:
                    yield from _with_parents(listed.directory)
            elif not files_only:
                yield listed.directory


def _with_parents(directory: str) -> Iterable[str]:
    while directory:
        yield directory
        directory = directory.rpartition("/")[0]


def _skip_literals(state: _State) -> _State:
    at, rest = state.at, state.rest
    while rest and (literal := rest[0].literal) is not None:
        at, rest = at.join(literal), rest[1:]
    return _State(state.number, at, rest)
