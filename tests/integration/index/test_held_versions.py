"""Tags on each database: the lock that orders a tag and a vacuum, and expiry around held versions."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import VersionExpiredError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.schema import tables
from tests.kit.index_cases import create
from tests.unit.index.test_version_holds import State, end_now, random_commit, rows_of, state_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATABASES = ("sqlite", "postgres", "mariadb")


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/index.db"
    fixture: str = request.getfixturevalue(f"{request.param}_index_url")
    return fixture


@pytest.fixture
def index(url: str) -> Iterator[Index]:
    with Index.open(url) as opened:
        yield opened


def test_held_versions_list_what_they_listed_before(index: Index) -> None:
    chance = random.Random(5)
    table = create(index, keys={"k": "int", "n": "int"})
    listed: dict[int, State] = {}
    for step in range(20):
        random_commit(index, table, chance, step)
        table = index.tables.load(table.identifier)
        listed[table.version] = state_at(index, table, table.version)
    held = [version for version in listed if version % 6 == 2]
    for version in held:
        index.version_holds.tag(table, version, f"v{version}", index.now_ms() + 600_000)
    for floor in (9, table.version):
        index.versions.expire(table.table_id, floor, max_rows=3)
        index.versions.expire(table.table_id, floor)
        for version, state in listed.items():
            if version >= floor or version in held:
                assert state_at(index, table, version) == state
            else:
                with pytest.raises(VersionExpiredError):
                    state_at(index, table, version)
    end_now(index)
    with pytest.raises(VersionExpiredError):
        state_at(index, table, held[0])
    index.versions.expire(table.table_id, table.version)
    for rows in ("files", "partitions"):
        assert rows_of(index, rows, f"end_version <= {table.version}") == 0
    assert rows_of(index, "version_holds", "1 = 1") == 0
    assert state_at(index, table, table.version) == listed[table.version]


def test_tag_waits_for_a_vacuum_and_is_then_refused(index: Index, url: str) -> None:
    """Without the lock the tag reads the old floor, and vacuum, which has read the holds, deletes the files."""
    table = create(index, keys={"k": "int"})
    for step in range(3):
        random_commit(index, table, random.Random(step), step)
    result: list[object] = []

    def tag() -> None:
        with Index.open(url) as other:
            try:
                result.append(other.version_holds.tag(table, 1, "late"))
            except VersionExpiredError as error:
                result.append(error)

    thread = threading.Thread(target=tag)
    with index._database.engine.begin() as connection:
        floor = sa.update(tables).where(tables.c.table_id == table.table_id).values(oldest_version=3)
        connection.execute(floor)
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
    thread.join(30)
    assert isinstance(result[0], VersionExpiredError)
    assert index.version_holds.tags(table) == []
