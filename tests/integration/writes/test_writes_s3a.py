"""Writes by Spark through S3A, on two S3 servers: uploads that are completed at the commit, and none left."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.storage.entries import ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.spark import session as sessions
from tests.integration.spark_batch import Batch
from tests.integration.waiting import until
from tests.kit.promotion_cases import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.stores import S3Server


pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPREAD = "SELECT id x, concat('k ', id % 3) k FROM range(0, 30, 1, 2)"
LARGE = "SELECT /*+ REPARTITION(1) */ id x, concat(uuid(), uuid(), uuid()) k FROM range(170000)"


@dataclass(frozen=True)
class Remote:
    spark: SparkSession
    catalog: Catalog
    server: S3Server
    bucket: str

    def place(self, table: str) -> Location:
        return Location.parse(f"s3a://{self.bucket}/{table}")

    def pending(self, table: str) -> list[str]:
        return sorted(
            str(upload.location)
            for upload in self.catalog.storage.uploads_to(self.place(table)).pending(self.place(table))
        )

    def visible(self, table: str) -> list[str]:
        return sorted(files_below(self.catalog.storage, self.place(table)))

    def indexed(self, table: str) -> list[str]:
        names = self.spark.sql(f"SELECT DISTINCT k, _metadata.file_name FROM lake.w.{table}").collect()
        return sorted(f"k={k}/{name}" for k, name in names)


@pytest.fixture(scope="module", params=["s3_server", "moto_server"])
def remote(
    driver: Driver, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Remote]:
    server: S3Server = request.getfixturevalue(request.param)
    folder = tmp_path_factory.mktemp("s3a")
    bucket = server.make_bucket(f"writes-{request.param.replace('_', '-')}")
    storage = {
        "endpoint": server.endpoint, "access_key": server.access_key, "secret_key": server.secret_key,
        "region": server.region, "path_style": "true",
    }  # fmt: skip
    with driver.catalog(
        {"spark.hadoop.fs.s3a.multipart.size": "5M"}, warehouse=f"s3a://{bucket}/warehouse",
        index=str(folder / "index.db"), metastore=None, storage=storage,
    ) as spark:  # fmt: skip
        spark.sql("CREATE NAMESPACE lake.w")
        yield Remote(spark, sessions.active_catalog("lake"), server, bucket)


def make(remote: Remote, table: str, columns: str = "x BIGINT, k STRING", keys: str = "PARTITIONED BY (k)") -> None:
    remote.spark.sql(f"CREATE TABLE lake.w.{table} ({columns}) USING parquet {keys} LOCATION '{remote.place(table)}'")


@pytest.mark.requirement("Doris.Storage", statement="INSERT OVERWRITE")
@pytest.mark.requirement(
    "Doris.Transaction.Isolation",
    statement="INSERT INTO",
    differs="Readers of the index see all partitions of a write at one instant; the metastore gets "
    "them after the commit.",
)
def test_uploads_are_completed_by_the_commit(remote: Remote) -> None:
    make(remote, "t")
    seen: list[tuple[int, int]] = []

    def look(point: str) -> None:
        seen.append((len(remote.pending("t")), len(remote.visible("t"))))

    before = remote.server.counts()
    with armed("reserve.before", look):
        remote.spark.sql(f"INSERT INTO lake.w.t {SPREAD}")
    sent = remote.server.counts() - before
    # SeaweedFS shows the directories of pending uploads; there is no file in them.
    assert seen == [(6, 0)]
    assert (sent["CREATE_UPLOAD"], sent["UPLOAD_PART"], sent["COMPLETE_UPLOAD"]) == (6, 6, 6)
    assert remote.pending("t") == []
    assert remote.visible("t") == remote.indexed("t")
    assert len(remote.visible("t")) == 6
    written = sorted(tuple(row) for row in remote.spark.sql("SELECT * FROM lake.w.t").collect())
    assert written == sorted(tuple(row) for row in remote.spark.sql(SPREAD).collect())

    remote.spark.sql("INSERT OVERWRITE lake.w.t VALUES (99, 'k 1')")
    assert remote.visible("t") == remote.indexed("t")
    assert [tuple(row) for row in remote.spark.sql("SELECT x FROM lake.w.t WHERE k = 'k 1'").collect()] == [(99,)]
    assert remote.pending("t") == []


def test_a_large_file_goes_in_parts(remote: Remote) -> None:
    make(remote, "large", "x BIGINT, k STRING", "")
    before = remote.server.counts()
    remote.spark.sql(f"INSERT INTO lake.w.large {LARGE}")
    sent = remote.server.counts() - before
    table = remote.catalog.load_table("w.large")
    assert table.totals.bytes > 12_000_000
    assert sent["UPLOAD_PART"] == -(-table.totals.bytes // (5 << 20)) >= 3
    assert (sent["CREATE_UPLOAD"], sent["COMPLETE_UPLOAD"]) == (1, 1)
    assert remote.spark.sql("SELECT count(*), sum(x), count(DISTINCT k) FROM lake.w.large").first() == (
        170_000, 14_449_915_000, 170_000,
    )  # fmt: skip


@pytest.mark.requirement("Doris.Transaction.Rollback", statement="INSERT INTO lake.w.failing SELECT")
def test_nothing_is_left_of_writes_that_fail(remote: Remote) -> None:
    make(remote, "failing")
    remote.spark.sql("INSERT INTO lake.w.failing VALUES (1, 'old')")
    old = remote.visible("failing")
    value = "IF(id = 29, '__HIVE_DEFAULT_PARTITION__', concat('k', id % 3))"
    with pytest.raises(PySparkException, match="stands for NULL"):
        remote.spark.sql(f"INSERT INTO lake.w.failing SELECT id, {value} FROM range(0, 30, 1, 2)")
    # The statement ends while Spark still stops the other task, which takes back what it has begun.
    until(lambda: not remote.pending("failing"), "taking back the other task's upload")
    with armed("reserve.before", "storage"), pytest.raises(PySparkException) as caught:
        remote.spark.sql(f"INSERT OVERWRITE lake.w.failing {SPREAD}")
    assert caught.value.getCondition() == "CATALOG_EXT_STORAGE_UNAVAILABLE"
    remote.spark.sql("CALL lake.system.recover(table => 'w.failing', older_than => '0s')")
    assert remote.pending("failing") == []
    assert remote.visible("failing") == old == remote.indexed("failing")
    states = remote.spark.sql("SELECT state FROM lake.w.failing.transactions").collect()
    assert [row.state for row in states] == ["aborted", "aborted", "finished"]


def test_two_attempts_of_a_task_end(remote: Remote) -> None:
    make(remote, "speculated", "x INT, k INT")
    batch = Batch(remote.spark, "speculated")
    first, _ = (batch.end(batch.attempt(number)) for number in (1, 2))
    assert remote.visible("speculated") == []
    assert len(remote.pending("speculated")) == 4
    batch.commit(first)
    assert sorted(map(tuple, remote.spark.table("lake.w.speculated").collect())) == [(1, 1), (2, 2), (3, 1)]
    assert ["-a1-" in path for path in remote.visible("speculated")] == [True, True]
    assert remote.visible("speculated") == remote.indexed("speculated")
    assert remote.pending("speculated") == []


def test_task_asks_once_for_a_directory_and_has_one_uploader(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question waits for the driver, and a task may write thousands of files."""
    monkeypatch.setattr("catalog_ext.metastore.transactions.begin.LOCATIONS_IN_PLAN", 0)
    make(remote, "asked", "x INT, k INT")
    elsewhere = Location.parse(f"s3a://{remote.bucket}/elsewhere")
    remote.spark.sql(f"ALTER TABLE lake.w.asked ADD PARTITION (k = 1) LOCATION '{elsewhere}'")
    batch = Batch(remote.spark, "asked")
    writer = batch.attempt(1)
    # The abort ends what answers questions of tasks, but not the attempt.
    batch.abort()
    batch.end(writer)
    uploads = batch.held(batch.held(writer, "staging"), "uploads").toArray()
    assert len(uploads) == 2
    assert len({batch.jvm.System.identityHashCode(batch.held(one, "uploader")) for one in uploads}) == 1
    writer.abort()
    assert remote.pending("asked") + remote.pending("elsewhere") == []


