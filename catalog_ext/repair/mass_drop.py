"""Refuses repairs that would drop so many partitions that the store is probably not available, or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import LocationNotFoundError
from catalog_ext.metastore.runtime.wording import counted

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.repair.options import RepairOptions
    from catalog_ext.scan.scratch import Scratch

_HOW_TO_GO_ON = (
    "Look whether the store is mounted and whole. If they are gone for good, allow it: --force on the command line, "
    "allow_mass_drop => true in CALL, allow_mass_drop=True in Python."
)


@dataclass(frozen=True, slots=True)
class Loss:
    """The partitions and files that a repair would remove from the index.

    Attributes:
        partitions: The number of partitions that would be dropped, or lose all their files.
        files: The files of these partitions; ``bytes`` is the sum of their sizes.
        here: The number of these partitions that lie below the table's location.
        registered: The number of registered partitions that were compared.
    """

    partitions: int
    files: int
    bytes: int
    here: int
    registered: int


def found_nothing(scratch: Scratch) -> bool:
    """Return whether the listing found no partition and no file.

    Call it before anything is removed from the listing.
    """
    found = "SELECT (SELECT count(*) FROM listed_partitions WHERE name <> '') + (SELECT count(*) FROM listed_files)"
    return not scratch.in_sync and scratch.count(found) == 0


def _is_empty(storage: Storage, location: str) -> bool:
    """Return whether a location has no ``key=value`` directory directly below it.

    Raises:
        StorageError: The store refuses or does not answer.
    """
    try:
        return not any("=" in entry.location.name for entry in storage.list_directory(location))
    except LocationNotFoundError:
        return True


def refusal_of(loss: Loss, options: RepairOptions, storage: Storage, table: Table, *, nothing: bool) -> str | None:
    """Return why a repair must not drop so many partitions, with counts and a remedy; None if the drop is allowed.

    Args:
        loss: The partitions that would be dropped.
        options: The repair's options; a predicate or names limit the listing.
        storage: The stores. If a limited listing found nothing, the table's location is listed.
        table: The table.
        nothing: Whether the listing found nothing at all.

    Raises:
        StorageError: The store refuses or does not answer.
    """
    location = table.definition.location
    # In a table with wildcards every partition has an explicit location, so none counts as below the table. All of them
    # are listed by the pattern.
    here = loss.partitions if table.definition.has_wildcards else loss.here
    limited = options.is_limited
    # Partitions that were named are suspect, and most of them may be missing. So compare their number with all
    # partitions of the table.
    registered = loss.registered if options.names is None else max(loss.registered, table.totals.partitions)
    if here and nothing and not (limited and (table.definition.has_wildcards or not _is_empty(storage, location))):
        reason = f"because nothing of the table is left at {location}"
    elif not options.drop_limit.allows(loss.partitions, registered):
        reason = f"more than the {options.drop_limit.percent} % that it may drop at once"
    else:
        return None
    lost = f"{loss.partitions:,} of {registered:,} registered partitions, with {counted(loss.files, 'file')}"
    return f"it would drop {lost}, {reason}. {_HOW_TO_GO_ON}"
