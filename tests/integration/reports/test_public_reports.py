"""Public bug reports about Hive-style tables in other engines, restated on tables of ours.

``docs/public-reports.md`` is made of the markers and docstrings here (``python -m tests.integration.reports.page``).
"""

from __future__ import annotations

import datetime
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql
from tests.integration.spark_driver import HIVE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.thrift.connect import MetastoreClient
    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveMetastore

pytestmark = pytest.mark.spark

DB = "reports"
NULL_NAME = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Reports(Sql):
    """A session with Hive support whose catalog ``lake`` has the same metastore as Spark's own catalog."""

    catalog: Catalog
    hive: MetastoreClient
    folder: Path

    def parquet(self, table: str, files: Mapping[str, pa.Table]) -> Path:
        """Write Parquet files, by their paths below the table's folder, and return that folder."""
        root = self.folder / table
        for path, rows in files.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows, target)
        return root

    def in_metastore(self, table: str) -> list[list[str]]:
        """The values of the partitions that the metastore has."""
        return sorted(list(partition.values) for partition in self.hive.partitions(DB, table))

    def registered(self, table: str, root: Path, keys: Mapping[str, str] | None = None, **arguments: str) -> str:
        """Register and repair a folder of Parquet files; return the table's name in SQL."""
        arguments = {"format": "parquet", **arguments}
        self.catalog.register_table(
            f"{DB}.{table}", location=str(root), partition_columns=None if keys is None else dict(keys), **arguments
        )
        self.catalog.repair_partitions(f"{DB}.{table}")
        return f"lake.{DB}.{table}"


@pytest.fixture(scope="module")
def reports(
    driver: Driver, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Reports]:
    folder = tmp_path_factory.mktemp("reports")
    hive = connect(hive_metastore.uri)
    conf = {**HIVE, "spark.hadoop.hive.metastore.uris": hive_metastore.uri}
    with driver.catalog(
        conf, warehouse=str(folder / "warehouse"), index=str(folder / "i.db"), metastore=hive_metastore.uri
    ) as spark:
        spark.sql(f"CREATE DATABASE lake.{DB}")
        yield Reports(spark, sessions.active_catalog("lake"), hive, folder)
        spark.sql(f"DROP DATABASE lake.{DB} CASCADE")
    hive.close()


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int32())})


@pytest.mark.report("apache/arrow#39938")
def test_null_and_empty_keys_of_a_write_read_back(reports: Reports) -> None:
    """NULL and '' as partition values do not read back as written. (Here the empty string is written as NULL, as in
    Hive.)
    """
    t = f"lake.{DB}.empties"
    reports.sql(
        f"CREATE TABLE {t} (c STRING, a STRING, b STRING) USING parquet PARTITIONED BY (a, b)",
        f"INSERT INTO {t} VALUES ('E', '', NULL), ('F', NULL, ''), ('G', 'x', '')",
    )
    assert sorted(reports.rows(f"SELECT c, a, b FROM {t}")) == [("E", None, None), ("F", None, None), ("G", "x", None)]
    assert reports.rows(f"SELECT count(*) FROM {t} WHERE b IS NULL") == [(3,)]


@pytest.mark.report("dask/dask#9435")
@pytest.mark.report("apache/arrow#12416")
@pytest.mark.report("apache/iceberg#15332")
@pytest.mark.parametrize(("kind", "value"), [("INT", "7"), ("BIGINT", "9223372036854775807"), ("DATE", "2024-02-29")])
def test_default_partition_of_a_typed_key_is_null(reports: Reports, kind: str, value: str) -> None:
    """The default partition (NULL) of an INT, BIGINT or DATE key cannot be read, or IS NULL finds no rows although the
    total counts them.
    """
    name = f"nulls_{kind.lower()}"
    root = reports.parquet(name, {f"k={value}/a.parquet": ids(1), f"k={NULL_NAME}/b.parquet": ids(2, 3)})
    t = reports.registered(name, root, {"k": kind})
    assert reports.rows(f"SELECT count(*) FROM {t}") == [(3,)]
    assert sorted(reports.rows(f"SELECT id FROM {t} WHERE k IS NULL")) == [(2,), (3,)]
    assert reports.rows(f"SELECT id FROM {t} WHERE k IS NOT NULL") == [(1,)]
    assert reports.rows(f"SELECT count(k), count(DISTINCT k) FROM {t}") == [(1, 1)]


