"""The statement that compacts a partition, as the page shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.overview.table_state import compacting_statement

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.mark.parametrize(("properties", "selected"), [({}, "*, ds, `a b`"), ({"partition-columns": "declared"}, "*")])
def test_statement_selects_the_keys_that_insert_takes(
    catalog: Catalog, tmp_path: Path, properties: dict[str, str], selected: str
) -> None:
    (tmp_path / "t").mkdir()
    table = catalog.register_table(
        "s.t", location=str(tmp_path / "t"), partition_columns={"ds": "DATE", "a b": "STRING"}, schema="x INT",
        properties=properties,
    )  # fmt: skip
    head = f"INSERT OVERWRITE lake.s.t SELECT {selected} FROM lake.s.t WHERE "
    assert compacting_statement("lake", table, "ds=2025-01-01/a b=it%27s") == (
        f"{head}ds = '2025-01-01' AND `a b` = 'it\\'s'"
    )
    hive_null = "__HIVE_DEFAULT_PARTITION__"
    assert (
        compacting_statement("lake", table, f"ds={hive_null}/a b={hive_null}") == f"{head}ds IS NULL AND `a b` IS NULL"
    )


def test_statement_of_a_table_without_keys(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    table = catalog.register_table("s.t", location=str(tmp_path / "t"), partition_columns={}, schema="x INT")
    assert compacting_statement("lake", table, "") == "INSERT OVERWRITE lake.s.t SELECT * FROM lake.s.t"
