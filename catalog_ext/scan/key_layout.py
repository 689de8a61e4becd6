"""Decides which directories of a table's tree are partitions, and why other directories are not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.metastore.model.partition_names import (
    DEFAULT_PARTITION,
    escape_path_name,
    is_hidden,
    split_component,
    unescape_path_name,
)
from catalog_ext.metastore.model.values import Value, cast_text
from catalog_ext.metastore.predicates.evaluation import UNKNOWN, Evaluator
from catalog_ext.metastore.storage.entries import NO_PATH

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.metastore.model.tables import TableDefinition
    from catalog_ext.metastore.model.types import DataType
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate


class Place(Enum):
    """The kinds of directories in a table's tree."""

    ABOVE = "above"
    PARTITION = "partition"
    HIDDEN = "hidden"
    PRUNED = "pruned"
    NONCONFORMING = "nonconforming"


@dataclass(frozen=True, slots=True)
class JudgedDirectory:
    """The kind of a directory; for ``NONCONFORMING`` also the reason, for the report."""

    place: Place
    reason: str = ""


_ABOVE = JudgedDirectory(Place.ABOVE)
_PARTITION = JudgedDirectory(Place.PARTITION)
_HIDDEN = JudgedDirectory(Place.HIDDEN)
_PRUNED = JudgedDirectory(Place.PRUNED)
_NO_NAMES = ("", ".", "..")
_UNREACHABLE = JudgedDirectory(Place.NONCONFORMING, NO_PATH)
_REMEMBERED = 16_384

_PLAIN_VALUES = {
    "string": r"[A-Za-z0-9][A-Za-z0-9_.-]*",
    "tinyint": r"\d{1,2}",
    "smallint": r"\d{1,4}",
    "int": r"\d{1,9}",
    "bigint": r"\d{1,18}",
    "date": r"[1-9]\d{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])",
}
"""Patterns of texts that certainly are valid values of a type. Most values match, and so need no slow check."""


class _Component(NamedTuple):
    """A directory name ``key=value``: its typed value, or the reason why the column cannot have this value."""

    value: Value = None
    reason: str = ""


