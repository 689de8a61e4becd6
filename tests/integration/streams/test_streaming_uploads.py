"""Epochs of a stream on S3: what waits for its partition is a whole object under a hidden name."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_commit import POLICY_KIND
from catalog_ext.metastore.errors import StorageAccessDeniedError, WaitingFilesMissingError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.faults.writer import Order, Server, stand
from tests.kit.index_cases import empty_index
from tests.kit.promotion_cases import s3_options
from tests.kit.streaming_cases import HOURLY, Stream
from tests.kit.write_cases import definition
from tests.kit.writes import crash_at

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

        def held() -> list[str]:
            """The partitions of complete objects that no version has."""
            return sorted(path.split("/")[-2] for path in writer.strays() if "_catalog_ext_staging/" in path)

        stream.epoch(8, {"h=8": "a\n", "h=9": "b\n"})
        assert (writer.rows(), writer.listed(), held()) == ({}, {}, ["h=8", "h=9"])
        # Neither who cleans up after dead writers nor who removes what is old may take them, nor a store that aborts
        # what is pending for a day.
        writer.engine.recover(older_than_s=0)
        writer.engine.vacuum(writer.table(), 0)
        assert list(storage.uploads_to(Location.parse(location)).pending(Location.parse(location))) == []
        stream.epoch(9, {"h=8": "c\n", "h=12": "d\n"})
        assert writer.rows() == writer.listed() == {"h=8": "a\nc\n"}
        assert held() == ["h=12", "h=9"]
        assert storage.stat(f"{location}/h=8/_SUCCESS") is not None

        storage.delete_files([Location.parse(f"{location}/{path}") for path in writer.strays() if "/h=9/" in path])
        with pytest.raises(WaitingFilesMissingError):
            stream.end()
        assert [file.partition for file in writer.engine.waiting.discard(writer.table()).files] == ["h=9"]
        stream.epoch(9, {"h=9": "e\n"})

        crash_at("apply.before", stream.end)
        writer.engine.recover(older_than_s=0)
        assert writer.rows() == writer.listed() == {"h=8": "a\nc\n", "h=9": "e\n", "h=12": "d\n"}
        assert [path for path in writer.strays() if not path.endswith("_SUCCESS")] == []


def test_an_epoch_that_is_undone_leaves_nothing(moto_server: S3Server, tmp_path: Path) -> None:
    location = f"s3a://{moto_server.make_bucket(f'waiting-{secrets.token_hex(4)}')}/t"
    server = Server(moto_server.direct_endpoint, moto_server.access_key, moto_server.secret_key, moto_server.region)
    (tmp_path / "index.db").write_bytes(empty_index())
    order = Order(f"sqlite:///{tmp_path}/index.db", location, storage=s3_options(moto_server), server=server)
    with Index.open(order.index) as index:
        writer = stand(index, order)
        writer.create(replace(definition(location, {"h": "int"}), properties={**HOURLY, POLICY_KIND: "metastore"}))
        stream = Stream(writer)

        def refuse(_: str) -> None:
            raise StorageAccessDeniedError("No.")

        for point in ("reserve.before", "promote.file", "promote.after"):
            with armed(point, refuse), pytest.raises(StorageAccessDeniedError):
                stream.epoch(9, {"h=8": "a\n", "h=7": "b\n", "h=9": "c\n"})
            assert (writer.rows(), writer.strays()) == ({}, []), point
        # Nor does it leave visible what had waited, and was due with it.
        stream.epoch(7, {"h=7": "a\n"})
        hidden = writer.strays()
        for nth in (1, 2, 9):
            with (
                armed("promote.after", refuse),
                armed("undo.due", "storage", nth),
                pytest.raises(StorageAccessDeniedError),
            ):
                stream.epoch(8, {"h=8": "b\n"})
            writer.engine.recover(older_than_s=0)
            assert (writer.rows(), writer.listed(), writer.strays()) == ({}, {}, hidden)
        stream.epoch(8, {"h=8": "c\n"})
        assert writer.rows() == writer.listed() == {"h=7": "a\n"}
