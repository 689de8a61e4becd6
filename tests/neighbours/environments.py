"""Environments of neighbours that cannot be in the tests' own: made by uv below ``.neighbours/``, each by its lock.

A lock is renewed from its ``.in`` file by ``python -m tests.neighbours.environments``.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

from filelock import FileLock

from catalog_ext.connector.build import minor_version, spark_version
from release.project import PROJECT
from release.pyspark_jars import pyspark_wheel
from tests.matrix.environments import this_python, uv

FOLDER = PROJECT / ".neighbours"
_HERE = Path(__file__).parent
NAMES = ("dbt", "airflow")
OF_A_WORKER = frozenset({"airflow"})
"""Those that have catalog-ext too."""


def environment(name: str) -> Path:
    """Return the folder of the programs of a neighbour's environment, which is made where it is not there or is old.

    Raises:
        EnvironmentSetupError: A package is not to be had.
    """
    folder = FOLDER / name
    made_of, stamp = _fingerprint(name), folder / "made-of"
    FOLDER.mkdir(exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not stamp.is_file() or stamp.read_text(encoding="ascii") != made_of:
            shutil.rmtree(folder, ignore_errors=True)
            uv("venv", "--python", sys.executable, str(folder))
            into = ("pip", "install", "--python", str(folder / "bin" / "python"))
            # The one that the tests of each Spark are made of is on this machine already.
            wheels = pyspark_wheel(minor_version(spark_version())).parent
            uv(*into, "--find-links", str(wheels), "--requirements", str(_lock(name)))
            if name in OF_A_WORKER:
                uv(*into, "--no-deps", "--editable", str(PROJECT))
            stamp.write_text(made_of, encoding="ascii")
    return folder / "bin"


def versions(name: str) -> dict[str, str]:
    """Return the versions of the packages in an environment's lock."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", _lock(name).read_text(encoding="ascii"), re.MULTILINE))


def _lock(name: str) -> Path:
    return _HERE / f"{name}.lock"


def _fingerprint(name: str) -> str:
    own = (PROJECT / "pyproject.toml").read_bytes() if name in OF_A_WORKER else b""
    return hashlib.sha256(_lock(name).read_bytes() + own + this_python().encode()).hexdigest()


def main() -> None:
    """Renew the locks."""
    for name in NAMES:
        more = [str(PROJECT / "pyproject.toml")] if name in OF_A_WORKER else []
        uv(
            "pip", "compile", "--universal", "--python-version", "3.11", "--upgrade", "--no-header", "--no-annotate",
            "--no-emit-index-url", "--no-emit-find-links", "--output-file", str(_lock(name)), str(_HERE / f"{name}.in"),
            *more,
        )  # fmt: skip


if __name__ == "__main__":
    main()
