"""How much a whole write asks of the index, from its begin to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.catalog import connect
from tests.kit.writes import insert

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


def table(folder: Path) -> Catalog:
    """A catalog with ``s.t``, of two partitions with a file each."""
    (folder / "t").mkdir()
    catalog = connect(index=f"sqlite:///{folder / 'i.db'}", metastore=None)
    catalog.create_namespace("s")
    catalog.register_table(
        "s.t", location=(folder / "t").as_uri(), schema="x BIGINT", partition_columns={"k": "INT"}, format="csv"
    )
    insert(catalog, "k=1", "k=2")
    return catalog


def test_an_append_to_old_and_new_partitions(tmp_path: Path) -> None:
    with table(tmp_path) as catalog:
        before = catalog.index.query_count
        insert(catalog, "k=1", "k=2", "k=3", "k=4")
        assert catalog.index.query_count - before == 31, "38 before each row was read once"


def test_an_append_to_old_partitions(tmp_path: Path) -> None:
    with table(tmp_path) as catalog:
        before = catalog.index.query_count
        insert(catalog, "k=1", "k=2")
        assert catalog.index.query_count - before == 29


def test_an_append_begins_three_transactions_that_change_something(tmp_path: Path) -> None:
    begun: list[bool] = []
    with table(tmp_path) as catalog:
        engine = catalog.index._database.engine

        def note(connection: sa.Connection) -> None:
            begun.append(bool(connection.get_execution_options().get("catalog_ext_write")))

        sa.event.listen(engine, "begin", note)
        insert(catalog, "k=1", "k=3")
    assert begun.count(True) == 3, "begin, reserve and commit"
    assert begun.count(False) <= 9, "what is looked up; 15 before"
