"""The driver that the tests of Spark share: one JVM, a context for each static configuration, a session a module.

Starting a JVM and its cold code cost more than most modules' tests. What Spark lets a session decide (``spark.sql.…``
but for its static settings) is set on a session of the module's own; only what differs in anything else gets another
context, which takes a second in the same JVM.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from catalog_ext.connector.build import connector_jar
from catalog_ext.spark import session as sessions
from catalog_ext.spark.storage import s3a_packages
from tests.kit.jvms import QUICK_JVM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": QUICK_JVM,
    # Spark keeps a hundred of its generated classes, and a module's tests make more.
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.sql.session.timeZone": "America/New_York",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""What keeps a test's session small and quiet."""

_LONG_LIVED = "-Xmn600m -XX:MetaspaceSize=400m -XX:ReservedCodeCacheSize=500m"
"""Room for what a query leaves, and for the classes and the code of thousands: a query adds 0.4 MB of compiled code."""

LOCAL = "local[2]"
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a module of hundreds of filters: Spark would generate and compile classes for each, to run them on a few rows."""
HIVE = {"spark.sql.catalogImplementation": "hive"}
"""What ``enableHiveSupport`` sets."""

# Settled when the JVM starts; a context in it gets them from there.
_OF_THE_JVM = ("spark.jars", "spark.jars.packages", "spark.jars.excludes", "spark.driver.memory")


def small_builder(master: str = LOCAL) -> SparkSession.Builder:
    """A builder with what keeps a test's session small and quiet."""
    # Spark would start its workers with whatever python3 the PATH has; they need this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    for key, value in SMALL.items():
        builder = builder.config(key, value)
    return builder


@contextlib.contextmanager
def own_jvm(builder: SparkSession.Builder) -> Iterator[SparkSession]:
    """The session that a user's builder makes, in a new JVM that ends with it."""
    assert SparkContext._gateway is None, "tests that need a JVM of their own run before those that share one"
    session = builder.getOrCreate()
    # What a test expects to fail is not to fill its output.
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        end_jvm()


