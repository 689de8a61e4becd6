"""Promotion of staged files, and its undoing, on a local disk, on SeaweedFS and on moto."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.staged_files import Upload, UploadedPart
from catalog_ext.metastore.errors import (
    LocationNotFoundError,
    StagedFileMissingError,
    StorageAccessDeniedError,
    StorageError,
    StorageUnavailableError,
)
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.promotion import StagedLocation, check_staged, promote, undo
from catalog_ext.metastore.storage.store import Storage
from tests.kit.promotion_cases import (
    CONTENT,
    TRANSACTION,
    RenameStore,
    UploadStore,
    move,
    promote_behind_an_undoing,
    put_back,
    s3_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.stores import S3Server

MEGABYTE = 1 << 20
# moto answers 500 where an upload that is gone is completed, S3 and SeaweedFS 404.
KNOWS_UPLOADS = pytest.mark.parametrize("store", ["local", "seaweed"], indirect=True)


def write_local(place: Location, content: bytes) -> None:
    path = Path(place.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture(scope="module")
def bucket_on() -> Callable[[S3Server], str]:
    """The module's bucket on a server: making one takes a second."""
    made: dict[str, str] = {}

    def bucket(server: S3Server) -> str:
        if server.endpoint not in made:
            made[server.endpoint] = server.make_bucket(f"promotion-{secrets.token_hex(4)}")
        return made[server.endpoint]

    return bucket


@pytest.fixture(params=["seaweed", "moto"])
def uploads(request: pytest.FixtureRequest, bucket_on: Callable[[S3Server], str]) -> UploadStore:
    server: S3Server = request.getfixturevalue("s3_server" if request.param == "seaweed" else "moto_server")
    table = Location("s3a", bucket_on(server), f"table-{secrets.token_hex(4)}")
    return UploadStore(Storage(s3_options(server)), table, server)


