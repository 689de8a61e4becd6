"""Metastores of releases 3 and 4 that keep a log, written to by a Hive engine that works on each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.hive.thrift.connect import connect
from tests.repair_cases import indexed
from tests.servers.hive import HiveCli
from tests.servers.hive_releases import RELEASE_3, RELEASE_4, Release, ReleaseMetastore, engine_4

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=[RELEASE_3, RELEASE_4], ids=lambda release: release.version)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Release, ReleaseMetastore]]:
    release: Release = request.param
    server = ReleaseMetastore(release, tmp_path / "metastore", log=True)
    yield release, server
    server.stop()


def test_what_hive_does_arrives(server: tuple[Release, ReleaseMetastore], tmp_path: Path) -> None:
    release, metastore = server
    if release is RELEASE_3:
        hive = HiveCli(tmp_path / "hive", metastore.uri, settings={"hive.stats.autogather": "true"})
    else:
        hive = engine_4(tmp_path / "hive", metastore.uri)
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
        _drop(metastore)
        catalog.follower.look(databases=["f"])
        assert _sizes(indexed(catalog, "f.t")) == {"ds=a": 1, "ds=p": 0}
        assert catalog.list_tables("f") == ["t", "u"]
        hive.run([f"LOAD DATA LOCAL INPATH '{tmp_path}/rows1' INTO TABLE f.u", "DROP TABLE f.t"])
        catalog.follower.look()
        assert catalog.list_tables("f") == ["u"]
        assert _sizes(indexed(catalog, "f.u")) == {"": 1}
        assert catalog.index.count_deliveries() == 0
        assert catalog.follower.look().is_idle


def _drop(metastore: ReleaseMetastore) -> None:
    """Drop ``ds=n`` by its name: a metastore without Hive's engine takes no expression, which the engine would send."""
    client = connect(metastore.uri)
    client.drop_partitions("f", "t", ["ds=n"])
    client.close()


def _sizes(found: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: len(files) for name, files in found.items()}
