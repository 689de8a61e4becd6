"""Versions of a table are found by their number and by a time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import TableNotFoundError, VersionExpiredError, VersionNotFoundError
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import Totals
from tests.kit.index_cases import create, data_files, local_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with local_index(tmp_path) as index:
        yield index


@pytest.fixture
def table(index: Index, tmp_path: Path) -> Table:
    """A table with the versions 0 to 3, committed at 1,000 ms to 4,000 ms; the last one drops the first partition."""
    table = create(index, keys={"k": "int"})
    for changes in ([AddPartition("k=1", data_files(2))], [AddPartition("k=2", data_files(1))], [DropPartition("k=1")]):
        index.commits.apply_changes(table.table_id, changes, operation="test", deliver=False)
    with closing(sqlite3.connect(tmp_path / "index.db")) as database, database:
        database.execute("UPDATE table_versions SET committed_at_ms = (version + 1) * 1000")
        database.execute("UPDATE tables SET created_at_ms = 1000")
    return index.tables.load(table.identifier)


def test_version_has_its_own_totals(index: Index, table: Table) -> None:
    counts = [index.version_lookup.at_version(table, version).totals for version in range(4)]
    assert [(each.partitions, each.files) for each in counts] == [(0, 0), (1, 2), (2, 3), (1, 1)]
    assert counts[0] == Totals(0, 0, 0, 0)
    assert counts[3] == table.totals


@pytest.mark.parametrize("version", [-1, 4, 10**12])
def test_version_that_does_not_exist_is_refused(index: Index, table: Table, version: int) -> None:
    with pytest.raises(VersionNotFoundError, match=rf"has no version {version}; it has versions from 0 to 3"):
        index.version_lookup.at_version(table, version)


@pytest.mark.parametrize(("at_ms", "version"), [(1000, 0), (1999, 0), (2000, 1), (3500, 2), (4000, 3), (10**13, 3)])
def test_time_names_the_newest_version_until_then(index: Index, table: Table, at_ms: int, version: int) -> None:
    assert index.version_lookup.at_time(table, at_ms).version == version


def test_time_before_the_table_is_refused(index: Index, table: Table) -> None:
    with pytest.raises(VersionNotFoundError, match=r"at 1970-01-01 00:00:00.999 UTC: it was created at .*01\.000 UTC"):
        index.version_lookup.at_time(table, 999)


def test_removed_versions_and_tables_are_refused(index: Index, table: Table) -> None:
    index.versions.expire(table.table_id, 2)
    for look in (lambda: index.version_lookup.at_version(table, 1), lambda: index.version_lookup.at_time(table, 2500)):
        with pytest.raises(VersionExpiredError, match="the oldest that is kept is 2"):
            look()
    assert index.version_lookup.at_version(table, 2).totals.partitions == 2
    index.tables.drop(table.identifier, deliver=False)
    with pytest.raises(TableNotFoundError, match="dropped"):
        index.version_lookup.at_version(table, 3)
