"""Errors of the index database, of writes that meet other writes, and of versions that are gone."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


class ConflictError(CatalogExtError):
    """Another process changed the same partitions first; this statement was undone and left nothing behind.

    Remedy: Run it again: it then sees what the other did.
    """

    code = "CATALOG_EXT_CONFLICT"
    sqlstate = "40001"
    kind = ErrorKind.ANALYSIS
    retryable = True


class TransactionStateError(CatalogExtError):
    """A write was ended by another process: recovered after its lease, or aborted.

    Remedy: Run the statement again; raise `transaction.lease` if its owner is slow.
    """

    code = "CATALOG_EXT_TRANSACTION_STATE"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class VersionExpiredError(CatalogExtError):
    """The version of the table that a reader wants is forgotten.

    Remedy: Run the query again at the newest version; raise `vacuum.retention` for longer queries.
    """

    code = "CATALOG_EXT_VERSION_EXPIRED"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class CommitStateUnknownError(CatalogExtError):
    """The index did not say whether the write is committed; it is, or will be, if it can.

    Remedy: Do not repeat it blindly: `CALL lake.system.recover` settles it, `t.history` shows it.
    """

    code = "CATALOG_EXT_COMMIT_STATE_UNKNOWN"
    sqlstate = "08007"


class PartitionPolicyError(CatalogExtError):
    """A partition-commit policy failed after the data was committed.

    Remedy: Mend the policy; the next commit of the partition runs it again.
    """

    code = "CATALOG_EXT_PARTITION_POLICY"
    sqlstate = "58000"


class StreamChangedError(CatalogExtError):
    """A stream's table changed in a way that its checkpoint cannot follow.

    Remedy: Start the query with a new checkpoint, or set the option that the message names.
    """

    code = "CATALOG_EXT_STREAM_CHANGED"
    sqlstate = "58000"


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
