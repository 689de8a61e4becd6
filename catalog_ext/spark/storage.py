"""S3 settings for Python and Spark: Python reads Spark's S3A settings, and Spark gets the settings given to Python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.java import jar_version
from catalog_ext.metastore.storage.options import StorageOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.conf.resolved import Settings
    from catalog_ext.metastore.storage.store import Storage

AWS_SDKS = {"3.4.1": "2.29.52", "3.4.3": "2.35.4"}
"""The version of the AWS SDK by the first release of Hadoop whose hadoop-aws it fits.

3.4.2, 3.4.3 and 3.5.0 were built with these versions; 3.4.1 was built with 2.24.6, which is incomplete on Maven
Central.
From 2.30 on the SDK sends checksums and omits MD5, which stores other than Amazon's may refuse. Only a Hadoop that was
built with such an SDK turns that off. Single modules are used, because the SDK's bundle has 674 MB."""

_HDFS_PREFIX = "spark.hadoop.dfs."
_AWS_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
_EXCLUDED = (
    "software.amazon.awssdk:bundle", "org.wildfly.openssl:wildfly-openssl", "org.slf4j:slf4j-api",
    "commons-logging:commons-logging", "commons-codec:commons-codec", "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
    "io.netty:netty-buffer", "io.netty:netty-codec", "io.netty:netty-codec-http", "io.netty:netty-codec-http2",
    "io.netty:netty-common", "io.netty:netty-handler", "io.netty:netty-resolver", "io.netty:netty-transport",
    "io.netty:netty-transport-classes-epoll", "io.netty:netty-transport-native-unix-common",
)  # fmt: skip


def hadoop_version() -> str:
    """Return the version of Hadoop that PySpark ships, read from its jars.

    Raises:
        EnvironmentSetupError: PySpark is not installed.
    """
    return jar_version("hadoop-client-api")


def aws_sdk_version(hadoop: str) -> str:
    """Return the version of the AWS SDK for a release of Hadoop. A vendor's suffix of the version is ignored."""
    own = _numbers(hadoop)
    older = [sdk for first, sdk in AWS_SDKS.items() if _numbers(first) <= own]
    return older[-1] if older else next(iter(AWS_SDKS.values()))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))


def s3a_packages() -> dict[str, str]:
    """Return Spark settings that fetch S3A as about 36 jars of 13 MB in all, instead of the whole AWS bundle."""
    hadoop = hadoop_version()
    packages = [f"org.apache.hadoop:hadoop-aws:{hadoop}"]
    packages += [f"software.amazon.awssdk:{module}:{aws_sdk_version(hadoop)}" for module in _AWS_MODULES]
    return {"spark.jars.packages": ",".join(packages), "spark.jars.excludes": ",".join(_EXCLUDED)}


def s3a_settings(settings: Settings, options: Mapping[str, str]) -> dict[str, str]:
    """Return the S3 settings for a session's builder: S3A's jars if S3 is used, and the settings of ``storage``.

    ``options`` are the builder's present settings; its own ``spark.jars.packages`` are kept.
    """
    given = {f"spark.hadoop.{key}": value for key, value in StorageOptions.parse(settings.storage).to_hadoop().items()}
    wanted = settings.warehouse.startswith("s3a:") or bool(settings.storage) or any("fs.s3a." in key for key in options)
    if not wanted:
        return given
    for key, value in s3a_packages().items():
        existing = options.get(key)
        given[key] = value if not existing else existing if "hadoop-aws" in existing else f"{existing},{value}"
    return given


def spark_storage(settings: Settings) -> Callable[[], Storage]:
    """Return a function that opens the storage at its first use, when the session's Hadoop configuration exists."""
    return lambda: settings.open_storage({**active_hadoop_settings(), **settings.storage})


def active_hadoop_settings() -> dict[str, str]:
    """Return the running session's ``fs.s3a`` settings with defaults, and the ``dfs`` settings that it was given.

    Empty if no session runs. Python and Spark both read Hadoop's own files for HDFS.
    """
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return {}
    found = context._jsc.hadoopConfiguration().getPropsWithPrefix("fs.s3a.")
    given = {key: value for key, value in context.getConf().getAll() if key.startswith(_HDFS_PREFIX)}
    return {**{f"fs.s3a.{key}": str(found[key]) for key in found}, **given}
