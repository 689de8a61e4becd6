"""The partition statements and the statistics of Flink's FLIP-63, and ANALYZE, on a real service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from tests.integration.lake import Sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.spark_driver import Driver


pytestmark = pytest.mark.spark

VIEWS = "(user STRING, cnt INT) PARTITIONED BY (date STRING, country STRING) STORED AS PARQUET"
PARTITIONS = ["date=2019-8-29/country=usa", "date=2019-8-30/country=china", "date=2019-8-30/country=usa"]


@dataclass(frozen=True)
class Lake(Sql):
    """The session, and where the warehouse is."""

    warehouse: Path

    def partitions(self, table: str) -> list[object]:
        return [row[0] for row in self.rows(f"SHOW PARTITIONS lake.s.{table}")]

    def condition(self, statement: str) -> str | None:
        error = self.error(statement)
        assert isinstance(error, AnalysisException), error
        return error.getCondition()

    def folder(self, table: str, partition: str) -> Path:
        return self.warehouse / "s.db" / table / partition


@pytest.fixture(scope="module")
def session(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("flink")
    with driver.catalog(
        {"spark.sql.cbo.enabled": "true"}, warehouse=str(folder / "w"), index=f"sqlite:///{folder}/index.db",
        metastore=None,
    ) as spark:  # fmt: skip
        spark.sql("CREATE NAMESPACE lake.s")
        yield Lake(spark, folder / "w")


@pytest.fixture
def lake(session: Lake) -> Lake:
    """The table ``page_view`` of three partitions, and the empty ``other`` of the same columns."""
    for name in ("page_view", "other"):
        session.sql(f"DROP TABLE IF EXISTS lake.s.{name}")
        session.sql(f"CREATE TABLE lake.s.{name} {VIEWS}")
    session.sql(
        "INSERT INTO lake.s.page_view VALUES ('a', 1, '2019-8-30', 'china'), ('b', 2, '2019-8-30', 'usa'), "
        "('c', 3, '2019-8-29', 'usa')"
    )
    return session


class TestPartitionSql:
    @pytest.mark.requirement("Flink.StaticInsert")
    @pytest.mark.requirement("Flink.StaticWrite")
    @pytest.mark.requirement("Flink.CreatedAutomatically")
    @pytest.mark.requirement("Flink.SingleValueList")
    def test_static_insert(self, lake: Lake) -> None:
        lake.sql(
            "INSERT INTO TABLE lake.s.other PARTITION (date='2019-8-30', country='china') "
            "SELECT user, cnt FROM lake.s.page_view"
        )
        lake.sql("INSERT INTO TABLE lake.s.other PARTITION (date='2019-8-30', country='china') SELECT 'z', 9")
        assert lake.partitions("other") == PARTITIONS[1:2]
        assert lake.rows("SELECT count(*) FROM lake.s.other") == [(4,)]
        lake.sql("INSERT OVERWRITE TABLE lake.s.other PARTITION (date='2019-8-30', country='china') SELECT 'y', 8")
        assert lake.rows("SELECT user, cnt FROM lake.s.other") == [("y", 8)]

    @pytest.mark.requirement("Flink.DynamicInsert")
    @pytest.mark.requirement("Flink.DynamicWrite")
    def test_dynamic_insert(self, lake: Lake) -> None:
        lake.sql("INSERT INTO TABLE lake.s.other SELECT user, cnt, date, country FROM lake.s.page_view")
        assert lake.partitions("other") == PARTITIONS
        lake.sql(
            "INSERT INTO TABLE lake.s.other PARTITION (date, country) "
            "SELECT user, cnt, date, country FROM lake.s.page_view"
        )
        assert lake.rows("SELECT count(*) FROM lake.s.other") == [(6,)]

    @pytest.mark.requirement("Flink.PartialInsert")
    def test_partly_static_insert(self, lake: Lake) -> None:
        lake.sql(
            "INSERT INTO TABLE lake.s.other PARTITION (date='2019-8-31') "
            "SELECT user, cnt, country FROM lake.s.page_view"
        )
        assert lake.partitions("other") == ["date=2019-8-31/country=china", "date=2019-8-31/country=usa"]

    @pytest.mark.requirement("Flink.DynamicOverwrite")
    def test_dynamic_overwrite_replaces_what_receives_rows(self, lake: Lake) -> None:
        lake.sql("INSERT OVERWRITE TABLE lake.s.page_view PARTITION (date='2019-8-30') SELECT 'n', 7, 'usa'")
        assert lake.rows("SELECT user FROM lake.s.page_view ORDER BY user") == [("a",), ("c",), ("n",)]

    @pytest.mark.requirement("Flink.External", statement="ALTER TABLE lake.s.page_view ADD PARTITION")
    @pytest.mark.requirement(
        "Flink.CatalogProperties",
        statement="ALTER TABLE lake.s.page_view PARTITION",
        differs="A partition can have its own location; its format and SerDe are those of the table.",
    )
    def test_data_that_is_there_already(self, lake: Lake, tmp_path: Path) -> None:
        for folder, user in (("x", "e"), ("y", "f")):
            select = f"SELECT '{user}' AS user, 5 AS cnt"
            lake.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/{folder}' USING parquet {select}")
        lake.sql(
            f"ALTER TABLE lake.s.page_view ADD PARTITION (date='2019-8-31', country='china') LOCATION '{tmp_path}/x'"
        )
        assert lake.rows("SELECT * FROM lake.s.page_view WHERE user = 'e'") == [("e", 5, "2019-8-31", "china")]
        lake.sql(
            f"ALTER TABLE lake.s.page_view PARTITION (date='2019-8-30', country='usa') SET LOCATION '{tmp_path}/y'"
        )
        assert lake.rows("SELECT user FROM lake.s.page_view WHERE date = '2019-8-30' AND country = 'usa'") == [("f",)]

    @pytest.mark.requirement("Flink.PruningByCatalog", statement="SELECT user FROM")
    def test_a_query_gets_what_its_filter_leaves(self, lake: Lake) -> None:
        for name in (PARTITIONS[0], PARTITIONS[2]):
            for file in lake.folder("page_view", name).glob("*.parquet"):
                file.unlink()
        assert lake.rows("SELECT user FROM lake.s.page_view WHERE country LIKE 'chi%'") == [("a",)]
        with pytest.raises(PySparkException, match="CATALOG_EXT_FILE_MISSING"):
            lake.rows("SELECT user FROM lake.s.page_view")


class TestPartitionCommands:
    @pytest.mark.requirement("Flink.AddPartition")
    def test_add(self, lake: Lake) -> None:
        lake.sql(
            "ALTER TABLE lake.s.other ADD PARTITION (date='2019-8-30', country='china'), "
            "PARTITION (date='2019-8-30', country='usa')"
        )
        assert lake.partitions("other") == PARTITIONS[1:]
        again = (
            "ALTER TABLE lake.s.other ADD PARTITION (date='1', country='x') PARTITION (country='usa', date='2019-8-30')"
        )
        assert lake.condition(again) == "CATALOG_EXT_PARTITION_ALREADY_EXISTS"
        assert lake.partitions("other") == PARTITIONS[1:]
        lake.sql(again.replace("ADD", "ADD IF NOT EXISTS"))
        assert lake.partitions("other") == ["date=1/country=x", *PARTITIONS[1:]]

    @pytest.mark.requirement("Flink.RenamePartition")
    def test_rename(self, lake: Lake) -> None:
        old, new = "(date='2019-8-30', country='china')", "(date='2019-8-31', country='prc')"
        lake.sql(
            "ALTER TABLE lake.s.page_view PARTITION (date='2019-8-30', country='china') "
            "RENAME TO PARTITION (date='2019-8-31', country='prc')"
        )
        assert lake.rows("SELECT user FROM lake.s.page_view WHERE country = 'prc'") == [("a",)]
        rename = f"ALTER TABLE lake.s.page_view PARTITION {old} RENAME TO PARTITION {new}"
        assert lake.condition(rename) == "CATALOG_EXT_PARTITION_NOT_FOUND"
        onto = f"ALTER TABLE lake.s.page_view PARTITION {new} RENAME TO PARTITION (date='2019-8-29', country='usa')"
        assert lake.condition(onto) == "CATALOG_EXT_PARTITION_ALREADY_EXISTS"

    @pytest.mark.requirement("Flink.ExchangePartition")
    @pytest.mark.requirement("Flink.ExchangePartitions", statement="ALTER TABLE lake.s.page_view EXCHANGE")
    def test_exchange(self, lake: Lake) -> None:
        lake.sql("ALTER TABLE lake.s.other EXCHANGE PARTITION (date='2019-8-30') WITH TABLE lake.s.page_view")
        assert (lake.partitions("other"), lake.partitions("page_view")) == (PARTITIONS[1:], PARTITIONS[:1])
        assert lake.rows("SELECT user FROM lake.s.other ORDER BY user") == [("a",), ("b",)]
        lake.sql(
            "ALTER TABLE lake.s.page_view EXCHANGE PARTITION ((date='2019-8-30', country='china'), (country='usa')) "
            "WITH TABLE lake.s.other"
        )
        assert (lake.partitions("other"), lake.partitions("page_view")) == ([], PARTITIONS)
        gone = "ALTER TABLE lake.s.page_view EXCHANGE PARTITION (country='usa') WITH TABLE lake.s.other"
        assert lake.condition(gone) == "CATALOG_EXT_PARTITION_NOT_FOUND"

    def test_exchange_with_other_columns(self, lake: Lake) -> None:
        lake.sql("CREATE TABLE lake.s.wide (user STRING, cnt BIGINT) PARTITIONED BY (date STRING, country STRING)")
        try:
            exchange = "ALTER TABLE lake.s.wide EXCHANGE PARTITION (country='usa') WITH TABLE lake.s.page_view"
            assert lake.condition(exchange) == "CATALOG_EXT_SCHEMA_MISMATCH"
        finally:
            lake.sql("DROP TABLE lake.s.wide")

    @pytest.mark.requirement("Flink.DropPartition")
    def test_drop(self, lake: Lake) -> None:
        lake.sql(
            "ALTER TABLE lake.s.page_view DROP PARTITION (date='2019-8-29'), "
            "PARTITION (date='2019-8-30', country='usa')"
        )
        assert lake.partitions("page_view") == PARTITIONS[1:2]
        assert not lake.folder("page_view", PARTITIONS[0]).exists()
        missing = "ALTER TABLE lake.s.page_view DROP PARTITION (country='china'), PARTITION (country < 'b')"
        assert lake.condition(missing) == "CATALOG_EXT_PARTITION_NOT_FOUND"
        assert lake.partitions("page_view") == PARTITIONS[1:2]
        lake.sql(missing.replace("DROP", "DROP IF EXISTS"))
        assert lake.partitions("page_view") == []

    def test_a_cached_table_is_read_again(self, lake: Lake) -> None:
        lake.sql("CACHE TABLE lake.s.page_view")
        assert lake.rows("SELECT count(*) FROM lake.s.page_view") == [(3,)]
        lake.sql("ALTER TABLE lake.s.page_view DROP PARTITION (country > 'china')")
        assert lake.rows("SELECT count(*) FROM lake.s.page_view") == [(1,)]
        lake.sql("UNCACHE TABLE lake.s.page_view")

    @pytest.mark.requirement(
        "Flink.ShowPartitions",
        differs="SHOW PARTITIONS orders by the keys' typed values; for STRING keys this is alphabetical.",
    )
    @pytest.mark.requirement("Flink.ShowPartitionsOf", statement="SHOW PARTITIONS lake.s.page_view PARTITION")
    def test_show(self, lake: Lake) -> None:
        assert lake.rows("SHOW PARTITIONS lake.s.page_view") == [(name,) for name in PARTITIONS]
        shown = lake.rows("SHOW PARTITIONS lake.s.page_view PARTITION(date='2019-8-30', country='usa')")
        assert shown == [(PARTITIONS[2],)]
        shown = lake.rows("SHOW PARTITIONS lake.s.page_view WHERE country = 'usa' ORDER BY date DESC LIMIT 1")
        assert shown == [(PARTITIONS[2],)]

    @pytest.mark.requirement("Flink.ShowTableExtended")
    def test_show_table_extended(self, lake: Lake) -> None:
        ((*names, details),) = lake.rows(
            "SHOW TABLE EXTENDED IN lake.s LIKE 'page_view' PARTITION(date='2019-8-30', country='usa')"
        )
        assert names == ["s", "page_view", False]
        assert f"Location: file://{lake.folder('page_view', PARTITIONS[2])}\n" in str(details)
        (whole,) = lake.rows("SHOW TABLE EXTENDED IN lake.s LIKE 'page*'")
        assert "Partition Columns: [`date`, `country`]" in str(whole[3])

    @pytest.mark.requirement("Flink.Describe", statement="DESCRIBE EXTENDED lake.s.page_view PARTITION")
    def test_describe(self, lake: Lake) -> None:
        rows = lake.rows("DESCRIBE EXTENDED lake.s.page_view PARTITION (date='2019-8-30', country='usa')")
        details = {row[0]: row[1] for row in rows}
        assert details["Partition Values"] == "[date=2019-8-30, country=usa]"
        assert details["Location"] == f"file://{lake.folder('page_view', PARTITIONS[2])}"
        assert str(details["Partition Statistics"]).endswith(" bytes, 1 rows")
        plain = lake.rows("DESCRIBE lake.s.page_view PARTITION (date='2019-8-30', country='usa')")
        assert ("country", "string", None) in plain
        assert "Location" not in {row[0] for row in plain}
        assert dict(lake.rows("DESCRIBE FORMATTED lake.s.page_view cnt"))["data_type"] == "int"
        missing = "DESCRIBE lake.s.page_view PARTITION (date='2019-8-30', country='peru')"
        assert lake.condition(missing) == "CATALOG_EXT_PARTITION_NOT_FOUND"

    @pytest.mark.requirement("Flink.Recover", statement="MSCK REPAIR TABLE")
    @pytest.mark.requirement("Flink.SyncPartitions", statement="MSCK REPAIR TABLE lake.s.page_view SYNC")
    def test_recover(self, lake: Lake) -> None:
        found = lake.folder("page_view", PARTITIONS[0])
        found.rename(found.parent / "country=peru")
        lake.sql("MSCK REPAIR TABLE lake.s.page_view")
        assert lake.partitions("page_view") == ["date=2019-8-29/country=peru", *PARTITIONS]
        lake.sql("MSCK REPAIR TABLE lake.s.page_view SYNC PARTITIONS")
        assert lake.partitions("page_view") == ["date=2019-8-29/country=peru", *PARTITIONS[1:]]


class TestStatistics:
    @pytest.mark.requirement("Flink.Statistics", statement="ANALYZE TABLE")
    def test_the_planner_uses_them_until_the_table_changes(self, lake: Lake) -> None:
        lake.sql("ANALYZE TABLE lake.s.page_view COMPUTE STATISTICS FOR ALL COLUMNS")
        described = dict(lake.rows("DESCRIBE EXTENDED lake.s.page_view cnt"))
        assert (described["min"], described["max"], described["distinct_count"]) == ("1", "3", "3")
        query = "EXPLAIN COST SELECT * FROM lake.s.page_view WHERE cnt = 2"
        assert "rowCount=1)" in str(lake.rows(query)[0][0]).partition("RelationV2")[0]
        # Statistics are no properties of the user's.
        assert "statistics" not in str(lake.rows("SHOW TBLPROPERTIES lake.s.page_view"))
        assert "statistics" not in str(lake.rows("SHOW CREATE TABLE lake.s.page_view"))
        lake.sql("INSERT INTO lake.s.page_view VALUES ('z', 9, '2019-8-30', 'usa')")
        assert dict(lake.rows("DESCRIBE EXTENDED lake.s.page_view cnt"))["max"] == "NULL"
        assert "rowCount=1)" not in str(lake.rows(query)[0][0]).partition("RelationV2")[0]

    @pytest.mark.parametrize("file_format", ["parquet", "orc", "csv"])
    def test_uncounted_rows_are_counted_by_the_query(self, lake: Lake, tmp_path: Path, file_format: str) -> None:
        frame = lake.spark.range(7).selectExpr("id", "IF(id = 0, 'a b%', 'c') AS k")
        frame.repartition(1).write.partitionBy("k").format(file_format).save(f"{tmp_path}/t")
        name = f"lake.s.{file_format}"
        lake.sql(
            f"CALL lake.system.register_table(table => '{name}', location => '{tmp_path}/t', "
            f"format => '{file_format}', "
            "schema => 'id BIGINT', partition_columns => map('k', 'STRING'))"
        )
        lake.sql(f"MSCK REPAIR TABLE {name}")
        assert lake.rows(f"SELECT DISTINCT rows FROM {name}.files") == [(None,)]
        lake.sql(f"ANALYZE TABLE {name} PARTITION (k = 'a b%') COMPUTE STATISTICS")
        assert set(lake.rows(f"SELECT rows FROM {name}.files")) >= {(1,)}
        lake.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS")
        assert sorted(lake.rows(f"SELECT rows FROM {name}.files")) == [(1,), (6,)]
        lake.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS id, k")
        described = dict(lake.rows(f"DESCRIBE EXTENDED {name} id"))
        assert (described["min"], described["max"], described["num_nulls"]) == ("0", "6", "0")

    def test_a_file_that_is_gone(self, lake: Lake, tmp_path: Path) -> None:
        lake.spark.range(2).selectExpr("id", "id AS k").write.partitionBy("k").parquet(f"{tmp_path}/t")
        lake.sql(f"CALL lake.system.register_table(table => 's.gone', location => '{tmp_path}/t')")
        lake.sql("MSCK REPAIR TABLE lake.s.gone")
        next((tmp_path / "t" / "k=1").glob("*.parquet")).unlink()
        with pytest.raises(PySparkException) as caught:
            lake.sql("ANALYZE TABLE lake.s.gone COMPUTE STATISTICS")
        assert caught.value.getCondition() == "CATALOG_EXT_FILE_MISSING"
        assert "partition 'k=1'" in str(caught.value)
        assert lake.rows("SELECT DISTINCT rows FROM lake.s.gone.files") == [(None,)]

    def test_only_files_without_a_count_are_read(self, lake: Lake, tmp_path: Path) -> None:
        """A file that the statement does not need is gone from the store."""
        lake.spark.range(3).selectExpr("id", "IF(id = 0, 0, 1) AS k").write.partitionBy("k").csv(f"{tmp_path}/t")
        lake.sql(
            f"CALL lake.system.register_table(table => 's.texts', location => '{tmp_path}/t', format => 'csv', "
            "schema => 'id BIGINT', partition_columns => map('k', 'INT'))",
            "MSCK REPAIR TABLE lake.s.texts",
        )

        def counts() -> list[tuple[object, ...]]:
            return lake.rows("SELECT `partition`, rows FROM lake.s.texts.partitions ORDER BY 1")

        def hide(k: int, *, back: bool = False) -> None:
            there, hidden = tmp_path / "t" / f"k={k}", tmp_path / f"hidden{k}"
            (hidden if back else there).rename(there if back else hidden)

        hide(1)
        lake.sql("ANALYZE TABLE lake.s.texts PARTITION (k = 0) COMPUTE STATISTICS")
        assert counts() == [("k=0", 1), ("k=1", None)]
        assert lake.error("ANALYZE TABLE lake.s.texts COMPUTE STATISTICS").getCondition() == "CATALOG_EXT_FILE_MISSING"
        hide(1, back=True)
        hide(0)
        lake.sql("ANALYZE TABLE lake.s.texts COMPUTE STATISTICS")
        assert counts() == [("k=0", 1), ("k=1", 2)]

    def test_what_cannot_be_analysed(self, lake: Lake) -> None:
        table = "ANALYZE TABLE lake.s.page_view"
        for clause, condition in [
            ("PARTITION (date='1999-1-1') COMPUTE STATISTICS", "PARTITION_NOT_FOUND"),
            ("PARTITION (q) COMPUTE STATISTICS NOSCAN", "INVALID_PARTITION_SPEC"),
            ("COMPUTE STATISTICS FOR COLUMNS q", "COLUMN_NOT_FOUND"),
        ]:
            assert lake.condition(f"{table} {clause}") == f"CATALOG_EXT_{condition}"
        lake.sql(f"{table} PARTITION (date='2019-8-30', country) COMPUTE STATISTICS NOSCAN")
        lake.sql("ANALYZE TABLES IN lake.s COMPUTE STATISTICS NOSCAN")
