"""The error tree of catalog-ext.

Every error that a user can meet is one of these; each has a stable ``code`` and says whether the same call may be
tried again (``retryable``). The service sends ``code``, ``message`` and ``parameters`` as they are, and the connector
raises the matching Spark exception. A class's docstring says what the error means and what to do (``Remedy: …``): the
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
    │       ├── ViewNotPartitionedError
    │       ├── ViewPartitionLocationError
    │       ├── ViewPartitionSpecError
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
    """An error that nobody foresaw; the root of every error that catalog-ext raises on purpose.

    Remedy: look into the service's log for its traceback, and report it.

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
    """An argument is wrong, or two of them contradict each other.

    Remedy: Give what the message asks for.
    """

    code = "CATALOG_EXT_INVALID_INPUT"


class InvalidIdentifierError(InvalidInputError):
    """A text names no namespace or table.

    Remedy: Write `namespace.table`, with the catalog's name in front where SQL wants it; a namespace has one level.
    """

    code = "CATALOG_EXT_INVALID_IDENTIFIER"


class InvalidPartitionNameError(InvalidInputError):
    """A directory's path is no partition name of the table.

    Remedy: Name every key once, in the table's order: `ds=2025-01-01/region=eu`.
    """

    code = "CATALOG_EXT_INVALID_PARTITION_NAME"


class InvalidPartitionSpecError(InvalidInputError):
    """A PARTITION clause names a key that the table does not have, twice, without a value, or not all that it must.

    Remedy: Name the table's keys, each once: DESCRIBE TABLE shows them.
    """

    code = "CATALOG_EXT_INVALID_PARTITION_SPEC"


class InvalidPredicateError(InvalidInputError):
    """A condition is none over the table's partition columns.

    Remedy: Use comparisons, IN, LIKE, IS NULL, AND, OR and NOT over partition columns; the message says where it
    goes wrong.
    """

    code = "CATALOG_EXT_INVALID_PREDICATE"


class InvalidTypeError(InvalidInputError):
    """A type is not known, or cannot be what it is asked to be.

    Remedy: Write Spark's DDL name of a type; keys are of atomic types.
    """

    code = "CATALOG_EXT_INVALID_TYPE"


class InvalidValueError(InvalidInputError):
    """A value does not fit its column's type, or cannot stand in a path.

    Remedy: Give a value that Spark casts to the type, without the characters that the message names.
    """

    code = "CATALOG_EXT_INVALID_VALUE"


class InvalidConfigurationError(InvalidInputError):
    """A setting has a value that it may not have.

    Remedy: Set one of the values that the message lists; `docs/configuration.md` has every setting.
    """

    code = "CATALOG_EXT_INVALID_CONFIGURATION"


class InvalidPatternError(InvalidInputError):
    r"""An ad-hoc path is no pattern: a brace is not closed, or a range is none.

    Remedy: Close every `{`, give ranges as `{1..9}`, and escape a wildcard that is meant literally with `\\`.
    """

    code = "CATALOG_EXT_INVALID_PATTERN"


class InvalidAlterationError(InvalidInputError):
    """The table's format or kind does not allow the change.

    Remedy: Do what the message says, or write the table anew by CREATE TABLE ... AS.
    """

    code = "CATALOG_EXT_INVALID_ALTERATION"


class PartitionColumnAlterationError(InvalidInputError):
    """A change concerns a partition column, whose values are in the names of the directories.

    Remedy: Use the procedure `set_partition_columns`, or another name for a new data column.
    """

    code = "CATALOG_EXT_PARTITION_COLUMN_ALTERATION"


class UnsupportedTypeChangeError(InvalidInputError):
    """Files that are there cannot be read as the new type.

    Remedy: Choose a wider type, add a new column, or write the table anew by CREATE TABLE ... AS.
    """

    code = "CATALOG_EXT_UNSUPPORTED_TYPE_CHANGE"


class AcidTableError(InvalidInputError):
    """A table is to be one of Hive's transactional (ACID) tables.

    Remedy: Leave the property `transactional` out, or set it to 'false'.
    """

    code = "CATALOG_EXT_ACID_TABLE"


