"""Collations, intervals and BINARY keys, as columns of tables of both kinds of catalog."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.model.spark_json import field_to_json
from catalog_ext.metastore.model.types import Field, parse_type
from tests.integration.both_catalogs import PLACES

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import TableDefinition
    from tests.integration.both_catalogs import Place
    from tests.integration.lake import Lake

pytestmark = pytest.mark.spark


LAKE, SESSION = PLACES


def definition(both: Lake, table: str) -> TableDefinition:
    return both.catalog.load_table(table.removeprefix("lake.")).definition


class TestCollations:
    def test_binary_collation_is_a_plain_string(self, both: Lake, place: Place) -> None:
        t = place.table("binary_strings")
        explicit = "STRING COLLATE UTF8_BINARY"
        both.sql(
            f"CREATE TABLE {t} (i INT, s {explicit}, c CHAR(3) COLLATE UTF8_BINARY, a ARRAY<{explicit}>, "
            f"st STRUCT<f: {explicit}>, m MAP<STRING, {explicit}>, k {explicit}) USING parquet PARTITIONED BY (k) "
            "DEFAULT COLLATION UTF8_BINARY",
            f"INSERT INTO {t} VALUES (1, 'x', 'y', array('z'), struct('f'), map('k', 'v'), 'p')",
            f"ALTER TABLE {t} ADD COLUMNS (more {explicit})",
            f"CREATE TABLE {t}_as USING parquet AS SELECT s COLLATE UTF8_BINARY AS s FROM {t}",
        )
        table = definition(both, t)
        assert [c.type for c in table.columns] == [
            "int", "string", "char(3)", "array<string>", "struct<f:string>", "map<string,string>", "string",
        ]  # fmt: skip
        assert both.rows(f"SELECT i, s, c, more, k FROM {t} WHERE s = 'x' AND k = 'p'") == [(1, "x", "y  ", None, "p")]
        ((statement,),) = both.rows(f"SHOW CREATE TABLE {t}")
        both.sql(f"DROP TABLE {t}", str(statement))
        assert definition(both, t).columns == table.columns

    @pytest.mark.parametrize(
        ("place", "fmt"), [(LAKE, "parquet"), (SESSION, "csv"), (LAKE, "json")], indirect=["place"], ids=str
    )
    def test_collated_columns_answer_as_their_collation_says(self, both: Lake, place: Place, fmt: str) -> None:
        t = place.table(f"folded_{fmt}")
        both.sql(
            f"CREATE TABLE {t} (s STRING COLLATE UTF8_LCASE, v VARCHAR(9) COLLATE UNICODE_CI, k INT) USING {fmt} "
            "PARTITIONED BY (k)",
            f"INSERT INTO {t} VALUES ('Abc', 'x', 1)",
            f"INSERT INTO {t} VALUES ('aBC', 'X', 2)",
            f"INSERT INTO {t} VALUES ('zz', 'y', 2)",
        )
        if fmt == "parquet":
            both.sql(f"ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS")
        assert both.rows(f"SELECT k FROM {t} WHERE s = 'ABC' ORDER BY k") == [(1,), (2,)]
        assert both.rows(f"SELECT k FROM {t} WHERE s > 'ABC'") == [(2,)]
        assert both.rows(f"SELECT k FROM {t} WHERE s LIKE 'ab%' AND v = 'x' ORDER BY k") == [(1,), (2,)]
        assert both.rows(f"SELECT count(DISTINCT s), lower(min(s)), max(s), count(s) FROM {t}") == [(2, "abc", "zz", 3)]
        assert sorted(n for _, n in both.rows(f"SELECT lower(s), count(*) FROM {t} GROUP BY s")) == [1, 2]
        assert both.rows(f"SELECT DISTINCT v FROM {t} WHERE k = 2 AND v IN ('Y')") == [("y",)]
        assert ("s", "string collate UTF8_LCASE", None) in both.rows(f"DESCRIBE {t}")

    def test_default_collation_holds_for_later_columns(self, both: Lake, place: Place) -> None:
        t = place.table("defaulted")
        both.sql(
            f"CREATE TABLE {t} (s STRING, b STRING COLLATE UTF8_BINARY, i INT) USING parquet "
            "DEFAULT COLLATION UTF8_LCASE",
            f"INSERT INTO {t} VALUES ('Abc', 'Abc', 1)",
        )
        assert both.rows(f"SELECT s = 'ABC', b = 'ABC' FROM {t}") == [(True, False)]
        ((statement,),) = both.rows(f"SHOW CREATE TABLE {t}")
        assert "DEFAULT COLLATION UTF8_LCASE" in str(statement)
        before = definition(both, t).columns
        both.sql(f"DROP TABLE {t}", str(statement))
        assert definition(both, t).columns == before
        both.sql(f"ALTER TABLE {t} ADD COLUMNS (more STRING)")
        after = definition(both, t).columns
        assert [c.type for c in after][-1] == "string collate UTF8_LCASE"
        both.sql(f"ALTER TABLE {t} DEFAULT COLLATION UTF8_BINARY", f"ALTER TABLE {t} ADD COLUMNS (plain STRING)")
        assert definition(both, t).columns[-1].type == "string"

    @pytest.mark.parametrize(
        ("clauses", "reason"),
        [
            (
                "(i INT, k STRING COLLATE UTF8_LCASE) USING parquet PARTITIONED BY (k)",
                "name the collation in the query",
            ),
            ("(s STRING COLLATE UTF8_LCASE) USING orc", "the format orc cannot be read with in Spark"),
            ("(s ARRAY<STRING COLLATE UNICODE>) USING orc", "the format orc cannot be read with in Spark"),
        ],
    )
    def test_collated_keys_and_orc_columns_are_refused(
        self, both: Lake, place: Place, clauses: str, reason: str
    ) -> None:
        assert reason in str(both.error(f"CREATE TABLE {place.namespace}.refused {clauses}"))

    def test_metastore_schema_is_the_one_that_spark_writes(self, both: Lake) -> None:
        """Spark's own reader and writer of the JSON: what a Spark without us makes of a table in the metastore."""
        jvm = both.spark._jvm
        for text in (
            "string collate UTF8_LCASE",
            "char(5) collate UNICODE_CI",
            "array<string collate de_CI>",
            "map<string,array<string collate UTF8_BINARY_RTRIM>>",
            "struct<a:string collate UNICODE,b:array<struct<c:string collate UTF8_LCASE>>>",
            "interval day to second",
            "struct<y:interval year to month,s:array<interval second>>",
        ):
            ours = {"type": "struct", "fields": [field_to_json(Field("col", parse_type(text)))]}
            theirs = jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(ours))
            utils = jvm.org.apache.spark.sql.catalyst.util.CharVarcharUtils
            assert utils.getRawSchema(theirs).apply("col").dataType().catalogString() == text
            assert json.loads(theirs.json()) == ours


