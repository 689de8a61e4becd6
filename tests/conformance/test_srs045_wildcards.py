"""Wildcards and table functions of ClickHouse's SRS-045 on S3, read by a cluster of two executors."""

from __future__ import annotations

import io
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.servers.seaweedfs import SeaweedServer


pytestmark = [pytest.mark.spark, pytest.mark.slow]

DATES, REGIONS = ("2021-12-31", "2022-01-01", "2022-02-01"), ("EU", "US")
FILES = {
    **{f"data/date={d}/region={r}/x.parquet": 10 * i + j for i, d in enumerate(DATES) for j, r in enumerate(REGIONS)},
    **{f"months/year={y}/month={m:02d}/x.parquet": y * 100 + m for y in (2023, 2024) for m in (1, 2, 10)},
    "odd/{special}/k=*/x.parquet": 1,
    "odd/plain/k=2/x.parquet": 2,
}


@dataclass(frozen=True)
class Bucket:
    """A session and a bucket, which the statements of the tests call ``bucket``."""

    spark: SparkSession
    server: SeaweedServer
    name: str

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        found = self.spark.sql(statement.replace("s3a://bucket/", f"s3a://{self.name}/")).collect()
        return sorted(tuple(row) for row in found)

    def refusal(self, statement: str) -> tuple[str, str]:
        """The condition and the message."""
        with pytest.raises(PySparkException) as caught:
            self.sql(statement)
        return str(caught.value.getCondition()), str(caught.value)


