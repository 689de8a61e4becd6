"""An overwrite was a mistake: the page of troubleshooting, and the statements of a user's trial, in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration import lake as lakes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with lakes.local_lake(driver, tmp_path_factory.mktemp("mistaken"), "s") as lake:
        yield lake


def overwritten(lake: Lake, name: str) -> str:
    """An external table with 200 rows in one partition, which a relocating overwrite has replaced by one."""
    location = lake.folder / name
    location.mkdir()
    lake.catalog.register_table(
        f"s.{name}", location=str(location), partition_columns={"ds": "DATE"}, schema="id BIGINT", format="parquet"
    )
    table = f"lake.s.{name}"
    lake.sql(f"INSERT INTO {table} SELECT id, DATE '2025-01-01' FROM range(200)")
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('overwrite-mode' = 'relocate')")
    lake.sql(f"INSERT OVERWRITE {table} SELECT 1L, DATE '2025-01-01'")
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(1,)]
    return table


def page() -> list[str]:
    """The statements of the section."""
    _, _, section = PAGE.read_text().partition("### An overwrite was a mistake")
    code = section.partition("```sql\n")[2].partition("```")[0]
    return [line.partition(" --")[0].strip().rstrip(";") for line in code.splitlines()]


def test_the_page_brings_the_rows_back_for_good(lake: Lake) -> None:
    table = overwritten(lake, "trips")
    history, select, restore = (
        statement.replace("lake.sales.", "lake.s.").replace("'sales.", "'s.") for statement in page()
    )
    states = lake.sql(history).collect()
    assert [(state.operation, state.rows) for state in states] == [("INSERT", 200), ("INSERT OVERWRITE", 1)]
    assert "VERSION AS OF 1 " in select
    assert len(lake.rows(select.replace("VERSION AS OF 1 ", f"VERSION AS OF {states[0].version} "))) == 200
    done = {row.action: (row.partition, row.rows) for row in lake.sql(restore).collect()}
    assert done["restored"] == ("ds=2025-01-01", 200)
    assert lake.rows(f"SELECT count(*), max(id) FROM {table}") == [(200, 199)]
    vacuum = "CALL lake.system.vacuum(table => 's.trips', retention => '0s', allow_short_retention => true)"
    assert "delete" in {row.action for row in lake.sql(vacuum).collect()}, "the file of the mistake"
    assert lake.rows(f"SELECT count(*), max(id) FROM {table}") == [(200, 199)]


def test_the_same_statement_undoes_it(lake: Lake) -> None:
    table = overwritten(lake, "twice")
    restore = "CALL lake.system.restore_partition(table => 's.twice', partition => 'ds=2025-01-01'{})"
    preview = lake.sql(restore.format(", dry_run => true")).collect()
    assert [(row.action, row.rows) for row in preview] == [("restored", 200), ("removed", 1)]
    for rows in (200, 1, 200):
        lake.sql(restore.format(""))
        assert lake.rows(f"SELECT count(*) FROM {table}") == [(rows,)]
    (version,) = lake.rows(f"SELECT min(version) FROM {table}.history WHERE operation = 'INSERT OVERWRITE'")[0]
    lake.sql(f"CALL lake.system.rollback(table => 's.twice', version => {version}, where => \"ds = '2025-01-01'\")")
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(1,)]
    assert lake.rows(f"SELECT operation FROM {table}.history ORDER BY version DESC LIMIT 1") == [("ROLLBACK",)]


def test_overwrite_in_place_names_what_is_gone(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE lake.s.placed (id BIGINT, ds STRING) PARTITIONED BY (ds)",
        "INSERT INTO lake.s.placed VALUES (1, 'a'), (2, 'b')",
        "INSERT OVERWRITE lake.s.placed PARTITION (ds = 'a') VALUES (3)",
    )
    restore = "CALL lake.system.restore_partition(table => 's.placed', partition => 'ds=a'{})"
    assert lake.condition(restore.format("")) == "CATALOG_EXT_FILES_LOST"
    assert [row.action for row in lake.sql(restore.format(", dry_run => true")).collect()][:1] == ["missing"]
    assert lake.rows("SELECT * FROM lake.s.placed ORDER BY id") == [(2, "b"), (3, "a")]
    assert lake.condition("CALL lake.system.rollback(table => 's.placed', version => 99)") == (
        "CATALOG_EXT_VERSION_NOT_FOUND"
    )


def test_rows_brought_back_survive_drop_vacuum_and_add(lake: Lake) -> None:
    """Trial F1: ADD PARTITION deleted the file, and so did vacuum."""
    table, partition = overwritten(lake, "trial"), "PARTITION (ds = '2025-01-01')"
    place = f"{lake.folder}/trial/ds=2025-01-01"
    lake.sql(f"ALTER TABLE {table} {partition} SET LOCATION '{place}'")
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(200,)]
    lake.sql(f"ALTER TABLE {table} DROP {partition}")
    lake.sql("CALL lake.system.vacuum(table => 's.trial', retention => '0s', allow_short_retention => true)")
    lake.sql(f"ALTER TABLE {table} ADD {partition}")
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(200,)]
    lake.sql(f"ALTER TABLE {table} DROP {partition}")
    lake.sql("CALL lake.system.repair_partitions(table => 's.trial')")
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(200,)]
