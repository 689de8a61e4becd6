"""Storage options: Hadoop keys and short names mean the same, and secrets stay secret."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.storage.options import S3Options, StorageOptions

HADOOP = {
    "fs.s3a.endpoint": "http://127.0.0.1:9000",
    "fs.s3a.endpoint.region": "eu-west-1",
    "fs.s3a.path.style.access": "true",
    "fs.s3a.access.key": "the-key",
    "fs.s3a.secret.key": "the-secret",
    "fs.s3a.session.token": "the-token",
}
SHORT = {
    "endpoint": "http://127.0.0.1:9000",
    "region": "eu-west-1",
    "path_style": True,
    "access_key": "the-key",
    "secret_key": "the-secret",
    "session_token": "the-token",
}


def test_hadoop_keys_and_short_names_mean_the_same() -> None:
    expected = S3Options("http://127.0.0.1:9000", "eu-west-1", "the-key", "the-secret", "the-token", path_style=True)
    assert StorageOptions.parse(HADOOP).default == expected
    assert StorageOptions.parse({f"spark.hadoop.{key}": value for key, value in HADOOP.items()}).default == expected
    assert StorageOptions.parse(SHORT).default == expected


def test_nothing_given_is_amazon_with_its_own_chain() -> None:
    assert StorageOptions.parse(None).default == S3Options()
    assert StorageOptions.parse({"fs.s3a.access.key": "", "secret_key": None}).default == S3Options()


def test_a_short_name_wins_over_a_hadoop_key() -> None:
    assert StorageOptions.parse({"region": "short", "fs.s3a.endpoint.region": "hadoop"}).default.region == "short"


def test_a_whole_spark_conf_may_be_given() -> None:
    conf = {**HADOOP, "spark.master": "local[2]", "fs.s3a.threads.max": "10", "fs.s3a.bucket.b.threads.max": "1"}
    assert StorageOptions.parse(conf) == StorageOptions.parse(HADOOP)


def test_a_bucket_overrides_what_it_names() -> None:
    options = StorageOptions.parse(
        {
            **HADOOP,
            "spark.hadoop.fs.s3a.bucket.my.dotted.bucket.endpoint": "https://other",
            "fs.s3a.bucket.my.dotted.bucket.endpoint.region": "us-west-2",
            "fs.s3a.bucket.open.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
        }
    )
    dotted = options.for_bucket("my.dotted.bucket")
    assert (dotted.endpoint, dotted.region, dotted.access_key) == ("https://other", "us-west-2", "the-key")
    assert options.for_bucket("open").anonymous
    assert not options.for_bucket("elsewhere").anonymous
    assert options.for_bucket("elsewhere") == options.default


@pytest.mark.parametrize(
    ("endpoint", "ssl", "scheme", "host"),
    [
        ("http://127.0.0.1:9000/", True, "http", "127.0.0.1:9000"),
        ("HTTPS://store.example", False, "https", "store.example"),
        ("store.example:9000", True, "https", "store.example:9000"),
        ("store.example:9000", False, "http", "store.example:9000"),
        (None, True, "https", None),
    ],
)
def test_scheme_and_host(endpoint: str | None, ssl: bool, scheme: str, host: str | None) -> None:
    options = StorageOptions.parse({"endpoint": endpoint, "fs.s3a.connection.ssl.enabled": str(ssl).lower()}).default
    assert (options.scheme, options.host) == (scheme, host)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"acess_key": "x"}, "'access_key'"),
        ({"bucket": "x"}, "unknown"),
        ({"access_key": "x"}, "no secret_key"),
        ({"fs.s3a.secret.key": "x"}, "no access_key"),
        ({"session_token": "x"}, "session_token without"),
        ({"path_style": "maybe"}, "true or false"),
        ({"region": 3}, "must be text"),
        ({"endpoint": "ftp://x"}, "endpoint"),
        ({"endpoint": "http://x/path"}, "endpoint"),
        ({"fs.s3a.bucket.b.access.key": "x"}, "'b'"),
    ],
)
def test_what_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidConfigurationError) as refused:
        StorageOptions.parse(settings)
    assert words in refused.value.message


def test_secrets_show_nowhere() -> None:
    options = StorageOptions.parse({**HADOOP, "fs.s3a.bucket.b.secret.key": "the-other-secret"})
    for secret in ("the-key", "the-secret", "the-token", "the-other-secret"):
        assert secret not in repr(options)
        assert secret not in str(options)
    for settings in ({"access_key": "the-key"}, {**SHORT, "endpoint": "ftp://u:the-secret@x"}):
        with pytest.raises(InvalidConfigurationError) as refused:
            StorageOptions.parse(settings)
        assert "the-" not in refused.value.message


def test_an_unsigned_request_needs_no_keys() -> None:
    assert StorageOptions.parse({"anonymous": "true"}).default.anonymous
    assert not StorageOptions.parse(
        {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"}
    ).default.anonymous


def test_spark_gets_what_python_uses() -> None:
    options = StorageOptions.parse({**SHORT, "fs.s3a.bucket.b.endpoint.region": "us-west-2"})
    hadoop = options.to_hadoop()
    assert {key: hadoop[key] for key in HADOOP} == HADOOP
    assert hadoop["fs.s3a.bucket.b.endpoint.region"] == "us-west-2"
    assert StorageOptions.parse(hadoop).for_bucket("b").region == "us-west-2"


def test_an_own_endpoint_is_addressed_by_path_on_both_sides() -> None:
    hadoop = StorageOptions.parse({"endpoint": "http://127.0.0.1:9000"}).to_hadoop()
    assert hadoop["fs.s3a.path.style.access"] == "true"
    assert "fs.s3a.path.style.access" not in StorageOptions.parse({}).to_hadoop()
    virtual = StorageOptions.parse({"endpoint": "http://store", "path_style": False}).to_hadoop()
    assert virtual["fs.s3a.path.style.access"] == "false"


def test_keys_of_hdfs_are_kept_for_both_sides() -> None:
    options = StorageOptions.parse(
        {"spark.hadoop.dfs.ha.namenodes.ns1": "a,b", "dfs.client.use.datanode.hostname": True, "fs.defaultFS": "x"}
    )
    expected = {"dfs.ha.namenodes.ns1": "a,b", "dfs.client.use.datanode.hostname": "true"}
    assert options.hdfs == expected
    assert options.to_hadoop() == expected
