"""The JVM that modules share: what one of them leaves, the next does not see."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.lake import rows

if TYPE_CHECKING:
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


def test_what_a_session_leaves_is_gone(driver: Driver) -> None:
    with driver.session() as one:
        one.sql("CREATE DATABASE own")
        one.sql("CREATE TABLE own.left (a INT) USING parquet")
        one.sql("CREATE TABLE left (a INT) USING parquet")
        one.sql("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
        one.sql("CREATE GLOBAL TEMPORARY VIEW everybodys AS SELECT 1 AS a")
        assert len(rows(one, "SHOW TABLES IN global_temp")) == 2
    with driver.session() as two:
        assert rows(two, "SHOW TABLES IN global_temp") == []
        assert rows(two, "SHOW DATABASES") == [("default",)]
