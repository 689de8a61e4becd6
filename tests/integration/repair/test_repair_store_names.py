"""Any name that moto, SeaweedFS and HDFS take: a repair registers what it can and gives the reason for the rest."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ParamValidationError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import catalog_ext
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from tests.kit.examples import examples
from tests.kit.name_cases import GOOD, KEYS, check_repair, hdfs_components, s3_keys

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.hdfs import HdfsServer
    from tests.servers.stores import S3Server

_ON_SERVERS = settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
_ALWAYS = ["/day=1/h=a/f", "day=1//h=a/f", "day=1/h=a//f", "day=1/h=a/full/", "day=1/h=a/f", "day=1/h=a/f/g"]


@pytest.fixture(params=["s3_server", "moto_server"])
def server(request: pytest.FixtureRequest) -> S3Server:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


@_ON_SERVERS
@given(st.lists(s3_keys, min_size=15, max_size=15))
def test_any_key_that_the_server_takes(server: S3Server, tmp_path: Path, keys: list[str]) -> None:
    given_options = {
        "endpoint": server.direct_endpoint, "access_key": server.access_key, "secret_key": server.secret_key,
        "region": server.region,
    }  # fmt: skip
    client = boto3.client(
        "s3", endpoint_url=server.direct_endpoint, aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key, region_name=server.region,
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )  # fmt: skip
    bucket = server.make_bucket(f"names-{secrets.token_hex(5)}")
    for key in dict.fromkeys((GOOD, *_ALWAYS, *keys)):
        try:
            client.put_object(Bucket=bucket, Key=f"t/{key}", Body=b"x")
        except (ClientError, ParamValidationError):
            assert key not in (GOOD, *_ALWAYS[3:5])
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="t/")
    there = {found["Key"][2:] for page in pages for found in page.get("Contents", ())} - {""}
    name = secrets.token_hex(5)
    with catalog_ext.connect(index=str(tmp_path / name), metastore=None, storage=given_options) as catalog:
        catalog.create_namespace("s")
        catalog.register_table(
            "s.t", location=f"s3a://{bucket}/t", format="csv", schema="x INT", partition_columns=KEYS
        )
        check_repair(catalog, "s.t", there)


@_ON_SERVERS
@given(st.lists(st.lists(hdfs_components, min_size=1, max_size=4).map("/".join), min_size=15, max_size=15))
def test_any_name_that_hdfs_takes(hdfs_server: HdfsServer, tmp_path: Path, paths: list[str]) -> None:
    name = secrets.token_hex(5)
    root, storage = Location.parse(f"{hdfs_server.uri}/{name}"), Storage()
    there = set()
    for path in dict.fromkeys((GOOD, *paths)):
        place = Location(root.scheme, root.bucket, f"{root.key}/{path}")
        try:
            storage.create_directory(place.parent)
            with storage.filesystem(place).open_output_stream(place.path):
                there.add(path)
        except (OSError, catalog_ext.CatalogExtError):
            assert path != GOOD
    with catalog_ext.connect(index=str(tmp_path / name), metastore=None) as catalog:
        catalog.create_namespace("s")
        catalog.register_table("s.t", location=str(root), format="csv", schema="x INT", partition_columns=KEYS)
        check_repair(catalog, "s.t", there)