@pytest.fixture(params=["local", "seaweed", "moto"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, bucket_on: Callable[[S3Server], str]
) -> RenameStore | UploadStore:
    if request.param == "local":
        return RenameStore(Storage(), Location.parse(str(tmp_path / "table")), write_local)
    server: S3Server = request.getfixturevalue("s3_server" if request.param == "seaweed" else "moto_server")
    table = Location("s3a", bucket_on(server), f"table-{secrets.token_hex(4)}")
    return UploadStore(Storage(s3_options(server)), table, server)


def names(places: list[StagedLocation], table: Location) -> list[str]:
    return sorted(place.target.relative_to(table) for place in places)


def test_nothing_is_visible_before_and_everything_after(store: RenameStore | UploadStore) -> None:
    places = store.stage(40)
    assert store.visible() == []
    check_staged(store.storage, places)
    promote(store.storage, places)
    assert store.visible() == names(places, store.table)
    assert store.left_behind() == []
    for place in places[:3]:
        with store.storage.open_input_file(place.target) as file:
            assert file.read() == CONTENT


def test_promotion_may_be_repeated_after_any_part_of_it(store: RenameStore | UploadStore) -> None:
    places = store.stage(6)
    promote(store.storage, places[:3])
    promote(store.storage, places)
    promote(store.storage, places)
    assert store.visible() == names(places, store.table)


@KNOWS_UPLOADS
def test_undoing_removes_what_is_staged_and_what_is_promoted(store: RenameStore | UploadStore) -> None:
    places = store.stage(6)
    promote(store.storage, places[:3])
    undo(store.storage, places)
    assert store.visible() == []
    assert store.left_behind() == []
    undo(store.storage, places)
    with pytest.raises(StagedFileMissingError, match="Write again"):
        promote(store.storage, places)
    assert store.visible() == []


def test_other_files_of_the_directories_stay(store: RenameStore | UploadStore) -> None:
    others, places = store.stage(3, name="other"), store.stage(6)
    promote(store.storage, [*others, *places[:2]])
    undo(store.storage, places)
    assert store.visible() == names(others, store.table)


@KNOWS_UPLOADS
def test_a_staged_file_that_vanished_is_named(store: RenameStore | UploadStore) -> None:
    places = store.stage(4)
    store.lose(places[1])
    with pytest.raises(StagedFileMissingError, match="part-00001"):
        promote(store.storage, places, threads=1)
    assert store.visible() == names(places[:1], store.table)


@KNOWS_UPLOADS
@pytest.mark.parametrize("step", [1, -1])
def test_a_slow_owner_cannot_promote_behind_an_undoing(store: RenameStore | UploadStore, step: int) -> None:
    promote_behind_an_undoing(store, store.stage(60), step)


def test_two_processes_may_promote_at_once(store: RenameStore | UploadStore) -> None:
    places = store.stage(20)
    with ThreadPoolExecutor(3) as pool:
        for running in [pool.submit(promote, store.storage, places, threads=4) for _ in range(3)]:
            running.result(60)
    assert store.visible() == names(places, store.table)
    assert store.left_behind() == []


def test_delete_of_missing_files_succeeds(store: RenameStore | UploadStore) -> None:
    places = store.stage(5)
    promote(store.storage, places)
    gone = store.table.join("ds=9/never.parquet")
    store.storage.delete_files([gone, *(place.target for place in places[1:])])
    assert store.visible() == names(places[:1], store.table)
    store.storage.delete_files([])


# --- S3 alone


def test_completing_is_one_request_a_file(uploads: UploadStore) -> None:
    places = uploads.stage(40)
    uploads.storage.uploads_to(uploads.table.join("warm-up")).abort(uploads.table.join("warm-up"), "no-such-upload")
    before = uploads.server.counts()
    promote(uploads.storage, places)
    assert uploads.server.counts() - before == {"COMPLETE_UPLOAD": 40}
    before = uploads.server.counts()
    uploads.storage.delete_files([place.target for place in places])
    assert uploads.server.counts() - before == {"DELETE_MANY": 1}


def test_a_file_of_several_parts(uploads: UploadStore) -> None:
    (place,) = uploads.stage(1, b"x" * (5 * MEGABYTE), parts=3)
    assert place.upload is not None
    shuffled = replace(place, upload=replace(place.upload, parts=place.upload.parts[::-1]))
    promote(uploads.storage, [shuffled])
    entry = uploads.storage.stat(place.target)
    assert entry is not None
    assert entry.size == 15 * MEGABYTE


def test_parts_with_checksums(moto_server: S3Server, bucket_on: Callable[[S3Server], str]) -> None:
    """What S3A sends where ``fs.s3a.create.checksum.algorithm`` is set; by default its parts have an ETag alone."""
    uploads = UploadStore(
        Storage(s3_options(moto_server)), Location("s3a", bucket_on(moto_server), secrets.token_hex(4)), moto_server
    )
    target = uploads.table.join("a.parquet")
    place = {"Bucket": target.bucket, "Key": target.key}
    with uploads.client() as client:
        upload_id = client.create_multipart_upload(**place, ChecksumAlgorithm="CRC32")["UploadId"]
        answer = client.upload_part(**place, UploadId=upload_id, PartNumber=1, Body=CONTENT, ChecksumAlgorithm="CRC32")
        assert answer["ChecksumCRC32"]
        part = UploadedPart(1, answer["ETag"], {"ChecksumCRC32": answer["ChecksumCRC32"]})
        promote(uploads.storage, [StagedLocation(target, len(CONTENT), upload=Upload(upload_id, (part,)))])
        assert client.get_object(**place)["Body"].read() == CONTENT


def test_pending_uploads_are_found_below_a_prefix_alone(uploads: UploadStore) -> None:
    beside = UploadStore(
        uploads.storage, Location("s3a", uploads.table.bucket, f"{uploads.table.key}-2"), uploads.server
    )
    places, others = uploads.stage(7), beside.stage(2)
    promote(uploads.storage, places[:2])
    found = list(uploads.storage.uploads_to(uploads.table).pending(uploads.table))
    assert sorted(upload.location for upload in found) == sorted(place.target for place in places[2:])
    assert {upload.upload_id for upload in found} == {
        place.upload.upload_id for place in places[2:] if place.upload is not None
    }
    assert all(upload.initiated_ms > 1_000_000_000_000 for upload in found)
    for upload in found:
        uploads.storage.uploads_to(upload.location).abort(upload.location, upload.upload_id)
        uploads.storage.uploads_to(upload.location).abort(upload.location, upload.upload_id)
    assert uploads.left_behind() == []
    assert len(beside.left_behind()) == len(others)


@pytest.mark.parametrize("uploads", ["seaweed"], indirect=True)
def test_an_upload_that_never_was(uploads: UploadStore) -> None:
    place = StagedLocation(uploads.table.join("a.parquet"), 3, upload=Upload("0" * 32, (UploadedPart(1, '"etag"'),)))
    with pytest.raises(StagedFileMissingError, match=r"a\.parquet.*not there.*Write again") as caught:
        promote(uploads.storage, [place])
    assert not caught.value.retryable


def test_a_bucket_that_is_not_there(uploads: UploadStore) -> None:
    (place,) = uploads.stage(1)
    elsewhere = replace(place, target=Location("s3a", f"no-such-{secrets.token_hex(4)}", place.target.key))
    with pytest.raises(LocationNotFoundError, match="no bucket"):
        promote(uploads.storage, [elsewhere])
    with pytest.raises(LocationNotFoundError, match="no bucket"):
        list(uploads.storage.uploads_to(elsewhere.target).pending(elsewhere.target))


def test_wrong_credentials(s3_server: S3Server, bucket_on: Callable[[S3Server], str]) -> None:
    table = Location("s3a", bucket_on(s3_server), f"table-{secrets.token_hex(4)}")
    uploads = UploadStore(Storage(s3_options(s3_server)), table, s3_server)
    places = uploads.stage(3)
    other_user = Storage({**s3_options(s3_server), "secret_key": "wrong"})
    for call in (
        lambda: promote(other_user, places),
        lambda: undo(other_user, places),
        lambda: other_user.delete_files([places[0].target]),
        lambda: list(other_user.uploads_to(table).pending(table)),
    ):
        with pytest.raises(StorageAccessDeniedError, match="credentials"):
            call()
    assert len(uploads.left_behind()) == 3
    promote(uploads.storage, places)


def test_no_store_at_the_endpoint(s3_server: S3Server) -> None:
    from tests.servers.processes import free_ports

    (port,) = free_ports(1)
    storage = Storage(
        {**s3_options(s3_server), "endpoint": f"http://127.0.0.1:{port}"}, backoff=Backoff(retries=1, first_s=0.01)
    )
    with pytest.raises(StorageUnavailableError, match="does not answer") as caught:
        storage.uploads_to(Location("s3a", "bucket", "key")).abort(Location("s3a", "bucket", "key"), "id")
    assert caught.value.retryable


def put(uploads: UploadStore, place: Location, content: bytes, **more: Any) -> None:
    with uploads.client() as client:
        client.put_object(Bucket=place.bucket, Key=place.key, Body=content, **more)


def content_of(uploads: UploadStore, place: Location) -> tuple[bytes, str, dict[str, str]]:
    with uploads.client() as client:
        found = client.get_object(Bucket=place.bucket, Key=place.key)
        return found["Body"].read(), found["ContentType"], found["Metadata"]


def test_a_copy_is_known_again_and_keeps_what_it_was_given(uploads: UploadStore) -> None:
    source, target = uploads.table.join("k=1/000000_0"), uploads.table.join("k=2/000000_0")
    put(uploads, source, CONTENT, ContentType="text/csv", Metadata={"owner": "hive"})
    for _ in range(2):
        move(uploads.storage, source, target, len(CONTENT), TRANSACTION)
    assert content_of(uploads, target) == (
        CONTENT, "text/csv", {"owner": "hive", "catalog-ext-transaction": TRANSACTION},
    )  # fmt: skip
    put_back(uploads.storage, source, target, len(CONTENT), TRANSACTION)
    assert uploads.visible() == ["k=1/000000_0"]
    move(uploads.storage, source, target, len(CONTENT), TRANSACTION)
    uploads.storage.delete_files([source])
    put_back(uploads.storage, source, target, len(CONTENT), TRANSACTION)
    assert (uploads.visible(), content_of(uploads, source)[2]) == (["k=1/000000_0"], {"owner": "hive"})


@pytest.mark.parametrize("foreign", [CONTENT, b"hive's"], ids=["same size", "other size"])
def test_a_foreign_object_is_neither_taken_for_the_copy_nor_removed(uploads: UploadStore, foreign: bytes) -> None:
    source, target = uploads.table.join("k=1/000000_0"), uploads.table.join("k=2/000000_0")
    put(uploads, source, CONTENT)
    put(uploads, target, foreign)
    with pytest.raises(StorageError, match=r"A file of another process is at .* was to be copied to"):
        move(uploads.storage, source, target, len(CONTENT), TRANSACTION)
    put_back(uploads.storage, source, target, len(CONTENT), TRANSACTION)
    assert [content_of(uploads, place)[0] for place in (source, target)] == [CONTENT, foreign]


def test_a_source_that_was_written_again_is_not_copied(uploads: UploadStore) -> None:
    source, target = uploads.table.join("k=1/000000_0"), uploads.table.join("k=2/000000_0")
    put(uploads, source, b"longer than it was")
    with pytest.raises(StorageError, match=r"has 18 bytes, and not the 9 that it had"):
        move(uploads.storage, source, target, len(CONTENT), TRANSACTION)
    assert uploads.visible() == ["k=1/000000_0"]
