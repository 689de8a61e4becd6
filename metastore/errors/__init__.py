"""The error tree of catalog-ext.

Every error that a user can meet is one of these; each has a stable ``code`` and says whether the same call may be
tried again (``retryable``), whether it is an error of analysis or of running (``kind``), and what its SQLSTATE is
(``sqlstate``). The service sends these, ``message`` and ``parameters`` as they are, and the connector raises the Spark
exception that they name. A class's docstring says what the error means and what to do (``Remedy: …``): the
reference in ``docs/errors.md`` is made of them.

::

    CatalogExtError
    ├── InvalidInputError                 the caller's argument is wrong
    │   ├── InvalidIdentifierError
    │   ├── InvalidPartitionNameError
    │   ├── InvalidPartitionSpecError     a PARTITION clause that does not fit its table
    │   ├── InvalidPredicateError
    │   ├── InvalidTypeError
    │   ├── InvalidValueError             a value that does not fit its type
    │   ├── InvalidConfigurationError
    │   ├── PartitionDescriptorError          a partition is not read as its table, and both would be mixed
    │   ├── OperationNotSupportedError    a statement of Spark that its table does not have
    │   ├── InvalidPatternError           a path with wildcards that cannot be read
    │   ├── InvalidAlterationError        a change of a table that its format or its kind does not allow
    │   ├── PartitionColumnAlterationError  one of a column whose values are in the directories' names
    │   ├── UnsupportedTypeChangeError    a type that the files which are there cannot be read as
    │   ├── AcidTableError                a transactional table of Hive
    │   ├── UnsupportedFormatError
    │   └── ViewError                     a statement that no view can take
    │       ├── ViewPartitionColumnNotFoundError
    │       ├── ViewPartitionColumnsNotLastError
    │       ├── ViewPartitionColumnOrderError
    │       ├── ViewPartitionColumnDuplicateError
    │       ├── ViewOnlyPartitionColumnsError
    │       ├── ViewPartitionColumnsChangedError
    │       ├── ViewPartitionLocationError
    │       └── ViewPartitionsAutomaticError
    ├── NotFoundError
    │   ├── NamespaceNotFoundError
    │   ├── TableNotFoundError
    │   ├── ColumnNotFoundError
    │   ├── ViewNotFoundError
    │   ├── PartitionNotFoundError
    │   ├── LocationNotFoundError
    │   │   └── PathNotFoundError         an ad-hoc path with nothing under it
    │   ├── TransactionNotFoundError
    │   └── ProcedureNotFoundError
    ├── AlreadyExistsError
    │   ├── NamespaceAlreadyExistsError
    │   ├── TableAlreadyExistsError
    │   ├── ColumnAlreadyExistsError
    │   ├── ViewAlreadyExistsError
    │   └── PartitionAlreadyExistsError
    ├── NamespaceNotEmptyError
    ├── TableLayoutError                  the directories are not what was promised
    │   └── PathLayoutError               files of one ad-hoc path with different keys
    ├── SchemaConflictError               files whose columns cannot be reconciled
    ├── SchemaMismatchError               two tables (or a view and its partitions) that must have equal columns
    ├── ConflictError                     another writer committed first         (retryable)
    ├── TransactionStateError             the transaction is no longer what the step needs, as when it was aborted
    ├── VersionExpiredError               vacuum has forgotten that version of the table
    ├── StreamChangedError                a stream cannot go on from its checkpoint
    ├── CommitStateUnknownError           the write may be committed, and will be if it can: never repeat it blindly
    ├── IndexDatabaseError
    │   ├── IndexUnavailableError         database gone or locked                (retryable)
    │   ├── IndexNotAtHeadError           schema is not the one this release wants
    │   └── IndexRestoredError            it was put back to an earlier time, or the version asked for was
    ├── StorageError
    │   ├── LocationNotAllowedError
    │   ├── StorageAccessDeniedError
    │   ├── StorageUnavailableError       throttled, timed out, unreachable      (retryable)
    │   ├── StagedFileMissingError        a written file is gone before it had its final name
    │   ├── WaitingFilesMissingError      files that an epoch of a stream has left waiting are gone
    │   └── IncompleteListingError
    ├── MetastoreError
    │   ├── MetastoreUnavailableError                                            (retryable)
    │   │   ├── MetastoreAccessError      a certificate or a Kerberos ticket does not do
    │   │   └── MetastoreReplacedError    another one answers; nothing is changed there
    │   ├── MetastoreRefusedError         it answered, and said no
    │   │   └── HiveLocksRefusedError     it gives no locks
    │   ├── HiveLockTimeoutError          another holder keeps a Hive lock       (retryable)
    │   └── HiveLockLostError             a lock of ours was given up            (retryable)
    ├── PartitionPolicyError              a partition-commit policy failed; the data is committed
    ├── RepairRefusedError                ``strict`` and something would be skipped
    │   └── MassDropError                 it would drop so much that the store is more likely to be away
    ├── ServiceError
    │   ├── UnauthorizedError
    │   └── ReadOnlyTokenError            the token of a session that only reads
    └── EnvironmentSetupError             Java, PySpark or a jar is missing or does not fit
"""

from __future__ import annotations

