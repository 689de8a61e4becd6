"""What of a table's definition follows the metastore: columns, format and properties that Hive engines have changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog_ext.conf.keys import check_properties
from catalog_ext.following.storage import not_followed, with_storage, written_storage
from catalog_ext.metastore.hive.mapping.conversion import (
    columns_of,
    from_hive,
    to_hive,
    user_parameters,
)
from catalog_ext.metastore.hive.mapping.hive_types import hive_key_type
from catalog_ext.metastore.hive.mapping.statistics_parameters import SPARK_PREFIX
from catalog_ext.metastore.model.secrets import is_secret
from catalog_ext.metastore.model.tables import BUCKETED_BY_PROPERTY
from catalog_ext.sync.columns import adopted_columns, type_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.tables import TableDefinition

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
    # An earlier release has written how a table is bucketed among its parameters: that it goes there says nothing.
    names = frozenset(n for n in {*new, *old} if new.get(n) != old.get(n) and n != BUCKETED_BY_PROPERTY)
    # What an earlier release has written says nothing of it.
    storage = then.get("storage", now["storage"]) != now["storage"]
    return Changed(now["columns"] != then["columns"], names, storage)


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
