r"""Parses wildcard patterns of locations, without access to a store.

``*`` and ``?`` match within a component, ``**`` matches across components, ``{a,b}`` is a list, ``{N..M}`` a range of
integers whose zero padding is kept, and ``\`` escapes the character after it. Lists may be nested. ``[`` has no special
meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import TypeAlias

from catalog_ext.metastore.errors import InvalidPatternError
from catalog_ext.metastore.storage.locations import Location, shown

MAX_ALTERNATIVES = 100_000
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


class Wild(Enum):
    """A wildcard: any characters within a component, one character, or any characters across components."""

    STAR = "*"
    ONE = "?"
    ACROSS = "**"


Item: TypeAlias = str | Wild
Items: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a pattern after its lists are expanded: literal texts and wildcards in order."""

    items: Items

    @property
    def literal(self) -> str | None:
        """The component's text; ``None`` if it contains a wildcard."""
        if any(isinstance(item, Wild) for item in self.items):
            return None
        return "".join(item for item in self.items if isinstance(item, str))

    @property
    def crosses(self) -> bool:
        """Whether the component has ``**``."""
        return Wild.ACROSS in self.items

    @property
    def matches_hidden(self) -> bool:
        """Whether the component can match a hidden name: only if it begins with a literal ``_`` or ``.``."""
        first = self.items[0] if self.items else ""
        return isinstance(first, str) and first.startswith(("_", "."))

    def __str__(self) -> str:
        return "".join(item.value if isinstance(item, Wild) else escape(item) for item in self.items)


@dataclass(frozen=True, slots=True)
class Alternative:
    """One of the patterns that result from expanding all lists and ranges."""

    root: Location
    components: tuple[Component, ...]

    @property
    def wild(self) -> bool:
        """Whether the pattern has a wildcard."""
        return any(component.literal is None for component in self.components)

    @property
    def above_wildcards(self) -> Location:
        """The location of the components before the first wildcard; the whole location if there is no wildcard."""
        place = self.root
        for component in self.components:
            if component.literal is None:
                break
            place = place.join(component.literal)
        return place

    def __str__(self) -> str:
        path = "/".join(str(component) if self.wild else component.literal or "" for component in self.components)
        return f"{str(self.root).removesuffix('/')}/{path}"


def escape(text: str) -> str:
    """Return the pattern that matches only the path ``text``."""
    return re.sub(r"([*?{\\])", r"\\\1", text)


def has_wildcards(text: str) -> bool:
    r"""Return whether the text of a location is a pattern: whether it contains ``*``, ``?``, ``{`` or ``\``."""
    return any(character in text for character in "*?{\\")


def parse_pattern(text: str) -> list[Alternative]:
    """Return the patterns that result from expanding the lists and ranges in ``text``, in order, without duplicates.

    Args:
        text: A location with wildcards; its bucket must have none.

    Raises:
        InvalidPatternError: A brace is not closed, a range is reversed or not of integers, a component is ``..``, or
            the pattern expands to more than 100,000 paths.
    """
    whole = Location.parse(text)
    root = Location(whole.scheme, whole.bucket, "")
    written_out = dict.fromkeys(_Parser(whole.key, text).alternatives())
    return [Alternative(root, _split(items, text)) for items in written_out]


def compile_components(components: tuple[Component, ...]) -> re.Pattern[str]:
    """Return a regular expression for whole paths relative to the directory of the components."""
    parts = []
    for number, component in enumerate(components):
        last = number == len(components) - 1
        if component.items == (Wild.ACROSS,):
            # ``**`` as a whole component matches any number of directories, including zero.
            parts.append(".+" if last else "(?:.*/)?")
        else:
            parts.append("".join(map(_expression, component.items)) + ("" if last else "/"))
    return re.compile("".join(parts), re.DOTALL)


def _expression(item: Item) -> str:
    if isinstance(item, str):
        return re.escape(item)
    return {Wild.STAR: "[^/]*", Wild.ONE: "[^/]", Wild.ACROSS: ".*"}[item]


def _split(items: Items, text: str) -> tuple[Component, ...]:
    """Split ``items`` into components; empty and ``.`` components are dropped, as in a location."""
    components: list[list[Item]] = [[]]
    for item in items:
        if isinstance(item, Wild):
            components[-1].append(item)
            continue
        first, *others = item.split("/")
        _extend(components[-1], first)
        for other in others:
            components.append([])
            _extend(components[-1], other)
    kept = [tuple(component) for component in components if component not in ([], ["."])]
    if ("..",) in kept:
        raise InvalidPatternError(f"The pattern {shown(text)} holds the component '..'. Write the path without it.")
    return tuple(map(Component, kept))


