"""A process that has an index open while a newer release migrates it commits nothing more."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import IndexNotAtHeadError
from catalog_ext.metastore.model.changes import AddPartition
from tests.kit.index_cases import create, data_files, listed_names, local_index
from tests.kit.transaction_cases import begin, finish, plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


def _repair(index: Index, table: Table) -> object:
    return index.commits.apply_changes(
        table.table_id, [AddPartition("k=2", data_files(1))], operation="repair", deliver=False
    )


def _write(index: Index, table: Table) -> object:
    return finish(index, begin(index, table, plan(table), "k=2"))


@pytest.mark.parametrize("commit", [_repair, _write])
def test_a_process_of_an_older_release_commits_nothing(
    tmp_path: Path, commit: Callable[[Index, Table], object]
) -> None:
    with local_index(tmp_path) as index:
        table = create(index, keys={"k": "INT"})
        index.commits.apply_changes(
            table.table_id, [AddPartition("k=1", data_files(1))], operation="repair", deliver=False
        )
        with closing(sqlite3.connect(tmp_path / "index.db")) as other, other:
            other.execute("UPDATE catalog_ext_schema_version SET version_num = '9999'")
        with pytest.raises(IndexNotAtHeadError, match="revision 9999 after this process had opened it") as caught:
            commit(index, table)
        assert caught.value.parameters == {"revision": "9999", "head": index.head_revision()}
        with closing(sqlite3.connect(tmp_path / "index.db")) as other, other:
            other.execute("UPDATE catalog_ext_schema_version SET version_num = ?", (index.head_revision(),))
        assert listed_names(index, index.tables.load_by_id(table.table_id)) == ["k=1"]
