"""The mark of a warehouse on two S3 servers: its requests are counted, and of two indexes at once one leaves it."""

from __future__ import annotations

import secrets
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.identity.warehouse_mark import MARK_FILE, WarehouseSharedWarning, read_mark
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.kit.promotion_cases import s3_options

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.servers.stores import S3Server


@pytest.fixture(params=["s3_server", "moto_server"])
def server(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def bucket(server: S3Server) -> str:
    return server.make_bucket(f"marks-{secrets.token_hex(4)}")


def opened(server: S3Server, bucket: str, index: Path) -> Catalog:
    catalog = catalog_ext.connect(
        index=str(index), metastore=None, warehouse=f"s3a://{bucket}/lake/wh", storage=s3_options(server)
    )
    if "s" not in catalog.list_namespaces():
        catalog.create_namespace("s")
    return catalog


def create(catalog: Catalog, name: str) -> None:
    keys = (Column("k", "int"),)
    identifier = TableIdentifier("s", name)
    catalog.create_table(TableDefinition(identifier, TableType.MANAGED, "csv", "", (Column("x", "int"),), keys))


class Requests:
    """Counts the requests about marks since the last look, by operation."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self._before = len(server.proxy.requests())

    def new(self) -> dict[str, int]:
        sent, self._before = self._server.proxy.requests()[self._before :], len(self._server.proxy.requests())
        return dict(Counter(request.operation for request in sent if request.key.endswith(MARK_FILE)))


def test_requests_are_sent_once_a_process_and_warehouse(server: S3Server, bucket: str, tmp_path: Path) -> None:
    requests, keys = Requests(server), {"format": "csv", "schema": "x INT"}
    with opened(server, bucket, tmp_path / "a.db") as catalog:
        create(catalog, "t")
        assert requests.new() == {"HEAD": 1, "PUT": 1}
        create(catalog, "t2")
        assert requests.new() == {}
        place = f"s3a://{bucket}/raw/a"
        catalog.register_table("s.e", location=f"{place}/e", partition_columns={"k": "INT"}, **keys)
        assert requests.new() == {"HEAD": 3}, "one for each directory above it"
        catalog.register_table("s.e2", location=f"{place}/e2", partition_columns={"k": "INT"}, **keys)
        assert requests.new() == {}
    with opened(server, bucket, tmp_path / "b.db") as other:
        with pytest.warns(WarehouseSharedWarning, match=r"a\.db"):
            create(other, "t3")
        assert requests.new() == {"HEAD": 1, "GET": 1}
        create(other, "t4")
        assert requests.new() == {}
    adopted = catalog_ext.adopt(
        index=str(tmp_path / "b.db"), warehouse=f"s3a://{bucket}/lake/wh", storage=s3_options(server)
    )
    assert [change.what for change in adopted] == ["mark"], "the index has this warehouse already"
    rewritten = {"CREATE_UPLOAD": 1, "UPLOAD_PART": 1, "COMPLETE_UPLOAD": 1}
    assert requests.new() == {"HEAD": 1, "GET": 1, **rewritten}
    mark = read_mark(Storage(s3_options(server)), Location.parse(f"s3a://{bucket}/lake/wh"))
    assert mark is not None
    assert mark.url.endswith("b.db")


def test_of_several_at_once_one_makes_the_file(server: S3Server, bucket: str) -> None:
    storage, place = Storage(s3_options(server)), Location.parse(f"s3a://{bucket}/wh/{MARK_FILE}")
    assert storage.read_file(place, 100) is None
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: storage.create_file(place, str(n).encode()), range(8)))
    assert sum(made) == 1
    assert storage.read_file(place, 100) == str(made.index(True)).encode()
