"""The index: every partition and file of every table, in a SQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.lazy_names import lazily

if TYPE_CHECKING:
    from catalog_ext.metastore.index.index import Index
    from catalog_ext.metastore.index.read.file_lifetime import EndedFile
    from catalog_ext.metastore.index.read.history import CHANGES_SCHEMA, HISTORY_SCHEMA, TRANSACTIONS_SCHEMA
    from catalog_ext.metastore.index.read.overviews import (
        CommitCount,
        GrowthPosition,
        HistoryEvent,
        Overviews,
        Size,
        SizeClass,
        SmallFiles,
    )
    from catalog_ext.metastore.index.read.partition_groups import WantedGroups
    from catalog_ext.metastore.index.read.partition_map import (
        FOR_EVER,
        ISO,
        Axis,
        Bounds,
        Cell,
        DateForm,
        Unit,
        form_of,
        has_column,
    )
    from catalog_ext.metastore.index.read.partitions import PARTITION_SCHEMA
    from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
    from catalog_ext.metastore.index.read.table_list import Pending, TableListing, TableOrder, TableSummary
    from catalog_ext.metastore.index.tables.tables import TableVersion
    from catalog_ext.metastore.index.write.repairs import Verifications, Verified
    from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
    from catalog_ext.metastore.index.write.waiting_files import WaitingFiles

__all__ = [
    "CHANGES_SCHEMA",
    "FOR_EVER",
    "HISTORY_SCHEMA",
    "ISO",
    "PARTITION_SCHEMA",
    "PLAN_SCHEMA",
    "TRANSACTIONS_SCHEMA",
    "ApplicationVersion",
    "Axis",
    "Bounds",
    "Cell",
    "CommitCount",
    "DateForm",
    "EndedFile",
    "GrowthPosition",
    "HistoryEvent",
    "Index",
    "Overviews",
    "Pending",
    "Size",
    "SizeClass",
    "SmallFiles",
    "TableListing",
    "TableOrder",
    "TableSummary",
    "TableVersion",
    "Unit",
    "Verifications",
    "Verified",
    "WaitingFiles",
    "WantedGroups",
    "form_of",
    "has_column",
]

# Names are resolved at their first use: an import of one module does not load all, and pyarrow with them.
_HOMES = {
    "CHANGES_SCHEMA": "read.history",
    "FOR_EVER": "read.partition_map",
    "HISTORY_SCHEMA": "read.history",
    "ISO": "read.partition_map",
    "PARTITION_SCHEMA": "read.partitions",
    "PLAN_SCHEMA": "read.planned_files",
    "TRANSACTIONS_SCHEMA": "read.history",
    "ApplicationVersion": "write.transaction_rows",
    "Axis": "read.partition_map",
    "Bounds": "read.partition_map",
    "Cell": "read.partition_map",
    "CommitCount": "read.overviews",
    "DateForm": "read.partition_map",
    "EndedFile": "read.file_lifetime",
    "HistoryEvent": "read.overviews",
    "Index": "index",
    "Overviews": "read.overviews",
    "Pending": "read.table_list",
    "GrowthPosition": "read.overviews",
    "Size": "read.overviews",
    "SizeClass": "read.overviews",
    "SmallFiles": "read.overviews",
    "TableListing": "read.table_list",
    "TableOrder": "read.table_list",
    "TableSummary": "read.table_list",
    "TableVersion": "tables.tables",
    "Unit": "read.partition_map",
    "Verifications": "write.repairs",
    "Verified": "write.repairs",
    "WaitingFiles": "write.waiting_files",
    "WantedGroups": "read.partition_groups",
    "form_of": "read.partition_map",
    "has_column": "read.partition_map",
}
__getattr__ = lazily(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
