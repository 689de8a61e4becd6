"""Errors of statements about partitioned views."""

from __future__ import annotations

from catalog_ext.metastore.errors.input import InvalidInputError


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
    sqlstate = "42704"


class ViewPartitionColumnsNotLastError(ViewError):
    """PARTITIONED ON names columns that are not the last ones of the view.

    Remedy: Select the partition columns last.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMNS_NOT_LAST"
    sqlstate = "42000"


class ViewPartitionColumnOrderError(ViewError):
    """PARTITIONED ON names the last columns of the view in another order.

    Remedy: Name them in the order in which they are selected.
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

    Remedy: Leave at least one column that is no partition column.
    """

    code = "CATALOG_EXT_VIEW_ONLY_PARTITION_COLUMNS"
    sqlstate = "42000"


class ViewPartitionColumnsChangedError(ViewError):
    """A view with partitions is to be replaced by one with other partition columns.

    Remedy: Drop its partitions first, or keep names, types and order of its partition columns.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_COLUMNS_CHANGED"
    sqlstate = "42000"


class ViewPartitionLocationError(ViewError):
    """A partition of a view is to have a location.

    Remedy: Leave LOCATION out: a view has no files.
    """

    code = "CATALOG_EXT_VIEW_PARTITION_LOCATION"
    sqlstate = "42000"


class ViewPartitionsAutomaticError(ViewError):
    """A partition is to be added to or dropped from a view whose partitions come by themselves.

    Remedy: Take the property `partition.auto` away first.
    """

    code = "CATALOG_EXT_VIEW_PARTITIONS_AUTOMATIC"
    sqlstate = "42000"
