"""Table locations with wildcards: parsing them, and the partitions that matching directories belong to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.metastore.model.partition_names import escape_path_name, split_component
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.patterns import parse_pattern
from catalog_ext.scan.key_layout import typed_value
from catalog_ext.scan.path_keys import CastKey, Pruner, keys_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.patterns import Alternative

_REMEMBERED = 16_384


@dataclass(frozen=True, slots=True)
class LocationPattern:
    """A location with wildcards.

    Attributes:
        text: The user's text in canonical form.
        alternatives: The patterns without lists and ranges that it expands to.
        root: The directory above all possible matches. All partitions have it as their location, and file paths are
            relative to it.
    """

    text: str
    alternatives: tuple[Alternative, ...]
    root: Location

    @classmethod
    def parse(cls, text: str) -> LocationPattern:
        """Parse a location with wildcards.

        Raises:
            InvalidPatternError: The text is not a valid pattern.
        """
        alternatives = parse_pattern(text)
        return cls(str(Location.parse(text)), tuple(alternatives), common_root(alternatives))

    @classmethod
    def of(cls, definition: TableDefinition) -> LocationPattern | None:
        """Return the pattern of a table's location; None if the location has no wildcards."""
        return cls.parse(definition.location) if definition.has_wildcards else None

    @property
    def literal(self) -> Location | None:
        """The single location that the pattern means, if it has no wildcards besides escaped characters; else None."""
        if len(self.alternatives) > 1 or self.alternatives[0].wild:
            return None
        return Location.parse(str(self.alternatives[0]))

    def relative(self, place: Location) -> str:
        """Return the path of a matching directory relative to the root."""
        return place.relative_to(self.root)


def common_root(alternatives: Sequence[Alternative]) -> Location:
    """Return the deepest directory that contains all alternatives, by their components without wildcards."""
    paths = []
    for alternative in alternatives:
        literals = takewhile(lambda text: text is not None, (c.literal for c in alternative.components[:-1]))
        paths.append([text for text in literals if text is not None])
    common = [same[0] for same in takewhile(lambda level: len(set(level)) == 1, zip(*paths, strict=False))]
    place = alternatives[0].root
    return Location(place.scheme, place.bucket, "/".join(common))


class Judged(NamedTuple):
    """The partition name of a directory, or the reason why it has none.

    Both are empty if the predicate excludes the directory.
    """

    name: str | None = None
    reason: str = ""


class PatternLayout:
    """Classifies directories that match a location pattern, by a predicate and the keys in their paths."""

    def __init__(
        self, definition: TableDefinition, pattern: LocationPattern, predicate: Predicate | None = None
    ) -> None:
        self.keys = definition.keys
        self.ignored = IgnoredNames.of(definition.properties)
        self._pattern = pattern
        self._names = [key.name for key in self.keys]
        self._lower_names = {name.lower() for name in self._names}
        self._evaluator = Evaluator(predicate, self.keys) if predicate is not None else None
        self.pruner = Pruner(predicate, (), [CastKey(key.name, key.name, key.type) for key in self.keys])
        self.judge = lru_cache(maxsize=_REMEMBERED)(self._judge)

    def _judge(self, directory: Location) -> Judged:
        found = {key.name.lower(): key.value for key in keys_of(directory)}
        missing = next((name for name in self._names if name.lower() not in found), None)
        if missing is not None:
            return Judged(reason=f"its path has no key {missing!r}")
        # Keys before the first wildcard are equal for all files, and need not be partition columns, so they are
        # ignored.
        for component in self._pattern.relative(directory).split("/"):
            split = split_component(component)
            if split is not None and split[0].lower() not in self._lower_names:
                return Judged(reason=f"the key {split[0][:120]!r} in its path is not a partition column")
        seen = [key.name.lower() for key in keys_of(directory)]
        twice = next((key for i, key in enumerate(seen) if key in seen[:i] and key in self._lower_names), None)
        if twice is not None:
            return Judged(reason=f"the key {twice[:120]!r} comes twice in its path")
        texts = [found[key.lower()] for key in self._names]
        parts = (f"{escape_path_name(key)}={text}" for key, text in zip(self._names, texts, strict=True))
        return self._typed("/".join(parts), texts)

    def _typed(self, name: str, texts: Sequence[str]) -> Judged:
        values = []
        for key, text in zip(self.keys, texts, strict=True):
            try:
                values.append(typed_value(text, key.type))
            except InvalidValueError as error:
                return Judged(reason=f"partition column {key.name}: {error.message.rstrip('.')}")
        if self._evaluator is not None and not self._evaluator.matches(values):
            return Judged()
        return Judged(name)

    def ignores(self, path: str) -> bool:
        """Return whether a file is ignored, because of a name in its path below the pattern's root."""
        *directories, name = path.split("/")
        return self.ignored.file(name) or any(map(self.ignored.is_matched, directories))
