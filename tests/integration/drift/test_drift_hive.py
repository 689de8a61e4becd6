"""What a real Hive 2.3 does to a table is found and followed; and its tables leave for another metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import Catalog, connect
from catalog_ext.drift.difference import DriftKind, Side
from catalog_ext.sync.hive_statements import quoted
from tests.kit.repair_cases import indexed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.hive import HiveCli, HiveMetastore

DB = "drifting"
TEXT = "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|'"
REGIONS = ["eu west", "x/y", "q'd;", "50%", "k=v"]


@pytest.fixture
def catalog(tmp_path: Path, hive_metastore: HiveMetastore) -> Iterator[Catalog]:
    with connect(
        index=str(tmp_path / "index.db"), metastore=hive_metastore.uri, warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        yield catalog


def test_hives_changes_are_found_followed_and_taken_away(
    catalog: Catalog,
    hive_cli: HiveCli,
    make_hive_metastore: Callable[[], HiveMetastore],
    tmp_path: Path,
) -> None:
    root = tmp_path / "t"
    hive_cli.run([
        f"CREATE DATABASE {DB} LOCATION 'file://{tmp_path}/db'",
        f"CREATE EXTERNAL TABLE {DB}.t (id INT, name STRING COMMENT 'its') PARTITIONED BY (day DATE, region STRING) "
        f"{TEXT} LOCATION 'file://{root}' TBLPROPERTIES ('note'='theirs')",
        *(f"ALTER TABLE {DB}.t ADD PARTITION (day='2025-01-01', region={quoted(region)})" for region in REGIONS),
        f"CREATE TABLE {DB}.skewed (id INT) SKEWED BY (id) ON (1) STORED AS DIRECTORIES",
        f"CREATE TABLE {DB}.mixed (id INT) PARTITIONED BY (k INT) {TEXT}",
        f"ALTER TABLE {DB}.mixed ADD PARTITION (k=1) PARTITION (k=2)",
        f"USE {DB}",
        "ALTER TABLE mixed PARTITION (k=2) SET FILEFORMAT SEQUENCEFILE",
        f"CREATE VIEW {DB}.v AS SELECT * FROM {DB}.t",
    ])  # fmt: skip
    for number, directory in enumerate(sorted(root.glob("day=*/region=*"))):
        (directory / "rows").write_text(f"{number}|n\n")
    entries = {e.table.partition(".")[2]: e for e in catalog.import_tables(DB)}
    assert {name: e.action for name, e in entries.items()} == {
        "mixed": "refused", "skewed": "refused", "t": "taken", "v": "refused",
    }  # fmt: skip
    assert "of its partition 'k=2' its storage is" in (entries["mixed"].reason or "")
    assert "STORED AS DIRECTORIES" in (entries["skewed"].reason or "")
    assert list(catalog.drift(f"{DB}.t")) == []

    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "rows").write_text("7|late\n8|late\n")
    hive_cli.run([
        f"INSERT INTO {DB}.t PARTITION (day='2025-01-01', region='x/y') VALUES (9, 'new')",
        f"ALTER TABLE {DB}.t ADD PARTITION (day='2025-01-02', region='eu') LOCATION 'file://{tmp_path}/late'",
        f"ALTER TABLE {DB}.t DROP PARTITION (day='2025-01-01', region='50%')",
        f"ALTER TABLE {DB}.t ADD COLUMNS (fare DOUBLE)",
        f"ALTER TABLE {DB}.t SET TBLPROPERTIES ('p'='1')",
    ])  # fmt: skip
    found = {(d.kind, d.subject): d for d in catalog.drift(f"{DB}.t")}
    late, dropped = "day=2025-01-02/region=eu", "day=2025-01-01/region=50%25"
    inserted = "day=2025-01-01/region=x%2Fy"
    assert set(found) == {
        (DriftKind.COLUMN, "fare"), (DriftKind.PARAMETER, "p"), (DriftKind.PARTITION, late),
        (DriftKind.PARTITION, dropped), (DriftKind.STATISTICS, inserted), (DriftKind.FILES, inserted),
    }  # fmt: skip
    assert found[DriftKind.STATISTICS, inserted].newer is Side.METASTORE
    assert found[DriftKind.FILES, inserted].newer is Side.STORE
    assert found[DriftKind.PARTITION, late].newer is Side.METASTORE
    assert found[DriftKind.PARTITION, dropped].newer is None

    mended = list(catalog.mend_drift(f"{DB}.t", source="metastore", drop=True))
    assert all(each.done for each in mended), mended
    assert indexed(catalog, f"{DB}.t")[late] == {"rows": 14}
    assert [c.name for c in catalog.load_table(f"{DB}.t").definition.columns] == ["id", "name", "fare"]
    assert catalog.deliver().pending == 0
    left = list(catalog.drift(f"{DB}.t"))
    assert [(d.kind, d.subject, d.metastore) for d in left] == [(DriftKind.PARTITION, dropped, "missing")]
    query = f"SELECT count(*), count(fare), max(id) FROM {DB}.t"
    rows = hive_cli(query)
    assert rows == [("7", "0", "9")]

    catalog.alter_table_properties(f"{DB}.t", {"note": 'it\'s; \\ "${x}"\n-- ours'})
    assert catalog.deliver().pending == 0
    leave(catalog, make_hive_metastore(), tmp_path / "engine", query, rows)


def leave(catalog: Catalog, other: HiveMetastore, folder: Path, query: str, rows: list[tuple[str, ...]]) -> None:
    """By statements, which a Hive engine runs, and then over the wire, which finds next to nothing to do."""
    from tests.servers.hive import whole_engine

    statements = list(catalog.export_statements(f"{DB}.t"))
    assert not [s for s in statements if s.startswith("--")]
    folder.mkdir()
    *_, answer, names = whole_engine(folder / "cli", other.uri).run([*statements, query, f"SHOW PARTITIONS {DB}.t"])
    assert answer == rows
    assert len(names) == 5
    (entry,) = catalog.export(f"{DB}.t", to=other.uri)
    assert (entry.kept, entry.reason) == (0, None)
    (again,) = catalog.export(f"{DB}.t", to=other.uri)
    assert (again.action, again.sent) == ("in sync", 0)
    with connect(index=str(folder / "index.db"), metastore=other.uri, warehouse=str(folder / "w")) as new:
        new.import_table(f"{DB}.t")
        assert indexed(new, f"{DB}.t") == indexed(catalog, f"{DB}.t")
        theirs, ours = (c.load_table(f"{DB}.t").definition for c in (new, catalog))
        assert theirs == ours
