"""What ``configure`` refuses before it starts anything."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import catalog_ext
from metastore.errors import InvalidConfigurationError

_SERVER = "sc://spark.example:15002"


def test_a_client_of_a_connect_server_is_told_where_the_catalog_belongs() -> None:
    builder = SparkSession.Builder().config("spark.remote", f"{_SERVER}/;token=secret")
    with pytest.raises(InvalidConfigurationError, match=_SERVER) as caught:
        catalog_ext.configure(builder, metastore=None)
    assert "catalog-ext serve" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_environment_names_a_connect_server_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", _SERVER)
    with pytest.raises(InvalidConfigurationError, match=_SERVER):
        catalog_ext.configure(SparkSession.Builder(), metastore=None)
