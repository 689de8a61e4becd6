"""The Sparks that are supported, and environments of the tests with each of them, made by uv below ``.matrix/``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filelock import FileLock

from catalog_ext.metastore.errors import EnvironmentSetupError
from release.project import PROJECT
from release.pyspark_jars import pinned_version, pyspark_wheel

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = PROJECT / ".matrix"
_LOCK = PROJECT / "requirements.lock"
_LINES = 8
_LOCKED_ON = "2026-11-20"
"""The newest packages of an environment that the lock does not hold for, Python 3.10's, are of this day."""


@dataclass(frozen=True)
class Spark:
    """A minor release of Spark.

    Attributes:
        minor: As ``4.0``.
        pythons: Those that its PySpark says it takes, of those that we take.
        whole: That which all its tests are run with; another one for each Spark.
        pandas: Which pandas it is tried with, as a range.
    """

    minor: str
    pythons: tuple[str, ...]
    whole: str
    pandas: str

    @property
    def version(self) -> str:
        """Its newest patch."""
        return pinned_version(self.minor)


SPARKS = {
    spark.minor: spark
    for spark in (
        Spark("4.3", ("3.11", "3.12", "3.13", "3.14"), "3.14", ">=3"),
        Spark("4.2", ("3.10", "3.11", "3.12", "3.13", "3.14"), "3.13", ">=2.2,<3"),
        Spark("4.1", ("3.10", "3.11", "3.12", "3.13", "3.14"), "3.12", ">=2.2,<3"),
        Spark("4.0", ("3.10", "3.11", "3.12", "3.13"), "3.10", ">=2.0,<3"),
    )
}
"""By their minors, the newest first."""
NEWEST, OLDEST = next(iter(SPARKS.values())), list(SPARKS.values())[-1]


def environment(spark: Spark, python: str) -> Path:
    """Return the interpreter of an environment with a PySpark, what the tests need, and this checkout.

    Args:
        spark: Which PySpark.
        python: As ``3.12``; uv finds it, or downloads it where it may.

    Raises:
        EnvironmentSetupError: The interpreter or a package is not to be had.
    """
    folder = FOLDER / f"spark-{spark.minor}-python-{python}"
    interpreter = folder / "bin" / "python"
    made_of, stamp = _fingerprint(spark), folder / "made-of"
    FOLDER.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not stamp.is_file() or stamp.read_text(encoding="ascii") != made_of:
            shutil.rmtree(folder, ignore_errors=True)
            uv("venv", "--seed", "--python", python, str(folder))  # with pip, by which a test packs a PySpark
            _install(spark, python, interpreter)
            stamp.write_text(made_of, encoding="ascii")
    return interpreter


def _fingerprint(spark: Spark) -> str:
    files = b"".join(path.read_bytes() for path in (PROJECT / "pyproject.toml", _LOCK))
    return hashlib.sha256(files + repr((spark, spark.version, _LOCKED_ON, "seed")).encode()).hexdigest()


def _install(spark: Spark, python: str, interpreter: Path) -> None:
    own = interpreter.with_name("own.txt")
    own.write_text(f"pyspark=={spark.version}\npandas{spark.pandas}\n", encoding="ascii")
    into = ["pip", "install", "--python", str(interpreter), "--find-links", str(pyspark_wheel(spark.minor).parent)]
    if tuple(map(int, python.split("."))) >= (3, 11):
        uv(*into, "--requirements", str(_LOCK), "--overrides", str(own))
    else:
        uv(*into, "--exclude-newer", _LOCKED_ON, "--constraints", str(own), f"{PROJECT}[dev]")
        uv("pip", "uninstall", "--python", str(interpreter), "catalog-ext")
    uv(*into, "--no-deps", "--no-build-isolation", "--editable", str(PROJECT))


def uv(*arguments: str) -> None:
    """Run uv.

    Raises:
        EnvironmentSetupError: It failed.
    """
    command = (f"{sysconfig.get_path('scripts')}/uv", *arguments)
    answer = subprocess.run([*command, "--quiet"], capture_output=True, text=True, check=False, cwd=PROJECT)
    if answer.returncode != 0:
        # Of a build that fails the reason stands at the end of thousands of lines.
        said = "\n".join(answer.stderr.strip().splitlines()[-_LINES:])
        raise EnvironmentSetupError(f"{' '.join(command)}: {said}")


def this_python() -> str:
    """Return the Python that runs, as ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
