"""Errors of the store, of directories and files that do not fit together as a table, and of the Hive Metastore."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


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


class TableLayoutError(CatalogExtError):
    """The directories do not fit the partition columns, or a statement would delete or move another table's files.

    Remedy: Give the partition columns, or move the paths that the message lists. Where two tables have the same files,
    `overwrite-mode` = `relocate` keeps them, or SET LOCATION or `unregister_table` ends the sharing.
    """

    code = "CATALOG_EXT_TABLE_LAYOUT"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class PathLayoutError(TableLayoutError):
    """The files of an ad-hoc path disagree on their keys.

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
    """Two tables that must have equal columns and partition columns do not.

    Remedy: Alter one of them; the message names the first difference.
    """

    code = "CATALOG_EXT_SCHEMA_MISMATCH"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class RepairRefusedError(CatalogExtError):
    """A strict repair found paths that it would have to skip; nothing was changed.

    Remedy: Mend the paths that the report lists, or repair without strict.
    """

    code = "CATALOG_EXT_REPAIR_REFUSED"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class MassDropError(RepairRefusedError):
    """A repair would drop all that a table has, or more partitions than it may at once; nothing was changed.

    Remedy: Look whether the store is mounted and whole; if the partitions are gone for good, repair with
    `allow_mass_drop => true` (`--force` on the command line).
    """

    code = "CATALOG_EXT_MASS_DROP"


class MetastoreError(CatalogExtError):
    """The Hive Metastore failed a call.

    Remedy: The message has the metastore's own words; what is committed in the index stays so and is delivered
    later.
    """

    code = "CATALOG_EXT_METASTORE_ERROR"
    sqlstate = "58000"


class MetastoreUnavailableError(MetastoreError):
    """The Hive Metastore does not answer.

    Remedy: Start it, or look at its address; what is pending is delivered when it answers.
    """

    code = "CATALOG_EXT_METASTORE_UNAVAILABLE"
    sqlstate = "08001"
    retryable = True


class MetastoreReplacedError(MetastoreUnavailableError):
    """The Hive Metastore that answers is not the index's own: nothing is changed there.

    Remedy: Bring the old one back, or take the new one on: `catalog-ext adopt`, then `catalog-ext publish --all`.
    """

    code = "CATALOG_EXT_METASTORE_REPLACED"
    retryable = False


class MetastoreAccessError(MetastoreUnavailableError):
    """The Hive Metastore was reached, and its certificate or our Kerberos ticket does not do: no call was made.

    Remedy: The message says which, and the setting or command that mends it; what is pending is delivered then.
    """

    code = "CATALOG_EXT_METASTORE_ACCESS"
    sqlstate = "28000"
    retryable = False


class MetastoreRefusedError(MetastoreError):
    """The Hive Metastore answered, and said no.

    Remedy: Mend what the message names; `catalog-ext status` shows what is pending.
    """

    code = "CATALOG_EXT_METASTORE_REFUSED"


class HiveLockTimeoutError(MetastoreError):
    """Another holder kept a Hive lock on the table or partition that is written for longer than the timeout.

    Remedy: The message has who holds it. Run the statement again when that one is done, or raise `hive-locks.wait`.
    """

    code = "CATALOG_EXT_HIVE_LOCK_TIMEOUT"
    sqlstate = "40001"
    retryable = True


class HiveLockLostError(MetastoreError):
    """The metastore gave up a lock of ours before the write was committed; the write was undone.

    Remedy: Run the statement again. Raise Hive's `hive.txn.timeout` if signs of life come too late.
    """

    code = "CATALOG_EXT_HIVE_LOCK_LOST"
    sqlstate = "40001"
    retryable = True


class HiveLocksRefusedError(MetastoreRefusedError):
    """The metastore gives no locks, as one without the tables of locks does; the statement did nothing.

    Remedy: Make Hive's tables of transactions (its schematool does), or set `hive-locks` to `none`.
    """

    code = "CATALOG_EXT_HIVE_LOCKS_REFUSED"