@pytest.mark.report("apache/arrow#38804")
def test_key_with_a_nul_character_is_one_value(reports: Reports) -> None:
    """A filter on a partition value with a NUL character silently finds wrong rows."""
    t = f"lake.{DB}.nul"
    reports.sql(f"CREATE TABLE {t} (id INT, k STRING) USING parquet PARTITIONED BY (k)")
    reports.sql(f"INSERT INTO {t} VALUES (1, concat('a', chr(0), 'b')), (2, 'a'), (3, 'ab')")
    reports.catalog.deliver()
    assert sorted(reports.rows(f"SELECT id, k FROM {t}")) == [(1, "a\0b"), (2, "a"), (3, "ab")]
    assert reports.rows(f"SELECT id FROM {t} WHERE k = concat('a', chr(0), 'b')") == [(1,)]
    assert reports.rows(f"SELECT id FROM {t} WHERE k = 'a'") == [(2,)]
    assert reports.in_metastore("nul") == [["a"], ["a\0b"], ["ab"]]
    assert sorted(reports.rows(f"SELECT id, k FROM spark_catalog.{DB}.nul")) == [(1, "a\0b"), (2, "a"), (3, "ab")]


@pytest.mark.report("aws/aws-sdk-pandas#397")
def test_columns_in_another_case_in_files_are_found(reports: Reports) -> None:
    """A table whose columns are in lower case shows NULL for files whose columns are in mixed case."""
    mixed = pa.table({"userId": pa.array([1, 2]), "Total": pa.array([1.5, None])})
    root = reports.parquet("mixed_case", {"d=1/a.parquet": mixed})
    t = reports.registered("mixed_case", root, {"d": "INT"}, schema="userid BIGINT, total DOUBLE")
    assert sorted(reports.rows(f"SELECT userid, total FROM {t}")) == [(1, 1.5), (2, None)]
    assert reports.rows(f"SELECT userid FROM {t} WHERE total = 1.5") == [(1,)]
    assert reports.rows(f"SELECT count(total), max(userid) FROM {t}") == [(1, 2)]


@pytest.mark.report("aws/aws-sdk-pandas#586")
def test_overwrite_of_a_partition_elsewhere_leaves_no_row_behind(reports: Reports) -> None:
    """A partition was registered at a wrong location and is then overwritten: the table must show the new rows once."""
    elsewhere = reports.parquet("mistaken_prefix", {"a.parquet": ids(1, 2)})
    t = f"lake.{DB}.elsewhere"
    reports.sql(
        f"CREATE TABLE {t} (id INT, p STRING) USING parquet PARTITIONED BY (p)",
        f"INSERT INTO {t} VALUES (0, 'x')",
        f"ALTER TABLE {t} ADD PARTITION (p = 't') LOCATION '{elsewhere}'",
        f"INSERT OVERWRITE {t} PARTITION (p = 't') VALUES (9)",
    )
    assert sorted(reports.rows(f"SELECT id, p FROM {t}")) == [(0, "x"), (9, "t")]
    reports.sql(f"MSCK REPAIR TABLE {t} SYNC PARTITIONS")
    assert sorted(reports.rows(f"SELECT id, p FROM {t}")) == [(0, "x"), (9, "t")]


