"""The connector's jar for the installed Spark: the jar of the release, or one that is compiled from the sources.

Spark's internals change between minor versions, so there is a jar for each. A checkout carries no jars and compiles
one, with the Scala compiler that PySpark ships; only a Java runtime is needed. The jar is stored in the user's cache.
``python -m catalog_ext.connector.build`` prints the jar's path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import Timeout

from catalog_ext.connector.packed import packed_name, write_packed
from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.cache import CACHE_VARIABLE, cache_folder, kept, lock_of
from catalog_ext.metastore.runtime.java import check_age, find_java, jar_folder, java_program, version_from_release_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SOURCES = Path(__file__).parent / "src"
SUPPORTED_SPARK = ("4.0", "4.1", "4.2", "4.3")
"""The supported minor versions of Spark, oldest first."""
NEWEST_JAVA = {"4.0": 23, "4.1": 23}
"""The newest Java for minor versions of Spark that do not start on every Java. Their Hadoop finds the user by
`Subject.getSubject`, which fails from Java 24 on."""
SCALA = "2.13"
COMPILE_VARIABLE = "CATALOG_EXT_COMPILE"
"""The environment variable that makes a release compile the sources, although it carries jars."""
VERSION_ENTRY = "META-INF/catalog-ext/spark-version"
"""The entry of the jar with the version of Spark that it was compiled against."""
SERVICES = {
    "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister": (
        "org.apache.spark.sql.catalogext.CatalogExtSource\n"
    )
}
"""Entries of the jar by which Java's service loader finds implementations, for ``USING catalog_ext``."""
# Debug information has line numbers for stack traces, but no names of local variables.
_OPTIONS = ("-nowarn", "-g:line")
_MANIFEST = "Manifest-Version: 1.0\r\nCreated-By: catalog-ext\r\nCatalog-Ext-Spark-Version: {spark}\r\n\r\n"
_LOCK_TIMEOUT_SECONDS = 600
_COMPILE_TIMEOUT_SECONDS = 600
# A constant time for zip entries, so that the jar's bytes depend only on the sources and on Spark.
_ENTRY_TIME = (1980, 1, 1, 0, 0, 0)


def connector_jar() -> Path:
    """Return the jar for the installed Spark: the release's own, or one from the cache or compiled now.

    If two processes ask at once, the jar is made once. The cache folder is ``$CATALOG_EXT_CACHE``, otherwise the
    user's.

    Raises:
        EnvironmentSetupError: PySpark is missing, this Spark is not supported, the cache cannot be written, or the jar
            has to be compiled and Java is missing or too old, or the sources do not compile.
    """
    spark = spark_version()
    minor = minor_version(spark)
    name = None if _compiling_is_asked() else packed_name(minor)
    if name is not None:
        return _kept(name, lambda jar: write_packed(minor, jar))
    return compiled_jar(spark, lambda: jar_folder().glob("*.jar"))


def compiled_jar(spark: str, jars: Callable[[], Iterable[Path]]) -> Path:
    """Return the jar for a release of Spark, such as ``4.3.0``, compiled from the sources or from the cache.

    The same sources and jars make the same bytes, in any folder. ``jars`` returns Spark's jars, including its Scala
    compiler.

    Raises:
        EnvironmentSetupError: Java is missing or too old, the sources do not compile, or the cache cannot be written.
    """
    sources = source_files(spark)
    name = f"catalog-ext-spark-{spark}-{_digest(spark, sources)[:16]}.jar"
    return _kept(name, lambda jar: _build(spark, sources, jars(), jar))


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """Return the file ``name`` of the cache; create it if it is missing."""
    jar = cache_folder() / name
    if "," in str(jar):
        raise EnvironmentSetupError(
            f"The folder {jar.parent} has a comma in its name, and Spark has jars in a list with commas between them. "
            f"Set {CACHE_VARIABLE} to another folder.",
            {"folder": str(jar.parent)},
        )

    def made(folder: Path) -> Path:
        make(folder / name)
        return folder / name

    try:
        return kept(jar, made, _LOCK_TIMEOUT_SECONDS, is_whole)
    except Timeout as error:
        lock = lock_of(jar)
        raise EnvironmentSetupError(
            f"Another process has held {lock} for {_LOCK_TIMEOUT_SECONDS} s. If none is compiling the connector, "
            "remove that file.",
            {"lock": str(lock)},
        ) from error
    except OSError as error:
        raise EnvironmentSetupError(
            f"The connector's jar cannot be written to {jar.parent}: {error}. "
            f"Set {CACHE_VARIABLE} to a folder that can.",
            {"folder": str(jar.parent)},
        ) from error


