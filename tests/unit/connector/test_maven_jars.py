from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import EnvironmentSetupError
from catalog_ext.metastore.runtime import java
from tests.servers.maven_jars import Coordinate, fetch_jar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def _no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    java.find_java.cache_clear()
    yield
    java.find_java.cache_clear()


def test_a_coordinate_names_its_jar() -> None:
    coordinate = Coordinate.parse("org.apache.hive:hive-llap-client:2.3.10")
    assert coordinate == Coordinate("org.apache.hive", "hive-llap-client", "2.3.10")
    assert coordinate.file_name == "hive-llap-client-2.3.10.jar"
    assert str(coordinate) == "org.apache.hive:hive-llap-client:2.3.10"


@pytest.mark.parametrize("text", ["", "a:b", "a:b:c:d", "a::c", "../a:b:c", "a:b/../c:1", "a:..:1"])
def test_what_is_no_coordinate(text: str) -> None:
    with pytest.raises(EnvironmentSetupError, match="group:name:version"):
        Coordinate.parse(text)


@pytest.mark.usefixtures("_no_java")
def test_jars_in_the_cache_need_no_java(tmp_path: Path) -> None:
    for name in ("a", "b"):
        jar = tmp_path / "jars" / "org.example" / f"{name}-1.jar"
        jar.parent.mkdir(parents=True, exist_ok=True)
        jar.touch()
    found = [fetch_jar(f"org.example:{name}:1", cache=tmp_path) for name in ("b", "a")]
    assert [jar.name for jar in found] == ["b-1.jar", "a-1.jar"]


@pytest.mark.usefixtures("_no_java")
def test_a_fetch_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentSetupError, match="No Java was found"):
        fetch_jar("org.example:a:1", cache=tmp_path)
    assert not list(tmp_path.rglob("*.jar"))
    assert not list(tmp_path.rglob(".making-*"))


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "jars").touch()
    with pytest.raises(EnvironmentSetupError, match="XDG_CACHE_HOME"):
        fetch_jar("org.example:a:1", cache=tmp_path)
