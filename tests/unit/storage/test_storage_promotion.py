"""Renames, deletions and empty directories on a local disk, and what boto3 raises."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
    StagedFileMissingError,
    StorageAccessDeniedError,
    StorageError,
    StorageUnavailableError,
)
from catalog_ext.metastore.storage.failures import boto_code, is_boto_throttled, translate_boto
from catalog_ext.metastore.storage.local import files
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.promotion import StagedLocation, check_staged, promote
from catalog_ext.metastore.storage.store import Storage
from tests.kit.promotion_cases import move, put_back


@pytest.fixture
def table(tmp_path: Path) -> Location:
    return Location.parse(str(tmp_path / "table"))


@pytest.fixture(params=["exclusive rename", "plain rename"])
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "plain rename":
        monkeypatch.setattr(files, "_renameat2", lambda: None)


def write(place: Location, content: bytes = b"rows") -> Location:
    path = Path(place.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return place


def test_a_rename_makes_parents_and_is_done_once(table: Location) -> None:
    source, target = write(table.join("_s/a")), table.join("x=1/y=2/a")
    move(Storage(), source, target, 4)
    assert Path(target.path).read_bytes() == b"rows"
    assert not Path(source.path).exists()
    move(Storage(), source, target, 4)


@pytest.mark.usefixtures("_kernel")
def test_a_rename_does_not_replace_another_file(table: Location) -> None:
    source, target = write(table.join("_s/a")), write(table.join("a"), b"other")
    for content in (b"other", b"same"):
        write(target, content)
        with pytest.raises(StorageError, match=r"A file of another process is at .*/a"):
            move(Storage(), source, target, 4)
        assert (Path(target.path).read_bytes(), Path(source.path).read_bytes()) == (content, b"rows")
        put_back(Storage(), source, target, 4, "id")
        assert (Path(target.path).read_bytes(), Path(source.path).read_bytes()) == (content, b"rows")


@pytest.mark.usefixtures("_kernel")
def test_a_move_is_undone(table: Location) -> None:
    source, target = write(table.join("k=1/000000_0")), table.join("k=2/000000_0")
    storage = Storage()
    put_back(storage, source, target, 4, "id")
    assert Path(source.path).exists()
    move(storage, source, target, 4, "id")
    Path(source.path).parent.rmdir()
    for _ in range(2):
        put_back(storage, source, target, 4, "id")
        assert (Path(source.path).read_bytes(), Path(target.path).exists()) == (b"rows", False)
    move(storage, source, target, 4, "id")
    write(source, b"hive")
    put_back(storage, source, target, 4, "id")
    assert (Path(source.path).read_bytes(), Path(target.path).read_bytes()) == (b"hive", b"rows")
    Path(source.path).unlink()
    write(target, b"hives")
    put_back(storage, source, target, 4, "id")
    assert (Path(source.path).exists(), Path(target.path).read_bytes()) == (False, b"hives")


def test_a_rename_of_nothing_to_nothing(table: Location) -> None:
    with pytest.raises(StagedFileMissingError, match="is gone"):
        move(Storage(), table.join("_s/a"), table.join("a"), 4)
    assert not Path(table.path).exists()


def test_a_rename_past_a_directory_that_is_removed_meanwhile(table: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner cleans up empty directories while another one is about to fill one of them."""
    source, target = write(table.join("_s/a")), table.join("x=1/a")
    storage = Storage()
    create, left = storage.create_directory, [True, True]

    def removed_at_once(location: Location) -> None:
        create(location)
        if left:
            left.pop()
            os.rmdir(location.path)

    monkeypatch.setattr(storage, "create_directory", removed_at_once)
    move(storage, source, target, 4)
    assert Path(target.path).read_bytes() == b"rows"


@pytest.mark.parametrize(
    ("code", "expected", "words"),
    [
        (errno.EACCES, StorageAccessDeniedError, "permission is denied"),
        (errno.EROFS, StorageAccessDeniedError, "permission is denied"),
        (errno.ENOSPC, StorageError, "No space left on device"),
    ],
)
def test_a_disk_that_refuses(
    table: Location, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[StorageError], words: str
) -> None:
    def refuse(*_: str) -> None:
        raise OSError(code, os.strerror(code))

    source, kept = write(table.join("_s/a")), write(table.join("x=1/old"))
    monkeypatch.setattr(files, "_renameat2", lambda: None)
    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(expected, match=f"^Cannot move a file to .*{words}"):
        move(Storage(), source, table.join("x=1/a"), 4)
    with pytest.raises(expected, match=f"^1 file could not be deleted: .*x=1/old.*{words}"):
        Storage().delete_files([kept])


def test_deleting_goes_on_past_a_failure(table: Location) -> None:
    places = [write(table.join(f"x={number}/a")) for number in range(200)]
    directory = table.join("x=0/a/d")
    os.unlink(places[0].path)
    os.makedirs(directory.path)
    with pytest.raises(StorageError, match=r"^1 file could not be deleted: .*x=0/a"):
        Storage().delete_files(places)
    assert not any(Path(place.path).exists() for place in places[1:])


