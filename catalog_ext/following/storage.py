"""How a table's files are read, where that was changed in the metastore: format, SerDe, its settings.

Hive reads a partition by the partition's own descriptor, which an alteration of the table leaves as it is, and a table
without partition columns by the table's. So the new one is taken over where it is that of all partitions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import ConflictError, MetastoreRefusedError
from catalog_ext.metastore.hive.mapping.conversion import from_hive, unrepresentable_reason
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.spark_schema import PROVIDER
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.definition_checks import check_storable
from catalog_ext.metastore.model.secrets import drop_secrets
from catalog_ext.metastore.model.tables import FORMATS

if TYPE_CHECKING:
    from catalog_ext.metastore.hive.mapping.model import HiveStorage, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition

_AT_ONCE = 1000
_READ_BY = (
    "field.delim",
    "serialization.null.format",
    "serialization.encoding",
    "serialization.last.column.takes.rest",
)
"""Settings by which Hive reads delimited text, and which Spark has as options of other names."""


def written_storage(storage: HiveStorage) -> list[object]:
    """Return how files are read, for a comparison with what it is later."""
    return [storage.input_format, storage.serde, storage.settings]


def with_storage(ours: TableDefinition, theirs: HiveTable) -> TableDefinition:
    """Return our definition with the metastore's format and reader options.

    Raises:
        UnsupportedFormatError: It is of a kind or format that is not read here, or one that cannot hold its columns.
        MetastoreRefusedError: Hive reads the table by one format or delimiter, and Spark by another.
    """
    found = from_hive(theirs)
    _check_engines_agree(theirs, found)
    new = replace(ours, format=found.format, options=drop_secrets(found.options))
    if drop_secrets(ours.options) == new.options and new.format == ours.format:
        return ours
    check_storable(new)
    reason = unrepresentable_reason(new)
    if reason is not None:
        raise not_followed(ours, reason)
    return new


def check_partitions(index: Index, client: HiveMetastore, ours: Table, theirs: HiveTable, new: TableDefinition) -> None:
    """Return if all partitions that either side has are read as the metastore's table says now.

    Raises:
        MetastoreRefusedError: One is not.
    """
    if not ours.definition.partition_columns:
        return
    descriptors = Descriptors(theirs, new)
    described = 0
    for chunk in batched(client.partitions(theirs.database, theirs.name), _AT_ONCE):
        for partition in chunk:
            reading = descriptors.reading(partition)
            if reading.problem is not None or reading.differs_from(None):
                shown = theirs.name_of(partition.values)[:200]
                what = f"partitions that are there keep their own: of {shown!r} {reading.difference}"
                raise not_followed(ours.definition, f"{_words(ours.definition, new)}, and {what}")
        names = [theirs.name_of(partition.values) for partition in chunk]
        described += len(index.living_partitions.of_values(ours, names))
    if described < index.tables.load_by_id(ours.table_id).totals.partitions:
        raise not_followed(
            ours.definition,
            f"{_words(ours.definition, new)}, and partitions of ours that the metastore does not have were not written "
            "so",
        )


def check_version(checked: Table, now: Table) -> None:
    """Return if no other process has committed to a table since its partitions were checked.

    Raises:
        ConflictError: One has: it is to be looked at again.
    """
    if now.version != checked.version:
        raise ConflictError(
            f"Another process has committed version {now.version} of table {now.identifier} while its partitions were "
            "compared with a new format of the metastore's. It is followed when they have been compared again.",
            {"table": str(now.identifier)},
        )


def not_followed(ours: TableDefinition, why: str) -> MetastoreRefusedError:
    """Return the error that says what of the metastore's table is not taken over."""
    table = str(ours.identifier)
    return MetastoreRefusedError(
        f"What has become of the metastore's table {table} is not followed: {why}. Unregister it and import it "
        "again, or change it back.",
        {"table": table},
    )


def _words(ours: TableDefinition, new: TableDefinition) -> str:
    if new.format != ours.format:
        return f"its format is {new.format}, and ours {ours.format}"
    names = sorted(k for k in {*ours.options, *new.options} if ours.options.get(k) != new.options.get(k))
    return f"its files are read by another {', '.join(names)}"


def _check_engines_agree(theirs: HiveTable, found: TableDefinition) -> None:
    """Spark's own tables have Spark's options beside Hive's; a Hive engine changes only the latter."""
    if theirs.parameters.get(PROVIDER, "").lower() not in FORMATS:
        return
    wanted, storage = storage_of(found.format, found.options, theirs.location), theirs.storage
    there, here = (_read_by(each) for each in (storage, wanted))
    if (storage.input_format, storage.serde) != (wanted.input_format, wanted.serde) or (
        found.format in ("csv", "text") and there != here
    ):
        raise not_followed(
            found,
            "Hive engines read it by another SerDe, or other settings of it, than Spark, whose own table it is "
            f"({PROVIDER} = {found.format}). Say the same to both",
        )


def _read_by(storage: HiveStorage) -> dict[str, str | None]:
    return {name: storage.serde_parameters.get(name) for name in _READ_BY}
