"""Every ``RQ.HivePartitioning.Writes.*`` of ClickHouse's SRS-045, as ``docs/spec/semantics.md`` adapts them, on S3.

The tables carry ``partition_strategy = 'hive'``; each test names the requirements that it shows.
"""

from __future__ import annotations

import io
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.errors import AnalysisException, PySparkException

from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql
from tests.kit.sparks import SPARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.seaweedfs import SeaweedServer


pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass(frozen=True)
class Writes(Sql):
    """A session with a bucket to write to and one that it may only read."""

    catalog: Catalog
    files: fs.S3FileSystem
    bucket: str
    read_only: str
    made: list[str] = field(default_factory=list)

    def name(self) -> str:
        """A table's name that no test has had."""
        self.made.append(f"t{len(self.made)}")
        return f"lake.s.{self.made[-1]}"

    def create(self, columns: str, keys: str = "", using: str = "parquet", **properties: str) -> str:
        """A new table under the strategy ``hive``, unless another is given."""
        name = self.name()
        given = {"partition_strategy": "hive", **properties}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        partitioned = f"PARTITIONED BY ({keys})" if keys else ""
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING {using} {partitioned} TBLPROPERTIES ({listed})")
        return name

    def refused(self, columns: str, keys: str = "", **properties: str) -> str:
        """What CREATE TABLE says; the table is not there then."""
        with pytest.raises((AnalysisException, PySparkException)) as caught:
            self.create(columns, keys, **properties)
        assert not self.spark.catalog.tableExists(f"lake.s.{self.made[-1]}")
        return str(caught.value)

    def root(self, table: str) -> str:
        """``bucket/key`` of the table."""
        return self.catalog.load_table(table.removeprefix("lake.")).definition.location.removeprefix("s3a://")

    def keys(self, root: str) -> list[str]:
        """All objects below a ``bucket/key``, relative to it."""
        found = self.files.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True))
        return sorted(info.path.removeprefix(f"{root}/") for info in found if info.type is fs.FileType.File)

    def folders(self, root: str) -> list[str]:
        return sorted({key.rpartition("/")[0] for key in self.keys(root)})


@pytest.fixture(scope="module")
def writes(driver: Driver, s3_server: SeaweedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writes]:
    suffix = secrets.token_hex(4)
    bucket, read_only = (s3_server.make_bucket(f"{kind}-{suffix}") for kind in ("writes", "read-only"))
    storage = {
        "endpoint": s3_server.endpoint, "access_key": s3_server.access_key, "secret_key": s3_server.secret_key,
        "region": s3_server.region, "path_style": "true",
        f"fs.s3a.bucket.{read_only}.access.key": s3_server.reader_key,
        f"fs.s3a.bucket.{read_only}.secret.key": s3_server.reader_secret,
    }  # fmt: skip
    index = tmp_path_factory.mktemp("srs045") / "i.db"
    with driver.catalog(
        warehouse=f"s3a://{bucket}/warehouse", index=str(index), metastore=None, storage=storage
    ) as spark:
        catalog = sessions.active_catalog("lake.s.t")
        catalog.create_namespace("s")
        yield Writes(spark, catalog, s3_server.file_system(), bucket, read_only)


KEYS = "year INT NOT NULL, country STRING NOT NULL, x INT"
ROWS = "(2022, 'USA', 1), (2022, 'Canada', 2)"


@pytest.mark.requirement("RQ.HivePartitioning.Writes.S3")
@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionKey")
@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionBy")
def test_rows_go_to_the_directories_of_their_keys(writes: Writes) -> None:
    table = writes.create(KEYS, "year, country")
    writes.spark.sql(f"INSERT INTO {table} BY NAME SELECT * FROM VALUES {ROWS} AS v(year, country, x)")
    writes.spark.sql(f"INSERT INTO {table} VALUES (3, 2024, 'North-America 50%')")
    assert writes.folders(writes.root(table)) == [
        "year=2022/country=Canada", "year=2022/country=USA", "year=2024/country=North-America 50%25",
    ]  # fmt: skip
    assert writes.rows(f"SELECT year, country, x FROM {table} ORDER BY x") == [
        (2022, "USA", 1), (2022, "Canada", 2), (2024, "North-America 50%", 3),
    ]  # fmt: skip
    assert writes.catalog.storage.list_directory(f"s3a://{writes.root(table)}")
    assert not list(writes.catalog.storage.uploads_to(_location(writes, table)).pending(_location(writes, table)))


