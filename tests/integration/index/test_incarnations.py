"""A new incarnation of an index on the databases of servers, each of which raises its numbers in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.metastore.errors import IndexRestoredError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.tables.incarnations import COUNTER, VERSIONS
from tests.servers.databases import end_sessions
from tests.unit.transactions.test_incarnations import made, rows, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("server", ["postgres_url", "mariadb_url"])
def test_server_database_that_lost_commits_goes_on(request: pytest.FixtureRequest, tmp_path: Path, server: str) -> None:
    url = request.getfixturevalue(server)
    Index.open(url, migrate=True).close()
    with connect(index=url, metastore=None, warehouse=str(tmp_path)) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        catalog.index.incarnations.before_deleting()
        # A replica that lagged does not have the last change of the counter.
        catalog.index.properties.replace({COUNTER: "0"})
        with pytest.raises(IndexRestoredError):
            catalog.index.incarnations.before_deleting()
    with connect(index=url, metastore=None, warehouse=str(tmp_path)) as catalog:
        with pytest.raises(IndexRestoredError):
            write(catalog, "t", "refused")
        before = catalog.load_table("s.t")
        assert {entry.action for entry in catalog.restored()} == {"repaired"}
        assert catalog.load_table("s.t").version == VERSIONS
        made(catalog, tmp_path, "u")
        assert catalog.load_table("s.u").table_id > before.table_id + 10_000
        write(catalog, "t", "new")
        assert sorted(rows(catalog, "t")["k=1"].split()) == ["new", "old"]
        catalog.restored()
        assert catalog.load_table("s.t").version == 2 * VERSIONS


@pytest.mark.parametrize("server", ["postgres_url", "mariadb_url"])
def test_change_on_a_new_connection_asks_for_the_counter(
    request: pytest.FixtureRequest, tmp_path: Path, server: str
) -> None:
    """A database that fails over ends its connections; within ten minutes no change would ask otherwise."""
    url = request.getfixturevalue(server)
    Index.open(url, migrate=True).close()
    with connect(index=url, metastore=None, warehouse=str(tmp_path)) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        catalog.index.incarnations.before_deleting()
        catalog.index.properties.replace({COUNTER: "0"})
        write(catalog, "t", "not noticed yet")
        end_sessions(url)
        with pytest.raises(IndexRestoredError):
            write(catalog, "t", "refused")
