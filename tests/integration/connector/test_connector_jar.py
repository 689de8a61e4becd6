"""A jar for another Spark, in a JVM of its own: the one that tests share has the right jar."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import SparkRuntimeException

from catalog_ext.connector.build import connector_jar
from tests.integration.spark_driver import connected_to, own_jvm, small_builder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.recorded_service import RecordedService

pytestmark = pytest.mark.spark


def test_a_jar_for_another_spark_is_refused(recorded_service: RecordedService, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.jar"
    with zipfile.ZipFile(connector_jar()) as source, zipfile.ZipFile(foreign, "w") as target:
        for entry in source.infolist():
            content = b"4.2.9" if entry.filename == "META-INF/catalog-ext/spark-version" else source.read(entry)
            target.writestr(entry, content)
    builder = small_builder("local[1]").config("spark.jars", str(foreign))
    for key, value in connected_to(recorded_service.uri, recorded_service.token).items():
        builder = builder.config(key, value)
    with own_jvm(builder) as spark:
        with pytest.raises(SparkRuntimeException, match=r"compiled for Spark 4\.2\.9") as caught:
            spark.sql("SHOW TABLES IN lake.sales")
        assert caught.value.getCondition() == "CATALOG_EXT_ENVIRONMENT_SETUP"
        assert "python -m catalog_ext.connector.build" in str(caught.value)
