"""One statement of each kind in one session, each with its answer: what `make check` has of Spark."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pytest
from pyspark.errors import PySparkException

from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.views.views import ViewRequest
from tests.integration.lake import external, local_lake
from tests.kit.sparks import SPARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Has:
    """An answer in which each of these texts is."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Fails:
    """An error with this condition."""

    condition: str


DONE: list[tuple[object, ...]] = []
"""The answer of a statement that has no rows."""

Answer: TypeAlias = "Sequence[tuple[object, ...]] | Has | Fails"
Story: TypeAlias = "tuple[tuple[str, Answer], ...]"

T = "CREATE TABLE {s}.t (id INT, v STRING, ds DATE, region STRING) USING parquet PARTITIONED BY (ds, region)"

DATABASES: Story = (
    ("CREATE DATABASE {s}_two COMMENT 'ours' WITH DBPROPERTIES ('team' = 'a')", DONE),
    ("CREATE DATABASE {s}_two", Fails("SCHEMA_ALREADY_EXISTS")),
    ("ALTER DATABASE {s}_two SET DBPROPERTIES ('team' = 'b')", DONE),
    ("DESCRIBE DATABASE EXTENDED {s}_two", Has(("ours", "(team,b)"))),
    ("SHOW CREATE DATABASE {s}_two", Has(("COMMENT 'ours'",))),
    ("SHOW DATABASES IN lake LIKE '*_two'", [("databases_two",)]),
    ("DROP DATABASE {s}_two", DONE),
    ("DROP DATABASE {s}_two", Fails("SCHEMA_NOT_FOUND")),
)
TABLES: Story = (
    (T, DONE),
    (T, Fails("TABLE_OR_VIEW_ALREADY_EXISTS")),
    ("ALTER TABLE {s}.t ADD COLUMNS (note STRING AFTER id)", DONE),
    ("ALTER TABLE {s}.t ALTER COLUMN id TYPE BIGINT", DONE),
    ("ALTER TABLE {s}.t RENAME COLUMN note TO remark", DONE),
    ("SHOW COLUMNS IN {s}.t", [("id",), ("remark",), ("v",), ("ds",), ("region",)]),
    ("ALTER TABLE {s}.t DROP COLUMN remark", DONE),
    ("ALTER TABLE {s}.t SET TBLPROPERTIES ('k' = 'w')", DONE),
    ("SHOW TBLPROPERTIES {s}.t ('k')", [("k", "w")]),
    ("COMMENT ON TABLE {s}.t IS 'trips'", DONE),
    ("DESCRIBE EXTENDED {s}.t", Has(("bigint", "trips", "k=w"))),
    ("SHOW CREATE TABLE {s}.t", Has(("id BIGINT", "PARTITIONED BY (ds, region)", "COMMENT 'trips'"))),
    ("CREATE TABLE {s}.u LIKE {s}.t", DONE),
    ("ALTER TABLE {s}.u RENAME TO {s}.x", DONE),
    ("SHOW TABLES IN {s}", [("tables", "t", False), ("tables", "x", False)]),
    ("DROP TABLE {s}.x PURGE", DONE),
    ("SELECT * FROM {s}.x", Fails("TABLE_OR_VIEW_NOT_FOUND")),
)
WRITES: Story = (
    (T, DONE),
    ("INSERT INTO {s}.t VALUES (1, 'a', DATE '2025-01-01', 'eu'), (2, 'b', DATE '2025-01-02', NULL)", DONE),
    ("INSERT INTO {s}.t PARTITION (ds = '2025-01-03', region) SELECT 3, 'c', 'us'", DONE),
    (
        "SELECT id, v, CAST(ds AS STRING), region FROM {s}.t ORDER BY id",
        [(1, "a", "2025-01-01", "eu"), (2, "b", "2025-01-02", None), (3, "c", "2025-01-03", "us")],
    ),
    ("EXPLAIN SELECT * FROM {s}.t WHERE ds = '2025-01-03'", Has(("Partitions: 1 of 3", "Files: 1 of 3"))),
    ("INSERT OVERWRITE {s}.t PARTITION (ds = '2025-01-01', region = 'eu') VALUES (10, 'x')", DONE),
    ("SELECT id FROM {s}.t ORDER BY id", [(2,), (3,), (10,)]),
    ("DELETE FROM {s}.t WHERE region IS NULL", DONE),
    ("SHOW PARTITIONS {s}.t", [("ds=2025-01-01/region=eu",), ("ds=2025-01-03/region=us",)]),
    ("TRUNCATE TABLE {s}.t PARTITION (ds = '2025-01-03')", DONE),
    ("SELECT count(*) FROM {s}.t", [(1,)]),
    ("CREATE TABLE {s}.copied USING orc PARTITIONED BY (region) AS SELECT id, region FROM {s}.t", DONE),
    ("SELECT id, region FROM {s}.copied", [(10, "eu")]),
    ("CREATE OR REPLACE TABLE {s}.copied USING csv AS SELECT 5 AS n", DONE),
    ("SELECT * FROM {s}.copied", [(5,)]),
    ("ANALYZE TABLE {s}.t COMPUTE STATISTICS FOR COLUMNS id", DONE),
    ("DESCRIBE EXTENDED {s}.t id", Has(("('min', '10')", "('max', '10')"))),
    ("UPDATE {s}.t SET id = 1", Fails("CATALOG_EXT_NOT_SUPPORTED")),
)
PARTITIONS: Story = (
    (T, DONE),
    (
        "ALTER TABLE {s}.t ADD PARTITION (ds = '2025-01-01', region = 'eu') "
        "PARTITION (ds = '2025-01-02', region = 'eu')",
        DONE,
    ),
    (
        "ALTER TABLE {s}.t ADD PARTITION (ds = '2025-01-01', region = 'eu')",
        Fails("CATALOG_EXT_PARTITION_ALREADY_EXISTS"),
    ),
    ("ALTER TABLE {s}.t ADD IF NOT EXISTS PARTITION (ds = '2025-01-01', region = 'eu')", DONE),
    ("ALTER TABLE {s}.t ADD PARTITION (ds = 'noday', region = 'eu')", Fails("CATALOG_EXT_INVALID_VALUE")),
    (
        "ALTER TABLE {s}.t PARTITION (ds = '2025-01-02', region = 'eu') "
        "RENAME TO PARTITION (ds = '2025-01-02', region = 'us')",
        DONE,
    ),
    ("SHOW PARTITIONS {s}.t WHERE region = 'us' ORDER BY ds DESC LIMIT 10", [("ds=2025-01-02/region=us",)]),
    ("DESCRIBE EXTENDED {s}.t PARTITION (ds = '2025-01-02', region = 'us')", Has(("region=us",))),
    (
        "SHOW TABLE EXTENDED IN {s} LIKE 't' PARTITION (ds = '2025-01-02', region = 'us')",
        Has(("Partition Values: [ds=2025-01-02, region=us]",)),
    ),
    ("ALTER TABLE {s}.t PARTITION (ds = '2025-01-01', region = 'eu') SET LOCATION '{folder}/elsewhere'", DONE),
    ("CREATE TABLE {s}.staged LIKE {s}.t", DONE),
    ("INSERT INTO {s}.staged VALUES (1, 'a', DATE '2025-01-04', 'eu')", DONE),
    ("ALTER TABLE {s}.t EXCHANGE PARTITION (ds = '2025-01-04') WITH TABLE {s}.staged", DONE),
    ("SELECT id, region FROM {s}.t", [(1, "eu")]),
    ("ALTER TABLE {s}.t DROP PARTITION (ds < '2025-01-03')", DONE),
    ("ALTER TABLE {s}.t DROP PARTITION (ds < '2025-01-03')", Fails("CATALOG_EXT_PARTITION_NOT_FOUND")),
    ("ALTER TABLE {s}.t DROP IF EXISTS PARTITION (ds < '2025-01-03')", DONE),
    ("SHOW PARTITIONS {s}.t", [("ds=2025-01-04/region=eu",)]),
    # It finds the directory that SET LOCATION left empty.
    ("MSCK REPAIR TABLE {s}.t SYNC PARTITIONS", Has(("add", "ds=2025-01-01/region=eu", "new on the store"))),
    ("SHOW PARTITIONS {s}.t", [("ds=2025-01-01/region=eu",), ("ds=2025-01-04/region=eu",)]),
)
VIEWS: Story = (
    (T, DONE),
    ("INSERT INTO {s}.t VALUES (1, 'a', DATE '2025-01-01', 'eu'), (2, 'b', DATE '2025-01-02', 'eu')", DONE),
    ("CREATE VIEW {s}.daily (number, ds) PARTITIONED ON (ds) AS SELECT id, ds FROM {s}.t", DONE),
    ("CREATE VIEW {s}.t AS SELECT 1", Fails("TABLE_OR_VIEW_ALREADY_EXISTS")),
    ("ALTER VIEW {s}.daily ADD PARTITION (ds = '2025-01-01') PARTITION (ds = '2025-01-02')", DONE),
    ("SHOW PARTITIONS {s}.daily", [("ds=2025-01-01",), ("ds=2025-01-02",)]),
    ("SELECT number FROM {s}.daily WHERE ds = '2025-01-02'", [(2,)]),
    ("ALTER VIEW {s}.daily DROP PARTITION (ds = '2025-01-02')", DONE),
    ("CALL lake.system.view_dependencies(view => 'views.daily')", Has(("2025-01-01/region=eu",))),
    ("SHOW VIEWS IN {s}", [("views", "daily", False)]),
    ("ALTER VIEW {s}.daily SET TBLPROPERTIES ('team' = 'ada')", DONE),
    ("DESCRIBE EXTENDED {s}.daily", Has(("team=ada",))),
    ("ALTER VIEW {s}.daily AS SELECT id + 1 AS number, ds FROM {s}.t", DONE),
    ("SHOW CREATE TABLE {s}.daily", Has(("PARTITIONED ON (ds)", "id + 1"))),
    ("DROP VIEW {s}.daily", DONE),
    (
        "CREATE VIEW {s}.whole PARTITIONED ON (ds) TBLPROPERTIES ('partition.auto' = 'true', "
        "'partition.auto.requires' = 'region=eu') AS SELECT id, region, ds FROM {s}.t",
        DONE,
    ),
    ("CALL lake.system.refresh_view_partitions(view => 'views.whole')", [("ds=2025-01-01",), ("ds=2025-01-02",)]),
)
PROCEDURES: Story = (
    ("SHOW PROCEDURES IN lake", Has(("repair_partitions", "vacuum"))),
    (T, DONE),
    ("INSERT INTO {s}.t VALUES (1, 'a', DATE '2025-01-01', 'eu'), (2, 'b', DATE '2025-01-02', 'eu')", DONE),
    ("CALL lake.system.unregister_table(table => 'procedures.t')", [("procedures.t",)]),
    (
        "CALL lake.system.register_table(table => 'procedures.t', location => '{folder}/warehouse/procedures.db/t', "
        "partition_columns => map('ds', 'date', 'region', 'string'))",
        Has(("procedures.t", "parquet", "ds DATE, region STRING")),
    ),
    ("CALL lake.system.repair_partitions(table => 'procedures.t', dry_run => true)", Has(("ds=2025-01-01/region=eu",))),
    ("CALL lake.system.repair_partitions('procedures.t')", Has(("add", "ds=2025-01-02/region=eu"))),
    ("CALL lake.system.drop_partitions(table => 'procedures.t', where => \"ds < '2025-01-02'\")", Has(("drop",))),
    (
        "CALL lake.system.expire_partitions(table => 'procedures.t', retention => '30d', dry_run => true)",
        Has(("drop",)),
    ),
    (
        "CALL lake.system.set_partition_columns(table => 'procedures.t', mode => 'declared')",
        [("procedures.t", "ds DATE, region STRING", "declared")],
    ),
    ("CALL lake.system.recover()", DONE),
    ("CALL lake.system.vacuum(table => 'procedures.t', retention => '0s', dry_run => true)", Has(())),
    ("CALL lake.system.status()", DONE),
    ("CALL lake.system.outbox()", []),
    ("CALL lake.system.outbox(action => 'skip')", Fails("CATALOG_EXT_INVALID_INPUT")),
    ("CALL lake.system.nothing()", Fails("CATALOG_EXT_PROCEDURE_NOT_FOUND")),
)
METADATA: Story = (
    (T, DONE),
    ("INSERT INTO {s}.t VALUES (1, 'a', DATE '2025-01-01', 'eu'), (2, 'b', DATE '2025-01-02', 'eu')", DONE),
    ("SELECT partition, rows FROM {s}.t.partitions WHERE ds = '2025-01-02'", [("ds=2025-01-02/region=eu", 1)]),
    ("SELECT partition, statistics['id'].max FROM {s}.t.files ORDER BY partition", Has(("1", "2"))),
    ("SELECT version, operation FROM {s}.t.history ORDER BY version", Has(("INSERT",))),
    ("SELECT state FROM {s}.t.transactions", [("finished",)]),
    ("SELECT count(*) FROM {s}.t.repairs", [(0,)]),
    ("SELECT id, `$partition` FROM {s}.t WHERE `$partition` LIKE '%01/%'", [(1, "ds=2025-01-01/region=eu")]),
    ("SELECT count(DISTINCT _metadata.file_path), count(DISTINCT `$path`) FROM {s}.t", [(2, 2)]),
    ("INSERT INTO {s}.t.files VALUES (1)", Fails("CATALOG_EXT_NOT_SUPPORTED")),
)
PATHS: Story = (
    (T, DONE),
    ("INSERT INTO {s}.t VALUES (1, 'a', DATE '2025-01-01', 'eu'), (2, 'b', DATE '2025-01-02', 'us')", DONE),
    ("SELECT id, ds, region FROM lake.`{folder}/warehouse/paths.db/t/*/region=us`", [(2, "2025-01-02", "us")]),
    (
        "SELECT id, region FROM lake.files('{folder}/warehouse/paths.db/t', format => 'parquet') "
        "WHERE ds = '2025-01-01'",
        [(1, "eu")],
    ),
    ("SELECT * FROM lake.`{folder}/nothing`", Fails("CATALOG_EXT_PATH_NOT_FOUND")),
    ("INSERT INTO lake.`{folder}/warehouse/paths.db/t` VALUES (1)", Fails("CATALOG_EXT_READ_ONLY_PATH")),
)
SESSION: Story = (
    (T, DONE),
    ("USE {s}", DONE),
    ("SELECT current_catalog(), current_database()", [("lake", "session")]),
    ("INSERT INTO t VALUES (1, 'a', DATE '2025-01-01', 'eu')", DONE),
    ("SET hive.mapred.mode = strict", [("hive.mapred.mode", "strict")]),
    ("SELECT * FROM t", Fails("CATALOG_EXT_PARTITION_PREDICATE_REQUIRED")),
    ("SELECT id FROM t WHERE region = 'eu'", [(1,)]),
    ("RESET hive.mapred.mode", DONE),
    ("SELECT id FROM t", [(1,)]),
    ("CACHE TABLE t", DONE),
    ("SELECT count(*) FROM t", [(1,)]),
    ("UNCACHE TABLE t", DONE),
    *((("SHOW VIEWS", Fails("CATALOG_EXT_NEWER_SPARK_NEEDED")),) if SPARK < (4, 2) else ()),
    # Of a session, whatever its catalog is.
    ("CREATE TEMPORARY VIEW mine AS SELECT id FROM t", DONE),
    ("ALTER VIEW mine AS SELECT id + 1 AS id FROM t", DONE),
    ("SELECT id FROM mine", [(2,)]),
    ("DROP VIEW mine", DONE),
    ("SELEC 1", Fails("PARSE_SYNTAX_ERROR")),
    ("USE spark_catalog.default", DONE),
)
VIEWS_BEFORE_SPARK_4_2: Story = (
    (T, DONE),
    *(
        (statement, Fails("CATALOG_EXT_NEWER_SPARK_NEEDED"))
        for statement, _ in VIEWS
        if re.match(r"CREATE VIEW|ALTER VIEW \S+ (SET|AS)|DROP VIEW|SHOW VIEWS", statement)
    ),
    ("SHOW CREATE TABLE {s}.t", Has(("CREATE TABLE",))),
    ("ALTER VIEW {s}.daily WITH SCHEMA EVOLUTION", Fails("CATALOG_EXT_NEWER_SPARK_NEEDED")),
    ("ALTER VIEW {s}.daily ADD PARTITION (ds = '2025-01-01')", Fails("VIEW_NOT_FOUND")),
)
STORIES = {
    "databases": DATABASES, "tables": TABLES, "writes": WRITES, "partitions": PARTITIONS,
    "views": VIEWS if SPARK >= (4, 2) else VIEWS_BEFORE_SPARK_4_2,
    "procedures": PROCEDURES, "metadata": METADATA, "paths": PATHS, "session": SESSION,
}  # fmt: skip

