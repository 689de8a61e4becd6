"""The order in which the connector's rules are injected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

NAMES, INSERTS, AD_HOC_PATHS, SESSION_CATALOG, PARTITIONS, HIDDEN_COLUMNS, VIEWS, ANSWERS = range(8)


class Groups:
    """The groups of rules. No statement here asks the service: every name in ``lake`` is one of the index."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._session: Any = spark._jsparkSession
        self._groups: Any = getattr(getattr(jvm.org.apache.spark.sql.catalogext, "RuleGroups$"), "MODULE$")
        self._seq: Any = jvm.org.apache.spark.api.python.PythonUtils.toSeq

    def __len__(self) -> int:
        return int(self._groups.all().size())

    def prepared(self, sql: str, *moved_last: int) -> str:
        """The plan that Spark begins to resolve; the groups ``moved_last`` stand behind the others."""
        order = sorted(range(len(self)), key=lambda number: number in moved_last)
        groups = self._seq([self._groups.all().apply(number) for number in order])
        plan = self._session.sessionState().sqlParser().parsePlan(sql)
        return str(self._groups.prepared(self._session, plan, groups).toString())


@pytest.fixture(scope="module")
def groups(driver: Driver) -> Iterator[Groups]:
    with driver.connected("http://127.0.0.1:9", "none") as session:
        yield Groups(session)


def test_every_group_is_known_here(groups: Groups) -> None:
    assert len(groups) == ANSWERS + 1


@pytest.mark.parametrize(
    ("sql", "mark"),
    [
        ("SELECT l.n FROM IDENTIFIER('lake.s.' || 't') AS l", "AliasedRelation"),
        ("ALTER TABLE IDENTIFIER('lake.s.' || 't') DROP PARTITION (ds = '2025-01-01')", "PartitionCommand"),
    ],
)
def test_other_groups_find_a_name_only_behind_the_group_of_names(groups: Groups, sql: str, mark: str) -> None:
    assert mark in groups.prepared(sql)
    assert mark not in groups.prepared(sql, NAMES)


@pytest.mark.parametrize("moved", [INSERTS, AD_HOC_PATHS, SESSION_CATALOG, PARTITIONS, HIDDEN_COLUMNS, VIEWS, ANSWERS])
def test_order_of_the_other_groups_is_free(groups: Groups, moved: int) -> None:
    for sql in (
        "SELECT DISTINCT l.n FROM lake.s.t AS l JOIN lake.s.u USING (ds)",
        "ALTER TABLE lake.s.t DROP PARTITION (ds = '2025-01-01')",
        "CREATE TABLE spark_catalog.s.t (x INT) USING parquet",
        "CREATE TABLE lake.s.t AS SELECT DISTINCT * FROM lake.s.u AS u NATURAL JOIN lake.s.v AS v",
    ):
        assert groups.prepared(sql, moved) == groups.prepared(sql)
