"""The index: every partition and file of every table, in a SQL database."""

from metastore.index.database import Index
from metastore.index.outbox import Delivery
from metastore.index.reader import PARTITION_SCHEMA, PLAN_SCHEMA
from metastore.index.tables import TableVersion
from metastore.index.transactions import ApplicationVersion, WaitingFiles
from metastore.index.versions import CHANGES_SCHEMA, ENDED_SCHEMA, HISTORY_SCHEMA, TRANSACTIONS_SCHEMA

__all__ = [
    "CHANGES_SCHEMA",
    "ENDED_SCHEMA",
    "HISTORY_SCHEMA",
    "PARTITION_SCHEMA",
    "PLAN_SCHEMA",
    "TRANSACTIONS_SCHEMA",
    "ApplicationVersion",
    "Delivery",
    "Index",
    "TableVersion",
    "WaitingFiles",
]
