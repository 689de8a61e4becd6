"""Errors of directories and files that do not fit together as a table."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


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
