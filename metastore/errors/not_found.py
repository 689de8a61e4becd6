"""Errors for missing objects, for names that are in use, and for namespaces that are not empty."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


class NotFoundError(CatalogExtError):
    """No object of that name exists.

    Remedy: Check the name; the message lists existing ones.
    """

    code = "CATALOG_EXT_NOT_FOUND"
    sqlstate = "42704"
    kind = ErrorKind.ANALYSIS


class NamespaceNotFoundError(NotFoundError):
    """The namespace (database) does not exist.

    Remedy: Create it, or correct the name; SHOW NAMESPACES lists the existing ones.
    """

    code = "CATALOG_EXT_NAMESPACE_NOT_FOUND"


class TableNotFoundError(NotFoundError):
    """The table does not exist in the index.

    Remedy: Register, import or create it, or correct the name; SHOW TABLES lists the existing ones.
    """

    code = "CATALOG_EXT_TABLE_NOT_FOUND"
    sqlstate = "42P01"


class ColumnNotFoundError(NotFoundError):
    """The table has no column or field of that name.

    Remedy: Correct the name; DESCRIBE lists the existing columns.
    """

    code = "CATALOG_EXT_COLUMN_NOT_FOUND"
    sqlstate = "42703"


class ViewNotFoundError(NotFoundError):
    """There is no view of that name; there may be a table of that name.

    Remedy: Check the name: `SHOW VIEWS IN lake.namespace` lists the existing views.
    """

    code = "CATALOG_EXT_VIEW_NOT_FOUND"


class PartitionNotFoundError(NotFoundError):
    """No partition matches the specification.

    Remedy: SHOW PARTITIONS lists the existing ones; write IF EXISTS to accept a missing partition.
    """

    code = "CATALOG_EXT_PARTITION_NOT_FOUND"


class LocationNotFoundError(NotFoundError):
    """The location does not exist, or is a file instead of a directory.

    Remedy: Correct the path, or write the files first.
    """

    code = "CATALOG_EXT_LOCATION_NOT_FOUND"


class PathNotFoundError(LocationNotFoundError):
    """An ad-hoc path does not exist, or some of the paths in its lists and ranges do not.

    Remedy: Correct the path; the message lists every one that is missing.
    """

    code = "CATALOG_EXT_PATH_NOT_FOUND"


class TransactionNotFoundError(NotFoundError):
    """The write that a request belongs to is unknown.

    Remedy: Start the write again: the index has undone and deleted it, or it belongs to another index.
    """

    code = "CATALOG_EXT_TRANSACTION_NOT_FOUND"


class ProcedureNotFoundError(NotFoundError):
    """The catalog has no procedure of that name.

    Remedy: SHOW PROCEDURES IN the catalog lists them.
    """

    code = "CATALOG_EXT_PROCEDURE_NOT_FOUND"


class AlreadyExistsError(CatalogExtError):
    """The name is already in use.

    Remedy: Choose another name, or drop the object that has it.
    """

    code = "CATALOG_EXT_ALREADY_EXISTS"
    sqlstate = "42710"
    kind = ErrorKind.ANALYSIS


class NamespaceAlreadyExistsError(AlreadyExistsError):
    """The namespace (database) already exists.

    Remedy: Write IF NOT EXISTS, or choose another name.
    """

    code = "CATALOG_EXT_NAMESPACE_ALREADY_EXISTS"


class TableAlreadyExistsError(AlreadyExistsError):
    """The table's name is already in use, in the index or in the metastore.

    Remedy: Choose another name, drop or unregister the object that has it, or write IF NOT EXISTS.
    """

    code = "CATALOG_EXT_TABLE_ALREADY_EXISTS"
    sqlstate = "42P07"


class ColumnAlreadyExistsError(AlreadyExistsError):
    """The table already has a column or field of that name.

    Remedy: Choose another name; names that differ only in case are equal.
    """

    code = "CATALOG_EXT_COLUMN_ALREADY_EXISTS"


class ViewAlreadyExistsError(AlreadyExistsError):
    """A view already has that name.

    Remedy: Drop it first, or write CREATE OR REPLACE VIEW or IF NOT EXISTS.
    """

    code = "CATALOG_EXT_VIEW_ALREADY_EXISTS"


class PartitionAlreadyExistsError(AlreadyExistsError):
    """A partition with equal values already exists; nothing was changed.

    Remedy: Write IF NOT EXISTS, drop it first, or name other values.
    """

    code = "CATALOG_EXT_PARTITION_ALREADY_EXISTS"


class NamespaceNotEmptyError(CatalogExtError):
    """The namespace has tables or views.

    Remedy: Drop or unregister them first, or write CASCADE.
    """

    code = "CATALOG_EXT_NAMESPACE_NOT_EMPTY"
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS


class VersionNotFoundError(NotFoundError):
    """The table has no version of the number, or at the time, that a query names.

    Remedy: Choose a version that `t.history` lists.
    """

    code = "CATALOG_EXT_VERSION_NOT_FOUND"


class FilesLostError(CatalogExtError):
    """Files of the version that a statement names do not exist any more, or were changed; nothing was changed.

    An in-place overwrite, a DROP of a managed table's partition, a vacuum or another engine has deleted them.

    Remedy: Choose another version, or limit the statement by a condition to partitions that still have their files.
    """

    code = "CATALOG_EXT_FILES_LOST"
    sqlstate = "58000"