@pytest.mark.report("aws/aws-sdk-pandas#60")
def test_date_key_in_another_form_is_reported(reports: Reports) -> None:
    """Directories such as d=20240105 under a DATE key silently become NULL or wrong days."""
    root = reports.parquet("dates", {"d=2024-01-05/a.parquet": ids(1), "d=20240105/a.parquet": ids(2)})
    reports.catalog.register_table(
        f"{DB}.dates", location=str(root), format="parquet", partition_columns={"d": "DATE"}, schema="id INT"
    )
    report = reports.catalog.repair_partitions(f"{DB}.dates")
    assert [str(s.path).rpartition("dates/")[2].strip("/") for s in report.skipped] == ["d=20240105"]
    assert reports.rows(f"SELECT id, d FROM lake.{DB}.dates") == [(1, datetime.date(2024, 1, 5))]


@pytest.mark.report("apache/datafusion#23226")
@pytest.mark.report("apache/hudi#10754")
def test_escaped_keys_are_decoded_and_filtered(reports: Reports) -> None:
    """Partition values with '/', '=', '%', blanks or a slash at the end are shown encoded or mixed up, or a filter does
    not find them.
    """
    values = ["Electronics/Computers", "a=b", "100%", "with space", "end/", "a%2Fb", "partition=", "ü:?#[]"]
    t = f"lake.{DB}.escaped"
    reports.sql(f"CREATE TABLE {t} (id INT, k STRING) USING parquet PARTITIONED BY (k)")
    reports.spark.createDataFrame(list(enumerate(values)), "id INT, k STRING").writeTo(t).append()
    assert sorted(reports.rows(f"SELECT id, k FROM {t}")) == list(enumerate(values))
    for number, value in enumerate(values):
        assert reports.rows(f"SELECT id FROM {t} WHERE k = '{value}'") == [(number,)]
    plain = reports.rows(f"SELECT id, k FROM spark_catalog.{DB}.escaped")
    assert sorted(plain) == list(enumerate(values))


@pytest.mark.report("apache/datafusion#18083")
def test_file_at_the_root_and_empty_value_are_reported_or_null(reports: Reports) -> None:
    """A file outside all partitions, or a directory ``year=``, fails the query or appears as text in an INT column."""
    root = reports.parquet(
        "rootfile", {"year=2002/foo.parquet": ids(1), "baz.parquet": ids(2), "year=/baz.parquet": ids(3)}
    )
    reports.catalog.register_table(
        f"{DB}.rootfile", location=str(root), format="parquet", partition_columns={"year": "INT"}, schema="id INT"
    )
    report = reports.catalog.repair_partitions(f"{DB}.rootfile")
    assert [s.path.rpartition("/")[2] for s in report.skipped] == ["baz.parquet"]
    assert sorted(reports.rows(f"SELECT id, year FROM lake.{DB}.rootfile")) == [(1, 2002), (3, None)]


@pytest.mark.report("apache/datafusion#17049")
def test_keys_are_found_without_being_named(reports: Reports) -> None:
    """Partition columns in the paths are not found unless they are declared; the column count and filters on them are
    wrong.
    """
    root = reports.parquet(
        "overture", {"theme=addresses/type=address/a.parquet": ids(1), "theme=base/type=water/b.parquet": ids(2)}
    )
    t = reports.registered("overture", root)
    assert reports.rows(f"SELECT id, theme, type FROM {t} WHERE theme = 'base'") == [(2, "base", "water")]


@pytest.mark.report("apache/hudi#19668")
def test_default_partition_of_an_outer_key_reaches_the_metastore(reports: Reports) -> None:
    """One default partition (NULL) among date partitions makes the sync of the whole table with the metastore fail."""
    t = f"lake.{DB}.dated"
    reports.sql(
        f"CREATE TABLE {t} (id INT, d DATE, h INT) USING parquet PARTITIONED BY (d, h)",
        f"INSERT INTO {t} VALUES (1, DATE '2026-08-19', 1), (2, NULL, 2), (3, DATE '2026-08-19', NULL)",
    )
    plain = reports.rows(f"SELECT id, d, h FROM spark_catalog.{DB}.dated ORDER BY id")
    assert plain == [(1, datetime.date(2026, 8, 19), 1), (2, None, 2), (3, datetime.date(2026, 8, 19), None)]


