"""catalog-ext: Hive-style partitioned tables that plan like a modern table format, readable by every Hive engine."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog, connect
    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.metastore_sync.home import adopt
    from catalog_ext.repair.report import RepairReport, ReportEntry
    from catalog_ext.scan.observe import RepairProgress
    from catalog_ext.spark.session import configure, repair_partitions

__version__ = "0.1.0"

__all__ = [
    "Catalog",
    "CatalogExtError",
    "RepairProgress",
    "RepairReport",
    "ReportEntry",
    "adopt",
    "configure",
    "connect",
    "repair_partitions",
]

# Names are resolved at their first use: the command line and `python -m catalog_ext.metastore.runtime.java`, which runs
# before anything is installed, import this package and need none of them.
_HOMES = {
    "Catalog": "catalog_ext.catalog",
    "CatalogExtError": "catalog_ext.metastore.errors",
    "RepairProgress": "catalog_ext.scan.observe",
    "RepairReport": "catalog_ext.repair.report",
    "ReportEntry": "catalog_ext.repair.report",
    "adopt": "catalog_ext.metastore_sync.home",
    "configure": "catalog_ext.spark.session",
    "connect": "catalog_ext.catalog",
    "repair_partitions": "catalog_ext.spark.session",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
