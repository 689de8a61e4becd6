"""Converts tables, namespaces, partitions and files to database rows and back; and locks the row of a table.

The columns ``k1`` to ``k8`` contain the encoded values of a partition's first eight partition columns.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from operator import getitem
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import InvalidValueError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import KEY_COLUMNS, files, namespaces, partitions, tables
from catalog_ext.metastore.index.database.texts import storable_field
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import columns_from_list, columns_to_list, to_json
from catalog_ext.metastore.model.key_encoding import NULL_KEY, encode_key, encode_scalar, is_truncated, truncate_key
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, split_component, unescape_path_name
from catalog_ext.metastore.model.tables import DataFile, Namespace, Partition, Table, TableDefinition, TableType, Totals
from catalog_ext.metastore.model.typed_values import checked_values
from catalog_ext.metastore.model.values import cast_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.model.values import Key, Value

PARTITION = tuple(
    partitions.c[name]
    for name in (
        "partition_id", "name", "location", "begin_version", "end_version", "in_metastore", "n_files", "n_bytes",
        "n_rows", "descriptor_id", "created_at_ms", *(f"k{i}" for i in range(1, KEY_COLUMNS + 1)),
    )
)  # fmt: skip
"""The columns that ``partition_of`` reads, in their order."""

FILE = (files.c.path, files.c.size, files.c.modified_ms, files.c.n_rows, files.c.etag_hash, files.c.file_id)
"""The columns that ``file_of`` reads, in their order."""


def definition_to_row(definition: TableDefinition) -> dict[str, Any]:
    """Return the values for the columns of ``tables`` that store a table definition, without the namespace.

    Raises:
        InvalidInputError: A text of the definition has a NUL or is not valid UTF-8, so no database can store it.
    """
    of = f"table {definition.identifier}"
    return {
        "name": definition.identifier.name,
        "table_type": str(definition.table_type),
        "format": definition.format,
        "location": storable_field(definition.location, "location", of),
        "columns": to_json(columns_to_list(definition.columns)),
        "partition_columns": to_json(columns_to_list(definition.partition_columns)),
        "options": to_json(dict(definition.options)),
        "properties": to_json(dict(definition.properties)),
        "comment": storable_field(definition.comment, "comment", of),
        "owner": storable_field(definition.owner, "owner", of),
    }


def table_from_row(row: Mapping[str, Any]) -> Table:
    """Return the table of a row of ``tables`` that was joined with its namespace's name as column ``namespace``."""
    definition = TableDefinition(
        identifier=TableIdentifier(row["namespace"], row["name"]),
        table_type=TableType(row["table_type"]),
        format=row["format"],
        location=row["location"],
        columns=columns_from_list(json.loads(row["columns"])),
        partition_columns=columns_from_list(json.loads(row["partition_columns"])),
        options=json.loads(row["options"]),
        properties=json.loads(row["properties"]),
        comment=row["comment"],
        owner=row["owner"],
    )
    totals = Totals(
        partitions=row["total_partitions"],
        files=row["total_files"],
        bytes=row["total_bytes"],
        rows=None if row["uncounted_partitions"] else row["counted_rows"],
    )
    return Table(
        row["table_id"], definition, row["version"], totals, row["created_at_ms"], row["deleted_before_version"],
        bool(row["has_descriptors"]),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table with the further counters of its row in ``tables``.

    Attributes:
        table: The table at its newest version.
        now_ms: The database's time when the row was read, in milliseconds since the epoch, UTC.
        oldest_version: The oldest readable version.
        claims_from: Claims of transactions up to this version have been removed.
        next_partition: The number that the next new partition of the table gets.
        next_file: The number that the next new file of the table gets.
        counted_rows: The sum of the rows of partitions with a known row count.
        uncounted_partitions: The number of partitions without a known row count.
        has_long_keys: Whether some partitions cannot be ordered by ``k1`` to ``k8`` (see ``has_long_key``).
    """

    table: Table
    now_ms: int
    oldest_version: int
    claims_from: int
    next_partition: int
    next_file: int
    counted_rows: int
    uncounted_partitions: int
    has_long_keys: bool

    def raised(self) -> TableRow:
        """Return a copy with the version raised by one."""
        return replace(self, table=replace(self.table, version=self.table.version + 1))


def table_row_of(row: Mapping[str, Any]) -> TableRow:
    """Return the ``TableRow`` of a row as in ``table_from_row`` that also has the database's time as ``now_ms``."""
    return TableRow(
        table_from_row(row), row["now_ms"], row["oldest_version"], row["claims_from"], row["next_partition_number"],
        row["next_file_id"], row["counted_rows"], row["uncounted_partitions"], bool(row["has_long_keys"]),
    )  # fmt: skip


def namespace_to_row(namespace: Namespace) -> dict[str, Any]:
    """Return the values for the columns of ``namespaces``.

    Raises:
        InvalidInputError: A text of the namespace has a NUL or is not valid UTF-8, so no database can store it.
    """
    of = f"namespace {namespace.name}"
    return {
        "name": namespace.name,
        "location": storable_field(namespace.location, "location", of),
        "comment": storable_field(namespace.comment, "comment", of),
        "properties": to_json(dict(namespace.properties)),
    }


def namespace_from_row(row: Mapping[str, Any]) -> Namespace:
    """Return the namespace of a row of ``namespaces``."""
    return Namespace(row["name"], row["location"], row["comment"], json.loads(row["properties"]))


def partition_of(row: Sequence[Any]) -> Partition:
    """Return the partition of a row that has the columns ``PARTITION``, in their order."""
    number, name, location, begin, end, in_metastore, n_files, n_bytes, n_rows, descriptor, created_at_ms, *keys = row
    return Partition(
        number, name, location, begin, end, bool(in_metastore), n_files, n_bytes, n_rows, descriptor, created_at_ms,
        tuple(keys),
    )  # fmt: skip


def partition_to_row(partition: Partition, table_id: int, digest: str) -> tuple[Any, ...]:
    """Return the row of a partition, in the order of ``PARTITION_ROW``; ``digest`` is the hash of its name."""
    return (*partition[:5], int(partition.in_metastore), *partition[6:-1], *partition.keys, table_id, digest)


PARTITION_ROW = (*(column.key for column in PARTITION), "table_id", "name_hash")


def file_of(row: Sequence[Any]) -> DataFile:
    """Return the file, without its statistics, of a row that has the columns ``FILE``, in their order."""
    path, size, modified_ms, n_rows, etag, file_id = row
    return DataFile(path, size, modified_ms, n_rows, etag=etag, file_id=file_id)


def locked_row(connection: sa.Connection, table_id: int) -> TableRow | None:
    """Lock the table's row until the end of the transaction and return it; None if the table no longer exists.

    Writers call ``partition_rows.lock_table``, which first completes a deferred delete.
    """
    row = LOCK.row(connection, {"table_id": table_id})
    return None if row is None else table_row_of(row)


_NAMESPACE = sa.select(namespaces.c.name).where(namespaces.c.namespace_id == tables.c.namespace_id).scalar_subquery()
LOCK = Prepared(
    sa.select(tables, _NAMESPACE.label("namespace"), NOW_MS.label("now_ms"))
    .where(tables.c.table_id == sa.bindparam("table_id"))
    .with_for_update(of=tables)
)
"""The query of ``locked_row``: it reads and locks the row of a table."""


_REMEMBERED = 4096
"""The most values that are cached for each partition column. In a bulk load a column has few values, or each value only
once."""


def key_row(values: Sequence[Value], keys: Sequence[Key]) -> list[str | None]:
    """Return the values of the columns ``k1`` to ``k8``: the encoded keys, and None for missing columns."""
    encoded: list[str | None] = [
        encode_key(value, key.type) for value, key in zip(values[:KEY_COLUMNS], keys, strict=False)
    ]
    return encoded + [None] * (KEY_COLUMNS - len(encoded))


def has_long_key(values: Sequence[Value], keys: Sequence[Key]) -> bool:
    """Return whether ``k1`` to ``k8`` cannot order the partition: a key is truncated, or there are over eight keys."""
    return len(keys) > KEY_COLUMNS or any(
        isinstance(v, str) and is_truncated(encode_scalar(v, key.type)) for v, key in zip(values, keys, strict=True)
    )


class KeyRows:
    """Computes the columns ``k1`` to ``k8`` from partition names.

    Names of one load share most of their components (``month=01``). Each component is checked, cast and encoded once,
    and the result is cached.

    Attributes:
        has_long_keys: Whether at least one of the names had a long key (``has_long_key``).
    """

    def __init__(self, keys: Sequence[Key], table: str) -> None:
        self._keys = keys
        self._table = table
        self._known: list[dict[str, str | None]] = [{} for _ in keys]
        self._rest = (None,) * (KEY_COLUMNS - len(keys))
        self.has_long_keys = False

    def of(self, name: str) -> tuple[str | None, ...]:
        """Return the encoded keys of a partition to be registered.

        Raises:
            InvalidPartitionNameError: The name does not consist of the table's partition columns in their order.
            InvalidValueError: A value does not fit its column's type.
        """
        components = name.split("/")
        if len(components) == len(self._known):
            try:
                return (*map(getitem, self._known, components), *self._rest)[:KEY_COLUMNS]
            except KeyError:
                if self._learn(components):
                    return (*map(getitem, self._known, components), *self._rest)[:KEY_COLUMNS]
        # ``checked_values`` raises for a name that does not fit; its error names the table and the whole partition.
        return tuple(key_row(checked_values(name, self._keys, self._table), self._keys))

    def _learn(self, components: Sequence[str]) -> bool:
        """Cache the components of a name; return False, and cache nothing, if a component does not fit its column."""
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
            # Partition columns after the eighth have no key column, so ``k1`` to ``k8`` cannot order such partitions.
            self.has_long_keys = self.has_long_keys or encoded != whole or len(self._keys) > KEY_COLUMNS
        return True

    def _whole_encoding(self, position: int, component: str) -> str | None:
        """Return the untruncated encoding of one component; None if it is not a valid value of its column."""
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
