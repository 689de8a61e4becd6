"""The environments of contenders that need other versions than the project: made once, in the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import filelock

from catalog_ext.metastore.runtime.cache import cache_folder

PROJECT = Path(__file__).resolve().parents[3]
SPARK = "4.1.4"
"""The newest Spark that both Iceberg's and Delta's releases below run on."""

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
DUCKLAKE = "1.5.5"
"""The release of ``duckdb-extension-ducklake``, which brings its own DuckDB."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a contender runs.

    Attributes:
        python: The interpreter.
        options: Ivy's options: the Maven coordinates, and the folder where Ivy puts them.
    """

    python: Path
    options: dict[str, str] = field(default_factory=dict)

    def variables(self) -> dict[str, str]:
        """The process's environment: the project's modules, and no Spark but its own."""
        kept = {key: value for key, value in os.environ.items() if key not in {"SPARK_HOME", "VIRTUAL_ENV"}}
        return kept | {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": str(self.python)}


def environment_of(contender: str) -> Environment:
    """The contender's environment, made if it is not there."""
    folder = cache_folder() / "benchmark-peers"
    if contender in {"iceberg", "delta"}:
        package = ICEBERG if contender == "iceberg" else DELTA
        python = _environment(folder / f"spark-{SPARK}", f"pyspark=={SPARK}")
        return Environment(python, {"package": package, "ivy": str(folder / "ivy")})
    if contender == "ducklake":
        return Environment(_environment(folder / f"ducklake-{DUCKLAKE}", f"duckdb-extension-ducklake=={DUCKLAKE}"))
    return Environment(Path(sys.executable))


def _environment(folder: Path, requirement: str) -> Path:
    python = folder / "bin" / "python"
    done = folder / ".installed"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.with_name(f"{folder.name}.lock")):
        if not done.is_file():
            uv = Path(sys.executable).with_name("uv")
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder], check=True)
            subprocess.run([uv, "pip", "install", "--quiet", "--python", python, requirement], check=True)
            done.touch()
    return python
