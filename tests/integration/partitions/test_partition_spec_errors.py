"""One mistake in a PARTITION clause is one error, whatever statement it came by, and whatever the session's mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from tests.integration.lake import local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

GOLDEN = json.loads((Path(__file__).parents[2] / "contract" / "partition_specs.json").read_text(encoding="utf-8"))
CASES = {case["mistake"]: case for case in GOLDEN["specs"]}
TABLE, OTHER, VIEW = "lake.w.trips", "lake.w.others", "lake.w.v"
EVERY_KEY = (
    f"ALTER TABLE {TABLE} ADD PARTITION (%s)",
    f"ALTER TABLE {TABLE} ADD IF NOT EXISTS PARTITION (%s) LOCATION '/elsewhere'",
    f"ALTER TABLE {TABLE} PARTITION (%s) RENAME TO PARTITION (k = 7, r = 'y')",
    f"ALTER TABLE {TABLE} PARTITION (k = 7, r = 'y') RENAME TO PARTITION (%s)",
    f"ALTER TABLE {TABLE} PARTITION (%s) SET LOCATION '/elsewhere'",
    f"DESCRIBE {TABLE} PARTITION (%s)",
    "SHOW TABLE EXTENDED IN lake.w LIKE 'trips' PARTITION (%s)",
    f"ALTER VIEW {VIEW} ADD PARTITION (%s)",
    f"DESCRIBE {VIEW} PARTITION (%s)",
)
SOME_KEYS = (
    f"ALTER TABLE {TABLE} DROP PARTITION (%s)",
    f"ALTER TABLE {TABLE} DROP IF EXISTS PARTITION (%s)",
    f"ALTER TABLE {TABLE} EXCHANGE PARTITION (%s) WITH TABLE {OTHER}",
    f"TRUNCATE TABLE {TABLE} PARTITION (%s)",
    f"SHOW PARTITIONS {TABLE} PARTITION (%s)",
    f"SHOW PARTITIONS {TABLE} PARTITION (%s) LIMIT 3",
    f"SHOW PARTITIONS {TABLE} PARTITION (%s) WHERE k > 0 ORDER BY r",
    f"ANALYZE TABLE {TABLE} PARTITION (%s) COMPUTE STATISTICS",
    f"ANALYZE TABLE {TABLE} PARTITION (%s) COMPUTE STATISTICS NOSCAN",
    f"ALTER VIEW {VIEW} DROP PARTITION (%s)",
    f"SHOW PARTITIONS {VIEW} PARTITION (%s)",
)
INSERTS = (
    f"INSERT INTO {TABLE} PARTITION (%s) VALUES (1)",
    f"INSERT INTO {TABLE} PARTITION (%s) SELECT 1 WHERE false",
    f"INSERT OVERWRITE {TABLE} PARTITION (%s) SELECT 1",
)
SPARKS_TO_PARSE = ("DESCRIBE", "SHOW TABLE", "TRUNCATE", "ANALYZE", "INSERT", f"ALTER TABLE {TABLE} PARTITION")
SPARKS_TO_REFUSE = {
    "unknown": dict.fromkeys(INSERTS, "NON_PARTITION_COLUMN"),
    "doubled": {
        form: "DUPLICATE_KEY" for form in (*EVERY_KEY, *SOME_KEYS, *INSERTS) if form.startswith(SPARKS_TO_PARSE)
    },
}
"""Spark's analysis of an INSERT refuses a column that is no partition column, and its parser a key that is there twice,
unless ours takes the statement then.
"""


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with local_lake(driver, tmp_path_factory.mktemp("specs")) as lake:
        for table in (TABLE, OTHER):
            lake.sql(f"CREATE TABLE {table} (id INT, k INT, r STRING) USING parquet PARTITIONED BY (k, r)")
        lake.sql("CREATE TABLE lake.w.flat (id INT) USING parquet")
        lake.sql(f"CREATE VIEW {VIEW} PARTITIONED ON (k, r) AS SELECT id, k, r FROM {TABLE}")
        lake.sql(f"CREATE VIEW lake.w.plain AS SELECT id FROM {TABLE}")
        yield lake


def refusal(lake: Lake, statement: str) -> tuple[str, str]:
    """Return the condition and the message of the error that the statement raises."""
    with pytest.raises(AnalysisException) as caught:
        lake.rows(statement)
    return str(caught.value.getCondition()), str(caught.value)


def clause(spec: dict[str, str]) -> str:
    return ", ".join(f"{key} = '{value}'" for key, value in spec.items())


def expected(case: dict[str, Any], statement: str) -> str:
    message: str = case["message"].format(what="view w.v" if VIEW in statement else "table w.trips")
    return message


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("mistake", CASES)
def test_every_statement_says_the_same(lake: Lake, mistake: str, ansi: str) -> None:
    case = CASES[mistake]
    lake.sql(f"SET spark.sql.ansi.enabled = {ansi}")
    try:
        for form in EVERY_KEY if case.get("full") else (*EVERY_KEY, *SOME_KEYS, *INSERTS):
            statement = form % clause(case["spec"])
            condition, message = refusal(lake, statement)
            sparks = SPARKS_TO_REFUSE.get(mistake, {}).get(form)
            assert condition == (sparks or case["code"]), statement
            assert sparks or expected(case, statement) in message, statement
    finally:
        lake.sql("RESET spark.sql.ansi.enabled")
    assert lake.rows(f"SHOW PARTITIONS {TABLE}") == lake.rows(f"SHOW PARTITIONS {VIEW}") == []


def test_a_table_or_view_without_partition_columns(lake: Lake) -> None:
    golden = GOLDEN["unpartitioned"]
    for statement in (
        "ALTER TABLE lake.w.flat ADD PARTITION (k = 1)",
        "ALTER TABLE lake.w.flat DROP PARTITION (k < 1)",
        "ALTER TABLE lake.w.flat PARTITION (k = 1) RENAME TO PARTITION (k = 2)",
        "ALTER TABLE lake.w.flat PARTITION (k = 1) SET LOCATION '/elsewhere'",
        "TRUNCATE TABLE lake.w.flat PARTITION (k = 1)",
        "SHOW PARTITIONS lake.w.flat",
        "SHOW PARTITIONS lake.w.flat LIMIT 3",
        "SHOW PARTITIONS lake.w.flat WHERE k > 0",
        "SHOW PARTITIONS lake.w.flat ORDER BY k",
        "SHOW PARTITIONS lake.w.flat PARTITION (k = 1)",
        "DESCRIBE lake.w.flat PARTITION (k = 1)",
        "ANALYZE TABLE lake.w.flat PARTITION (k = 1) COMPUTE STATISTICS",
        "ALTER VIEW lake.w.plain ADD PARTITION (k = 1)",
        "ALTER VIEW lake.w.plain DROP PARTITION (k = 1)",
        "SHOW PARTITIONS lake.w.plain",
    ):
        condition, message = refusal(lake, statement)
        assert condition == golden["code"], statement
        view = "plain" in statement
        assert golden["view" if view else "table"].format(name="w.plain" if view else "w.flat") in message, statement


def test_names_go_by_the_sessions_case_rule(lake: Lake) -> None:
    lake.sql("SET spark.sql.caseSensitive = true")
    try:
        for form in (f"ALTER TABLE {TABLE} DROP PARTITION (%s)", f"SHOW PARTITIONS {TABLE} PARTITION (%s)"):
            assert refusal(lake, form % "K = 1")[0] == "CATALOG_EXT_INVALID_PARTITION_SPEC"
    finally:
        lake.sql("RESET spark.sql.caseSensitive")
    lake.sql(f"ALTER TABLE {TABLE} DROP IF EXISTS PARTITION (K = 1)")
