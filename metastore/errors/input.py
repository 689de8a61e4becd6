"""Errors in the caller's input: names, values, types, settings, changes, and statements on partitioned views."""

from __future__ import annotations

from catalog_ext.metastore.errors.root import CatalogExtError, ErrorKind


class InvalidInputError(CatalogExtError):
    """An argument is wrong, or two arguments contradict each other.

    Remedy: Correct the argument that the message names.
    """

    code = "CATALOG_EXT_INVALID_INPUT"
    sqlstate = "22023"
    kind = ErrorKind.ANALYSIS


class InvalidIdentifierError(InvalidInputError):
    """A text is not a valid name of a namespace or table.

    Remedy: Write `namespace.table`, with the catalog's name in front where SQL requires it; a namespace has one level.
    Column names have no comma, colon, semicolon, slash or backslash, also without a metastore: Hive engines cannot
    store all of these characters. Spark's own file tables allow them, so rename such columns (`toDF`, `AS`).
    """

    code = "CATALOG_EXT_INVALID_IDENTIFIER"


class InvalidPartitionNameError(InvalidInputError):
    """A directory's path is not a valid partition name of the table.

    Remedy: Name every key once, in the table's order: `ds=2025-01-01/region=eu`.
    """

    code = "CATALOG_EXT_INVALID_PARTITION_NAME"


class InvalidPartitionSpecError(InvalidInputError):
    """A PARTITION clause names an unknown or repeated column, a column without a value, or not all columns.

    Remedy: Name the partition columns of the table or view, each once: DESCRIBE shows them.
    """

    code = "CATALOG_EXT_INVALID_PARTITION_SPEC"


class InvalidPredicateError(InvalidInputError):
    """A condition is not valid over the table's partition columns.

    Remedy: Use comparisons, IN, LIKE, IS NULL, AND, OR and NOT over partition columns; the message names the wrong
    place.
    """

    code = "CATALOG_EXT_INVALID_PREDICATE"


class InvalidTypeError(InvalidInputError):
    """A type is unknown, or is not allowed for this column.

    Remedy: Write Spark's DDL name of a type; partition columns have atomic types, except intervals and strings with a
    collation.
    """

    code = "CATALOG_EXT_INVALID_TYPE"


class InvalidValueError(InvalidInputError):
    """A value does not fit its column's type, or cannot be part of a path.

    Remedy: Give a value that Spark casts to the type, without the characters that the message names.
    """

    code = "CATALOG_EXT_INVALID_VALUE"


class InvalidConfigurationError(InvalidInputError):
    """A setting has a value that is not allowed.

    Remedy: Set one of the values that the message lists; `docs/configuration.md` has every setting.
    """

    code = "CATALOG_EXT_INVALID_CONFIGURATION"


class OperationNotSupportedError(InvalidInputError):
    """Spark has this statement, but tables of catalog-ext do not support it.

    Remedy: The message says what to do instead.
    """

    code = "CATALOG_EXT_NOT_SUPPORTED"
    sqlstate = "0A000"


class PartitionDescriptorError(InvalidInputError):
    """The statement would mix the table's file format with the different file format of one of its partitions.

    Remedy: `INSERT OVERWRITE` the partition, which gives it the table's format.
    """

    code = "CATALOG_EXT_PARTITION_DESCRIPTOR"
    sqlstate = "0A000"


class InvalidPatternError(InvalidInputError):
    r"""An ad-hoc path is no valid pattern: a brace is not closed, or a range is malformed.

    Remedy: Close every `{`, give ranges as `{1..9}`, and escape a wildcard that is meant literally with `\\`.
    """

    code = "CATALOG_EXT_INVALID_PATTERN"


class InvalidAlterationError(InvalidInputError):
    """The table's format or kind does not allow the change.

    Remedy: Follow the message, or rewrite the table by CREATE TABLE ... AS.
    """

    code = "CATALOG_EXT_INVALID_ALTERATION"


class PartitionColumnAlterationError(InvalidInputError):
    """A change concerns a partition column, whose values are in the names of the directories.

    Remedy: Use the procedure `set_partition_columns`, or another name for a new data column.
    """

    code = "CATALOG_EXT_PARTITION_COLUMN_ALTERATION"
    sqlstate = "42000"


class UnsupportedTypeChangeError(InvalidInputError):
    """Existing files cannot be read as the new type.

    Remedy: Choose a wider type, add a new column, or rewrite the table by CREATE TABLE ... AS.
    """

    code = "CATALOG_EXT_UNSUPPORTED_TYPE_CHANGE"
    sqlstate = "42000"


class AcidTableError(InvalidInputError):
    """A statement would create one of Hive's transactional (ACID) tables.

    Remedy: Leave the property `transactional` out, or set it to 'false'.
    """

    code = "CATALOG_EXT_ACID_TABLE"
    sqlstate = "42000"


class UnsupportedFormatError(InvalidInputError):
    """catalog-ext neither reads nor writes the file format.

    Remedy: Use parquet, orc, csv, json or text.
    """

    code = "CATALOG_EXT_UNSUPPORTED_FORMAT"
    sqlstate = "42000"


class ViewError(InvalidInputError):
    """A view does not support the statement.

    Remedy: The message says what the view is and which statements it supports.
    """

    code = "CATALOG_EXT_INVALID_VIEW"


class ViewPartitionColumnNotFoundError(ViewError):
    """PARTITIONED ON names a column that the view's query does not have.

    Remedy: Name columns of the query; a virtual partition column must be named in the SELECT list.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMN_NOT_FOUND"
    sqlstate = "42704"


class ViewPartitionColumnsNotLastError(ViewError):
    """PARTITIONED ON names columns that are not the last ones of the view.

    Remedy: Select the partition columns last.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMNS_NOT_LAST"
    sqlstate = "42000"


class ViewPartitionColumnOrderError(ViewError):
    """PARTITIONED ON names the last columns of the view in another order.

    Remedy: Name the columns in the order in which they are selected.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMN_ORDER"
    sqlstate = "42000"


class ViewPartitionColumnDuplicateError(ViewError):
    """PARTITIONED ON names a column twice.

    Remedy: Name each column once.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMN_DUPLICATE"
    sqlstate = "42000"


class ViewOnlyPartitionColumnsError(ViewError):
    """PARTITIONED ON names all columns of the view.

    Remedy: Leave at least one column that is not a partition column.
    """

    code = "CATALOG_EXT_VIEW_ONLY_PARTITION_COLUMNS"
    sqlstate = "42000"


class ViewPartitionColumnsChangedError(ViewError):
    """A statement would replace a view that has partitions by a view with other partition columns.

    Remedy: Drop the view's partitions first, or keep names, types and order of its partition columns.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMNS_CHANGED"
    sqlstate = "42000"


class ViewPartitionLocationError(ViewError):
    """A statement gives a location to a partition of a view.

    Remedy: Leave LOCATION out: a view has no files.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_LOCATION"
    sqlstate = "42000"


class ViewPartitionsAutomaticError(ViewError):
    """A statement adds or drops a partition of a view whose partitions are computed automatically.

    Remedy: Remove the property `partition.auto` first.
    """

    code = "CATALOG_EXT_VIEW_PARTITIONS_AUTOMATIC"
    sqlstate = "42000"
