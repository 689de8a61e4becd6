"""`catalog.dataset()` of a table on a real HDFS, with a partition that lies on a local disk."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet as pq

from catalog_ext.catalog import connect
from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.hdfs import HdfsServer


def test_partitions_on_two_stores_are_one_dataset(hdfs_server: HdfsServer, tmp_path: Path) -> None:
    root = Location.parse(f"{hdfs_server.uri}/{secrets.token_hex(4)}")
    with connect(index=str(tmp_path / "index.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        place = root.join("k=a%2Fb/1.parquet")
        catalog.storage.create_directory(place.parent)
        with catalog.storage.filesystem(place).open_output_stream(place.path) as stream:
            pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), stream)
        (tmp_path / "elsewhere").mkdir()
        pq.write_table(pa.table({"id": pa.array([3], pa.int64())}), tmp_path / "elsewhere" / "1.parquet")
        catalog.create_namespace("s")
        catalog.register_table("s.t", location=str(root), partition_columns={"k": "STRING"}, schema="id BIGINT")
        catalog.repair_partitions("s.t")
        catalog.partition_commands.add("s.t", [({"k": "c"}, str(tmp_path / "elsewhere"))])
        rows = catalog.dataset("s.t").to_table().to_pylist()
        assert sorted(rows, key=repr) == [{"id": 1, "k": "a/b"}, {"id": 2, "k": "a/b"}, {"id": 3, "k": "c"}]
        assert catalog.dataset("s.t", where="k = 'c'").count_rows() == 1
