"""Views as the metastore and a real Hive have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hmsclient import hmsclient

import catalog_ext
from catalog_ext.metastore.hive.mapping.model import VIRTUAL_VIEW
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.uris import parse_uris
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.views.checks import ViewRequest
from catalog_ext.views.views import NewPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from tests.servers.hive import HiveCli, HiveMetastore

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


@pytest.mark.requirement("HivePV.Metastore", statement="catalog.views.add_partitions(")
def test_partitions_of_views_have_no_storage_descriptor(
    catalog: Catalog, hive_metastore: HiveMetastore, request: pytest.FixtureRequest
) -> None:
    make(catalog, "stored", "SELECT id, name, ds FROM lake.viewed.t", "ds")
    catalog.views.add_partitions(f"{NAMESPACE}.stored", [NewPartition({"ds": day}) for day in (*DAYS, "a/b")])
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
        assert client.get_partition(NAMESPACE, "stored", [DAYS[0]]).sd is None
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
    catalog.views.add_partitions(f"{NAMESPACE}.daily", [NewPartition({"ds": DAYS[1]})])
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
