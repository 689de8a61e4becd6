"""What repair, verify, ANALYZE, queries and registration do with each kind of thing that can lie in a partition."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.spark import session as sessions
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.partition_contents import (
    FAILS,
    IGNORED,
    IGNORED_WARNED,
    KINDS,
    LEFT_OUT,
    NAMED,
    NO_ROWS,
    NOTHING,
    PASSES,
    READ,
    REFUSED,
    REGISTERED,
    SKIPPED,
    WARNED,
    Kind,
    parquet_bytes,
)
from tests.kit.repair_cases import indexed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from catalog_ext.repair.report import RepairReport
    from tests.integration.spark_driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("contents")
    with driver.catalog(warehouse=str(folder), index=str(folder / "index.db"), metastore=None) as session:
        session.sql("CREATE NAMESPACE lake.s")
        yield session


@pytest.mark.parametrize("number", range(len(KINDS)), ids=[kind.name for kind in KINDS])
def test_what_is_done_with_it(
    spark: SparkSession, tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    kind, catalog, table = KINDS[number], sessions.active_catalog("lake.s.t"), f"s.t{number}"
    root = tmp_path / "t"
    (root / "k=1").mkdir(parents=True)
    (root / "k=1" / "whole.parquet").write_bytes(parquet_bytes())
    kind.make(root / kind.path)
    catalog.register_table(
        table, location=str(root), schema="x BIGINT, ts TIMESTAMP_NTZ", partition_columns={"k": "INT"}
    )
    report = catalog.repair_partitions(table)
    verified = catalog.repair_partitions(table, verify="all")
    found = Kind(
        kind.name,
        kind.path,
        kind.make,
        _repair(kind, catalog, table, report),
        _verify(kind, verified),
        query=_query(spark, kind, table),
        analyze=_analyze(spark, kind, table),
        register=_register(kind, catalog, root, f"{table}_again", caplog),
    )
    assert found == kind


def _repair(kind: Kind, catalog: Catalog, table: str, report: RepairReport) -> str:
    held = {f"{name}/{file}" for name, files in indexed(catalog, table).items() for file in files}
    shown = kind.path.encode("utf-8", "backslashreplace").decode()
    if any(shown == entry.path or shown.startswith(f"{entry.path}/") for entry in report.skipped):
        return SKIPPED
    if kind.path in held or kind.path in indexed(catalog, table):
        return WARNED if report.warnings else REGISTERED
    return IGNORED_WARNED if report.warnings else IGNORED


def _verify(kind: Kind, verified: RepairReport) -> str:
    if kind.repair not in (REGISTERED, WARNED):
        return NOTHING
    return NAMED if any(entry.path == kind.path for entry in verified.skipped) else PASSES


def _query(spark: SparkSession, kind: Kind, table: str) -> str:
    try:
        count = len(spark.sql(f"SELECT x, ts FROM lake.{table}").collect())
    except PySparkException:
        return FAILS
    if kind.repair not in (REGISTERED, WARNED):
        assert count == 2
        return NOTHING
    return READ if count == 4 else NO_ROWS


def _analyze(spark: SparkSession, kind: Kind, table: str) -> str:
    try:
        spark.sql(f"ANALYZE TABLE lake.{table} COMPUTE STATISTICS")
    except PySparkException:
        return FAILS
    rows = dict(spark.sql(f"SELECT path, rows FROM lake.{table}.files").collect())
    if kind.repair not in (REGISTERED, WARNED):
        return NOTHING
    return READ if any(path.endswith(kind.path) and count for path, count in rows.items()) else NO_ROWS


def _register(kind: Kind, catalog: Catalog, root: Path, table: str, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TableOverlapWarning)
            columns = catalog.register_table(table, location=str(root)).definition.columns
    except CatalogExtError:
        return REFUSED
    assert columns[0].type == "bigint"
    if "were read without" in caplog.text:
        return LEFT_OUT
    if kind.repair not in (REGISTERED, WARNED) or kind.query == NO_ROWS:
        return kind.register
    return READ
