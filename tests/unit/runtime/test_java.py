from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime import java

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _forget_the_java_that_was_found(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


def fake_java(folder: Path, says: str, status: int = 0) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' '{says}' >&2\nexit {status}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("says", ['openjdk version "17.0.15" 2025-04-15', 'java version "25" 2025-09-16'])
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    program = fake_java(tmp_path / "chosen", says)
    fake_java(tmp_path / "other", 'openjdk version "21"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "chosen"))
    monkeypatch.setenv("PATH", str(tmp_path / "other" / "bin"))
    assert java.find_java() == program


def test_java_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = fake_java(tmp_path, 'openjdk version "21.0.1"')
    monkeypatch.setenv("PATH", str(program.parent))
    assert java.find_java() == program


@pytest.mark.parametrize("says", ['java version "1.8.0_402"', 'openjdk version "11.0.22"'])
def test_an_old_java_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    fake_java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match=r"Java (8|11) at .* too old.*apt-get install"):
        java.find_java()


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match=r"No Java was found.*apt-get install openjdk-17-jre-headless"):
        java.find_java()


def test_java_home_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match="Correct JAVA_HOME or unset it"):
        java.find_java()


@pytest.mark.parametrize(("says", "status"), [("no version", 0), ("broken", 1)])
def test_a_java_that_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, status: int) -> None:
    fake_java(tmp_path, says, status)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentSetupError, match="-version"):
        java.find_java()


def test_main_prints_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java.main() == 1
    assert "Install a Java 17 runtime" in capsys.readouterr().err


def test_jars_of_the_installed_pyspark() -> None:
    version = java.jar_version("hadoop-client-api")
    assert (java.jar_folder() / f"hadoop-client-api-{version}.jar").is_file()
    with pytest.raises(EnvironmentSetupError, match="has no no-such-thing jar"):
        java.jar_version("no-such-thing")


def test_jars_of_a_vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    for name in (
        "spark-core_2.13-4.0.0-amzn-0.jar",
        "hadoop-client-api-3.4.1-amzn-2.jar",
        "hadoop-client-runtime-x.jar",
    ):
        (tmp_path / "jars" / name).touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert java.jar_version("hadoop-client-api") == "3.4.1-amzn-2"


def test_pyspark_without_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    monkeypatch.delitem(__import__("sys").modules, "pyspark", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    with pytest.raises(EnvironmentSetupError, match="its jars are in none of"):
        java.jar_folder()
    (tmp_path / "home" / "jars").mkdir(parents=True)
    (tmp_path / "home" / "jars" / "spark-core_2.13-4.3.0.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    assert java.jar_folder() == tmp_path / "home" / "jars"


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delitem(__import__("sys").modules, "pyspark", raising=False)
    with pytest.raises(EnvironmentSetupError, match="pip install 'pyspark"):
        java.jar_folder()
