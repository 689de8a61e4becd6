"""Errors of names that name nothing, of names that are taken, and of namespaces that are in use."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


class NotFoundError(CatalogExtError):
    """Something of that name is not there.

    Remedy: Look at the name; the message lists those there are.
    """

    code = "CATALOG_EXT_NOT_FOUND"
    sqlstate = "42704"
    kind = ErrorKind.ANALYSIS


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
    sqlstate = "42P01"


class ColumnNotFoundError(NotFoundError):
    """The table has no column or field of that name.

    Remedy: Correct the name; DESCRIBE lists those there are.
    """

    code = "CATALOG_EXT_COLUMN_NOT_FOUND"
    sqlstate = "42703"


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
    sqlstate = "42710"
    kind = ErrorKind.ANALYSIS


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
    sqlstate = "42P07"


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
    sqlstate = "42000"
    kind = ErrorKind.ANALYSIS