def _extend(component: list[Item], literal: str) -> None:
    if literal:
        if component and isinstance(component[-1], str):
            component[-1] += literal
        else:
            component.append(literal)


class _Parser:
    """Expands the lists and ranges of one pattern."""

    def __init__(self, key: str, text: str) -> None:
        self._key = key
        self._text = text
        self._at = 0

    def alternatives(self) -> list[Items]:
        return self._sequence(frozenset())

    def _sequence(self, ends: frozenset[str]) -> list[Items]:
        """Parse the text up to one of the characters ``ends``, and return its alternatives."""
        choices: list[list[Items]] = []
        count = 1
        while self._at < len(self._key) and self._key[self._at] not in ends:
            choice = self._next()
            count *= len(choice)
            if count > MAX_ALTERNATIVES:
                raise self._wrong(
                    f"stands for more than {MAX_ALTERNATIVES:,} paths. Use * instead of a list or range", 0
                )
            choices.append(choice)
        return [_merge(combination) for combination in product(*choices)]

    def _next(self) -> list[Items]:
        character = self._key[self._at]
        self._at += 1
        if character == "{":
            return self._braces()
        if character == "\\":
            return [(self._escaped(),)]
        if character == "?":
            return [(Wild.ONE,)]
        if character == "*":
            stars = len(self._key[self._at :]) - len(self._key[self._at :].lstrip("*"))
            self._at += stars
            return [(Wild.ACROSS if stars else Wild.STAR,)]
        return [(self._plain(character),)]

    def _plain(self, character: str) -> str:
        start = self._at
        while self._at < len(self._key) and self._key[self._at] not in "*?{}\\,":
            self._at += 1
        return character + self._key[start : self._at]

    def _escaped(self) -> str:
        if self._at == len(self._key):
            raise self._wrong(
                "ends with a \\ that has nothing to escape. Write \\\\ for the character itself", self._at - 1
            )
        self._at += 1
        return self._key[self._at - 1]

    def _braces(self) -> list[Items]:
        opened = self._at - 1
        closing = self._key.find("}", self._at)
        if closing < 0:
            raise self._unclosed(opened)
        inside = self._key[self._at : closing]
        if ".." in inside and "," not in inside and "{" not in inside:
            self._at = closing + 1
            return self._range(inside, opened)
        return self._list(opened)

    def _list(self, opened: int) -> list[Items]:
        found: list[Items] = []
        while True:
            found.extend(self._sequence(frozenset(",}")))
            if self._at == len(self._key):
                raise self._unclosed(opened)
            self._at += 1
            if self._key[self._at - 1] == "}":
                break
        if found == [()]:
            raise self._wrong("has empty braces. Write \\{ for the character itself", opened)
        return found

    def _range(self, inside: str, opened: int) -> list[Items]:
        bounds = _RANGE.fullmatch(inside)
        if bounds is None:
            raise self._wrong(f"has the range {{{inside}}}, whose bounds are not integers. Write {{N..M}}", opened)
        low, high = bounds.groups()
        if int(low) > int(high):
            raise self._wrong(f"has the range {{{inside}}}, which is reversed. Write the smaller bound first", opened)
        if int(high) - int(low) >= MAX_ALTERNATIVES:
            raise self._wrong(
                f"stands for more than {MAX_ALTERNATIVES:,} paths. Use * instead of a list or range", opened
            )
        padded = any(len(digits) > 1 and digits.startswith("0") for digits in (low.lstrip("-"), high.lstrip("-")))
        width = max(len(low), len(high)) if padded else 0
        return [(f"{number:0{width}d}" if width else str(number),) for number in range(int(low), int(high) + 1)]

    def _unclosed(self, opened: int) -> InvalidPatternError:
        return self._wrong("has a { without its }. Write \\{ for the character itself", opened)

    def _wrong(self, problem: str, at: int) -> InvalidPatternError:
        position = _position(self._text, self._key, at)
        return InvalidPatternError(
            f"The pattern {shown(self._text)} {problem} (at character {position}).",
            {"pattern": self._text, "position": str(position)},
        )


def _position(text: str, key: str, at: int) -> int:
    """Return the position in ``text``, from 1, of the character ``key[at]``; a key lacks the text's doubled slashes."""
    in_text, in_key = len(text), len(key)
    while in_key > at and in_text:
        in_text -= 1
        if text[in_text] == key[in_key - 1]:
            in_key -= 1
    return in_text + 1


def _merge(combination: tuple[Items, ...]) -> Items:
    """Concatenate the items of a combination, and join neighbouring literals."""
    merged: list[Item] = []
    for items in combination:
        for item in items:
            if isinstance(item, str):
                _extend(merged, item)
            else:
                merged.append(item)
    return tuple(merged)
