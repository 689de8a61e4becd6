"""catalog-ext: Hive-style partitioned tables that plan like a modern table format, readable by every Hive engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.display import use_display
from catalog_ext.metastore.runtime.lazy_names import lazily

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog, connect
    from catalog_ext.catalog_table import CatalogTable
    from catalog_ext.context import RepairProgress
    from catalog_ext.display import Display
    from catalog_ext.identity.adoption import adopt
    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.repair.report import RepairReport, ReportEntry
    from catalog_ext.spark.session import Page, active_catalog, configure, open_page
    from catalog_ext.spark.table_repair import repair_partitions
    from catalog_ext.spark.tracing import traced

__version__ = "0.1.0"

__all__ = [
    "Catalog", "CatalogExtError", "CatalogTable", "Page", "RepairProgress", "RepairReport", "ReportEntry",
    "active_catalog", "adopt", "configure", "connect", "open_page", "repair_partitions", "traced",
]  # fmt: skip

# Resolve public names at their first use. The command line, and `python -m catalog_ext.metastore.runtime.java`, which
# runs before dependencies are installed, import this package and need none of them.
_HOMES = {
    "Catalog": "catalog_ext.catalog", "CatalogExtError": "catalog_ext.metastore.errors",
    "CatalogTable": "catalog_ext.catalog_table", "Page": "catalog_ext.spark.session",
    "RepairProgress": "catalog_ext.context", "RepairReport": "catalog_ext.repair.report",
    "ReportEntry": "catalog_ext.repair.report", "active_catalog": "catalog_ext.spark.session",
    "adopt": "catalog_ext.identity.adoption", "configure": "catalog_ext.spark.session",
    "connect": "catalog_ext.catalog", "open_page": "catalog_ext.spark.session",
    "repair_partitions": "catalog_ext.spark.table_repair", "traced": "catalog_ext.spark.tracing",
}  # fmt: skip
__getattr__ = lazily(__name__, _HOMES)


def _find_display() -> Display:
    # Imported when the first result is displayed: a service and the command line do not display results this way.
    from catalog_ext.notebook.display import NotebookDisplay

    return NotebookDisplay()


use_display(_find_display)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
