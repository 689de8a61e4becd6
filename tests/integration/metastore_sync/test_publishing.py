"""An embedded metastore that was lost is noticed, and filled again from the index."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from catalog_ext.catalog import Catalog, connect
from catalog_ext.cli.main import main
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, DataFile, TableDefinition, TableType
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.procedures.registry import find_procedure
from catalog_ext.views.views import NewViewPartition, ViewRequest
from tests.kit.repair_cases import register, write
from tests.kit.writes import insert

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PARTITIONS = 1500


def test_a_lost_embedded_metastore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def run(*arguments: str) -> tuple[int, Any]:
        places = ("--warehouse", str(tmp_path / "warehouse"), "--metastore", "embedded")
        code = main((*places, *arguments, "--json"))
        return code, json.loads(capsys.readouterr().out)

    def of_doctor() -> tuple[int, bool, dict[str, str]]:
        code, answer = run("doctor")
        found = {c["check"]: c["found"] for c in answer["checks"] if c["area"] == "metastore"}
        return code, answer["healthy"], found

    with opened(tmp_path) as catalog:
        fill(catalog)
        assert catalog.deliver(120).pending == 0
        before = state(catalog)
        assert "1 compared with the index, none is missing" in of_doctor()[2]["tables"]
    shutil.rmtree(tmp_path / ".catalog-ext" / "metastore")
    code, healthy, found = of_doctor()
    assert (code, healthy) == (1, False)
    assert "is not there any more" in found["identity"]
    assert not (tmp_path / ".catalog-ext" / "metastore").exists(), "who only looks makes none"
    # One server for all that follows: the commands find it at work, and need not start one each.
    with opened(tmp_path) as catalog:
        assert caplog.text.count("is not there any more") == 2
        catalog.metastore.client()
        code, healthy, found = of_doctor()
        assert (code, healthy) == (1, False)
        assert "it was made anew" in found["identity"]
        assert "1 are missing (sales.trips). Run: catalog-ext publish --all" in found["tables"]
        code, answer = run("publish", "--all", "--dry-run")
        expected = {
            "table": "sales.trips", "published": PARTITIONS, "dropped": 0, "pending": 0, "error": None, "drops": [],
            "differs": "the table is missing",
        }  # fmt: skip
        assert (code, answer["tables"]) == (0, [expected | {"action": "create"}])
        assert run("publish", "--all")[1]["tables"] == [expected | {"action": "create"}]
        assert state(catalog) == before
        assert "identity" not in of_doctor()[2]
        client = catalog.metastore.client()
        client.drop_partitions("sales", "trips", ["ds=2025-01-01/n=7"])
        batches = find_procedure("publish").call(catalog, {"table": "sales.trips"}).batches
        (row,) = [row for batch in batches for row in batch.to_pylist()]
        assert (row["action"], row["published"]) == ("partitions", 1)
        assert state(catalog) == before
        assert run("publish", "sales.trips")[1]["tables"][0]["action"] == "in sync"
        views_are_compared(catalog)
        hand_over(catalog, tmp_path / "t")


def views_are_compared(catalog: Catalog) -> None:
    """As the metastore keeps them, with what it adds itself."""
    columns = (Column("x", "int"), Column("ds", "date"))
    query = ViewQuery("SELECT x, ds FROM trips", "lake", ("sales",))
    identifier = TableIdentifier("sales", "days")
    catalog.views.create(ViewRequest(identifier, query, columns, ("ds",), {"note": "a"}))
    catalog.views.add_partitions("sales.days", [NewViewPartition({"ds": f"2025-01-0{day}"}) for day in (1, 2)])
    catalog.deliver(120)

    def action() -> str:
        (entry,) = catalog.publish("sales.days")
        return entry.action

    assert action() == "in sync"
    catalog.metastore.client().drop_partitions("sales", "days", ["ds=2025-01-02"])
    assert (action(), action()) == ("alter", "in sync")
    assert list(catalog.metastore.client().partition_names("sales", "days")) == ["ds=2025-01-01", "ds=2025-01-02"]
    catalog.views.drop("sales.days")


def hand_over(catalog: Catalog, root: Path) -> None:
    """Of two directories of one value the metastore has the first, and the other when that is overwritten."""

    def directories() -> dict[str, tuple[str, str]]:
        found = catalog.metastore.client().partitions("sales", "upper")
        return {p.values[0]: (p.location.rpartition("/")[2], p.parameters["numFiles"]) for p in found}

    write(root, "DS=3/a.csv", "ds=4/a.csv")
    register(catalog, root, {"ds": "STRING"}, table="sales.upper")
    catalog.repair_partitions("sales.upper")
    insert(catalog, "ds=3", table="sales.upper")
    assert catalog.deliver(60).pending == 0
    assert directories() == {"3": ("DS=3", "1"), "4": ("ds=4", "1")}
    insert(catalog, "ds=3", kind=WriteKind.OVERWRITE_PARTITIONS, table="sales.upper")
    assert catalog.deliver(60).pending == 0
    assert directories() == {"3": ("ds=3", "1"), "4": ("ds=4", "1")}
    write(root, "DS=3/b.csv")
    catalog.repair_partitions("sales.upper")
    shutil.rmtree(root / "ds=3")
    catalog.repair_partitions("sales.upper")
    assert catalog.deliver(60).pending == 0
    assert directories() == {"3": ("DS=3", "1"), "4": ("ds=4", "1")}


def opened(folder: Path) -> Catalog:
    return connect(warehouse=str(folder / "warehouse"), metastore="embedded")


def fill(catalog: Catalog) -> None:
    catalog.create_namespace("sales", properties={"owner": "me"})
    columns, keys = (Column("id", "bigint"), Column("at", "timestamp")), (Column("ds", "date"), Column("n", "int"))
    named = TableDefinition(TableIdentifier("sales", "trips"), TableType.MANAGED, "parquet", "", columns, keys)
    table = catalog.create_table(named)
    names = [f"ds=2025-01-01/n={n}" for n in range(PARTITIONS)]
    changes = [AddPartition(name, (DataFile("f", n, 1, rows=n),)) for n, name in enumerate(names)]
    catalog.index.commits.apply_changes(table.table_id, changes, operation="repair", deliver=True)


def state(catalog: Catalog) -> object:
    """What the metastore has, but for times."""
    client = catalog.metastore.client()
    table = client.get_table("sales", "trips")
    statistics = ("numFiles", "totalSize", "numRows")
    partitions = {
        p.values: (p.location, *(p.parameters.get(name) for name in statistics))
        for p in client.partitions("sales", "trips")
    }
    assert len(partitions) == PARTITIONS
    return client.get_database("sales"), table.columns, table.partition_columns, table.location, partitions
