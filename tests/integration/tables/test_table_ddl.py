"""DDL of tables and databases in SQL, on a real service: what CREATE and ALTER say, and how files read afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.errors import AnalysisException, PySparkException

from tests.integration import lake as lakes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.spark_driver import Driver


pytestmark = pytest.mark.spark


class Lake(lakes.Lake):
    def refused(self, statement: str) -> tuple[str | None, str]:
        """The condition and the text of the error that the statement gets."""
        error = self.error(statement)
        assert isinstance(error, AnalysisException), error
        return error.getCondition(), str(error)

    def columns(self, table: str) -> list[tuple[object, ...]]:
        """Names, types and comments as DESCRIBE has them, without the sections after the columns."""
        found = self.rows(f"DESCRIBE lake.s.{table}")
        ends = [i for i, row in enumerate(found) if str(row[0]).startswith("#")]
        return found[: ends[0]] if ends else found


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("table-ddl")
    with lakes.local_lake(driver, folder, "s") as lake:
        yield Lake(lake.spark, lake.catalog, folder, lake.namespace)


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


class TestCreate:
    def test_hives_clauses_make_files_that_hive_reads(self, lake: Lake) -> None:
        lake.sql(
            "CREATE EXTERNAL TABLE lake.s.hive_text (id INT COMMENT 'number', v STRING) COMMENT 'as Hive has it' "
            "PARTITIONED BY (ds STRING COMMENT 'day', n INT) ROW FORMAT SERDE "
            "'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe' WITH SERDEPROPERTIES ('field.delim' = '|', "
            "'serialization.null.format' = 'nil') STORED AS TEXTFILE TBLPROPERTIES ('a' = 'b')",
            "INSERT INTO lake.s.hive_text VALUES (1, NULL, 'd', 2), (2, 'x\"y', 'd', 2), (3, '', 'd', 2)",
        )
        assert lake.rows("SELECT * FROM lake.s.hive_text ORDER BY id") == [
            (1, None, "d", 2), (2, 'x"y', "d", 2), (3, "", "d", 2),
        ]  # fmt: skip
        for value in ("a|b", "a\\nb", "nil"):
            with pytest.raises(PySparkException) as caught:
                lake.sql(f"INSERT INTO lake.s.hive_text VALUES (4, '{value}', 'd', 2)")
            assert "cannot be written as text of Hive's LazySimpleSerDe" in str(caught.value)
        made = lake.catalog.load_table("s.hive_text")
        assert (made.definition.format, made.definition.table_type) == ("csv", "EXTERNAL")
        root = lake.folder / "warehouse" / "s.db" / "hive_text" / "ds=d" / "n=2"
        text = "".join(path.read_text() for path in sorted(root.glob("*.csv")))
        assert sorted(text.splitlines()) == ["1|nil", '2|x"y', "3|"]
        lazy = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
        plain = {"sep": "\x01", "quote": "", "nullValue": "\\N", "serde": lazy}
        for number, (clause, file_format, options) in enumerate([
            ("STORED AS PARQUET", "parquet", {}), ("STORED AS ORC", "orc", {}), ("STORED AS JSONFILE", "json", {}),
            ("STORED AS TEXTFILE", "csv", plain),
            ("ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\t'", "csv", {**plain, "sep": "\t"}),
            (
                "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '!'", "csv",
                {**plain, "sep": ",", "escape.delim": "!"},
            ),
            ("ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde'", "orc", {}),
        ]):  # fmt: skip
            lake.sql(f"CREATE TABLE lake.s.hive_{number} (id INT, v STRING) PARTITIONED BY (ds STRING) {clause}")
            definition = lake.catalog.load_table(f"s.hive_{number}").definition
            assert (definition.format, definition.options) == (file_format, options)
            lake.sql(f"INSERT INTO lake.s.hive_{number} VALUES (1, 'a', 'x'), (2, NULL, 'y')")
            assert lake.rows(f"SELECT * FROM lake.s.hive_{number} ORDER BY id") == [(1, "a", "x"), (2, None, "y")]
        serde = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
        lake.sql(
            f"CREATE TABLE lake.s.hive_csv (v STRING) PARTITIONED BY (ds STRING) ROW FORMAT SERDE '{serde}' WITH "
            "SERDEPROPERTIES ('separatorChar' = ';') TBLPROPERTIES ('skip.header.line.count' = '1')",
            "INSERT INTO lake.s.hive_csv VALUES ('a;\"b\"', 'x'), ('', 'y')",
        )
        assert lake.catalog.load_table("s.hive_csv").definition.options == {
            "sep": ";", "quote": '"', "escape": "\\", "serde": serde, "header": "true",
        }  # fmt: skip
        assert lake.rows("SELECT * FROM lake.s.hive_csv ORDER BY ds") == [('a;"b"', "x"), ("", "y")]

    def test_text_that_hive_has_written_has_all_of_its_rows(self, lake: Lake) -> None:
        """A line of Hive's separators alone is a row, and an empty text is no NULL; a short line's last columns are."""
        root = lake.folder / "by_hive"
        root.mkdir()
        lines = ["a\x01\x017", "\x01\x01", "", "  ", "\\N\x01\\N\x01\\N", "b", "c\x01 \x01x\x01more"]
        (root / "000000_0").write_text("".join(f"{line}\n" for line in lines))
        lake.sql(
            f"CREATE EXTERNAL TABLE lake.s.by_hive (a STRING, b STRING, n INT) STORED AS TEXTFILE LOCATION '{root}'"
        )
        lake.catalog.repair_partitions("s.by_hive")
        expected = [
            ("a", "", 7), ("", "", None), ("", None, None), ("  ", None, None), (None, None, None), ("b", None, None),
            ("c", " ", None),
        ]  # fmt: skip
        assert lake.rows("SELECT * FROM lake.s.by_hive") == expected
        assert lake.rows("SELECT n, a FROM lake.s.by_hive WHERE b = ''") == [(7, "a"), (None, "")]
        assert lake.rows("SELECT count(*), count(a), count(b) FROM lake.s.by_hive") == [(7, 6, 3)]

        lake.sql(
            "CREATE TABLE lake.s.one_text (a STRING) PARTITIONED BY (ds STRING) STORED AS TEXTFILE",
            "INSERT INTO lake.s.one_text VALUES (' ', 'x'), (NULL, 'x'), (' v ', 'x')",
            "CREATE TABLE lake.s.two_texts (a STRING, b STRING) STORED AS TEXTFILE",
            "INSERT INTO lake.s.two_texts VALUES ('', ''), (' a', NULL), (NULL, ' ')",
        )
        assert lake.rows("SELECT a, ds FROM lake.s.one_text ORDER BY a") == [(None, "x"), (" ", "x"), (" v ", "x")]
        assert lake.rows("SELECT count(*) FROM lake.s.one_text") == [(3,)]
        assert lake.rows("SELECT * FROM lake.s.two_texts ORDER BY a") == [(None, " "), ("", ""), (" a", None)]
        lake.sql("INSERT INTO lake.s.one_text VALUES ('', 'empty')")
        assert lake.rows("SELECT a FROM lake.s.one_text WHERE ds = 'empty'") == [("",)]
        # A header is left out once a file, and nothing else is where a file is read in pieces.
        lake.sql(
            "CREATE TABLE lake.s.headed_text (a STRING, b INT) STORED AS TEXTFILE "
            "TBLPROPERTIES ('skip.header.line.count' = '1')",
            "INSERT INTO lake.s.headed_text SELECT if(id % 2 = 0, '', 'v'), id FROM range(0, 1000, 1, 1)",
            "SET spark.sql.files.maxPartitionBytes = 1000",
        )
        try:
            assert lake.rows("SELECT a, count(*), sum(b) FROM lake.s.headed_text GROUP BY a ORDER BY a") == [
                ("", 500, 249500), ("v", 500, 250000),
            ]  # fmt: skip
        finally:
            lake.sql("RESET spark.sql.files.maxPartitionBytes")

    @pytest.mark.parametrize(
        ("statement", "condition", "part"),
        [
            ("(id INT) STORED AS AVRO", "CATALOG_EXT_UNSUPPORTED_FORMAT", "avro"),
            ("(id INT) STORED AS SEQUENCEFILE", "CATALOG_EXT_UNSUPPORTED_FORMAT", "PARQUET, ORC, TEXTFILE"),
            ("(id INT) USING avro", "CATALOG_EXT_UNSUPPORTED_FORMAT", "avro"),
            ("(id INT) USING delta", "CATALOG_EXT_UNSUPPORTED_FORMAT", "delta"),
            ("(a ARRAY<INT>) USING csv", "CATALOG_EXT_UNSUPPORTED_FORMAT", "does not have"),
            ("(a INT) USING text", "CATALOG_EXT_UNSUPPORTED_FORMAT", "one column"),
            ("(ds STRING) PARTITIONED BY (ds)", None, "partition"),
            ("(id INT, ds STRING) PARTITIONED BY (nope)", None, "nope"),
            ("(id INT, ds STRING) PARTITIONED BY (ds, ds)", None, "ds"),
            ("(a INT) ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'", "CATALOG_EXT_UNSUPPORTED_FORMAT",
             "makes every column a STRING"),
            ("(id INT, ds STRING) PARTITIONED BY (ds STRING)", "COLUMN_ALREADY_EXISTS", "ds"),
            ("(id INT, a ARRAY<INT>) PARTITIONED BY (a)", None, "a"),
            ("(id INT, ts TIMESTAMP) PARTITIONED BY (days(ts))", "CATALOG_EXT_NOT_SUPPORTED", "never an expression"),
            ("(id INT) CLUSTERED BY (id) INTO 4 BUCKETS", "CATALOG_EXT_NOT_SUPPORTED", "no buckets"),
            ("(id INT) TBLPROPERTIES ('transactional' = 'true')", "CATALOG_EXT_ACID_TABLE", "ACID"),
            ("(id INT) USING orc TBLPROPERTIES ('file_format' = 'parquet')", "CATALOG_EXT_INVALID_CONFIGURATION",
             "file_format"),
            ("(id INT, ID STRING)", "COLUMN_ALREADY_EXISTS", "id"),
        ],
    )  # fmt: skip
    def test_what_no_table_can_be_is_refused(
        self, lake: Lake, statement: str, condition: str | None, part: str
    ) -> None:
        found, text = lake.refused(f"CREATE TABLE lake.s.never {statement}")
        assert found == condition or condition is None
        assert part.lower() in text.lower()
        assert "never" not in lake.catalog.list_tables("s")

    def test_like_takes_columns_and_format_but_no_rows(self, lake: Lake) -> None:
        lake.sql(
            "CREATE TABLE lake.s.model (id INT NOT NULL COMMENT 'number', v STRING DEFAULT 'x', ds DATE) USING csv "
            "OPTIONS ('sep' = ';') PARTITIONED BY (ds) COMMENT 'first' TBLPROPERTIES ('a' = 'b')",
            "INSERT INTO lake.s.model VALUES (1, 'a', DATE'2024-01-01')",
            "CREATE TABLE lake.s.copy LIKE lake.s.model TBLPROPERTIES ('c' = 'd')",
            "CREATE TABLE IF NOT EXISTS lake.s.copy LIKE lake.s.model",
            f"CREATE TABLE lake.s.outside LIKE lake.s.model USING orc LOCATION '{lake.folder}/outside'",
            "CREATE TABLE v1_model (A INT, b STRING) USING json PARTITIONED BY (b)",
            "CREATE TABLE lake.s.of_session LIKE v1_model",
            "CREATE TEMPORARY VIEW some_view AS SELECT 1 AS one, 'x' AS two",
            "CREATE TABLE lake.s.of_view LIKE some_view",
        )
        model, copy, outside, of_session, of_view = (
            lake.catalog.load_table(f"s.{name}").definition
            for name in ("model", "copy", "outside", "of_session", "of_view")
        )
        assert (copy.columns, copy.partition_columns) == (model.columns, model.partition_columns)
        assert (copy.format, copy.options, copy.comment) == ("csv", {"sep": ";"}, None)
        assert copy.properties == {"c": "d", "partition-columns": "declared"}
        assert (outside.format, outside.options, outside.table_type) == ("orc", {}, "EXTERNAL")
        assert ([c.name for c in of_session.columns], of_session.format) == (["A"], "json")
        assert [c.name for c in of_session.partition_columns] == ["b"]
        assert [(c.name, c.type) for c in of_view.columns] == [("one", "int"), ("two", "string")]
        assert lake.rows("SELECT count(*) FROM lake.s.copy") == [(0,)]
        lake.sql("INSERT INTO lake.s.copy (id, ds) VALUES (2, DATE'2024-01-02')")
        assert lake.rows("SELECT id, v FROM lake.s.copy") == [(2, "x")]
        assert lake.refused("CREATE TABLE lake.s.copy LIKE lake.s.model")[0] == "TABLE_OR_VIEW_ALREADY_EXISTS"

    def test_a_table_with_virtual_columns_has_a_like_as_well(self, lake: Lake) -> None:
        (lake.folder / "tree" / "ds=x").mkdir(parents=True)
        lake.catalog.register_table(
            "s.tree", location=f"{lake.folder}/tree", partition_columns={"ds": "STRING"}, schema="id INT"
        )
        lake.sql("CREATE TABLE lake.s.tree2 LIKE lake.s.tree", "INSERT INTO lake.s.tree2 (id, ds) VALUES (1, 'a')")
        assert lake.rows("SELECT *, ds FROM lake.s.tree2") == [(1, "a")]
        assert lake.spark.table("lake.s.tree2").columns == ["id"]


SHOWN = {
    "types": (
        "(a BOOLEAN, b TINYINT, c SMALLINT, d INT NOT NULL, e BIGINT COMMENT 'it\\'s \\\\ big', f FLOAT, g DOUBLE, "
        "h DECIMAL(9,4), i CHAR(10), j VARCHAR(11), k STRING DEFAULT 'it\\'s', l DATE, m TIMESTAMP, n TIMESTAMP_NTZ, "
        "o BINARY, p ARRAY<INT>, q MAP<STRING, DOUBLE>, r STRUCT<x: INT, `y z`: STRING>, `odd name` INT, "
        "`select` INT) USING parquet COMMENT 'all of them' TBLPROPERTIES ('compression' = 'zstd', 'x' = 'a\\'b')"
    ),
    "keys": "(id INT, region STRING DEFAULT 'eu', ds DATE COMMENT 'day') USING orc PARTITIONED BY (ds, region)",
    "text": "(id INT) PARTITIONED BY (ds STRING) ROW FORMAT DELIMITED FIELDS TERMINATED BY '\\t' STORED AS TEXTFILE",
    "outside": "(id INT, ds STRING) USING json PARTITIONED BY (ds) LOCATION '{folder}/shown'",
    "escaped": "(id INT, ds STRING) USING json PARTITIONED BY (ds) LOCATION '{folder}/a\\\\{{b}}\\\\*'",
}


@pytest.fixture(scope="module")
def wild(lake: Lake) -> str:
    for place in ("a/year=2023/month=1", "a/year=2024/month=2", "b/year=2024/month=2", "c/year=2030/month=1"):
        folder = lake.folder / "wild" / place
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [len(place), int(place[7:11])]}), folder / "x.parquet")
    location = f"{lake.folder}/wild/{{a,b}}/year=*/**.parquet"
    lake.sql(f"CALL lake.system.register_table(table => 's.wild', location => '{location}')")
    lake.sql("CALL lake.system.repair_partitions(table => 's.wild', strict => true, verify => true)")
    return location


class TestWildcards:
    """A table whose location is a pattern: what its paths have is read, nothing is written."""

    def test_it_is_read_and_pruned_by_its_keys(self, lake: Lake, wild: str) -> None:
        assert lake.rows("SELECT max(id), count(*), year FROM lake.s.wild GROUP BY year ORDER BY year") == [
            (2023, 2, "2023"), (2024, 4, "2024"),
        ]  # fmt: skip
        assert lake.spark.table("lake.s.wild").columns == ["id"]
        assert lake.partitions("wild") == ["year=2023/month=1", "year=2024/month=2"]
        assert "Files: 2 of 3" in str(lake.rows("EXPLAIN SELECT * FROM lake.s.wild WHERE month = '2'")[0][0])
        paths = lake.rows("SELECT DISTINCT `$path` FROM lake.s.wild WHERE year = '2024' ORDER BY 1")
        assert paths == lake.rows("SELECT path FROM lake.s.wild.files WHERE partition LIKE 'year=2024%' ORDER BY 1")
        assert [str(path).partition("/wild/")[2] for (path,) in paths] == [
            "a/year=2024/month=2/x.parquet", "b/year=2024/month=2/x.parquet",
        ]  # fmt: skip
        assert ("Location", f"file://{wild}", "") in lake.rows("DESCRIBE EXTENDED lake.s.wild")

    def test_msck_follows_the_files(self, lake: Lake, wild: str) -> None:
        folder = lake.folder / "wild/b/year=2025/month=3"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [7]}), folder / "x.parquet")
        lake.sql("MSCK REPAIR TABLE lake.s.wild")
        assert lake.rows("SELECT id, month FROM lake.s.wild WHERE year = '2025'") == [(7, "3")]
        (folder / "x.parquet").unlink()
        error = lake.error("SELECT id FROM lake.s.wild WHERE year = '2025'")
        assert error.getCondition() == "CATALOG_EXT_FILE_MISSING"
        assert f"{folder}/x.parquet" in str(error)
        lake.sql("MSCK REPAIR TABLE lake.s.wild SYNC PARTITIONS")
        assert lake.rows("SELECT count(*) FROM lake.s.wild WHERE year = '2025'") == [(0,)]

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO {t} (id, year, month) VALUES (1, 'x', 'y')",
            "INSERT OVERWRITE {t} PARTITION (year = '2023', month = '1') SELECT 1L",
            "DELETE FROM {t} WHERE year = '2023'",
            "TRUNCATE TABLE {t} PARTITION (year = '2023')",
            "TRUNCATE TABLE {t}",
            "ALTER TABLE {t} ADD PARTITION (year = '1', month = '1')",
            "ALTER TABLE {t} DROP PARTITION (year = '2023')",
            "ALTER TABLE {t} PARTITION (year = '2023', month = '1') RENAME TO PARTITION (year = '9', month = '9')",
            "ALTER TABLE {t} PARTITION (year = '2023', month = '1') SET LOCATION 'elsewhere'",
            "ALTER TABLE {t} SET LOCATION '{folder}/elsewhere'",
            "CREATE OR REPLACE TABLE {t} AS SELECT 1 AS id",
            "CREATE TABLE lake.s.wild2 LOCATION '{folder}/wild/*' AS SELECT 1 AS id",
        ],
    )
    def test_what_is_refused(self, lake: Lake, wild: str, statement: str) -> None:
        condition, text = lake.refused(statement.format(t="lake.s.wild", folder=lake.folder))
        assert condition == "CATALOG_EXT_NOT_SUPPORTED"
        assert "has wildcards, so that it is what they match and is read only" in text
        assert lake.rows("SELECT count(*) FROM lake.s.wild WHERE year < '2025'") == [(6,)]

    def test_a_member_that_is_missing_is_named(self, lake: Lake, wild: str) -> None:
        location = f"{lake.folder}/wild/{{a,nowhere}}/year=*/**.parquet"
        condition, text = lake.refused(
            f"CALL lake.system.register_table(table => 's.missing', location => '{location}')"
        )
        assert condition == "CATALOG_EXT_PATH_NOT_FOUND"
        assert "/wild/nowhere/year=*/**.parquet" in text

    def test_create_table_says_it_too_and_runs_again(self, lake: Lake, wild: str) -> None:
        lake.sql(
            "CREATE TABLE lake.s.wild3 (id BIGINT, year INT, month INT) USING parquet PARTITIONED BY (year, month) "
            f"LOCATION '{lake.folder}/wild/?/year=202*/*/*.parquet'",
            "MSCK REPAIR TABLE lake.s.wild3",
        )
        query = "SELECT DISTINCT year, month FROM lake.s.wild3 ORDER BY year"
        assert lake.rows(query)[:2] == [(2023, 1), (2024, 2)]
        ((statement,),) = lake.rows("SHOW CREATE TABLE lake.s.wild3")
        before = lake.catalog.load_table("s.wild3").definition
        lake.sql("DROP TABLE lake.s.wild3", str(statement))
        assert lake.catalog.load_table("s.wild3").definition == before


class TestShow:
    @pytest.mark.parametrize("name", SHOWN)
    def test_create_table_runs_again_as_it_is(self, lake: Lake, name: str) -> None:
        t = f"lake.s.shown_{name}"
        lake.sql(f"CREATE TABLE {t} {SHOWN[name].format(folder=lake.folder)}")
        before = lake.catalog.load_table(f"s.shown_{name}").definition
        ((statement,),) = lake.rows(f"SHOW CREATE TABLE {t}")
        described = lake.rows(f"DESCRIBE {t}")
        lake.sql(f"DROP TABLE {t}", str(statement))
        assert lake.catalog.load_table(f"s.shown_{name}").definition == before
        assert lake.rows(f"DESCRIBE {t}") == described
        assert lake.rows(f"SHOW CREATE TABLE {t}") == [(statement,)]

    def test_create_table_of_a_registered_tree(self, lake: Lake) -> None:
        (lake.folder / "shown tree" / "ds=x").mkdir(parents=True)
        lake.catalog.register_table(
            "s.shown_tree", location=f"{lake.folder}/shown tree", partition_columns={"ds": "STRING"},
            schema="id INT COMMENT 'n'", format="csv", options={"sep": "\x01"},
        )  # fmt: skip
        before = lake.catalog.load_table("s.shown_tree").definition
        ((statement,),) = lake.rows("SHOW CREATE TABLE lake.s.shown_tree")
        lake.sql("DROP TABLE lake.s.shown_tree", str(statement))
        after = lake.catalog.load_table("s.shown_tree").definition
        assert (after.columns, after.partition_columns, after.options, after.location) == (
            before.columns, before.partition_columns, before.options, before.location,
        )  # fmt: skip
        assert lake.spark.table("lake.s.shown_tree").columns == ["id"]
        assert "TBLPROPERTIES (\n  'partition-columns' = 'virtual')" in str(statement)
        properties = dict(lake.rows("SHOW TBLPROPERTIES lake.s.shown_tree"))
        assert properties == {"partition-columns": "virtual", "option.sep": "\x01"}
        (lake.folder / "clash" / "ds=1").mkdir(parents=True)
        lake.catalog.register_table(
            "s.clash", location=f"{lake.folder}/clash", partition_columns={"ds": "STRING"}, schema="id INT, ds INT"
        )
        assert lake.refused("SHOW CREATE TABLE lake.s.clash")[0] == "CATALOG_EXT_NOT_SUPPORTED"

    def test_create_table_in_the_words_of_hive(self, lake: Lake) -> None:
        lake.sql(
            "CREATE TABLE lake.s.serde (id INT, v STRING COMMENT 'x') PARTITIONED BY (ds STRING) "
            "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE"
        )
        before = lake.catalog.load_table("s.serde").definition
        ((statement,),) = lake.rows("SHOW CREATE TABLE lake.s.serde AS SERDE")
        assert "PARTITIONED BY (ds STRING)" in str(statement)
        assert str(statement).startswith("CREATE TABLE lake.s.serde (")
        lake.sql("DROP TABLE lake.s.serde", str(statement))
        assert lake.catalog.load_table("s.serde").definition == before
        lake.sql("CREATE TABLE lake.s.no_serde (id INT) USING csv")
        assert lake.refused("SHOW CREATE TABLE lake.s.no_serde AS SERDE")[0] == "CATALOG_EXT_NOT_SUPPORTED"

    def test_show_statements_list_what_exists(self, lake: Lake) -> None:
        lake.sql(
            "CREATE TABLE lake.s.listed_one (id INT, ds STRING) PARTITIONED BY (ds) TBLPROPERTIES ('a' = 'b')",
            "CREATE TABLE lake.s.listed_two (id INT)",
        )
        assert lake.rows("SHOW TABLES IN lake.s LIKE 'listed*'") == [
            ("s", "listed_one", False), ("s", "listed_two", False),
        ]  # fmt: skip
        assert lake.rows("SHOW COLUMNS IN lake.s.listed_one") == [("id",), ("ds",)]
        assert lake.rows("SHOW TBLPROPERTIES lake.s.listed_one ('a')") == [("a", "b")]
        described = lake.rows("DESCRIBE EXTENDED lake.s.listed_one")
        assert ("# Partition Information", "", "") in described
        assert ("Type", "MANAGED", "") in described
        lake.sql("COMMENT ON TABLE lake.s.listed_one IS 'rides'")
        assert ("Comment", "rides", "") in lake.rows("DESCRIBE EXTENDED lake.s.listed_one")


class TestNamesAndPlaces:
    def test_a_renamed_table_keeps_its_rows_and_frees_its_name(self, lake: Lake) -> None:
        lake.sql(
            "CREATE DATABASE lake.archive", "CREATE TABLE lake.s.day (id INT, ds STRING) PARTITIONED BY (ds)",
            "INSERT INTO lake.s.day VALUES (1, 'a')",
        )  # fmt: skip
        loaded = lake.spark.table("lake.s.day")
        lake.sql(
            "ALTER TABLE lake.s.day RENAME TO yesterday", "ALTER TABLE lake.s.yesterday RENAME TO archive.old",
            "CREATE TABLE lake.s.day (id INT, ds STRING) PARTITIONED BY (ds)", "INSERT INTO lake.s.day VALUES (2, 'a')",
            "INSERT INTO lake.archive.old VALUES (3, 'a')",
        )  # fmt: skip
        assert lake.rows("SELECT id FROM lake.s.day") == [(2,)]
        assert lake.rows("SELECT id FROM lake.archive.old ORDER BY id") == [(1,), (3,)]
        # The name is another table's, which what was read before is not taken for.
        with pytest.raises(PySparkException) as refused:
            loaded.collect()
        assert refused.value.getCondition() == "INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS.TABLE_ID_MISMATCH"
        assert lake.refused("SELECT * FROM lake.s.yesterday")[0] == "TABLE_OR_VIEW_NOT_FOUND"
        lake.sql("DROP TABLE lake.archive.old")
        assert lake.rows("SELECT id FROM lake.s.day") == [(2,)]
        lake.sql("DROP TABLE lake.s.day", "DROP DATABASE lake.archive")
        assert not list((lake.folder / "warehouse" / "s.db").glob("day*"))

    def test_another_location_is_for_what_comes(self, lake: Lake) -> None:
        first, second = lake.folder / "first", lake.folder / "second"
        second.mkdir()
        lake.sql(
            f"CREATE TABLE lake.s.moved (id INT, ds STRING) PARTITIONED BY (ds) LOCATION '{first}'",
            "INSERT INTO lake.s.moved VALUES (1, 'a')", f"ALTER TABLE lake.s.moved SET LOCATION '{second}'",
            "INSERT INTO lake.s.moved VALUES (2, 'a'), (3, 'b')",
        )  # fmt: skip
        assert lake.rows("SELECT id, ds FROM lake.s.moved ORDER BY id") == [(1, "a"), (2, "a"), (3, "b")]
        assert [path.name for path in second.iterdir() if path.name[0] != "_"] == ["ds=b"]
        assert len([*(first / "ds=a").glob("*.parquet")]) == 2
        lake.sql(
            f"CREATE TABLE lake.s.whole (id INT) LOCATION '{lake.folder}/one'", "INSERT INTO lake.s.whole VALUES (1)",
            f"CREATE TABLE lake.s.other (id INT) LOCATION '{lake.folder}/two'", "INSERT INTO lake.s.other VALUES (2)",
            "DROP TABLE lake.s.other", f"ALTER TABLE lake.s.whole SET LOCATION '{lake.folder}/two'",
        )  # fmt: skip
        assert lake.rows("SELECT id FROM lake.s.whole") == [(2,)]
        assert lake.refused("ALTER TABLE lake.s.moved SET LOCATION '/no/such/place'")[0] == (
            "CATALOG_EXT_LOCATION_NOT_FOUND"
        )

    def test_dropping_takes_the_files_of_managed_tables_only(self, lake: Lake) -> None:
        outside = lake.folder / "kept"
        lake.sql(
            f"CREATE TABLE lake.s.external (id INT) LOCATION '{outside}'", "INSERT INTO lake.s.external VALUES (1)",
            "CREATE TABLE lake.s.managed (id INT)", "INSERT INTO lake.s.managed VALUES (1)",
            "DROP TABLE lake.s.external PURGE", "DROP TABLE lake.s.managed PURGE",
            "DROP TABLE IF EXISTS lake.s.managed",
        )  # fmt: skip
        assert len([*outside.glob("*.parquet")]) == 1
        assert not (lake.folder / "warehouse" / "s.db" / "managed").exists()
        assert lake.refused("DROP TABLE lake.s.managed")[0] == "TABLE_OR_VIEW_NOT_FOUND"


class TestDatabases:
    def test_the_life_of_a_database(self, lake: Lake) -> None:
        lake.sql(
            f"CREATE DATABASE IF NOT EXISTS lake.life COMMENT 'it\\'s' LOCATION '{lake.folder}/life' "
            "WITH DBPROPERTIES ('a' = 'b')",
            "CREATE DATABASE IF NOT EXISTS lake.life",
        )
        ((name, statement),) = lake.rows("SHOW CREATE DATABASE lake.life")
        assert name == "life"
        described = lake.rows("DESCRIBE DATABASE EXTENDED lake.life")
        lake.sql("DROP DATABASE lake.life RESTRICT", str(statement))
        assert lake.rows("DESCRIBE DATABASE EXTENDED lake.life") == described
        assert f"LOCATION 'file://{lake.folder}/life'" in str(statement)
        lake.sql(
            "ALTER DATABASE lake.life SET DBPROPERTIES ('c' = 'd')", "COMMENT ON DATABASE lake.life IS 'other'",
            f"ALTER DATABASE lake.life SET LOCATION '{lake.folder}/life2'", "USE lake.life", "CREATE TABLE t (id INT)",
        )  # fmt: skip
        try:
            assert lake.rows("SHOW TABLES") == [("life", "t", False)]
            assert lake.rows("SHOW CREATE SCHEMA life") == [
                ("life", f"CREATE DATABASE lake.life\nCOMMENT 'other'\nLOCATION 'file://{lake.folder}/life2'\n"
                         "WITH DBPROPERTIES (\n  'a' = 'b',\n  'c' = 'd')"),
            ]  # fmt: skip
        finally:
            lake.sql("USE spark_catalog.default")
        assert lake.catalog.load_table("life.t").definition.location == f"file://{lake.folder}/life2/t"
        assert lake.rows("SHOW DATABASES IN lake LIKE 'li*'") == [("life",)]
        assert lake.refused("DROP DATABASE lake.life")[0] == "SCHEMA_NOT_EMPTY"
        lake.sql("DROP DATABASE lake.life CASCADE", "DROP DATABASE IF EXISTS lake.life")
        assert not (lake.folder / "life2" / "t").exists()

    def test_what_is_refused(self, lake: Lake) -> None:
        assert lake.refused("SHOW CREATE DATABASE lake.nowhere")[0] == "SCHEMA_NOT_FOUND"
        assert lake.refused("SHOW CREATE DATABASE lake.s extra")[0] == "PARSE_SYNTAX_ERROR"
        assert lake.refused("SHOW CREATE DATABASE spark_catalog.default")[0] == "PARSE_SYNTAX_ERROR"
        assert lake.refused("CREATE DATABASE lake.s")[0] == "SCHEMA_ALREADY_EXISTS"
        assert lake.refused("DROP DATABASE lake.nowhere")[0] == "SCHEMA_NOT_FOUND"