def test_partitions_of_a_stream_wait_as_hidden_objects(remote: Remote, tmp_path: Path) -> None:
    make(remote, "hours", "x BIGINT, at TIMESTAMP, k INT")
    properties = {
        "sink.partition-commit.trigger": "partition-time", "sink.partition-commit.delay": "1 h",
        "partition.time-extractor.timestamp-pattern": "2025-01-01 $k:00:00",
    }  # fmt: skip
    source = tmp_path / "source"
    source.mkdir()
    stream = remote.spark.readStream.schema("x BIGINT, at TIMESTAMP, k INT").json(str(source))
    writer = stream.withWatermark("at", "0 seconds").writeStream.options(**properties)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def put(*hours: int) -> None:
        events = ({"x": hour, "at": f"2025-01-01T{hour:02d}:30:00Z", "k": hour} for hour in hours)
        (source / ".new").write_text("\n".join(map(json.dumps, events)))
        (source / ".new").rename(source / f"{hours[0]}.json")

    def waiting() -> list[str]:
        """The partitions of complete objects that no version has."""
        found = list_tree(remote.catalog.storage, remote.place("hours"), descend=lambda _: True, depth_hint=1)
        staged = (one.directory.split("/") for one in found if isinstance(one, ListedFile))
        return sorted(parts[-1] for parts in staged if parts[0] == "_catalog_ext_staging")

    def visible() -> list[str]:
        return [path for path in remote.visible("hours") if not path.startswith("_")]

    query = writer.toTable("lake.w.hours")
    try:
        put(9, 10)
        query.processAllAvailable()
        assert (waiting(), visible(), remote.pending("hours")) == (["k=10", "k=9"], [], [])
        put(11)
        query.processAllAvailable()
        assert waiting() == ["k=10", "k=11"]
        assert visible() == remote.indexed("hours")
    finally:
        query.stop()
    put(12)
    writer.trigger(availableNow=True).toTable("lake.w.hours").awaitTermination()
    assert sorted(row.x for row in remote.spark.table("lake.w.hours").collect()) == [9, 10, 11, 12]
    assert remote.visible("hours") == remote.indexed("hours"), "nothing hidden is left"
    assert remote.pending("hours") == []


