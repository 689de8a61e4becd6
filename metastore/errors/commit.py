"""Errors of the index database, of conflicts between writes, and of expired versions."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


class ConflictError(CatalogExtError):
    """Another process changed the same partitions first; this statement was undone and left nothing behind.

    Remedy: Run it again: it then sees the other process's changes.
    """

    code = "CATALOG_EXT_CONFLICT"
    sqlstate = "40001"
    kind = ErrorKind.ANALYSIS
    retryable = True


class TransactionStateError(CatalogExtError):
    """Another process ended this write: it recovered the write after its lease, or aborted it.

    Remedy: Run the statement again. If the write was only slow, raise `transaction.lease`.
    """

    code = "CATALOG_EXT_TRANSACTION_STATE"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class VersionExpiredError(CatalogExtError):
    """The table's version that a reader requested has expired.

    Remedy: Run the query again at the newest version; raise `vacuum.retention` for longer queries.
    """

    code = "CATALOG_EXT_VERSION_EXPIRED"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class CommitStateUnknownError(CatalogExtError):
    """The index did not answer whether the write is committed: the write may be committed, or may be committed later.

    Remedy: Do not repeat the write blindly: `CALL lake.system.recover` completes it, `t.history` shows it.
    """

    code = "CATALOG_EXT_COMMIT_STATE_UNKNOWN"
    sqlstate = "08007"


class PartitionPolicyError(CatalogExtError):
    """A partition-commit policy failed after the data was committed.

    Remedy: Correct the policy; the next commit of the partition runs it again.
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

    Remedy: The message quotes the database's error.
    """

    code = "CATALOG_EXT_INDEX_ERROR"
    sqlstate = "58000"


class IndexUnavailableError(IndexDatabaseError):
    """The index database does not answer, stays locked, is full, or is read-only.

    Remedy: Start it, check its address, free disk space, or allow writes to it; then run the statement again.
    """

    code = "CATALOG_EXT_INDEX_UNAVAILABLE"
    sqlstate = "08001"
    retryable = True


class IndexNotAtHeadError(IndexDatabaseError):
    """The schema of the index database belongs to another release.

    Remedy: Run `catalog-ext migrate` with the newer release.
    """

    code = "CATALOG_EXT_INDEX_NOT_AT_HEAD"


class IndexRestoredError(IndexDatabaseError):
    """The index is older than its own last commits: it was restored or copied, or its database failed over.

    The index has lost these commits, so nothing is recovered, vacuumed, delivered or written. The error is also raised
    if the requested version or table belongs to the index before the restore.

    Remedy: Run `catalog-ext restored --dry-run`, then `catalog-ext restored`. Start a stream with a new checkpoint, and
    read a DataFrame again.
    """

    code = "CATALOG_EXT_INDEX_RESTORED"
