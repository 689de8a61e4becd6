"""Checks the location of a new table: it exists, its pattern is valid, and it does not overlap other tables."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    LocationNotFoundError,
    TableAlreadyExistsError,
)
from catalog_ext.metastore.model.tables import LOCATION_WILDCARDS_PROPERTY, TableDefinition, TableType
from catalog_ext.metastore.storage.locations import Location, canonical_location, locations_equal
from catalog_ext.metastore.storage.patterns import has_wildcards
from catalog_ext.scan.location_pattern import LocationPattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.identity.warehouse_mark import WarehouseMarks
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.storage.store import Storage


class TableOverlapWarning(UserWarning):
    """An external table lies at, in or around the location of another table."""


def check_location(storage: Storage, location: str, *, may_be_empty: bool) -> None:
    """Check that a table can have this location.

    Raises:
        LocationNotFoundError: Nothing exists at the location, or a file.
        StorageError: The location cannot be read.
    """
    try:
        storage.check_directory(location)
    except LocationNotFoundError:
        # On S3 a prefix without objects looks like a missing one. That is fine where an empty table is allowed.
        if not may_be_empty or storage.store_has_directories(location) or storage.stat(location) is not None:
            raise


def located(table: TableIdentifier, location: str, properties: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    r"""Return the canonical location of a new table, and its properties, which say whether the location has wildcards.

    In a pattern a backslash before a wildcard character makes it an ordinary character.

    Raises:
        InvalidInputError: The location or its pattern cannot be parsed.
        InvalidConfigurationError: The properties say that the location has wildcards, and it has none.
    """
    kept = {key: text for key, text in properties.items() if key.lower() != LOCATION_WILDCARDS_PROPERTY}
    if has_wildcards(location):
        pattern = LocationPattern.parse(location)
        if pattern.literal is None:
            return pattern.text, {**kept, LOCATION_WILDCARDS_PROPERTY: "true"}
        return str(pattern.literal), kept
    if len(kept) < len(properties):
        raise InvalidConfigurationError(
            f"Table {table} has the property {LOCATION_WILDCARDS_PROPERTY!r}, and its location {location[:200]!r} has "
            "no wildcards. Leave the property out.",
            {"table": str(table), "key": LOCATION_WILDCARDS_PROPERTY},
        )
    return canonical_location(location), kept


def check_hides_no_table(table: str, location: str | None, other_location: str | None) -> None:
    """Check that Spark's session catalog has no table of this name elsewhere, which the new table would hide.

    ``location`` is the new table's location, ``other_location`` that of the session catalog's table; None: without a
    location.

    Raises:
        TableAlreadyExistsError: The session catalog's table has another location.
    """
    if not locations_equal(location, other_location):
        raise TableAlreadyExistsError(
            f"The session's own catalog has a table {table} already, at {other_location or 'no location'}, which the "
            "registered one would hide. Give that location, or choose another name.",
            {"table": table, "session_location": other_location or ""},
        )


def warn_of_other_index(marks: WarehouseMarks, definition: TableDefinition) -> None:
    """Warn if a new table lies in the warehouse of another index. A managed table marks its own index's warehouse."""
    pattern = LocationPattern.of(definition)
    # The matches of a pattern lie below its root. If the root is the warehouse, they lie in the warehouse.
    place = Location.parse(definition.location) if pattern is None else pattern.root.join("*")
    if definition.table_type is TableType.MANAGED:
        marks.claim(place)
    else:
        marks.look(place)


def warn_of_overlap(definition: TableDefinition, others: Sequence[TableIdentifier]) -> None:
    """Warn if an external table's location overlaps another table's, and refuse it for a managed table.

    Raises:
        InvalidInputError: The table is managed: dropping it would delete the other table's files.
    """
    if not others:
        return
    owners = ", ".join(str(o) for o in others[:5])
    if definition.table_type is TableType.MANAGED:
        raise InvalidInputError(
            f"The managed table {definition.identifier} cannot lie at {definition.location}: the location is that "
            "of, in "
            f"or around {owners}. Choose another location.",
            {"table": str(definition.identifier), "location": definition.location},
        )
    warnings.warn(
        f"Table {definition.identifier} at {definition.location} shares files with {owners}: a statement "
        "that would delete or move a file which two tables have is refused.",
        TableOverlapWarning,
        stacklevel=4,
    )


def warn_of_other_name_node(about: str, location: str, others: Iterable[str]) -> None:
    """Warn if a location on HDFS has the path of an existing table under a different host name of a name node.

    Locations are compared as texts. If both names mean the same HDFS (``namenode:8020`` and the name service), no
    statement notices that two tables share files. ``about`` names the new table or partition, ``others`` are the
    locations of existing tables.
    """
    if not location.startswith("hdfs:"):
        return
    place = Location.parse(location)
    for other in others:
        if not other.startswith("hdfs:") or has_wildcards(other):
            continue
        there = Location.parse(other)
        if there.bucket != place.bucket and there.overlaps(Location(there.scheme, there.bucket, place.key)):
            warnings.warn(
                f"{about} at {location} may share files with the table at {other}: if {place.bucket} and "
                f"{there.bucket} are one HDFS, an overwrite, a DROP or vacuum of one table deletes rows of the other. "
                "Use one name for both, best that of the name service.",
                TableOverlapWarning,
                stacklevel=4,
            )
            return
