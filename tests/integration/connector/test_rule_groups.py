"""The order in which the connector's rules are injected, and the repetition by Spark that makes it free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.servers.recorded_service import RecordedService

pytestmark = pytest.mark.spark

NAMES, INSERTS, AD_HOC_PATHS, SESSION_CATALOG, PARTITIONS, HIDDEN_COLUMNS, VIEWS, ANSWERS = range(8)


class Groups:
    """The groups of rules, in the batch of Spark that has their rules before the resolution."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._state: Any = spark._jsparkSession.sessionState()  # type: ignore[operator]
        groups: Any = getattr(getattr(jvm.org.apache.spark.sql.catalogext, "RuleGroups$"), "MODULE$")
        self.sizes = [
            group.byNames().size() + group.hints().size()
            for group in (groups.all().apply(i) for i in range(groups.all().size()))
        ]
        self._hints = self._batch("Hints")
        self.iterations = int(self._hints.strategy().maxIterations())

    def _batch(self, name: str) -> Any:
        batches = self._state.analyzer().batches()
        (found,) = [b for b in (batches.apply(i) for i in range(batches.size())) if b.name() == name]
        return found

    def rules(self, *moved_last: int) -> list[Any]:
        """The batch's rules; those of the groups ``moved_last`` stand behind the others."""
        rules = [self._hints.rules().apply(i) for i in range(self._hints.rules().size())]
        first = len(rules) - sum(self.sizes)
        starts = [first + sum(self.sizes[:group]) for group in range(len(self.sizes))]
        order = sorted(range(len(self.sizes)), key=lambda group: group in moved_last)
        return rules[:first] + [rule for g in order for rule in rules[starts[g] : starts[g] + self.sizes[g]]]

    def late_rule(self) -> Any:
        """The rule of the resolution for names that were not known before."""
        rules = self._batch("Resolution").rules()
        (found,) = [
            rule
            for rule in (rules.apply(i) for i in range(rules.size()))
            if rule.getClass().getName().startswith("org.apache.spark.sql.catalogext.session.ResolveGivenNames$")
        ]
        return found

    def parsed(self, sql: str) -> Any:
        return self._state.sqlParser().parsePlan(sql)

    def prepared(self, sql: str, *moved_last: int) -> Any:
        """The plan that Spark begins to resolve."""
        return self._repeated(self.parsed(sql), self.rules(*moved_last))

    def _repeated(self, plan: Any, rules: Sequence[Any]) -> Any:
        """The plan after the batch: Spark repeats all rules until the plan does not change."""
        for _ in range(self.iterations):
            changed = plan
            for rule in rules:
                changed = rule.apply(changed)
            if changed.fastEquals(plan):
                return changed
            plan = changed
        raise AssertionError("the batch has no fixed point")


@pytest.fixture(scope="module")
def groups(driver: Driver) -> Iterator[Groups]:
    """Groups in a session without a service: every name in ``lake`` is one of the index."""
    with driver.connected("http://127.0.0.1:9", "none") as session:
        yield Groups(session)


@pytest.fixture
def inserting(spark_with_connector: SparkSession, recorded_service: RecordedService, tmp_path: Path) -> Groups:
    """Groups in a session whose service has the table ``sales.t``, without partitions."""
    recorded_service.add_table("t", tmp_path, {"n": "int"}, {"k": "int"})
    return Groups(spark_with_connector)


def is_marked(insert: Any) -> bool:
    """Whether an INSERT has the mark of ``MarkInserts``, which gives it Hive's meaning."""
    assert not insert.ifPartitionNotExists()
    return bool(insert.table().options().containsKey("__catalog-ext.specification"))


def test_every_group_is_known_here(groups: Groups) -> None:
    assert len(groups.sizes) == ANSWERS + 1


def test_spark_repeats_the_rules_before_the_resolution(groups: Groups) -> None:
    assert groups.iterations > 1
    ours = [rule.getClass().getName() for rule in groups.rules()[-sum(groups.sizes) :]]
    assert all(name.startswith("org.apache.spark.sql.catalogext.") for name in ours)
    assert "ResolveGivenNames" in ours[0]


@pytest.mark.parametrize(
    ("sql", "mark"),
    [
        ("SELECT l.n FROM IDENTIFIER('lake.s.' || 't') AS l", "AliasedRelation"),
        ("ALTER TABLE IDENTIFIER('lake.s.' || 't') DROP PARTITION (ds = '2025-01-01')", "PartitionCommand"),
    ],
)
def test_other_groups_find_a_name_wherever_the_group_of_names_is(groups: Groups, sql: str, mark: str) -> None:
    assert mark in str(groups.prepared(sql).toString())
    assert mark in str(groups.prepared(sql, NAMES).toString())


@pytest.mark.parametrize(
    "moved", [NAMES, INSERTS, AD_HOC_PATHS, SESSION_CATALOG, PARTITIONS, HIDDEN_COLUMNS, VIEWS, ANSWERS]
)
def test_order_of_the_groups_is_free(groups: Groups, moved: int) -> None:
    for sql in (
        "SELECT DISTINCT l.n FROM lake.s.t AS l JOIN lake.s.u USING (ds)",
        "ALTER TABLE lake.s.t DROP PARTITION (ds = '2025-01-01')",
        "CREATE TABLE spark_catalog.s.t (x INT) USING parquet",
        "CREATE TABLE lake.s.t AS SELECT DISTINCT * FROM lake.s.u AS u NATURAL JOIN lake.s.v AS v",
    ):
        assert groups.prepared(sql, moved).toString() == groups.prepared(sql).toString()


INSERT = "INSERT OVERWRITE TABLE lake.sales.t PARTITION (k = 1) IF NOT EXISTS SELECT {}"


def test_insert_if_not_exists_is_marked(inserting: Groups) -> None:
    assert is_marked(inserting.prepared(INSERT.format("1")))


def test_insert_if_not_exists_with_a_name_known_late_is_marked(inserting: Groups) -> None:
    """Before Spark 4.3 a parameter in IDENTIFIER has no value before the resolution, not even that of the target.

    Spark 4.3 has another node for an INSERT whose target is not known, so the query has the name here.
    """
    parsed = inserting.parsed(INSERT.format("n FROM IDENTIFIER('lake.sales.' || 't')"))
    assert is_marked(inserting.late_rule().apply(parsed))
