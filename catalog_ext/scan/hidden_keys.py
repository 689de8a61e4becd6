"""Directories on S3 that an object of their name hides.

S3 lists ``t/k=1`` and ``t/k=1/file`` beside each other. MinIO and some other stores keep such objects as files in
directories, and list nothing below the first one: ``aws s3 cp file s3://bucket/t/k=1``, without the slash at the end,
lets a partition disappear. Its files are still there, so that nothing is concluded from such a listing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import LocationNotFoundError, StorageError
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.metastore.storage.store import Storage

_HIDES = (
    "an object has the name of this directory: MinIO and some other stores list nothing that lies below such an "
    "object. Rename or delete the object, then repair"
)


def hidden(storage: Storage, location: str) -> CatalogExtError | None:
    """Return the error of a directory without keys on S3 that an object of its name may hide; None without one.

    One request (HEAD) on S3.

    Args:
        storage: The stores.
        location: A directory whose listing is empty.
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
    """Return why a listing of a directory on S3 says nothing, whose name an object has; None where it shows keys."""
    try:
        storage.list_directory(location)
    except LocationNotFoundError:
        return _HIDES
    except StorageError as error:
        return error.message
    return None
