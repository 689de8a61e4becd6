"""The connector's jars as Maven artifacts, in the layout of a repository: `catalog-ext-spark-4.3_2.13` and so on.

``python -m release.maven [KEY]`` signs the artifacts of dist/ with GnuPG and packs them for an upload. The upload
itself needs an account that owns the namespace, and is done by hand.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from catalog_ext.connector.build import SCALA, SOURCES, minor_version, source_files, write_zip
from catalog_ext.metastore.errors import EnvironmentSetupError
from release.project import MAVEN_GROUP, PROJECT, Project

if TYPE_CHECKING:
    from pathlib import Path


CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
"""The algorithms of the files beside each file; a repository demands the first two."""

_NO_JAVADOC = """\
# {name}

The classes of this jar are no interface: Spark finds them by the settings spark.sql.extensions and
spark.sql.catalog.<name>. How they are used is documented at {url}. The sources are in the jar beside this one.
"""
_HELP = """\
Signing needs, once:
  - GnuPG (apt-get install gnupg) and a key of the project (gpg --full-generate-key), its public half sent to a key
    server (gpg --send-keys ID), where the repository looks it up
  - an account of the Maven repository that has the namespace {group} verified
  - the addresses of the project in pyproject.toml ([project.urls])
and each time: make package, then make sign KEY=<id or e-mail address of the key>
"""


def write_artifact(jar: Path, spark: str, project: Project, repository: Path) -> Path:
    """Write the artifact of a jar that was compiled against a version of Spark into a repository; return its folder."""
    name = artifact_name(minor_version(spark))
    folder = repository.joinpath(*project.group.split("."), name, project.version)
    folder.mkdir(parents=True)
    stem = f"{name}-{project.version}"
    shutil.copyfile(jar, folder / f"{stem}.jar")
    sources = [(_entry_name(file), file.read_bytes()) for file in source_files(spark)]
    write_zip(folder / f"{stem}-sources.jar", sorted(sources))
    readme = _NO_JAVADOC.format(name=name, url=project.url).encode()
    write_zip(folder / f"{stem}-javadoc.jar", [("README.md", readme)])
    (folder / f"{stem}.pom").write_text(_pom(name, spark, project), encoding="utf-8")
    for file in sorted(folder.iterdir()):
        write_checksums(file)
    return folder


def artifact_name(minor: str) -> str:
    """The artifact's id for a minor version of Spark."""
    return f"catalog-ext-spark-{minor}_{SCALA}"


def write_checksums(file: Path) -> None:
    """Write the files with a file's checksums beside it."""
    content = file.read_bytes()
    for algorithm in CHECKSUMS:
        digest = hashlib.new(algorithm, content).hexdigest()
        file.with_name(f"{file.name}.{algorithm}").write_text(digest, encoding="ascii")


def _entry_name(file: Path) -> str:
    # Below `<main or spark-4.x>/scala` are the folders of the packages.
    return "/".join(file.relative_to(SOURCES).parts[2:])


def _pom(name: str, spark: str, project: Project) -> str:
    version, url = escape(project.version), escape(project.url)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 http://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{escape(project.group)}</groupId>
  <artifactId>{name}</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>catalog-ext for Spark {minor_version(spark)}</name>
  <description>{escape(project.description)}</description>
  <url>{url}</url>
  <licenses>
    <license>
      <name>{escape(project.license)}</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0.txt</url>
      <distribution>repo</distribution>
    </license>
  </licenses>
  <developers>
    <developer>
      <name>{escape(project.author)}</name>
      <url>{url}</url>
    </developer>
  </developers>
  <scm>
    <connection>scm:git:{url}.git</connection>
    <developerConnection>scm:git:{url}.git</developerConnection>
    <tag>v{version}</tag>
    <url>{url}</url>
  </scm>
  <dependencies>
    <dependency>
      <groupId>org.apache.spark</groupId>
      <artifactId>spark-sql_{SCALA}</artifactId>
      <version>{spark}</version>
      <scope>provided</scope>
    </dependency>
  </dependencies>
</project>
"""


def sign(repository: Path, key: str, out: Path) -> Path:
    """Sign the artifacts below a repository's folder with a key of GnuPG; return the zip file in ``out`` for an upload.

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