def _location(writes: Writes, table: str) -> object:
    from catalog_ext.metastore.storage.locations import Location

    return Location.parse(f"s3a://{writes.root(table)}")


@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionStrategy")
@pytest.mark.parametrize("strategy", ["hive", "auto", None])
def test_the_strategies(writes: Writes, strategy: str | None) -> None:
    """``auto`` is Hive's layout too, under Hive's rules: keys may be NULL there, and of any key type."""
    name = writes.name()
    properties = f"TBLPROPERTIES ('partition_strategy' = '{strategy}')" if strategy else ""
    columns = "x INT, d DOUBLE" if strategy != "hive" else "x INT, d DATE NOT NULL"
    writes.spark.sql(f"CREATE TABLE {name} ({columns}) PARTITIONED BY (d) {properties}")
    value = "DATE'2025-01-01'" if strategy == "hive" else "CAST(NULL AS DOUBLE)"
    writes.spark.sql(f"INSERT INTO {name} VALUES (1, {value})")
    folder = "d=2025-01-01" if strategy == "hive" else "d=__HIVE_DEFAULT_PARTITION__"
    assert writes.folders(writes.root(name)) == [folder]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionStrategyWrongArgument")
def test_another_strategy_is_refused(writes: Writes) -> None:
    for wrong in ("wildcard", "", "hive2"):
        assert "Unknown partitioning style" in writes.refused(KEYS, "year", partition_strategy=wrong)


@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionColumnsInDataFile")
@pytest.mark.parametrize(("given", "inside"), [("1", True), ("true", True), ("0", False), (None, False)])
def test_keys_inside_the_files(writes: Writes, given: str | None, inside: bool) -> None:
    table = writes.create(KEYS, "year, country", **({"partition_columns_in_data_file": given} if given else {}))
    writes.spark.sql(f"INSERT INTO {table} VALUES (1, 2022, 'USA')")
    root = writes.root(table)
    (key,) = writes.keys(root)
    content = writes.files.open_input_file(f"{root}/{key}").read()
    assert pq.read_schema(io.BytesIO(content)).names == (["x", "year", "country"] if inside else ["x"])
    assert writes.rows(f"SELECT * FROM {table}") == [(1, 2022, "USA")]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionColumnsInDataFileWithoutHivePartitionStrategy")
def test_keys_inside_the_files_need_the_strategy(writes: Writes) -> None:
    text = writes.refused(KEYS, "year", partition_strategy="auto", partition_columns_in_data_file="1")
    assert "'partition_columns_in_data_file'" in text
    assert "belongs to 'partition_strategy' = 'hive'" in text


@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionColumnsInDataFileWrongArgiment")
def test_keys_inside_the_files_or_not_is_a_boolean(writes: Writes) -> None:
    assert "cannot be 'maybe': it is a Boolean" in writes.refused(KEYS, "year", partition_columns_in_data_file="maybe")


@pytest.mark.requirement("RQ.HivePartitioning.Writes.Path")
@pytest.mark.requirement("RQ.HivePartitioning.Writes.NotDefinedFilename")
def test_path_is_the_root(writes: Writes) -> None:
    root = f"{writes.bucket}/some/prefix"
    table = writes.create(KEYS, "year, country", path=f"s3://{root}/")
    writes.spark.sql(f"INSERT INTO {table} VALUES (1, 2022, 'USA')")
    assert writes.folders(root) == ["year=2022/country=USA"]
    writes.spark.sql(f"DROP TABLE {table}")
    assert writes.folders(root) == ["year=2022/country=USA"], "it was not ours to delete"


