"""The servers of the test suite do what their fixtures promise."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import boto3
import pytest
import sqlalchemy
from hmsclient.hmsclient import HMSClient

from tests.servers.hive_cli import HiveCliError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.hive import HiveCli, HiveMetastore
    from tests.servers.stores import S3Server


@pytest.mark.parametrize("server_fixture", ["s3_server", "moto_server"])
def test_s3_servers_store_and_count(request: pytest.FixtureRequest, server_fixture: str, bucket_name: str) -> None:
    server: S3Server = request.getfixturevalue(server_fixture)
    bucket = server.make_bucket(bucket_name)
    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name=server.region,
    )
    before = server.counts()
    client.put_object(Bucket=bucket, Key="t/ds=2025-01-01/a b%2F.txt", Body=b"x" * 300_000)
    client.put_object(Bucket=bucket, Key="t/ds=2025-01-02/b.txt", Body=b"y")
    listed = client.list_objects_v2(Bucket=bucket, Prefix="t/")
    body = client.get_object(Bucket=bucket, Key="t/ds=2025-01-01/a b%2F.txt")["Body"].read()
    client.close()
    assert {entry["Key"] for entry in listed["Contents"]} == {"t/ds=2025-01-01/a b%2F.txt", "t/ds=2025-01-02/b.txt"}
    assert body == b"x" * 300_000
    assert server.counts() - before == {"PUT": 2, "LIST": 1, "GET": 1}
    assert server.proxy.requests()[-1].key == "t/ds=2025-01-01/a b%2F.txt"
    assert server.proxy.requests()[-2].prefix == "t/"


@pytest.mark.parametrize("url_fixture", ["postgres_url", "mariadb_url"])
def test_databases_are_fresh_and_writable(request: pytest.FixtureRequest, url_fixture: str) -> None:
    engine = sqlalchemy.create_engine(request.getfixturevalue(url_fixture))
    assert sqlalchemy.inspect(engine).get_table_names() == []
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (name VARCHAR(20))"))
        connection.execute(sqlalchemy.text("INSERT INTO t VALUES ('größe €')"))
        assert connection.execute(sqlalchemy.text("SELECT name FROM t")).scalar() == "größe €"
    engine.dispose()


def test_hive_reads_what_it_wrote(hive_cli: HiveCli) -> None:
    _, _, _, partitions, rows = hive_cli.run(
        [
            "CREATE DATABASE servers_test",
            "CREATE TABLE servers_test.t (a INT) PARTITIONED BY (ds STRING) STORED AS PARQUET",
            "INSERT INTO servers_test.t PARTITION (ds = '1') VALUES (7), (NULL)",
            "SHOW PARTITIONS servers_test.t",
            "SELECT a, ds FROM servers_test.t WHERE ds = '1'",
        ]
    )
    assert partitions == [("ds=1",)]
    assert sorted(rows) == [("7", "1"), ("NULL", "1")]


def test_calls_of_hives_command_line_have_sessions_of_their_own(hive_cli: HiveCli) -> None:
    """They share a JVM: neither a setting nor a failure reaches the next call."""
    hive_cli.run(["SET hive.exec.parallel = true", "CREATE DATABASE servers_apart", "USE servers_apart"])
    setting, database = hive_cli.run(["SET hive.exec.parallel", "SELECT current_database()"])
    assert (setting, database) == ([("hive.exec.parallel=false",)], [("default",)])
    with pytest.raises(HiveCliError, match="Table not found 'nope'"):
        hive_cli.run(["SELECT * FROM nope", "CREATE DATABASE servers_never"])
    names = hive_cli("SHOW DATABASES")
    assert ("servers_apart",) in names
    assert ("servers_never",) not in names


def test_a_stopped_metastore_comes_back_under_its_uri(make_hive_metastore: Callable[[], HiveMetastore]) -> None:
    metastore = make_hive_metastore()
    address = ("127.0.0.1", int(metastore.uri.rpartition(":")[2]))
    metastore.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    metastore.start()
    with HMSClient(host=address[0], port=address[1]) as client:
        assert client.get_all_databases() == ["default"]
