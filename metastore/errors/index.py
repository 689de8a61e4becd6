"""Errors of the index database."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError


class IndexDatabaseError(CatalogExtError):
    """The index database refused a statement.

    Remedy: The message has the database's own words.
    """

    code = "CATALOG_EXT_INDEX_ERROR"
    sqlstate = "58000"


class IndexUnavailableError(IndexDatabaseError):
    """The index database does not answer, stays locked, is full, or takes no writes.

    Remedy: Start it, look at its address, make room, or let it be written; then run the statement again.
    """

    code = "CATALOG_EXT_INDEX_UNAVAILABLE"
    sqlstate = "08001"
    retryable = True


class IndexNotAtHeadError(IndexDatabaseError):
    """The index database's schema is of another release.

    Remedy: Run `catalog-ext migrate` with the newer release.
    """

    code = "CATALOG_EXT_INDEX_NOT_AT_HEAD"


class IndexRestoredError(IndexDatabaseError):
    """The index is older than what it once wrote: it was restored, copied, or its database failed over.

    It does not know the last commits, so that it recovers, vacuums, delivers and writes nothing; or a version or a
    table was asked for that belongs to another incarnation of the index.

    Remedy: Run `catalog-ext restored --dry-run`, then `catalog-ext restored`. A stream begins with a new checkpoint, a
    DataFrame is read again.
    """

    code = "CATALOG_EXT_INDEX_RESTORED"
