"""Sets up Spark sessions: the settings that a session needs, and the catalogs and services of this process."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.catalog import Catalog
from catalog_ext.conf.resolved import UNSET, MetastoreArgument, Settings, hive_site
from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError
from catalog_ext.metastore.index.database.urls import parse_url, public_url
from catalog_ext.service.server import Service
from catalog_ext.spark.storage import s3a_settings, spark_storage
from catalog_ext.spark.submitted import (
    EXTENSIONS,
    JARS,
    add_to_running_jvm,
    give_to_submit,
    jvm_runs,
    submitted_lists,
    warn_of_own_catalog,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)

CATALOG_CLASS = "org.apache.spark.sql.catalogext.CatalogExtCatalog"
SESSION_CATALOG = "spark_catalog"
"""The name of Spark's own catalog. A catalog of this name shows the index's tables beside those of Spark."""
SESSION_CATALOG_CLASS = "org.apache.spark.sql.catalogext.CatalogExtSessionCatalog"
EXTENSIONS_CLASS = "org.apache.spark.sql.catalogext.CatalogExtExtensions"


@dataclass(frozen=True, slots=True)
class Page:
    """The address of a session's page, and the token to sign in with.

    Attributes:
        address: The URL for a browser on this machine.
        token: The service's token; it is not printed, because a notebook stores printed texts.
    """

    address: str
    token: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.address} (sign in with this object's token)"


@dataclass(frozen=True, slots=True)
class _Running:
    catalog: Catalog
    service: Service
    token_file: Path

    def close(self, drain_seconds: int | None = None) -> None:
        self.service.stop(drain_seconds)
        self.token_file.unlink(missing_ok=True)
        self.catalog.close()


_EXIT_DRAIN_S = 60
"""The seconds that writes in flight get when Python ends; a later recovery undoes the rest."""
_CANCEL_AGAIN_S = 1.0
_COMPARED: dict[str, Callable[[Settings], object]] = {
    "index": lambda settings: public_url(parse_url(settings.index)),
    "metastore": lambda settings: settings.metastore,
    "warehouse": lambda settings: settings.warehouse,
    "storage": lambda settings: dict(settings.storage),
}
"""The settings that cannot change while a catalog runs, with the form in which they are compared."""
_running: dict[str, _Running] = {}
_of_parent: list[_Running] = []
"""In a forked child: the catalogs of its parent process."""
_lock = threading.Lock()


def configure(
    builder: SparkSession.Builder, *, catalog: str = "lake", warehouse: str | None = None, index: str | None = None,
    metastore: MetastoreArgument = UNSET, storage: Mapping[str, object] | None = None,
) -> SparkSession.Builder:  # fmt: skip
    """Return the builder with a catalog set up: the connector's jar, the SQL extensions, and a service in this process.

    The service runs on the loopback interface until the process ends. S3A settings of the builder
    (``spark.hadoop.fs.s3a.*``), made before or after this call, are used by the Python side too. Jars, packages and
    extensions that the builder, spark-defaults.conf or spark-submit name stay.

    Args:
        builder: ``SparkSession.builder``, with or without settings.
        catalog: The catalog's name in SQL; ``spark_catalog`` adds its tables to Spark's own catalog.
        warehouse: The directory of managed tables; by default ``spark-warehouse`` in the working directory.
        index: SQLAlchemy URL of the index; by default a SQLite file beside the warehouse.
        metastore: ``thrift://host:9083``, ``embedded`` or None; by default the metastore of Spark's configuration
            (``hive.metastore.uris``, hive-site.xml), otherwise the embedded one, started in the background; the
            metastore (and the warehouse) recorded in an existing index overrides these defaults.
        storage: S3 settings for both Python and Spark, by Hadoop's keys or short names.

    Raises:
        EnvironmentSetupError: Java or PySpark is missing or does not fit, or a Spark session runs already.
        InvalidConfigurationError: An argument is malformed, or differs from that of the same catalog in the running
            session; or the session is that of a Spark Connect server elsewhere.
        IndexNotAtHeadError, IndexUnavailableError: The index cannot be used.
    """
    _refuse_no_builder(builder)
    options: dict[str, str] = dict(builder._options)
    if _active_session_has(catalog):
        _refuse_others(catalog, options, index=index, metastore=metastore, warehouse=warehouse, storage=storage)
        return builder
    conf = serve_catalog(
        options, catalog=catalog, warehouse=warehouse, index=index, metastore=metastore, storage=storage
    )
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder


def serve_catalog(
    options: Mapping[str, str], *, catalog: str = "lake", warehouse: str | None = None, index: str | None = None,
    metastore: MetastoreArgument = UNSET, storage: Mapping[str, object] | None = None,
) -> dict[str, str]:  # fmt: skip
    """Start a catalog's service; return the settings that a session needs for it, to be added to its own ``options``.

    ``configure`` gives them to a builder; arguments and errors are the same.
    """
    _refuse_remote(options.get("spark.remote") or os.environ.get("SPARK_REMOTE") or "")
    # Imported here, so that `python -m catalog_ext.connector.build` is not imported by its own package first.
    from pyspark import __version__ as pyspark

    from catalog_ext.connector.build import check_fits, check_java, check_pyspark, connector_jar

    if not jvm_runs():
        check_pyspark(pyspark)
        check_java()
    settings = Settings.resolve(
        name=catalog, index=index, metastore=metastore, warehouse=warehouse, storage=storage,
        site=hive_site(metastore), spark=options,
    )  # fmt: skip
    if catalog == SESSION_CATALOG:
        warn_of_own_catalog(settings, options)
    jar = connector_jar()
    begun = {**submitted_lists(), **options}
    for given in _local_jars(begun.get(JARS)):
        check_fits(given)
    add_to_running_jvm(jar)
    running = _serve(settings)
    prefix = f"spark.sql.catalog.{catalog}"
    conf = {
        prefix: _catalog_class(catalog),
        f"{prefix}.uri": running.service.uri,
        f"{prefix}.token-file": str(running.token_file),
        EXTENSIONS: _appended(begun.get(EXTENSIONS), EXTENSIONS_CLASS),
        JARS: _appended(begun.get(JARS), str(jar)),
        **s3a_settings(running.catalog.settings, begun),
    }
    give_to_submit(conf)
    return conf


def open_page(catalog: str | None = None) -> Page:
    """Make a catalog's service show its page (``/ui``), and return the page's address.

    Args:
        catalog: The catalog's name; may be None if this process has one catalog.

    Raises:
        InvalidConfigurationError: No catalog of this process has that name.
    """
    service = _active(catalog or "").service
    return Page(service.show_page(), service.token)


def active_catalog(name: str = "") -> Catalog:
    """Return a catalog that ``configure`` set up in this process, for use from Python beside Spark.

    Args:
        name: The catalog's name, or the name of a table that begins with it; may be omitted if this process has one
            catalog.

    Raises:
        InvalidConfigurationError: There is no catalog of that name; if the service runs elsewhere,
            ``catalog_ext.connect(index=…)`` opens one.
    """
    return _active(name).catalog


def _active(table: str) -> _Running:
    with _lock:
        named = _running.get(table.partition(".")[0].strip("`"))
        if named is None and len(_running) == 1:
            named = next(iter(_running.values()))
        names = ", ".join(_running) or "none"
    if named is None:
        raise InvalidConfigurationError(
            f"No catalog in this process serves {table[:200]!r} (catalogs here: {names}). Set one up with "
            "catalog_ext.configure; where the service runs elsewhere, use CALL <catalog>.system.repair_partitions(…), "
            "or open one on the same index with catalog_ext.connect(index=…).",
            {"table": table[:200]},
        )
    return named


def stop(catalog: str, drain_seconds: int | None = None) -> None:
    """Stop a catalog's service and close its connections.

    Requests in flight get ``drain_seconds``, by default one second.
    """
    with _lock:
        running = _running.pop(catalog, None)
    if running is not None:
        running.close(drain_seconds)


def _serve(settings: Settings) -> _Running:
    stop(settings.name)
    catalog = Catalog(settings, spark_storage(settings))
    with contextlib.ExitStack() as undo:
        undo.callback(catalog.close)
        service = Service(catalog).start()
        undo.callback(service.stop)
        running = _Running(catalog, service, _written(service.token))
        catalog.allowed.keep_private([str(running.token_file)])
        undo.pop_all()
    with _lock:
        overtaken = _running.get(settings.name)
        _running[settings.name] = running
    if overtaken is not None:  # another thread has configured this catalog meanwhile
        overtaken.close()
    logger.info("The catalog %s is served at %s", settings.name, running.service.uri)
    return running


def _written(token: str) -> Path:
    """Write the token to a file that only its owner can read. A setting would show it on the JVM's command line."""
    handle, name = tempfile.mkstemp(prefix="catalog-ext-", suffix=".token")
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(token)
    return Path(name)


