"""What the arguments of ``connect`` and ``configure`` come to: an argument, the environment, or the default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import catalog_ext
from catalog_ext.conf.resolved import Settings
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidInputError

VARIABLES = ("CATALOG_EXT_INDEX", "CATALOG_EXT_METASTORE", "CATALOG_EXT_WAREHOUSE")


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def test_nothing_given(tmp_path: Path) -> None:
    settings = Settings.resolve()
    assert (settings.name, settings.metastore) == ("lake", "embedded")
    assert settings.warehouse == f"file://{tmp_path}/spark-warehouse"
    assert settings.state == tmp_path / ".catalog-ext"
    assert settings.index == f"{tmp_path}/.catalog-ext/index.db"


def test_index_is_beside_a_local_warehouse_else_in_the_working_folder(tmp_path: Path) -> None:
    assert Settings.resolve(warehouse="/data/lake/wh").index == "/data/lake/.catalog-ext/index.db"
    assert Settings.resolve(warehouse="file:///data/lake/wh/").state == Path("/data/lake/.catalog-ext")
    assert Settings.resolve(warehouse="s3://bucket/wh").state == tmp_path / ".catalog-ext"
    assert Settings.resolve(warehouse="s3://bucket/wh").warehouse == "s3a://bucket/wh"
    assert Settings.resolve(warehouse="wh").warehouse == f"file://{tmp_path}/wh"


def test_argument_wins_over_environment_and_environment_over_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_INDEX", "/e/index.db")
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "thrift://e:1")
    monkeypatch.setenv("CATALOG_EXT_WAREHOUSE", "/e/wh")
    from_environment = Settings.resolve(site={"hive.metastore.uris": "thrift://spark:1"})
    assert (from_environment.index, from_environment.metastore, from_environment.warehouse) == (
        "/e/index.db", "thrift://e:1", "file:///e/wh",
    )  # fmt: skip
    given = Settings.resolve(index="/a/index.db", metastore="thrift://a:1", warehouse="/a/wh")
    assert (given.index, given.metastore, given.warehouse) == ("/a/index.db", "thrift://a:1", "file:///a/wh")


@pytest.mark.parametrize("none", [None, "none", "NONE"])
def test_no_metastore(monkeypatch: pytest.MonkeyPatch, none: str | None) -> None:
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "thrift://e:1")
    assert Settings.resolve(metastore=none, site={"hive.metastore.uris": "thrift://spark:1"}).metastore is None
    monkeypatch.setenv("CATALOG_EXT_METASTORE", "None")
    assert Settings.resolve(site={"hive.metastore.uris": "thrift://spark:1"}).metastore is None


def test_the_metastore_of_sparks_own_configuration() -> None:
    assert Settings.resolve(site={"hive.metastore.uris": "thrift://spark:1"}).metastore == "thrift://spark:1"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "a b"}, InvalidConfigurationError),
        ({"name": ""}, InvalidConfigurationError),
        ({"name": "a.b"}, InvalidConfigurationError),
        ({"name": "x; DROP"}, InvalidConfigurationError),
        ({"storage": {"bogus": "1"}}, InvalidConfigurationError),
        ({"warehouse": "http://x/y"}, InvalidInputError),
        ({"warehouse": "/a/../b"}, InvalidInputError),
    ],
)
def test_arguments_that_are_wrong(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Settings.resolve(**arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"metastore": "http://host:9083"},
        {"metastore": None, "index": "oracle://x/y"},
        {"metastore": None, "index": ":memory:://"},
        {"metastore": None, "index": " "},
    ],
)
def test_connecting_with_arguments_that_are_wrong(arguments: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        catalog_ext.connect(**{"index": str(tmp_path / "i.db"), **arguments})


@pytest.mark.parametrize("name", ["plain", "a b", "per%20cent", "what?", "hash#", "quote'", "ü"])
def test_any_folder_will_do(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    with catalog_ext.connect(metastore=None, warehouse=str(folder / "wh")) as catalog:
        catalog.create_namespace("s")
    assert (folder / ".catalog-ext" / "index.db").is_file()
    with catalog_ext.connect(metastore=None, warehouse=str(folder / "wh")) as catalog:
        assert catalog.list_namespaces() == ["s"]
