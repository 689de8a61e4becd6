"""Epochs of a stream on S3: what waits for its partition is an upload that nobody completes before it is due."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.partition_commit import POLICY_KIND
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.faults.writer import Order, Server, stand
from tests.index_cases import empty_index
from tests.promotion_cases import s3_options
from tests.streaming_cases import HOURLY, Stream
from tests.write_cases import definition

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.stores import S3Server


def test_uploads_wait_for_their_partition(moto_server: S3Server, tmp_path: Path) -> None:
    location = f"s3a://{moto_server.make_bucket(f'waiting-{secrets.token_hex(4)}')}/t"
    server = Server(moto_server.direct_endpoint, moto_server.access_key, moto_server.secret_key, moto_server.region)
    (tmp_path / "index.db").write_bytes(empty_index())
    order = Order(f"sqlite:///{tmp_path}/index.db", location, storage=s3_options(moto_server), server=server)
    with Index.open(order.index) as index:
        writer = stand(index, order)
        writer.create(replace(definition(location, {"h": "int"}), properties={**HOURLY, POLICY_KIND: "success-file"}))
        storage = Storage(order.storage)

        stream = Stream(writer)

        def pending() -> list[str]:
            uploads = storage.list_uploads(Location.parse(location))
            return sorted(upload.location.parent.name for upload in uploads)

        stream.epoch(8, {"h=8": "a\n", "h=9": "b\n"})
        assert (writer.rows(), writer.listed(), pending()) == ({}, {}, ["h=8", "h=9"])
        # Neither who cleans up after dead writers nor who removes what is old may abort them.
        writer.engine.recover(older_than_s=0)
        writer.engine.vacuum(writer.table(), 0)
        stream.epoch(9, {"h=8": "c\n", "h=12": "d\n"})
        assert writer.rows() == writer.listed() == {"h=8": "a\nc\n"}
        assert pending() == ["h=12", "h=9"]
        assert storage.stat(f"{location}/h=8/_SUCCESS") is not None

        assert stream.end() is not None
        assert writer.rows() == writer.listed() == {"h=8": "a\nc\n", "h=9": "b\n", "h=12": "d\n"}
        assert [path for path in writer.strays() if not path.endswith("_SUCCESS")] == []
