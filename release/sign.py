"""``python -m release.sign [KEY]``: signs the Maven artifacts of dist/ with GnuPG and packs them for an upload.

The upload itself, with an account that owns the namespace, is somebody's own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from catalog_ext.connector.build import write_zip
from catalog_ext.metastore.errors import EnvironmentSetupError
from release.maven import CHECKSUMS
from release.project import MAVEN_GROUP, PROJECT, Project

if TYPE_CHECKING:
    from pathlib import Path

_HELP = """\
Signing needs, once:
  - GnuPG (apt-get install gnupg) and a key of the project (gpg --full-generate-key), its public half sent to a key
    server (gpg --send-keys ID), where the repository looks it up
  - an account of the Maven repository that has the namespace {group} verified
  - the addresses of the project in pyproject.toml ([project.urls])
and each time: make package, then make sign KEY=<id or e-mail address of the key>
"""


def sign(repository: Path, key: str, out: Path) -> Path:
    """Sign every artifact below a repository's folder, and return the zip file of all, which an upload takes.

    Args:
        repository: The folder, as `release.maven` writes it.
        key: Which key GnuPG uses.
        out: Where the zip file goes.

    Raises:
        EnvironmentSetupError: There is no GnuPG or no artifact, or the key cannot sign.
    """
    program = shutil.which("gpg")
    if program is None:
        raise EnvironmentSetupError("There is no gpg on PATH. Install GnuPG: apt-get install gnupg.")
    files = sorted(file for file in repository.rglob("*") if file.suffix in {".jar", ".pom"})
    if not files:
        raise EnvironmentSetupError(
            f"{repository} has no artifacts. Make them: make package.", {"folder": str(repository)}
        )
    for file in files:
        # Armored, detached, beside the file: <file>.asc
        command = [program, "--batch", "--yes", "--armor", "--local-user", key, "--detach-sign", str(file)]
        try:
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError) as error:
            raise EnvironmentSetupError(
                f"gpg did not sign {file} with the key {key}: {error}.", {"key": key}
            ) from error
    suffixes = {".asc", ".jar", ".pom", *(f".{algorithm}" for algorithm in CHECKSUMS)}
    kept = sorted(file for file in repository.rglob("*") if file.is_file() and file.suffix in suffixes)
    target = out / f"catalog-ext-{Project.read().version}-maven.zip"
    write_zip(target, [(file.relative_to(repository).as_posix(), file.read_bytes()) for file in kept])
    return target


def main(arguments: list[str]) -> int:
    """0 when dist/ has what an upload takes; otherwise 1, with what is missing on standard error."""
    if len(arguments) != 1:
        sys.stderr.write(_HELP.format(group=MAVEN_GROUP))
        return 1
    project = Project.read()
    if not project.has_home:
        sys.stderr.write(f"{project.url} can be no address of a repository. Change [project.urls] in pyproject.toml.\n")
        return 1
    try:
        sys.stdout.write(f"{sign(PROJECT / 'dist' / 'maven', arguments[0], PROJECT / 'dist')}\n")
    except EnvironmentSetupError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
