"""An index on a MariaDB whose defaults would damage it: sessions have settings of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexDatabaseError, NamespaceAlreadyExistsError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.tables import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

HARMFUL = {"sql_mode": "NO_BACKSLASH_ESCAPES,ANSI_QUOTES", "default_storage_engine": "MyISAM"}
ENGINES = "SELECT DISTINCT engine FROM information_schema.tables WHERE table_schema = DATABASE()"


@pytest.fixture
def index(mariadb_url: str) -> Iterator[Index]:
    admin = sa.create_engine(mariadb_url)
    with admin.connect() as connection:
        before = {name: connection.exec_driver_sql(f"SELECT @@GLOBAL.{name}").scalar() for name in HARMFUL}
        for name, value in HARMFUL.items():
            connection.exec_driver_sql(f"SET GLOBAL {name} = '{value}'")
    try:
        with Index.open(mariadb_url, migrate=True) as opened:
            yield opened
    finally:
        with admin.connect() as connection:
            for name, value in before.items():
                connection.exec_driver_sql(f"SET GLOBAL {name} = '{value}'")
        admin.dispose()


def test_server_defaults_do_no_harm(index: Index) -> None:
    """Tables without transactions kept half a commit; texts that are too long were cut off without an error."""
    with index._database.reading() as connection:
        assert connection.exec_driver_sql(ENGINES).scalars().all() == ["InnoDB"]
    index.namespaces.create(Namespace("a", comment="C:\\ 'x' \\' \"y\""), deliver=False)
    assert index.namespaces.load("a").comment == "C:\\ 'x' \\' \"y\""

    def half(connection: sa.Connection) -> None:
        connection.exec_driver_sql("UPDATE namespaces SET comment = 'half'")
        raise NamespaceAlreadyExistsError("made")

    with pytest.raises(NamespaceAlreadyExistsError):
        index._database.write(half)
    assert index.namespaces.load("a").comment == "C:\\ 'x' \\' \"y\""
    with pytest.raises(IndexDatabaseError, match="too long"):
        index._database.write(lambda c: c.exec_driver_sql(f"UPDATE namespaces SET name = '{'n' * 600}'"))