@pytest.mark.requirement("RQ.HivePartitioning.Writes.InvalidPath")
def test_a_path_that_no_store_has(writes: Writes) -> None:
    for path in ("not-a-location", "s3://", "s3a://bad bucket/x", f"s3a://{writes.bucket}/a*b", "ftp://host/x"):
        assert "Invalid S3 key" in writes.refused(KEYS, "year", path=path), path


@pytest.mark.requirement("RQ.HivePartitioning.Writes.Filename")
def test_filename_is_a_directory_before_the_keys(writes: Writes) -> None:
    root = f"{writes.bucket}/named"
    table = writes.create(KEYS, "year, country", path=f"s3a://{root}", filename="data")
    writes.spark.sql(f"INSERT INTO {table} VALUES (1, 2022, 'USA')")
    assert writes.folders(root) == ["data/year=2022/country=USA"]
    assert writes.rows(f"SELECT * FROM {table}") == [(1, 2022, "USA")]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.FilenameWithoutHivePartitionStrategy")
def test_filename_needs_the_strategy(writes: Writes) -> None:
    assert "'filename'" in writes.refused(KEYS, "year", partition_strategy="auto", filename="data")
    name = writes.name()
    with pytest.raises(AnalysisException, match="belongs to 'partition_strategy' = 'hive'"):
        writes.spark.sql(f"CREATE TABLE {name} ({KEYS}) PARTITIONED BY (year) TBLPROPERTIES ('filename' = 'data')")


@pytest.mark.requirement("RQ.HivePartitioning.Writes.S3EngineParameters")
@pytest.mark.parametrize(
    ("using", "compression", "ending"),
    [
        ("parquet", "gzip", ".gz.parquet"), ("orc", "zlib", ".zlib.orc"), ("csv", "gzip", ".csv.gz"),
        ("json", "bzip2", ".json.bz2"),
    ],
)  # fmt: skip
def test_format_compression_and_credentials_are_what_they_are_elsewhere(
    writes: Writes, using: str, compression: str, ending: str
) -> None:
    """The session's S3 credentials, the format and its options hold whether there is a strategy or not."""
    for strategy in ("hive", "auto"):
        name = writes.name()
        writes.spark.sql(
            f"CREATE TABLE {name} ({KEYS}) USING {using} OPTIONS (compression '{compression}') "
            f"PARTITIONED BY (year, country) TBLPROPERTIES ('partition_strategy' = '{strategy}')"
        )
        writes.spark.sql(f"INSERT INTO {name} VALUES (1, 2022, 'USA')")
        (key,) = writes.keys(writes.root(name))
        assert key.endswith(ending)
        assert writes.rows(f"SELECT * FROM {name}") == [(1, 2022, "USA")]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.UseHivePartitions")
def test_switching_virtual_columns_off_changes_no_write(writes: Writes) -> None:
    writes.spark.sql("SET use_hive_partitioning = 0")
    try:
        table = writes.create(KEYS, "year, country")
        writes.spark.sql(f"INSERT INTO {table} VALUES (10, 2023, 'Germany'), (20, 2023, 'France')")
        assert writes.folders(writes.root(table)) == ["year=2023/country=France", "year=2023/country=Germany"]
    finally:
        writes.spark.conf.unset("use_hive_partitioning")


@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionsParts")
@pytest.mark.requirement("RQ.HivePartitioning.Writes.FileExist")
def test_several_partitions_and_several_inserts(writes: Writes) -> None:
    """Nothing is overwritten by a later INSERT; rows are added as files of their own."""
    table = writes.create(KEYS, "year, country")
    for first in (1, 3, 5):
        writes.spark.sql(f"INSERT INTO {table} VALUES ({first}, 2022, 'USA'), ({first + 1}, {2022 + first}, 'USA')")
    root = writes.root(table)
    assert writes.folders(root) == [f"year={year}/country=USA" for year in (2022, 2023, 2025, 2027)]
    assert len([key for key in writes.keys(root) if key.startswith("year=2022/")]) == 3
    assert writes.rows(f"SELECT x FROM {table} WHERE year = 2022 ORDER BY x") == [(1,), (3,), (5,)]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.Expressions")
