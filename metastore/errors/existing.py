"""Errors of names that are taken, and of namespaces that are in use."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


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
