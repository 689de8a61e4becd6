"""A session over the real service, with a SQLite index and no metastore, for tests of SQL."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import catalog_ext
from catalog_ext.spark import session as sessions
from tests.integration.spark_sessions import fresh_session, small_builder
from tests.integration.written import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@contextmanager
def sql_lake(folder: Path, conf: Mapping[str, str] | None = None) -> Iterator[Lake]:
    """A session whose catalog ``lake`` has the empty namespace ``w``; it and its JVM end with the block."""
    builder = small_builder()
    for key, value in (conf or {}).items():
        builder = builder.config(key, value)
    index = folder / "i.db"
    configured = catalog_ext.configure(
        builder, catalog="lake", warehouse=str(folder / "warehouse"), index=str(index), metastore=None
    )
    with fresh_session(configured) as spark:
        catalog = sessions.active_catalog("lake.w.t")
        catalog.create_namespace("w")
        yield Lake(spark, catalog, index)
    sessions.stop("lake")


def external(lake: Lake, folder: Path, name: str, keys: Mapping[str, str], schema: str = "id INT, v STRING") -> str:
    """Register an empty folder as the table ``w.<name>`` with virtual keys, and give its name in SQL."""
    location = folder / name
    location.mkdir()
    lake.catalog.register_table(f"w.{name}", location=str(location), partition_columns=dict(keys), schema=schema)
    return f"lake.w.{name}"
