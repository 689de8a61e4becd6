"""What ClickHouse's SRS-045 says of reading, as ``docs/spec/semantics.md`` adapts it, on S3.

Plain Spark writes the data, so that nothing of ours has a part in the layout.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

import catalog_ext
from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql
from tests.integration.scans import files_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.spark_driver import Driver
    from tests.servers.stores import S3Server


pytestmark = [pytest.mark.spark, pytest.mark.slow]

DAYS = [f"2025-01-{day:02}" for day in range(1, 9)]


@dataclass(frozen=True)
class Reads(Sql):
    """A session with registered tables on a bucket."""

    store: S3Server
    bucket: str

    def register(self, name: str, **more: str) -> str:
        """The repaired table ``lake.s.<name>`` of what lies below the bucket's folder of that name."""
        table = f"lake.s.{name}"
        sessions.active_catalog(table).register_table(table, location=f"s3a://{self.bucket}/{name}", **more)
        catalog_ext.repair_partitions(table)
        return table

    def files(self, query: str) -> int:
        """The files that the query's scan reads."""
        frame = self.spark.sql(query)
        frame.collect()
        return files_read(frame)


@pytest.fixture(scope="module")
def reads(driver: Driver, s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reads]:
    bucket = s3_server.make_bucket(f"reads-{secrets.token_hex(4)}")
    storage = {
        "endpoint": s3_server.endpoint, "access_key": s3_server.access_key, "secret_key": s3_server.secret_key,
        "region": s3_server.region, "path_style": "true",
    }  # fmt: skip
    index = tmp_path_factory.mktemp("srs045-reads") / "i.db"
    with driver.catalog(
        warehouse=f"s3a://{bucket}/warehouse", index=str(index), metastore=None, storage=storage
    ) as spark:
        spark.sql("CREATE NAMESPACE lake.s")
        made = Reads(spark, s3_server, bucket)
        sales = [(day, n, float(n)) for n, day in enumerate(DAYS)]
        frame = spark.createDataFrame(sales, "`date` STRING, id INT, price DOUBLE")
        frame.coalesce(1).write.partitionBy("date").parquet(f"s3a://{bucket}/sales")
        trips = [("London", 1), ("Berlin", 2), ("Berlin", 3)]
        spark.createDataFrame(trips, "city STRING, id INT").coalesce(1).write.partitionBy("city").parquet(
            f"s3a://{bucket}/trips"
        )
        made.register("sales")
        made.register("trips")
        yield made


@pytest.mark.requirement("RQ.HivePartitioning.Support")
@pytest.mark.requirement("RQ.HivePartitioning.TableEngines.S3", statement="CALL")
def test_directories_of_a_registered_path_are_virtual_columns(reads: Reads) -> None:
    reads.spark.range(2).coalesce(1).write.parquet(f"s3a://{reads.bucket}/support/date=2025-01-03")
    reads.spark.sql(
        f"CALL lake.system.register_table(table => 's.support', location => 's3a://{reads.bucket}/support')"
    ).collect()
    reads.spark.sql("MSCK REPAIR TABLE lake.s.support")
    assert reads.rows("SELECT `date`, id FROM lake.s.support WHERE id = 1") == [("2025-01-03", 1)]


@pytest.mark.requirement("RQ.HivePartitioning.EnableSetting")
@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.HiveDisabled", statement="SELECT count")
def test_the_setting_takes_virtual_columns_away_and_gives_them_back(reads: Reads) -> None:
    reads.spark.sql("SET use_hive_partitioning = 0")
    try:
        with pytest.raises(AnalysisException) as caught:
            reads.rows("SELECT count(*) FROM lake.s.sales WHERE `date` = '2025-01-02'")
        assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert reads.rows("SELECT count(*), max(id) FROM lake.s.sales") == [(8, 7)]
    finally:
        reads.spark.sql("SET use_hive_partitioning = 1")
    assert reads.rows("SELECT count(*) FROM lake.s.sales WHERE `date` = '2025-01-02'") == [(1,)]


@pytest.mark.requirement("RQ.HivePartitioning.Generic.Pruning")
def test_only_chosen_partitions_are_read_and_nothing_is_listed(reads: Reads) -> None:
    whole = reads.files("SELECT sum(price) FROM lake.s.sales")
    lists = reads.store.list_requests()
    one = reads.files("SELECT sum(price) FROM lake.s.sales WHERE `date` = '2025-01-02'")
    assert reads.rows("SELECT * FROM lake.s.sales WHERE `date` = '2025-01-02'") == [(1, 1.0)]
    assert (whole, one) == (len(DAYS), 1)
    assert reads.store.list_requests() == lists