VARIANT_OF_SPARK_4_3 = (
    "UEFSMRUAFRQVGBXFh67+CxwVAhUAFQYVCAAACiQCAAAAAwEBAAAAFQAVHhUiFYHC0Y0IHBUCFQAVBhUIAAAPOAIAAAADAQUAAAABAQABYRUA"
    "FQ4VEhX4mZ54HBUCFQAVBhUIAAAHGAMAAAADAQAVABUOFRIV/tb0ygUcFQIVABUGFQgAAAcYAwAAAAMCABUAFR4VIhXCvKWmBBwVAhUAFQYV"
    "CAAADzgDAAAAAwMAAQAAAAAAAAAZEQIZGAQBAAAAGRgEAQAAABUCGRYAABkRAhkYBQEBAAFhGRgFAQEAAWEVAhkWAAAZEQEZGAAZGAAVAhkW"
    "Aik2AAIAABkRARkYABkYABUCGRYCKUYAAAIAABkRAhkYCAEAAAAAAAAAGRgIAQAAAAAAAAAVAhkWAClGAAAAAgAZHBYIFUYWAAAAGRwWThVQ"
    "FgAAGRYKABkcFp4BFT4WAAAZFgAAGRwW3AEVQBYAABkWAAAZHBacAhVQFgAAABUCGZxIDHNwYXJrX3NjaGVtYRUEABUCJQIYAmlkADUCGAF2"
    "FQZcDCATAQAAABUMJQAYCG1ldGFkYXRhABUMJQIYBXZhbHVlADUCGAt0eXBlZF92YWx1ZRUCADUAGAFhFQQAFQwlAhgFdmFsdWUAFQQlAhgL"
    "dHlwZWRfdmFsdWUAFgIZHBlcJgAcFQIZNQgABhkYAmlkFQIWAhZCFkYmCDwYBAEAAAAYBAEAAAAWACgEAQAAABgEAQAAAAAZHBUAFQAVAgA8"
    "AAAW6AQVFBbsAhUuACYAHBUMGTUIAAYZKAF2CG1ldGFkYXRhFQIWAhZMFlAmTjwYBQEBAAFhGAUBAQABYRYAKAUBAQABYRgFAQEAAWEAGRwV"
    "ABUAFQIAPBYKAAAW/AQVGhaaAxUyACYAHBUMGTUIAAYZKAF2BXZhbHVlFQIWAhY6Fj4mngE8NgIAGRwVABUAFQIAPBYAKTYAAgAAABaWBRUc"
    "FswDFSgAJgAcFQwZNQgABhlIAXYLdHlwZWRfdmFsdWUBYQV2YWx1ZRUCFgIWPBZAJtwBPDYCABkcFQAVABUCADwWAClGAAACAAAAFrIFFRwW"
    "9AMVKgAmABwVBBk1CAAGGUgBdgt0eXBlZF92YWx1ZQFhC3R5cGVkX3ZhbHVlFQIWAhZMFlAmnAI8GAgBAAAAAAAAABgIAQAAAAAAAAAWACgI"
    "AQAAAAAAAAAYCAEAAAAAAAAAABkcFQAVABUCADw5RgAAAAIAABbOBRUWFp4EFUoAFtACFgImCBbkAhQAABksGBhvcmcuYXBhY2hlLnNwYXJr"
    "LnZlcnNpb24YBTQuMy4wABgpb3JnLmFwYWNoZS5zcGFyay5zcWwucGFycXVldC5yb3cubWV0YWRhdGEYlQF7InR5cGUiOiJzdHJ1Y3QiLCJm"
    "aWVsZHMiOlt7Im5hbWUiOiJpZCIsInR5cGUiOiJpbnRlZ2VyIiwibnVsbGFibGUiOnRydWUsIm1ldGFkYXRhIjp7fX0seyJuYW1lIjoidiIs"
    "InR5cGUiOiJ2YXJpYW50IiwibnVsbGFibGUiOnRydWUsIm1ldGFkYXRhIjp7fX1dfQAYSnBhcnF1ZXQtbXIgdmVyc2lvbiAxLjE3LjAgKGJ1"
    "aWxkIGZhYzBjNzQ2NTMyZTEzM2JlYjkyOGE3ZjZhN2U1N2I1MTBiNDc3YTEpGVwcAAAcAAAcAAAcAAAcAAAAjAMAAFBBUjE="
)
"""A Parquet file of id 1 and `parse_json('{"a":1}')`, as Spark 4.3 writes it."""


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("smoke")
    (folder / "elsewhere").mkdir()
    with local_lake(driver, folder) as lake:
        yield lake


