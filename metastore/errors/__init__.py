"""The error tree of catalog-ext.

Every error that a user can meet is one of these; each has a stable ``code`` and says whether the same call may be
tried again (``retryable``), whether it is an error of analysis or of running (``kind``), and what its SQLSTATE is
(``sqlstate``). The service sends these, ``message`` and ``parameters`` as they are, and the connector raises the Spark
exception that they name. A class's docstring says what the error means and what to do (``Remedy: …``): the
reference in ``docs/errors.md`` is made of them.
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
    EnvironmentSetupError,
    ErrorKind,
    ReadOnlyTokenError,
    ServiceError,
    UnauthorizedError,
)
from catalog_ext.metastore.errors.storage import (
    HiveLockLostError,
    HiveLocksRefusedError,
    HiveLockTimeoutError,
    IncompleteListingError,
    LocationNotAllowedError,
    MassDropError,
    MetastoreAccessError,
    MetastoreError,
    MetastoreRefusedError,
    MetastoreReplacedError,
    MetastoreUnavailableError,
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
