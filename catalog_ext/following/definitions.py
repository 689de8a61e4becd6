"""What of a table's definition follows the metastore: columns, format and properties that Hive engines have changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog_ext.conf.keys import check_properties
from catalog_ext.metastore.errors import ConflictError, MetastoreRefusedError
from catalog_ext.metastore.hive.mapping.conversion import (
    columns_of,
    from_hive,
    to_hive,
    unrepresentable_reason,
    user_parameters,
)
from catalog_ext.metastore.hive.mapping.descriptors import Descriptors
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.hive_types import hive_key_type
from catalog_ext.metastore.hive.mapping.spark_schema import PROVIDER
from catalog_ext.metastore.hive.mapping.statistics_parameters import SPARK_PREFIX
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.definition_checks import check_storable
from catalog_ext.metastore.model.secrets import drop_secrets, is_secret
from catalog_ext.metastore.model.tables import BUCKETED_BY_PROPERTY, FORMATS
from catalog_ext.sync.columns import adopted_columns, type_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.hive.mapping.model import HiveStorage, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition


_COMMENT = "comment"
_NO_SETTINGS = frozenset({"STATS_GENERATED", "STATS_GENERATED_VIA_STATS_TASK", "TRANSLATED_TO_EXTERNAL"})
"""Parameters that engines and servers leave by themselves."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What has changed of the metastore's table.

    Attributes:
        columns: Whether its columns.
        parameters: Names of parameters that were set or removed.
        storage: Whether how its files are read.
    """

    columns: bool
    parameters: frozenset[str]
    storage: bool = False

    def __bool__(self) -> bool:
        """Return whether there is anything."""
        return self.columns or self.storage or bool(self.parameters)


def written_definition(theirs: HiveTable) -> str:
    """Return what the metastore's table is, as text, for ``changed_since``."""
    columns = [[c.name, c.type, c.comment] for c in columns_of(theirs)]
    written = {"columns": columns, "parameters": _parameters(theirs), "storage": written_storage(theirs.storage)}
    return json.dumps(written, sort_keys=True)


def changed_since(theirs: HiveTable, written: str) -> Changed:
    """Return what has changed of the metastore's table since ``written_definition``."""
    now, then = json.loads(written_definition(theirs)), json.loads(written)
    new, old = now["parameters"], then["parameters"]
    names = frozenset(n for n in {*new, *old} if new.get(n) != old.get(n))
    return Changed(now["columns"] != then["columns"], names, now["storage"] != then["storage"])


def all_of(theirs: HiveTable) -> Changed:
    """Return that everything of the metastore's table may have changed."""
    return Changed(True, frozenset(_parameters(theirs)), True)


def _parameters(theirs: HiveTable) -> dict[str, str]:
    """Return the parameters that users set, comment included, and no statistics."""
    found = {
        name: value
        for name, value in user_parameters(theirs.parameters).items()
        if name not in _NO_SETTINGS and not name.startswith(SPARK_PREFIX) and not is_secret(name)
    }
    return found if theirs.comment is None else {**found, _COMMENT: theirs.comment}


def followed_definition(ours: TableDefinition, theirs: HiveTable, changed: Changed) -> TableDefinition:
    """Return our definition with what has changed in the metastore, as it is there now.

    Whatever the metastore would get of our columns is as good as the same: it has no case, and fewer types.

    Raises:
        UnsupportedFormatError: It has become a table of a kind or format that is not read here.
        UnsupportedTypeChangeError: A column has another type, as which files cannot be read.
        MetastoreRefusedError: It has another format.
        InvalidConfigurationError: A property is a setting, and has a value that it cannot have.
    """
    found = from_hive(theirs)
    if changed.storage:
        ours = with_storage(ours, theirs)
    elif found.format != ours.format:
        raise not_followed(ours, f"its format is {found.format}, and ours {ours.format}")
    return _with_properties(adopted_columns(ours, theirs) if changed.columns else ours, theirs, changed.parameters)


def check_keys(ours: TableDefinition, theirs: HiveTable) -> None:
    """Return if the metastore's table has our partition columns.

    Raises:
        MetastoreRefusedError: It has others.
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
