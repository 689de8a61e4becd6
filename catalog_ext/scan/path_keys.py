"""The ``key=value`` components of a path, and the evaluation of a predicate on them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.errors import InvalidValueError, PathLayoutError
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, escape_path_name, split_component
from catalog_ext.metastore.model.types import STRING
from catalog_ext.metastore.model.values import Key, cast_text
from catalog_ext.metastore.predicates.evaluation import UNKNOWN, Evaluator
from catalog_ext.metastore.storage.locations import shown
from catalog_ext.scan.key_layout import typed_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.types import DataType
    from catalog_ext.metastore.model.values import Value
    from catalog_ext.metastore.predicates.evaluation import Unknown
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.locations import Location

_REMEMBERED = 65_536
_SHOWN_PATHS = 5


class PathKey(NamedTuple):
    """One ``key=value`` directory: the unescaped key, and the value in the store's spelling."""

    name: str
    value: str


def keys_of(directory: Location) -> tuple[PathKey, ...]:
    """Return the ``key=value`` components of a directory's path in their order, from the store's root on."""
    splits = (split_component(component) for component in directory.key.split("/"))
    return tuple(PathKey(*split) for split in splits if split is not None)


def partition_name(directory: Location, keys: Sequence[str]) -> str:
    """Return a directory's partition name with the keys in the given order; a missing key is NULL.

    Raises:
        PathLayoutError: The path contains a key twice.
    """
    found: dict[str, str] = {}
    for name, value in keys_of(directory):
        if found.setdefault(name.lower(), value) is not value:
            raise PathLayoutError(
                f"The path {shown(str(directory))} has the key {name[:120]!r} twice, so that its value is not known. "
                "Leave such paths out by the pattern, or SET use_hive_partitioning = 0 to read without keys.",
                {"path": str(directory), "key": name},
            )
    return "/".join(f"{escape_path_name(key)}={found.get(key.lower(), DEFAULT_PARTITION)}" for key in keys)


def agreed_names(directories: Sequence[Location], keys: Sequence[str]) -> dict[Location, str]:
    """Return the partition name of each directory; all must have the same keys in any order and case.

    Raises:
        PathLayoutError: The directories have different keys, or a path contains a key twice.
    """
    names = {directory: partition_name(directory, keys) for directory in directories}
    differing_paths = kinds_of_keys(directories)
    if len(differing_paths) > 1:
        raise PathLayoutError(
            f"The files disagree on the keys in their paths: {'; '.join(differing_paths[:_SHOWN_PATHS])}"
            f"{'; …' if len(differing_paths) > _SHOWN_PATHS else ''}. Narrow the path or filter on a key, so that one "
            "kind is left, or SET use_hive_partitioning = 0 to read without keys.",
            {"paths": "\n".join(differing_paths[:_SHOWN_PATHS])},
        )
    return names


def kinds_of_keys(directories: Sequence[Location]) -> list[str]:
    """Return, for each set of keys among the directories, a text with the keys and one of the directories."""
    kinds: dict[frozenset[str], str] = {}
    for directory in directories:
        found = [name for name, _ in keys_of(directory)]
        kinds.setdefault(
            frozenset(name.lower() for name in found), f"{', '.join(found) or 'no key'} in {shown(str(directory))}"
        )
    return list(kinds.values())


class Pruning(Enum):
    """The result of a predicate for all files below a directory, by the keys in the directory's path.

    ``PRUNED``: no file below can match; ``SETTLED``: every file below matches, or there is no predicate; ``OPEN``: keys
    further down decide.
    """

    PRUNED = "pruned"
    OPEN = "open"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True)
class CastKey:
    """A derived column: a key's value cast to a type, so that a predicate can be ``year = 2024`` with a STRING key."""

    name: str
    key: str
    type: DataType


class Pruner:
    """Prunes directories by a predicate on the keys, also if a path contains only the first keys.

    The predicate is bound to ``pruning_keys(keys, casts)``; None keeps everything.
    """

    def __init__(self, predicate: Predicate | None, keys: Sequence[str] = (), casts: Sequence[CastKey] = ()) -> None:
        self._evaluator = None if predicate is None else Evaluator(predicate, pruning_keys(keys, casts))
        self._keys = [key.lower() for key in keys]
        self._casts = [(cast.key.lower(), cast.type) for cast in casts]
        self._judged = lru_cache(maxsize=_REMEMBERED)(self._judge)

    def judge(self, directory: Location) -> Pruning:
        """Return the result of the predicate for all files below a directory."""
        if self._evaluator is None:
            return Pruning.SETTLED
        return self._judged(keys_of(directory))

    def _judge(self, found: tuple[PathKey, ...]) -> Pruning:
        assert self._evaluator is not None
        # A path with a repeated key is refused later. Until then its first value counts.
        texts = {name.lower(): value for name, value in reversed(found)}
        values: list[Value | Unknown] = [
            typed_value(texts[key], STRING) if key in texts else UNKNOWN for key in self._keys
        ]
        values += [_cast(texts[key], to) if key in texts else UNKNOWN for key, to in self._casts]
        if not self._evaluator.may_match(values):
            return Pruning.PRUNED
        return Pruning.SETTLED if self._evaluator.matches(values) else Pruning.OPEN


def pruning_keys(keys: Sequence[str], casts: Sequence[CastKey]) -> tuple[Key, ...]:
    """Return the columns that a predicate may name: the keys as strings, followed by the casts."""
    columns = [(name, STRING) for name in keys] + [(cast.name, cast.type) for cast in casts]
    return tuple(Key(position, name, data_type) for position, (name, data_type) in enumerate(columns))


def _cast(escaped: str, data_type: DataType) -> Value | Unknown:
    text = typed_value(escaped, STRING)
    if text is None:
        return None
    try:
        # An empty text is neither a number nor a date.
        return cast_text(str(text), data_type) if text else UNKNOWN
    except InvalidValueError:
        # Do not prune: whether a value that does not cast is NULL or an error depends on Spark, which evaluates the
        # filter again.
        return UNKNOWN
