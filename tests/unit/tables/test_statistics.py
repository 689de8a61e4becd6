"""``statistics/put``: what ANALYZE found of files and columns, in the index's totals and for the metastore."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.index.database import schema
from catalog_ext.metastore.index.write import file_statistics
from catalog_ext.metastore.model.tables import ColumnStatistics
from catalog_ext.service.server import Service
from tests.kit.repair_cases import local_catalog, register, write
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore

EU, US = "ds=2025-01-01/region=eu", "ds=2025-01-02/region=us"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    write(tmp_path / "t", f"{EU}/a.csv", f"{EU}/b.csv", f"{US}/c.csv")
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t")
        catalog.repair_partitions("s.t")
        yield catalog


@pytest.fixture
def client(catalog: Catalog) -> Iterator[Client]:
    with Service(catalog) as service:
        yield Client(service)


def counted(catalog: Catalog, rows: int = 3) -> list[dict[str, Any]]:
    """Every file as it was planned, with a count."""
    return [
        {**{key: file[key] for key in ("partition", "path", "size", "modified_ms")}, "rows": rows, "statistics": {}}
        for file in catalog.files("s.t").to_pylist()
    ]


def put(client: Client, files: list[dict[str, Any]], columns: object = None, predicate: object = None) -> Any:
    table = client.load()
    return client.call(
        "statistics/put", table_id=table["table_id"], version=table["version"], files=files, columns=columns,
        predicate=predicate,
    )  # fmt: skip


def test_counts_reach_files_partitions_and_the_table(catalog: Catalog, client: Client) -> None:
    files = counted(catalog)
    bounds = {"x": {"min": "1", "max": "9", "nulls": 0}}
    first = put(client, [{**files[0], "statistics": bounds}]).json
    assert (first["operation"], first["version"], first["transaction"], first["rows"]) == ("ANALYZE", 1, None, 3)
    assert catalog.load_table("s.t").totals.rows is None
    assert catalog.partitions("s.t").column("rows").to_pylist() == [None, None], "one file of two is known"
    assert put(client, files).json["partitions_changed"] == 2
    assert catalog.partitions("s.t").column("rows").to_pylist() == [6, 3]
    assert catalog.files("s.t").column("rows").to_pylist() == [3, 3, 3]
    assert (client.load()["totals"]["rows"], client.load()["version"]) == (9, 1)
    again = put(client, counted(catalog, 4)).json
    assert (again["partitions_changed"], catalog.load_table("s.t").totals.rows) == (2, 12)


def test_files_that_changed_meanwhile_stay_unknown(catalog: Catalog, client: Client, tmp_path: Path) -> None:
    files = counted(catalog)
    write(tmp_path / "t", f"{EU}/a.csv", content=b"longer")
    catalog.repair_partitions("s.t")
    gone = {**files[1], "path": "gone.csv"}
    put(client, [*files, gone, {**gone, "partition": "ds=2030-01-01/region=x"}])
    rows = {row["path"]: row["rows"] for row in catalog.files("s.t").to_pylist()}
    assert rows == {"a.csv": None, "b.csv": 3, "c.csv": 3}
    assert catalog.partitions("s.t").column("rows").to_pylist() == [None, 3]
    assert catalog.load_table("s.t").totals.rows is None


def test_counts_alone_leave_the_bounds_of_a_file(catalog: Catalog, client: Client) -> None:
    files = counted(catalog)
    put(client, [{**files[0], "statistics": {"x": {"min": "1", "max": "9", "nulls": 0}}}])
    put(client, [{**file, "rows": 4, "statistics": None} for file in files])
    assert catalog.files("s.t").column("rows").to_pylist() == [4, 4, 4]
    with catalog.index._database.reading() as connection:
        kept = connection.execute(sa.select(schema.file_statistics.c.statistics)).scalars().all()
    assert [json.loads(text)["x"]["max"] for text in kept] == ["9"], "no row says that the others were looked at"


@pytest.mark.parametrize(("publish", "published"), [(True, "4"), (False, None)])
def test_counts_that_are_not_published_stay_in_the_index(
    tmp_path: Path, metastore: FakeMetastore, publish: bool, published: str | None
) -> None:
    write(tmp_path / "t", f"{EU}/a.csv")
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        register(catalog, tmp_path / "t")
        catalog.repair_partitions("s.t")
        with Service(catalog) as service:
            client = Client(service)
            table = client.load()
            done = client.call(
                "statistics/put", table_id=table["table_id"], version=table["version"], files=counted(catalog, 4),
                columns=None, publish=publish,
            )  # fmt: skip
        assert (done.status, catalog.load_table("s.t").totals.rows) == (200, 4)
        (there,) = metastore.partitions_by_names("s", "t", [EU])
    assert there.parameters.get("numRows") == published


def test_statistics_of_columns_are_properties_of_one_version(catalog: Catalog, client: Client, tmp_path: Path) -> None:
    def properties() -> dict[str, str]:
        found = catalog.load_table("s.t").definition.properties
        return {key.removeprefix("spark.sql."): text for key, text in found.items() if "statistics" in key}

    put(client, counted(catalog))
    put(client, [], {"x": {"distinctCount": "5", "min": "1"}})
    base = {"statistics.totalSize": "3", "statistics.numRows": "9", "catalog-ext.statistics.version": "1"}
    of_x = {"statistics.colStats.x.distinctCount": "5", "statistics.colStats.x.min": "1"}
    assert properties() == {**base, **of_x}
    put(client, [], {"y": {"nullCount": "0"}})
    assert properties() == {**base, **of_x, "statistics.colStats.y.nullCount": "0"}
    loaded = client.load()
    assert loaded["statistics"] == {"x": {"distinctCount": "5", "min": "1"}, "y": {"nullCount": "0"}}
    assert not any("statistics" in key for key in loaded["properties"])
    write(tmp_path / "t", f"{US}/d.csv")
    catalog.repair_partitions("s.t")
    outdated = client.load()
    assert (outdated["statistics"], outdated["properties"]) == ({}, loaded["properties"])
    put(client, [], {"y": {"nullCount": "1"}, "a.b": {"min": "c"}})
    assert client.load()["statistics"] == {"y": {"nullCount": "1"}, "a.b": {"min": "c"}}
    assert properties() == {
        "statistics.totalSize": "4", "catalog-ext.statistics.version": "2", "statistics.colStats.y.nullCount": "1",
        "statistics.colStats.a.b.min": "c",
    }  # fmt: skip


CONTRADICTORY: dict[str, dict[str, Any]] = {
    "more nulls than rows": {"min": None, "max": None, "nulls": 4},
    "nulls alone and a bound": {"min": "1", "max": None, "nulls": 3},
}


def test_statistics_that_cannot_be_true_are_unknown(catalog: Catalog, client: Client) -> None:
    possible = {
        "all null": {"min": None, "max": None, "nulls": 3},
        "no null count": {"min": "1", "max": "2", "nulls": None},
        "some nulls": {"min": "1", "max": "2", "nulls": 2},
    }
    (file, *_) = counted(catalog)
    put(client, [{**file, "statistics": {**CONTRADICTORY, **possible}}])
    (known, *_) = (
        catalog.index.metadata_rows.files(catalog.load_table("s.t")).read_all().column("statistics").to_pylist()
    )
    assert json.loads(known) == possible
    assert not ColumnStatistics(nulls=4).contradicts(None), "how many rows there are is unknown"


def test_a_file_is_measured_once(catalog: Catalog, client: Client) -> None:
    """ANALYZE looks again at files whose rows alone are known, but not at those whose footer says nothing."""

    def unmeasured() -> list[str]:
        table = client.load()
        plan = {"table_id": table["table_id"], "version": table["version"], "predicate": None, "unmeasured": True}
        return sorted(row["path"] for row in client.call("tables/plan", **plan).rows)

    files = {file["path"]: file for file in counted(catalog)}
    assert unmeasured() == sorted(files)
    put(client, [{**file, "statistics": None} for file in files.values()])
    assert unmeasured() == sorted(files), "their rows are known, their columns were not measured"
    put(client, [files["a.csv"], {**files["b.csv"], "statistics": {"x": {"min": "1", "max": "1", "nulls": 0}}}])
    assert unmeasured() == ["c.csv"]
    put(client, [files["b.csv"]])
    known = catalog.index.metadata_rows.files(catalog.load_table("s.t")).read_all().column("statistics").to_pylist()
    assert sorted(map(str, known)) == ["None", "{}", "{}"], "what was known before is unknown now"


@pytest.mark.parametrize("columns", [{"x": "5"}, {"x": {"min": 5}}, ["x"]])
def test_what_is_no_statistics_is_refused(client: Client, columns: object) -> None:
    assert put(client, [], columns).status == 400


def test_too_many_files_are_refused(catalog: Catalog, client: Client) -> None:
    assert put(client, counted(catalog)[:1] * 1001).status == 400


def test_without_files_or_columns_known_statistics_are_published(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.load_table("s.t")
    monkeypatch.setattr(file_statistics, "_PUBLISHED_AT_ONCE", 1)
    assert catalog.index.file_statistics.enqueue(table, None) == 2
    assert catalog.index.file_statistics.enqueue(table, catalog.predicate(table, "region = 'eu'")) == 1
    reported = [[p["name"] for p in d.payload["alter"]] for d in catalog.index.outbox.pending()]
    assert reported == [[EU], [US], [EU]]
    register(catalog, tmp_path / "flat", {}, table="s.flat")
    write(tmp_path / "flat", "a.csv")
    catalog.repair_partitions("s.flat")
    assert catalog.index.file_statistics.enqueue(catalog.load_table("s.flat"), None) == 1
    (last,) = catalog.index.outbox.pending()[3:]
    assert (last.operation, last.payload["parameters"]["numFiles"]) == ("alter_table_statistics", "1")
