"""How much a whole write asks of the index, from its begin to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.catalog import connect
from tests.writes import insert

if TYPE_CHECKING:
    from pathlib import Path


def test_an_append_to_old_and_new_partitions(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with connect(index=f"sqlite:///{tmp_path / 'i.db'}", metastore=None) as catalog:
        catalog.create_namespace("s")
        catalog.register_table(
            "s.t", location=(tmp_path / "t").as_uri(), schema="x BIGINT", partition_columns={"k": "INT"}, format="csv"
        )
        insert(catalog, "k=1", "k=2")
        before = catalog.index.query_count
        insert(catalog, "k=1", "k=2", "k=3", "k=4")
        assert catalog.index.query_count - before <= 38, "48 before files came with the commit, which ends the write"