@pytest.mark.report("apache/hudi#13516")
@pytest.mark.report("Eventual-Inc/Daft#4821")
@pytest.mark.report("delta-io/delta#4441")
def test_encoded_timestamps_are_values_in_the_metastore_and_in_queries(reports: Reports) -> None:
    """Directories such as ts=2025-06-10 05%3A00%3A00 become NULL, or stay percent-encoded in the metastore."""
    root = reports.parquet(
        "hours", {"ts=2025-06-10 05%3A00%3A00/a.parquet": ids(1), "ts=2025-06-10 06%3A30%3A00.5/a.parquet": ids(2)}
    )
    t = reports.registered("hours", root, {"ts": "TIMESTAMP"}, schema="id INT")
    texts = [(1, "2025-06-10 05:00:00"), (2, "2025-06-10 06:30:00.5")]
    assert sorted(reports.rows(f"SELECT id, CAST(ts AS STRING) FROM {t}")) == texts
    assert reports.rows(f"SELECT id FROM {t} WHERE ts = TIMESTAMP '2025-06-10 05:00:00'") == [(1,)]
    assert reports.rows(f"SELECT id FROM {t} WHERE ts >= '2025-06-10 06:00:00'") == [(2,)]
    values = [value for (value,) in reports.in_metastore("hours")]
    assert values == ["2025-06-10 05:00:00", "2025-06-10 06:30:00.5"]


@pytest.mark.report("facebookincubator/velox#13060")
def test_date_as_value_of_a_timestamp_key_is_midnight(reports: Reports) -> None:
    """A directory TSCOL=2025-03-24 under a TIMESTAMP key fails the query."""
    root = reports.parquet("midnight", {"tscol=2025-03-24/a.parquet": ids(1)})
    t = reports.registered("midnight", root, {"tscol": "TIMESTAMP"}, schema="id INT")
    assert reports.rows(f"SELECT id, CAST(tscol AS STRING) FROM {t}") == [(1, "2025-03-24 00:00:00")]
    assert reports.rows(f"SELECT id FROM {t} WHERE tscol = TIMESTAMP '2025-03-24 00:00:00'") == [(1,)]


@pytest.mark.report("apache/hudi#8403")
def test_folders_that_are_no_keys_are_named(reports: Reports) -> None:
    """Folders without key=value make the sync of the whole table fail with "not in the form key=value"."""
    root = reports.parquet("plain_folders", {"p=1/a.parquet": ids(1), "2023/04/a.parquet": ids(2)})
    reports.catalog.register_table(
        f"{DB}.plain_folders", location=str(root), format="parquet", partition_columns={"p": "INT"}, schema="id INT"
    )
    report = reports.catalog.repair_partitions(f"{DB}.plain_folders")
    assert [s.path.rpartition("plain_folders/")[2].strip("/") for s in report.skipped] == ["2023"]
    assert reports.rows(f"SELECT id, p FROM lake.{DB}.plain_folders") == [(1, 1)]


@pytest.mark.report("apache/iceberg#7949")
def test_partition_of_files_without_rows_can_be_dropped(reports: Reports) -> None:
    """A partition whose files have no rows cannot be deleted, and is counted as one with rows."""
    root = reports.parquet("rowless", {"p=1/a.parquet": ids(1), "p=2/a.parquet": ids()})
    t = reports.registered("rowless", root, {"p": "INT"})
    assert reports.rows(f"SELECT DISTINCT p FROM {t}") == [(1,)]
    assert reports.rows(f"SELECT max(p), count(*) FROM {t}") == [(1, 1)]
    reports.sql(f"ALTER TABLE {t} DROP PARTITION (p = 2)")
    assert reports.rows(f"SHOW PARTITIONS {t}") == [("p=1",)]


