"""The states of a pattern search: which directory was reached, and which part of the pattern remains."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from catalog_ext.metastore.model.ignored_names import is_marker
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.storage.entries import Entry, EntryKind
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.patterns import Alternative, Component, Wild, compile_components

EVERYTHING = (Component((Wild.ACROSS,)),)
"""The remaining pattern at a directory that the whole pattern has matched: all files below it."""


class FoundFile(NamedTuple):
    """A file that a pattern matches."""

    directory: Location
    name: str
    size: int
    modified_ms: int
    etag: int | None = None

    @property
    def location(self) -> Location:
        """The file's location."""
        return below(self.directory, self.name)


@dataclass(frozen=True, slots=True)
class WalkState:
    """A directory that the search has reached by one alternative of a pattern, and the rest of the alternative.

    Attributes:
        number: The number of the alternative.
        at: The directory; without a rest it may be a file, or not exist.
        rest: The remaining components, relative to ``at``, or to the directory where a leading ``**`` began.
        passed: For a rest that begins with ``**``: the path from the directory where it began to ``at``.
        settled: Whether the predicate excludes nothing below ``at``, so that nothing can be pruned.
    """

    number: int
    at: Location
    rest: tuple[Component, ...]
    passed: str = ""
    settled: bool = False

    @property
    def crosses(self) -> bool:
        """Whether the rest begins with ``**``."""
        return bool(self.rest) and self.rest[0].crosses

    @property
    def reaches_hidden(self) -> bool:
        """Whether the rest names a hidden file or directory, which a listing of the whole tree would omit."""
        return any(component.matches_hidden for component in self.rest)

    @property
    def is_keys_only(self) -> bool:
        """Whether the rest has only ``key=*`` components and file names, so that nearly all files of the tree match."""
        *above, last = self.rest
        return all(map(_any_value, above)) and (bool(above) or _any_value(last))

    def matches(self, path: str) -> bool:
        """Return whether the rest matches a file, by its path relative to ``at``, or a directory above the file."""
        return expression(self.rest).fullmatch(f"{self.passed}/{path}" if self.passed else path) is not None

    def passing_literals(self) -> WalkState:
        """Return the state after the next components without wildcards, which need no listing."""
        at, rest = self.at, self.rest
        while rest and (literal := rest[0].literal) is not None:
            at, rest = below(at, literal), rest[1:]
        return replace(self, at=at, rest=rest)


Step: TypeAlias = WalkState | FoundFile | None


def begin(alternatives: list[Alternative]) -> list[WalkState]:
    """Return the first state of each alternative."""
    return [WalkState(number, each.root, each.components) for number, each in enumerate(alternatives)]


def step(state: WalkState, entry: Entry) -> Step:
    """Return the result of matching one entry of the state's directory: a new state, a file, or nothing."""
    name, file = entry.location.name, entry.kind is EntryKind.FILE
    if state.crosses:
        if is_hidden(name):
            return None
        if file:
            return _file(entry) if state.matches(name) and not is_marker(name) else None
        passed = f"{state.passed}/{name}" if state.passed else name
        return replace(state, at=entry.location, passed=passed)
    component, rest = state.rest[0], state.rest[1:]
    if expression((component,), whole=False).fullmatch(name) is None:
        return None
    if is_hidden(name) and not component.matches_hidden:
        return None
    if not file:
        return replace(state, at=entry.location, rest=rest or EVERYTHING)
    return None if rest or is_marker(name) else _file(entry)


def below(directory: Location, path: str) -> Location:
    """Return the location of a path in the store's spelling, which ``Location.join`` might refuse."""
    return Location(directory.scheme, directory.bucket, f"{directory.key}/{path}" if directory.key else path)


@lru_cache(maxsize=1024)
def expression(rest: tuple[Component, ...], *, whole: bool = True) -> re.Pattern[str]:
    """Return a regular expression that matches relative file paths; with ``whole`` also all paths below a match."""
    plain = compile_components(rest)
    return re.compile(f"{plain.pattern}(?:/.+)?", re.DOTALL) if whole else plain


def _file(entry: Entry) -> FoundFile:
    return FoundFile(entry.location.parent, entry.location.name, entry.size, entry.modified_ms, entry.etag)


def _any_value(component: Component) -> bool:
    match component.items:
        case (str(key), Wild.STAR):
            return key.endswith("=")
    return False
