"""The index: every partition and file of every table, in a SQL database."""

from catalog_ext.metastore.index.index import Index
from catalog_ext.metastore.index.read.changes import CHANGES_SCHEMA
from catalog_ext.metastore.index.read.ended_files import EndedFile
from catalog_ext.metastore.index.read.history import HISTORY_SCHEMA, TRANSACTIONS_SCHEMA
from catalog_ext.metastore.index.read.partition_groups import Wanted
from catalog_ext.metastore.index.read.reader import PARTITION_SCHEMA, PLAN_SCHEMA
from catalog_ext.metastore.index.tables.tables import TableVersion
from catalog_ext.metastore.index.write.transactions import ApplicationVersion
from catalog_ext.metastore.index.write.verifications import Verifications, Verified
from catalog_ext.metastore.index.write.waiting_files import WaitingFiles

__all__ = [
    "CHANGES_SCHEMA",
    "HISTORY_SCHEMA",
    "PARTITION_SCHEMA",
    "PLAN_SCHEMA",
    "TRANSACTIONS_SCHEMA",
    "ApplicationVersion",
    "EndedFile",
    "Index",
    "TableVersion",
    "Verifications",
    "Verified",
    "WaitingFiles",
    "Wanted",
]