@pytest.mark.report("apache/iceberg#7929")
def test_import_of_a_table_without_partitions(reports: Reports) -> None:
    """A partitioned Hive table that has no partition yet cannot be migrated."""
    reports.sql(f"CREATE TABLE spark_catalog.{DB}.unborn (id INT) PARTITIONED BY (p INT) STORED AS PARQUET")
    reports.catalog.import_table(f"{DB}.unborn")
    assert reports.rows(f"SELECT id, p FROM lake.{DB}.unborn") == []
    reports.sql(f"INSERT INTO lake.{DB}.unborn PARTITION (p = 1) VALUES (7)")
    assert reports.rows(f"SELECT id, p FROM spark_catalog.{DB}.unborn") == [(7, 1)]


@pytest.mark.report("apache/iceberg#12212")
@pytest.mark.report("linkedin/iceberg#50")
def test_import_of_a_partition_whose_directory_has_gone(reports: Reports) -> None:
    """If the directory of one partition is missing, the import of the whole table from the metastore fails."""
    place = reports.folder / "dangling"
    reports.sql(
        f"CREATE TABLE spark_catalog.{DB}.dangling (id INT) PARTITIONED BY (p INT) STORED AS PARQUET "
        f"LOCATION '{place}'",
        f"INSERT INTO spark_catalog.{DB}.dangling PARTITION (p = 1) VALUES (1)",
        f"INSERT INTO spark_catalog.{DB}.dangling PARTITION (p = 2) VALUES (2)",
    )
    shutil.rmtree(place / "p=2")
    reports.catalog.import_table(f"{DB}.dangling")
    assert reports.rows(f"SELECT id, p FROM lake.{DB}.dangling") == [(1, 1)]
    assert reports.in_metastore("dangling") == [["1"], ["2"]]


@pytest.mark.report("Eventual-Inc/Daft#2111")
@pytest.mark.report("astronomy-commons/hats#367")
@pytest.mark.report("mbta/lamp#339")
@pytest.mark.report("confluentinc/kafka-connect-storage-common#290")
def test_key_that_is_also_in_the_files_has_the_value_of_the_path(reports: Reports) -> None:
    """The partition column is also a column of the files, with another type: the query fails with "Unable to merge", or
    shows two columns of one name.
    """
    both = pa.table({"id": pa.array([1], pa.int32()), "norder": pa.array([200], pa.uint8())})
    root = reports.parquet("in_files", {"Norder=1/a.parquet": both})
    t = reports.registered("in_files", root, {"Norder": "INT"})
    assert reports.rows(f"SELECT id, norder FROM {t} WHERE norder = 1") == [(1, 1)]
    lines = reports.folder / "in_lines" / "part_date=2024-01-01"
    lines.mkdir(parents=True)
    (lines / "a.json").write_text(json.dumps({"id": 5, "part_date": "other"}) + "\n")
    t = reports.registered("in_lines", lines.parent, {"part_date": "STRING"}, format="json")
    assert reports.rows(f"SELECT id, part_date FROM {t} WHERE part_date = '2024-01-01'") == [(5, "2024-01-01")]


