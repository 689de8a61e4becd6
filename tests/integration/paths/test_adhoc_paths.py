"""Ad-hoc paths in SQL, on the local disk and on HDFS: reads of every form, and what is refused."""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException

from catalog_ext.metastore.storage.locations import Location
from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql
from tests.kit.sparks import since

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.spark_driver import Driver
    from tests.servers.hdfs import HdfsServer


pytestmark = [pytest.mark.spark, pytest.mark.slow]

TREE = {f"year={y}/month={m:02d}/a.parquet": y * 100 + m for y in (2023, 2024) for m in (1, 2)}


@dataclass(frozen=True)
class Paths(Sql):
    """A session, and a folder with a tree of Parquet files that has an id each."""

    folder: Path

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return super().rows(query.replace("{t}", str(self.folder / "t")))

    def refusal(self, query: str) -> tuple[str, str]:
        """The condition and the message."""
        error = self.error(query)
        return str(error.getCondition()), str(error)


def parquet(**columns: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({name: [value] for name, value in columns.items()}), sink)
    return sink.getvalue()


def put(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


@pytest.fixture(scope="module")
def paths(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paths]:
    folder = tmp_path_factory.mktemp("adhoc")
    for path, number in TREE.items():
        put(folder / "t" / path, parquet(id=number))
    put(folder / "csv/k=1/x.csv", b"a;b\n1;2\n")
    with driver.catalog(warehouse=str(folder / "warehouse"), index=str(folder / "index.db"), metastore=None) as spark:
        yield Paths(spark, folder)


def test_a_path_is_read_like_a_table(paths: Paths) -> None:
    assert paths.rows("SELECT *, year FROM lake.`{t}/year=*/month={01,02}/*.parquet` ORDER BY id") == [
        (202301, "2023"), (202302, "2023"), (202401, "2024"), (202402, "2024"),
    ]  # fmt: skip
    found = paths.spark.read.table(f"lake.`{paths.folder}/t`")
    assert found.columns == ["id"]
    assert found.where("year > '2023' AND month = '01'").collect() == [(202401,)]
    assert paths.rows("SELECT count(*), count(DISTINCT year) FROM lake.`file://{t}`") == [(4, 2)]
    hidden = "hidden: SELECT * leaves it out"
    keys = [("year", "string", hidden), ("month", "string", hidden)]
    partitioned = [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
    assert paths.rows("DESCRIBE lake.`{t}`") == [("id", "bigint", None), *keys, *partitioned, *keys]
    assert paths.rows("SHOW COLUMNS IN lake.`{t}`") == [("id",), ("year",), ("month",)]
    assert set(keys) <= set(paths.rows("DESCRIBE EXTENDED lake.`{t}`"))
    (name, path) = paths.rows("SELECT _metadata.file_name, _metadata.file_path FROM lake.`{t}` WHERE id = 202302")[0]
    assert (name, path) == ("a.parquet", f"file:{paths.folder}/t/year=2023/month=02/a.parquet")


def test_the_function_files(paths: Paths) -> None:
    assert paths.rows("SELECT f.*, month FROM lake.files('{t}/year=*') AS f WHERE year = '2024' ORDER BY 1") == [
        (202401, "01"), (202402, "02"),
    ]  # fmt: skip
    named = f"path => '{paths.folder}/csv', options => map('header', 'true', 'sep', ';')"
    assert paths.rows(f"SELECT *, k FROM lake.files({named})") == [("1", "2", "1")]
    assert paths.rows(f"SELECT * FROM lake.files({named}, schema => 'a INT, b DATE', format => 'CSV')") == [(1, None)]
    with_cte = "WITH f AS (SELECT id, year FROM lake.files(concat('{t}', '/'))) SELECT max(id), year FROM f GROUP BY 2"
    assert sorted(paths.rows(with_cte)) == [(202302, "2023"), (202402, "2024")]
    assert paths.rows("SELECT id FROM range(5) WHERE id = (SELECT count(*) FROM lake.files('{t}'))") == [(4,)]


@since((4, 1), "parameters in the arguments of such a function")
def test_the_function_files_with_a_parameter(paths: Paths) -> None:
    prepared = paths.spark.sql("SELECT count(*) FROM lake.files(:path)", {"path": f"{paths.folder}/t/year=2023"})
    assert prepared.collect() == [(2,)]


def test_options_of_the_read(paths: Paths) -> None:
    expected = [("1", "2", "1")]
    given = "WITH ('header' = 'true', 'sep' = ';')"
    assert paths.rows(f"SELECT *, k FROM lake.`{paths.folder}/csv` {given}") == expected
    read = paths.spark.read.option("header", value=True).option("sep", ";").table(f"lake.`{paths.folder}/csv`")
    assert [tuple(row) for row in read.select("*", "k").collect()] == expected
    text = paths.spark.read.option("format", "text").table(f"lake.`{paths.folder}/csv`")
    assert sorted(row.value for row in text.collect()) == ["1;2", "a;b"]


def test_after_use(paths: Paths) -> None:
    before = paths.rows("SELECT current_catalog()")[0][0]
    paths.rows("USE lake")
    try:
        assert paths.rows("SELECT count(*) FROM files('{t}')") == [(4,)]
        assert paths.rows("SELECT count(*) FROM `{t}`") == [(4,)]
        # Spark's own way to read a file.
        assert paths.rows("SELECT count(*), min(year) FROM parquet.`{t}`") == [(4, 2023)]
        assert paths.refusal("SELECT * FROM nowhere.`{t}`")[0] == "TABLE_OR_VIEW_NOT_FOUND"
    finally:
        paths.rows(f"USE {before}")


@since((4, 2), "SET PATH")
def test_on_the_path_of_set_path(paths: Paths) -> None:
    paths.spark.conf.set("spark.sql.path.enabled", "true")
    try:
        # Functions come after our catalog, which has none.
        paths.rows("SET PATH = lake.default, system.builtin, system.session, spark_catalog.default")
        assert paths.rows("SELECT count(*) FROM `{t}`") == [(4,)]
        assert paths.rows("SELECT count(*) FROM files('{t}')") == [(4,)]
        assert paths.rows("SELECT DISTINCT typeof(id) FROM `{t}` WITH ('schema' = 'id INT')") == [("int",)]
        assert paths.rows("SELECT count(*), min(year) FROM parquet.`{t}`") == [(4, 2023)]
        assert paths.refusal("SELECT nothing(id) FROM `{t}`")[0] == "UNRESOLVED_ROUTINE"
        assert paths.refusal("INSERT INTO `{t}` VALUES (1)")[0] == "CATALOG_EXT_READ_ONLY_PATH"
    finally:
        paths.spark.conf.unset("spark.sql.path.enabled")
    assert paths.refusal("SELECT * FROM `{t}`")[0] == "TABLE_OR_VIEW_NOT_FOUND"


def test_what_an_expression_names(paths: Paths) -> None:
    given = "IDENTIFIER('lake.`' || '{t}`')"
    assert paths.rows(f"SELECT count(*), max(year) FROM {given}") == [(4, "2024")]
    assert paths.rows(f"SELECT DISTINCT typeof(id) FROM {given} WITH ('schema' = 'id INT')") == [("int",)]


@pytest.mark.parametrize(
    "condition",
    ["year = 2024", "year = '2024'", "cast(year AS INT) > 2023", "year IN (2024, 2030)", "NOT year < '2024'",
     "year LIKE '%4'", "upper(year) = '2024' AND year > 2023"],
)  # fmt: skip
def test_filters_on_keys(paths: Paths, condition: str) -> None:
    # The other year is not looked at: a file that could not be read does not matter.
    put(paths.folder / "half/year=2024/a.parquet", parquet(id=1))
    put(paths.folder / "half/year=2024/b.parquet", parquet(id=2))
    put(paths.folder / "half/year=2023/day=1/c.parquet", b"")
    query = (
        f"SELECT id, year FROM lake.files('{paths.folder}/half', schema => 'id BIGINT') WHERE {condition} ORDER BY 1"
    )
    if "LIKE" in condition:
        with pytest.raises(AnalysisException, match="disagree on the keys"):
            paths.rows(query.replace("LIKE '%4'", "LIKE '2%'"))
    assert paths.rows(query.replace("SELECT id", "SELECT id")) == [(1, "2024"), (2, "2024")]


def test_a_join_filters_while_it_runs(paths: Paths) -> None:
    paths.spark.createDataFrame([("2023", "01")], "y STRING, m STRING").createOrReplaceTempView("wanted")
    joined = paths.spark.sql(
        f"SELECT id FROM lake.`{paths.folder}/t` t JOIN wanted w ON t.year = w.y AND t.month = w.m WHERE w.m > ''"
    )
    assert joined.collect() == [(202301,)]
    twice = (
        f"SELECT a.id FROM lake.`{paths.folder}/t` a JOIN lake.`{paths.folder}/t` b ON a.id = b.id AND a.year = b.year"
    )
    assert sorted(row.id for row in paths.spark.sql(twice).collect()) == sorted(TREE.values())


def test_explain_shows_the_path_and_what_is_chosen(paths: Paths) -> None:
    ((plan,),) = paths.rows("EXPLAIN FORMATTED SELECT id FROM lake.`{t}/**` WHERE year = '2024'")
    assert f"Path: {paths.folder}/t/**" in str(plan)
    assert "FilesChosen: 2 files" in str(plan)
    assert "year" in str(plan)


def test_a_cached_path_is_used_by_an_equal_read(paths: Paths) -> None:
    query = f"SELECT id, year FROM lake.`{paths.folder}/t`"
    cached = paths.spark.sql(query).cache()
    try:
        assert cached.count() == 4
        again = paths.spark.sql(f"EXPLAIN {query}").collect()[0][0]
        assert "InMemoryTableScan" in again
    finally:
        cached.unpersist()


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.HiveDisabled")
def test_without_hive_partitioning(paths: Paths) -> None:
    paths.rows("SET use_hive_partitioning = 0")
    try:
        assert len(paths.rows("SELECT * FROM lake.`{t}`")) == 4
        assert paths.refusal("SELECT year FROM lake.`{t}`")[0].startswith("UNRESOLVED_COLUMN")
        put(paths.folder / "own/k=1/a.parquet", parquet(k="in the file", id=1))
        assert paths.rows(f"SELECT k FROM lake.`{paths.folder}/own`") == [("in the file",)]
    finally:
        paths.rows("SET use_hive_partitioning = 1")
    assert paths.rows(f"SELECT *, k FROM lake.`{paths.folder}/own`") == [(1, "1")]
    declared = f"lake.files('{paths.folder}/own', schema => 'k STRING')"
    assert paths.rows(f"SELECT *, k FROM {declared} WHERE k LIKE 'in%'") == [("in the file", "in the file")]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lake.`{t}` VALUES (1)",
        "INSERT OVERWRITE lake.`{t}` PARTITION (year = '1') VALUES (1)",
        "DELETE FROM lake.`{t}`",
        "UPDATE lake.`{t}` SET id = 1",
        "MERGE INTO lake.`{t}` t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE lake.`{t}`",
        "TRUNCATE TABLE lake.`{t}` PARTITION (year = '2023')",
        "ALTER TABLE lake.`{t}` ADD PARTITION (year = '1')",
        "ALTER TABLE lake.`{t}` DROP PARTITION (year = '2023')",
        "ALTER TABLE lake.`{t}` ADD COLUMN x INT",
        "ALTER TABLE lake.`{t}` SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE lake.`{t}` RENAME TO lake.`/x`",
        "MSCK REPAIR TABLE lake.`{t}`",
        "ANALYZE TABLE lake.`{t}` COMPUTE STATISTICS",
        "SHOW PARTITIONS lake.`{t}`",
        "DROP TABLE lake.`{t}`",
        "CREATE TABLE lake.`{t}/new` (a INT)",
        "CREATE TABLE lake.`{t}/new` AS SELECT 1 a",
        "CREATE TABLE lake.`{t}/new` LIKE lake.`{t}`",
        "CREATE TABLE lake.default.new LIKE lake.`{t}`",
    ],
)
@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.ReadOnly")
def test_a_path_is_read_only(paths: Paths, statement: str) -> None:
    condition, message = paths.refusal(statement)
    assert condition == "CATALOG_EXT_READ_ONLY_PATH"
    assert "register" in message


