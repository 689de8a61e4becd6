"""The connector on a real S3 server through S3A: odd keys are read, and planning sends the store nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest
from pyspark.errors import SparkRuntimeException

from tests.servers.recorded_service import serve_recorded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.spark_driver import Driver
    from tests.servers.stores import S3Server


pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAMES = ("k=a b", "k=50%25", "k=a%2Fb", "k=x%3Dy", "k=t:1", "k=été", "k=a+b", "k=#1?2")
VALUES = {"a b", "50%", "a/b", "x=y", "t:1", "été", "a+b", "#1?2"}
FILE = "part 1%20=é:2.parquet"


def test_odd_keys_and_no_lists(driver: Driver, s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.make_bucket("connector")
    conf = {
        "spark.hadoop.fs.s3a.endpoint": s3_server.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": s3_server.region,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": s3_server.access_key,
        "spark.hadoop.fs.s3a.secret.key": s3_server.secret_key,
    }
    storage = {key.removeprefix("spark.hadoop."): value for key, value in conf.items()}
    with (
        serve_recorded(tmp_path, storage) as service,
        driver.connected(service.uri, service.token, conf) as spark,
    ):
        spark.range(1, 2).coalesce(1).write.parquet(str(tmp_path / "p"))
        content = next((tmp_path / "p").glob("*.parquet")).read_bytes()
        client = boto3.client(
            "s3",
            endpoint_url=s3_server.endpoint,
            aws_access_key_id=s3_server.access_key,
            aws_secret_access_key=s3_server.secret_key,
            region_name=s3_server.region,
        )
        for name in NAMES:
            client.put_object(Bucket=bucket, Key=f"a table/{name}/{FILE}", Body=content)
        service.add_table("remote", f"s3a://{bucket}/a table", {"id": "bigint"}, {"k": "string"})
        lists = s3_server.list_requests()
        found = spark.sql("SELECT id, k FROM lake.sales.remote").collect()
        assert len(found) == len(NAMES)
        assert {row.k for row in found} == VALUES
        assert s3_server.list_requests() == lists

        # The first count reads footers, which S3A may have in its cache; the next one asks the store nothing.
        count = "SELECT count(*), max(k) FROM lake.sales.remote"
        before = s3_server.counts()
        assert spark.sql(count).collect() == [(len(NAMES), "été")]
        assert (s3_server.counts() - before)["HEAD"] == len(NAMES), "one request says which object a footer is of"
        assert service.table("remote").totals.rows == len(NAMES)
        before = s3_server.counts()
        assert spark.sql(count).collect() == [(len(NAMES), "été")]
        assert s3_server.counts() == before

        client.delete_object(Bucket=bucket, Key=f"a table/k=a b/{FILE}")
        client.close()
        with pytest.raises(SparkRuntimeException, match="partition 'k=a b' of table lake") as caught:
            spark.sql("SELECT sum(id) FROM lake.sales.remote").collect()
        assert caught.value.getCondition() == "CATALOG_EXT_FILE_MISSING"
