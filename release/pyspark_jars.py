"""PySparks of releases of Spark: packed for environments, and their jars, which the connector is compiled against.

``pyspark.lock`` names the versions and their checksums. A PySpark has all that a session of it has, and the Scala
compiler that Spark was made with. It is published as 400 MB of sources, which are fetched and packed once, and kept in
the user's cache, whole or not at all. What packs them is pinned too, in ``pyspark-build.lock``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from catalog_ext.connector.build import minor_version
from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.cache import cache_folder, kept

LOCK = Path(__file__).with_name("pyspark.lock")
OLDEST = Path(__file__).with_name("pyspark-oldest.lock")
"""The same of the oldest patches, which the jars are tried with."""
BUILD = Path(__file__).with_name("pyspark-build.lock")
"""What runs while a PySpark is packed."""
_FETCH_TIMEOUT_SECONDS = 3600


def pinned_version(minor: str, lock: Path = LOCK) -> str:
    """The version of Spark that the jar of a minor version is compiled against, such as ``4.3.0``.

    Raises:
        EnvironmentSetupError: None is pinned.
    """
    return _pin(minor, lock).split()[0].partition("==")[2]


def pyspark_wheel(minor: str, lock: Path = LOCK) -> Path:
    """The wheel of a minor version's PySpark, fetched and packed unless the cache has it.

    Raises:
        EnvironmentSetupError: It cannot be fetched, or is another than the one that was pinned.
    """
    folder = cache_folder() / "pyspark-wheels" / pinned_version(minor, lock)
    (wheel,) = kept(folder, lambda work: _packed(_pin(minor, lock), work), _FETCH_TIMEOUT_SECONDS).glob("*.whl")
    return wheel


def pyspark_jars(minor: str, lock: Path = LOCK) -> list[Path]:
    """The jars of a minor version's PySpark.

    Raises:
        EnvironmentSetupError: As ``pyspark_wheel``.
    """
    folder = cache_folder() / "pyspark" / pinned_version(minor, lock)
    made = kept(folder, lambda work: _unpacked(pyspark_wheel(minor, lock), work), _FETCH_TIMEOUT_SECONDS)
    return sorted(made.glob("*.jar"))


def _pin(minor: str, lock: Path) -> str:
    pins = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    for pin in pins:
        if minor_version(pin.split()[0].partition("==")[2]) == minor:
            return pin
    raise EnvironmentSetupError(
        f"{lock.name} pins no PySpark {minor}, but {', '.join(pin.split()[0] for pin in pins)}. Add it there.",
        {"minor": minor},
    )


def _packed(pin: str, work: Path) -> Path:
    requirements, wheels, tools = work / "requirements.txt", work / "wheels", work / "tools"
    requirements.write_text(pin, encoding="utf-8")
    # An environment that pip made for the build would have the newest setuptools, whatever that is.
    packing = {**os.environ, "PYTHONPATH": str(tools)}
    try:
        _pip("install", "--target", str(tools), "--requirement", str(BUILD))
        _pip(
            "wheel", "--no-build-isolation", "--use-pep517", "--wheel-dir", str(wheels),
            "--requirement", str(requirements), environ=packing,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentSetupError(
            f"{pin.split()[0]} could not be fetched: {error}. Check the network, then try again.", {"pin": pin}
        ) from error
    return wheels


def _pip(command: str, *options: str, environ: dict[str, str] | None = None) -> None:
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")
    subprocess.run(
        [sys.executable, "-m", "pip", command, *quiet, *options],
        check=True, stdin=subprocess.DEVNULL, timeout=_FETCH_TIMEOUT_SECONDS, env=environ,
    )  # fmt: skip


def _unpacked(wheel: Path, work: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work, [name for name in archive.namelist() if name.startswith("pyspark/jars/")])
    return work / "pyspark" / "jars"