def test_a_data_frame_is_not_written_to_a_path(paths: Paths) -> None:
    frame = paths.spark.sql("SELECT 1L id")
    with pytest.raises(AnalysisException, match="READ_ONLY_PATH"):
        frame.writeTo(f"lake.`{paths.folder}/t`").append()
    with pytest.raises(AnalysisException, match="READ_ONLY_PATH"):
        frame.write.mode("append").saveAsTable(f"lake.`{paths.folder}/t`")


@pytest.mark.parametrize(
    ("query", "condition", "words"),
    [
        ("SELECT * FROM lake.`{t}/{a`", "INVALID_PATTERN", "at character"),
        ("SELECT * FROM lake.`t/year=*`", "INVALID_INPUT", "is relative"),
        ("SELECT * FROM lake.`gs://b/x`", "INVALID_INPUT", "scheme 'gs'"),
        ("SELECT * FROM lake.`{t}/../x`", "INVALID_INPUT", "'..'"),
        ("SELECT * FROM lake.files()", "INVALID_ARGUMENTS", "has no path"),
        ("SELECT * FROM lake.files(CAST(NULL AS STRING))", "INVALID_ARGUMENTS", "has no path"),
        ("SELECT * FROM lake.files('/x', nope => 1)", "INVALID_ARGUMENTS", "no parameter 'nope'"),
        ("SELECT * FROM lake.files('/x', path => '/y')", "INVALID_ARGUMENTS", "'path' twice"),
        ("SELECT * FROM lake.files('/x', 'csv', map(), 'a INT', 1)", "INVALID_ARGUMENTS", "at most 4"),
        ("SELECT * FROM lake.files(uuid())", "INVALID_ARGUMENTS", "constants only"),
        ("SELECT * FROM lake.files('{t}', 'avro')", "UNSUPPORTED_FORMAT", "'avro'"),
        ("SELECT * FROM lake.files('{t}', schema => 'a NOTYPE')", "INVALID_TYPE", "NOTYPE"),
        ("SELECT * FROM lake.`{t}` WITH ('schema.sample-files' = 'few')", "INVALID_CONFIGURATION", "'few'"),
        ("SELECT * FROM lake.files('{t}/../t')", "INVALID_INPUT", "'..'"),
        ("DESCRIBE EXTENDED lake.`{t}` AS JSON", "NOT_SUPPORTED", "DESCRIBE EXTENDED shows the same"),
    ],
)
def test_what_is_refused(paths: Paths, query: str, condition: str, words: str) -> None:
    found, message = paths.refusal(query)
    assert found == f"CATALOG_EXT_{condition}"
    assert words.lower() in message.lower()