def is_whole(jar: Path) -> bool:
    """Return whether a file is a complete jar of the connector; a full disk or a crash may leave a truncated one."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return VERSION_ENTRY in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _compiling_is_asked() -> bool:
    value = os.environ.get(COMPILE_VARIABLE, "").lower()
    if value not in ("", "0", "false", "1", "true"):
        raise EnvironmentSetupError(
            f"{COMPILE_VARIABLE} is {value!r}. Set it to true to compile the connector from its sources, or unset it.",
            {"variable": COMPILE_VARIABLE, "value": value},
        )
    return value in ("1", "true")


def spark_version() -> str:
    """Return the version of the installed PySpark's jars, such as ``4.3.0``.

    Raises:
        EnvironmentSetupError: PySpark is missing, or its minor version or its version of Scala is not supported.
    """
    scala, version = _installed_spark()
    supported = ", ".join(SUPPORTED_SPARK)
    if scala != SCALA or minor_version(version) not in SUPPORTED_SPARK:
        raise EnvironmentSetupError(
            f"PySpark {version} is installed; this release of catalog-ext works with Spark {supported} for Scala "
            f"{SCALA}, and {jar_folder()} has Spark {version} for Scala {scala}. "
            f"Install the newest of them that this Python takes: pip install {pyspark_requirement()}.",
            {"spark": version, "scala": scala, "supported": supported},
        )
    return version


def pyspark_requirement(oldest: str = SUPPORTED_SPARK[0]) -> str:
    """Return a requirement with which pip installs the newest supported PySpark that fits this Python."""
    major, minor = SUPPORTED_SPARK[-1].split(".")
    return f"'pyspark>={oldest},<{major}.{int(minor) + 1}'"


def check_pyspark(version: str) -> None:
    """Check that the imported PySpark fits the Spark jars that it starts, which may come from another SPARK_HOME.

    Raises:
        EnvironmentSetupError: PySpark and the jars have different minor versions, so that calls to the JVM would fail.
    """
    spark = spark_version()
    if minor_version(version) != minor_version(spark):
        raise EnvironmentSetupError(
            f"PySpark {version} is imported, and the Spark that it would start, in {jar_folder()}, is {spark}. They "
            "have to be of one minor version: unset SPARK_HOME, or install the other PySpark: pip install "
            f"'pyspark~={minor_version(spark)}.0'.",
            {"pyspark": version, "spark": spark, "jars": str(jar_folder())},
        )


def check_java() -> None:
    """Check that the installed Spark starts on the Java that a session would use, as far as that is known.

    No JVM is started: the version is read from Java's own files.

    Raises:
        EnvironmentSetupError: There is no Java, or it is too old or too new for the installed Spark.
    """
    # Check nothing if there is a spark-env.sh, which Spark's scripts read first: it may name another Java.
    if (Path(os.environ.get("SPARK_CONF_DIR") or jar_folder().parent / "conf") / "spark-env.sh").is_file():
        return
    java = java_program()
    _check_version(java, version_from_release_file(java))


def fitting_java() -> Path:
    """Return the ``java`` program that a session would use, checked to fit the installed Spark.

    Raises:
        EnvironmentSetupError: No Java is found, it does not run, or it is too old or too new for the installed Spark.
    """
    java = find_java()
    _check_version(java, version_from_release_file(java))
    return java


def _check_version(java: Path, version: int | None) -> None:
    if version is None:
        return
    check_age(java, version)
    spark = spark_version()
    newest = NEWEST_JAVA.get(minor_version(spark))
    if newest is not None and version > newest:
        of_any_java = next(minor for minor in SUPPORTED_SPARK if minor not in NEWEST_JAVA)
        raise EnvironmentSetupError(
            f"Java {version} at {java} is too new: Spark {spark} is installed, and {minor_version(spark)} starts on "
            "Java 17 or 21. Point JAVA_HOME at one of those (Debian/Ubuntu: apt-get install openjdk-17-jre-headless), "
            f"or install a newer Spark: pip install {pyspark_requirement(of_any_java)}.",
            {"java": str(java), "version": str(version), "spark": spark},
        )


def check_fits(jar: Path) -> None:
    """Check that a jar, if it is the connector's, is for the installed Spark.

    Raises:
        EnvironmentSetupError: The jar is the connector for another minor version of Spark, or cannot be read.
    """
    try:
        with zipfile.ZipFile(jar) as archive:
            if VERSION_ENTRY not in archive.namelist():
                return
            built = archive.read(VERSION_ENTRY).decode().strip()
    except (OSError, zipfile.BadZipFile) as error:
        raise EnvironmentSetupError(
            f"The jar {jar} of spark.jars cannot be read: {error}. Correct spark.jars.", {"jar": str(jar)}
        ) from error
    running = spark_version()
    if minor_version(built) != minor_version(running):
        raise EnvironmentSetupError(
            f"The jar {jar} of spark.jars is catalog-ext for Spark {minor_version(built)}, and Spark {running} is "
            f"installed. Take it out of spark.jars, so that the one for {minor_version(running)} is used, or install "
            f"the other Spark: pip install 'pyspark~={minor_version(built)}.0'.",
            {"jar": str(jar), "built": built, "running": running},
        )


def _installed_spark() -> tuple[str, str]:
    """Return the versions of Scala and of Spark, from the names of PySpark's jars."""
    pattern = re.compile(r"spark-core_([^-]+)-(.+)\.jar")
    found = (pattern.fullmatch(jar.name) for jar in jar_folder().iterdir())
    scala, version = next(match.groups() for match in found if match)
    return scala, version