def _leave_to_parent() -> None:
    """Make ``_stop_all`` do nothing in a forked child: services, connections and jobs belong to the parent.

    The objects are kept in ``_of_parent``: if Python collected a connection in the child, the parent's connection would
    end.
    """
    global _lock
    _lock = threading.Lock()
    for running in _running.values():
        running.service.forget()
    _of_parent.extend(_running.values())
    _running.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@atexit.register
def _stop_all() -> None:
    deadline = time.monotonic() + _EXIT_DRAIN_S
    _end_writes([running.service for running in _running.values()], deadline)
    for name in list(_running):
        stop(name, max(1, round(deadline - time.monotonic())))


def _end_writes(services: Sequence[Service], deadline: float) -> None:
    """Cancel the jobs that an interrupt left running in the JVM, and wait until their writes are undone.

    Cancel repeatedly: jobs end some time after they were cancelled, and a write may start its job only after a cancel.
    """
    if not services:
        return
    logged = False
    while _cancel_jobs() and not all(service.wait_for_writes(_CANCEL_AGAIN_S) for service in services):
        if time.monotonic() > deadline:
            logger.warning("Writes that do not end are left open: a recovery undoes them when their lease is over")
            return
        if not logged:
            logger.info("Python ends when the writes that are open are undone, at the latest after %d s", _EXIT_DRAIN_S)
            logged = True


