"""Errors of the store that holds the files."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError


class StorageError(CatalogExtError):
    """The store failed an operation.

    Remedy: The message has the store's own words.
    """

    code = "CATALOG_EXT_STORAGE_ERROR"
    sqlstate = "58000"


class StorageAccessDeniedError(StorageError):
    """The store refuses these credentials.

    Remedy: Give credentials that may read (or write) the location.
    """

    code = "CATALOG_EXT_STORAGE_ACCESS_DENIED"
    sqlstate = "42501"


class LocationNotAllowedError(StorageError):
    """The service does not serve this location.

    Remedy: Add it, or a folder above it, to the service's setting `storage.allow`; the index, tokens, configuration and
    the metastore's folder are never served.
    """

    code = "CATALOG_EXT_LOCATION_NOT_ALLOWED"
    sqlstate = "42501"


class StorageUnavailableError(StorageError):
    """The store is throttling, timing out, or not reachable.

    Remedy: Run the statement again later; look at the endpoint.
    """

    code = "CATALOG_EXT_STORAGE_UNAVAILABLE"
    sqlstate = "08001"
    retryable = True


class StagedFileMissingError(StorageError):
    """A written file is gone before it got its final name; the write was undone.

    Remedy: Run it again; look for what deletes files of the staging directory.
    """

    code = "CATALOG_EXT_STAGED_FILE_MISSING"


class WaitingFilesMissingError(StorageError):
    """Files that an earlier epoch of a stream has left waiting are gone; nothing was written.

    Remedy: `catalog-ext discard-waiting TABLE` says what is lost, gives it up, and the query goes on when it is started
    again.
    """

    code = "CATALOG_EXT_WAITING_FILES_MISSING"


class IncompleteListingError(StorageError):
    """A listing ended before its end; nothing was concluded from what it had shown.

    Remedy: Run the command again.
    """

    code = "CATALOG_EXT_INCOMPLETE_LISTING"