@pytest.mark.report("apache/paimon#9353")
def test_overwrite_by_no_rows_empties_what_it_names(reports: Reports) -> None:
    """An overwrite by a query without rows leaves all old rows; a static overwrite behaves like a dynamic one."""
    reports.sql(
        f"CREATE TABLE lake.{DB}.whole (id INT) USING parquet",
        f"INSERT INTO lake.{DB}.whole VALUES (1)",
        f"INSERT OVERWRITE lake.{DB}.whole SELECT 1 WHERE false",
    )
    assert reports.rows(f"SELECT * FROM lake.{DB}.whole") == []
    t = f"lake.{DB}.static"
    reports.sql(
        f"CREATE TABLE {t} (id INT, p INT) USING parquet PARTITIONED BY (p)", f"INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    frame = reports.spark.sql("SELECT 9 AS id, 1 AS p")
    frame.write.mode("overwrite").option("partitionOverwriteMode", "static").insertInto(t)
    assert reports.rows(f"SELECT id, p FROM {t}") == [(9, 1)]


@pytest.mark.report("databricks/dbt-databricks#687")
@pytest.mark.report("aws-samples/dbt-glue#49")
def test_overwrite_with_dynamic_keys_keeps_other_partitions(reports: Reports) -> None:
    """If the client has not set partitionOverwriteMode, an incremental run deletes all older partitions."""
    t = f"lake.{DB}.incremental"
    reports.sql(
        f"CREATE TABLE {t} (id INT, d STRING) USING parquet PARTITIONED BY (d)",
        f"INSERT OVERWRITE {t} VALUES (1, '2022-01-01')",
        f"INSERT OVERWRITE TABLE {t} PARTITION (d) SELECT 2, '2022-01-02'",
    )
    assert sorted(reports.rows(f"SELECT id, d FROM {t}")) == [(1, "2022-01-01"), (2, "2022-01-02")]


@pytest.mark.report("apache/gravitino#1655")
@pytest.mark.report("apache/paimon#2979")
def test_drop_of_an_external_table_keeps_its_files(reports: Reports) -> None:
    """DROP TABLE or DROP PARTITION of an external table deletes its files, or does not report that they stay."""
    root = reports.parquet("kept", {"p=1/a.parquet": ids(1), "p=2/a.parquet": ids(2)})
    t = reports.registered("kept", root, {"p": "INT"})
    reports.sql(f"ALTER TABLE {t} DROP PARTITION (p = 1)", f"DROP TABLE {t}")
    assert sorted(p.name for p in root.rglob("*.parquet")) == ["a.parquet", "a.parquet"]


@pytest.mark.report("apache/trafodion#680")
def test_files_of_a_hive_staging_folder_are_never_rows(reports: Reports) -> None:
    """A running INSERT of Hive has .hive-staging folders. Other engines read their files as rows, and fail when Hive
    removes them.
    """
    root = reports.parquet(
        "staging",
        {"p=1/a.parquet": ids(1), "p=1/.hive-staging_hive_2026/-ext-10000/000000_0": ids(2),
         ".hive-staging_hive_2026/_task_tmp.-ext-10002/p=3/000000_0": ids(3)},
    )  # fmt: skip
    t = reports.registered("staging", root, {"p": "INT"})
    shutil.rmtree(root / ".hive-staging_hive_2026")
    assert reports.rows(f"SELECT id, p FROM {t}") == [(1, 1)]


@pytest.mark.report("NVIDIA/cudf-spark#6005")
@pytest.mark.report("NVIDIA/cudf-spark#9807")
def test_column_and_field_that_came_later_are_null_in_older_files(reports: Reports) -> None:
    """Files of older partitions lack a column, or a field of a struct: the query fails, or shows values of another
    column.
    """
    old = pa.table({"a": ["x"], "c": pa.array([{"ca": "1"}], pa.struct([("ca", pa.string())]))})
    new = pa.table(
        {"a": ["y"], "c": pa.array([{"ca": "2", "cb": "3"}], pa.struct([("ca", pa.string()), ("cb", pa.string())])),
         "later": ["z"]}
    )  # fmt: skip
    for kind, write in (("parquet", pq.write_table), ("orc", orc.write_table)):
        root = reports.folder / f"evolved_{kind}"
        for k, rows in ((1, old), (2, new)):
            (root / f"k={k}").mkdir(parents=True)
            write(rows, root / f"k={k}" / f"a.{kind}")
        schema = "a STRING, c STRUCT<ca: STRING, cb: STRING>, later STRING"
        t = reports.registered(f"evolved_{kind}", root, {"k": "INT"}, schema=schema, format=kind)
        assert sorted(reports.rows(f"SELECT a, c.ca, c.cb, later FROM {t}")) == [
            ("x", "1", None, None), ("y", "2", "3", "z"),
        ]  # fmt: skip
        assert reports.rows(f"SELECT a FROM {t} WHERE later IS NULL") == [("x",)]
        assert reports.rows(f"SELECT count(later), min(later) FROM {t}") == [(1, "z")]


@pytest.mark.report("delta-io/delta#510")
def test_location_that_looks_like_a_partition_is_no_key(reports: Reports) -> None:
    """A table whose location ends in year=2020 is refused, or gets a partition column ``year`` that it lacks."""
    root = reports.parquet("events/year=2020", {"month=1/a.parquet": ids(1), "month=2/a.parquet": ids(2)})
    t = reports.registered("year_2020", root)
    assert reports.rows(f"SELECT id, month FROM {t} WHERE month = '2'") == [(2, "2")]
    assert reports.condition(f"SELECT year FROM {t}") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert reports.rows(f"SHOW PARTITIONS {t}") == [("month=1",), ("month=2",)]


@pytest.mark.report("delta-io/delta-rs#2626")
@pytest.mark.report("delta-io/delta-rs#1718")
def test_partitioned_folder_is_registered_without_a_schema(reports: Reports) -> None:
    """A partitioned folder can only be registered with the types of its keys, or all keys stay text for ever."""
    root = reports.parquet("untyped", {"part=1/a.parquet": ids(1), "part=2/a.parquet": ids(2)})
    t = reports.registered("untyped", root)
    assert reports.rows(f"SELECT typeof(part) FROM {t} LIMIT 1") == [("string",)]
    reports.sql(f"CALL lake.system.set_partition_columns(table => '{DB}.untyped', types => map('part', 'INT'))")
    assert reports.rows(f"SELECT id FROM {t} WHERE part > 1") == [(2,)]


@pytest.mark.report("delta-io/delta#6546")
def test_value_that_is_no_number_of_its_key_is_reported(reports: Reports) -> None:
    """A directory part=not_a_number under an INT key becomes NULL, or makes later queries fail."""
    root = reports.parquet("numbers", {"part=1/a.parquet": ids(1), "part=not_a_number/a.parquet": ids(2)})
    reports.catalog.register_table(
        f"{DB}.numbers", location=str(root), format="parquet", partition_columns={"part": "INT"}, schema="id INT"
    )
    report = reports.catalog.repair_partitions(f"{DB}.numbers")
    assert ["not_a_number" in s.path and "INT" in s.reason for s in report.skipped] == [True]
    assert reports.rows(f"SELECT id, part FROM lake.{DB}.numbers") == [(1, 1)]


@pytest.mark.report("apache/paimon#3593")
def test_expiry_reaches_a_metastore_that_was_away(reports: Reports) -> None:
    """If the metastore did not answer while partitions expired, it keeps them for ever, without files."""
    t = f"lake.{DB}.expiring"
    reports.sql(
        f"CREATE TABLE {t} (id INT, d DATE) USING parquet PARTITIONED BY (d)",
        f"INSERT INTO {t} VALUES (1, DATE '2020-01-01'), (2, DATE '2999-01-01')",
        f"CALL lake.system.expire_partitions(table => '{DB}.expiring', retention => '30d')",
    )
    reports.catalog.deliver()
    assert reports.in_metastore("expiring") == [["2999-01-01"]]
    assert reports.rows(f"SELECT id FROM {t}") == [(2,)]


@pytest.mark.report("apache/datafusion#7891")
def test_dictionary_encoded_keys_can_be_written(reports: Reports) -> None:
    """Rows whose partition column is dictionary-encoded (pandas' category) cannot be written."""
    import pandas as pd

    t = f"lake.{DB}.categories"
    reports.sql(f"CREATE TABLE {t} (id INT, k STRING) USING parquet PARTITIONED BY (k)")
    frame = pd.DataFrame({"id": pd.Series([1, 2], dtype="int32"), "k": pd.Categorical(["a", "b"])})
    reports.spark.createDataFrame(frame.astype({"k": str})).writeTo(t).append()
    encoded = pa.table({"id": pa.array([3], pa.int32()), "v": pa.array(["x"]).dictionary_encode()})
    root = reports.parquet("encoded", {"k=a/a.parquet": encoded})
    e = reports.registered("encoded", root)
    assert reports.rows(f"SELECT id, v, k FROM {e} WHERE v = 'x'") == [(3, "x", "a")]
    assert sorted(reports.rows(f"SELECT id, k FROM {t}")) == [(1, "a"), (2, "b")]
