"""Checks ClickHouse's write options as table properties: ``partition_strategy`` and its companions.

They are checked when a table is created (``docs/spec/semantics.md``, "partition_strategy"). The connector checks the
rows of a write against them, when it names the directories.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog_ext.conf import table_keys
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    InvalidTypeError,
    NotFoundError,
    StorageError,
)
from catalog_ext.metastore.model.tables import TableDefinition, TableType
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.metastore.storage.store import Storage

STRATEGY = table_keys.PARTITION_STRATEGY.key
IN_DATA_FILE = table_keys.IN_DATA_FILE.key
PATH = table_keys.PATH.key
FILENAME = table_keys.FILENAME.key
HIVE, AUTO = "hive", "auto"

KEY_TYPES = (
    "tinyint", "smallint", "int", "bigint", "string", "char", "varchar", "date", "time", "timestamp", "timestamp_ntz",
    "boolean",
)  # fmt: skip
"""Types that a key may have under the strategy ``hive``: Spark's counterparts of the types that ClickHouse allows."""

_REFUSED = re.compile(r"[{}\\\"'*?\x00-\x1f\x7f]")
_FLAGS = {"1": True, "true": True, "0": False, "false": False}
_LONGEST_KEY = 1024


@dataclass(frozen=True, slots=True)
class Strategy:
    """The table properties that correspond to ClickHouse's write options; None for a property that is not set."""

    table: str
    name: str = AUTO
    in_data_file: str | None = None
    path: str | None = None
    filename: str | None = None

    @classmethod
    def of(cls, table: str, properties: Mapping[str, str]) -> Strategy:
        """Return the strategy that a table's properties ask for.

        Raises:
            InvalidConfigurationError: The property names an unknown strategy.
        """
        lower = {key.lower(): value for key, value in properties.items()}
        style = lower.get(STRATEGY, AUTO)
        if style.lower() not in (HIVE, AUTO):
            raise InvalidConfigurationError(
                f"Unknown partitioning style {style[:60]!r} in the property {STRATEGY!r} of table {table}. "
                f"Use {HIVE!r} or {AUTO!r}.",
                {"table": table, "key": STRATEGY, "value": style[:60]},
            )
        return cls(table, style.lower(), lower.get(IN_DATA_FILE), lower.get(PATH), lower.get(FILENAME))

    @property
    def is_hive(self) -> bool:
        """Whether the strategy is ``hive``, so that ClickHouse's rules apply in addition to Hive's."""
        return self.name == HIVE

    def check(self, definition: TableDefinition) -> None:
        """Check that the strategy allows the table's columns and properties.

        Raises:
            InvalidInputError: The strategy does not allow a column or property.
        """
        if not self.is_hive:
            self._refuse_companions()
            return
        if not definition.partition_columns:
            raise InvalidInputError(
                f"Partition strategy hive can not be used without a PARTITION BY expression: table {self.table} has no "
                f"partition columns. Add PARTITIONED BY (...), or leave out the property {STRATEGY!r}.",
                {"table": self.table},
            )
        for column in definition.partition_columns:
            if column.data_type.name not in KEY_TYPES or column.nullable:
                what = f"is {column.type.upper()}" if column.data_type.name not in KEY_TYPES else "may be NULL"
                raise InvalidTypeError(
                    f"Hive partitioning supports only partition columns of types {', '.join(KEY_TYPES).upper()}, each "
                    f"NOT NULL: the column {column.name!r} of table {self.table} {what}.",
                    {"table": self.table, "column": column.name, "type": column.type},
                )
        if self.in_data_file is not None and self.in_data_file.strip().lower() not in _FLAGS:
            raise InvalidConfigurationError(
                f"The property {IN_DATA_FILE!r} of table {self.table} cannot be {self.in_data_file[:60]!r}: it is a "
                "Boolean. Give 1, 0, true or false.",
                {"table": self.table, "key": IN_DATA_FILE, "value": self.in_data_file[:60]},
            )

    def _refuse_companions(self) -> None:
        companions = {IN_DATA_FILE: self.in_data_file, PATH: self.path, FILENAME: self.filename}
        option = next((key for key, value in companions.items() if value is not None), None)
        if option is not None:
            raise InvalidConfigurationError(
                f"The property {option!r} of table {self.table} belongs to {STRATEGY!r} = {HIVE!r}, which is not set. "
                f"Set it, or leave {option!r} out{' and say LOCATION' if option == PATH else ''}.",
                {"table": self.table, "key": option},
            )

    def root(self, location: str | None) -> Location | None:
        """Return the directory that the property ``path`` or the table's LOCATION names, None without both.

        The property ``filename`` is not appended.

        Raises:
            InvalidInputError: ``path`` is not valid for a store, or names another directory than LOCATION.
        """
        there = None if location is None else Location.parse(location)
        if self.path is None:
            return there
        path = self._parsed(self.path)
        if there is not None and there != path:
            raise InvalidInputError(
                f"Table {self.table} has the LOCATION {there} and the property {PATH!r} = {self.path!r}, which is "
                "another place. Give one of them.",
                {"table": self.table, "location": str(there)},
            )
        return path

    def below(self, root: Location) -> Location:
        """Return the directory of the partitions: ``filename`` below the root, if that property is set, else the root.

        Raises:
            InvalidInputError: ``filename`` is not a valid directory name, or the path is longer than a key may be.
        """
        place = root
        if self.filename is not None:
            if _REFUSED.search(self.filename) or not self.filename.strip("/") or self.filename[0] in "_.":
                raise self._invalid(FILENAME, self.filename, "it is not the name of a directory that readers see")
            place = root.join(self.filename)
        if len(place.key.encode()) > _LONGEST_KEY:
            raise self._invalid(PATH, place.key[:80], f"it is longer than {_LONGEST_KEY} bytes")
        return place

    def _parsed(self, path: str) -> Location:
        refused = _REFUSED.search(path)
        if refused:
            raise self._invalid(PATH, path, f"it has the character {refused.group()!r}")
        try:
            return Location.parse(path)
        except InvalidInputError as error:
            raise self._invalid(PATH, path, error.message) from error

    def _invalid(self, key: str, value: str, why: str) -> InvalidInputError:
        return InvalidInputError(
            f"Invalid S3 key in the property {key!r} of table {self.table}, {value[:200]!r}: {why}. "
            "Write s3a://bucket/prefix.",
            {"table": self.table, "key": key, "value": value[:200]},
        )


