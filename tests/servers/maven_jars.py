"""Jars from a Maven repository, fetched by the Ivy inside PySpark's own jars and kept in the user's cache.

Nothing but PySpark and a Java runtime is needed. What is in the cache is used as it is, so a second run works offline.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.cache import cache_folder
from catalog_ext.metastore.runtime.java import find_java, jar_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

_FETCH_TIMEOUT_SECONDS = 900
_IVY_MAIN = "org.apache.ivy.Main"


@dataclass(frozen=True, slots=True)
class Coordinate:
    """A Maven artifact: group, name and version."""

    group: str
    name: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinate:
        """Return the coordinate written as ``group:name:version``.

        Raises:
            EnvironmentSetupError: the text has another shape.
        """
        parts = text.split(":")
        if len(parts) != 3 or not all(parts) or any("/" in part or part.startswith(".") for part in parts):
            raise EnvironmentSetupError(f"{text!r} is no Maven coordinate. Write it as group:name:version.")
        return cls(*parts)

    @property
    def file_name(self) -> str:
        """The name of the artifact's jar."""
        return f"{self.name}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"


def fetch_jar(coordinate: str, cache: Path | None = None) -> Path:
    """Return the jar of ``coordinate`` (``group:name:version``), from the cache or from the Maven repository.

    Raises:
        EnvironmentSetupError: the coordinate is malformed, or its jar is not in the cache and cannot be fetched.
    """
    artifact = Coordinate.parse(coordinate)
    folder = (cache or cache_folder()) / "jars"
    target = folder / artifact.group / artifact.file_name
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(target.with_suffix(".lock"), timeout=_FETCH_TIMEOUT_SECONDS):
            if not target.is_file():
                _fetch(artifact, target)
    except (OSError, filelock.Timeout) as error:
        raise EnvironmentSetupError(
            f"{artifact} cannot be put into the cache {folder}: {error}. Make the folder writable, or set "
            "XDG_CACHE_HOME to one that is.",
            {"artifact": str(artifact), "cache": str(folder)},
        ) from error
    return target


def _fetch(artifact: Coordinate, target: Path) -> None:
    # Beside the target, so that the move at the end is one rename: a jar is there whole or not at all.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as work:
        answer = _run_ivy(artifact, Path(work))
        jar = Path(work) / artifact.file_name
        if answer.returncode != 0 or not jar.is_file():
            said = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-12:])
            raise EnvironmentSetupError(
                f"{artifact} could not be fetched from the Maven repository. Check the network and its proxy settings, "
                f"or put the jar at {target} by hand. Ivy said:\n{said}",
                {"artifact": str(artifact), "target": str(target)},
            )
        shutil.move(jar, target)


def _run_ivy(artifact: Coordinate, work: Path) -> subprocess.CompletedProcess[str]:
    command = [
        str(find_java()),
        "-cp",
        f"{jar_folder()}/*",
        _IVY_MAIN,
        "-m2compatible",
        "-notransitive",
        "-cache",
        str(work / "ivy"),
        "-dependency",
        artifact.group,
        artifact.name,
        artifact.version,
        "-types",  # no sources and documentation
        "jar",
        "bundle",
        "-retrieve",
        f"{work}/[artifact]-[revision](-[classifier]).[ext]",
    ]
    try:
        return subprocess.run(
            command,
            cwd=work,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_FETCH_TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentSetupError(
            f"{artifact} could not be fetched from the Maven repository: {error}. Check the network, then try again.",
            {"artifact": str(artifact)},
        ) from error


def fetch_bundle(name: str, dependencies: Sequence[str], excluded: Sequence[str] = ()) -> Path:
    """The folder ``name`` of the cache, with jars and all that they need.

    Args:
        dependencies: ``group:name:version``; ``!`` in front: alone.
        excluded: ``group:name`` of what they name and must not have.
    """
    target = cache_folder() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(target.with_suffix(".lock"), timeout=_FETCH_TIMEOUT_SECONDS):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as work:
                shutil.move(_resolve(name, dependencies, excluded, Path(work)), target)
    return target


def _resolve(name: str, dependencies: Sequence[str], excluded: Sequence[str], work: Path) -> Path:
    wanted = "".join(
        f'<dependency org="{group.removeprefix("!")}" name="{artifact}" rev="{version}" conf="default->default" '
        f'transitive="{"false" if group.startswith("!") else "true"}"/>'
        for group, artifact, version in (text.split(":") for text in dependencies)
    )
    unwanted = "".join(
        f'<exclude org="{group}" module="{artifact}"/>' for group, artifact in (text.split(":") for text in excluded)
    )
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="catalog-ext" module="bundle"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{wanted}{unwanted}</dependencies></ivy-module>"
    )
    jars = work / "jars"
    command = [
        str(find_java()), "-cp", f"{jar_folder()}/*", _IVY_MAIN, "-m2compatible",
        "-cache", str(work / "cache"), "-ivy", str(work / "ivy.xml"), "-types", "jar", "bundle",
        "-retrieve", f"{jars}/[artifact]-[revision].[ext]",
    ]  # fmt: skip
    answer = subprocess.run(
        command, cwd=work, capture_output=True, text=True, errors="replace", check=False,
        stdin=subprocess.DEVNULL, timeout=_FETCH_TIMEOUT_SECONDS,
    )  # fmt: skip
    assert answer.returncode == 0, f"{name} could not be fetched:\n{answer.stdout[-3000:]}"
    return jars
