"""A new incarnation of an index on the databases of servers, each of which raises its numbers in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.catalog import connect
from catalog_ext.metastore.errors import IndexRestoredError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.tables.incarnations import COUNTER, VERSIONS
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
        engine = sa.create_engine(url)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
            if engine.dialect.name == "postgresql":
                own = "datname = current_database() AND pid <> pg_backend_pid()"
                other.exec_driver_sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {own}")
            else:
                own = "db = database() AND id <> connection_id()"
                for number in other.exec_driver_sql(
                    f"SELECT id FROM information_schema.processlist WHERE {own}"
                ).scalars():
                    other.exec_driver_sql(f"KILL {number}")
        engine.dispose()
        with pytest.raises(IndexRestoredError):
            write(catalog, "t", "refused")
