"""Which directories of a table's tree are partitions, and why others are not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from metastore.errors import InvalidValueError
from metastore.evaluation import UNKNOWN, Evaluator
from metastore.names import (
    DEFAULT_PARTITION,
    MAX_VALUE_LENGTH,
    format_partition_name,
    is_hidden,
    partition_values,
    split_component,
    unescape_path_name,
)
from metastore.values import Value, cast_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metastore.model import TableDefinition
    from metastore.predicates import Key, Predicate
    from metastore.types import DataType


class Place(Enum):
    """Where a directory stands in the table's tree."""

    ABOVE = "above"
    PARTITION = "partition"
    HIDDEN = "hidden"
    PRUNED = "pruned"
    MISFIT = "misfit"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a directory is, and for a ``MISFIT`` the reason that the report gives."""

    place: Place
    reason: str = ""


_ABOVE = Verdict(Place.ABOVE)
_PARTITION = Verdict(Place.PARTITION)
_HIDDEN = Verdict(Place.HIDDEN)
_PRUNED = Verdict(Place.PRUNED)


class Layout:
    """Judges directories below a table's location against its partition columns and a predicate.

    Args:
        definition: The table.
        predicate: A bound predicate that limits which partitions are looked at, or None.
    """

    def __init__(self, definition: TableDefinition, predicate: Predicate | None = None) -> None:
        self.keys: tuple[Key, ...] = definition.keys
        self._lower_names = [k.name.lower() for k in self.keys]
        self._evaluator = Evaluator(predicate, self.keys) if predicate is not None else None

    def judge(self, directory: str) -> Verdict:
        """The verdict on a directory.

        Args:
            directory: Its path relative to the table's location, ``''`` for the location itself.
        """
        components = directory.split("/") if directory else []
        values: list[Value] = []
        for position, component in enumerate(components):
            if is_hidden(component):
                return _HIDDEN
            if position >= len(self.keys):
                return Verdict(Place.MISFIT, self._too_deep(component))
            reason = self._read_component(position, component, values)
            if reason:
                return Verdict(Place.MISFIT, reason)
        return self._place(values)

    def _place(self, values: list[Value]) -> Verdict:
        whole = len(values) == len(self.keys)
        if self._evaluator is not None:
            known = (*values, *([UNKNOWN] * (len(self.keys) - len(values))))
            if not self._evaluator.may_match(known):
                return _PRUNED
        return _PARTITION if whole else _ABOVE

    def _too_deep(self, component: str) -> str:
        split = split_component(component)
        if split and split[0].lower() in self._lower_names:
            return f"the key {split[0]!r} comes twice in the path"
        if not self.keys:
            return "lies in a directory, but the table has no partition columns"
        return f"lies deeper than the {len(self.keys)} partition columns"

    def _read_component(self, position: int, component: str, values: list[Value]) -> str:
        key = self.keys[position]
        split = split_component(component)
        if split is None:
            return f"{component[:120]!r} is not of the form {key.name}=value"
        name, value = split
        if name.lower() != key.name.lower():
            return self._wrong_key(position, name)
        try:
            values.append(typed_value(value, key.type))
        except InvalidValueError as error:
            return f"partition column {key.name}: {error.message.rstrip('.')}"
        return ""

    def _wrong_key(self, position: int, name: str) -> str:
        expected = self.keys[position].name
        if name.lower() in self._lower_names[:position]:
            return f"the key {name!r} comes twice in the path"
        if name.lower() in self._lower_names:
            return f"the key {name!r} stands where {expected!r} is expected (keys in the wrong order)"
        return f"the key {name!r} is not a partition column; {expected!r} is expected here"

    def matches(self, name: str) -> bool:
        """Whether a registered partition's name satisfies the predicate."""
        return self._evaluator is None or self._evaluator.matches(typed_values(name, self.keys))


def typed_value(escaped: str, data_type: DataType) -> Value:
    """The typed value of a directory's still escaped value; the default partition is NULL.

    Raises:
        InvalidValueError: It does not cast to the type.
    """
    return None if escaped == DEFAULT_PARTITION else cast_text(unescape_path_name(escaped), data_type)


def typed_values(name: str, keys: Sequence[Key]) -> tuple[Value, ...]:
    """The typed values of a registered partition's name."""
    texts = partition_values(name)
    return tuple(None if t is None else cast_text(t, k.type) for t, k in zip(texts, keys, strict=True))


def metastore_obstacle(name: str, keys: Sequence[Key]) -> str:
    """Why the metastore cannot hold a partition of this name, or ``''`` if it can.

    The metastore knows a partition by its values: it has no empty one, and none of 1024 or more characters.
    """
    for value in partition_values(name):
        if value == "":
            return "not representable in the metastore: the value is empty"
        if value is not None and len(value) > MAX_VALUE_LENGTH:
            return f"not representable in the metastore: the value has {len(value)} characters"
    return ""


def canonical_name(name: str, keys: Sequence[Key]) -> str:
    """The name that Hive gives to the values of this one; other spellings of the same values share it."""
    values = partition_values(name)
    return "/".join(
        format_partition_name([k.name], [v]) if v != "" else f"{k.name}=" for k, v in zip(keys, values, strict=True)
    )