class TestIntervals:
    @pytest.mark.parametrize(
        ("place", "fmt"),
        [(LAKE, "parquet"), (SESSION, "orc"), (LAKE, "csv"), (SESSION, "json")],
        indirect=["place"],
        ids=str,
    )
    def test_intervals_are_read_as_they_were_written(self, both: Lake, place: Place, fmt: str) -> None:
        t = place.table(f"spans_{fmt}")
        both.sql(
            f"CREATE TABLE {t} (i INT, ym INTERVAL YEAR TO MONTH, y INTERVAL YEAR, dt INTERVAL DAY TO SECOND, "
            f"d INTERVAL DAY, k INT) USING {fmt} PARTITIONED BY (k)",
            f"INSERT INTO {t} VALUES (1, INTERVAL '1-2' YEAR TO MONTH, INTERVAL '3' YEAR, "
            "INTERVAL '1 02:03:04.5' DAY TO SECOND, INTERVAL '-2' DAY, 1), (2, NULL, NULL, NULL, NULL, 1)",
            f"INSERT INTO {t} VALUES (3, INTERVAL '9-2' YEAR TO MONTH, NULL, INTERVAL '5 00:00:00' DAY TO SECOND, "
            "INTERVAL '7' DAY, 2)",
        )
        if fmt in ("parquet", "orc"):
            both.sql(f"ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS")
        texts = ", ".join(f"CAST({c} AS STRING)" for c in ("ym", "y", "dt", "d"))
        assert both.rows(f"SELECT {texts} FROM {t} WHERE i = 1") == [
            (
                "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '3' YEAR", "INTERVAL '1 02:03:04.5' DAY TO SECOND",
                "INTERVAL '-2' DAY",
            )
        ]  # fmt: skip
        assert both.rows(f"SELECT i FROM {t} WHERE d > INTERVAL '0' DAY") == [(3,)]
        assert both.rows(f"SELECT i FROM {t} WHERE ym <= INTERVAL '14' MONTH") == [(1,)]
        assert both.rows(f"SELECT i FROM {t} WHERE ym IS NULL") == [(2,)]
        assert both.rows(f"SELECT count(d), CAST(max(d) AS STRING), k FROM {t} GROUP BY k ORDER BY k") == [
            (1, "INTERVAL '-2' DAY", 1), (1, "INTERVAL '7' DAY", 2),
        ]  # fmt: skip
        ((statement,),) = both.rows(f"SHOW CREATE TABLE {t}")
        both.sql(f"DROP TABLE {t}", str(statement))
        assert ("dt", "interval day to second", None) in both.rows(f"DESCRIBE {t}")

    def test_create_table_as_a_difference_of_dates(self, both: Lake, place: Place) -> None:
        t = place.table("difference")
        both.sql(f"CREATE TABLE {t} USING parquet AS SELECT date'2024-01-03' - date'2024-01-01' AS d")
        assert both.rows(f"SELECT CAST(d AS STRING) FROM {t}") == [("INTERVAL '2' DAY",)]
        both.sql(f"ALTER TABLE {t} ADD COLUMNS (a ARRAY<INTERVAL MONTH>)")
        assert both.rows(f"SELECT a FROM {t}") == [(None,)]

    def test_interval_keys_are_refused(self, both: Lake, place: Place) -> None:
        error = both.error(f"CREATE TABLE {place.namespace}.k (i INT, d INTERVAL DAY) USING parquet PARTITIONED BY (d)")
        assert error.getCondition() == "CATALOG_EXT_INVALID_TYPE"
        assert "cannot be INTERVAL DAY" in str(error)


