"""The encoded keys of a partition, as the columns of the index have them."""

from __future__ import annotations

from operator import getitem
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.index.database.schema import KEY_COLUMNS
from catalog_ext.metastore.model.key_encoding import NULL_KEY, encode_key, encode_scalar, is_truncated, truncate_key
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, split_component, unescape_path_name
from catalog_ext.metastore.model.typed_values import checked_values
from catalog_ext.metastore.model.values import cast_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.values import Key, Value

_REMEMBERED = 4096
"""Of each partition column: a bulk load repeats few values of a column, or has each only once."""


def key_row(values: Sequence[Value], keys: Sequence[Key]) -> list[str | None]:
    """Return the contents of ``k1`` to ``k8``."""
    encoded: list[str | None] = [
        encode_key(value, key.type) for value, key in zip(values[:KEY_COLUMNS], keys, strict=False)
    ]
    return encoded + [None] * (KEY_COLUMNS - len(encoded))


def has_long_key(values: Sequence[Value], keys: Sequence[Key]) -> bool:
    """Return whether the key columns cannot order this partition: a key is truncated, or has no column."""
    return len(keys) > KEY_COLUMNS or any(
        isinstance(v, str) and is_truncated(encode_scalar(v, key.type)) for v, key in zip(values, keys, strict=True)
    )


class KeyRows:
    """The contents of ``k1`` to ``k8`` by partitions' names.

    Names of one load share most of their components: each component is checked, cast and encoded once while it is
    remembered.

    Attributes:
        has_long_keys: Whether one of the names had a long key (``has_long_key``).
    """

    def __init__(self, keys: Sequence[Key], table: str) -> None:
        self._keys = keys
        self._table = table
        self._known: list[dict[str, str | None]] = [{} for _ in keys]
        self._rest = (None,) * (KEY_COLUMNS - len(keys))
        self.has_long_keys = False

    def of(self, name: str) -> tuple[str | None, ...]:
        """Return the encoded keys of a partition that is to be registered.

        Raises:
            InvalidPartitionNameError: Its keys are not the table's partition columns in their order.
            InvalidValueError: A value does not fit its column's type.
        """
        components = name.split("/")
        if len(components) == len(self._known):
            try:
                return (*map(getitem, self._known, components), *self._rest)[:KEY_COLUMNS]
            except KeyError:
                if self._learn(components):
                    return (*map(getitem, self._known, components), *self._rest)[:KEY_COLUMNS]
        # Names that do not fit raise here, where the error names the table and the whole partition.
        return tuple(key_row(checked_values(name, self._keys, self._table), self._keys))

    def _learn(self, components: Sequence[str]) -> bool:
        """Remember the components of a name; return False, and remember none, if one of them does not fit."""
        learned: list[tuple[dict[str, str | None], str, str]] = []
        for position, (known, component) in enumerate(zip(self._known, components, strict=True)):
            if component not in known:
                whole = self._whole_encoding(position, component)
                if whole is None:
                    return False
                learned.append((known, component, whole))
        for known, component, whole in learned:
            if len(known) >= _REMEMBERED:
                known.clear()
            encoded = known[component] = truncate_key(whole)
            # Keys without a column cannot order partitions either.
            self.has_long_keys = self.has_long_keys or encoded != whole or len(self._keys) > KEY_COLUMNS
        return True

    def _whole_encoding(self, position: int, component: str) -> str | None:
        """Return the encoding of one component, of any length; None if it is not a valid value of its column."""
        key, split = self._keys[position], split_component(component)
        if split is None or split[0].lower() != key.name.lower():
            return None
        if split[1] == DEFAULT_PARTITION:
            return NULL_KEY
        try:
            value = cast_text(unescape_path_name(split[1]), key.type)
            return NULL_KEY if value is None or position >= KEY_COLUMNS else encode_scalar(value, key.type)
        except InvalidValueError:
            return None
