"""Events of a bucket through a queue, on moto: what is listed, what is deleted from the queue, and when."""

from __future__ import annotations

import json
import secrets
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import boto3
import pytest

import catalog_ext
from catalog_ext.cli.main import main
from catalog_ext.events.sqs import Queue
from catalog_ext.metastore.errors import InvalidConfigurationError, StorageUnavailableError
from tests.integration.faulty_store import FaultyStore
from tests.kit.repair_cases import indexed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.servers.stores import S3Server

A, B = "ds=2025-01-01/region=eu", "ds=2025-01-01/region=a b"


class Lake:
    """A bucket, a queue that gets its notifications, and a catalog over both."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self.server, self.name = server, f"bucket-{secrets.token_hex(6)}"
        access = {
            "aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key,
            "region_name": server.region, "endpoint_url": server.direct_endpoint,
        }  # fmt: skip
        self.s3: Any = boto3.client("s3", **access)
        self.sqs: Any = boto3.client("sqs", **access)
        self.s3.create_bucket(Bucket=self.name)
        made = self.sqs.create_queue(QueueName=self.name, Attributes={"VisibilityTimeout": "60"})
        self.url: str = made["QueueUrl"]
        self.access: dict[str, str | None] = {
            key: value for key, value in access.items() if key != "endpoint_url"
        }  # fmt: skip
        self._sequence = 0
        self.options = {"endpoint": server.endpoint, "access_key": server.access_key, "secret_key": server.secret_key,
                        "region": server.region, "path_style": "true"}  # fmt: skip
        self.index = str(folder / "index.db")
        self.catalog: Catalog = catalog_ext.connect(
            index=self.index, metastore=None, warehouse=f"s3a://{self.name}/warehouse", storage=self.options
        )
        self.catalog.create_namespace("s")

    def put(self, path: str, content: bytes = b"x\n", *, announced: bool = True) -> None:
        self.s3.put_object(Bucket=self.name, Key=f"t/{path}", Body=content)
        if announced:
            self.emit("ObjectCreated:Put", path, len(content))

    def delete(self, path: str) -> None:
        self.s3.delete_object(Bucket=self.name, Key=f"t/{path}")
        self.emit("ObjectRemoved:Delete", path)

    def emit(self, name: str, path: str, size: int | None = None) -> None:
        self._sequence += 1
        key = f"t/{path}".replace(" ", "+").replace("=", "%3D")
        now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
        thing = {"key": key, "sequencer": f"{self._sequence:016X}"} | ({} if size is None else {"size": size})
        record = {"eventName": name, "eventTime": now, "s3": {"bucket": {"name": self.name}, "object": thing}}
        self.send(json.dumps({"Records": [record]}))

    def send(self, body: str) -> None:
        self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def show_again_at_once(self) -> None:
        """Let a message that was not deleted be there again for who asks next."""
        self.sqs.set_queue_attributes(QueueUrl=self.url, Attributes={"VisibilityTimeout": "0"})

    def waiting(self) -> int:
        got = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])["Attributes"]
        return int(got["ApproximateNumberOfMessages"]) + int(got["ApproximateNumberOfMessagesNotVisible"])

    def run(self, *more: str) -> int:
        options = [word for key, value in self.options.items() for word in ("--storage", f"{key}={value}")]
        head = ["--index", self.index, "--metastore", "none", *options]
        return main([*head, "events", "--sqs", self.url, "--once", *more])


@pytest.fixture
def lake(moto_server: S3Server, tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(moto_server, tmp_path)
    lake.put(f"{A}/1.csv", announced=False)
    lake.catalog.register_table(
        "s.t", location=f"s3a://{lake.name}/t", partition_columns={"ds": "DATE", "region": "STRING"}, schema="x INT",
        format="csv",
    )  # fmt: skip
    lake.catalog.repair_partitions("s.t")
    yield lake
    lake.catalog.close()


def test_a_queue_is_emptied_into_the_index(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.send('{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "x"}')
    lake.put(f"{A}/2.csv")
    for number in range(15):
        lake.put(f"{B}/{number}.csv")
    lake.delete(f"{A}/1.csv")
    before = lake.server.list_requests()
    assert lake.run("--json") == 0
    assert lake.server.list_requests() - before == 2, "one for each partition"
    assert indexed(lake.catalog) == {A: {"2.csv": 2}, B: {f"{n}.csv": 2 for n in range(15)}}
    (announced,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (announced["events"], announced["left"]) == (17, 0)
    assert announced["tables"][0] | {"version": 0} == {
        "table": "s.t", "checked": 2, "added": 1, "dropped": 0, "changed": 1, "version": 0, "error": None,
    }  # fmt: skip
    assert lake.catalog.load_table("s.t").version == 2, "one commit"
    assert lake.waiting() == 0
    before = lake.server.list_requests()
    lake.delete(f"{A}/never.csv")
    assert lake.run() == 0
    # Another process may have listed it while it was there, and be about to commit that.
    assert (lake.server.list_requests() - before, lake.waiting()) == (1, 0)


def test_the_last_file_of_a_partition_goes(lake: Lake) -> None:
    lake.put(f"{B}/1.csv")
    lake.delete(f"{A}/1.csv")
    assert lake.run() == 0
    assert indexed(lake.catalog) == {B: {"1.csv": 2}}


def test_a_message_goes_when_what_it_says_is_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.show_again_at_once()
    lake.put(f"{A}/2.csv")
    with monkeypatch.context() as failing:

        def commit(*_: object, **__: object) -> object:
            raise StorageUnavailableError("no commit today")

        failing.setattr("catalog_ext.metastore.index.write.commits.Commits.apply_changes", commit)
        assert lake.run() == 4
    assert (lake.waiting(), indexed(lake.catalog)) == (1, {A: {"1.csv": 2}})
    assert lake.run() == 0
    assert (lake.waiting(), indexed(lake.catalog)) == (0, {A: {"1.csv": 2, "2.csv": 2}})


def test_a_store_that_refuses_keeps_the_messages(lake: Lake, tmp_path: Path) -> None:
    lake.put(f"{B}/1.csv")
    lake.show_again_at_once()
    refusal = (403, "AccessDenied")
    with FaultyStore(lake.server.direct_endpoint, lambda prefix: refusal if "a b" in prefix else None) as faulty:
        lake.options["endpoint"] = faulty.endpoint
        assert lake.run() != 0
    assert lake.waiting() == 1
    lake.options["endpoint"] = lake.server.endpoint
    assert lake.run() == 0
    assert (lake.waiting(), set(indexed(lake.catalog))) == (0, {A, B})


def test_what_is_no_notification_stays(lake: Lake) -> None:
    lake.send("hello")
    lake.put(f"{A}/2.csv")
    queue = Queue(lake.url, lake.access, batch_messages=2)
    outcome = queue.take(lake.catalog.events.take, wait=False)
    assert outcome is not None
    assert indexed(lake.catalog) == {A: {"1.csv": 2, "2.csv": 2}}
    assert lake.waiting() == 1
    queue.close()


def test_a_queue_that_is_not_there(lake: Lake) -> None:
    queue = Queue(f"{lake.url}-none", lake.access)
    with pytest.raises(StorageUnavailableError, match="does not answer"):
        queue.take(lake.catalog.events.take, wait=False)
    with pytest.raises(InvalidConfigurationError, match="no URL of a queue"):
        Queue("lake", lake.access)


def test_our_own_writes_cost_no_listing(lake: Lake) -> None:
    from tests.integration.repair.test_repair_store import Bucket
    from tests.kit.writes import begin

    begun = begin(lake.catalog)
    staged = Bucket(lake.server, lake.name).stage(begun, B, b"1\n")
    lake.catalog.writes.transactions.commit(begun.transaction_id, [staged])
    lake.emit("ObjectCreated:CompleteMultipartUpload", f"{B}/{staged.name}", 2)
    before = lake.server.list_requests()
    assert lake.run() == 0
    assert lake.server.list_requests() == before
    assert indexed(lake.catalog)[B] == {staged.name: 2}
