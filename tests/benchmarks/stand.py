"""What the benchmarks run on: a Hive Metastore, a catalog, and one Spark session with our catalog and Spark's own."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.spark.session import active_catalog, configure
from catalog_ext.spark.session import stop as stop_catalog
from examples.demo import sessions
from tests.benchmarks.trees import seed_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog

CATALOG = "lake"
NAMESPACE = "bench"


@dataclass(frozen=True, slots=True)
class Stand:
    """A directory, a session and a catalog; in the session ``spark_catalog`` is Spark's Hive catalog.

    Both catalogs are on the same metastore.
    """

    folder: Path
    seed: Path
    spark: SparkSession
    catalog: Catalog


@contextmanager
def open_stand() -> Iterator[Stand]:
    """Everything is started, and stopped and removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="catalog-ext-bench-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        metastore = EmbeddedMetastore(folder / "metastore")
        stack.callback(metastore.stop)
        uri = metastore.start()
        builder: SparkSession.Builder = SparkSession.Builder()
        settings = {**sessions.local_settings(folder / "spark"), "spark.hadoop.hive.metastore.uris": uri}
        for key, value in settings.items():
            builder = builder.config(key, value)
        warehouse = (folder / "warehouse").as_uri()
        index = f"sqlite:///{folder / 'index.db'}"
        builder = configure(builder, catalog=CATALOG, warehouse=warehouse, index=index, metastore=uri)
        stack.callback(stop_catalog, CATALOG)
        spark = sessions.start(builder.enableHiveSupport(), folder / "spark.log")
        stack.callback(sessions.stop, spark)
        catalog = active_catalog(CATALOG)
        catalog.create_namespace(NAMESPACE)
        yield Stand(folder, seed_file(folder / "seed"), spark, catalog)
