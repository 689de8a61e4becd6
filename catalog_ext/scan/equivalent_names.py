"""Finds partitions with different names and equal values; the metastore identifies partitions by their values."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError
from catalog_ext.metastore.model.partition_names import (
    DEFAULT_PARTITION,
    MAX_VALUE_LENGTH,
    escape_path_name,
    format_partition_name,
    metastore_obstacle,
    partition_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from catalog_ext.metastore.model.values import Key

_SPECIAL = [chr(code) for code in range(128) if escape_path_name(chr(code)) != chr(code)]
_CANONICAL_VALUE = "(?:[^/{}]|%(?:{}))+".format(
    re.escape("".join(_SPECIAL)), "|".join(f"{ord(character):02X}" for character in _SPECIAL)
)


def key_of(name: str) -> str:
    """Return a partition's values in canonical form, equal for all spellings of its name.

    >>> key_of("DS=2025-01-01/region=%65u"), key_of("")
    ('2025-01-01/eu', '')
    """
    try:
        values = partition_values(name)
    except InvalidPartitionNameError:
        return name
    return "/".join(DEFAULT_PARTITION if value is None else escape_path_name(value) for value in values)


class EquivalentNames:
    """Finds new partitions that have the same values as an existing one, in another spelling (``a b`` and ``a%20b``).

    Args:
        keys: The table's partition columns.
        staying: Returns the names of the registered partitions that the repair does not drop.
        holds: Returns whether a partition with exactly this name is registered and stays, or is on the store.
    """

    def __init__(self, keys: Sequence[Key], staying: Callable[[], Iterable[str]], holds: Callable[[str], bool]) -> None:
        self._keys = keys
        self._staying = staying
        self._holds = holds
        self._new: dict[str, str] = {}
        self._canonical = re.compile(
            "/".join(f"{re.escape(escape_path_name(k.name))}={_CANONICAL_VALUE}" for k in keys)
        )

    def obstacle(self, name: str) -> str:
        """Return why the metastore cannot store a new partition of this name, or ``''`` if it can."""
        if not name:
            return ""
        is_canonical = self._canonical.fullmatch(name) is not None
        # For a name that is spelled as Hive would spell it, check only the length.
        obstacle = "" if is_canonical and len(name) <= MAX_VALUE_LENGTH else metastore_obstacle(name)
        if obstacle:
            return obstacle
        if is_canonical:
            return self._beside(self._registered.get(name))
        canonical = self._canonical_name(name)
        twin = self._registered.get(canonical) or (canonical if self._holds(canonical) else self._new.get(canonical))
        self._new.setdefault(canonical, name)
        return self._beside(twin)

    @cached_property
    def _registered(self) -> dict[str, str]:
        """Return the registered names whose spelling differs from Hive's, by Hive's spelling; usually few."""
        names = (name for name in self._staying() if not self._canonical.fullmatch(name))
        return {self._canonical_name(name): name for name in names if not metastore_obstacle(name)}

    def _canonical_name(self, name: str) -> str:
        return format_partition_name([k.name for k in self._keys], partition_values(name))

    @staticmethod
    def _beside(twin: str | None) -> str:
        return f"not representable in the metastore beside {twin}, which has the same values" if twin else ""
