"""Repairs whose listing is done by the executors of a cluster."""

from __future__ import annotations

import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import pytest

from catalog_ext.metastore.storage.listed import ListedFile
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.spark import executor_listing
from catalog_ext.spark.executor_listing import ExecutorListing
from catalog_ext.spark.session import active_catalog
from catalog_ext.tables.locations import TableOverlapWarning

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.seaweedfs import SeaweedServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAYS, HOURS = 40, 5


class Lake(NamedTuple):
    spark: SparkSession
    catalog: Catalog
    server: SeaweedServer
    bucket: str

    def put(self, paths: Sequence[str]) -> None:
        store = self.server.file_system()

        def put(path: str) -> None:
            with store.open_output_stream(f"{self.bucket}/{path}") as stream:
                stream.write(b"x" * len(path))

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(put, paths))

    def register(self, name: str, keys: Sequence[str], threshold: str = "1") -> None:
        self.catalog.register_table(
            f"s.{name}", location=f"s3a://{self.bucket}/{name}", schema="x BIGINT",
            partition_columns=dict.fromkeys(keys, "INT"),
            properties={"repair.distributed-listing-threshold": threshold},
        )  # fmt: skip

    def jobs(self) -> list[str]:
        """What the jobs are called that listed something, of all that were run."""
        store = self.spark._jsparkSession.sparkContext().statusStore()
        found = store.jobsList(None)
        names = [found.apply(i).description() for i in range(found.size())]
        return [name.get() for name in names if name.isDefined() and "catalog-ext lists" in name.get()]


@pytest.fixture(scope="module")
def lake(driver: Driver, s3_server: SeaweedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    bucket = s3_server.make_bucket(f"listing-{secrets.token_hex(4)}")
    storage = {
        "endpoint": s3_server.endpoint, "access_key": s3_server.access_key, "secret_key": s3_server.secret_key,
        "region": s3_server.region, "path_style": "true",
    }  # fmt: skip
    with driver.catalog(
        {"spark.executor.memory": "1g"}, master="local-cluster[2,1,1024]", warehouse=f"s3a://{bucket}/warehouse",
        index=str(tmp_path_factory.mktemp("listing") / "i.db"), metastore=None, storage=storage,
    ) as spark:  # fmt: skip
        lake = Lake(spark, active_catalog("lake"), s3_server, bucket)
        lake.catalog.create_namespace("s")
        yield lake


@pytest.fixture
def filled(lake: Lake) -> str:
    """A table's name, with files at its place: of partitions, hidden, and such as belong to none."""
    name = f"t{secrets.token_hex(4)}"
    lake.put([f"{name}/d={d}/h={h}/f{n}.parquet" for d in range(DAYS) for h in range(HOURS) for n in range(d % 2 + 1)])
    lake.put([f"{name}/{path}" for path in ("_hidden/d=1/f", "d=1/f", "f", "d=2/_tmp/f", "d=2/h=x/f", "odd/h=1/f")])
    return name


def test_executors_find_what_the_driver_finds(lake: Lake, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_listing, "_ENTRIES_OF_A_JOB", 100)
    before = len(lake.jobs())
    lake.register(filled, ["d", "h"])
    report = lake.catalog.repair_partitions(f"s.{filled}")
    assert len(report.added) == DAYS * HOURS
    assert len(lake.jobs()) - before > 1
    alone = f"{filled}_alone"
    with pytest.warns(TableOverlapWarning):
        lake.catalog.register_table(
        f"s.{alone}", location=f"s3a://{lake.bucket}/{filled}", schema="x BIGINT",
        partition_columns={"d": "INT", "h": "INT"}, properties={"repair.distributed-listing-threshold": "none"},
    )  # fmt: skip
    jobs = len(lake.jobs())
    other = lake.catalog.repair_partitions(f"s.{alone}")
    assert len(lake.jobs()) == jobs
    assert sorted(map(str, report)) == sorted(map(str, other))
    again = lake.catalog.repair_partitions(f"s.{filled}")
    assert len(again) == len(again.skipped) == len(other.skipped)
    files = "SELECT partition, path, size, modified_at FROM lake.s.{}.files ORDER BY path"
    assert lake.spark.sql(files.format(filled)).collect() == lake.spark.sql(files.format(alone)).collect()


def test_a_repair_called_in_sql_and_limited(lake: Lake, filled: str) -> None:
    lake.register(filled, ["d", "h"])
    rows = lake.spark.sql(f"CALL lake.system.repair_partitions(table => 's.{filled}', where => 'd < 30')").collect()
    assert sum(row["action"] == "add" for row in rows) == 30 * HOURS
    assert lake.spark.sql(f"SELECT count(*) FROM lake.s.{filled}.partitions").collect()[0][0] == 30 * HOURS


def test_few_partitions_are_listed_by_the_driver(lake: Lake, filled: str) -> None:
    before = len(lake.jobs())
    lake.register(filled, ["d", "h"], threshold="100000")
    assert len(lake.catalog.repair_partitions(f"s.{filled}").added) == DAYS * HOURS
    assert len(lake.jobs()) == before


def test_where_executors_cannot_the_driver_does(
    lake: Lake, filled: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor_listing, "version", lambda _: "0.0.1")
    lake.register(filled, ["d", "h"])
    with caplog.at_level(logging.WARNING, executor_listing.__name__):
        assert len(lake.catalog.repair_partitions(f"s.{filled}").added) == DAYS * HOURS
    [record] = caplog.records
    assert "the driver has catalog-ext 0.0.1 and the executor " in record.getMessage()
    assert "repair.distributed-listing-threshold" in record.getMessage()


def test_a_listing_that_nobody_reads_to_its_end_ends(lake: Lake, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_listing, "_ENTRIES_OF_A_JOB", 10)
    root = f"s3a://{lake.bucket}/{filled}"
    listing = ExecutorListing(1)(
        lake.catalog.storage, root, descend=lambda _: True, depth_hint=2, expected=DAYS * HOURS
    )
    assert sum(isinstance(next(listing), ListedFile) for _ in range(5)) > 0
    listing.close()
    tracker = lake.spark.sparkContext.statusTracker()
    while tracker.getActiveJobsIds():
        pass
    whole = list_tree(lake.catalog.storage, root, descend=lambda _: True, depth_hint=2)
    assert len(list(whole)) > DAYS * HOURS
