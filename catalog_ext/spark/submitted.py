"""Settings that a session gets from outside of its builder: spark-defaults.conf, PYSPARK_SUBMIT_ARGS, spark-submit.

A builder's setting replaces these. For lists, that would lose another library's jar or extension, so such lists are
extended instead. The same settings decide whether Spark's own catalog sees the index's metastore.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.hive.thrift.hive_site import site_settings
from catalog_ext.metastore.runtime.java import jar_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.conf.resolved import Settings

logger = logging.getLogger(__name__)

EXTENSIONS = "spark.sql.extensions"
JARS = "spark.jars"
PACKAGES = "spark.jars.packages"
EXCLUDES = "spark.jars.excludes"
_LISTS = (JARS, PACKAGES, EXCLUDES, EXTENSIONS)
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with options of spark-submit for the JVM that PySpark starts."""
_OPTIONS = {"--jars": JARS, "--packages": PACKAGES, "--exclude-packages": EXCLUDES}
"""Options of spark-submit that override the settings with the same meaning."""
_CONF = ("--conf", "-c")
_FILE = "--properties-file"
_DEFAULTS_TOO = "--load-spark-defaults"
"""The option that makes Spark read spark-defaults.conf in addition to the file of ``--properties-file``."""

_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The environment variable by which a script of spark-submit finds the JVM that started it."""

_IMPLEMENTATION = "spark.sql.catalogImplementation"
"""The setting that ``enableHiveSupport`` sets to ``hive``."""
_HIVE = "hive"
_URIS = "spark.hadoop.hive.metastore.uris"


def submitted_lists() -> dict[str, str]:
    """Return the settings that are lists (jars, packages, extensions) from outside of the builder, by key."""
    return submitted(_LISTS)


def submitted(keys: Sequence[str]) -> dict[str, str]:
    """Return the values of these settings that a session gets from outside of its builder."""
    if jvm_runs():
        found = _of_running_jvm(keys)
    else:
        arguments = _arguments()
        given = dict(_given(arguments))
        defaults = _of_file(None) if _DEFAULTS_TOO in arguments else {}
        found = {**defaults, **_of_file(given.pop(_FILE, None)), **given}
    return {key: found[key] for key in keys if found.get(key)}


def give_to_submit(lists: Mapping[str, str]) -> None:
    """Replace lists such as ``--jars`` in PYSPARK_SUBMIT_ARGS, which would override the builder's longer ones."""
    arguments = _arguments()
    if jvm_runs() or not arguments:
        return
    changed = list(arguments)
    for at, (option, value) in _options(arguments):
        longer = lists.get(_OPTIONS.get(option, ""))
        if longer is not None:
            changed[at] = arguments[at].removesuffix(value) + longer
    if changed != arguments:
        os.environ[_ARGUMENTS] = shlex.join(changed)


def _of_running_jvm(keys: Sequence[str]) -> dict[str, str]:
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    return {key: str(jvm.java.lang.System.getProperty(key) or "") for key in keys}


def _arguments() -> list[str]:
    return shlex.split(os.environ.get(_ARGUMENTS, ""))


def _options(arguments: Sequence[str]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield spark-submit's options for lists, settings or a file: the value's position, the option and the value."""
    for at, argument in enumerate(arguments):
        option, separator, value = argument.partition("=")
        if option in (*_OPTIONS, *_CONF, _FILE):
            if separator:
                yield at, (option, value)
            elif at + 1 < len(arguments):
                yield at + 1, (option, arguments[at + 1])


def _given(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the settings (key and value) in spark-submit's options. For a repeated key the last value is valid."""
    found = [option for _, option in _options(arguments)]
    yield from (tuple(value.split("=", 1)) for option, value in found if option in _CONF and "=" in value)  # type: ignore[misc]
    yield from ((_OPTIONS.get(option, option), value) for option, value in found if option not in _CONF)


def _of_file(named: str | None) -> dict[str, str]:
    folder = Path(os.environ.get("SPARK_CONF_DIR") or jar_folder().parent / "conf")
    try:
        text = Path(named or folder / "spark-defaults.conf").read_text(encoding="utf-8", errors="replace")
    except OSError:
        # Ignore a missing file. If the user named it, Spark itself reports the error.
        return {}
    # Parse as Java's properties: a backslash at the end continues a line, and =, : or a blank ends the key.
    lines = (line.strip() for line in re.sub(r"\\\r?\n[ \t]*", "", text).splitlines())
    parts = (re.split(r"\s*[=:]\s*|\s+", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {key: value for key, *rest in parts for value in rest}


def jvm_runs() -> bool:
    """Return whether the driver's JVM has been started already."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or _GATEWAY in os.environ


def add_to_running_jvm(jar: Path) -> None:
    """Make a running driver JVM load the connector.

    ``spark-submit`` starts the JVM before the script, and a stopped session leaves its JVM running. Jars of a new
    session's settings reach the executors of such a JVM, but not the class loader of catalogs and extensions.

    Raises:
        EnvironmentSetupError: The JVM does not accept the jar.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    if not jvm_runs():
        return
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    assert jvm is not None
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(jvm.java.net.URL(jar.as_uri()))
    except Py4JError as error:
        raise EnvironmentSetupError(
            f"The running JVM does not take the connector {jar}: {error}. "
            f"Give it at the start: spark-submit --jars {jar}.",
            {"jar": str(jar)},
        ) from error


def warn_of_own_catalog(settings: Settings, options: Mapping[str, str]) -> None:
    """Warn if Spark's own catalog does not use the index's metastore.

    Then Spark's databases, views, functions and tables outside of the index are not those of the metastore. ``options``
    are the settings of the session's builder.
    """
    if settings.metastore is None:
        return
    given = {**submitted((_IMPLEMENTATION, _URIS)), **options}
    if given.get(_IMPLEMENTATION) != _HIVE:
        logger.warning(
            "Spark's own catalog of this session is in memory: it does not see the metastore, and what is made in it "
            "is gone when the session ends. Tables of the index work. To have the metastore's other databases, "
            "tables and views too, call enableHiveSupport() on the builder, with %s, before configure",
            _URIS,
        )
    elif not given.get(_URIS) and not site_settings().get(_URIS.removeprefix("spark.hadoop.")):
        logger.warning(
            "Spark's own catalog of this session has a metastore of its own, not that of the index: set %s on the "
            "builder, or hive.metastore.uris in hive-site.xml",
            _URIS,
        )
