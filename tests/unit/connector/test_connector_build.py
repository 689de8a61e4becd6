"""The build of the connector's jar, with a stand-in for the compiler: the real one is run by the integration tests."""

from __future__ import annotations

import stat
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.connector import build
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
        monkeypatch.setattr(build, "jar_folder", lambda: self.jars)
        monkeypatch.setattr(java, "jar_folder", lambda: self.jars)

    def install_spark(self, version: str) -> None:
        for jar in self.jars.iterdir():
            jar.unlink()
        for name in (f"spark-core_2.13-{version}.jar", "scala-compiler-2.13.18.jar"):
            (self.jars / name).touch()

    def install_java(self, version: str, *, fails: bool = False) -> None:
        program = self.folder / "jdk" / "bin" / "java"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(
            FAKE_JAVA.format(python=sys.executable, version=version, log=self.log, fails=fails), encoding="utf-8"
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
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


def test_it_compiles_once_and_names_spark_in_the_jar(machine: Machine) -> None:
    jar = build.connector_jar()
    assert build.connector_jar() == jar
    assert machine.compilations() == 1
    assert jar.parent == machine.cache
    with zipfile.ZipFile(jar) as archive:
        assert "Catalog-Ext-Spark-Version: 4.3.0" in archive.read("META-INF/MANIFEST.MF").decode()
        assert archive.read("META-INF/catalog-ext/spark-version") == b"4.3.0"
        assert archive.namelist()[-2:] == ["org/A.class", "org/B.class"]


def test_the_same_sources_make_the_same_bytes(machine: Machine) -> None:
    first = build.connector_jar()
    content = first.read_bytes()
    first.unlink()
    assert build.connector_jar().read_bytes() == content


def test_a_changed_source_or_spark_makes_another_jar(machine: Machine) -> None:
    jars = {build.connector_jar()}
    machine.write("main/scala/One.scala", "object Two")
    jars.add(build.connector_jar())
    machine.write("spark-4.3/scala/Shim.scala", "object Shim")
    jars.add(build.connector_jar())
    machine.install_spark("4.3.1")
    jars.add(build.connector_jar())
    assert len(jars) == machine.compilations() == 4


def test_two_at_once_compile_once(machine: Machine) -> None:
    with ThreadPoolExecutor(4) as pool:
        jars = {future.result() for future in [pool.submit(build.connector_jar) for _ in range(4)]}
    assert len(jars) == machine.compilations() == 1


def test_a_failing_compiler_is_quoted_and_leaves_nothing(machine: Machine) -> None:
    machine.install_java("17.0.1", fails=True)
    with pytest.raises(EnvironmentSetupError, match="not found: value x"):
        build.connector_jar()
    assert not list(machine.cache.glob("*.jar"))
    assert not list(machine.cache.glob("build-*"))


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
    machine.install_spark("4.2.0")
    with pytest.raises(EnvironmentSetupError, match=r"PySpark 4\.2\.0 is installed; .* works with Spark 4\.3"):
        build.connector_jar()


def test_a_cache_that_cannot_be_written_is_named(machine: Machine) -> None:
    machine.cache.write_text("a file")
    with pytest.raises(EnvironmentSetupError, match=f"Set {CACHE_VARIABLE} to a folder"):
        build.connector_jar()


def test_the_command_prints_the_path(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main() == 0
    assert Path(capsys.readouterr().out.strip()).is_file()
    machine.install_spark("3.5.0")
    assert build.main() == 1
    assert "PySpark 3.5.0" in capsys.readouterr().err


def test_every_source_declares_the_package_of_its_folder() -> None:
    sources = build.source_files("4.3.0")
    assert len(sources) > 10
    for file in sources:
        folder = file.relative_to(build.SOURCES).parent.parts[2:]
        assert folder[:5] == ("org", "apache", "spark", "sql", "catalogext"), file
        assert file.read_text(encoding="utf-8").startswith(f"package {'.'.join(folder)}\n"), file