def placed(
    definition: TableDefinition, location: str | None, default: Callable[[], str]
) -> tuple[TableDefinition, Location]:
    """Return the definition with the changes that its strategy requires, and the table's location.

    ``location`` is the user's LOCATION, if any; ``default`` returns the location of a managed table without one.

    Raises:
        InvalidInputError: The strategy does not allow the table's columns or properties.
    """
    strategy = Strategy.of(str(definition.identifier), definition.properties)
    strategy.check(definition)
    root = strategy.root(location)
    place = strategy.below(root or Location.parse(default()))
    # A table with the property ``path`` is external, like a table with LOCATION: dropping it keeps its files.
    kind = TableType.EXTERNAL if strategy.path is not None else definition.table_type
    return replace(definition, table_type=kind), place


def check_registered(definition: TableDefinition) -> TableDefinition:
    """Check an existing table's definition against its strategy; return it, with NOT NULL keys for ``hive``.

    Raises:
        InvalidInputError: The strategy does not allow its columns or properties.
    """
    strategy = Strategy.of(str(definition.identifier), definition.properties)
    if not strategy.is_hive:
        strategy.check(definition)
        return definition
    keys = tuple(replace(key, nullable=False) for key in definition.partition_columns)
    checked = replace(definition, partition_columns=keys)
    strategy.check(checked)
    return checked


def check_alteration(definition: TableDefinition, set_: Mapping[str, str], remove: Sequence[str]) -> None:
    """Check that the strategy's properties may be set and removed.

    Raises:
        InvalidInputError: The strategy would not allow the table's columns, or files would have to move.
    """
    changed = {key.lower() for key in (*set_, *remove)}
    if not changed & {STRATEGY, IN_DATA_FILE, PATH, FILENAME}:
        return
    table = str(definition.identifier)
    for key in (PATH, FILENAME):
        if key in changed and Strategy.of(table, definition.properties).is_hive:
            raise InvalidConfigurationError(
                f"The property {key!r} of table {table} said where the table was to lie when it was created, and its "
                "files are there. It cannot be altered.",
                {"table": table, "key": key},
            )
    kept = {key: value for key, value in definition.properties.items() if key.lower() not in changed}
    Strategy.of(table, kept | dict(set_)).check(definition)


def check_reachable(
    storage: Storage, definition: TableDefinition, location: str | Location, *, write: bool = False
) -> None:
    """Ask the store for the table's location, so that a wrong bucket is reported before any row is written.

    Only a table on S3 under the strategy ``hive`` is checked. With ``write``, write access is checked too.

    Raises:
        StorageError, NotFoundError: The bucket does not exist, or may not be read or written.
    """
    table = str(definition.identifier)
    place = Location.parse(location) if isinstance(location, str) else location
    if place.scheme != "s3a" or not Strategy.of(table, definition.properties).is_hive:
        return
    try:
        if write:
            storage.uploads_to(place).check_writable(place)
        else:
            # Check the bucket only: the table's own prefix does not exist before its first file.
            storage.check_directory(Location(place.scheme, place.bucket, ""))
    except (StorageError, NotFoundError) as error:
        what = f"The location {place} of table {table} cannot be {'written to' if write else 'used'}"
        raise error.about(f"{what} (Failed to check existence of a key)", {"table": table}) from error