from catalog_ext.metastore.errors.commit import (
    CommitStateUnknownError,
    ConflictError,
    IndexDatabaseError,
    IndexNotAtHeadError,
    IndexRestoredError,
    IndexUnavailableError,
    PartitionPolicyError,
    StreamChangedError,
    TransactionStateError,
    VersionExpiredError,
)
from catalog_ext.metastore.errors.input import (
    AcidTableError,
    InvalidAlterationError,
    InvalidConfigurationError,
    InvalidIdentifierError,
    InvalidInputError,
    InvalidPartitionNameError,
    InvalidPartitionSpecError,
    InvalidPatternError,
    InvalidPredicateError,
    InvalidTypeError,
    InvalidValueError,
    OperationNotSupportedError,
    PartitionColumnAlterationError,
    PartitionDescriptorError,
    UnsupportedFormatError,
    UnsupportedTypeChangeError,
)
from catalog_ext.metastore.errors.metastore import (
    HiveLockLostError,
    HiveLocksRefusedError,
    HiveLockTimeoutError,
    MetastoreAccessError,
    MetastoreError,
    MetastoreRefusedError,
    MetastoreReplacedError,
    MetastoreUnavailableError,
)
from catalog_ext.metastore.errors.not_found import (
    AlreadyExistsError,
    ColumnAlreadyExistsError,
    ColumnNotFoundError,
    LocationNotFoundError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    NotFoundError,
    PartitionAlreadyExistsError,
    PartitionNotFoundError,
    PathNotFoundError,
    ProcedureNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TransactionNotFoundError,
    ViewAlreadyExistsError,
    ViewNotFoundError,
)
from catalog_ext.metastore.errors.root import (
    CatalogExtError,
    ErrorKind,
)
from catalog_ext.metastore.errors.service import (
    EnvironmentSetupError,
    ReadOnlyTokenError,
    ServiceError,
    UnauthorizedError,
)
from catalog_ext.metastore.errors.storage import (
    IncompleteListingError,
    LocationNotAllowedError,
    MassDropError,
    PathLayoutError,
    RepairRefusedError,
    SchemaConflictError,
    SchemaMismatchError,
    StagedFileMissingError,
    StorageAccessDeniedError,
    StorageError,
    StorageUnavailableError,
    TableLayoutError,
    WaitingFilesMissingError,
)
from catalog_ext.metastore.errors.views import (
    ViewError,
    ViewOnlyPartitionColumnsError,
    ViewPartitionColumnDuplicateError,
    ViewPartitionColumnNotFoundError,
    ViewPartitionColumnOrderError,
    ViewPartitionColumnsChangedError,
    ViewPartitionColumnsNotLastError,
    ViewPartitionLocationError,
    ViewPartitionsAutomaticError,
)

__all__ = [
    "AcidTableError", "AlreadyExistsError", "CatalogExtError", "ColumnAlreadyExistsError", "ColumnNotFoundError",
    "CommitStateUnknownError", "ConflictError", "EnvironmentSetupError", "ErrorKind", "HiveLockLostError",
    "HiveLockTimeoutError", "HiveLocksRefusedError", "IncompleteListingError", "IndexDatabaseError",
    "IndexNotAtHeadError", "IndexRestoredError", "IndexUnavailableError", "InvalidAlterationError",
    "InvalidConfigurationError", "InvalidIdentifierError", "InvalidInputError", "InvalidPartitionNameError",
    "InvalidPartitionSpecError", "InvalidPatternError", "InvalidPredicateError", "InvalidTypeError",
    "InvalidValueError", "LocationNotAllowedError", "LocationNotFoundError", "MassDropError", "MetastoreAccessError",
    "MetastoreError", "MetastoreRefusedError", "MetastoreReplacedError", "MetastoreUnavailableError",
    "NamespaceAlreadyExistsError", "NamespaceNotEmptyError", "NamespaceNotFoundError", "NotFoundError",
    "OperationNotSupportedError", "PartitionAlreadyExistsError", "PartitionColumnAlterationError",
    "PartitionDescriptorError", "PartitionNotFoundError", "PartitionPolicyError", "PathLayoutError",
    "PathNotFoundError", "ProcedureNotFoundError", "ReadOnlyTokenError", "RepairRefusedError", "SchemaConflictError",
    "SchemaMismatchError", "ServiceError", "StagedFileMissingError", "StorageAccessDeniedError", "StorageError",
    "StorageUnavailableError", "StreamChangedError", "TableAlreadyExistsError", "TableLayoutError",
    "TableNotFoundError", "TransactionNotFoundError", "TransactionStateError", "UnauthorizedError",
    "UnsupportedFormatError", "UnsupportedTypeChangeError", "VersionExpiredError", "ViewAlreadyExistsError",
    "ViewError", "ViewNotFoundError", "ViewOnlyPartitionColumnsError", "ViewPartitionColumnDuplicateError",
    "ViewPartitionColumnNotFoundError", "ViewPartitionColumnOrderError", "ViewPartitionColumnsChangedError",
    "ViewPartitionColumnsNotLastError", "ViewPartitionLocationError", "ViewPartitionsAutomaticError",
    "WaitingFilesMissingError",
]  # fmt: skip