class UnsupportedFormatError(InvalidInputError):
    """The file format is none that catalog-ext reads or writes.

    Remedy: Use parquet, orc, csv, json or text.
    """

    code = "CATALOG_EXT_UNSUPPORTED_FORMAT"


class ViewError(InvalidInputError):
    """A statement that the view cannot take.

    Remedy: See the message: it says what the view is and what it takes.
    """

    code = "CATALOG_EXT_INVALID_VIEW"


class ViewPartitionColumnNotFoundError(ViewError):
    """PARTITIONED ON names a column that the view's query does not have.

    Remedy: Name columns of the query; a virtual partition column must be named in the SELECT list.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMN_NOT_FOUND"


class ViewPartitionColumnsNotLastError(ViewError):
    """PARTITIONED ON names columns that are not the last ones of the view.

    Remedy: Select the partition columns last.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMNS_NOT_LAST"


class ViewPartitionColumnOrderError(ViewError):
    """PARTITIONED ON names the last columns of the view in another order.

    Remedy: Name them in the order in which they are selected.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMN_ORDER"


class ViewPartitionColumnDuplicateError(ViewError):
    """PARTITIONED ON names a column twice.

    Remedy: Name each column once.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMN_DUPLICATE"


class ViewOnlyPartitionColumnsError(ViewError):
    """PARTITIONED ON names all columns of the view.

    Remedy: Leave at least one column that is no partition column.
    """

    code = "CATALOG_EXT_VIEW_ONLY_PARTITION_COLUMNS"


class ViewPartitionColumnsChangedError(ViewError):
    """A view with partitions is to be replaced by one with other partition columns.

    Remedy: Drop its partitions first, or keep names, types and order of its partition columns.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMNS_CHANGED"


class ViewNotPartitionedError(ViewError):
    """A partition command names a view that has no partition columns.

    Remedy: Create the view with PARTITIONED ON.
    """

    code = "CATALOG_EXT_VIEW_NOT_PARTITIONED"


class ViewPartitionLocationError(ViewError):
    """A partition of a view is to have a location.

    Remedy: Leave LOCATION out: a view has no files.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_LOCATION"


