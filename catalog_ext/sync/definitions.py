"""Imports changes of a table's definition that Hive engines made in the metastore: columns, format and properties."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog_ext.conf.keys import check_properties
from catalog_ext.metastore.errors import ConflictError, MetastoreRefusedError, UnsupportedTypeChangeError
from catalog_ext.metastore.hive.mapping.conversion import (
    column_key,
    columns_of,
    from_hive,
    hive_column,
    to_hive,
    unrepresentable_reason,
    user_parameters,
)
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.hive_types import hive_key_type, hive_type, spark_type
from catalog_ext.metastore.hive.mapping.spark_schema import PROVIDER, read_schema
from catalog_ext.metastore.hive.mapping.statistics_parameters import SPARK_PREFIX
from catalog_ext.metastore.model.alterations import BY_POSITION
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.conversions import widening_problem
from catalog_ext.metastore.model.definition_checks import check_columns, check_storable
from catalog_ext.metastore.model.secrets import drop_secrets, is_secret
from catalog_ext.metastore.model.tables import BUCKETED_BY_PROPERTY, FORMATS
from catalog_ext.metastore.model.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from catalog_ext.metastore.hive.mapping.model import HiveStorage, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Column, Table, TableDefinition
    from catalog_ext.metastore.model.types import DataType

_COMMENT = "comment"
_NO_SETTINGS = frozenset({"STATS_GENERATED", "STATS_GENERATED_VIA_STATS_TASK", "TRANSLATED_TO_EXTERNAL"})
"""Parameters that engines and servers set themselves, and that are no settings of a user."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The parts of a metastore's table definition that changed.

    Attributes:
        columns: Whether its columns changed.
        parameters: Names of parameters that were set or removed.
        storage: Whether its format, SerDe or SerDe settings changed.
    """

    columns: bool
    parameters: frozenset[str]
    storage: bool = False

    def __bool__(self) -> bool:
        """Return whether anything has changed."""
        return self.columns or self.storage or bool(self.parameters)


def written_definition(theirs: HiveTable) -> str:
    """Return the definition of the metastore's table as text; a later run passes it to ``changed_since``."""
    columns = [[c.name, c.type, c.comment] for c in columns_of(theirs)]
    written = {"columns": columns, "parameters": _parameters(theirs), "storage": written_storage(theirs.storage)}
    return json.dumps(written, sort_keys=True)


def changed_since(theirs: HiveTable, written: str) -> Changed:
    """Return the changes of the metastore's table since ``written_definition`` returned the text ``written``."""
    now, then = json.loads(written_definition(theirs)), json.loads(written)
    new, old = now["parameters"], then["parameters"]
    names = frozenset(n for n in {*new, *old} if new.get(n) != old.get(n))
    return Changed(now["columns"] != then["columns"], names, now["storage"] != then["storage"])


def all_of(theirs: HiveTable) -> Changed:
    """Return a ``Changed`` that names every part of the metastore's table as changed."""
    return Changed(True, frozenset(_parameters(theirs)), True)


def _parameters(theirs: HiveTable) -> dict[str, str]:
    """Return the parameters that users set, with the comment, but without statistics."""
    found = {
        name: value
        for name, value in user_parameters(theirs.parameters).items()
        if name not in _NO_SETTINGS and not name.startswith(SPARK_PREFIX) and not is_secret(name)
    }
    return found if theirs.comment is None else {**found, _COMMENT: theirs.comment}


def followed_definition(ours: TableDefinition, theirs: HiveTable, changed: Changed) -> TableDefinition:
    """Return the index's definition with the metastore's changes.

    A column counts as unchanged if the index's column, as the metastore would store it, equals the metastore's column.
    The metastore ignores case, and has fewer types.

    Raises:
        UnsupportedFormatError: The table's new kind or format is not supported.
        UnsupportedTypeChangeError: Existing files cannot be read with a column's new type.
        MetastoreRefusedError: Hive and Spark would read the table by different formats.
        InvalidConfigurationError: A property is a setting with an invalid value.
    """
    found = from_hive(theirs)
    if changed.storage:
        ours = with_storage(ours, theirs)
    elif found.format != ours.format:
        raise not_followed(ours, f"its format is {found.format}, and ours {ours.format}")
    return _with_properties(adopted_columns(ours, theirs) if changed.columns else ours, theirs, changed.parameters)


def check_keys(ours: TableDefinition, theirs: HiveTable) -> None:
    """Check that the metastore's table has the index's partition columns.

    Raises:
        MetastoreRefusedError: The partition columns differ.
    """
    keys = [(c.name, c.type) for c in to_hive(ours).partition_columns]
    if [(c.name, hive_key_type(type_of(theirs, c))) for c in theirs.partition_columns] != keys:
        raise not_followed(ours, "it has other partition columns than ours, or of other types")


def _with_properties(ours: TableDefinition, theirs: HiveTable, names: Collection[str]) -> TableDefinition:
    there = _parameters(theirs)
    comment = there.pop(_COMMENT, None) if _COMMENT in names else ours.comment
    there.pop(_COMMENT, None)
    new = {name: there[name] for name in names if name in there and ours.properties.get(name) != there[name]}
    check_properties(new)
    kept = {
        name: value
        for name, value in ours.properties.items()
        if name not in names or name in there or name == BUCKETED_BY_PROPERTY
    }
    return replace(ours, properties={**kept, **new}, comment=comment)


_AT_ONCE = 1000
_READ_BY = (
    "field.delim",
    "serialization.null.format",
    "serialization.encoding",
    "serialization.last.column.takes.rest",
)
"""SerDe settings by which Hive reads delimited text; Spark has them as options with other names."""


