"""An index of PostgreSQL is restored, and fails over, by the commands of docs/operations.md, literally."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import psycopg
import pytest

from catalog_ext.catalog import connect
from catalog_ext.cli.main import main
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import IndexRestoredError
from catalog_ext.metastore.index import Index
from tests.servers.databases import PostgresServer
from tests.unit.transactions.test_incarnations import documented, made, overwrite, rows, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.databases import DatabaseServer


class Documented:
    """Runs commands of the page with the test's database in the place of the page's.

    Attributes:
        url: The database, as ``pg_dump`` takes it.
    """

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url.replace("postgresql+psycopg", "postgresql")
        self._capsys = capsys

    def run(self, lines: list[str], *, fails: str = "") -> str:
        """Run them; return what they print. One may fail, whose name is given."""
        printed = ""
        for line in lines:
            program, *arguments = shlex.split(line.replace("postgresql://index-host/lake", self.url))
            if program == "catalog-ext":
                # There is no metastore here to compare with.
                code = 0 if "drift" in arguments else main(arguments)
                output = self._capsys.readouterr()
                assert (code != 0) == (fails in arguments), output.err
                printed += output.out
            else:
                subprocess.run([PostgresServer.client_programs() / program, *arguments], check=True)
        return printed


def test_backup_and_failover_by_the_page(
    postgres_server: DatabaseServer, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The dump is made in the middle of an overwrite; what a replica that lagged has is the same state."""
    monkeypatch.chdir(tmp_path)
    Index.open(postgres_url, migrate=True).close()
    _, dump, _, restore, failover = documented()
    page = Documented(postgres_url, capsys)
    with connect(index=postgres_url, metastore=None, warehouse=str(tmp_path)) as catalog:
        made(catalog, tmp_path, "t")
        write(catalog, "t", "old")
        write(catalog, "t", "two", k=2)
        with armed("apply.before", lambda _: page.run(dump)):
            overwrite(catalog)
        write(catalog, "t", "acknowledged")
        made(catalog, tmp_path, "later")
        reality = rows(catalog, "t")

    page.run(restore)
    with connect(index=postgres_url) as catalog:
        assert rows(catalog, "t") == reality
        assert catalog.find_table(catalog.identify("s.later")) is None
        write(catalog, "t", "more", WriteKind.OVERWRITE_PARTITIONS, 2)
        reality = rows(catalog, "t")

    # The replica has the address of the primary from now on.
    replica = postgres_server.create_database()
    name, other = (url.rpartition("/")[2] for url in (postgres_url, replica))
    page_of_replica = Documented(replica, capsys)
    page_of_replica.run(restore[:1])
    with psycopg.connect(page.url.removesuffix(name) + "postgres", autocommit=True) as connection:
        for old, new in ((name, f"{name}_lost"), (other, name)):
            connection.execute(f"ALTER DATABASE {old} RENAME TO {new}")
    with connect(index=postgres_url) as catalog, pytest.raises(IndexRestoredError):
        write(catalog, "t", "refused")
    said = page.run(failover, fails="doctor")
    assert "is older than what it once wrote" in " ".join(said.split())
    with connect(index=postgres_url) as catalog:
        assert rows(catalog, "t") == reality
        write(catalog, "t", "goes on")
    postgres_server.drop_database(f"{postgres_url}_lost")