class ViewPartitionSpecError(ViewError):
    """A partition specification does not fit the view's partition columns.

    Remedy: Name each partition column once with a value; DROP PARTITION may leave some out.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_SPEC"


class ViewPartitionsAutomaticError(ViewError):
    """A partition is to be added to or dropped from a view whose partitions come by themselves.

    Remedy: Take the property `partition.auto` away first.
    """

    code = "CATALOG_EXT_VIEW_PARTITIONS_AUTOMATIC"


class NotFoundError(CatalogExtError):
    """Something of that name is not there.

    Remedy: Look at the name; the message lists those there are.
    """

    code = "CATALOG_EXT_NOT_FOUND"


class NamespaceNotFoundError(NotFoundError):
    """The namespace (database) does not exist.

    Remedy: Create it, or correct the name; SHOW NAMESPACES lists those there are.
    """

    code = "CATALOG_EXT_NAMESPACE_NOT_FOUND"


class TableNotFoundError(NotFoundError):
    """The table does not exist in the index.

    Remedy: Register, import or create it, or correct the name; SHOW TABLES lists those there are.
    """

    code = "CATALOG_EXT_TABLE_NOT_FOUND"


class ColumnNotFoundError(NotFoundError):
    """The table has no column or field of that name.

    Remedy: Correct the name; DESCRIBE lists those there are.
    """

    code = "CATALOG_EXT_COLUMN_NOT_FOUND"


class ViewNotFoundError(NotFoundError):
    """There is no view of that name; a table may have it.

    Remedy: Look at the name: `SHOW VIEWS IN lake.namespace` lists the views there are.
    """

    code = "CATALOG_EXT_VIEW_NOT_FOUND"


class PartitionNotFoundError(NotFoundError):
    """No partition is what the specification says.

    Remedy: SHOW PARTITIONS lists those there are; say IF EXISTS where nothing need be there.
    """

    code = "CATALOG_EXT_PARTITION_NOT_FOUND"


class LocationNotFoundError(NotFoundError):
    """Nothing is at the location, or a file is where a directory should be.

    Remedy: Correct the path, or write the files first.
    """

    code = "CATALOG_EXT_LOCATION_NOT_FOUND"


class PathNotFoundError(LocationNotFoundError):
    """Nothing is at an ad-hoc path, or at some of the paths that its lists and ranges name.

    Remedy: Correct the path; the message lists every one that is missing.
    """

    code = "CATALOG_EXT_PATH_NOT_FOUND"


class TransactionNotFoundError(NotFoundError):
    """The write that a request belongs to is not known.

    Remedy: Begin it again: it was undone and forgotten, or belongs to another index.
    """

    code = "CATALOG_EXT_TRANSACTION_NOT_FOUND"


class ProcedureNotFoundError(NotFoundError):
    """The catalog has no procedure of that name.

    Remedy: SHOW PROCEDURES IN the catalog lists them.
    """

    code = "CATALOG_EXT_PROCEDURE_NOT_FOUND"


class AlreadyExistsError(CatalogExtError):
    """The name is taken.

    Remedy: Choose another name, or drop what has it.
    """

    code = "CATALOG_EXT_ALREADY_EXISTS"


class NamespaceAlreadyExistsError(AlreadyExistsError):
    """The namespace (database) exists.

    Remedy: Say IF NOT EXISTS, or choose another name.
    """

    code = "CATALOG_EXT_NAMESPACE_ALREADY_EXISTS"


class TableAlreadyExistsError(AlreadyExistsError):
    """The table's name is taken, here or in the metastore.

    Remedy: Choose another name, drop or unregister what has it, or say IF NOT EXISTS.
    """

    code = "CATALOG_EXT_TABLE_ALREADY_EXISTS"


class ColumnAlreadyExistsError(AlreadyExistsError):
    """The table has a column or field of that name already.

    Remedy: Choose another name; names differ by more than their case.
    """

    code = "CATALOG_EXT_COLUMN_ALREADY_EXISTS"


class ViewAlreadyExistsError(AlreadyExistsError):
    """A view has that name already.

    Remedy: Drop it first, or say CREATE OR REPLACE VIEW or IF NOT EXISTS.
    """

    code = "CATALOG_EXT_VIEW_ALREADY_EXISTS"


class PartitionAlreadyExistsError(AlreadyExistsError):
    """A partition of equal values is there; nothing was changed.

    Remedy: Say IF NOT EXISTS, drop it first, or name other values.
    """

    code = "CATALOG_EXT_PARTITION_ALREADY_EXISTS"


class NamespaceNotEmptyError(CatalogExtError):
    """The namespace has tables or views.

    Remedy: Drop or unregister them first, or say CASCADE.
    """

    code = "CATALOG_EXT_NAMESPACE_NOT_EMPTY"


class TableLayoutError(CatalogExtError):
    """The directories are not what the partition columns promise, or disagree on the keys.

    Remedy: Give the partition columns, or move the paths that the message lists.
    """

    code = "CATALOG_EXT_TABLE_LAYOUT"


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


class SchemaMismatchError(CatalogExtError):
    """Two tables that must have equal columns and partition columns do not.

    Remedy: Alter one of them; the message names the first difference.
    """

    code = "CATALOG_EXT_SCHEMA_MISMATCH"


class ConflictError(CatalogExtError):
    """Somebody else changed the same partitions first; this statement was undone and left nothing behind.

    Remedy: Run it again: it then sees what the other did.
    """

    code = "CATALOG_EXT_CONFLICT"
    retryable = True


class TransactionStateError(CatalogExtError):
    """A write was ended by somebody else: recovered after its lease, or aborted.

    Remedy: Run the statement again; raise `transaction.lease` if its owner is slow.
    """

    code = "CATALOG_EXT_TRANSACTION_STATE"


class VersionExpiredError(CatalogExtError):
    """The version of the table that a reader wants is forgotten.

    Remedy: Run the query again at the newest version; raise `vacuum.retention` for longer queries.
    """

    code = "CATALOG_EXT_VERSION_EXPIRED"


class CommitStateUnknownError(CatalogExtError):
    """The index did not say whether the write is committed; it is, or will be, if it can.

    Remedy: Do not repeat it blindly: `CALL lake.system.recover` settles it, `t.history` shows it.
    """

    code = "CATALOG_EXT_COMMIT_STATE_UNKNOWN"


class IndexDatabaseError(CatalogExtError):
    """The index database refused a statement.

    Remedy: The message has the database's own words.
    """

    code = "CATALOG_EXT_INDEX_ERROR"


class IndexUnavailableError(IndexDatabaseError):
    """The index database does not answer, or stays locked.

    Remedy: Start it, or look at its address; then run the statement again.
    """

    code = "CATALOG_EXT_INDEX_UNAVAILABLE"
    retryable = True


class IndexNotAtHeadError(IndexDatabaseError):
    """The index database's schema is of another release.

    Remedy: Run `catalog-ext migrate` with the newer release.
    """

    code = "CATALOG_EXT_INDEX_NOT_AT_HEAD"


class StorageError(CatalogExtError):
    """The store failed an operation.

    Remedy: The message has the store's own words.
    """

    code = "CATALOG_EXT_STORAGE_ERROR"


class StorageAccessDeniedError(StorageError):
    """The store refuses these credentials.

    Remedy: Give credentials that may read (or write) the location.
    """

    code = "CATALOG_EXT_STORAGE_ACCESS_DENIED"


class StorageUnavailableError(StorageError):
    """The store is throttling, timing out, or not reachable.

    Remedy: Run the statement again later; look at the endpoint.
    """

    code = "CATALOG_EXT_STORAGE_UNAVAILABLE"
    retryable = True


class StagedFileMissingError(StorageError):
    """A written file is gone before it got its final name; the write was undone.

    Remedy: Run it again; look for what deletes files of the staging directory.
    """

    code = "CATALOG_EXT_STAGED_FILE_MISSING"


class IncompleteListingError(StorageError):
    """A listing ended before its end; nothing was concluded from what it had shown.

    Remedy: Run the command again.
    """

    code = "CATALOG_EXT_INCOMPLETE_LISTING"


class MetastoreError(CatalogExtError):
    """The Hive Metastore failed a call.

    Remedy: The message has the metastore's own words; what is committed in the index stays so and is delivered
    later.
    """

    code = "CATALOG_EXT_METASTORE_ERROR"


class MetastoreUnavailableError(MetastoreError):
    """The Hive Metastore does not answer.

    Remedy: Start it, or look at its address; what is pending is delivered when it answers.
    """

    code = "CATALOG_EXT_METASTORE_UNAVAILABLE"
    retryable = True


class MetastoreRefusedError(MetastoreError):
    """The Hive Metastore answered, and said no.

    Remedy: Mend what the message names; `catalog-ext status` shows what is pending.
    """

    code = "CATALOG_EXT_METASTORE_REFUSED"


class PartitionPolicyError(CatalogExtError):
    """A partition-commit policy failed after the data was committed.

    Remedy: Mend the policy; the next commit of the partition runs it again.
    """

    code = "CATALOG_EXT_PARTITION_POLICY"


class RepairRefusedError(CatalogExtError):
    """A strict repair found paths that it would have to skip; nothing was changed.

    Remedy: Mend the paths that the report lists, or repair without strict.
    """

    code = "CATALOG_EXT_REPAIR_REFUSED"


class ServiceError(CatalogExtError):
    """The service of the catalog failed.

    Remedy: Look into its log.
    """

    code = "CATALOG_EXT_SERVICE_ERROR"


class UnauthorizedError(ServiceError):
    """The service does not know the token.

    Remedy: Give the token of `catalog-ext serve` by `token`, `token-file` or CATALOG_EXT_TOKEN.
    """

    code = "CATALOG_EXT_UNAUTHORIZED"


class EnvironmentSetupError(CatalogExtError):
    """Java, PySpark or a jar is missing or does not fit.

    Remedy: Install what the message names.
    """

    code = "CATALOG_EXT_ENVIRONMENT_SETUP"
