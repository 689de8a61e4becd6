"""Staged files on each store on which promotion is tested."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from catalog_ext.metastore.commit.staged_files import Upload, UploadedPart
from catalog_ext.metastore.errors import StagedFileMissingError
from catalog_ext.metastore.storage.entries import ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.moving import Displaced, Mover
from catalog_ext.metastore.storage.promotion import StagedLocation, promote, undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from botocore.client import BaseClient

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage
    from tests.servers.stores import S3Server

STAGING = "_catalog_ext_staging"
TRANSACTION = "0123456789abcdef0123456789abcdef"
CONTENT = b"some rows"


def _moved(
    storage: Storage, source: Location, target: Location, size: int, mark: str, modified_ms: int | None
) -> tuple[Mover, list[StagedLocation]]:
    root = target.parent.parent
    mover = Mover(
        storage, root.join(f"{STAGING}/{TRANSACTION}"), root, wanted=lambda: True,
        exile=lambda file: root.join(f"_exile/{file.target.name}"), threads=4,
    )  # fmt: skip
    return mover, [StagedLocation(target, size, source=source, modified_ms=modified_ms, mark=mark)]


def move(
    storage: Storage, source: Location, target: Location, size: int, mark: str = "", modified_ms: int | None = None
) -> None:
    mover, files = _moved(storage, source, target, size, mark, modified_ms)
    mover.promote(files)
    mover.tidy()


def put_back(
    storage: Storage, source: Location, target: Location, size: int, mark: str = "", modified_ms: int | None = None
) -> list[Displaced]:
    mover, files = _moved(storage, source, target, size, mark, modified_ms)
    displaced = mover.restore(files)
    mover.tidy()
    return displaced


@dataclass
class RenameStore:
    """A table's place on a store with directories; ``write`` makes a file and its directories."""

    storage: Storage
    table: Location
    write: Callable[[Location, bytes], None]

    def stage(self, count: int, content: bytes = CONTENT, name: str = "part") -> list[StagedLocation]:
        """Staged files, three to a partition, in the staging directory."""
        places = []
        for number in range(count):
            path = f"ds={number // 3}/{name}-{number:05d}-{TRANSACTION}.parquet"
            source = self.table.join(f"{STAGING}/{TRANSACTION}/{path}")
            self.write(source, content)
            places.append(StagedLocation(self.table.join(path), len(content), source=source))
        return places

    def lose(self, place: StagedLocation) -> None:
        assert place.source is not None
        self.storage.delete_files([place.source])

    def left_behind(self) -> list[str]:
        """Files in the staging directory."""
        return [str(entry) for entry in self.files() if STAGING in entry]

    def visible(self) -> list[str]:
        return [name for name in self.files() if STAGING not in name]

    def files(self) -> list[str]:
        return files_below(self.storage, self.table)


@dataclass
class UploadStore:
    """A table's place on S3; staged files are uploads of one or two parts."""

    storage: Storage
    table: Location
    server: S3Server

    def stage(self, count: int, content: bytes = CONTENT, name: str = "part", parts: int = 1) -> list[StagedLocation]:
        """Uploads that are not completed, three to a partition."""
        keys = [f"ds={number // 3}/{name}-{number:05d}-{TRANSACTION}.parquet" for number in range(count)]
        with self.client() as client, ThreadPoolExecutor(8) as pool:
            return list(pool.map(lambda key: self.send(client, self.table.join(key), [content] * parts), keys))

    def lose(self, place: StagedLocation) -> None:
        assert place.upload is not None
        self.storage.uploads_to(place.target).abort(place.target, place.upload.upload_id)

    def left_behind(self) -> list[str]:
        """Uploads that are neither completed nor aborted."""
        return [str(upload.location) for upload in self.storage.uploads_to(self.table).pending(self.table)]

    def visible(self) -> list[str]:
        return files_below(self.storage, self.table)

    def client(self) -> _Client:
        return _Client(self.server)

    def send(self, client: BaseClient, target: Location, contents: list[bytes]) -> StagedLocation:
        place = {"Bucket": target.bucket, "Key": target.key}
        upload_id = client.create_multipart_upload(**place)["UploadId"]
        parts = tuple(
            UploadedPart(part, client.upload_part(**place, UploadId=upload_id, PartNumber=part, Body=content)["ETag"])
            for part, content in enumerate(contents, start=1)
        )
        return StagedLocation(target, sum(map(len, contents)), upload=Upload(upload_id, parts))


class _Client:
    """boto3's client, past the counting proxy."""

    def __init__(self, server: S3Server) -> None:
        self._client = boto3.client(
            "s3",
            endpoint_url=server.direct_endpoint,
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
            region_name=server.region,
            # As S3A sends them: without a checksum of its own.
            config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
        )

    def __enter__(self) -> BaseClient:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()


def promote_behind_an_undoing(store: RenameStore | UploadStore, places: Sequence[StagedLocation], step: int) -> None:
    """A slow owner promotes file after file, last first with a step of -1, while another undoes them all.

    Whatever the order of the two, nothing is visible at the end.
    """
    start = threading.Barrier(2)

    def slow_owner() -> None:
        start.wait(10)
        for place in places[::step]:
            with contextlib.suppress(StagedFileMissingError):
                promote(store.storage, [place])

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(slow_owner)
        start.wait(10)
        undo(store.storage, places, threads=2)
        running.result(60)
    assert store.visible() == []
    assert store.left_behind() == []


def s3_options(server: S3Server) -> dict[str, str]:
    return {
        "endpoint": server.endpoint,
        "access_key": server.access_key,
        "secret_key": server.secret_key,
        "region": server.region,
    }


def files_below(storage: Storage, root: Location) -> list[str]:
    return sorted(_paths(storage, root))


def _paths(storage: Storage, root: Location) -> Iterator[str]:
    if storage.store_has_directories(root) and storage.stat(root) is None:
        return
    for listed in list_tree(storage, root, descend=lambda _: True, depth_hint=1):
        if isinstance(listed, ListedFile):
            yield f"{listed.directory}/{listed.name}"
