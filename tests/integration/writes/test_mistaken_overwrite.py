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
    preview, set_location = (
        statement.replace("lake.sales.", "lake.s.").replace("'sales.", "'s.") for statement in page()
    )
    (kept,) = (row for row in lake.sql(preview).collect() if row.action == "kept")
    assert "SET LOCATION to this directory brings it back" in kept.reason
    lake.sql(set_location.replace("s3a://b/trips/ds=2025-01-01", kept.path))
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(200,)]
    vacuum = "CALL lake.system.vacuum(table => 's.trips', retention => '0s', allow_short_retention => true"
    found = {row.action: row.reason for row in lake.sql(f"{vacuum})").collect()}
    assert "no kept version of the table uses these files" in found["skipped"]
    assert "delete" not in found
    assert [row.action for row in lake.sql(f"{vacuum}, unknown_writes => true)").collect()][:1] == ["delete"]
    assert lake.rows(f"SELECT count(*), max(id) FROM {table}") == [(200, 199)]


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