@pytest.mark.parametrize("name", STORIES)
def test_each_statement_has_its_answer(lake: Lake, name: str) -> None:
    lake.spark.sql(f"CREATE DATABASE lake.{name}")
    for statement, expected in STORIES[name]:
        _check(lake, statement.format(s=f"lake.{name}", folder=lake.folder), expected)


def _check(lake: Lake, statement: str, expected: Answer) -> None:
    if isinstance(expected, Fails):
        with pytest.raises(PySparkException) as caught:
            lake.spark.sql(statement).collect()
        assert caught.value.getCondition() == expected.condition, statement
    elif isinstance(expected, Has):
        shown = str([tuple(row) for row in lake.spark.sql(statement).collect()])
        assert [text for text in expected.texts if text not in shown] == [], f"{statement} answers {shown}"
    else:
        assert [tuple(row) for row in lake.spark.sql(statement).collect()] == list(expected), statement


def test_table_with_a_type_of_a_newer_spark_is_named_and_can_be_dropped(lake: Lake) -> None:
    table = external(lake, "clock", {"ds": "STRING"}, "id INT, at TIME")
    # Spark has TIME behind a switch, from the release on that has it.
    lake.spark.conf.set("spark.sql.timeType.enabled", "true")
    if SPARK < (4, 1):
        error = lake.error(f"SELECT id FROM {table}")
        assert error.getCondition() == "CATALOG_EXT_NEWER_SPARK_NEEDED"
        assert "no type TIME(6) (column 'at' of w.clock); Spark 4.1 has" in str(error)
    else:
        assert lake.rows(f"SELECT id FROM {table}") == []
    lake.spark.conf.unset("spark.sql.timeType.enabled")
    assert ("w", "clock", False) in lake.rows("SHOW TABLES IN lake.w")
    lake.sql(f"DROP TABLE {table}")
    assert ("w", "clock", False) not in lake.rows("SHOW TABLES IN lake.w")


