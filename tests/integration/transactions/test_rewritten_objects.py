"""Objects of ours that people rewrite in place, or bring back under their names, with the size that they had."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import boto3
import pytest
import sqlalchemy as sa
from botocore.config import Config

import catalog_ext
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.index.database.schema import files
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.locations import Location
from tests.faults.writer import Server, uploader
from tests.kit.index_cases import empty_index
from tests.kit.promotion_cases import s3_options
from tests.kit.write_cases import Stand, definition
from tests.kit.writes import crash_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from botocore.client import BaseClient

    from catalog_ext.catalog import Catalog
    from tests.servers.stores import S3Server


class Lake:
    """A catalog with the table ``s.t`` on S3, and the store beside it."""

    def __init__(self, folder: Path, server: S3Server) -> None:
        self.server = server
        self.bucket = server.make_bucket(f"etags-{secrets.token_hex(4)}")
        self.location = f"s3a://{self.bucket}/t"
        self.url = f"sqlite:///{folder}/index.db"
        (folder / "index.db").write_bytes(empty_index())
        self.catalog: Catalog = catalog_ext.connect(
            index=self.url, metastore=None, warehouse=f"s3a://{self.bucket}/w", storage=s3_options(server)
        )
        storage = self.catalog.storage
        keys = Server(server.direct_endpoint, server.access_key, server.secret_key, server.region)
        self.stand = Stand(self.catalog.index, storage, upload=uploader(storage, keys))
        self.stand.create(definition(self.location))
        self.client: BaseClient = boto3.client(
            "s3", endpoint_url=server.direct_endpoint, aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key, region_name=server.region,
            config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
        )  # fmt: skip

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.bucket, Prefix="t/").get("Contents", ())
        return [there["Key"] for there in found]

    def put(self, key: str, content: str) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content.encode())

    def repair(self) -> list[tuple[str, str]]:
        return [(entry.partition, entry.reason) for entry in self.catalog.repair_partitions("s.t")]


@pytest.fixture
def lake(tmp_path: Path, s3_server: S3Server) -> Iterator[Lake]:
    lake = Lake(tmp_path, s3_server)
    yield lake
    lake.catalog.close()


CHANGED = ("k=1", "file changed: written again with the same size")


def test_repair_sees_rewritten_file_of_same_size(lake: Lake) -> None:
    lake.stand.write({"k=1": "11\n", "k=2": "22\n"})
    assert lake.repair() == []
    lake.put(lake.keys()[0], "91\n")
    assert lake.repair() == [CHANGED]
    assert lake.repair() == []


def test_repair_notes_unknown_etags_and_compares_them_later(lake: Lake) -> None:
    """Repair records an unknown ETag and reports nothing; the next repair compares it."""
    lake.stand.write({"k=1": "11\n", "k=2": "22\n"})
    with sa.create_engine(lake.url).begin() as connection:
        connection.execute(sa.update(files).values(etag_hash=None))
    version = lake.stand.table().version
    assert lake.repair() == []
    assert lake.stand.table().version == version
    lake.put(lake.keys()[0], "91\n")
    assert lake.repair() == [CHANGED]


@pytest.mark.parametrize("statement", ["overwrite", "delete", "rename"])
def test_clean_up_keeps_file_that_was_rewritten_after_the_commit(lake: Lake, statement: str) -> None:
    lake.stand.write({"k=1": "11\n", "k=2": "22\n"})
    first, second = lake.keys()
    commands = lake.catalog.partition_commands

    def run() -> None:
        if statement == "overwrite":
            lake.stand.write({"k=1": "33\n"}, WriteKind.OVERWRITE_PARTITIONS)
        elif statement == "delete":
            lake.stand.engine.delete(lake.stand.table(), Comparison(Operator.EQ, "k", "1"), truncate=False)
        else:
            commands.rename("s.t", {"k": "1"}, {"k": "3"})

    crash_at("clean.before", run)
    lake.put(first, "91\n")
    lake.catalog.recover(older_than="0s")
    assert {first, second} <= set(lake.keys())
    assert lake.catalog.index.transactions.all(states=(State.COMMITTED,)) == []
    assert "k=1" in {partition for partition, _ in lake.repair()}
    assert "91\n" in lake.stand.rows()["k=1"]


def test_replaced_files_are_compared_by_one_listing(lake: Lake) -> None:
    many = {f"k={number}": f"{number}\n" for number in range(10, 13)}
    lake.stand.write(many)
    before = lake.server.counts()
    lake.stand.write(dict.fromkeys(many, "x\n"), WriteKind.OVERWRITE_PARTITIONS)
    sent = lake.server.counts() - before
    # The check lists each partition; a HEAD and a PUT are about the counter of the index.
    assert (sent["HEAD"], sent["LIST"], sent["DELETE_MANY"]) == (1, 3 + 1, 1), sent
    assert len(lake.keys()) == 3
    assert lake.repair() == []


def test_renamed_file_has_the_etag_of_its_copy(lake: Lake) -> None:
    lake.stand.write({"k=1": "11\n"})
    lake.catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"})
    assert lake.repair() == []
    lake.put(lake.keys()[0], "91\n")
    lake.catalog.partition_commands.rename("s.t", {"k": "2"}, {"k": "3"})
    assert lake.repair() == [("k=3", CHANGED[1])], "what is known of it is of before"


@pytest.mark.parametrize("point", ["reserve.after", "promote.file"])
def test_file_that_is_rewritten_before_it_is_copied_is_not_there_twice(lake: Lake, point: str) -> None:
    """Recovery copied the new object, and left it under its old name, too."""
    lake.stand.write({"k=1": "11\n"})
    (first,) = lake.keys()
    crash_at(point, lambda: lake.catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "3"}))
    lake.put(first, "91\n")
    lake.catalog.recover(older_than="0s")
    lake.repair()
    assert lake.stand.rows() == {"k=1": "91\n"}
    assert lake.keys() == [first]


def test_objects_are_found_among_many(lake: Lake) -> None:
    for number in range(30):
        lake.put(f"t/k={number % 3}/f{number:02}", str(number))
    root = Location.parse(lake.location)
    names = [f"k={n % 3}/f{n:02}" for n in (0, 7, 14, 29)]
    places = [root.join(name) for name in [*names, "k=1/f", "k=1/f01x", "nowhere"]]
    storage = lake.catalog.storage
    found = storage.identify_many(places)
    listed = {e.location: e for name in ("k=0", "k=1", "k=2") for e in storage.list_directory(root.join(name))}
    assert found == [*(listed[root.join(name)] for name in names), None, None, None]
    assert all(entry.etag is not None for entry in listed.values())


def test_object_of_the_second_of_a_drop_stays(lake: Lake) -> None:
    """A store gives the times of objects in seconds: what came right after the DROP had a time before it."""
    lake.stand.write({"k=1": "11\n"})
    crash_at("drop.before", lambda: lake.catalog.drop_table("s.t"))
    lake.put("t/k=7/000000_0", "7\n")
    assert lake.catalog.recover(older_than="0s").failed == ()
    assert lake.keys() == ["t/k=7/000000_0"]
