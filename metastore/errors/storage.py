"""Errors of the store, of files and directories that do not form a valid table, and of the Hive Metastore."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


class StorageError(CatalogExtError):
    """The store failed an operation.

    Remedy: The message quotes the store's error.
    """

    code = "CATALOG_EXT_STORAGE_ERROR"
    sqlstate = "58000"


class StorageAccessDeniedError(StorageError):
    """The store rejects the credentials, or they do not permit the operation.

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
    """The store throttles requests, times out, or is not reachable.

    Remedy: Run the statement again later; check the endpoint.
    """

    code = "CATALOG_EXT_STORAGE_UNAVAILABLE"
    sqlstate = "08001"
    retryable = True


class StagedFileMissingError(StorageError):
    """A written file disappeared before it got its final name; the write was undone.

    Remedy: Run it again; find out which process deletes files of the staging directory.
    """

    code = "CATALOG_EXT_STAGED_FILE_MISSING"


class WaitingFilesMissingError(StorageError):
    """Files that an earlier epoch of a stream stored for a later commit are missing; nothing was written.

    Remedy: `catalog-ext discard-waiting TABLE` lists the lost files and gives them up; then start the query again.
    """

    code = "CATALOG_EXT_WAITING_FILES_MISSING"


class IncompleteListingError(StorageError):
    """A listing ended before its end; the partial result was not used.

    Remedy: Run the command again.
    """

    code = "CATALOG_EXT_INCOMPLETE_LISTING"


class TableLayoutError(CatalogExtError):
    """The directories do not fit the partition columns, or a statement would delete or move another table's files.

    Remedy: Give the partition columns, or move the paths that the message lists. If two tables share files,
    `overwrite-mode` = `relocate` keeps the shared files, and SET LOCATION or `unregister_table` ends the sharing.
    """

    code = "CATALOG_EXT_TABLE_LAYOUT"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class PathLayoutError(TableLayoutError):
    """The files of an ad-hoc path have different partition keys.

    Remedy: Narrow the path to files with equal keys; the message shows paths that differ.
    """

    code = "CATALOG_EXT_PATH_LAYOUT"


class SchemaConflictError(CatalogExtError):
    """Files of one table have columns of types that cannot be reconciled.

    Remedy: Give the schema, or rewrite one of the files that the message names.
    """

    code = "CATALOG_EXT_SCHEMA_CONFLICT"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class SchemaMismatchError(CatalogExtError):
    """Two tables that must have equal columns and partition columns have different ones.

    Remedy: Alter one of them; the message names the first difference.
    """

    code = "CATALOG_EXT_SCHEMA_MISMATCH"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class RepairRefusedError(CatalogExtError):
    """A strict repair found paths that it would have to skip; nothing was changed.

    Remedy: Correct the paths that the report lists, or repair without strict.
    """

    code = "CATALOG_EXT_REPAIR_REFUSED"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class MassDropError(RepairRefusedError):
    """A repair or an expiry would drop all partitions of a table, or more than it may at once; nothing was changed.

    Remedy: Repair: check that the store is mounted and complete. Expiry: check the unit of the retention period
    (`90d`). If the partitions are to be dropped, run it again with `allow_mass_drop => true` (`--force` on the command
    line).
    """

    code = "CATALOG_EXT_MASS_DROP"


class MetastoreError(CatalogExtError):
    """A call of the Hive Metastore failed.

    Remedy: The message quotes the metastore's error; changes that are committed in the index stay, and are delivered
    later.
    """

    code = "CATALOG_EXT_METASTORE_ERROR"
    sqlstate = "58000"


class MetastoreUnavailableError(MetastoreError):
    """The Hive Metastore does not answer.

    Remedy: Start it, or check its address; pending messages are delivered when it answers.
    """

    code = "CATALOG_EXT_METASTORE_UNAVAILABLE"
    sqlstate = "08001"
    retryable = True


class MetastoreReplacedError(MetastoreUnavailableError):
    """The Hive Metastore that answers is not the one that belongs to the index; catalog-ext changes nothing in it.

    Remedy: Bring the old metastore back, or accept the new one: `catalog-ext adopt`, then `catalog-ext publish --all`.
    """

    code = "CATALOG_EXT_METASTORE_REPLACED"
    retryable = False


class MetastoreAccessError(MetastoreUnavailableError):
    """The Hive Metastore was reached, but its certificate or the client's Kerberos ticket is invalid: no call was made.

    Remedy: The message names the reason, and the setting or command that corrects it; pending messages are delivered
    then.
    """

    code = "CATALOG_EXT_METASTORE_ACCESS"
    sqlstate = "28000"
    retryable = False


class MetastoreRefusedError(MetastoreError):
    """The Hive Metastore answered with a refusal.

    Remedy: Correct what the message names; `catalog-ext status` shows pending messages.
    """

    code = "CATALOG_EXT_METASTORE_REFUSED"


class HiveLockTimeoutError(MetastoreError):
    """Another holder kept a Hive lock on the written table or partition for longer than the timeout.

    Remedy: The message names the holder. Run the statement again when the holder has ended, or raise `hive-locks.wait`.
    """

    code = "CATALOG_EXT_HIVE_LOCK_TIMEOUT"
    sqlstate = "40001"
    retryable = True


class HiveLockLostError(MetastoreError):
    """The metastore ended a lock of this write before the commit; the write was undone.

    Remedy: Run the statement again. Raise Hive's `hive.txn.timeout` if heartbeats come too late.
    """

    code = "CATALOG_EXT_HIVE_LOCK_LOST"
    sqlstate = "40001"
    retryable = True


class HiveLocksRefusedError(MetastoreRefusedError):
    """The metastore does not support locks, for example because its lock tables are missing; the statement did nothing.

    Remedy: Create Hive's transaction tables (with its schematool), or set `hive-locks` to `none`.
    """

    code = "CATALOG_EXT_HIVE_LOCKS_REFUSED"