class TestBinaryKeys:
    def test_binary_keys_are_the_text_of_their_bytes(self, both: Lake, place: Place) -> None:
        t = place.table("bytes")
        both.sql(
            f"CREATE TABLE {t} (i INT, b BINARY) USING parquet PARTITIONED BY (b)",
            f"INSERT INTO {t} VALUES (1, X'4142'), (2, CAST('ä b=%' AS BINARY)), (3, NULL), (4, X'')",
            f"INSERT INTO {t} PARTITION (b = X'4344') VALUES (5)",
            f"CREATE TABLE {t}_as USING parquet PARTITIONED BY (b) AS SELECT i, b FROM {t}",
        )
        for each in (t, f"{t}_as"):
            assert both.rows(f"SELECT i, hex(b) FROM {each} ORDER BY i") == [
                (1, "4142"), (2, "C3A420623D25"), (3, None), (4, None), (5, "4344"),
            ]  # fmt: skip
        shown = [str(row[0]) for row in both.rows(f"SHOW PARTITIONS {t}")]
        assert shown == ["b=__HIVE_DEFAULT_PARTITION__", "b=AB", "b=CD", "b=ä b%3D%25"]
        for condition, found in (
            ("b = X'4142'", [1]),
            ("b > X'4142'", [2, 5]),
            ("b IN (X'4344', X'00')", [5]),
            ("b IS NULL", [3, 4]),
            ("b = X'FF'", []),
            ("b <> X'FF'", [1, 2, 5]),
            ("b < X'FF'", [1, 2, 5]),
            ("hex(b) LIKE '41%'", [1]),
        ):
            query = f"SELECT i FROM {t} WHERE {condition}"
            assert [i for (i,) in both.rows(f"{query} ORDER BY i")] == found, condition
        assert "Files: 1 of 5, Partitions: 1 of 4" in str(both.rows(f"EXPLAIN SELECT i FROM {t} WHERE b = X'4142'"))
        assert both.rows(f"SELECT hex(b), count(*) FROM {t} WHERE b > X'41' GROUP BY b ORDER BY b LIMIT 1") == [
            ("4142", 1)
        ]
        assert both.rows(f"SELECT hex(values.b) FROM {t}.partitions WHERE b = X'4142'") == [("4142",)]
        both.sql(
            f"ALTER TABLE {t} DROP PARTITION (b = X'4344')",
            f"ALTER TABLE {t} ADD PARTITION (b = X'45')",
            f"DELETE FROM {t} WHERE b = X'4142'",
            f"INSERT OVERWRITE {t} PARTITION (b = X'46') VALUES (6)",
        )
        assert [str(row[0]) for row in both.rows(f"SHOW PARTITIONS {t}")] == [
            "b=__HIVE_DEFAULT_PARTITION__", "b=E", "b=F", "b=ä b%3D%25",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "statement",
        ["INSERT INTO {t} VALUES (1, X'FF00')", "INSERT INTO {t} PARTITION (b = X'FF') VALUES (1)",
         "ALTER TABLE {t} ADD PARTITION (b = X'FF')"],
    )  # fmt: skip
    def test_bytes_that_are_no_text_are_refused(self, both: Lake, place: Place, statement: str) -> None:
        t = place.table("no_text")
        both.sql(f"CREATE TABLE IF NOT EXISTS {t} (i INT, b BINARY) USING parquet PARTITIONED BY (b)")
        error = both.error(statement.format(t=t))
        assert error.getCondition() == "CATALOG_EXT_INVALID_VALUE", str(error)
        assert both.rows(f"SHOW PARTITIONS {t}") == []
