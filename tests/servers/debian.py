"""Packages of Debian, unpacked without an installation: neither root nor a container is needed."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from pathlib import Path

FETCH_S = 300


def unpacked(work: Path, package: str, libraries: str = "(?!)") -> Path:
    """Unpack a package of this release, which apt checks by the distribution's signed list; return the folder.

    Args:
        work: An empty folder.
        package: Its name.
        libraries: A pattern of the packages that it depends on and that are unpacked with it.

    Raises:
        EnvironmentSetupError: It cannot be fetched.
    """
    try:
        try:
            _download(work, package, libraries, [])
        except subprocess.CalledProcessError:
            # The machine has never asked for the lists, or they are old; their folder may not be writable.
            own = [f"-oDir::State::Lists={work / 'lists'}", f"-oDir::Cache={work / 'cache'}"]
            (work / "lists" / "partial").mkdir(parents=True)
            _run(work, "apt-get", *own, "update")
            _download(work, package, libraries, own)
        for file in work.glob("*.deb"):
            _run(work, "dpkg-deb", "-x", str(file), str(work / "files"))
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        raise EnvironmentSetupError(
            f"A test needs {package}, and Debian's package could not be fetched: {said}. Install it (apt-get install "
            f"{package}), or run apt-get update and try again."
        ) from error
    return work / "files"


def _download(work: Path, package: str, libraries: str, options: list[str]) -> None:
    depends = _run(work, "apt-cache", *options, "depends", package)
    needed = sorted(set(re.findall(rf"Depends: ({libraries})$", depends, re.MULTILINE)))
    _run(work, "apt-get", *options, "download", package, *needed)


def _run(work: Path, *command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=work, timeout=FETCH_S)
    return done.stdout