def written_storage(storage: HiveStorage) -> list[object]:
    """Return the format, SerDe and settings of a storage descriptor, for a later comparison."""
    return [storage.input_format, storage.serde, storage.settings]


def with_storage(ours: TableDefinition, theirs: HiveTable) -> TableDefinition:
    """Return the index's definition with the metastore's format and reader options.

    Raises:
        UnsupportedFormatError: The kind or format is not supported, or cannot hold the columns.
        MetastoreRefusedError: Hive and Spark read the table by different formats or delimiters.
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
    """Check that the metastore gives no partition another format or other settings than the table's new ones.

    Raises:
        MetastoreRefusedError: A partition has another format or other settings.
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
    """Check that no other process has committed to a table since its partitions were checked.

    Raises:
        ConflictError: Another process has committed: the table must be checked again.
    """
    if now.version != checked.version:
        raise ConflictError(
            f"Another process has committed version {now.version} of table {now.identifier} while the follower "
            "compared the table's partitions with its new format in the metastore. The follower compares them again.",
            {"table": str(now.identifier)},
        )


def not_followed(ours: TableDefinition, why: str) -> MetastoreRefusedError:
    """Return the error for a change of the metastore's table that is not imported."""
    table = str(ours.identifier)
    return MetastoreRefusedError(
        f"The metastore's change of table {table} is not followed: {why}. Unregister it and import it "
        "again, or change it back.",
        {"table": table},
    )


def _words(ours: TableDefinition, new: TableDefinition) -> str:
    if new.format != ours.format:
        return f"its format is {new.format}, and ours {ours.format}"
    names = sorted(k for k in {*ours.options, *new.options} if ours.options.get(k) != new.options.get(k))
    return f"its files are read by another {', '.join(names)}"


def _check_engines_agree(theirs: HiveTable, found: TableDefinition) -> None:
    """Check that the metastore's table has equal formats for Hive and for Spark; a Hive engine changes only Hive's."""
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


def adopted_columns(ours: TableDefinition, theirs: HiveTable) -> TableDefinition:
    """Return the definition with the metastore's columns.

    A column keeps its case and exact type if the index's column, as the metastore would store it, equals the
    metastore's. The metastore ignores case, and has fewer types.

    Raises:
        UnsupportedTypeChangeError: Existing files cannot be read with a column's new type.
        UnsupportedFormatError: Spark has no such column type.
        InvalidInputError: The columns cannot be together in a table.
    """
    there = columns_of(theirs)
    if list(map(column_key, to_hive(ours).columns)) == list(map(column_key, there)):
        return ours
    keys = {c.name.lower() for c in ours.partition_columns}
    known = {c.name.lower(): c for c in ours.columns if c.name.lower() not in keys}
    spark = read_schema(theirs.parameters, str(theirs))
    spelled = {} if spark is None else {c.name.lower(): c for c in spark[0]}
    columns = [_adopted(column, known.get(column.name.lower()), spelled, theirs) for column in there]
    check_columns((*columns, *ours.partition_columns))
    _check_types(ours, columns)
    for number, column in enumerate(ours.columns):
        if column.name.lower() in keys:
            # Keep a data column with the name of a partition column: Hive has only the partition column of that name.
            columns.insert(min(number, len(columns)), column)
    return replace(ours, columns=tuple(columns))


def type_of(table: HiveTable, column: Column) -> DataType:
    """Return the type of a column of the metastore.

    Raises:
        UnsupportedFormatError: Spark has no such type.
    """
    return parse_type(spark_type(column.type, column.name, str(table)))


def _adopted(column: Column, mine: Column | None, spelled: Mapping[str, Column], table: HiveTable) -> Column:
    if mine is not None and hive_column(mine, hive_type(mine.data_type) or "") == column:
        return mine
    other = spelled.get(column.name.lower())
    if other is None or hive_type(other.data_type) != hive_type(type_of(table, column)):
        other = replace(column, type=str(type_of(table, column)))
    if mine is None:
        return other
    kept = mine.type if hive_type(mine.data_type) == column.type.lower() else other.type
    return replace(mine, type=kept, comment=column.comment)


def _check_types(ours: TableDefinition, columns: Sequence[Column]) -> None:
    if ours.format in BY_POSITION:
        # Skip data columns that have a partition column's name. Hive does not have them, so that all later columns
        # would be paired with the wrong ones.
        keys = {c.name.lower() for c in ours.partition_columns}
        pairs = list(zip((c for c in ours.columns if c.name.lower() not in keys), columns, strict=False))
    else:
        before = {c.name.lower(): c for c in ours.columns}
        pairs = [(before[c.name.lower()], c) for c in columns if c.name.lower() in before]
    table = str(ours.identifier)
    for old, new in pairs:
        problem = None
        if hive_type(old.data_type) != hive_type(new.data_type):
            problem = widening_problem(ours.format, old.data_type, new.data_type)
        if problem is None:
            continue
        was, now = old.type.upper(), new.type.upper()
        if new.name.lower() == old.name.lower():
            what = f"The column {old.name!r} of table {table} has become {now} in the metastore, and stays {was} here"
        else:
            # Rows of this format have no column names, so columns correspond by position.
            what = f"The metastore has the column {new.name!r} of table {table} as {now} at the place of"
            what = f"{what} {old.name!r} {was}"
        raise UnsupportedTypeChangeError(
            f"{what}: {problem}. Change it back in the metastore, or send the index's definition: catalog-ext publish "
            f"{table}.",
            {"table": table, "column": new.name, "from": old.type, "to": new.type},
        )
