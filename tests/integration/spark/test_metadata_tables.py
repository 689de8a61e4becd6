"""What `t.partitions`, `t.files`, `t.repairs` and the other metadata tables show in SQL."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from tests.integration.lake import external, local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

T = "lake.w.trips"


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """With `trips`: days 1 to 3, two regions each, a file a partition, and virtual keys."""
    folder = tmp_path_factory.mktemp("metadata")
    with local_lake(driver, folder) as lake:
        external(lake, "trips", {"ds": "date", "region": "string"})
        lake.sql(
            f"INSERT INTO {T} (id, v, ds, region) SELECT id, 'v' || id, make_date(2025, 1, 1 + id % 3), "
            "if(id % 2 = 0, 'eu', null) FROM range(0, 12, 1, 1)"
        )
        yield lake


def asked(lake: Lake, query: str) -> str:
    """The predicates that the plan of a query sends to the service, as EXPLAIN shows them."""
    plan = lake.spark._jvm.PythonSQLUtils.explainString(lake.sql(query)._jdf.queryExecution(), "simple")
    (line,) = (line for line in plan.splitlines() if "BatchScan" in line)
    return str(line.partition("PushedFilters: ")[2])


def test_partitions(lake: Lake) -> None:
    frame = lake.sql(f"SELECT * FROM {T}.partitions")
    assert frame.columns == [
        "partition", "values", "location", "files", "bytes", "rows", "created_at", "state",
    ]  # fmt: skip
    rows = frame.collect()
    assert [row["partition"] for row in rows][:2] == [
        "ds=2025-01-01/region=__HIVE_DEFAULT_PARTITION__", "ds=2025-01-01/region=eu",
    ]  # fmt: skip
    first = rows[0].asDict(recursive=True)
    assert (str(first["values"]["ds"]), first["values"]["region"]) == ("2025-01-01", None)
    assert (first["files"], first["rows"], first["state"]) == (1, 2, "committed")
    assert first["location"] == f"file:{lake.location('trips')}/{first['partition']}"
    summed = lake.rows(f"SELECT sum(files), sum(rows), sum(bytes) FROM {T}.partitions")
    totals = lake.catalog.load_table("w.trips").totals
    assert summed == [(totals.files, totals.rows, totals.bytes)]


@pytest.mark.parametrize(
    "condition", ["ds = '2025-01-02'", "values.ds = '2025-01-02'", "ds = date'2025-01-02' AND rows > 0"]
)
@pytest.mark.parametrize("table", ["partitions", "files"])
def test_a_filter_on_a_key_is_the_services_to_answer(lake: Lake, table: str, condition: str) -> None:
    query = f"SELECT partition FROM {T}.{table} WHERE {condition} ORDER BY partition"
    assert lake.rows(query) == [
        ("ds=2025-01-02/region=__HIVE_DEFAULT_PARTITION__",), ("ds=2025-01-02/region=eu",),
    ]  # fmt: skip
    assert "(ds = '2025-01-02')" in asked(lake, query)


def test_what_the_service_cannot_answer_is_evaluated_here(lake: Lake) -> None:
    assert lake.rows(f"SELECT count(*) FROM {T}.partitions WHERE upper(region) = 'EU' OR rows > 100") == [(3,)]
    assert lake.rows(f"SELECT count(*) FROM {T}.files WHERE region IS NULL AND day(ds) = 2") == [(1,)]
    named = f"SELECT rows FROM {T}.files WHERE partition = 'ds=2025-01-03/region=eu'"
    assert lake.rows(named) == [(2,)]
    assert "[(ds = '2025-01-03'), (region = 'eu')]" in asked(lake, named)
    assert lake.rows(f"SELECT * FROM {T}.files WHERE partition = 'nothing'") == []


def test_files(lake: Lake) -> None:
    rows = lake.sql(f"SELECT *, ds, region FROM {T}.files ORDER BY path").collect()
    assert [row["path"] for row in rows] == [f"file:{lake.location('trips')}/{path}" for path in lake.on_disk("trips")]
    first = rows[0].asDict(recursive=True)
    assert (str(first["ds"]), first["region"], first["rows"], first["version"]) == ("2025-01-01", None, 2, 1)
    assert first["values"]["ds"] == first["ds"]
    assert first["statistics"]["id"] == {"min": "3", "max": "9", "nulls": 0}
    assert lake.rows(
        f"SELECT max(statistics['id'].max), count(values.region) FROM {T}.files WHERE ds < '2025-01-02'"
    ) == [("9", 1)]
    # The same path as Spark's own column has.
    joined = f"SELECT count(*) FROM {T} t JOIN {T}.files f ON t._metadata.file_path = f.file_path"
    assert lake.rows(joined) == [(12,)]
    assert lake.rows(f"SELECT count(*) FROM {T}.files") == [(6,)]


def test_paths_of_files_join_with_those_of_rows_whatever_the_values(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.w.odd (id INT, k STRING, at TIMESTAMP) PARTITIONED BY (k, at)")
    values = [
        "a b",
        "a%3Ab",
        "a:b",
        "100%",
        "a+b",
        "ä€",
        "a/b=c",
        "a#b?c",
        "a'b",
        "__x",
        "%",
        "😀",
        "a\\tb",
        "[x]",
        None,
    ]
    literals = ", ".join("NULL" if value is None else "'" + value.replace("'", "\\'") + "'" for value in values)
    lake.sql(
        "INSERT INTO lake.w.odd SELECT pos, col, timestamp'2025-01-01 10:00:00.5' "
        f"FROM (SELECT posexplode(array({literals})))"
    )
    for own, files in (("`$path`", "path"), ("_metadata.file_path", "file_path")):
        joined = f"SELECT t.id FROM lake.w.odd t JOIN lake.w.odd.files f ON t.{own} = f.{files} ORDER BY id"
        assert lake.rows(joined) == [(number,) for number in range(len(values))]
    listed = lake.spark.table("lake.w.odd").inputFiles()
    assert sorted(listed) == sorted(str(p) for (p,) in lake.rows("SELECT DISTINCT input_file_name() FROM lake.w.odd"))
    assert len(listed) == len(values)
    # As on the store, for who reads there by other means; Trino has it so.
    (path,) = lake.rows("SELECT `$path` FROM lake.w.odd WHERE k = 'a b'")[0]
    assert "/k=a b/at=2025-01-01 10%3A00%3A00.5/" in str(path)
    assert lake.rows(f"SELECT id FROM lake.w.odd WHERE `$path` = '{path}'") == [(0,)]


def test_history_transactions_and_repairs(lake: Lake) -> None:
    table = external(lake, "repaired", {"k": "int"})
    lake.sql(f"INSERT INTO {table} (id, v, k) VALUES (1, 'a', 1)")
    (lake.folder / "repaired" / "k=2").mkdir()
    (lake.folder / "repaired" / "stray").write_text("x")
    before = lake.sql(f"SELECT * FROM {table}.repairs").count()
    lake.sql(f"MSCK REPAIR TABLE {table}")
    lake.sql("CALL lake.system.repair_partitions(table => 'w.repaired', mode => 'sync', dry_run => true)")
    lake.sql("CALL lake.system.repair_partitions(table => 'w.repaired', mode => 'sync', where => 'k > 1')")
    rows = [row.asDict() for row in lake.sql(f"SELECT * FROM {table}.repairs").collect()]
    idle, added = rows[: len(rows) - before]
    assert (idle["mode"], idle["where"], idle["strict"], idle["added"], idle["error"]) == (
        "sync", "k > 1", False, 0, None,
    )  # fmt: skip
    assert (added["mode"], added["added"], added["skipped"]) == ("add", 1, 1)
    assert (added["version_before"] + 1, added["version_after"]) == (added["version_after"], idle["version_before"])
    assert idle["began_at"] >= added["began_at"]
    assert idle["duration_ms"] >= 0
    history = f"SELECT operation FROM {table}.history h LEFT JOIN {table}.repairs r ON h.version = r.version_after"
    assert ("repair",) in lake.rows(f"{history} WHERE r.added > 0")


def test_the_history_names_the_sessions_user(lake: Lake) -> None:
    assert lake.rows(f"SELECT DISTINCT user FROM {T}.history") == lake.rows("SELECT current_user()")
    context = lake.spark._jvm.org.apache.spark.sql.catalyst.CurrentUserContext.CURRENT_USER()
    spark = lake.spark.sparkContext
    tags = "a,SparkConnect_OperationTag_User_{}_Session_1_Operation_2,SparkConnect_Execution_User_x_Session_1_Tag_t"
    wanted = []
    try:
        for number, name in enumerate(("Zoë O'Neil/+%, ☃😀", "a\tb", "x" * 200, " ", "ada")):
            context.set(name)
            # An owner's name has its user before a slash.
            wanted.append(name.replace("\t", "?").replace("/", "_")[:128].strip())
            lake.sql(f"INSERT INTO {T} (id, v, ds, region) VALUES ({number}, 'u', DATE '2031-01-01', 'users')")
        # A client of Spark Connect goes before the user of its server.
        spark.setLocalProperty("spark.job.tags", tags.format("grace_Session_x"))
        wanted.append("grace_Session_x")
        lake.sql(f"DELETE FROM {T} WHERE ds = DATE '2031-01-01'")
    finally:
        spark.setLocalProperty("spark.job.tags", None)
        context.remove()
    own = getpass.getuser()
    newest = lake.rows(f"SELECT user FROM {T}.history ORDER BY version DESC LIMIT {len(wanted)}")
    assert [user for (user,) in reversed(newest)] == [name or own for name in wanted]


def test_metadata_tables_are_described_and_read_only(lake: Lake) -> None:
    described = {row[0]: row[1] for row in lake.rows(f"DESCRIBE {T}.files")}
    assert described["values"] == "struct<ds:date,region:string>"
    assert described["statistics"] == "map<string,struct<min:string,max:string,nulls:bigint>>"
    for statement in (
        f"INSERT INTO {T}.files SELECT * FROM {T}.files",
        f"DELETE FROM {T}.partitions WHERE files = 0",
        f"DROP TABLE {T}.repairs",
        f"ALTER TABLE {T}.history SET TBLPROPERTIES ('a' = 'b')",
    ):
        with pytest.raises(AnalysisException) as caught:
            lake.sql(statement)
        assert caught.value.getCondition() == "CATALOG_EXT_NOT_SUPPORTED", statement
        assert "metadata table" in str(caught.value)


def test_names(lake: Lake) -> None:
    for name in (f"{T}.nope", "trips.nope"):
        lake.sql("USE lake.w")
        try:
            known = "files, history, partition_history, partitions, repairs, skipped, tags, transactions"
            with pytest.raises(AnalysisException, match=known) as caught:
                lake.sql(f"SELECT * FROM {name}")
        finally:
            lake.sql("USE spark_catalog.default")
        assert caught.value.getCondition() == "CATALOG_EXT_METADATA_TABLE_NOT_FOUND"
    lake.sql("CREATE TABLE lake.w.partitions (own INT) ")
    assert lake.sql("SELECT * FROM lake.w.partitions").columns == ["own"]
    assert lake.rows("SELECT count(*) FROM lake.w.partitions.partitions") == [(0,)]


def test_keys_with_the_names_of_its_columns(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.w.clash (id INT, rows INT, path STRING) PARTITIONED BY (rows, path)")
    lake.sql("INSERT INTO lake.w.clash VALUES (1, 7, 'p'), (2, 8, 'q')")
    query = "SELECT rows, values.rows, values.path FROM lake.w.clash.files WHERE values.rows = 7"
    assert lake.rows(query) == [(1, 7, "p")]
    assert lake.rows("SELECT count(*) FROM lake.w.clash.files WHERE rows = 7 OR path = 'p'") == [(0,)]


def test_many_files_are_several_tasks(lake: Lake, tmp_path: Path) -> None:
    table = external(lake, "many", {"k": "int"})
    files = tuple(DataFile(f"{i}.parquet", 10, 0, 1) for i in range(5000))
    lake.catalog.index.commits.apply_changes(
        lake.catalog.load_table("w.many").table_id, [AddPartition("k=1", files)], operation="test", deliver=False
    )
    frame = lake.sql(f"SELECT path, size FROM {table}.files")
    assert frame.rdd.getNumPartitions() == 2
    assert lake.rows(f"SELECT count(*), count(DISTINCT path), sum(size) FROM {table}.files") == [(5000, 5000, 50000)]
    assert lake.rows(f"SELECT count(*) FROM {table}.files") == [(5000,)]


def test_instants_are_instants_whatever_timestamp_means_in_the_session(lake: Lake) -> None:
    query = f"SELECT typeof(committed_at), unix_millis(committed_at) FROM {T}.history ORDER BY 2"
    expected = lake.rows(query)
    assert expected[0][0] == "timestamp"
    lake.spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert lake.rows(query.replace("typeof(committed_at)", "'timestamp'")) == expected
        assert lake.spark.table(f"{T}.history").schema["committed_at"].dataType.simpleString() == "timestamp"
    finally:
        lake.spark.conf.unset("spark.sql.timestampType")


def test_describe_says_the_bytes_that_the_partitions_have(lake: Lake) -> None:
    ((said,),) = lake.sql(f"DESCRIBE EXTENDED {T}").where("col_name = 'Statistics'").select("data_type").collect()
    ((size,),) = lake.rows(f"SELECT sum(bytes) FROM {T}.partitions")
    assert str(said).startswith(f"{size} bytes")