def source_files(spark: str) -> list[Path]:
    """Return the Scala sources to compile for a version of Spark: the common ones, and those for its minor version.

    The folder ``spark-4.3`` is for one minor version, ``spark-4.0-4.2`` for all from the first to the last.
    """
    minor = _numbers(minor_version(spark))
    folders = [SOURCES / "main", *(folder for folder in SOURCES.glob("spark-*") if _is_for(folder.name, minor))]
    return sorted(file for folder in folders for file in (folder / "scala").rglob("*.scala"))


def _is_for(folder: str, minor: list[int]) -> bool:
    first, *last = folder.removeprefix("spark-").split("-")
    return _numbers(first) <= minor <= _numbers(last[0] if last else first)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def minor_version(version: str) -> str:
    """Return the first two numbers of a version, such as ``4.3``."""
    match = re.match(r"\d+\.\d+", version)
    return match.group() if match else version


def _digest(spark: str, sources: list[Path]) -> str:
    digest = hashlib.sha256(spark.encode())
    digest.update(repr((SERVICES, _OPTIONS, _MANIFEST)).encode())
    for file in sources:
        digest.update(file.relative_to(SOURCES).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _build(spark: str, sources: list[Path], jars: Iterable[Path], jar: Path) -> None:
    java = find_java()
    classes = jar.with_suffix(".classes")
    classes.mkdir()
    with _telling(f"Compiling the catalog-ext connector for Spark {spark} from its sources, once: about a minute"):
        _compile(java, sorted(map(str, jars)), spark, sources, classes)
    _pack(classes, spark, jar)


@contextlib.contextmanager
def _telling(what: str) -> Iterator[None]:
    """Print a message about a long operation to standard error, with a spinner on a terminal.

    The compiler reports no progress.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    console.print(what, highlight=False, soft_wrap=True)
    if not console.is_terminal:
        yield
        return
    with Progress(TextColumn("scalac"), BarColumn(), TimeElapsedColumn(), console=console, transient=True) as bar:
        bar.add_task("", total=None)
        yield


def _compile(java: Path, jars: list[str], spark: str, sources: list[Path], classes: Path) -> None:
    arguments = classes.with_suffix(".arguments")
    # Use an argument file: hundreds of jars make the command line too long for some systems.
    lines = [*_OPTIONS, "-classpath", os.pathsep.join(jars), "-d", str(classes), *map(str, sources)]
    arguments.write_text("\n".join(f'"{_escaped(line)}"' for line in lines), encoding="utf-8")
    compiler = os.pathsep.join(jar for jar in jars if re.match(r"(scala-|jline|jna)", Path(jar).name))
    command = [str(java), "-Xss8m", "-cp", compiler, "scala.tools.nsc.Main", f"@{arguments}"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL,
            timeout=_COMPILE_TIMEOUT_SECONDS,
        )  # fmt: skip
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
    entries = {"META-INF/MANIFEST.MF": _MANIFEST.format(spark=spark).encode(), VERSION_ENTRY: spark.encode()}
    entries |= {name: content.encode() for name, content in SERVICES.items()}
    files = sorted((file.relative_to(classes).as_posix(), file) for file in classes.rglob("*") if file.is_file())
    write_zip(target, [*entries.items(), *((name, file.read_bytes()) for name, file in files)])


def write_zip(target: Path, entries: Iterable[tuple[str, bytes]], compression: int = zipfile.ZIP_DEFLATED) -> None:
    """Write a zip file whose bytes depend only on the names and contents in ``entries``."""
    with zipfile.ZipFile(target, "w", compression) as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name, _ENTRY_TIME)
            info.compress_type = compression
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)


def main() -> int:
    """Print the jar's path, after building the jar if necessary. On failure print the error and return 1."""
    try:
        sys.stdout.write(f"{connector_jar()}\n")
    except EnvironmentSetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
