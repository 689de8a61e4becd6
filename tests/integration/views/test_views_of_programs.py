"""A view that a program has made, which Spark reads also before it has views in catalogs other than its own (4.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.views.views import ViewRequest
from tests.integration.lake import local_lake

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


def test_a_view_of_a_program_is_read_and_has_partitions(driver: Driver, tmp_path: Path) -> None:
    with local_lake(driver, tmp_path, "s") as lake:
        lake.sql(
            "CREATE TABLE lake.s.trips (id INT, fare DOUBLE, ds STRING) USING parquet PARTITIONED BY (ds)",
            "INSERT INTO lake.s.trips VALUES (1, 1.5, 'a'), (2, 2.5, 'a'), (3, 3.5, 'b')",
        )
        lake.catalog.views.create(
            ViewRequest(
                TableIdentifier.of("s", "cheap"),
                ViewQuery("SELECT id AS number, ds FROM trips WHERE fare < 3", "lake", ("s",)),
                (Column("number", "int"), Column("ds", "string")),
                ("ds",),
            )
        )
        assert lake.rows("SELECT * FROM lake.s.cheap ORDER BY number") == [(1, "a"), (2, "a")]
        assert lake.rows("SELECT v.number FROM lake.s.cheap v JOIN lake.s.trips t ON v.number = t.id AND t.id > 1") == [
            (2,)
        ]
        lake.sql("ALTER VIEW lake.s.cheap ADD PARTITION (ds = 'a'), PARTITION (ds = 'b')")
        assert lake.rows("SHOW PARTITIONS lake.s.cheap") == [("ds=a",), ("ds=b",)]
        lake.sql("ALTER VIEW lake.s.cheap DROP PARTITION (ds = 'b')")
        assert lake.rows("SHOW PARTITIONS lake.s.cheap") == [("ds=a",)]
