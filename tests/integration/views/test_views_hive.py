"""Views as the metastore and a real Hive have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hmsclient import hmsclient
from hmsclient.genthrift.hive_metastore.ttypes import NotificationEventRequest

import catalog_ext
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.uris import parse_uris
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.views.views import NewViewPartition, ViewRequest
from tests.integration.lake import rows
from tests.servers.hive import HiveMetastore
from tests.servers.hive_releases import RELEASE_3, Release, ReleaseMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveCli

NAMESPACE = "viewed"
DAYS = ("2025-01-01", "2025-01-02")


@pytest.fixture(scope="module")
def catalog(hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    root = tmp_path_factory.mktemp("views_hive")
    for day in DAYS:
        folder = root / "t" / f"ds={day}"
        folder.mkdir(parents=True)
        (folder / "1.csv").write_text(f"1,eu {day}\n2,us {day}\n")
    with catalog_ext.connect(
        index=str(root / "index.db"), metastore=hive_metastore.uri, warehouse=str(root / "warehouse")
    ) as catalog:
        catalog.create_namespace(NAMESPACE)
        catalog.register_table(
            f"{NAMESPACE}.t", location=str(root / "t"), partition_columns={"ds": "STRING"}, format="csv",
            schema="id INT, name STRING",
        )  # fmt: skip
        catalog.repair_partitions(f"{NAMESPACE}.t")
        yield catalog


def make(catalog: Catalog, name: str, text: str, *on: str, columns: str = "number name ds") -> None:
    kinds = {"number": "int"}
    request = ViewRequest(
        TableIdentifier.of(NAMESPACE, name),
        ViewQuery(text, "lake", (NAMESPACE,), query_columns=("id", "name", "ds")),
        tuple(Column(c, kinds.get(c, "string"), comment=f"the {c}") for c in columns.split()),
        on,
        {"kept": "yes"},
        "for people",
    )
    catalog.views.create(request, or_replace=True)


@pytest.mark.requirement(
    "HivePV.Metastore",
    statement="catalog.views.add_partitions(",
    differs="A view's partition has an empty storage descriptor: without a descriptor, Hive adds no "
    "partition if its metastore keeps an event log.",
)
def test_partitions_of_views_lie_nowhere(
    catalog: Catalog, hive_metastore: HiveMetastore, request: pytest.FixtureRequest
) -> None:
    make(catalog, "stored", "SELECT id, name, ds FROM lake.viewed.t", "ds")
    catalog.views.add_partitions(f"{NAMESPACE}.stored", [NewViewPartition({"ds": day}) for day in (*DAYS, "a/b")])
    (address,) = parse_uris(hive_metastore.uri)
    with hmsclient.HMSClient(host=address.host, port=address.port) as client:
        view = client.get_table(NAMESPACE, "stored")
        assert (view.tableType, view.sd.location) == (VIRTUAL_VIEW, None)
        assert [(c.name, c.type, c.comment) for c in view.sd.cols] == [
            ("number", "int", "the number"), ("name", "string", "the name"),
        ]  # fmt: skip
        assert [(k.name, k.type) for k in view.partitionKeys] == [("ds", "string")]
        assert view.viewOriginalText == "SELECT id, name, ds FROM lake.viewed.t"
        assert (view.parameters["kept"], view.parameters["comment"]) == ("yes", "for people")
        assert sorted(client.get_partition_names(NAMESPACE, "stored", -1)) == [
            "ds=2025-01-01", "ds=2025-01-02", "ds=a%2Fb",
        ]  # fmt: skip
        descriptor = client.get_partition(NAMESPACE, "stored", [DAYS[0]]).sd
        assert (descriptor.location, descriptor.inputFormat, descriptor.cols) == (None, None, [])
    make(catalog, "stored", "SELECT id, upper(name) AS name, ds FROM t", "ds")
    metastore = connect(hive_metastore.uri)
    request.addfinalizer(metastore.close)
    assert len(list(metastore.partition_names(NAMESPACE, "stored"))) == 3
    catalog.views.drop_partitions(f"{NAMESPACE}.stored", [{"ds": "a/b"}])
    assert [p.values for p in metastore.partitions(NAMESPACE, "stored")] == [(DAYS[0],), (DAYS[1],)]
    catalog.views.rename(f"{NAMESPACE}.stored", f"{NAMESPACE}.renamed")
    assert metastore.list_tables(NAMESPACE) == ["renamed", "t"]
    assert len(list(metastore.partition_names(NAMESPACE, "renamed"))) == 2
    catalog.views.drop(f"{NAMESPACE}.renamed")
    assert metastore.list_tables(NAMESPACE) == ["t"]
    assert catalog.deliver().pending == 0


@pytest.mark.parametrize("release", ["2.3", RELEASE_3], ids=["2.3", "3.1"])
def test_a_metastore_with_a_log_takes_partitions_of_views(release: str | Release, tmp_path: Path) -> None:
    folder = tmp_path / "metastore"
    server = (
        HiveMetastore(folder, log=True) if isinstance(release, str) else ReleaseMetastore(release, folder, log=True)
    )
    try:
        index = str(tmp_path / "index.db")
        with catalog_ext.connect(index=index, metastore=server.uri, warehouse=str(tmp_path)) as catalog:
            catalog.create_namespace(NAMESPACE)
            make(catalog, "logged", "SELECT 1 AS id, 'a' AS name, 'd' AS ds", "ds")
            catalog.views.add_partitions(f"{NAMESPACE}.logged", [NewViewPartition({"ds": day}) for day in DAYS])
            catalog.views.drop_partitions(f"{NAMESPACE}.logged", [{"ds": DAYS[0]}])
            assert catalog.deliver().pending == 0
        (address,) = parse_uris(server.uri)
        with hmsclient.HMSClient(host=address.host, port=address.port) as client:
            assert client.get_partition_names(NAMESPACE, "logged", -1) == [f"ds={DAYS[1]}"]
            events = client.get_next_notification(NotificationEventRequest(lastEvent=0)).events
        assert [e.eventType for e in events if "PARTITION" in e.eventType] == ["ADD_PARTITION", "DROP_PARTITION"]
    finally:
        server.stop()


def test_hive_reads_the_view(catalog: Catalog, hive_cli: HiveCli, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: [catalog.views.drop(f"{NAMESPACE}.{name}") for name in ("daily", "simple")])
    make(catalog, "simple", "SELECT id, name, ds FROM t WHERE id > 1")
    catalog.views.create(
        ViewRequest(
            TableIdentifier.of(NAMESPACE, "daily"),
            ViewQuery("SELECT number, ds FROM simple", "lake", (NAMESPACE,)),
            (Column("number", "int"), Column("ds", "string")),
            ("ds",),
        )
    )
    catalog.views.add_partitions(f"{NAMESPACE}.daily", [NewViewPartition({"ds": DAYS[1]})])
    shown, rows, daily, described = hive_cli.run(
        [
            f"SHOW PARTITIONS {NAMESPACE}.daily",
            f"SELECT number, name, ds FROM {NAMESPACE}.simple",
            f"SELECT * FROM {NAMESPACE}.daily WHERE ds = '{DAYS[1]}'",
            f"DESCRIBE FORMATTED {NAMESPACE}.daily PARTITION (ds = '{DAYS[1]}')",
        ]
    )
    assert shown == [(f"ds={DAYS[1]}",)]
    assert sorted(rows) == [("2", f"us {day}", day) for day in DAYS]
    assert daily == [("2", DAYS[1])]
    assert DAYS[1] in str(described)


VIEWS_OF_FULL_NAMES = {
    "joined": "SELECT t.id, c.name, t.ds FROM lake.elsewhere.trips t JOIN lake.elsewhere.cities c ON t.city = c.city",
    "columned": """
        SELECT lake.elsewhere.trips.id, elsewhere.cities.name, 'lake.elsewhere' AS ds /* not lake.elsewhere.trips */
        FROM lake.elsewhere.trips JOIN lake.elsewhere.cities ON lake.elsewhere.trips.city = elsewhere.cities.city
    """,
    # One has the name of a table; the other names its columns, and is read twice.
    "common": """
        WITH cities AS (SELECT city, upper(name) AS name FROM lake.elsewhere.cities),
             found (number, place, ds) AS (SELECT id, city, ds FROM lake.elsewhere.`trips` WHERE id > 1)
        SELECT one.number, cities.name, two.ds
        FROM found one JOIN found two ON one.number = two.number JOIN cities ON cities.city = one.place
    """,
}


@pytest.mark.spark
def test_hive_reads_views_of_sessions_with_another_current_catalog(
    driver: Driver, hive_metastore: HiveMetastore, hive_cli: HiveCli, tmp_path: Path
) -> None:
    index = f"sqlite:///{tmp_path}/index.db"
    with driver.catalog(warehouse=str(tmp_path), index=index, metastore=hive_metastore.uri) as spark:
        assert spark.catalog.currentCatalog() == "spark_catalog"
        for statement in (
            "CREATE NAMESPACE lake.elsewhere",
            "CREATE TABLE lake.elsewhere.cities (city INT, name STRING) USING PARQUET",
            "CREATE TABLE lake.elsewhere.trips (id INT, city INT, ds STRING) USING PARQUET PARTITIONED BY (ds)",
            "INSERT INTO lake.elsewhere.cities VALUES (1, 'Rome'), (2, 'Oslo')",
            "INSERT INTO lake.elsewhere.trips VALUES (1, 1, 'd1'), (2, 2, 'd1'), (3, 1, 'd2'), (4, 9, 'd2')",
            *(f"CREATE VIEW lake.elsewhere.{name} AS {text}" for name, text in VIEWS_OF_FULL_NAMES.items()),
            # Altered by statement, a view is sent anew.
            "ALTER VIEW lake.elsewhere.common SET TBLPROPERTIES ('note' = 'kept')",
        ):
            spark.sql(statement)
        expected = {name: rows(spark, f"SELECT * FROM lake.elsewhere.{name}") for name in VIEWS_OF_FULL_NAMES}
    assert [len(expected[name]) for name in VIEWS_OF_FULL_NAMES] == [3, 3, 2]
    listed, *found = hive_cli.run(
        ["SHOW TABLES IN elsewhere", *(f"SELECT * FROM elsewhere.{name}" for name in VIEWS_OF_FULL_NAMES)]
    )
    assert {name for (name,) in listed} == {"cities", "trips", *VIEWS_OF_FULL_NAMES}
    for name, its_rows in zip(VIEWS_OF_FULL_NAMES, found, strict=True):
        assert sorted(its_rows) == sorted(tuple(map(str, row)) for row in expected[name]), name