def end_jvm() -> None:
    """End PySpark's JVM, if one runs."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.kill()
    process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None


def connected_to(uri: str, token: str) -> dict[str, str]:
    """Settings of a session in UTC whose catalog ``lake`` is the service at an address."""
    prefix = "spark.sql.catalog.lake"
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": sessions.EXTENSIONS_CLASS,
        prefix: sessions.CATALOG_CLASS,
        f"{prefix}.uri": uri,
        f"{prefix}.token": token,
        # A test that ends the service waits for the error.
        f"{prefix}.retry-timeout": "2s",
    }


def sibling(session: SparkSession) -> SparkSession:
    """Another session with the same catalogs."""
    other = session.newSession()
    for key, value in session.conf.getAll.items():
        if key.startswith("spark.sql.catalog."):
            other.conf.set(key, value)
    return other


class Driver:
    """Sessions in one JVM, one after the other."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="catalog-ext-spark-")
        self._running = False
        self._root: SparkSession | None = None
        self._static: dict[str, str] = {}

    @contextlib.contextmanager
    def session(
        self, conf: Mapping[str, str] | None = None, *, master: str = LOCAL, connector: bool = True
    ) -> Iterator[SparkSession]:
        """A session with these settings; without ``connector`` it is plain Spark's."""
        extensions = {"spark.sql.extensions": sessions.EXTENSIONS_CLASS} if connector else {}
        self.start_jvm()
        given = {"spark.master": master, **extensions, **(conf or {})}
        own = {key: value for key, value in given.items() if self._is_of_a_session(key)}
        static = {key: value for key, value in given.items() if key not in own and key not in _OF_THE_JVM}
        session = self._context({**SMALL, **static}).newSession()
        for key, value in own.items():
            session.conf.set(key, value)
        _make_active(session)
        try:
            yield session
        finally:
            self._leave(session)

    @contextlib.contextmanager
    def catalog(
        self, conf: Mapping[str, str] | None = None, *, master: str = LOCAL, catalog: str = "lake", **arguments: Any
    ) -> Iterator[SparkSession]:
        """A session with a catalog as ``catalog_ext.configure`` sets it up with these arguments."""
        settings = dict(conf or {})
        try:
            settings |= sessions.serve_catalog(settings, catalog=catalog, **arguments)
            with self.session(settings, master=master) as session:
                yield session
        finally:
            sessions.stop(catalog)

    @contextlib.contextmanager
    def connected(
        self, uri: str, token: str, conf: Mapping[str, str] | None = None, *, master: str = LOCAL
    ) -> Iterator[SparkSession]:
        """A session in UTC whose catalog ``lake`` is the service at an address."""
        with self.session({**connected_to(uri, token), **(conf or {})}, master=master) as session:
            yield session

    def end(self) -> None:
        """End the JVM, if this has started one; the next session starts another."""
        if self._running:
            self._stop_context()
            end_jvm()
            self._running = False

    def stop(self) -> None:
        """End for good."""
        self.end()
        self._folder.cleanup()

    def start_jvm(self) -> None:
        """Start the JVM, if it does not run; a context comes with a session."""
        if self._running:
            return
        assert SparkContext._gateway is None, "another JVM runs"
        self._running = True
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = SparkConf(loadDefaults=False)
        for key, value in {
            **s3a_packages(),
            "spark.jars": str(connector_jar()),
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": f"{QUICK_JVM} {_LONG_LIVED}",
        }.items():
            conf.set(key, value)
        SparkContext._ensure_initialized(conf=conf)
        # The static settings are known once this object has been loaded.
        _ = getattr(getattr(SparkContext._jvm, "org.apache.spark.sql.internal.StaticSQLConf$"), "MODULE$")

    def _is_of_a_session(self, key: str) -> bool:
        jvm: Any = SparkContext._jvm
        return key.startswith("spark.sql.") and not jvm.org.apache.spark.sql.internal.SQLConf.isStaticConfigKey(key)

    def _context(self, static: dict[str, str]) -> SparkSession:
        if self._root is None or static != self._static:
            self._stop_context()
            builder = SparkSession.builder.config("spark.sql.warehouse.dir", f"{self._folder.name}/warehouse")
            for key, value in static.items():
                builder = builder.config(key, value)
            self._root = builder.getOrCreate()
            self._root.sparkContext.setLogLevel("OFF")
            self._static = static
        return self._root

    def _stop_context(self) -> None:
        if self._root is not None:
            self._root.stop()
            self._root = None
            # Hadoop keeps file systems by their addresses: the next context's settings are to count.
            jvm: Any = SparkContext._jvm
            jvm.org.apache.hadoop.fs.FileSystem.closeAll()
        elif SparkContext._active_spark_context is not None:
            # The session of this context failed to start.
            SparkContext._active_spark_context.stop()

    def _leave(self, session: SparkSession) -> None:
        """Undo what of a session others of its context would see."""
        for query in session.streams.active:
            query.stop()
        session.catalog.clearCache()
        if self._static.get("spark.sql.catalogImplementation") != "hive":
            _empty(session)
        shared: Any = session._jsparkSession.sharedState()
        shared.globalTempViewManager().clear()
        assert self._root is not None
        _make_active(self._root)


def _make_active(session: SparkSession) -> None:
    jvm: Any = session._jvm
    sessions_of_jvm = SparkSession._get_j_spark_session_class(jvm)
    sessions_of_jvm.setDefaultSession(session._jsparkSession)
    sessions_of_jvm.setActiveSession(session._jsparkSession)
    SparkSession._instantiatedSession = session
    SparkSession._activeSession = session


def _empty(session: SparkSession) -> None:
    """Drop what is in Spark's own catalog, which the sessions of a context have in common."""
    catalog: Any = session._jsparkSession.sharedState().externalCatalog().unwrapped()
    databases = catalog.listDatabases()
    for name in [databases.apply(i) for i in range(databases.size())]:
        if name != "default":
            catalog.dropDatabase(name, True, True)
    tables = catalog.listTables("default")
    for name in [tables.apply(i) for i in range(tables.size())]:
        catalog.dropTable("default", name, True, True)
