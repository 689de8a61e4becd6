"""Statements of Spark's own suites that tables of ours answer as Spark's file tables do, in both kinds of catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from tests.integration.both_catalogs import Place
    from tests.integration.lake import Lake

pytestmark = pytest.mark.spark

ODD = ["a b", "100%", "a%20b", "ä€", "a=b", "a#b?c", "😀", "a+b"]


@pytest.fixture
def odd(both: Lake, place: Place) -> str:
    """A table with a file in each of the partitions ``ODD``."""
    t = place.table("odd")
    both.sql(
        f"CREATE TABLE IF NOT EXISTS {t} (id INT, k STRING) USING parquet PARTITIONED BY (k)",
        f"INSERT OVERWRITE {t} SELECT pos, col FROM (SELECT posexplode(array({', '.join(repr(v) for v in ODD)})))",
    )
    return t


class TestPaths:
    def test_input_files_are_those_that_the_filters_leave(self, both: Lake, odd: str) -> None:
        table = both.spark.table(odd)
        named = sorted(row[0] for row in table.select(F.input_file_name()).distinct().collect())
        assert sorted(table.inputFiles()) == named
        assert len(named) == len(ODD)
        assert table.where("k = 'a b'").inputFiles() == [p for p in named if "k=a%20b/" in p]
        # A file that no row of the query can be in is not read.
        ((path,),) = both.rows(f"SELECT input_file_name() FROM {odd} WHERE id = 1")
        assert table.where("id = 1").select("id").inputFiles() == [path]
        joined = table.join(both.spark.table(odd).where("k = '100%'"), "id").union(table.select("id", "k", "k"))
        assert sorted(joined.inputFiles()) == named
        assert sorted(table.groupBy("id").count().cache().inputFiles()) in ([], named)
        assert joined.count() == len(ODD) + 1
        both.spark.catalog.clearCache()

    def test_paths_of_rows_join_with_those_of_the_files_table(self, both: Lake, odd: str) -> None:
        for own, files in (("`$path`", "path"), ("_metadata.file_path", "file_path")):
            joined = f"SELECT t.id FROM {odd} t JOIN {odd}.files f ON t.{own} = f.{files} ORDER BY id"
            assert both.rows(joined) == [(number,) for number in range(len(ODD))], own


class TestPartitions:
    def test_truncate_of_some_keys_that_nothing_has_does_nothing(self, both: Lake, place: Place) -> None:
        t = place.table("emptied")
        both.sql(
            f"CREATE TABLE {t} (i INT, a INT, b INT) USING parquet PARTITIONED BY (a, b)",
            f"INSERT INTO {t} VALUES (1, 1, 1)",
            f"TRUNCATE TABLE {t} PARTITION (a = 9)",
            f"TRUNCATE TABLE {t} PARTITION (b = 9)",
        )
        assert both.condition(f"TRUNCATE TABLE {t} PARTITION (a = 1, b = 9)") == "CATALOG_EXT_PARTITION_NOT_FOUND"
        assert both.rows(f"SELECT * FROM {t}") == [(1, 1, 1)]
        both.sql(f"TRUNCATE TABLE {t} PARTITION (b = 1)")
        assert both.rows(f"SELECT * FROM {t}") == []

    def test_repair_statements_of_a_table_without_keys_are_refused(self, both: Lake, place: Place) -> None:
        t = place.table("keyless")
        both.sql(f"CREATE TABLE {t} (i INT) USING parquet")
        for statement in (
            "MSCK REPAIR TABLE {}",
            "MSCK REPAIR TABLE {} SYNC PARTITIONS",
            "ALTER TABLE {} RECOVER PARTITIONS",
        ):
            error = both.error(statement.format(t))
            assert error.getCondition() == "NOT_A_PARTITIONED_TABLE"
            assert f"`w`.`{place.short('keyless')}`" in str(error)
        repair = f"CALL {place.catalog}.system.repair_partitions('w.{place.short('keyless')}')"
        assert [row[0] for row in both.rows(repair)] == ["add"]
        assert both.rows(repair) == []

    def test_delete_of_rows_says_what_to_do_instead(self, both: Lake, odd: str) -> None:
        for statement in (
            "DELETE FROM {} WHERE id = 1",
            "DELETE FROM {} WHERE id IN (SELECT 1)",
            "UPDATE {} SET id = 2",
        ):
            text = str(both.error(statement.format(odd)))
            assert "INSERT OVERWRITE ... PARTITION, or INSERT INTO ... REPLACE WHERE" in text
            assert "from a query over them" in text

    def test_skipped_paths_come_first_and_are_kept(self, both: Lake, place: Place) -> None:
        t = place.table("messy")
        repair = f"CALL {place.catalog}.system.repair_partitions(table => 'w.{place.short('messy')}', dry_run => "
        both.sql(f"CREATE TABLE {t} (i INT, k INT) USING csv PARTITIONED BY (k)")
        root = both.location(place.short("messy"))
        for path in ("k=1/x.csv", "k=2/x.csv", "stray.csv", "k=oops/x.csv"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text("1\n")
        preview = both.rows(f"{repair}true)")
        assert [row[0] for row in preview] == ["skip", "skip", "add", "add"]
        assert both.rows(f"SELECT * FROM {t}.skipped") == []
        both.sql(f"{repair}false)")
        kept = both.rows(f"SELECT partition, path, files, bytes, reason FROM {t}.skipped")
        assert kept == [row[1:] for row in preview[:2]]
        (root / "stray.csv").unlink()
        both.sql(f"{repair}false)")
        assert [str(path) for (path,) in both.rows(f"SELECT path FROM {t}.skipped")] == ["k=oops"]


class TestDefinitions:
    def test_cluster_by_is_passed_over(self, both: Lake, place: Place) -> None:
        t = place.table("clustered")
        both.sql(
            f"CREATE TABLE {t} (a INT, b INT) USING parquet CLUSTER BY (a)",
            f"INSERT INTO {t} VALUES (1, 2)",
            f"CREATE TABLE {t}_as USING parquet CLUSTER BY (x) AS SELECT 1 AS x",
            f"ALTER TABLE {t} CLUSTER BY (b)",
            f"ALTER TABLE {t} CLUSTER BY NONE",
        )
        assert both.rows(f"SELECT * FROM {t}") == [(1, 2)]
        assert "CLUSTER BY" not in str(both.rows(f"SHOW CREATE TABLE {t}"))
        error = both.error(
            f"CREATE TABLE {place.namespace}.bucketed (a INT) USING parquet CLUSTERED BY (a) INTO 2 BUCKETS"
        )
        assert "tables have no buckets" in str(error)

    def test_renamed_column_gets_the_name_that_identifier_gives(self, both: Lake, place: Place) -> None:
        t = place.table("renamed")
        both.sql(
            f"CREATE TABLE {t} (a INT, s STRUCT<f: INT>) USING parquet",
            f"INSERT INTO {t} VALUES (1, struct(2))",
            f"ALTER TABLE {t} RENAME COLUMN a TO IDENTIFIER('b')",
            f"ALTER TABLE {t} RENAME COLUMN s.f TO IDENTIFIER('g')",
        )
        both.sql(f"EXECUTE IMMEDIATE \"ALTER TABLE {t} RENAME COLUMN b TO IDENTIFIER('`c d`')\"")
        assert both.spark.table(t).schema.simpleString() == "struct<c d:int,s:struct<g:int>>"
        error = both.error(f"ALTER TABLE {t} RENAME COLUMN `c d` TO IDENTIFIER('x.y')")
        assert "the name of a column is one constant text" in str(error)

    def test_describe_shows_the_length_of_char_columns(self, both: Lake, place: Place) -> None:
        t = place.table("chars")
        both.sql(f"CREATE TABLE {t} (c CHAR(5), v VARCHAR(7) COMMENT 'x', k CHAR(2)) USING parquet PARTITIONED BY (k)")
        for column, shown in (("c", "char(5)"), ("v", "varchar(7)"), ("k", "char(2)")):
            for extended in ("", "EXTENDED "):
                assert ("data_type", shown) in both.rows(f"DESCRIBE {extended}{t} {column}")
        assert ("comment", "x") in both.rows(f"DESCRIBE EXTENDED {t} v")

    def test_listings_show_the_namespace_in_lower_case(self, both: Lake, place: Place) -> None:
        t = place.table("listed")
        both.sql(f"CREATE TABLE {t} (i INT) USING parquet")
        short, mixed = place.short("listed"), place.namespace.replace("w", "W")
        assert both.rows(f"SHOW TABLES IN {mixed} LIKE '{short}'") == [("w", short, False)]
        assert both.rows(f"SHOW TABLE EXTENDED IN {mixed} LIKE '{short}'")[0][:3] == ("w", short, False)
        assert ("w", short, False) in both.rows(f"SHOW TABLES IN {mixed}")


def test_identifier_of_a_subquery_is_refused_as_by_spark(both: Lake) -> None:
    query = "SELECT col1, IDENTIFIER((SELECT col1)) FROM VALUES (1)"
    assert both.condition(query) == "NOT_A_CONSTANT_STRING.NOT_CONSTANT"
    both.sql("DECLARE OR REPLACE VARIABLE which STRING DEFAULT 'w.first'")
    assert both.rows("SELECT count(*) FROM IDENTIFIER(which)") == [(0,)]
    both.sql("DROP TEMPORARY VARIABLE which")