def _cancel_jobs() -> bool:
    """Cancel the JVM's jobs, and return whether the JVM is alive to undo their writes."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        # Spark was stopped, which cancelled its writes. They may still be undone as long as the JVM runs.
        process = getattr(SparkContext._gateway, "proc", None)
        return process is not None and process.poll() is None
    try:
        context.cancelAllJobs()
    except (Py4JError, OSError) as error:
        logger.debug("Spark's jobs could not be cancelled: %s", error)
        return False
    return True


def _catalog_class(catalog: str) -> str:
    return SESSION_CATALOG_CLASS if catalog == SESSION_CATALOG else CATALOG_CLASS


def _appended(existing: str | None, addition: str) -> str:
    parts = [part for part in (existing or "").split(",") if part]
    return ",".join(parts if addition in parts else [*parts, addition])


def _local_jars(jars: str | None) -> Iterator[Path]:
    """Yield the jars in Spark's list that are local files. Spark itself reports errors in the others.

    ``local:`` names a file that exists on every machine of the cluster, so on this one too.
    """
    for jar in (jars or "").split(","):
        path = Path(re.sub("^(file|local):(//)?", "", jar.strip()))
        if path.is_file():
            yield path


def _refuse_no_builder(given: object) -> None:
    if not hasattr(given, "_options"):
        type_name = given.__name__ if isinstance(given, type) else type(given).__name__
        raise InvalidConfigurationError(
            f"catalog_ext.configure takes a builder, and was given {type_name[:60]}. A session that runs gets no more "
            "catalogs: stop it, then spark = catalog_ext.configure(SparkSession.builder).getOrCreate()."
        )


def _refuse_remote(remote: str) -> None:
    # "local[2]" is a server in this process. Do not print the address behind ";", which may contain a token.
    if remote.startswith("sc://"):
        raise InvalidConfigurationError(
            f"The session is a client of the Spark Connect server {remote.partition(';')[0][:200]}, which has its "
            "catalogs already: they are configured where it is started, with `catalog-ext serve` beside it "
            "(docs/clients.md). Leave catalog_ext.configure away."
        )


def _active_session_has(catalog: str) -> bool:
    """Return whether the running session has this catalog already, as when a notebook's cell is run twice."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return False
    if context.getConf().get(f"spark.sql.catalog.{catalog}") == _catalog_class(catalog) and catalog in _running:
        return True
    raise EnvironmentSetupError(
        f"A Spark session runs already without the catalog {catalog!r}, and a running session cannot get one: Spark "
        "sets jars and extensions at its start. Call catalog_ext.configure before getOrCreate, or stop the session "
        "first (spark.stop())."
    )


def _refuse_others(catalog: str, options: Mapping[str, str], **arguments: object) -> None:
    """Check that the given arguments equal those of the running catalog's setup; omitted ones are not compared."""
    running = _active(catalog).catalog.settings
    asked = Settings.resolve(name=catalog, spark=options, **arguments)  # type: ignore[arg-type]
    for option, of in _COMPARED.items():
        given = arguments[option]
        if given is UNSET or (given is None and option != "metastore") or of(asked) == of(running):
            continue
        shown = "" if option == "storage" else f" {of(running) or 'none'}, and configure is given {of(asked) or 'none'}"
        raise InvalidConfigurationError(
            f"The catalog {catalog!r} of the running session has another "
            f"{option}{shown or ' than configure is given'}. A session keeps its catalogs as they are: stop it first "
            "(spark.stop()), or give the catalog another name in a session of its own.",
            {"catalog": catalog, "argument": option},
        )