@pytest.mark.requirement(
    "RQ.HivePartitioning.Generic.Performance",
    differs="Without virtual columns a query cannot filter by the key, so the test compares with a "
    "filter on a data column. It compares the files that are read, not times.",
)
def test_a_filter_on_a_key_costs_less_than_one_on_a_column(reads: Reads) -> None:
    pruned = reads.files("SELECT sum(price) FROM lake.s.sales WHERE `date` >= '2025-01-07'")
    reads.spark.sql("SET use_hive_partitioning = 0")
    try:
        unpruned = reads.files("SELECT sum(price) FROM lake.s.sales WHERE id + 0 >= 6")
    finally:
        reads.spark.sql("SET use_hive_partitioning = 1")
    assert reads.rows("SELECT sum(price) FROM lake.s.sales WHERE `date` >= '2025-01-07'") == [(13.0,)]
    assert (pruned, unpruned) == (2, len(DAYS))


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns")
def test_each_key_of_the_path_is_a_column(reads: Reads) -> None:
    assert reads.rows("SELECT DISTINCT city FROM lake.s.trips ORDER BY city") == [("Berlin",), ("London",)]


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.Appearance")
def test_virtual_columns_are_not_in_select_star(reads: Reads) -> None:
    assert reads.spark.sql("SELECT * FROM lake.s.trips").columns == ["id"]
    assert reads.spark.table("lake.s.trips").columns == ["id"]


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.Accessibility")
def test_virtual_columns_work_wherever_they_are_named(reads: Reads) -> None:
    assert reads.rows(
        "SELECT city, count(*) FROM lake.s.trips WHERE city <> 'X' GROUP BY city HAVING max(city) > 'A' ORDER BY city"
    ) == [("Berlin", 2), ("London", 1)]
    assert reads.rows(
        "SELECT t.id, u.city FROM lake.s.trips t JOIN lake.s.trips u ON t.city = u.city AND t.id < u.id"
    ) == [(2, "Berlin")]


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.InvalidPath", statement="CALL")
@pytest.mark.parametrize(
    ("place", "keys", "code"),
    [
        ("nowhere", "NULL", "CATALOG_EXT_LOCATION_NOT_FOUND"),
        ("sales", "map('day', 'STRING')", "CATALOG_EXT_TABLE_LAYOUT"),
        ("sales", "map('date', 'STRING', 'city', 'STRING')", "CATALOG_EXT_TABLE_LAYOUT"),
    ],
)
def test_paths_that_are_not_what_they_should_be(reads: Reads, place: str, keys: str, code: str) -> None:
    with pytest.raises(AnalysisException) as caught:
        reads.spark.sql(
            f"CALL lake.system.register_table(table => 's.wrong', location => 's3a://{reads.bucket}/{place}', "
            f"partition_columns => {keys})"
        ).collect()
    assert caught.value.getCondition() == code
    assert place in str(caught.value)
    assert not reads.spark.catalog.tableExists("lake.s.wrong")


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.NameConflict", statement="SELECT")
def test_a_column_of_the_table_wins_over_the_path(reads: Reads) -> None:
    inside = reads.spark.createDataFrame([(1, "inside")], "id INT, `date` STRING")
    inside.write.parquet(f"s3a://{reads.bucket}/events/date=2024-01-01")
    table = reads.register("events", schema="id INT, `date` STRING")
    assert reads.rows(f"SELECT date FROM {table} WHERE id = 1") == [("inside",)]
    assert reads.rows(f"SELECT count(*) FROM {table} WHERE date = '2024-01-01'") == [(0,)]
    assert reads.spark.table(table).columns == ["id", "date"]


@pytest.mark.requirement("RQ.HivePartitioning.VirtualColumns.NonExistingKey")
def test_a_key_that_exists_nowhere(reads: Reads) -> None:
    with pytest.raises(AnalysisException, match=r"Did you mean .*`id`") as caught:
        reads.rows("SELECT region FROM lake.s.trips")
    assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"


@pytest.mark.requirement("RQ.HivePartitioning.HivePartitionValue", statement="SELECT DISTINCT")
def test_values_are_strings_without_type_inference(reads: Reads) -> None:
    for value in ("2024-01-01", "123", "007", "true"):
        reads.spark.range(1).coalesce(1).write.parquet(f"s3a://{reads.bucket}/kinds/v={value}")
    table = reads.register("kinds")
    rows = reads.rows(f"SELECT DISTINCT v, typeof(v) FROM {table} ORDER BY v")
    assert rows == [("007", "string"), ("123", "string"), ("2024-01-01", "string"), ("true", "string")]
    assert reads.rows(f"SELECT count(*) FROM {table} WHERE v = '7'") == [(0,)]
    assert reads.rows(f"SELECT count(*) FROM {table} WHERE TRY_CAST(v AS DATE) = DATE '2024-01-01'") == [(1,)]


@pytest.mark.requirement(
    "RQ.HivePartitioning.HivePartitionValue.EmptyValue",
    statement="SELECT city",
    differs="A directory without a value is '' for a STRING key, NULL for keys of other types. The "
    "metastore cannot have such a partition; repair reports this.",
)
def test_a_directory_without_a_value(reads: Reads) -> None:
    reads.spark.range(1).coalesce(1).write.parquet(f"s3a://{reads.bucket}/empty/city=")
    table = reads.register("empty")
    assert reads.rows(f"SELECT city FROM {table}") == [("",)]
    assert reads.rows(f"SELECT count(*) FROM {table} WHERE city = ''") == [(1,)]
