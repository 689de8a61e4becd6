"""The operations ``paths/*`` against the contract, over HTTP on the loopback interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.service.messages.settings import settings_json
from catalog_ext.service.server import Service
from tests.kit.repair_cases import local_catalog, write
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    write(tmp_path / "t", "year=2023/1.csv", "year=2024/a b.csv", "year=2024/sub/_x")
    write(tmp_path, "elsewhere.csv")
    with local_catalog(tmp_path) as catalog, Service(catalog) as service:
        yield Client(service)


def test_load(client: Client, tmp_path: Path) -> None:
    path = f"{tmp_path}/t/year=*/*.csv"
    asked: dict[str, object] = {
        "path": path,
        "format": None,
        "schema": "x INT COMMENT 'c'",
        "options": {"sep": ";"},
        "partitioning": True,
    }
    assert client.call("paths/load", **asked).json == {
        "path": path, "format": "csv", "location": f"file://{tmp_path}/t", "options": {"sep": ";"},
        "columns": [{"name": "x", "type": "int", "nullable": True, "comment": "c"}],
        "partition_columns": [{"name": "year", "type": "string", "nullable": True, "comment": None}],
        "partitioning": True, "settings": settings_json(path, {}, {}),
    }  # fmt: skip
    del asked["partitioning"]
    assert client.call("paths/load", **asked).json["partitioning"] is True
    switched_off = client.call("paths/load", **asked, session={"use_hive_partitioning": "0"}).json
    assert (switched_off["partitioning"], switched_off["partition_columns"]) == (False, [])


def test_plan(client: Client, tmp_path: Path) -> None:
    predicate = {"op": ">", "column": "year as int", "value": "2023"}
    casts = [{"name": "year as int", "key": "year", "type": "int"}]
    asked: dict[str, object] = {"path": f"{tmp_path}/t", "keys": ["year"], "casts": casts, "predicate": predicate}
    table = client.call("paths/plan", **asked).table
    assert table.schema == PLAN_SCHEMA
    (row,) = table.to_pylist()
    assert row.pop("modified_ms") > 0
    assert row == {
        "partition_id": 0, "partition": "year=2024", "location": f"file://{tmp_path}/t/year=2024", "path": "a b.csv",
        "size": row["size"], "rows": None,
    }  # fmt: skip
    assert client.call("paths/plan", **{**asked, "predicate": {"op": "false"}}).table.num_rows == 0


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("t/nothing", 404, "PATH_NOT_FOUND"),
        ("t/{1..a}", 400, "INVALID_PATTERN"),
        ("**", 400, "PATH_LAYOUT"),
    ],
)
def test_refusals(client: Client, tmp_path: Path, path: str, status: int, code: str) -> None:
    answer = client.call("paths/plan", path=f"{tmp_path}/{path}", keys=["month"])
    assert answer.status == status
    assert answer.error["code"] == f"CATALOG_EXT_{code}"
    assert str(tmp_path) in answer.error["message"]


def test_a_relative_path_is_refused(client: Client) -> None:
    answer = client.call("paths/load", path="t/year=*")
    assert (answer.status, answer.error["code"]) == (400, "CATALOG_EXT_INVALID_INPUT")
    assert "is relative" in answer.error["message"]