def test_expressions_are_no_partition_columns(writes: Writes) -> None:
    for expression in ("bucket(4, x)", "years(d)", "truncate(country, 2)"):
        text = writes.refused("x INT, d DATE NOT NULL, country STRING NOT NULL", expression)
        assert "a partition column is a column, never an expression of one" in text


@pytest.mark.requirement("RQ.HivePartitioning.Writes.MissingColumn")
def test_a_partition_column_that_is_not_in_the_schema(writes: Writes) -> None:
    assert "country" in writes.refused("year INT NOT NULL, x INT", "year, country")


@pytest.mark.requirement("RQ.HivePartitioning.Writes.DefaultValue")
def test_omitted_keys_get_their_defaults(writes: Writes) -> None:
    columns = "year INT NOT NULL DEFAULT 2023, country STRING NOT NULL DEFAULT 'Unknown', value INT"
    table = writes.create(columns, "year, country")
    writes.spark.sql(f"INSERT INTO {table} (value) VALUES (100)")
    assert writes.folders(writes.root(table)) == ["year=2023/country=Unknown"]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.NullableDataType")
def test_keys_may_not_be_null(writes: Writes) -> None:
    text = writes.refused("year INT, x INT", "year")
    assert "Hive partitioning supports only partition columns of types" in text
    table = writes.create("year INT NOT NULL, x INT", "year")
    with pytest.raises(PySparkException, match=r"(?i)null"):
        writes.spark.sql(f"INSERT INTO {table} SELECT id, IF(id = 1, NULL, 1) FROM range(3)")
    assert writes.keys(writes.root(table)) == []