def test_a_files_checksum_goes_with_it(table: Location) -> None:
    place = write(table.join("x=1/a.parquet"))
    checksum = write(table.join("x=1/.a.parquet.crc"))
    other = write(table.join("x=1/.b.parquet.crc"))
    Storage().delete_files([place])
    assert not Path(checksum.path).exists()
    assert Path(other.path).exists()


def test_empty_directories_go_up_to_the_table(table: Location) -> None:
    for path in ("a=1/b=1", "a=1/b=2", "a=2/b=1", "a=3"):
        os.makedirs(table.join(path).path)
    write(table.join("a=2/b=2/file"))
    leaves = [table.join(path) for path in ("a=1/b=1", "a=1/b=2", "a=2/b=1", "a=2/b=2", "a=3", "a=4/b=4")]
    elsewhere = table.parent.join("elsewhere")
    os.makedirs(elsewhere.path)
    Storage().remove_empty_directories([*leaves, elsewhere, table], table)
    assert sorted(path.name for path in Path(table.path).rglob("*")) == ["a=2", "b=2", "file"]
    assert Path(elsewhere.path).is_dir()


def test_the_check_counts_and_names_the_first(table: Location) -> None:
    places = [
        StagedLocation(table.join(name), 4, source=write(table.join(f"_s/{name}"), content))
        for name, content in (("a", b"rows"), ("b", b"longer"), ("c", b"rows"))
    ]
    check_staged(Storage(), places[:1])
    with pytest.raises(StagedFileMissingError, match=r"1 of 3 staged .*_s/b'.* is a file of 6 bytes, not of 4"):
        check_staged(Storage(), places)
    os.unlink(table.join("_s/a").path)
    with pytest.raises(StagedFileMissingError, match=r"2 of 3 staged .*_s/a'.* is not there"):
        check_staged(Storage(), places)


def test_a_place_has_one_source(table: Location) -> None:
    with pytest.raises(ValueError, match="either"):
        StagedLocation(table.join("a"), 4)


def test_promotion_stops_at_an_error(table: Location) -> None:
    places = [StagedLocation(table.join(str(n)), 4, source=table.join(f"_s/{n}")) for n in range(50)]
    for place in places[1:]:
        assert place.source is not None
        write(place.source)
    with pytest.raises(StagedFileMissingError):
        promote(Storage(), places, threads=1)
    assert not any(Path(place.target.path).exists() for place in places)


def test_no_thread_works_when_an_error_is_raised() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 3:
            raise StorageError("no")
        done.append(number)

    with pytest.raises(StorageError, match="no"):
        in_parallel(work, range(10_000), 4)
    assert len(done) < 10_000


def client_error(code: str, status: int, message: str = "Words.") -> ClientError:
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Call"
    )


@pytest.mark.parametrize(
    ("error", "expected", "words"),
    [
        (client_error("NoSuchBucket", 404), LocationNotFoundError, "no bucket 'bucket'"),
        (client_error("SignatureDoesNotMatch", 403), StorageAccessDeniedError, "SIGNATURE_DOES_NOT_MATCH"),
        (client_error("InvalidAccessKeyId", 403), StorageAccessDeniedError, "credentials"),
        (client_error("AccessDenied", 403), StorageAccessDeniedError, "access is denied"),
        (client_error("403", 403), StorageAccessDeniedError, "access is denied"),
        (client_error("404", 404), LocationNotFoundError, "does not exist"),
        (client_error("SlowDown", 503), StorageUnavailableError, "too busy"),
        (client_error("InternalError", 500), StorageUnavailableError, "too busy"),
        (client_error("MalformedXML", 400, "Not that way."), StorageError, "Not that way."),
        (NoCredentialsError(), StorageAccessDeniedError, "credentials"),
        (EndpointConnectionError(endpoint_url="http://x"), StorageUnavailableError, "does not answer"),
    ],
)
def test_what_boto3_raises(error: Exception, expected: type[CatalogExtError], words: str) -> None:
    translated = translate_boto(
        error, Location.parse("s3a://bucket/key"), "complete the upload of", endpoint="http://x"
    )
    assert type(translated) is expected
    assert words in translated.message


def test_codes_of_boto3() -> None:
    assert boto_code(client_error("NoSuchUpload", 404)) == "NO_SUCH_UPLOAD"
    assert boto_code(None) == ""
    assert is_boto_throttled(client_error("SlowDown", 503))
    assert not is_boto_throttled(client_error("NoSuchUpload", 404))


def test_a_rename_that_the_kernel_refuses(table: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    def another_device(*_: object) -> int:
        ctypes.set_errno(errno.EXDEV)
        return -1

    monkeypatch.setattr(files, "_renameat2", lambda: another_device)
    source = write(table.join("_s/a"))
    with pytest.raises(StorageError, match="nvalid cross-device link"):
        move(Storage(), source, table.join("a"), 4)
    assert Path(source.path).exists()
