"""The error tree of catalog-ext.

Every error that a user can meet is one of these; each has a stable ``code`` and says whether the same call may be
tried again (``retryable``). The service sends ``code``, ``message`` and ``parameters`` as they are, and the connector
raises the matching Spark exception.

::

    CatalogExtError
    ├── InvalidInputError                 the caller's argument is wrong
    │   ├── InvalidIdentifierError
    │   ├── InvalidPartitionNameError
    │   ├── InvalidPredicateError
    │   ├── InvalidTypeError
    │   ├── InvalidValueError             a value that does not fit its type
    │   ├── InvalidConfigurationError
    │   └── UnsupportedFormatError
    ├── NotFoundError
    │   ├── NamespaceNotFoundError
    │   ├── TableNotFoundError
    │   ├── PartitionNotFoundError
    │   ├── LocationNotFoundError
    │   ├── TransactionNotFoundError
    │   └── ProcedureNotFoundError
    ├── AlreadyExistsError
    │   ├── NamespaceAlreadyExistsError
    │   ├── TableAlreadyExistsError
    │   └── PartitionAlreadyExistsError
    ├── NamespaceNotEmptyError
    ├── TableLayoutError                  the directories are not what was promised
    ├── SchemaConflictError               files whose columns cannot be reconciled
    ├── SchemaMismatchError               two tables (or a view and its partitions) that must have equal columns
    ├── ConflictError                     somebody else committed first          (retryable)
    ├── TransactionStateError             the transaction is no longer what the step needs, as when it was aborted
    ├── VersionExpiredError               vacuum has forgotten that version of the table
    ├── CommitStateUnknownError           the write may be committed, and will be if it can: never repeat it blindly
    ├── IndexDatabaseError
    │   ├── IndexUnavailableError         database gone or locked                (retryable)
    │   └── IndexNotAtHeadError           schema is not the one this release wants
    ├── StorageError
    │   ├── StorageAccessDeniedError
    │   ├── StorageUnavailableError       throttled, timed out, unreachable      (retryable)
    │   ├── StagedFileMissingError        a written file is gone before it had its final name
    │   └── IncompleteListingError
    ├── MetastoreError
    │   ├── MetastoreUnavailableError                                            (retryable)
    │   └── MetastoreRefusedError         it answered, and said no
    ├── PartitionPolicyError              a partition-commit policy failed; the data is committed
    ├── RepairRefusedError                ``strict`` and something would be skipped
    ├── ServiceError
    │   └── UnauthorizedError
    └── EnvironmentSetupError             Java, PySpark or a jar is missing or does not fit
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


class CatalogExtError(Exception):
    """The root of every error that catalog-ext raises on purpose.

    Args:
        message: The problem, the table and value it concerns, and the remedy, in one or two sentences.
        parameters: Values named in the message, for programs.
    """

    code: ClassVar[str] = "CATALOG_EXT_ERROR"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, parameters: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.parameters: dict[str, str] = dict(parameters or {})

    def about(self, what: str, parameters: Mapping[str, str]) -> Self:
        """The same error that says in front what it is about, with more parameters."""
        return type(self)(f"{what}: {self.message}", {**parameters, **self.parameters})


class InvalidInputError(CatalogExtError):
    code = "CATALOG_EXT_INVALID_INPUT"


class InvalidIdentifierError(InvalidInputError):
    code = "CATALOG_EXT_INVALID_IDENTIFIER"


class InvalidPartitionNameError(InvalidInputError):
    code = "CATALOG_EXT_INVALID_PARTITION_NAME"


class InvalidPredicateError(InvalidInputError):
    code = "CATALOG_EXT_INVALID_PREDICATE"


class InvalidTypeError(InvalidInputError):
    code = "CATALOG_EXT_INVALID_TYPE"


class InvalidValueError(InvalidInputError):
    code = "CATALOG_EXT_INVALID_VALUE"


class InvalidConfigurationError(InvalidInputError):
    code = "CATALOG_EXT_INVALID_CONFIGURATION"


class UnsupportedFormatError(InvalidInputError):
    code = "CATALOG_EXT_UNSUPPORTED_FORMAT"


class NotFoundError(CatalogExtError):
    code = "CATALOG_EXT_NOT_FOUND"


class NamespaceNotFoundError(NotFoundError):
    code = "CATALOG_EXT_NAMESPACE_NOT_FOUND"


class TableNotFoundError(NotFoundError):
    code = "CATALOG_EXT_TABLE_NOT_FOUND"


class PartitionNotFoundError(NotFoundError):
    code = "CATALOG_EXT_PARTITION_NOT_FOUND"


class LocationNotFoundError(NotFoundError):
    code = "CATALOG_EXT_LOCATION_NOT_FOUND"


class TransactionNotFoundError(NotFoundError):
    code = "CATALOG_EXT_TRANSACTION_NOT_FOUND"


class ProcedureNotFoundError(NotFoundError):
    code = "CATALOG_EXT_PROCEDURE_NOT_FOUND"


class AlreadyExistsError(CatalogExtError):
    code = "CATALOG_EXT_ALREADY_EXISTS"


class NamespaceAlreadyExistsError(AlreadyExistsError):
    code = "CATALOG_EXT_NAMESPACE_ALREADY_EXISTS"


class TableAlreadyExistsError(AlreadyExistsError):
    code = "CATALOG_EXT_TABLE_ALREADY_EXISTS"


class PartitionAlreadyExistsError(AlreadyExistsError):
    code = "CATALOG_EXT_PARTITION_ALREADY_EXISTS"


class NamespaceNotEmptyError(CatalogExtError):
    code = "CATALOG_EXT_NAMESPACE_NOT_EMPTY"


class TableLayoutError(CatalogExtError):
    code = "CATALOG_EXT_TABLE_LAYOUT"


class SchemaConflictError(CatalogExtError):
    code = "CATALOG_EXT_SCHEMA_CONFLICT"


class SchemaMismatchError(CatalogExtError):
    code = "CATALOG_EXT_SCHEMA_MISMATCH"


class ConflictError(CatalogExtError):
    code = "CATALOG_EXT_CONFLICT"
    retryable = True


class TransactionStateError(CatalogExtError):
    code = "CATALOG_EXT_TRANSACTION_STATE"


class VersionExpiredError(CatalogExtError):
    code = "CATALOG_EXT_VERSION_EXPIRED"


class CommitStateUnknownError(CatalogExtError):
    code = "CATALOG_EXT_COMMIT_STATE_UNKNOWN"


class IndexDatabaseError(CatalogExtError):
    code = "CATALOG_EXT_INDEX_ERROR"


class IndexUnavailableError(IndexDatabaseError):
    code = "CATALOG_EXT_INDEX_UNAVAILABLE"
    retryable = True


class IndexNotAtHeadError(IndexDatabaseError):
    code = "CATALOG_EXT_INDEX_NOT_AT_HEAD"


class StorageError(CatalogExtError):
    code = "CATALOG_EXT_STORAGE_ERROR"


class StorageAccessDeniedError(StorageError):
    code = "CATALOG_EXT_STORAGE_ACCESS_DENIED"


class StorageUnavailableError(StorageError):
    code = "CATALOG_EXT_STORAGE_UNAVAILABLE"
    retryable = True


class StagedFileMissingError(StorageError):
    code = "CATALOG_EXT_STAGED_FILE_MISSING"


class IncompleteListingError(StorageError):
    code = "CATALOG_EXT_INCOMPLETE_LISTING"


class MetastoreError(CatalogExtError):
    code = "CATALOG_EXT_METASTORE_ERROR"


class MetastoreUnavailableError(MetastoreError):
    code = "CATALOG_EXT_METASTORE_UNAVAILABLE"
    retryable = True


class MetastoreRefusedError(MetastoreError):
    code = "CATALOG_EXT_METASTORE_REFUSED"


class PartitionPolicyError(CatalogExtError):
    code = "CATALOG_EXT_PARTITION_POLICY"


class RepairRefusedError(CatalogExtError):
    code = "CATALOG_EXT_REPAIR_REFUSED"


class ServiceError(CatalogExtError):
    code = "CATALOG_EXT_SERVICE_ERROR"


class UnauthorizedError(ServiceError):
    code = "CATALOG_EXT_UNAUTHORIZED"


class EnvironmentSetupError(CatalogExtError):
    code = "CATALOG_EXT_ENVIRONMENT_SETUP"