@pytest.fixture(scope="module")
def bucket(driver: Driver, s3_server: SeaweedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    name = s3_server.make_bucket(f"wildcards-{secrets.token_hex(4)}")
    store = s3_server.file_system()

    def put(item: tuple[str, int]) -> None:
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": [item[1]]}), sink)
        with store.open_output_stream(f"{name}/{item[0]}") as stream:
            stream.write(sink.getvalue())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, FILES.items()))
    storage = {
        "endpoint": s3_server.endpoint, "access_key": s3_server.access_key, "secret_key": s3_server.secret_key,
        "region": s3_server.region, "path_style": "true",
    }  # fmt: skip
    with driver.catalog(
        {"spark.executor.memory": "1g"}, master="local-cluster[2,1,1024]", warehouse=f"s3a://{name}/warehouse",
        index=str(tmp_path_factory.mktemp("srs045") / "i.db"), metastore=None, storage=storage,
    ) as spark:  # fmt: skip
        yield Bucket(spark, s3_server, name)


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards")
@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.SingleStar")
def test_a_star_stays_in_its_component(bucket: Bucket) -> None:
    found = bucket.sql("SELECT id, year FROM lake.`s3a://bucket/months/year=*/month=*/`")
    assert found == [(n, str(n // 100)) for n in (202301, 202302, 202310, 202401, 202402, 202410)]
    assert bucket.sql("SELECT id FROM lake.`s3a://bucket/months/*/*1/*.parquet`") == [(202301,), (202401,)]
    assert bucket.refusal("SELECT id FROM lake.`s3a://bucket/months/*.parquet`")[0] == "CATALOG_EXT_PATH_NOT_FOUND"


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.DoubleStar")
def test_two_stars_cross_components(bucket: Bucket) -> None:
    found = bucket.sql("SELECT id, month FROM lake.`s3a://bucket/months/**/x.parquet` WHERE year = '2024'")
    assert found == [(202401, "01"), (202402, "02"), (202410, "10")]
    assert len(bucket.sql("SELECT id FROM lake.`s3a://bucket/data/**`")) == 6


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.QuestionMark")
def test_a_question_mark_is_one_character(bucket: Bucket) -> None:
    assert bucket.sql("SELECT id FROM lake.`s3a://bucket/months/year=202?/month=1?`") == [(202310,), (202410,)]
    assert bucket.refusal("SELECT id FROM lake.`s3a://bucket/months/year=20?`")[0] == "CATALOG_EXT_PATH_NOT_FOUND"


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.List")
def test_a_list(bucket: Bucket) -> None:
    found = bucket.sql("SELECT id FROM lake.`s3a://bucket/months/year=2024/month={01,02}/`")
    assert found == [(202401,), (202402,)]


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.WrongList")
def test_a_list_with_paths_that_do_not_exist(bucket: Bucket) -> None:
    condition, message = bucket.refusal("SELECT id FROM lake.`s3a://bucket/months/year=2024/month={01,03,04}/`")
    assert condition == "CATALOG_EXT_PATH_NOT_FOUND"
    assert "year=2024/month=03" in message
    assert "year=2024/month=04" in message
    assert "month=01," not in message.partition("names:")[2]


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.Range")
def test_a_range(bucket: Bucket) -> None:
    found = bucket.sql("SELECT id, year FROM lake.`s3a://bucket/months/year={2023..2024}/month={01..02}`")
    assert [number for number, _ in found] == [202301, 202302, 202401, 202402]


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.WrongRange")
def test_wrong_ranges(bucket: Bucket) -> None:
    condition, message = bucket.refusal("SELECT id FROM lake.`s3a://bucket/months/year={2023..2025}/month=01`")
    assert condition == "CATALOG_EXT_PATH_NOT_FOUND"
    assert "year=2025/month=01" in message
    for wrong in ("{2024..2023}", "{a..b}", "{1.5..3}"):
        condition, message = bucket.refusal(f"SELECT id FROM lake.`s3a://bucket/months/year={wrong}`")
        assert condition == "CATALOG_EXT_INVALID_PATTERN"
        assert "at character" in message


@pytest.mark.requirement("RQ.HivePartitioning.Wildcards.Escaping")
def test_escapes(bucket: Bucket) -> None:
    # A string of SQL takes a backslash for itself, a name in backquotes does not.
    assert bucket.sql(r"SELECT id, k FROM lake.`s3a://bucket/odd/\{special\}/k=\*/x.parquet`") == [(1, "*")]
    assert bucket.sql(r"SELECT id FROM lake.files(r's3a://bucket/odd/\{special\}')") == [(1,)]


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.InvalidPath")
def test_invalid_paths(bucket: Bucket) -> None:
    for path in ("nothing/here.parquet", "data/day=*/", "data/date=2022-01-01/region=ASIA"):
        condition, message = bucket.refusal(f"SELECT * FROM lake.files('s3a://bucket/{path}')")
        assert condition == "CATALOG_EXT_PATH_NOT_FOUND"
        assert "Failed to check existence of a key" in message
    assert "bucket" in bucket.refusal("SELECT * FROM lake.`s3a://no-such-bucket/x`")[1]


@pytest.mark.requirement("RQ.HivePartitioning.TableFunction.S3")
def test_the_function_on_s3(bucket: Bucket) -> None:
    before = bucket.server.list_requests()
    found = bucket.sql(
        "SELECT count(*), min(date), max(region) FROM lake.files('s3a://bucket/data/date=*/region=*/*.parquet', "
        "'parquet', options => map('schema.sample-files', '1')) WHERE region = 'EU' AND date >= '2022-01-01'"
    )
    assert found == [(2, "2022-01-01", "EU")]
    # The sample goes down one path; then come the level of dates, that of regions in two of them, and two directories.
    assert bucket.server.list_requests() - before <= 3 + 1 + 2 + 2


@pytest.mark.requirement("RQ.HivePartitioning.TableFunction.S3Cluster")
def test_the_function_across_a_cluster(bucket: Bucket) -> None:
    # The service lists, with the filters; the executors read.
    found = bucket.sql(
        "SELECT id, date, region FROM lake.files('s3a://bucket/data/date=*/region=*/*.parquet') "
        "WHERE region = 'EU' AND date >= DATE'2022-01-01'"
    )
    assert found == [(10, "2022-01-01", "EU"), (20, "2022-02-01", "EU")]
    function = "lake.files('s3a://bucket/data/date=*/region=*/*.parquet', 'parquet')"
    where = "WHERE region = 'EU' AND date >= DATE'2022-01-01'"
    before = bucket.server.list_requests()
    ((plan,),) = bucket.sql(f"EXPLAIN FORMATTED SELECT id FROM {function} {where}")
    assert "FilesChosen: 2 files" in str(plan)
    assert bucket.server.list_requests() > before
    assert len(bucket.sql(f"SELECT id FROM {function} WHERE upper(region) = 'US' AND id >= 0")) == 3

    lists = "lake.files('s3a://bucket/months/year={2023,2024}/month={01,03}/*.parquet')"
    condition, message = bucket.refusal(f"SELECT * FROM {lists}")
    assert condition == "CATALOG_EXT_PATH_NOT_FOUND"
    assert "year=2024/month=03" in message
    assert bucket.sql(f"SELECT id FROM {lists} WHERE month < '03'") == [(202301,), (202401,)]
    mixed = "SELECT id FROM lake.`s3a://bucket/{data,months}/*=*/*`"
    assert bucket.refusal(mixed)[0] == "CATALOG_EXT_PATH_LAYOUT"
