"""The build of the connector's jar, with a stand-in for the compiler: the real one is run by the integration tests."""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf import keys
from catalog_ext.connector import build, packed
from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime import java
from catalog_ext.metastore.runtime.cache import CACHE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKE_JAVA = """\
#!{python}
import pathlib, sys, time
if "-version" in sys.argv:
    sys.stderr.write('openjdk version "{version}"')
    raise SystemExit(0)
words = pathlib.Path(sys.argv[-1][1:]).read_text().splitlines()
target = pathlib.Path(words[words.index('"-d"') + 1].strip('"'))
with open("{log}", "a") as log:
    log.write("compiled\\n")
time.sleep(0.2)
if {fails}:
    print("Broken.scala:1: error: not found: value x")
    raise SystemExit(1)
(target / "org").mkdir()
(target / "org" / "B.class").write_bytes(b"b")
(target / "org" / "A.class").write_bytes(b"a")
"""


class Machine:
    """A fake installation: Java, PySpark's jars, sources and a cache."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "compilations"
        self.cache = folder / "cache"
        self.jars = folder / "jars"
        self.sources = folder / "src"
        self.jars.mkdir()
        self.install_spark("4.3.0")
        self.write("main/scala/One.scala", "object One")
        self.install_java("17.0.1")
        monkeypatch.setenv("JAVA_HOME", str(folder / "jdk"))
        monkeypatch.setenv(CACHE_VARIABLE, str(self.cache))
        monkeypatch.setattr(build, "SOURCES", self.sources)
        monkeypatch.setattr(packed, "ARCHIVE", folder / "jars.tar.xz")
        monkeypatch.setattr(build, "jar_folder", lambda: self.jars)
        monkeypatch.setattr(java, "jar_folder", lambda: self.jars)

    def install_spark(self, version: str, scala: str = "2.13") -> None:
        for jar in self.jars.iterdir():
            jar.unlink()
        for name in (f"spark-core_{scala}-{version}.jar", "scala-compiler-2.13.18.jar"):
            (self.jars / name).touch()

    def carry(self, *minors: str) -> None:
        """Let the release carry jars for these minor versions."""
        with tarfile.open(packed.ARCHIVE, "w:xz") as archive:
            for minor in minors:
                jar = self.folder / packed.member_name(minor)
                build.write_zip(jar, [(build.VERSION_ENTRY, minor.encode())])
                archive.add(jar, jar.name)

    def install_java(self, version: str, *, fails: bool = False) -> None:
        program = self.folder / "jdk" / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(
            FAKE_JAVA.format(python=sys.executable, version=version, log=self.log, fails=fails), encoding="utf-8"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        (self.folder / "jdk" / "release").write_text(f'IMPLEMENTOR="Vendor"\nJAVA_VERSION="{version}"\n', "utf-8")
        java.find_java.cache_clear()

    def write(self, name: str, content: str) -> None:
        file = self.sources / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")

    def compilations(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine(tmp_path, monkeypatch)
    yield machine
    java.find_java.cache_clear()


@pytest.mark.slow
def test_it_compiles_once_and_names_spark_in_the_jar(machine: Machine) -> None:
    jar = build.connector_jar()
    assert build.connector_jar() == jar
    assert machine.compilations() == 1
    assert jar.parent == machine.cache
    with zipfile.ZipFile(jar) as archive:
        assert "Catalog-Ext-Spark-Version: 4.3.0" in archive.read("META-INF/MANIFEST.MF").decode()
        assert archive.read("META-INF/catalog-ext/spark-version") == b"4.3.0"
        assert archive.namelist()[-2:] == ["org/A.class", "org/B.class"]


def test_bundled_jar_needs_no_compiler_and_fits_every_patch(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.carry("4.2", "4.3")
    monkeypatch.setenv("JAVA_HOME", str(machine.folder / "nowhere"))
    java.find_java.cache_clear()
    jar = build.connector_jar()
    with zipfile.ZipFile(jar) as archive:
        assert archive.read(build.VERSION_ENTRY) == b"4.3"
    machine.install_spark("4.3.7-vendor.2")
    assert build.connector_jar() == jar
    assert machine.compilations() == 0
    assert sorted(file.suffix for file in machine.cache.iterdir()) == [".jar", ".lock"]
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("carried", [True, False], ids=["carried", "compiled"])
def test_a_jar_that_was_cut_off_in_the_cache_is_made_again(machine: Machine, *, carried: bool) -> None:
    if carried:
        machine.carry("4.3")
    jar = build.connector_jar()
    whole = jar.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", bytes(len(whole))):
        jar.write_bytes(broken)
        assert build.connector_jar() == jar
        assert jar.read_bytes() == whole
    machine.cache.joinpath("notes").write_text("of another program")
    assert build.connector_jar() == jar
    assert machine.compilations() == (0 if carried else 4)


def test_another_release_takes_its_own_jar(machine: Machine) -> None:
    machine.carry("4.3")
    first = build.connector_jar()
    machine.carry("4.2", "4.3")
    assert build.connector_jar() != first


@pytest.mark.slow
def test_a_jar_is_compiled_where_that_is_asked_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.carry("4.3")
    assert keys.COMPILE.variable == build.COMPILE_VARIABLE
    monkeypatch.setenv(build.COMPILE_VARIABLE, "true")
    assert zipfile.is_zipfile(build.connector_jar())
    assert machine.compilations() == 1
    # One line, without a bar: the output is no terminal.
    assert capsys.readouterr().err.splitlines() == [
        "Compiling the catalog-ext connector for Spark 4.3.0 from its sources, once: about a minute"
    ]
    monkeypatch.setenv(build.COMPILE_VARIABLE, "yes")
    with pytest.raises(EnvironmentSetupError, match=r"CATALOG_EXT_COMPILE is 'yes'\. Set it to true"):
        build.connector_jar()


@pytest.mark.parametrize("content", [b"", b"no archive", None], ids=["empty", "foreign", "without the jar"])
def test_a_broken_archive_is_named(machine: Machine, content: bytes | None) -> None:
    machine.carry("4.2")
    if content is not None:
        packed.ARCHIVE.write_bytes(content)
    with pytest.raises(EnvironmentSetupError, match="pip install --force-reinstall --no-deps catalog-ext"):
        build.connector_jar()
    assert not list(machine.cache.glob("*.jar"))


def test_another_scala_is_named(machine: Machine) -> None:
    machine.carry("4.3")
    machine.install_spark("4.3.0", scala="3")
    with pytest.raises(EnvironmentSetupError, match=r"for Scala 2\.13, and .* has Spark 4\.3\.0 for Scala 3"):
        build.connector_jar()


def test_a_jar_of_the_session_for_another_spark_is_named(machine: Machine, tmp_path: Path) -> None:
    def jar(**entries: str) -> Path:
        build.write_zip(tmp_path / "given.jar", [(name, text.encode()) for name, text in entries.items()])
        return tmp_path / "given.jar"

    build.check_fits(jar(**{"org/Some.class": ""}))
    build.check_fits(jar(**{build.VERSION_ENTRY: "4.3.9"}))
    with pytest.raises(EnvironmentSetupError, match=r"for Spark 4\.0, and Spark 4\.3\.0 is .*'pyspark~=4\.0\.0'"):
        build.check_fits(jar(**{build.VERSION_ENTRY: "4.0.5"}))
    (tmp_path / "given.jar").write_bytes(b"no jar")
    with pytest.raises(EnvironmentSetupError, match=r"given\.jar of spark\.jars cannot be read"):
        build.check_fits(tmp_path / "given.jar")


@pytest.mark.slow
def test_the_same_sources_make_the_same_bytes(machine: Machine) -> None:
    first = build.connector_jar()
    content = first.read_bytes()
    first.unlink()
    assert build.connector_jar().read_bytes() == content


@pytest.mark.slow
def test_a_changed_source_or_spark_makes_another_jar(machine: Machine) -> None:
    jars = {build.connector_jar()}
    machine.write("main/scala/One.scala", "object Two")
    jars.add(build.connector_jar())
    machine.write("spark-4.3/scala/Shim.scala", "object Shim")
    jars.add(build.connector_jar())
    machine.install_spark("4.3.1")
    jars.add(build.connector_jar())
    assert len(jars) == machine.compilations() == 4


@pytest.mark.slow
def test_two_at_once_compile_once(machine: Machine) -> None:
    with ThreadPoolExecutor(4) as pool:
        jars = {future.result() for future in [pool.submit(build.connector_jar) for _ in range(4)]}
    assert len(jars) == machine.compilations() == 1


@pytest.mark.slow
def test_a_failing_compiler_is_quoted_and_leaves_nothing(machine: Machine) -> None:
    machine.install_java("17.0.1", fails=True)
    with pytest.raises(EnvironmentSetupError, match="not found: value x"):
        build.connector_jar()
    assert not list(machine.cache.glob("*.jar"))
    assert not list(machine.cache.glob(".making-*"))


def test_an_old_java_is_named(machine: Machine) -> None:
    machine.install_java("11.0.2")
    with pytest.raises(EnvironmentSetupError, match=r"Java 11 .* is too old"):
        build.connector_jar()


def test_no_java_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine.folder / "nowhere"))
    java.find_java.cache_clear()
    with pytest.raises(EnvironmentSetupError, match=r"JAVA_HOME is .*nowhere"):
        build.connector_jar()


def test_an_unsupported_spark_is_named(machine: Machine) -> None:
    machine.install_spark("3.5.0", scala="2.12")
    supported = re.escape(", ".join(build.SUPPORTED_SPARK))
    with pytest.raises(
        EnvironmentSetupError, match=rf"PySpark 3\.5\.0 is installed; .* works with Spark {supported} "
    ) as raised:
        build.connector_jar()
    # pip takes the newest that there is for its Python: 3.10 has no 4.3.
    assert raised.value.message.endswith("that this Python takes: pip install 'pyspark>=4.0,<4.4'.")


def test_a_cache_that_cannot_be_written_is_named(machine: Machine) -> None:
    machine.cache.write_text("a file")
    with pytest.raises(EnvironmentSetupError, match=f"Set {CACHE_VARIABLE} to a folder"):
        build.connector_jar()


def test_a_cache_that_is_full_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.carry("4.3")
    machine.cache.mkdir()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_bytes", full)
        with pytest.raises(EnvironmentSetupError, match=f"No space left on device.*Set {CACHE_VARIABLE} to a folder"):
            build.connector_jar()
    assert [file.suffix for file in machine.cache.iterdir()] == [".lock"], "and nothing half done"
    assert build.connector_jar().is_file()


def test_a_cache_that_is_named_from_here_or_from_home(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.carry("4.3")
    monkeypatch.chdir(machine.folder)
    monkeypatch.setenv(CACHE_VARIABLE, "some/cache")
    assert build.connector_jar().parent == machine.folder / "some" / "cache"
    monkeypatch.setenv("HOME", str(machine.folder / "hömé of me"))
    monkeypatch.setenv(CACHE_VARIABLE, "~/cache")
    assert build.connector_jar().parent == machine.folder / "hömé of me" / "cache"
    # Spark has jars in a list with commas between them.
    monkeypatch.setenv(CACHE_VARIABLE, str(machine.folder / "a,b"))
    with pytest.raises(EnvironmentSetupError, match=rf"a,b.* has a comma.*{CACHE_VARIABLE}"):
        build.connector_jar()


def test_error_without_a_home_directory_names_what_to_set(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.carry("4.3")
    for variable in ("HOME", "XDG_CACHE_HOME", CACHE_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: {}[uid])
    with pytest.raises(EnvironmentSetupError, match=rf"HOME is not set.*{CACHE_VARIABLE}"):
        build.connector_jar()


@pytest.mark.slow
def test_the_command_prints_the_path(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main() == 0
    assert Path(capsys.readouterr().out.strip()).is_file()
    machine.install_spark("3.5.0", scala="2.12")
    assert build.main() == 1
    assert "PySpark 3.5.0" in capsys.readouterr().err


def test_every_source_declares_the_package_of_its_folder() -> None:
    sources = build.source_files("4.3.0")
    assert len(sources) > 10
    for file in sources:
        folder = file.relative_to(build.SOURCES).parent.parts[2:]
        assert folder[:5] == ("org", "apache", "spark", "sql", "catalogext"), file
        assert file.read_text(encoding="utf-8").startswith(f"package {'.'.join(folder)}\n"), file


@pytest.mark.parametrize(
    ("spark", "version"),
    [
        ("4.0.5", "17.0.1"),
        ("4.0.5", "21.0.4"),
        ("4.1.4", "23"),
        ("4.2.1", "25"),
        ("4.3.0", "25.0.3"),
        ("4.3.0", "26-ea"),
    ],
)
def test_a_java_that_this_spark_starts_on(machine: Machine, spark: str, version: str) -> None:
    machine.install_spark(spark)
    machine.install_java(version)
    build.check_java()
    assert build.fitting_java() == machine.folder / "jdk" / "bin" / "java"


@pytest.mark.parametrize(
    ("spark", "version", "why"),
    [
        (
            "4.0.5",
            "24",
            r"Java 24 at .* is too new: Spark 4\.0\.5 is installed.* 17 or 21.*openjdk-17.*pyspark>=4\.2,<4\.4'",
        ),
        ("4.1.4", "25.0.3", r"Java 25 at .* is too new.* Point JAVA_HOME"),
        ("4.3.0", "11.0.22", "Java 11 at .* is too old"),
        ("4.3.0", "1.8.0_402", "Java 8 at .* is too old"),
    ],
)
def test_unsuitable_java_is_found_from_its_files_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, spark: str, version: str, why: str
) -> None:
    machine.install_spark(spark)
    machine.install_java(version)
    with pytest.raises(EnvironmentSetupError, match=why):
        build.fitting_java()
    program = machine.folder / "jdk" / "bin" / "java"
    program.write_text("#!/bin/sh\ntouch started\n")
    with pytest.raises(EnvironmentSetupError, match=why):
        build.check_java()
    # As /usr/bin/java of most systems is.
    (machine.folder / "bin").mkdir()
    (machine.folder / "bin" / "java").symlink_to(program)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(machine.folder / "bin"))
    with pytest.raises(EnvironmentSetupError, match=why):
        build.check_java()
    assert not Path("started").exists()


def test_java_of_unknown_version_is_left_to_spark(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.install_spark("4.0.5")
    machine.install_java("25")
    conf = machine.folder / "conf"
    conf.mkdir()
    (conf / "spark-env.sh").write_text("export JAVA_HOME=/opt/java-17\n")
    build.check_java()
    (conf / "spark-env.sh").rename(machine.folder / "spark-env.sh")
    with pytest.raises(EnvironmentSetupError, match="too new"):
        build.check_java()
    monkeypatch.setenv("SPARK_CONF_DIR", str(machine.folder))
    build.check_java()
    monkeypatch.delenv("SPARK_CONF_DIR")
    (machine.folder / "jdk" / "release").unlink()
    build.check_java()


@pytest.mark.parametrize("version", ["4.3.0", "4.3.7", "4.3.0.dev1", "4.3.1rc2"])
def test_a_pyspark_that_fits_the_jars(machine: Machine, version: str) -> None:
    machine.install_spark("4.3.0-SNAPSHOT")
    build.check_pyspark(version)


def test_a_spark_home_of_another_minor_version_is_named(machine: Machine) -> None:
    machine.install_spark("4.0.5")
    with pytest.raises(
        EnvironmentSetupError, match=r"PySpark 4\.3\.0 .* is 4\.0\.5.*unset SPARK_HOME.*pyspark~=4\.0\.0"
    ):
        build.check_pyspark("4.3.0")