def test_a_file_that_is_of_no_format(paths: Paths) -> None:
    put(paths.folder / "bad/k=1/x.parquet", b"not a parquet file")
    condition, message = paths.refusal(f"SELECT * FROM lake.`{paths.folder}/bad`")
    assert condition == "CATALOG_EXT_INVALID_INPUT"
    assert "k=1/x.parquet" in message


def test_a_file_that_goes_while_it_is_read(paths: Paths) -> None:
    for number in (1, 2):
        put(paths.folder / f"gone/k={number}/x.parquet", parquet(id=number))
    frame = paths.spark.sql(f"SELECT id FROM lake.`{paths.folder}/gone`")
    # Statistics need a listing, which the query then keeps.
    assert frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() > 0
    (paths.folder / "gone/k=2/x.parquet").unlink()
    with pytest.raises(PySparkException, match=r"is no longer on the store\. Run the query again"):
        frame.collect()
    assert paths.rows(f"SELECT id FROM lake.`{paths.folder}/gone`") == [(1,)]


@pytest.mark.requirement("RQ.HivePartitioning.TableFunction.HDFS", statement="SELECT id, year FROM lake.`hdfs")
def test_on_hdfs(paths: Paths, hdfs_server: HdfsServer) -> None:
    root = Location.parse(f"{hdfs_server.uri}/adhoc-{secrets.token_hex(4)}")
    storage = sessions.active_catalog("lake").storage
    for path, number in TREE.items():
        file = root.join(path)
        storage.create_directory(file.parent)
        storage.write_file(file, parquet(id=number))
    query = "SELECT id, year FROM lake.`hdfs://…/year=*/month=*/*.parquet` WHERE month = '02' AND year >= 2024"
    assert paths.rows(query.replace("hdfs://…", str(root))) == [(202402, "2024")]
    with pytest.raises(AnalysisException, match="month=09"):
        paths.rows(f"SELECT * FROM lake.`{root}/year=2024/month={{01,09}}`")
