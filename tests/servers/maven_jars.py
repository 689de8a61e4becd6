"""Jars from a Maven repository, fetched by the Ivy inside PySpark's own jars and kept in the user's cache.

Nothing but PySpark and a Java runtime is needed. What is in the cache is used as it is, so a second run works offline.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import filelock

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime.cache import cache_folder, kept
from catalog_ext.metastore.runtime.java import find_java, jar_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
    try:
        return kept(target, lambda work: _fetched(artifact, target, work), _FETCH_TIMEOUT_SECONDS)
    except (OSError, filelock.Timeout) as error:
        raise EnvironmentSetupError(
            f"{artifact} cannot be put into the cache {folder}: {error}. Make the folder writable, or set "
            "XDG_CACHE_HOME to one that is.",
            {"artifact": str(artifact), "cache": str(folder)},
        ) from error


def _fetched(artifact: Coordinate, target: Path, work: Path) -> Path:
    answer = _run_ivy(artifact, work)
    jar = work / artifact.file_name
    if answer.returncode != 0 or not jar.is_file():
        said = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-12:])
        raise EnvironmentSetupError(
            f"{artifact} could not be fetched from the Maven repository. Check the network and its proxy settings, "
            f"or put the jar at {target} by hand. Ivy said:\n{said}",
            {"artifact": str(artifact), "target": str(target)},
        )
    return jar


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
        dependencies: ``group:name:version``; ``!`` in front: alone; ``=``: a jar, whatever its packaging.
        excluded: ``group:name`` of what they name and must not have.
    """
    return kept(
        cache_folder() / name, lambda work: _resolve(name, dependencies, excluded, work), _FETCH_TIMEOUT_SECONDS
    )


def _resolve(name: str, dependencies: Sequence[str], excluded: Sequence[str], work: Path) -> Path:
    wanted = "".join(
        f'<dependency org="{group.lstrip("!=")}" name="{artifact}" rev="{version}" conf="default->default" '
        f'transitive="{"false" if group.startswith("!") else "true"}">'
        + (f'<artifact name="{artifact}" type="jar" ext="jar"/>' if group.startswith("=") else "")
        + "</dependency>"
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
