"""Checks which locations a caller of the service may name, for reading, registering and moving files.

A caller of the service has a token, and perhaps no account on the service's host. Each command that takes a location
from a caller, or from the metastore, checks it here before touching the location, so that an error reveals nothing
about it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, LocationNotAllowedError
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.runtime.local_paths import real_location
from catalog_ext.metastore.storage.local.files import BESIDE
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.patterns import compile_components, has_wildcards, parse_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from catalog_ext.metastore.storage.patterns import Alternative


@dataclass(frozen=True, slots=True)
class Allowed:
    """The locations that the setting ``storage.allow`` permits: all, or those below some roots."""

    everything: bool
    roots: tuple[Location, ...] = ()


class AllowedLocations:
    """Decides which locations statements may name; safe to use from several threads.

    Args:
        allowed: The value of the setting ``storage.allow``.
        known: Returns further permitted roots: the warehouse, and the locations of namespaces and tables.
        private: Local files and folders that are never served: the index, tokens, configuration, the metastore's
            folder.
    """

    def __init__(self, allowed: Allowed, known: Callable[[], Iterable[str]], private: Iterable[str]) -> None:
        self._allowed = allowed
        self._known = known
        self._lock = threading.Lock()
        self._private: frozenset[Location] = frozenset()
        self.keep_private(private)

    def keep_private(self, paths: Iterable[str]) -> None:
        """Add local files and folders that are never served; the paths are absolute."""
        places = [Location.parse(path + end) for path in paths for end in ("", *BESIDE)]
        with self._lock:
            self._private |= frozenset(place for one in places for place in (one, _real(one)))

    def restrict(self, allowed: Allowed) -> None:
        """Replace the permitted locations."""
        self._allowed = allowed

    def require(self, location: str | Location, *, reads: bool = True) -> None:
        """Check that a statement may name a location.

        Args:
            location: The location, or a pattern, which stands for the directories above its wildcards.
            reads: Whether files in the location are read; a running service then refuses a folder that contains a
                private file.

        Raises:
            LocationNotAllowedError: The location is not permitted.
            InvalidInputError: The text is not a location.
        """
        if isinstance(location, str) and has_wildcards(location):
            for alternative in parse_pattern(location):
                self._require(alternative.above_wildcards, partial(_matches, alternative), self._roots)
            return
        place = location if isinstance(location, Location) else Location.parse(location)
        self._require(place, partial(_shows, _real(place)) if reads else lambda _: False, self._roots)

    def for_many(self) -> Callable[[Location], None]:
        """Return a function like ``require`` for many locations of one command: it loads the permitted roots once."""
        roots = cache(lambda: tuple(self._roots()))
        return lambda place: self._require(place, partial(_shows, _real(place)), roots)

    def _roots(self) -> Iterator[Location]:
        return (_real(_root(location)) for location in self._known())

    def _require(
        self, place: Location, shows: Callable[[Location], bool], roots: Callable[[], Iterable[Location]]
    ) -> None:
        real = _real(place)
        with self._lock:
            private = self._private
        for own in private:
            if own.contains(place) or own.contains(real) or (not self._allowed.everything and shows(own)):
                raise LocationNotAllowedError(
                    f"The location {shown(str(place))} is refused: the index, a token, configuration or the "
                    "metastore's folder is in it, which no statement may name. Give a location without them: put the "
                    "data into a folder of its own.",
                    {"location": str(place)},
                )
        if self._allowed.everything or any(_real(root).contains(real) for root in self._allowed.roots):
            return
        if not any(root.contains(real) for root in roots()):
            raise LocationNotAllowedError(
                f"The location {shown(str(place))} is refused: statements may name the warehouse, the locations of "
                "namespaces and tables, and what the setting storage.allow of the service or program names "
                f"(environment variable CATALOG_EXT_STORAGE_ALLOW). Add {shown(str(place))} or a folder above it to "
                "that setting, and restart the service.",
                {"location": str(place)},
            )


def _real(place: Location) -> Location:
    """Return a location with its symbolic links followed."""
    return place if place.scheme != "file" else Location.parse(real_location(str(place)))


def _root(location: str) -> Location:
    """Return a table's location; for a pattern, the directory above its wildcards."""
    try:
        return Location.parse(location)
    except InvalidInputError:
        return parse_pattern(location)[0].root


def _shows(place: Location, private: Location) -> bool:
    """Return whether a listing of ``place`` would show a private file; it does not show files in hidden directories."""
    return place.contains(private) and not any(is_hidden(name) for name in private.relative_to(place).split("/"))


def _matches(pattern: Alternative, private: Location) -> bool:
    """Return whether a pattern matches a private file, or a folder that contains it."""
    if not pattern.root.contains(private):
        return False
    fits = compile_components(pattern.components)
    names = private.relative_to(pattern.root).split("/")
    return any(fits.fullmatch("/".join(names[: length + 1])) for length in range(len(names)))
