"""Encodes and decodes partition names, ``k1=v1/k2=v2``, with Hive's escaping.

The escaped characters are those of Hive's ``FileUtils.escapePathName`` (Spark's ``ExternalCatalogUtils`` lacks NUL). A
name is stored exactly as it was found on the store, and decoded only for reading its values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The directory value that stands for NULL (``hive.exec.default.partition.name``)."""

MAX_VALUE_LENGTH = 1023
"""The longest partition value that the metastore can store, in characters."""

_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(c) for c in range(32)}
_ESCAPE_SEQUENCE = re.compile(r"%([0-9A-Fa-f]{2})")
_NEEDS_ESCAPE = re.compile("[" + re.escape("".join(sorted(_ESCAPED))) + "]")


def escape_path_name(text: str) -> str:
    """Return the text with every character that Hive escapes written as ``%XX``."""
    return _NEEDS_ESCAPE.sub(lambda m: f"%{ord(m.group()):02X}", text)


def unescape_path_name(text: str) -> str:
    """Return the text with each ``%XX`` replaced by its character.

    A malformed escape stays unchanged, and so does ``+``.
    """
    return _ESCAPE_SEQUENCE.sub(lambda m: chr(int(m.group(1), 16)), text) if "%" in text else text


def is_hidden(component: str) -> bool:
    """Return whether readers ignore a file or directory: its name begins with ``.``, or with ``_`` and has no ``=``.

    The same rule as Spark's ``HadoopFSUtils.shouldFilterOutPathName``. Hadoop's local file system writes the checksum
    of ``_k=1.csv`` to ``._k=1.csv.crc``, so a name that begins with ``.`` is hidden even with ``=``.
    """
    return component.startswith(".") or (component.startswith("_") and "=" not in component)


def split_component(component: str) -> tuple[str, str] | None:
    """Return the unescaped key and the still escaped value of ``key=value``; None for any other text."""
    key, equals, value = component.partition("=")
    return (unescape_path_name(key), value) if equals and key else None


def parse_partition_name(name: str) -> tuple[tuple[str, str | None], ...]:
    """Return the keys and unescaped values of a partition name, in order; the default partition's value is None.

    Raises:
        InvalidPartitionNameError: A component is not ``key=value``.
    """
    pairs: list[tuple[str, str | None]] = []
    for directory_name in name.split("/"):
        split = split_component(directory_name)
        if split is None:
            raise InvalidPartitionNameError(
                f"{name[:200]!r} is not a partition name: {directory_name[:80]!r} is not of the form key=value.",
                {"partition": name[:200]},
            )
        key, value = split
        pairs.append((key, None if value == DEFAULT_PARTITION else unescape_path_name(value)))
    return tuple(pairs)


def partition_values(name: str) -> tuple[str | None, ...]:
    """Return the unescaped values of a partition name; the default partition's value is None, and ``''`` has no values.

    Raises:
        InvalidPartitionNameError: A component is not ``key=value``.
    """
    return tuple(value for _, value in parse_partition_name(name)) if name else ()


class DeclaredNames:
    """Writes the keys of partition names in the table's spelling; on the store they may differ in case."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._declared = {key.lower(): escape_path_name(key) for key in keys}
        self._known: dict[str, str] = {}

    @property
    def pattern(self) -> str:
        """A regular expression, also valid in RE2, for partition names whose keys are all in the table's spelling."""
        keys = "|".join(map(re.escape, self._declared.values()))
        return rf"\A(?:{keys})=[^/]*(?:/(?:{keys})=[^/]*)*\z"

    def of(self, name: str) -> str:
        """Return the name with its keys in the table's spelling; values, and unknown keys, stay unchanged."""
        return "/".join(map(self._component, name.split("/"))) if self._declared else name

    def _component(self, component: str) -> str:
        key, equals, value = component.partition("=")
        if not equals:
            return component
        declared = self._known.get(key)
        if declared is None:
            declared = self._known[key] = self._declared.get(unescape_path_name(key).lower(), key)
        return component if declared == key else f"{declared}={value}"


def metastore_obstacle(name: str) -> str:
    """Return why the metastore cannot hold a partition of this name (a value is empty or too long), or ``''``."""
    for value in partition_values(name):
        if value == "":
            return "not representable in the metastore: the value is empty"
        if value is not None and len(value) > MAX_VALUE_LENGTH:
            return f"not representable in the metastore: a value has {len(value)} characters ({MAX_VALUE_LENGTH} fit)"
    return ""


def format_partition_name(keys: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the partition name that Hive writes for keys and values; None and ``''`` become the default partition.

    Raises:
        InvalidPartitionNameError: A value equals the default partition's name or has 1024 or more characters, or the
            numbers of keys and values differ.
    """
    if len(keys) != len(values):
        raise InvalidPartitionNameError(
            f"{len(values)} values were given for {len(keys)} partition columns {list(keys)}."
        )
    return "/".join(f"{escape_path_name(k)}={_format_value(k, v)}" for k, v in zip(keys, values, strict=True))


def _format_value(key: str, value: str | None) -> str:
    if not value:
        return DEFAULT_PARTITION
    if value == DEFAULT_PARTITION:
        raise InvalidPartitionNameError(
            f"The value {value!r} of partition column {key!r} stands for NULL and cannot be a string. "
            "Write NULL instead.",
            {"column": key},
        )
    if len(value) > MAX_VALUE_LENGTH:
        raise InvalidPartitionNameError(
            f"The value of partition column {key!r} has {len(value)} characters ({value[:40]!r}…); "
            f"at most {MAX_VALUE_LENGTH} can be kept.",
            {"column": key},
        )
    return escape_path_name(value)
