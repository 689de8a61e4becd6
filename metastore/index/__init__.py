"""The index: every partition and file of every table, in a SQL database."""

from metastore.index.database import Index
from metastore.index.outbox import Delivery
from metastore.index.reader import PARTITION_SCHEMA, PLAN_SCHEMA
from metastore.index.tables import TableVersion
from metastore.index.transactions import ApplicationVersion, WaitingFiles

__all__ = ["PARTITION_SCHEMA", "PLAN_SCHEMA", "ApplicationVersion", "Delivery", "Index", "TableVersion", "WaitingFiles"]
