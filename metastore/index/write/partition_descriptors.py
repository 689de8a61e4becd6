"""The descriptors of partitions that differ from their table in format or schema: a row for each descriptor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import living, partition_descriptors, partitions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.read.marked_rows import at_version
from catalog_ext.metastore.model.descriptors import PartitionDescriptor

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.model.tables import Table

THE_TABLES = 0
"""Stands for the table's own descriptor in messages to the metastore; no stored descriptor has this number."""


class PartitionDescriptors(IndexPart):
    """Reads the descriptors of partitions that have another format or schema than their table."""

    def of_table(self, table: Table) -> dict[int, PartitionDescriptor]:
        """Return the descriptors of partitions at the table's version, by number; no query if it never had any."""
        if not table.has_descriptors:
            return {}
        with self._database.reading() as connection:
            return _used(connection, table, *at_version(partitions, table))

    def formats(self, table: Table) -> dict[str, str]:
        """Return, by partition name, the formats of partitions that differ from their table."""
        found = self.of_table(table)
        if not found:
            return {}
        statement = sa.select(partitions.c.name, partitions.c.descriptor_id).where(
            *at_version(partitions, table), partitions.c.descriptor_id.is_not(None)
        )
        with self._database.reading() as connection:
            return {name: found[number].format for name, number in connection.execute(statement)}


def of_numbers(connection: sa.Connection, table_id: int, numbers: Collection[int]) -> dict[int, PartitionDescriptor]:
    """Return the table's partition descriptors (other formats or schemas than the table's) with these numbers."""
    if not numbers:
        return {}
    d = partition_descriptors.c
    rows = connection.execute(
        sa.select(d.descriptor_id, d.descriptor)
        .where(d.table_id == table_id, d.descriptor_id.in_(sorted(numbers)))
        .order_by(d.descriptor_id)
    )
    return {number: PartitionDescriptor.from_dict(json.loads(text)) for number, text in rows}


def number_of(connection: sa.Connection, table_id: int, descriptor: PartitionDescriptor) -> int:
    """Return the number of a descriptor; add it if the table does not have it. The caller holds the table's lock."""
    d = partition_descriptors.c
    digest = name_hash(descriptor.text)
    known = sa.select(d.descriptor_id, d.descriptor_hash).where(d.table_id == table_id).order_by(d.descriptor_id)
    numbers: dict[str, int] = {row.descriptor_hash: row.descriptor_id for row in connection.execute(known)}
    if digest not in numbers:
        numbers[digest] = max(numbers.values(), default=THE_TABLES) + 1
        row = {
            "table_id": table_id, "descriptor_id": numbers[digest], "descriptor_hash": digest,
            "descriptor": descriptor.text,
        }  # fmt: skip
        connection.execute(sa.insert(partition_descriptors), row)
    return numbers[digest]


def documents(connection: sa.Connection, table_id: int, numbers: Collection[int | None]) -> dict[int, dict[str, Any]]:
    """Return the JSON documents of descriptors for the metastore, by number; the table's own descriptor is empty."""
    found = of_numbers(connection, table_id, {number for number in numbers if number})
    return {THE_TABLES: {}, **{number: descriptor.to_dict() for number, descriptor in found.items()}}


def living_descriptors(connection: sa.Connection, table: Table) -> list[PartitionDescriptor]:
    """Return the descriptors of a table's current partitions; no query if the table never had any."""
    if not table.has_descriptors:
        return []
    p = partitions.c
    found = _used(connection, table, p.table_id == table.table_id, living(partitions, table.table_id))
    return list(found.values())


def _used(
    connection: sa.Connection, table: Table, *conditions: sa.ColumnElement[bool]
) -> dict[int, PartitionDescriptor]:
    """Return the descriptors of the partitions that satisfy the conditions, by number."""
    number = partitions.c.descriptor_id
    used = sa.select(number).where(*conditions, number.is_not(None)).distinct()
    return of_numbers(connection, table.table_id, set(connection.execute(used).scalars()))
