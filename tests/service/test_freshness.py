"""``staleness`` of plans and ``events/put``, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.events import notifications
from catalog_ext.metastore.errors import StorageUnavailableError
from catalog_ext.service.server import Service
from tests.kit.repair_cases import indexed, local_catalog, register, walked, write
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

A, B = "ds=2025-01-01/region=eu", "ds=2025-01-02/region=eu"


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """A table on a local folder, which stands for a bucket of that name."""
    monkeypatch.setattr(notifications, "_uri", lambda _, key: f"file://{tmp_path}/{key}")
    write(tmp_path / "t", f"{A}/1.csv")
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t")
        catalog.repair_partitions("s.t")
        yield catalog


@pytest.fixture
def client(catalog: Catalog) -> Iterator[Client]:
    with Service(catalog) as service:
        yield Client(service)


def record(path: str, name: str = "ObjectCreated:Put") -> dict[str, Any]:
    return {"eventName": name, "s3": {"bucket": {"name": "b"}, "object": {"key": f"t/{path}", "size": 1}}}


def test_a_plan_lists_what_is_stale(client: Client, catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", f"{A}/2.csv")
    table = client.load()
    fields = {
        "table_id": table["table_id"], "version": table["version"], "predicate": None, "clauses": [], "session": None,
        "among": None, "limit": None, "bounds": [],
    }  # fmt: skip

    def paths(staleness: object) -> list[str]:
        answer = client.call("tables/plan", **fields, staleness=staleness)
        assert answer.status == 200
        return sorted(answer.table.column("path").to_pylist())

    assert paths(None) == paths({"max_ms": 3_600_000, "statement": None}) == ["1.csv"]
    assert paths({"max_ms": 0, "statement": "one"}) == ["1.csv", "2.csv"]
    write(tmp_path / "t", f"{A}/3.csv")
    assert paths({"max_ms": 0, "statement": "one"}) == ["1.csv", "2.csv"], "one state in a statement"
    assert indexed(catalog) == {A: {"1.csv": 1, "2.csv": 1}}
    for wrong in ({}, {"max_ms": -1, "statement": None}, {"max_ms": 1, "statement": 7}, {"max_ms": "1"}):
        assert client.call("tables/plan", **fields, staleness=wrong).status == 400


def test_notifications_are_pushed(client: Client, catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", f"{A}/2.csv", f"{B}/1.csv")
    answer = client.call("events/put", Records=[record(f"{A}/2.csv"), record(f"{B}/1.csv"), record("else.csv")])
    assert answer.status == 200
    assert answer.json == {
        "events": 3, "ignored": 1, "left": 0,
        "tables": [
            {"table": "s.t", "checked": 2, "added": 1, "dropped": 0, "changed": 1, "version": 2, "error": None}
        ],
    }  # fmt: skip
    assert indexed(catalog) == walked(tmp_path / "t", 2)
    assert client.call("events/put", Event="s3:TestEvent").status == 200
    assert client.call("events/put", hello="world").status == 400


def test_what_could_not_be_done_is_to_be_pushed_again(
    client: Client, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "t", f"{A}/2.csv")
    with monkeypatch.context() as failing:

        def commit(*_: object, **__: object) -> object:
            raise StorageUnavailableError("not today")

        failing.setattr(catalog.index.commits, "apply_changes", commit)
        answer = client.call("events/put", Records=[record(f"{A}/2.csv")])
        assert (answer.status, answer.error["retryable"]) == (503, True)
    assert client.call("events/put", Records=[record(f"{A}/2.csv")]).status == 200
    assert indexed(catalog) == walked(tmp_path / "t", 2)