def test_a_file_that_only_a_newer_sparks_parquet_can_read_is_no_broken_one(lake: Lake) -> None:
    table = external(lake, "variants", {"ds": "STRING"}, "id INT, v VARIANT")
    folder = lake.location("variants") / "ds=a"
    folder.mkdir()
    (folder / "part-0.parquet").write_bytes(base64.b64decode(VARIANT_OF_SPARK_4_3))
    lake.sql(f"MSCK REPAIR TABLE {table}")
    if SPARK < (4, 1):
        error = lake.error(f"SELECT id FROM {table}")
        assert error.getCondition() == "CATALOG_EXT_NEWER_SPARK_NEEDED"
        assert "variants/ds=a/part-0.parquet of partition 'ds=a' of table lake.w.variants" in str(error)
        assert "delete" not in str(error)
    else:
        assert lake.rows(f"SELECT id, to_json(v) FROM {table}") == [(1, '{"a":1}')]


def test_a_view_is_not_shown_as_a_table(lake: Lake) -> None:
    table = external(lake, "viewed", {"ds": "STRING"})
    lake.catalog.views.create(
        ViewRequest(
            TableIdentifier.of("w", "seen"),
            ViewQuery(f"SELECT id FROM {table}", "lake", ("w",)),
            (Column("id", "int"),),
        )
    )
    shown = "SHOW CREATE TABLE lake.w.seen"
    if SPARK < (4, 2):
        assert lake.condition(shown) == "CATALOG_EXT_NEWER_SPARK_NEEDED"
    else:
        assert "CREATE VIEW lake.w.seen" in lake.rows(shown)[0][0]


def test_a_call_takes_parameters_and_expressions(lake: Lake) -> None:
    external(lake, "called", {"ds": "STRING"})
    call = "CALL lake.system.repair_partitions"
    assert lake.spark.sql(f"{call}(table => :t)", {"t": "w.called"}).collect() == []
    assert lake.spark.sql(f"{call}(?, dry_run => true)", ["w.called"]).collect() == []
    assert lake.rows(f"{call}(concat('w', '.called'))") == []
