"""Builds a release: the wheel with a jar for each minor version of Spark, the sources' archive, the Maven artifacts.

Twice the same tree makes the same bytes.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from catalog_ext.connector.build import compiled_jar, write_zip
from catalog_ext.connector.packed import ARCHIVE, member_name
from release.maven import write_artifact
from release.project import PROJECT, Project
from release.pyspark_jars import pinned_version, pyspark_jars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STEPS: Final = 4
"""How many steps ``build_release`` announces besides one for each minor version of Spark."""
_PRESET: Final = 7  # a dictionary that holds two jars, so that a class is found in the jar before


def build_release(minors: Sequence[str], out: Path, say: Callable[[str], None]) -> list[Path]:
    """Build a release into a folder; return the wheel, the sources' archive and the folders of the Maven artifacts.

    ``minors`` are the minor versions of Spark that it is for; the folder's `maven` is made anew. ``say`` is called with
    a line before each step, which takes up to some minutes.

    Raises:
        EnvironmentSetupError: A PySpark cannot be fetched, or the connector does not compile against it.
        subprocess.CalledProcessError: The wheel cannot be built.
    """
    jars = {}
    for minor in minors:
        say(f"Connector for Spark {minor}: fetch its jars and compile, unless the cache has it")
        jars[minor] = connector(minor)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="catalog-ext-release-") as folder:
        say("Source archive")
        sources = _run_uv("--sdist", PROJECT, Path(folder))
        with tarfile.open(sources) as archive:
            archive.extractall(folder, filter="data")
        tree = next(path for path in Path(folder).iterdir() if path.is_dir())
        say("Archive of the jars")
        pack(jars, tree / ARCHIVE.relative_to(PROJECT))
        say("Wheel")
        wheel = _run_uv("--wheel", tree, Path(folder))
        files = [Path(shutil.copy(file, out)) for file in (wheel, sources)]
    say("Maven artifacts")
    repository = out / "maven"
    shutil.rmtree(repository, ignore_errors=True)
    project = Project.read()
    return [*files, *(write_artifact(jar, pinned_version(minor), project, repository) for minor, jar in jars.items())]


def connector(minor: str) -> Path:
    """Return the jar for a minor version of Spark, compiled unless the cache has it."""
    return compiled_jar(pinned_version(minor), lambda: pyspark_jars(minor))


def pack(jars: Mapping[str, Path], target: Path) -> None:
    """Write the archive of the jars by their minor versions.

    Their entries are stored, not compressed each by itself: the archive is compressed as a whole.
    """
    with tarfile.open(target, "w:xz", preset=_PRESET, format=tarfile.USTAR_FORMAT) as archive:
        for minor, jar in jars.items():
            with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(jar) as content:
                stored = Path(folder) / jar.name
                write_zip(stored, [(name, content.read(name)) for name in content.namelist()], zipfile.ZIP_STORED)
                data = stored.read_bytes()
            entry = tarfile.TarInfo(member_name(minor))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def _run_uv(kind: str, source: Path, out: Path) -> Path:
    before = set(out.iterdir())
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    # What builds is of requirements.lock, as everything that decides about the bytes.
    options = ["--quiet", "--offline", "--no-build-isolation", "--python", sys.executable, "--out-dir", str(out)]
    subprocess.run([uv, "build", kind, *options, source], check=True, stdin=subprocess.DEVNULL)
    (made,) = (path for path in set(out.iterdir()) - before if path.name != ".gitignore")
    return made
