"""DDL of tables and databases in SQL, on a real service: what CREATE and ALTER say, and how files read afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

import catalog_ext
from catalog_ext import session as sessions
from tests.integration.spark_sessions import fresh_session, small_builder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Lake:
    spark: SparkSession
    catalog: Catalog
    folder: Path

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.spark.sql(query).collect()]

    def refused(self, statement: str) -> tuple[str | None, str]:
        """The condition and the text of the error that the statement gets."""
        with pytest.raises(PySparkException) as caught:
            self.spark.sql(statement).collect()
        assert isinstance(caught.value, AnalysisException), caught.value
        return caught.value.getCondition(), str(caught.value)

    def columns(self, table: str) -> list[tuple[object, ...]]:
        """Names, types and comments as DESCRIBE has them, without the sections after the columns."""
        found = self.rows(f"DESCRIBE lake.s.{table}")
        ends = [i for i, row in enumerate(found) if str(row[0]).startswith("#")]
        return found[: ends[0]] if ends else found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("table-ddl")
    builder = catalog_ext.configure(
        small_builder(), catalog="lake", warehouse=str(folder / "warehouse"), index=str(folder / "i.db"), metastore=None
    )
    with fresh_session(builder) as spark:
        spark.sql("CREATE DATABASE lake.s")
        yield Lake(spark, sessions.active_catalog("lake.s.t"), folder)
    sessions.stop("lake")


class TestAlter:
    @pytest.mark.parametrize("file_format", ["parquet", "orc", "json"])
    def test_old_files_are_read_by_the_names_of_the_columns(self, lake: Lake, file_format: str) -> None:
        t = f"lake.s.evolved_{file_format}"
        lake.sql(
            f"CREATE TABLE {t} (i INT, f FLOAT, n STRUCT<a: INT, b: STRING>, c CHAR(3), gone INT, ds DATE) "
            f"USING {file_format} PARTITIONED BY (ds)",
            f"INSERT INTO {t} VALUES (1, 1.5, struct(7, 'x'), 'abc', 0, DATE'2024-01-01')",
            f"ALTER TABLE {t} ADD COLUMNS (note STRING COMMENT 'new' AFTER i, k INT DEFAULT 40 + 2)",
            f"ALTER TABLE {t} ADD COLUMN n.d DOUBLE FIRST",
            f"ALTER TABLE {t} ALTER COLUMN i TYPE BIGINT",
            f"ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE",
            f"ALTER TABLE {t} ALTER COLUMN c TYPE STRING",
            f"ALTER TABLE {t} ALTER COLUMN n.a TYPE BIGINT",
            f"ALTER TABLE {t} DROP COLUMN gone",
            f"ALTER TABLE {t} RENAME COLUMN n.b TO renamed",
            f"ALTER TABLE {t} ALTER COLUMN note COMMENT 'newer', k FIRST",
            f"INSERT INTO {t} (i, f, n, c, ds) "
            "VALUES (5000000000, 2.5, struct(0.5, 8000000000, 'y'), 'long text', DATE'2024-01-02')",
        )
        assert lake.rows(f"SELECT * FROM {t} ORDER BY ds") == [
            (42, 1, None, 1.5, (None, 7, None), "abc", *lake.rows("SELECT DATE'2024-01-01'")[0]),
            (42, 5000000000, None, 2.5, (0.5, 8000000000, "y"), "long text", *lake.rows("SELECT DATE'2024-01-02'")[0]),
        ]
        assert lake.rows(f"SELECT i FROM {t} WHERE k = 42 AND i < 3 AND f > 1") == [(1,)]
        assert lake.rows(f"SELECT count(*), max(k), min(i) FROM {t}") == [(2, 42, 1)]
        lake.sql(f"ALTER TABLE {t} ALTER COLUMN k SET DEFAULT 7", f"INSERT INTO {t} (ds) VALUES (DATE'2024-01-03')")
        assert lake.rows(f"SELECT k FROM {t} ORDER BY ds") == [(42,), (42,), (7,)]
        lake.sql(f"ALTER TABLE {t} ALTER COLUMN k DROP DEFAULT", f"INSERT INTO {t} (ds) VALUES (DATE'2024-01-04')")
        assert lake.rows(f"SELECT k FROM {t} ORDER BY ds") == [(42,), (42,), (7,), (None,)]
        assert lake.columns(f"evolved_{file_format}")[2] == ("note", "string", "newer")

    @pytest.mark.parametrize("file_format", ["parquet", "orc", "json", "csv"])
    def test_every_type_that_widens_is_read_from_old_files(self, lake: Lake, file_format: str) -> None:
        t = f"lake.s.wider_{file_format}"
        widened = {
            "a": ("TINYINT", "SMALLINT", "1"), "b": ("TINYINT", "INT", "2"), "c": ("TINYINT", "BIGINT", "3"),
            "d": ("SMALLINT", "INT", "4"), "e": ("SMALLINT", "BIGINT", "5"), "f": ("INT", "BIGINT", "6"),
            "g": ("FLOAT", "DOUBLE", "0.5"), "h": ("DECIMAL(4,2)", "DECIMAL(12,2)", "1.25"),
            "i": ("DECIMAL(12,2)", "DECIMAL(30,2)", "1.25"), "j": ("VARCHAR(3)", "VARCHAR(5)", "'abc'"),
            "k": ("CHAR(3)", "VARCHAR(5)", "'abc'"), "l": ("VARCHAR(3)", "STRING", "'abc'"),
        }  # fmt: skip
        if file_format in ("json", "csv"):
            widened |= {"m": ("INT", "STRING", "7"), "n": ("DATE", "STRING", "DATE'2024-01-01'")}
        old = ", ".join(f"{name} {kinds[0]}" for name, kinds in widened.items())
        values = ", ".join(kinds[2] for kinds in widened.values())
        lake.sql(f"CREATE TABLE {t} ({old}) USING {file_format}", f"INSERT INTO {t} VALUES ({values})")
        for name, (_, new, _) in widened.items():
            lake.sql(f"ALTER TABLE {t} ALTER COLUMN {name} TYPE {new}")
        wanted = [f"CAST({text} AS {new})" for _, new, text in widened.values()]
        same = " AND ".join(f"{name} = {text}" for name, text in zip(widened, wanted, strict=True))
        assert lake.rows(f"SELECT * FROM {t}") == lake.rows(f"SELECT {', '.join(wanted)}")
        lake.sql(f"INSERT INTO {t} VALUES ({values})")
        assert lake.rows(f"SELECT count(*) FROM {t} WHERE {same}") == [(2,)]
        lake.spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
        lake.spark.conf.set("spark.sql.orc.enableVectorizedReader", "false")
        try:
            assert lake.rows(f"SELECT count(*) FROM {t} WHERE {same}") == [(2,)]
        finally:
            lake.spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
            lake.spark.conf.unset("spark.sql.orc.enableVectorizedReader")

    def test_files_without_names_are_read_by_position(self, lake: Lake) -> None:
        t = "lake.s.positions"
        lake.sql(
            f"CREATE TABLE {t} (i INT, v STRING) USING csv", f"INSERT INTO {t} VALUES (1, 'a')",
            f"ALTER TABLE {t} ADD COLUMN k INT DEFAULT 5", f"ALTER TABLE {t} RENAME COLUMN v TO w",
        )  # fmt: skip
        lake.sql(f"INSERT INTO {t} VALUES (2, 'b', 6)")
        assert lake.rows(f"SELECT i, w, k FROM {t} ORDER BY i") == [(1, "a", 5), (2, "b", 6)]
        for change in ("ADD COLUMN x INT FIRST", "DROP COLUMN w", "ALTER COLUMN w FIRST", "REPLACE COLUMNS (i INT)"):
            condition, text = lake.refused(f"ALTER TABLE {t} {change}")
            assert condition == "CATALOG_EXT_INVALID_ALTERATION"
            assert "positions" in text

    def test_replace_columns_leaves_the_partition_columns(self, lake: Lake) -> None:
        t = "lake.s.replaced"
        lake.sql(
            f"CREATE TABLE {t} (a INT, b STRING, c INT, ds STRING) PARTITIONED BY (ds)",
            f"INSERT INTO {t} VALUES (1, 'x', 3, 'd')", f"ALTER TABLE {t} REPLACE COLUMNS (b STRING, a BIGINT, z INT)",
        )  # fmt: skip
        assert lake.rows(f"SELECT * FROM {t}") == [("x", 1, None, "d")]
        assert lake.refused(f"ALTER TABLE {t} REPLACE COLUMNS (a DATE)")[0] == "CATALOG_EXT_UNSUPPORTED_TYPE_CHANGE"
        assert lake.refused(f"ALTER TABLE {t} REPLACE COLUMNS (ds INT)")[0] == "CATALOG_EXT_PARTITION_COLUMN_ALTERATION"

    @pytest.mark.parametrize(
        ("change", "condition"),
        [
            ("DROP COLUMN ds", "CATALOG_EXT_PARTITION_COLUMN_ALTERATION"),
            ("RENAME COLUMN ds TO day", "CATALOG_EXT_PARTITION_COLUMN_ALTERATION"),
            ("ALTER COLUMN h TYPE BIGINT", "CATALOG_EXT_PARTITION_COLUMN_ALTERATION"),
            ("ALTER COLUMN i TYPE STRING", "CATALOG_EXT_UNSUPPORTED_TYPE_CHANGE"),
            ("ALTER COLUMN i TYPE DECIMAL(30)", "CATALOG_EXT_UNSUPPORTED_TYPE_CHANGE"),
            ("ALTER COLUMN i TYPE TINYINT", "NOT_SUPPORTED_CHANGE_COLUMN"),
            ("ADD COLUMN x INT NOT NULL", "CATALOG_EXT_INVALID_ALTERATION"),
            ("DROP COLUMNS (i, v)", "CATALOG_EXT_INVALID_ALTERATION"),
            ("SET LOCATION '/elsewhere'", "CATALOG_EXT_INVALID_ALTERATION"),
            ("SET TBLPROPERTIES ('transactional' = 'true')", "CATALOG_EXT_ACID_TABLE"),
            ("RENAME TO lake.nowhere.t", "SCHEMA_NOT_FOUND"),
            ("RENAME TO lake.s.taken", "TABLE_OR_VIEW_ALREADY_EXISTS"),
        ],
    )
    def test_what_is_refused_changes_nothing(self, lake: Lake, change: str, condition: str) -> None:
        lake.sql(
            "CREATE TABLE IF NOT EXISTS lake.s.kept (i INT, v STRING, ds STRING, h INT) PARTITIONED BY (ds, h)",
            "CREATE TABLE IF NOT EXISTS lake.s.taken (i INT)",
        )
        before = lake.catalog.load_table("s.kept")
        assert lake.refused(f"ALTER TABLE lake.s.kept {change}")[0] == condition
        assert lake.catalog.load_table("s.kept") == before

    def test_a_partition_column_can_be_explained_and_have_another_default(self, lake: Lake) -> None:
        t = "lake.s.explained"
        lake.sql(
            f"CREATE TABLE {t} (i INT, ds STRING DEFAULT 'none') PARTITIONED BY (ds)",
            f"ALTER TABLE {t} ALTER COLUMN ds COMMENT 'the day'", f"INSERT INTO {t} (i) VALUES (1)",
            f"ALTER TABLE {t} ALTER COLUMN ds SET DEFAULT 'later'", f"INSERT INTO {t} (i) VALUES (2)",
        )  # fmt: skip
        assert lake.rows(f"SELECT i, ds FROM {t} ORDER BY i") == [(1, "none"), (2, "later")]
        assert ("ds", "string", "the day") in lake.columns("explained")
