"""Checks where a table is to lie."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, LocationNotFoundError
from catalog_ext.metastore.model.tables import TableDefinition, TableType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.storage.store import Storage


class TableOverlapWarning(UserWarning):
    """An external table lies at, in or around the location of another table."""


def check_location(storage: Storage, location: str, *, may_be_empty: bool) -> None:
    """Return if a table can lie at the location.

    Raises:
        LocationNotFoundError: Nothing lies there, or a file.
        StorageError: It cannot be read.
    """
    try:
        storage.check_directory(location)
    except LocationNotFoundError:
        # On S3 a prefix without keys is no different from one that is not there: fine where an empty table is.
        if not may_be_empty or storage.store_has_directories(location) or storage.stat(location) is not None:
            raise


def warn_of_overlap(definition: TableDefinition, others: Sequence[TableIdentifier]) -> None:
    """Warn that an external table shares its location; refuse it for a managed one.

    Raises:
        InvalidInputError: The table is managed: dropping it would delete the other's files.
    """
    if not others:
        return
    names = ", ".join(str(o) for o in others[:5])
    if definition.table_type is TableType.MANAGED:
        raise InvalidInputError(
            f"The managed table {definition.identifier} cannot lie at {definition.location}: the location is that "
            "of, in "
            f"or around {names}. Choose another location.",
            {"table": str(definition.identifier), "location": definition.location},
        )
    warnings.warn(
        f"Table {definition.identifier} at {definition.location} shares files with {names}.",
        TableOverlapWarning,
        stacklevel=4,
    )
