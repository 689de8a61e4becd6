"""The warning that Spark's own catalog does not see the metastore of the index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf.resolved import Settings
from catalog_ext.spark.submitted import warn_of_own_catalog

if TYPE_CHECKING:
    from pathlib import Path

URI = "thrift://metastore:9083"
HIVE = {"spark.sql.catalogImplementation": "hive"}
URIS = {"spark.hadoop.hive.metastore.uris": URI}


@pytest.mark.parametrize(
    ("metastore", "options", "warning"),
    [
        (URI, {}, "is in memory: it does not see the metastore.*enableHiveSupport"),
        (URI, URIS, "is in memory"),
        ("embedded", {}, "is in memory"),
        (URI, HIVE, "has a metastore of its own"),
        (URI, HIVE | URIS, ""),
        (None, {}, ""),
    ],
)
def test_warning_says_what_the_session_lacks(
    metastore: str | None, options: dict[str, str], warning: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    settings = Settings.resolve(name="spark_catalog", warehouse=str(tmp_path), metastore=metastore)
    warn_of_own_catalog(settings, options)
    assert [bool(re.search(warning, text)) for text in caplog.messages] == ([True] if warning else [])


def test_setting_of_spark_submit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = " ".join(f"--conf {key}={value}" for key, value in (HIVE | URIS).items())
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"{arguments} pyspark-shell")
    settings = Settings.resolve(name="spark_catalog", warehouse=str(tmp_path), metastore=URI)
    warn_of_own_catalog(settings, {})
    assert caplog.messages == []