TYPES = {
    "TINYINT": ("-1Y", "-1"), "SMALLINT": ("7S", "7"), "INT": ("2147483647", "2147483647"),
    "BIGINT": ("-9223372036854775808", "-9223372036854775808"), "STRING": ("'a b=c:d'", "a b%3Dc%3Ad"),
    "CHAR(4)": ("'ab'", "ab"), "VARCHAR(9)": ("'vc'", "vc"), "DATE": ("DATE'2025-02-28'", "2025-02-28"),
    "TIMESTAMP": ("TIMESTAMP'2025-02-28 10:11:12.5'", "2025-02-28 10%3A11%3A12.5"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2025-02-28 10:11:12'", "2025-02-28 10%3A11%3A12"), "BOOLEAN": ("true", "true"),
    "TIME(6)": ("TIME'10:11:12'", "10%3A11%3A12"),
}  # fmt: skip


@pytest.mark.requirement("RQ.HivePartitioning.Writes.SupportedDataTypes")
def test_types_that_keys_may_have(writes: Writes) -> None:
    # Spark 4.3 has TIME behind a switch.
    writes.spark.conf.set("spark.sql.timeType.enabled", "true")
    for data_type, (literal, text) in TYPES.items():
        if data_type == "TIME(6)" and SPARK < (4, 1):  # with which it came
            continue
        table = writes.create(f"x INT, k {data_type} NOT NULL", "k")
        writes.spark.sql(f"INSERT INTO {table} VALUES (1, {literal})")
        assert writes.folders(writes.root(table)) == [f"k={text}"], data_type
        assert writes.rows(f"SELECT x FROM {table} WHERE k = {literal}") == [(1,)], data_type
    writes.spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.requirement("RQ.HivePartitioning.Writes.SupportedDataTypes")
def test_values_that_keys_may_not_have(writes: Writes) -> None:
    table = writes.create("x INT, k STRING NOT NULL", "k")
    for value in ("a{b", "a}b", "a\\\\b", "a/b", 'a"b', "a\\'b", "a*b", "a?b", "x" * 1024):
        with pytest.raises(PySparkException, match="CATALOG_EXT_INVALID_VALUE"):
            writes.spark.sql(f"INSERT INTO {table} VALUES (1, 'fine'), (2, '{value}')")
    assert writes.keys(writes.root(table)) == []
    writes.spark.sql(f"INSERT INTO {table} VALUES (1, '{'x' * 900}')")
    assert writes.folders(writes.root(table)) == [f"k={'x' * 900}"]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.DataTypesUnsupported")
def test_types_that_keys_may_not_have(writes: Writes) -> None:
    for data_type in ("DOUBLE", "FLOAT", "DECIMAL(10,2)", "BINARY", "ARRAY<INT>", "MAP<INT,INT>", "STRUCT<a: INT>"):
        text = writes.refused(f"x INT, k {data_type} NOT NULL", "k")
        assert "Hive partitioning supports only partition columns of types" in text, data_type


@pytest.mark.requirement("RQ.HivePartitioning.Writes.ReadOnlyBucket")
def test_a_bucket_that_may_only_be_read(writes: Writes) -> None:
    table = writes.create(KEYS, "year, country", path=f"s3a://{writes.read_only}/t")
    with pytest.raises(PySparkException, match="Failed to check existence of a key") as caught:
        writes.spark.sql(f"INSERT INTO {table} VALUES (1, 2022, 'USA')")
    assert "CATALOG_EXT_STORAGE_ACCESS_DENIED" in str(caught.value)
    assert writes.rows(f"SELECT * FROM {table}") == []
    assert writes.keys(f"{writes.read_only}/t") == []


@pytest.mark.requirement("RQ.HivePartitioning.Writes.NonAccessibleBucket")
def test_a_bucket_that_is_not_there(writes: Writes) -> None:
    text = writes.refused(KEYS, "year, country", path="s3a://no-such-bucket-anywhere/t")
    assert "Failed to check existence of a key" in text


@pytest.mark.requirement("RQ.HivePartitioning.Writes.ParallelInserts")
def test_inserts_at_the_same_time(writes: Writes) -> None:
    table = writes.create(KEYS, "year, country")
    with ThreadPoolExecutor(4) as pool:
        statements = [f"INSERT INTO {table} VALUES ({n}, 2022, 'USA'), ({n}, {n}, 'own')" for n in range(8)]
        list(pool.map(writes.spark.sql, statements))
    assert writes.rows(f"SELECT country, count(*), sum(x) FROM {table} GROUP BY country ORDER BY 1") == [
        ("USA", 8, 28), ("own", 8, 28),
    ]  # fmt: skip
    assert len(writes.keys(writes.root(table))) == 16


@pytest.mark.requirement("RQ.HivePartitioning.Writes.WriteFail")
def test_a_write_that_fails_leaves_nothing(writes: Writes) -> None:
    table = writes.create(KEYS, "year, country")
    writes.spark.sql(f"INSERT INTO {table} VALUES (1, 2022, 'USA')")
    before = writes.keys(writes.root(table))
    for statement in ("INSERT INTO", "INSERT OVERWRITE"):
        with pytest.raises(PySparkException, match="no luck"):
            writes.spark.sql(
                f"{statement} {table} "
                "SELECT IF(id = 99, raise_error('no luck'), id), 2022, 'c' || id % 5 FROM range(100)"
            )
    assert writes.keys(writes.root(table)) == before
    assert not list(writes.catalog.storage.uploads_to(_location(writes, table)).pending(_location(writes, table)))
    assert writes.rows(f"SELECT * FROM {table}") == [(1, 2022, "USA")]


@pytest.mark.requirement("RQ.HivePartitioning.Writes.PartitionBy")
def test_the_strategy_needs_partition_columns(writes: Writes) -> None:
    text = writes.refused("year INT NOT NULL, value INT")
    assert "Partition strategy hive can not be used without a PARTITION BY expression" in text
