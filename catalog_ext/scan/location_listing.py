"""Lists single partition directories, each at its own location.

S3 lists ``t/k=1`` and ``t/k=1/file`` side by side. MinIO and some other stores keep objects as files in directories,
and cannot list below a key that is also an object: ``aws s3 cp file s3://bucket/t/k=1``, without the slash at the end,
makes a partition disappear. Its files still exist, so such a listing counts as failed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.errors import CatalogExtError, LocationNotFoundError, StorageError
from catalog_ext.metastore.index.database.texts import is_storable
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.ignored_names import IgnoredNames
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.scratch import Scratch

_ELSEWHERE_THREADS = 16

_Outcome: TypeAlias = "list[tuple[str, int, int, int | None]] | CatalogExtError | None"
"""The result of listing a directory: its files (name, size, time, ETag), or an error; None if it does not exist."""
_HIDES = (
    "an object has the name of this directory: MinIO and some other stores list nothing that lies below such an "
    "object. Rename or delete the object, then repair"
)


def report_elsewhere(scratch: Scratch) -> None:
    """Exclude directories whose partition is registered at another location from the comparison, and report them."""
    scratch.execute(
        "INSERT OR IGNORE INTO skipped"
        " SELECT l.name, l.name, NULL, NULL, 'the partition is registered at ' || i.location"
        " FROM listed_partitions l JOIN indexed_partitions i USING (name) WHERE i.location IS NOT NULL"
    )
    scratch.leave_out("SELECT name FROM indexed_partitions WHERE location IS NOT NULL", "listed")


def observe_elsewhere(storage: Storage, scratch: Scratch, ignored: IgnoredNames) -> None:
    """List the registered partitions with an explicit location, and add their files to the scratch database."""
    elsewhere = scratch.rows("SELECT name, location FROM indexed_partitions WHERE location IS NOT NULL ORDER BY name")
    list_locations(storage, elsewhere, scratch, ignored)


def list_locations(
    storage: Storage, partitions: Iterator[tuple[str, str]], scratch: Scratch, ignored: IgnoredNames
) -> None:
    """List partition directories into the scratch database. A missing directory is omitted, an error is recorded."""
    for name, outcome in _listed(storage, partitions, ignored):
        if isinstance(outcome, CatalogExtError):
            scratch.insert("failures", [(name, outcome.message)])
        elif outcome is not None:
            scratch.insert("listed_partitions", [(name,)])
            scratch.insert("listed_files", [(name, *file) for file in outcome])


def not_gone(storage: Storage, partitions: Iterator[tuple[str, str]]) -> set[str]:
    """Return the names of the partitions whose locations exist, or may exist because the listing failed."""
    return {name for name, outcome in _listed(storage, partitions, IgnoredNames()) if outcome is not None}


def _listed(
    storage: Storage, partitions: Iterator[tuple[str, str]], ignored: IgnoredNames
) -> Iterator[tuple[str, _Outcome]]:
    with ThreadPoolExecutor(_ELSEWHERE_THREADS) as pool:
        for chunk in batched(partitions, 256):
            outcomes = pool.map(lambda item: _list_location(storage, item[1], ignored), chunk)
            yield from ((name, outcome) for (name, _), outcome in zip(chunk, outcomes, strict=True))


def _list_location(storage: Storage, location: str, ignored: IgnoredNames) -> _Outcome:
    try:
        entries = storage.list_directory(location)
    except LocationNotFoundError as error:
        # Treat a missing bucket as an error, not as an empty listing: a wrong endpoint is more likely than so many
        # dropped partitions.
        return error if is_missing_bucket(error) else hidden(storage, location)
    except StorageError as error:
        return error
    files = [
        (e.location.name, e.size, e.modified_ms, e.etag)
        for e in entries
        if e.kind is EntryKind.FILE and not ignored.file(e.location.name) and is_storable(e.location.name)
    ]
    return files if files or storage.store_has_directories(location) else hidden(storage, location)


def hidden(storage: Storage, location: str) -> CatalogExtError | None:
    """Return an error if an object hides the directory on S3, because it has the directory's name; None otherwise.

    ``location`` is a directory whose listing is empty. The check costs one HEAD request on S3.
    """
    place = Location.parse(location)
    if place.scheme != "s3a" or not place.key:
        return None
    try:
        if storage.uploads_to(place).size(place) is None:
            return None
    except StorageError as error:
        return error
    return StorageError(f"Nothing is listed at {location}, and {_HIDES}.", {"location": location})


def why_hidden(storage: Storage, location: str) -> str | None:
    """Return why a directory's listing on S3 is incomplete: an object has the directory's name. Else None."""
    try:
        storage.list_directory(location)
    except LocationNotFoundError:
        return _HIDES
    except StorageError as error:
        return error.message
    return None
