"""Slips in SQL and in a session's conf: an error with the near name, and never a statement that changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from catalog_ext.conf.format_options import OF_FORMAT, OF_SPARK, check_format_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(driver: Driver, tmp_path: Path) -> Iterator[SparkSession]:
    with driver.catalog(
        warehouse=str(tmp_path / "warehouse"), index=str(tmp_path / "index.db"), metastore=None
    ) as spark:
        spark.sql("CREATE NAMESPACE lake.sales")
        spark.sql("CREATE TABLE lake.sales.trips (id INT, region STRING) USING parquet PARTITIONED BY (region)")
        yield spark


def refused(spark: SparkSession, statement: str) -> str:
    with pytest.raises(AnalysisException) as error:
        spark.sql(statement).collect()
    return str(error.value)


def test_a_statement_asks_for_the_near_name(spark: SparkSession) -> None:
    for statement, meant in (
        ("SELECT * FROM lake.sales.trips WITH ('file-skip' = 'false')", "'file-skipping'"),
        ("SELECT * FROM lake.sales.trips WITH ('mergeShema' = 'true')", "'mergeSchema'"),
        ("INSERT INTO lake.sales.trips WITH ('write.max-filesize' = '1g') VALUES (1, 'eu')", "'write.max-file-size'"),
        ("CREATE TABLE lake.sales.a (id INT) USING csv OPTIONS ('heder' = 'true')", "'header'"),
        ("CALL lake.system.repair_partition(table => 'sales.trips')", "lake.system.repair_partitions"),
        ("CALL lake.system.repair_partitions(table => 'sales.trip')", "sales.trips"),
        ("CALL lake.system.repair_partitions(table => 'sales.trips', where => 'regoin = 1')", "region"),
        ("ALTER TABLE lake.sales.trips DROP PARTITION (regoin = 'eu')", "region"),
    ):  # fmt: skip
        assert f"Did you mean {meant}?" in refused(spark, statement), statement
    assert spark.table("lake.sales.trips").count() == 0


def test_a_key_of_the_catalog_that_is_set_later(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.catalog.lake.missing-file", "skip")
    assert "Did you mean 'spark.sql.catalog.lake.missing-files'?" in refused(spark, "SELECT * FROM lake.sales.trips")
    spark.conf.unset("spark.sql.catalog.lake.missing-file")
    spark.conf.set("spark.sql.catalog.lake.warehouse", "/elsewhere")
    assert "environment variable CATALOG_EXT_WAREHOUSE" in refused(spark, "SELECT * FROM lake.sales.trips")
    spark.conf.unset("spark.sql.catalog.lake.warehouse")
    spark.conf.set("spark.sql.catalog.lake.follow.interval", "5s")
    assert spark.table("lake.sales.trips").count() == 0


def test_all_options_of_sparks_formats_are_known(spark: SparkSession) -> None:
    catalyst = spark._jvm.org.apache.spark.sql.catalyst
    execution = spark._jvm.org.apache.spark.sql.execution.datasources
    for file_format, options in (
        ("csv", catalyst.csv.CSVOptions), ("json", catalyst.json.JSONOptions),
        ("text", execution.text.TextOptions), ("parquet", execution.parquet.ParquetOptions),
        ("orc", execution.orc.OrcOptions),
    ):  # fmt: skip
        found = options.getAllOptions()
        each = found.iterator()
        theirs = set()
        while each.hasNext():
            theirs.add(each.next())
        check_format_options(theirs, file_format, "sales.trips")
        unknown = {name.lower() for name in theirs} - {name.lower() for name in (*OF_FORMAT[file_format], *OF_SPARK)}
        assert not unknown, f"{file_format}: {unknown}"
