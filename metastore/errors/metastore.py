"""Errors of the Hive Metastore."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError


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
