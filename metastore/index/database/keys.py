"""The encoded keys of a partition, as the columns of the index have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.index.database.schema import KEY_COLUMNS
from catalog_ext.metastore.model.key_encoding import encode_key, encode_scalar, is_truncated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.values import Key, Value


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
