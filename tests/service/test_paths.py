"""The operations ``paths/*`` against the contract, over HTTP on the loopback interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.paths.adhoc import SCHEMA
from catalog_ext.service.messages.settings import settings_json
from catalog_ext.service.server import Service
from tests.repair_cases import local_catalog, write
from tests.service_client import Client

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
    asked: dict[str, object] = {
        "path": f"{tmp_path}/t",
        "keys": ["year"],
        "casts": casts,
        "predicate": predicate,
        "limit": 1000,
    }
    table = client.call("paths/plan", **asked).table
    assert table.schema == SCHEMA
    (row,) = table.to_pylist()
    assert row.pop("modified_ms") > 0
    assert row == {
        "partition_id": 0, "partition": "year=2024", "location": f"file://{tmp_path}/t/year=2024", "path": "a b.csv",
        "size": row["size"], "rows": None, "expression": None, "passed": None, "alternative": None,
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


def test_what_a_client_has_listed(client: Client) -> None:
    asked: dict[str, object] = {
        "path": "s3a://b/{x,y}/*/*", "keys": ["year", "Month"], "directories": [
            "s3a://b/x/YEAR=2024/month=01", "s3a://b/x/month=a%2Fb/year=__HIVE_DEFAULT_PARTITION__",
        ],
    }  # fmt: skip
    named = ["year=2024/Month=01", "year=__HIVE_DEFAULT_PARTITION__/Month=a%2Fb"]
    assert client.call("paths/listed", **asked).json == {"partitions": named}
    assert client.call("paths/listed", **asked, partitioning=False).json == {"partitions": ["", ""]}
    assert client.call("paths/listed", path="/t", keys=["year"], directories=[]).json == {"partitions": []}
    awaited = {"awaited": ["s3a://b/x/*/*", "s3a://b/y/*/*"]}
    assert client.call("paths/listed", **asked, **awaited, found=awaited["awaited"]).json == {"partitions": named}
    missing = client.call("paths/listed", **asked, **awaited, found=["s3a://b/x/*/*"])
    assert (missing.status, missing.error["code"]) == (404, "CATALOG_EXT_PATH_NOT_FOUND")
    assert "1 of the 2 paths" in missing.error["message"]
    assert "s3a://b/y/*/*" in missing.error["message"]


@pytest.mark.parametrize(
    ("directories", "message"),
    [
        (["s3a://b/year=1", "s3a://b/day=2"], "year in 's3a://b/year=1'; day in 's3a://b/day=2'"),
        (["s3a://b/year=1", "s3a://b/year=1/day=2"], "year, day in 's3a://b/year=1/day=2'"),
        (["s3a://b/year=1/Year=2"], "has the key 'Year' twice"),
    ],
)
def test_directories_that_a_client_has_listed_agree_on_their_keys(
    client: Client, directories: list[str], message: str
) -> None:
    answer = client.call("paths/listed", path="s3a://b", keys=["year"], directories=directories)
    assert (answer.status, answer.error["code"]) == (400, "CATALOG_EXT_PATH_LAYOUT")
    assert message in answer.error["message"]


def test_the_option_says_how_many_directories_are_listed_here_before_the_session(
    client: Client, tmp_path: Path
) -> None:
    key = "adhoc.distributed-listing-threshold"

    def left(options: dict[str, str], session: dict[str, str]) -> int:
        settings = {"options": options, "session": session}
        predicate = {"op": ">", "column": "year", "value": "2000"}
        asked = {"path": f"{tmp_path}/t/year=*/*.csv", "keys": ["year"], "predicate": predicate}
        answer = client.call("paths/plan", **asked, settings=settings)
        return sum(expression is not None for expression in answer.table.column("expression").to_pylist())

    assert [left({}, {}), left({key: "1"}, {}), left({}, {key: "1"}), left({key: "2"}, {key: "1"})] == [0, 2, 2, 0]
    assert left({key: str(2**31 - 1)}, {}) == 0, "switches the executors' listing off"
    refused = client.call("paths/plan", path=f"{tmp_path}/t", settings={"options": {key: "few"}, "session": {}})
    assert (refused.status, refused.error["code"]) == (400, "CATALOG_EXT_INVALID_CONFIGURATION")