def test_load_data_moves_objects_and_copies_files_of_the_drivers_disk(remote: Remote, tmp_path: Path) -> None:
    make(remote, "loaded")
    place, storage = remote.place("incoming"), remote.catalog.storage
    rows = {n: pa.table({"x": pa.array([n], pa.int64())}) for n in range(4)}
    for n in (0, 1):
        buffer = pa.BufferOutputStream()
        parquet.write_table(rows[n], buffer)
        storage.write_file(place.join(f"{n}.parquet"), buffer.getvalue().to_pybytes())
    storage.write_file(place.join("_SUCCESS"))
    remote.spark.sql(f"LOAD DATA INPATH '{place}' INTO TABLE lake.w.loaded PARTITION (k = 'a')")
    assert files_below(storage, place) == ["/_SUCCESS"]

    for n in (2, 3):
        parquet.write_table(rows[n], tmp_path / f"{n}.parquet")
    remote.spark.sql(f"LOAD DATA LOCAL INPATH '{tmp_path}/*' INTO TABLE lake.w.loaded PARTITION (k = 'a')")
    assert len(list(tmp_path.iterdir())) == 2
    remote.spark.sql(
        f"LOAD DATA LOCAL INPATH '{tmp_path}/3.parquet' OVERWRITE INTO TABLE lake.w.loaded PARTITION (k = 'b')"
    )
    found = remote.spark.sql("SELECT x, k FROM lake.w.loaded ORDER BY k, x").collect()
    assert [tuple(row) for row in found] == [(0, "a"), (1, "a"), (2, "a"), (3, "a"), (3, "b")]
    assert remote.visible("loaded") == remote.indexed("loaded")
    assert remote.pending("loaded") == []

    with pytest.raises(PySparkException, match="LOAD DATA LOCAL INPATH copies"):
        remote.spark.sql(f"LOAD DATA INPATH 'file://{tmp_path}' INTO TABLE lake.w.loaded PARTITION (k = 'a')")


def test_old_versions_are_read_whenever_they_were_committed(remote: Remote) -> None:
    """The index has the commit's time for an uploaded object, and the store another one."""
    table = "lake.w.old_versions"
    remote.spark.sql(
        f"CREATE TABLE {table} (x BIGINT, k STRING) PARTITIONED BY (k) TBLPROPERTIES ('overwrite-mode' = 'relocate')"
    )
    with armed("promote.after", lambda _: time.sleep(2.5)):
        remote.spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    remote.spark.sql(f"INSERT OVERWRITE {table} VALUES (2, 'a')")
    old = f"{table} VERSION AS OF 1"
    assert [tuple(row) for row in remote.spark.sql(f"SELECT x FROM {old} WHERE x > 0").collect()] == [(1,)]
    assert remote.catalog.dataset("w.old_versions", version=1).to_table().column("x").to_pylist() == [1]
    remote.spark.sql(f"DROP TABLE {table}")
