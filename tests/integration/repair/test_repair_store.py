"""Repair and registration on S3: a real server, requests counted, listings that fail in parts."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

import catalog_ext
from catalog_ext.metastore.commit.staged_files import StagedFile, Upload, UploadedPart
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
    StorageAccessDeniedError,
    StorageUnavailableError,
    TableLayoutError,
)
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from tests.integration.faulty_store import FaultyStore
from tests.kit.repair_cases import indexed, skipped
from tests.kit.writes import begin, crash_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import BegunWrite
    from tests.servers.stores import S3Server

A, B, C = "ds=2025-01-01/region=eu", "ds=2025-01-01/region=us", "ds=2025-01-02/region=eu"
KEYS = {"ds": "DATE", "region": "STRING"}


@dataclass
class Bucket:
    """A bucket, written to past the counting proxy."""

    server: S3Server
    name: str
    client: object = field(init=False)

    def __post_init__(self) -> None:
        self.client = boto3.client(
            "s3", endpoint_url=self.server.direct_endpoint, aws_access_key_id=self.server.access_key,
            aws_secret_access_key=self.server.secret_key, region_name=self.server.region,
            config=Config(s3={"addressing_style": "path"}),
        )  # fmt: skip

    def put(self, *keys: str, content: bytes = b"x") -> None:
        for key in keys:
            self.client.put_object(Bucket=self.name, Key=f"t/{key}", Body=content)  # type: ignore[attr-defined]

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.client.delete_object(Bucket=self.name, Key=f"t/{key}")  # type: ignore[attr-defined]

    def stage(self, begun: BegunWrite, partition: str, content: bytes) -> StagedFile:
        """A file of the partition as an upload that is not completed."""
        name = f"part-00000-{begun.transaction_id}-a0-c000.csv"
        base = begun.plan.base.removeprefix(f"s3a://{self.name}/")
        at = {"Bucket": self.name, "Key": f"{base}/{partition}/{name}"}
        upload_id = self.client.create_multipart_upload(**at)["UploadId"]  # type: ignore[attr-defined]
        part = self.client.upload_part(  # type: ignore[attr-defined]
            **at, UploadId=upload_id, PartNumber=1, Body=content
        )
        return StagedFile(partition, name, len(content), 1, upload=Upload(upload_id, (UploadedPart(1, part["ETag"]),)))

    def uploads(self) -> list[str]:
        """The keys of uploads that are neither completed nor aborted."""
        found = self.client.list_multipart_uploads(Bucket=self.name)  # type: ignore[attr-defined]
        return [upload["Key"] for upload in found.get("Uploads", ())]

    @property
    def location(self) -> str:
        return f"s3a://{self.name}/t"


def connect(folder: Path, server: S3Server, **options: str) -> Catalog:
    storage = {
        "endpoint": server.endpoint, "access_key": server.access_key, "secret_key": server.secret_key,
        "region": server.region, **options,
    }  # fmt: skip
    return catalog_ext.connect(index=str(folder / "index.db"), metastore=None, warehouse=str(folder), storage=storage)


@pytest.fixture(params=["s3_server", "moto_server"])
def server(request: pytest.FixtureRequest) -> S3Server:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@pytest.fixture
def bucket(server: S3Server) -> Bucket:
    return Bucket(server, server.make_bucket(f"repair-{secrets.token_hex(5)}"))


@pytest.fixture
def catalog(tmp_path: Path, server: S3Server) -> Iterator[Catalog]:
    with connect(tmp_path, server) as catalog:
        catalog.create_namespace("s")
        yield catalog


def register(catalog: Catalog, bucket: Bucket) -> None:
    catalog.register_table("s.t", location=bucket.location, format="csv", schema="x INT", partition_columns=KEYS)


def test_partitions_come_change_and_go(catalog: Catalog, bucket: Bucket) -> None:
    bucket.put(f"{A}/1.csv", f"{A}/_hidden", f"{B}/1.csv", f"{B}/2.csv", "ds=2025-01-03/region=eu/_SUCCESS")
    register(catalog, bucket)
    assert [e.partition for e in catalog.repair_partitions("s.t").added] == [A, B]
    assert len(catalog.repair_partitions("s.t")) == 0
    bucket.put(f"{C}/1.csv", "stray.csv", "plain/1.csv", f"{A}/deeper/1.csv")
    bucket.put(f"{A}/1.csv", content=b"longer")
    bucket.delete(f"{B}/1.csv", f"{B}/2.csv")
    preview = catalog.repair_partitions("s.t", dry_run=True)
    report = catalog.repair_partitions("s.t")
    assert list(preview) == list(report)
    assert [(e.action, e.partition) for e in report if e.action != "skip"] == [
        ("add", C), ("drop", B), ("change", A),
    ]  # fmt: skip
    assert report.dropped[0].reason == "no file is left under the prefix"
    assert set(skipped(report)) == {"stray.csv", "plain", f"{A}/deeper"}
    assert indexed(catalog) == {A: {"1.csv": 6}, C: {"1.csv": 1}}


@pytest.mark.parametrize("mode", ["in-place", "relocate"])
@pytest.mark.parametrize("point", ["stage.after", "reserve.after", "promote.after", "apply.after"])
def test_a_repair_after_a_writer_died_registers_nothing_of_it(
    catalog: Catalog, bucket: Bucket, point: str, mode: str
) -> None:
    bucket.put(f"{A}/1.csv")
    register(catalog, bucket)
    catalog.repair_partitions("s.t")

    def overwrite() -> None:
        begun = begin(catalog, WriteKind.OVERWRITE_PARTITIONS, overwrite_mode=mode)
        staged = [bucket.stage(begun, partition, b"new\n") for partition in (A, B)]
        catalog.writes.transactions.commit(begun.transaction_id, staged)

    crash_at(point, overwrite)
    assert [e for e in catalog.repair_partitions("s.t") if e.action != "skip"] == []
    assert catalog.recover(older_than=0).failed == ()
    assert bucket.uploads() == []
    written = [size for files in indexed(catalog).values() for size in files.values()]
    assert written == ([1] if point == "stage.after" else [4, 4])
    assert [e for e in catalog.repair_partitions("s.t") if e.action != "skip"] == []


def test_odd_names_are_kept_as_they_are(catalog: Catalog, bucket: Bucket) -> None:
    names = ["a b", "a%20b", "é", "x=y", "+", "%2F", "'", "a&b", "日本"]
    bucket.put(*(f"ds=2025-01-01/region={name}/f {name}.csv" for name in names))
    register(catalog, bucket)
    catalog.repair_partitions("s.t")
    assert indexed(catalog) == {f"ds=2025-01-01/region={name}": {f"f {name}.csv": 1} for name in names}


def test_a_partition_registered_empty_stays(catalog: Catalog, bucket: Bucket) -> None:
    bucket.put(f"{A}/1.csv")
    register(catalog, bucket)
    table_id = catalog.load_table("s.t").table_id
    elsewhere = f"s3a://{bucket.name}/nothing/here"
    empty = [AddPartition(B, ()), AddPartition(C, (), elsewhere)]
    catalog.index.commits.apply_changes(table_id, empty, operation="test", deliver=False)
    catalog.repair_partitions("s.t")
    assert set(indexed(catalog)) == {A, B, C}


def test_a_partition_in_a_bucket_that_is_not_there_is_left_alone(catalog: Catalog, bucket: Bucket) -> None:
    bucket.put(f"{A}/1.csv")
    register(catalog, bucket)
    away = AddPartition(C, (DataFile("1.csv", 1, 1),), "s3a://no-such-bucket-of-ours/c")
    catalog.index.commits.apply_changes(catalog.load_table("s.t").table_id, [away], operation="test", deliver=False)
    report = catalog.repair_partitions("s.t")
    assert skipped(report)[C].startswith("the listing is incomplete: ")
    assert set(indexed(catalog)) == {A, C}


def test_a_limited_repair_asks_the_store_for_what_it_is_limited_to(
    catalog: Catalog, bucket: Bucket, server: S3Server
) -> None:
    bucket.put(*(f"ds=2025-01-{day:02d}/region={r}/1.csv" for day in range(1, 29) for r in ("eu", "us")))
    register(catalog, bucket)
    before = server.list_requests()
    report = catalog.repair_partitions("s.t", where="ds = '2025-01-05'")
    assert len(report.added) == 2
    assert server.list_requests() - before <= 4, "the root, the day, its two regions"
    before = server.list_requests()
    assert len(catalog.repair_partitions("s.t", where="ds = '2025-01-05'")) == 0
    assert catalog.files("s.t").num_rows == 2
    assert server.list_requests() - before <= 4


def test_a_prefix_that_fails_protects_what_lies_below_it(
    catalog: Catalog, bucket: Bucket, server: S3Server, tmp_path: Path
) -> None:
    days = [f"ds=2025-01-{day:02d}" for day in range(1, 11)]
    bucket.put(*(f"{day}/region={r}/1.csv" for day in days for r in ("eu", "us")))
    register(catalog, bucket)
    catalog.repair_partitions("s.t")
    held = indexed(catalog)
    bucket.delete(f"{days[3]}/region=eu/1.csv", f"{days[4]}/region=eu/1.csv")
    bucket.put(f"{days[3]}/region=new/1.csv", f"{days[5]}/region=new/1.csv")

    def fault(prefix: str) -> tuple[int, str] | None:
        return (403, "AccessDenied") if days[3] in prefix else None

    with (
        FaultyStore(server.direct_endpoint, fault) as faulty,
        connect(tmp_path, server, endpoint=faulty.endpoint) as other,
    ):
        report = other.repair_partitions("s.t", where=f"ds >= '{days[0][3:]}'")
    assert [path for path in skipped(report) if path.startswith(days[3])]
    after = indexed(catalog)
    assert {k: v for k, v in after.items() if k.startswith(days[3])} == {
        k: v for k, v in held.items() if k.startswith(days[3])
    }
    assert [e.partition for e in report.dropped] == [f"{days[4]}/region=eu"]
    assert [e.partition for e in report.added] == [f"{days[5]}/region=new"]


def test_keys_are_found_in_the_paths(catalog: Catalog, bucket: Bucket) -> None:
    bucket.put(f"{A}/1.csv", f"{B}/1.csv", "_tmp/1.csv")
    table = catalog.register_table("s.t", location=bucket.location.replace("s3a", "s3"), format="csv", schema="x INT")
    assert [c.name for c in table.definition.partition_columns] == ["ds", "region"]
    assert table.definition.location == bucket.location


@pytest.mark.parametrize("keys", [None, KEYS])
def test_bad_locations_change_nothing(catalog: Catalog, bucket: Bucket, keys: dict[str, str] | None) -> None:
    bucket.put("plain/1.csv", "file.csv")
    places = {
        "s3a://no-such-bucket-of-ours/t": LocationNotFoundError,
        f"{bucket.location}/file.csv": LocationNotFoundError,
        bucket.location: TableLayoutError,
    }
    for place, error in places.items():
        with pytest.raises(error, match=r"s\.t"):
            catalog.register_table("s.t", location=place, format="csv", schema="x INT", partition_columns=keys)
    assert catalog.list_tables("s") == []


def test_credentials_that_fail_and_a_store_that_is_not_there(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = Bucket(s3_server, s3_server.make_bucket(f"repair-{secrets.token_hex(5)}"))
    bucket.put(f"{A}/1.csv")
    wrong: list[tuple[dict[str, str], type[CatalogExtError]]] = [
        ({"secret_key": "wrong"}, StorageAccessDeniedError),
        ({"access_key": "unknown-key"}, StorageAccessDeniedError),
        ({"endpoint": "http://127.0.0.1:9"}, StorageUnavailableError),
    ]
    with connect(tmp_path, s3_server) as catalog:
        catalog.create_namespace("s")
        register(catalog, bucket)
        catalog.repair_partitions("s.t")
    for options, error in wrong:
        with connect(tmp_path, s3_server, **options) as catalog:
            with pytest.raises(error, match=r"s\.u"):
                catalog.register_table("s.u", location=bucket.location, format="csv", partition_columns=KEYS)
            with pytest.raises(error, match=r"s\.t"):
                catalog.repair_partitions("s.t")
            assert set(indexed(catalog)) == {A}
            assert catalog.list_tables("s") == ["t"]
