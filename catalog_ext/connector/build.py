"""Compiles the connector's jar with the Scala compiler that PySpark itself ships, and keeps it in the user's cache.

Spark's internals change between releases, so that the jar is compiled against the installed PySpark. A Java runtime is
enough. ``python -m catalog_ext.connector.build`` prints the jar's path.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from filelock import FileLock, Timeout

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.cache import CACHE_VARIABLE, cache_folder
from catalog_ext.metastore.runtime.java import find_java, jar_folder, jar_version

logger = logging.getLogger(__name__)

SOURCES = Path(__file__).parent / "src"
SUPPORTED_SPARK = ("4.3",)
SERVICES = {
    "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister": (
        "org.apache.spark.sql.catalogext.CatalogExtSource\n"
    )
}
"""Entries of the jar by which Java finds classes that implement an interface: ``USING catalog_ext``."""
_LOCK_TIMEOUT_SECONDS = 600
_COMPILE_TIMEOUT_SECONDS = 600
# A zip entry needs a time; one that never changes makes the jar a function of the sources and of Spark.
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)


def connector_jar() -> Path:
    """Return the jar for the installed PySpark, compiled now unless the cache has it.

    Two processes that ask at once compile once. The cache folder is ``$CATALOG_EXT_CACHE``, otherwise the user's.

    Raises:
        EnvironmentSetupError: Java or PySpark is missing or too old, this Spark is not supported, or the sources do
            not compile against it.
    """
    spark = spark_version()
    sources = source_files(spark)
    jar = cache_folder() / f"catalog-ext-spark-{spark}-{_digest(spark, sources)[:16]}.jar"
    if jar.is_file():
        return jar
    java = find_java()
    try:
        jar.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(jar.with_suffix(".lock"), timeout=_LOCK_TIMEOUT_SECONDS):
            if not jar.is_file():
                logger.info("Compiling the connector for Spark %s, once; it takes half a minute", spark)
                _build(java, spark, sources, jar)
    except Timeout as error:
        raise EnvironmentSetupError(
            f"Another process has held {jar.with_suffix('.lock')} for {_LOCK_TIMEOUT_SECONDS} s. If none is compiling "
            "the connector, remove that file.",
            {"lock": str(jar.with_suffix(".lock"))},
        ) from error
    except OSError as error:
        raise EnvironmentSetupError(
            f"The connector's jar cannot be written to {jar.parent}: {error}. "
            f"Set {CACHE_VARIABLE} to a folder that can.",
            {"folder": str(jar.parent)},
        ) from error
    return jar


def spark_version() -> str:
    """Return the version of the installed PySpark's jars, such as ``4.3.0``.

    Raises:
        EnvironmentSetupError: there is no PySpark, or its minor version is not supported.
    """
    version = jar_version("spark-core_2.13")
    if _minor(version) not in SUPPORTED_SPARK:
        supported = ", ".join(SUPPORTED_SPARK)
        raise EnvironmentSetupError(
            f"PySpark {version} is installed; this release of catalog-ext works with Spark {supported}. "
            f"Install it: pip install 'pyspark~={SUPPORTED_SPARK[-1]}.0'.",
            {"spark": version, "supported": supported},
        )
    return version


def source_files(spark: str) -> list[Path]:
    """Return the Scala sources for ``spark``: the common ones and, where there are any, those of its minor version."""
    folders = [SOURCES / "main" / "scala", SOURCES / f"spark-{_minor(spark)}" / "scala"]
    return sorted(file for folder in folders for file in folder.rglob("*.scala"))


def _minor(version: str) -> str:
    match = re.match(r"\d+\.\d+", version)
    return match.group() if match else version


def _digest(spark: str, sources: list[Path]) -> str:
    digest = hashlib.sha256(spark.encode())
    digest.update(repr(SERVICES).encode())
    for file in sources:
        digest.update(file.relative_to(SOURCES).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _build(java: Path, spark: str, sources: list[Path], jar: Path) -> None:
    with tempfile.TemporaryDirectory(dir=jar.parent, prefix="build-") as folder:
        classes = Path(folder) / "classes"
        classes.mkdir()
        _compile(java, spark, sources, classes)
        packed = Path(folder) / jar.name
        _pack(classes, spark, packed)
        # The last step, and atomic: a reader sees a whole jar or none.
        packed.replace(jar)


def _compile(java: Path, spark: str, sources: list[Path], classes: Path) -> None:
    jars = sorted(str(jar) for jar in jar_folder().glob("*.jar"))
    arguments = classes.parent / "scalac.arguments"
    # An argument file, because hundreds of jars make too long a command line for some systems.
    lines = ["-nowarn", "-classpath", os.pathsep.join(jars), "-d", str(classes), *map(str, sources)]
    arguments.write_text("\n".join(f'"{_escaped(line)}"' for line in lines), encoding="utf-8")
    compiler = os.pathsep.join(jar for jar in jars if re.match(r"(scala-|jline|jna)", Path(jar).name))
    command = [str(java), "-Xss8m", "-cp", compiler, "scala.tools.nsc.Main", f"@{arguments}"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_COMPILE_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentSetupError(f"The Scala compiler did not run: {error}.", {"java": str(java)}) from error
    if done.returncode != 0:
        raise EnvironmentSetupError(
            f"The connector does not compile against Spark {spark}; reinstall catalog-ext and PySpark, or report "
            f"this:\n{(done.stdout + done.stderr).strip()}",
            {"spark": spark},
        )


def _escaped(argument: str) -> str:
    return argument.replace("\\", "\\\\").replace('"', '\\"')


def _pack(classes: Path, spark: str, target: Path) -> None:
    manifest = f"Manifest-Version: 1.0\r\nCreated-By: catalog-ext\r\nCatalog-Ext-Spark-Version: {spark}\r\n\r\n"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        _entry(archive, "META-INF/MANIFEST.MF", manifest.encode())
        _entry(archive, "META-INF/catalog-ext/spark-version", spark.encode())
        for name, content in SERVICES.items():
            _entry(archive, name, content.encode())
        for file in sorted(file for file in classes.rglob("*") if file.is_file()):
            _entry(archive, file.relative_to(classes).as_posix(), file.read_bytes())


def _entry(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _ENTRY_TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    archive.writestr(info, content)


def main() -> int:
    """Build the jar if need be and print its path; return 1, with the error on standard error, when that fails."""
    try:
        sys.stdout.write(f"{connector_jar()}\n")
    except EnvironmentSetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
