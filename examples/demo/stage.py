"""The servers and the Spark session of the demonstration: started together, stopped together, in one directory."""

from __future__ import annotations

import shutil
import socket
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
from tests.servers.seaweedfs import SeaweedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from examples.demo.screen import Screen

CATALOG = "lake"
BUCKET = "demo"


@dataclass(frozen=True, slots=True)
class Stage:
    """What runs during the demonstration.

    Attributes:
        folder: Everything lies here; it is removed at the end.
        s3: The S3 server; all requests to its ``endpoint`` are counted.
        storage: Settings of S3, by short names, for Spark and Python alike.
        metastore: URI of the Hive Metastore.
        index: URL of the index.
        spark: The session, with the catalog ``lake``.
    """

    folder: Path
    s3: SeaweedServer
    storage: dict[str, str]
    metastore: str
    index: str
    spark: SparkSession

    @property
    def catalog(self) -> Catalog:
        """The catalog behind ``lake``, in this process."""
        return active_catalog(CATALOG)

    @property
    def spark_log(self) -> Path:
        """What Spark's JVM has printed."""
        return self.folder / "spark.log"

    def ports(self) -> list[int]:
        """The ports on which something answers."""
        return [int(uri.rpartition(":")[2]) for uri in (self.s3.endpoint, self.s3.direct_endpoint, self.metastore)]


@contextmanager
def open_stage(screen: Screen) -> Iterator[Stage]:
    """Everything is started, one after the other, and stopped in reverse, whatever happens meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="catalog-ext-demo-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        metastore = EmbeddedMetastore(folder / "metastore")
        stack.callback(metastore.stop)
        metastore.start_in_background()
        with screen.busy("S3: a SeaweedFS server behind a proxy that counts requests"):
            s3 = SeaweedServer(folder / "s3")
            stack.callback(s3.stop)
            s3.make_bucket(BUCKET)
        with screen.busy("metastore: a Hive Metastore 2.3 from the jars inside PySpark, on Derby"):
            uri = metastore.uri()
        storage = {
            "endpoint": s3.endpoint,
            "region": s3.region,
            "access_key": s3.access_key,
            "secret_key": s3.secret_key,
            "path_style": "true",
        }
        index = f"sqlite:///{folder / 'index.db'}"
        with screen.busy("index: a SQLite file; Spark: local[*] with S3A (36 jars, 13 MB) and the connector"):
            spark = _start_spark(folder, storage, uri, index)
            stack.callback(stop_catalog, CATALOG)
            stack.callback(sessions.stop, spark)
        yield Stage(folder, s3, storage, uri, index, spark)


def still_answering(ports: list[int]) -> list[int]:
    """The ports on which a server still answers."""
    found = []
    for port in ports:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                found.append(port)
    return found


def _start_spark(folder: Path, storage: dict[str, str], metastore: str, index: str) -> SparkSession:
    builder: SparkSession.Builder = SparkSession.Builder()
    settings = {**sessions.local_settings(folder / "spark"), **sessions.s3_settings(storage)}
    for key, value in settings.items():
        builder = builder.config(key, value)
    builder = configure(
        builder,
        catalog=CATALOG,
        warehouse=f"s3a://{BUCKET}/warehouse",
        index=index,
        metastore=metastore,
        storage=storage,
    )
    return sessions.start(builder, folder / "spark.log")