class Layout:
    """Classifies directories below a table's location by its partition columns and a predicate.

    Args:
        definition: The table.
        predicate: A bound predicate; partitions that do not match are pruned. None for all partitions.
    """

    def __init__(self, definition: TableDefinition, predicate: Predicate | None = None) -> None:
        self.keys: tuple[Key, ...] = definition.keys
        self.ignored = IgnoredNames.of(definition.properties)
        self._lower_names = [k.name.lower() for k in self.keys]
        self._evaluator = Evaluator(predicate, self.keys) if predicate is not None else None
        # A table has many directories but few different names on each level, and each directory is judged several
        # times: for itself, for its files and for its subdirectories. The cache reduces the share in a repair's time
        # from half to a fifth. With one key the cache of ``_judged``, by the whole path, is enough.
        several = len(self.keys) > 1
        self._component = lru_cache(maxsize=_REMEMBERED)(self._read_component) if several else self._read_component
        self._judged = lru_cache(maxsize=_REMEMBERED)(self._look_at)
        # Known valid values of the last key. Most directories end in such a name, and need no further check.
        self._last_names: set[str] = set()
        self._leaves_are_partitions = len(self.keys) > 1 and predicate is None
        # A fast path: matches directories that are certainly partitions.
        self.is_plain = _plain_partitions(self.keys, self.ignored) if predicate is None else _never

    def judge(self, directory: str) -> JudgedDirectory:
        """Return the kind of a directory.

        Args:
            directory: The path relative to the table's location, ``''`` for the location itself.
        """
        if self.is_plain(directory) is not None:
            # Without this fast path a listing would spend a third of its time in ``judge``.
            return _PARTITION
        depth = directory.count("/") + 1
        if self._leaves_are_partitions and depth == len(self.keys):
            parent, _, name = directory.rpartition("/")
            if name in self._last_names and self._judged(parent)[0] is _ABOVE:
                return _PARTITION
        if depth > len(self.keys) + 1:
            # Cut a path that is too deep: all directories below that level have the same kind and reason, and share a
            # cache entry.
            directory = "/".join(directory.split("/", len(self.keys) + 1)[:-1])
        return self._judged(directory)[0]

    def _look_at(self, directory: str) -> tuple[JudgedDirectory, tuple[Value, ...]]:
        """Return the kind of a directory, and the key values in its path if it is a partition or above a partition."""
        if not directory:
            return self._place(()), ()
        parent, slash, name = directory.rpartition("/")
        verdict, values = self._judged(parent)
        if verdict.place not in (Place.ABOVE, Place.PARTITION):
            return verdict, ()
        # Only S3 keys have such components: ``t//day=1`` is in a directory without a name below ``t``, which no file
        # API can reach.
        if name in _NO_NAMES or (slash and not parent):
            return _UNREACHABLE, ()
        if self.ignored.directory(name):
            return _HIDDEN, ()
        if len(values) >= len(self.keys):
            return JudgedDirectory(Place.NONCONFORMING, self._too_deep(name)), ()
        component = self._component(len(values), name)
        if component.reason:
            return JudgedDirectory(Place.NONCONFORMING, component.reason), ()
        values = (*values, component.value)
        if self._leaves_are_partitions and len(values) == len(self.keys) and len(self._last_names) < _REMEMBERED:
            self._last_names.add(name)
        return self._place(values), values

    def _place(self, values: tuple[Value, ...]) -> JudgedDirectory:
        unknown = len(self.keys) - len(values)
        if self._evaluator is not None and not self._evaluator.may_match((*values, *([UNKNOWN] * unknown))):
            return _PRUNED
        return _ABOVE if unknown else _PARTITION

    def _too_deep(self, component: str) -> str:
        split = split_component(component)
        if split and split[0].lower() in self._lower_names:
            return f"the key {split[0]!r} comes twice in the path"
        if not self.keys:
            return "lies in a directory, but the table has no partition columns"
        count = len(self.keys)
        return (
            f"lies deeper than the {count} partition columns" if count > 1 else "lies deeper than the partition column"
        )

    def _read_component(self, position: int, component: str) -> _Component:
        key = self.keys[position]
        split = split_component(component)
        if split is None:
            return _Component(reason=f"{_shown(component)} is not of the form {key.name}=value")
        name, value = split
        if name.lower() != key.name.lower():
            return _Component(reason=self._wrong_key(position, name))
        try:
            return _Component(typed_value(value, key.type))
        except InvalidValueError as error:
            return _Component(reason=f"partition column {key.name}: {error.message.rstrip('.')}")

    def _wrong_key(self, position: int, name: str) -> str:
        expected = self.keys[position].name
        if name.lower() in self._lower_names[:position]:
            return f"the key {_shown(name)} comes twice in the path"
        if name.lower() in self._lower_names:
            return f"the key {_shown(name)} stands where {expected!r} is expected (keys in the wrong order)"
        return f"the key {_shown(name)} is not a partition column; {expected!r} is expected here"


def _plain_partitions(keys: tuple[Key, ...], ignored: IgnoredNames) -> Callable[[str], object]:
    if not keys or ignored.has_globs or not all(key.type.name in _PLAIN_VALUES for key in keys):
        return _never
    if any(is_hidden(f"{key.name}=") for key in keys):
        return _never
    components = (f"{re.escape(escape_path_name(key.name))}={_PLAIN_VALUES[key.type.name]}" for key in keys)
    return re.compile("/".join(components), re.ASCII).fullmatch


def _never(_: str) -> None:
    return None


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 120 else f"{text[:80]!r}… ({len(text)} characters)"


def typed_value(value: str, data_type: DataType) -> Value:
    """Return the typed value of a directory's escaped value. The default partition is NULL.

    Raises:
        InvalidValueError: The value does not cast to the type, or is a string that is written only for NULL.
    """
    if value == DEFAULT_PARTITION:
        return None
    text = unescape_path_name(value)
    if text == DEFAULT_PARTITION:
        raise InvalidValueError(f"{value[:80]!r} is the escaped name of the default partition, which stands for NULL.")
    return cast_text(text, data_type)
