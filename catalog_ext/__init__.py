"""catalog-ext: Hive-style partitioned tables that plan like a modern table format, readable by every Hive engine."""

from __future__ import annotations

from catalog_ext.catalog import Catalog, connect
from catalog_ext.repair.observe import RepairProgress
from catalog_ext.repair.report import RepairReport, ReportEntry
from catalog_ext.session import configure, repair_partitions
from metastore.errors import CatalogExtError

__all__ = [
    "Catalog",
    "CatalogExtError",
    "RepairProgress",
    "RepairReport",
    "ReportEntry",
    "configure",
    "connect",
    "repair_partitions",
]
