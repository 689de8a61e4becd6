"""Two metastores over one database, of which one is killed in the middle of a batch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.model.tables import Column
from tests.servers.metastores_on_postgres import metastores_on_postgres

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.secured_metastore import SecuredMetastore

TEXT = HiveStorage(
    "org.apache.hadoop.mapred.TextInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)


@pytest.fixture
def servers(postgres_url: str, tmp_path: Path) -> Iterator[list[SecuredMetastore]]:
    """Two servers of one metastore."""
    with metastores_on_postgres(postgres_url, tmp_path, 2) as started:
        yield started


@pytest.mark.slow
def test_a_batch_goes_on_at_the_other(servers: list[SecuredMetastore], tmp_path: Path) -> None:
    one, other = servers
    client, witness = connect(f"{one.uri},{other.uri}"), connect(other.uri)
    client.create_database(HiveDatabase("d", (tmp_path / "d").as_uri()))
    columns, keys = (Column("id", "bigint"),), (Column("k", "string"),)
    client.create_table(HiveTable("d", "t", "EXTERNAL_TABLE", (tmp_path / "t").as_uri(), columns, keys, TEXT))
    added = [HivePartition((f"k{i}",), tmp_path.as_uri()) for i in range(300)]
    killing = threading.Thread(target=one.stop)
    for start in range(0, len(added), 30):
        if start == 90:
            killing.start()
        client.add_partitions("d", "t", added[start : start + 30])
    killing.join()
    assert {p.values for p in client.partitions("d", "t", batch=100)} == {p.values for p in added}
    # What must not be done twice goes on as well: the server that is gone refuses the connection, and has got no call.
    client.drop_table("d", "t")
    assert witness.list_tables("d") == []
    client.close()
    witness.close()
