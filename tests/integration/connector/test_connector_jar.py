"""A jar for another Spark, in a JVM of its own: the one that tests share has the right jar."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException

from catalog_ext.connector.build import VERSION_ENTRY, connector_jar, write_zip
from tests.integration.spark_driver import connected_to, end_jvm, small_builder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.recorded_service import RecordedService

pytestmark = pytest.mark.spark


def test_a_jar_for_another_spark_is_refused_before_there_is_a_session(
    recorded_service: RecordedService, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign.jar"
    with zipfile.ZipFile(connector_jar()) as source:
        entries = {name: source.read(name) for name in source.namelist()}
    write_zip(foreign, (entries | {VERSION_ENTRY: b"3.9.9"}).items())
    builder = small_builder("local[1]").config("spark.jars", str(foreign))
    for key, value in connected_to(recorded_service.uri, recorded_service.token).items():
        builder = builder.config(key, value)
    assert SparkContext._gateway is None, "tests that need a JVM of their own run before those that share one"
    try:
        # PySpark turns into its own exceptions what is said after a session, which a test before may have had.
        with pytest.raises((Py4JJavaError, CapturedException)) as caught:
            builder.getOrCreate()
        message = caught.value._desc if isinstance(caught.value, CapturedException) else str(caught.value)
    finally:
        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()
        end_jvm()
    assert "[CATALOG_EXT_ENVIRONMENT_SETUP]" in message
    assert "compiled for Spark 3.9.9" in message
    assert "python -m catalog_ext.connector.build" in message
