"""Tags in Spark SQL: CALL tag and untag, the metadata table tags, and VERSION AS OF 'tag'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.lake import local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

TABLE = "lake.w.tagged"


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with local_lake(driver, tmp_path_factory.mktemp("tags")) as lake:
        lake.sql(
            f"CREATE TABLE {TABLE} (id INT, ds STRING) PARTITIONED BY (ds) "
            "TBLPROPERTIES ('overwrite-mode' = 'relocate')",
            *(f"INSERT OVERWRITE {TABLE} PARTITION (ds = 'a') VALUES ({number})" for number in (1, 2, 3)),
        )
        yield lake


def test_tagged_version_is_read_after_vacuum(lake: Lake) -> None:
    (made,) = lake.rows("CALL lake.system.tag('w.tagged', 1, 'before-load')")
    assert made[:3] == ("before-load", 1, None)
    lake.rows("CALL lake.system.vacuum(table => 'w.tagged', retention => '0s', allow_short_retention => true)")
    for version in ("'before-load'", "1", "'1'"):
        assert lake.rows(f"SELECT id FROM {TABLE} VERSION AS OF {version}") == [(1,)], version
    read = lake.spark.read.option("versionAsOf", "before-load").table(TABLE)
    assert [tuple(row) for row in read.select("id").collect()] == [(1,)]
    assert lake.rows(f"SELECT name, version, readable FROM {TABLE}.tags") == [("before-load", 1, "yes")]
    assert lake.condition(f"SELECT id FROM {TABLE} VERSION AS OF 2") == "CATALOG_EXT_VERSION_EXPIRED"
    for unknown in ("'other'", "'99999999999999999999'"):
        assert lake.condition(f"SELECT id FROM {TABLE} VERSION AS OF {unknown}") == "CATALOG_EXT_VERSION_NOT_FOUND"
    lake.rows("CALL lake.system.untag(table => 'w.tagged', name => 'before-load')")
    assert lake.condition(f"SELECT id FROM {TABLE} VERSION AS OF 1") == "CATALOG_EXT_VERSION_EXPIRED"
    assert lake.rows(f"SELECT * FROM {TABLE}.tags") == []


def test_tag_of_digits_is_refused(lake: Lake) -> None:
    assert lake.condition("CALL lake.system.tag('w.tagged', 3, '41')") == "CATALOG_EXT_INVALID_INPUT"
