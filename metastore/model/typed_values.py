"""Typed values of a partition, from its name and the table's partition columns; equal values mean equal partitions."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError, InvalidValueError
from catalog_ext.metastore.model.key_encoding import encode_scalar
from catalog_ext.metastore.model.partition_names import parse_partition_name, partition_values
from catalog_ext.metastore.model.values import Value, cast_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.values import Key


def typed_values(name: str, keys: Sequence[Key]) -> tuple[Value, ...]:
    """Return the values of a registered partition, in the order of the partition columns."""
    return tuple(
        None if text is None else cast_text(text, key.type)
        for text, key in zip(partition_values(name), keys, strict=True)
    )


def checked_values(name: str, keys: Sequence[Key], table: str) -> tuple[Value, ...]:
    """Return the typed values of a partition that is about to be registered.

    Raises:
        InvalidPartitionNameError: The partition's keys are not the table's partition columns in their order.
        InvalidValueError: A value does not fit its column's type.
    """
    pairs = parse_partition_name(name) if name else ()
    if [k.lower() for k, _ in pairs] != [key.name.lower() for key in keys]:
        form = "/".join(f"{key.name}=…" for key in keys) or "'' (the table has no partition columns)"
        raise InvalidPartitionNameError(
            f"{name[:200]!r} is not a partition of table {table}: its partition names are {form}.",
            {"table": table, "partition": name[:200]},
        )
    try:
        return tuple(
            None if text is None else cast_text(text, key.type) for (_, text), key in zip(pairs, keys, strict=True)
        )
    except InvalidValueError as error:
        raise InvalidValueError(
            f"Partition {name[:200]!r} of table {table}: {error.message}",
            {"table": table, "partition": name[:200], **error.parameters},
        ) from error


def sort_key(values: Sequence[Value], keys: Sequence[Key]) -> tuple[str, ...]:
    """Return the sort key of a partition: the full encodings of its values, which sort NULL first."""
    return tuple("" if v is None else encode_scalar(v, key.type) for v, key in zip(values, keys, strict=True))


def claim_hash(values: Sequence[Value], keys: Sequence[Key]) -> str:
    """Return 32 hexadecimal digits that are equal for partitions with equal typed values, whatever their names."""
    # NUL is a safe separator, because no encoding contains it.
    return hashlib.blake2b("\x00".join(sort_key(values, keys)).encode("utf-8"), digest_size=16).hexdigest()
