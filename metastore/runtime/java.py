"""Finds the Java runtime and PySpark's jars, and says what to install if they are missing.

Only the standard library is used, so that ``make`` can run ``python -m catalog_ext.metastore.runtime.java`` before
anything is installed.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from catalog_ext.metastore.errors import EnvironmentSetupError

MINIMUM_JAVA = 17
INSTALL_JAVA = (
    f"Install a Java {MINIMUM_JAVA} runtime (Debian/Ubuntu: apt-get install openjdk-{MINIMUM_JAVA}-jre-headless; "
    f"Fedora: dnf install java-{MINIMUM_JAVA}-openjdk-headless; macOS: brew install openjdk@{MINIMUM_JAVA}) "
    "or point JAVA_HOME at one."
)
_VERSION_TIMEOUT_SECONDS = 60


@cache
def find_java() -> Path:
    """Return the ``java`` program of JAVA_HOME, otherwise of PATH; it has version 17 or newer.

    Raises:
        EnvironmentSetupError: There is no Java, it does not run, or it is too old.
    """
    java = java_program()
    check_age(java, _java_version(java))
    return java


def check_age(java: Path, version: int) -> None:
    """Check that Spark 4 supports this version of Java.

    Raises:
        EnvironmentSetupError: The version is too old.
    """
    if version < MINIMUM_JAVA:
        raise EnvironmentSetupError(
            f"Java {version} at {java} is too old: Spark 4 needs Java {MINIMUM_JAVA} or newer. {INSTALL_JAVA}",
            {"java": str(java), "version": str(version)},
        )


def jar_folder() -> Path:
    """Return the folder of PySpark's jars, from SPARK_HOME or from the package, without importing PySpark.

    Raises:
        EnvironmentSetupError: PySpark is not installed, or has no jars.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentSetupError("PySpark is not installed. Install it: pip install 'pyspark>=4.0,<4.4'.")
    candidates = [Path(location) / "jars" for location in spec.submodule_search_locations]
    if spark_home := os.environ.get("SPARK_HOME"):
        candidates.insert(0, Path(spark_home) / "jars")
    for folder in candidates:
        if any(folder.glob("spark-core_*.jar")):
            return folder
    folders = ", ".join(str(folder) for folder in candidates)
    raise EnvironmentSetupError(
        f"PySpark is installed but its jars are in none of: {folders}. "
        "Install the full package (pip install pyspark, not pyspark-client) or set SPARK_HOME.",
        {"looked_in": folders},
    )


def jar_version(jar_name: str) -> str:
    """Return the version of PySpark's jar ``jar_name``, for example ``3.5.0`` for ``hadoop-client-api``.

    Raises:
        EnvironmentSetupError: PySpark has no jar of that name.
    """
    # Vendors append their own suffix to the number, such as 3.4.1-amzn-2.
    pattern = re.compile(re.escape(jar_name) + r"-(\d[\w.+-]*)\.jar")
    for jar in jar_folder().iterdir():
        if match := pattern.fullmatch(jar.name):
            return match.group(1)
    raise EnvironmentSetupError(
        f"PySpark's jar folder {jar_folder()} has no {jar_name} jar. Reinstall PySpark: pip install --force-reinstall "
        "'pyspark>=4.0,<4.4'.",
        {"jar": jar_name},
    )


def java_program() -> Path:
    """Return the path of the ``java`` program of JAVA_HOME, otherwise of PATH, without running it.

    Raises:
        EnvironmentSetupError: No Java is found.
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        if not os.access(program, os.X_OK):
            raise EnvironmentSetupError(
                f"JAVA_HOME is {home}, but {program} is not a program. Correct JAVA_HOME or unset it.",
                {"JAVA_HOME": home},
            )
        return program
    found = shutil.which("java")
    if found is None:
        raise EnvironmentSetupError(f"No Java was found: JAVA_HOME is not set and PATH has no java. {INSTALL_JAVA}")
    return Path(found)


def version_from_release_file(java: Path) -> int | None:
    """Return the version of a Java runtime from its file ``release``, without starting a JVM.

    None if there is no such file, for example if ``java`` is a script that starts another program.
    """
    try:
        release = (java.resolve().parents[1] / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(match.group(1)) if match else None


def _java_version(java: Path) -> int:
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", check=True, stdin=subprocess.DEVNULL,
            timeout=_VERSION_TIMEOUT_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentSetupError(f"{java} -version failed: {error}. {INSTALL_JAVA}", {"java": str(java)}) from error
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise EnvironmentSetupError(
            f"{java} -version printed no version: {answer.stderr.strip()!r}. {INSTALL_JAVA}", {"java": str(java)}
        )
    return int(match.group(1))


def main() -> int:
    """Return 0 if a suitable Java is installed; otherwise 1, with the problem on standard error."""
    try:
        find_java()
    except EnvironmentSetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
