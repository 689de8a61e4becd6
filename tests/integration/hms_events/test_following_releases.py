"""Metastores of releases 3 and 4 that keep a log, and a Hive engine on each: following, drift, adopting and leaving."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import catalog_ext
from catalog_ext.cli.main import main
from catalog_ext.identity.record import METASTORE
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.procedures.registry import find_procedure
from tests.kit.repair_cases import indexed
from tests.servers.hive import HiveCli
from tests.servers.hive_releases import RELEASE_3, RELEASE_4, Release, ReleaseMetastore, engine_4

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable


@pytest.fixture(scope="module", params=[RELEASE_3, RELEASE_4], ids=lambda release: release.version)
def release(request: pytest.FixtureRequest) -> Release:
    found: Release = request.param
    return found


@pytest.fixture(scope="module")
def metastore(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseMetastore]:
    server = ReleaseMetastore(release, tmp_path_factory.mktemp("metastore") / "metastore", log=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def hive(release: Release, metastore: ReleaseMetastore, tmp_path_factory: pytest.TempPathFactory) -> HiveCli:
    folder = tmp_path_factory.mktemp("hive") / "cli"
    if release is RELEASE_3:
        return HiveCli(folder, metastore.uri, settings={"hive.stats.autogather": "true"})
    return engine_4(folder, metastore.uri)


def test_what_hive_does_arrives(metastore: ReleaseMetastore, hive: HiveCli, tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number in range(3):
        (tmp_path / f"rows{number}").write_text(f"{number}\n")
    hive.run([
        "CREATE DATABASE f",
        "CREATE EXTERNAL TABLE f.t (x INT) PARTITIONED BY (ds STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY ','"
        f" STORED AS TEXTFILE LOCATION 'file://{root}'",
        f"LOAD DATA LOCAL INPATH '{tmp_path}/rows0' INTO TABLE f.t PARTITION (ds = 'a')",
    ])  # fmt: skip
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore=metastore.uri, warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.import_table("f.t")
        first = catalog.follower.look()
        assert (first.source, first.gap) == ("log", None)

        (root / "ds=m").mkdir()
        hive.run([
            f"LOAD DATA LOCAL INPATH '{tmp_path}/rows1' INTO TABLE f.t PARTITION (ds = 'a')",
            "ALTER TABLE f.t ADD PARTITION (ds = 'n')",
            "ALTER TABLE f.t ADD COLUMNS (y STRING)",
            "ALTER TABLE f.t SET TBLPROPERTIES ('a' = '1')",
            "MSCK REPAIR TABLE f.t",
        ])  # fmt: skip
        outcome = catalog.follower.look()
        assert outcome.gap is None
        assert outcome.event_id == outcome.newest_id
        assert _sizes(indexed(catalog, "f.t")) == {"ds=a": 2, "ds=m": 0, "ds=n": 0}
        definition = catalog.load_table("f.t").definition
        assert [c.name for c in definition.columns] == ["x", "y"]
        assert definition.properties["a"] == "1"

        hive.run([
            f"LOAD DATA LOCAL INPATH '{tmp_path}/rows2' OVERWRITE INTO TABLE f.t PARTITION (ds = 'a')",
            "ALTER TABLE f.t PARTITION (ds = 'm') RENAME TO PARTITION (ds = 'p')",
            "CREATE EXTERNAL TABLE f.u (x INT) ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE"
            f" LOCATION 'file://{tmp_path}/u'",
        ])  # fmt: skip
        _drop(metastore, "f", "ds=n")
        catalog.follower.look(databases=["f"])
        assert _sizes(indexed(catalog, "f.t")) == {"ds=a": 1, "ds=p": 0}
        assert catalog.list_tables("f") == ["t", "u"]
        hive.run([f"LOAD DATA LOCAL INPATH '{tmp_path}/rows1' INTO TABLE f.u", "DROP TABLE f.t"])
        catalog.follower.look()
        assert catalog.list_tables("f") == ["u"]
        assert _sizes(indexed(catalog, "f.u")) == {"": 1}
        assert catalog.index.outbox.count() == 0
        assert catalog.follower.look().is_idle


def test_drift_is_found_and_mended_and_tables_leave(
    metastore: ReleaseMetastore, hive: HiveCli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' STORED AS TEXTFILE"
    root, odd = tmp_path / "t", "day=x%2Fy"
    for number in range(3):
        (tmp_path / f"rows{number}").write_text(f"{number},n{number}\n")
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "rows").write_text("7,late\n8,late\n")
    hive.run([
        "CREATE DATABASE d",
        f"CREATE EXTERNAL TABLE d.t (id INT, name STRING COMMENT 'its') PARTITIONED BY (day STRING) {text}"
        f" LOCATION 'file://{root}'",
        *(f"LOAD DATA LOCAL INPATH '{tmp_path}/rows{n}' INTO TABLE d.t PARTITION (day = '{d}')"
          for n, d in enumerate(("a", "b", "x/y"))),
        f"CREATE EXTERNAL TABLE d.mixed (id INT) PARTITIONED BY (k INT) {text} LOCATION 'file://{tmp_path}/mixed'",
        "CREATE VIEW d.v AS SELECT * FROM d.t",
    ])  # fmt: skip
    arguments = ["--index", str(tmp_path / "index.db"), "--metastore", metastore.uri, "drift", "d.t"]
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore=metastore.uri, warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        found = {entry.table: entry.action for entry in catalog.import_tables("d")}
        assert found == {"d.mixed": "taken", "d.t": "taken", "d.v": "refused"}
        assert list(catalog.drift("d.t")) == []
        assert main([*arguments, "--check"]) == 0

        hive.run([
            f"LOAD DATA LOCAL INPATH '{tmp_path}/rows2' INTO TABLE d.t PARTITION (day = 'a')",
            f"ALTER TABLE d.t ADD PARTITION (day = 'late') LOCATION 'file://{tmp_path}/late'",
            "ALTER TABLE d.t ADD COLUMNS (fare DOUBLE)",
            "ALTER TABLE d.t SET TBLPROPERTIES ('p' = '1')",
        ])  # fmt: skip
        _drop(metastore, "d", "day=b")
        kinds = {(str(each.kind), each.subject) for each in catalog.drift("d.t")}
        # Whether what LOAD DATA brings is counted differs between releases.
        assert kinds | {("statistics", "day=a")} == {
            ("column", "fare"), ("parameter", "p"), ("partition", "day=late"), ("partition", "day=b"),
            ("statistics", "day=a"), ("files", "day=a"),
        }  # fmt: skip
        capsys.readouterr()
        assert main([*arguments, "--check", "--json"]) == 3
        reported = json.loads(capsys.readouterr().out)["differences"]
        assert {(each["kind"], each["subject"]) for each in reported} == kinds
        assert {(row["kind"], row["subject"]) for row in _called(catalog, "drift", {"table": "d.t"})} == kinds

        mend = {"table": "d.t", "source": "metastore", "drop": True}
        assert {row["action"] for row in _called(catalog, "mend_drift", {**mend, "dry_run": True})} >= {"add", "drop"}
        assert "day=b" in indexed(catalog, "d.t")
        assert all(row["done"] for row in _called(catalog, "mend_drift", mend))
        # Where the engine has not counted what it has loaded, only the store shows it.
        catalog.repair_partitions("d.t", where="day = 'a'")
        assert _sizes(indexed(catalog, "d.t")) == {"day=a": 2, "day=late": 1, odd: 1}
        assert catalog.deliver().pending == 0
        assert [(d.subject, d.metastore) for d in catalog.drift("d.t")] == [("day=b", "missing")], "it is on the store"

        # And by the index: what a Hive engine has dropped is there again.
        _drop(metastore, "d", odd)
        assert "publish" in {each.action for each in catalog.mend_drift("d.t", source="index") if each.done}
        query = "SELECT day, id, name FROM d.t"
        rows, names = hive.run([query, "SHOW PARTITIONS d.t"])
        assert sorted(rows) == [
            ("a", "0", "n0"), ("a", "2", "n2"), ("late", "7", "late"), ("late", "8", "late"), ("x/y", "2", "n2"),
        ]  # fmt: skip
        assert {name for (name,) in names} == {"day=a", "day=late", odd}

        # Leaving: what was unregistered is in the metastore as it was; what is gone there is made by one command.
        before = _table(metastore)
        catalog.unregister_table("d.t")
        assert _table(metastore) == before
        catalog.import_table("d.t")
        taken = indexed(catalog, "d.t")
        definition = catalog.load_table("d.t").definition
    with catalog_ext.connect(
        index=str(tmp_path / "left.db"), metastore=metastore.uri, warehouse=str(tmp_path / "warehouse")
    ) as left:
        left.import_table("d.t")
        # Its own is another one from now on.
        left.index.properties.replace({**left.index.properties.load(), METASTORE: "thrift://elsewhere:9083"})
        client = connect(metastore.uri)
        client.drop_table("d", "t")
        client.close()
        assert [(e.action, e.reason) for e in left.export("d.t", to=metastore.uri)] == [("made", None)]
        assert [e.action for e in left.export("d.t", to=metastore.uri)] == ["in sync"]
    with catalog_ext.connect(
        index=str(tmp_path / "new.db"), metastore=metastore.uri, warehouse=str(tmp_path / "warehouse")
    ) as new:
        new.import_table("d.t")
        assert indexed(new, "d.t") == taken
        assert new.load_table("d.t").definition == definition
    again, _ = hive.run([query, "DROP TABLE d.mixed"])
    assert sorted(again) == sorted(rows)


def _called(catalog: Catalog, name: str, given: dict[str, object]) -> list[dict[str, Any]]:
    """The rows of a CALL."""
    result = find_procedure(name).call(catalog, given)
    return [row for batch in result.batches for row in batch.cast(result.schema).to_pylist()]


def _table(metastore: ReleaseMetastore) -> tuple[HiveTable, list[HivePartition]]:
    client = connect(metastore.uri)
    try:
        return client.get_table("d", "t"), sorted(client.partitions("d", "t"), key=lambda p: p.values)
    finally:
        client.close()


def _drop(metastore: ReleaseMetastore, database: str, name: str) -> None:
    """Drop one of ``t`` by its name: a metastore without Hive's engine takes no expression, which that would send."""
    client = connect(metastore.uri)
    client.drop_partitions(database, "t", [name])
    client.close()


def _sizes(found: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: len(files) for name, files in found.items()}
