"""Apache Doris' Hive catalog: its DDL and types, on a real metastore, which has everything that the catalog has.

What it says of transactions, of concurrent writes and of files on HDFS is shown where these are tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, PySparkException

from catalog_ext.metastore.errors import NamespaceNotFoundError, TableNotFoundError
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.thrift.connect import connect
from tests.integration.lake import Sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.hive.thrift.connect import MetastoreClient
    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveMetastore


pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Doris(Sql):
    """A session whose current catalog is ``lake``, and the metastore that has the same."""

    hive: MetastoreClient
    folder: Path

    def files(self, table: str, suffix: str) -> list[Path]:
        return sorted((self.folder / "doris.db" / table).rglob(f"*.{suffix}"))


@pytest.fixture(scope="module")
def doris(driver: Driver, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doris]:
    folder = tmp_path_factory.mktemp("doris")
    hive = connect(hive_metastore.uri)
    with driver.catalog(warehouse=str(folder), index=str(folder / "i.db"), metastore=hive_metastore.uri) as spark:
        spark.sql("CREATE DATABASE lake.doris")
        spark.sql("USE lake.doris")
        yield Doris(spark, hive, folder)
        spark.sql("DROP DATABASE lake.doris CASCADE")
    hive.close()


@pytest.mark.requirement(
    "Doris.Catalog.Create", statement="SHOW CATALOGS",
    differs="Settings of the Spark session create the catalog (`catalog_ext.configure`); there is no "
    "CREATE CATALOG.",
)  # fmt: skip
@pytest.mark.requirement(
    "Doris.Catalog.Drop", statement="SHOW TABLES",
    differs="There is no DROP CATALOG: a session without these settings does not have the catalog. "
    "The metastore keeps the tables.",
)  # fmt: skip
def test_a_catalog_is_a_matter_of_settings(doris: Doris) -> None:
    doris.sql("CREATE TABLE stays (id INT)")
    assert ("lake",) in doris.rows("SHOW CATALOGS")
    assert ("doris", "stays", False) in doris.rows("SHOW TABLES IN lake.doris")
    other = doris.spark.newSession()
    with pytest.raises(AnalysisException):
        other.sql("SHOW TABLES IN lake.doris").collect()
    assert doris.hive.get_table("doris", "stays").name == "stays"


@pytest.mark.requirement("Doris.Database.Create")
def test_a_database_is_made_once(doris: Doris) -> None:
    doris.sql("CREATE DATABASE IF NOT EXISTS lake.hive_db", "CREATE DATABASE IF NOT EXISTS hive_db")
    assert doris.hive.get_database("hive_db").name == "hive_db"
    doris.sql("DROP DATABASE hive_db")


@pytest.mark.requirement(
    "Doris.Database.Location", statement="SHOW CREATE DATABASE",
    differs="The database's location is a LOCATION clause; Spark refuses `location` among "
    "DBPROPERTIES.",
)  # fmt: skip
def test_a_database_has_a_location(doris: Doris) -> None:
    place = f"file://{doris.folder}/path/to/db"
    doris.sql(f"CREATE DATABASE lake.located LOCATION '{place}/' WITH DBPROPERTIES ('team' = 'ours')")
    ((name, statement),) = doris.rows("SHOW CREATE DATABASE located")
    assert name == "located"
    assert f"LOCATION '{place}'" in str(statement)
    assert same_location(doris.hive.get_database("located").location or "", place)
    doris.sql("DROP DATABASE located", str(statement))
    assert doris.rows("SHOW CREATE DATABASE located") == [("located", statement)]
    doris.sql("CREATE TABLE lake.located.t (id INT)")
    assert same_location(doris.hive.get_table("located", "t").location, f"{place}/t")
    doris.sql("DROP DATABASE located CASCADE")


@pytest.mark.requirement(
    "Doris.Database.Drop", statement="DROP DATABASE", differs="DROP DATABASE … CASCADE drops the tables first."
)
def test_a_database_with_tables_is_dropped_by_cascade_only(doris: Doris) -> None:
    doris.sql("CREATE DATABASE lake.full_db", "CREATE TABLE lake.full_db.t (id INT)")
    with pytest.raises(AnalysisException) as caught:
        doris.sql("DROP DATABASE lake.full_db")
    assert caught.value.getCondition() == "SCHEMA_NOT_EMPTY"
    doris.sql("DROP DATABASE full_db CASCADE", "DROP DATABASE IF EXISTS lake.full_db")
    with pytest.raises(NamespaceNotFoundError):
        doris.hive.get_database("full_db")


@pytest.mark.requirement(
    "Doris.Table.Create", differs="There is no ENGINE clause. USING and STORED AS can also name the format."
)
def test_an_unpartitioned_table(doris: Doris) -> None:
    doris.sql("""
        CREATE TABLE unpartitioned_table (
          `col1` BOOLEAN COMMENT 'col1', `col2` INT COMMENT 'col2', `col3` BIGINT COMMENT 'col3',
          `col4` CHAR(10) COMMENT 'col4', `col5` FLOAT COMMENT 'col5', `col6` DOUBLE COMMENT 'col6',
          `col7` DECIMAL(9,4) COMMENT 'col7', `col8` VARCHAR(11) COMMENT 'col8', `col9` STRING COMMENT 'col9'
        ) TBLPROPERTIES ('file_format' = 'parquet')
    """)
    found = doris.hive.get_table("doris", "unpartitioned_table")
    assert [(c.name, c.type, c.comment) for c in found.columns] == [
        ("col1", "boolean", "col1"), ("col2", "int", "col2"), ("col3", "bigint", "col3"), ("col4", "char(10)", "col4"),
        ("col5", "float", "col5"), ("col6", "double", "col6"), ("col7", "decimal(9,4)", "col7"),
        ("col8", "varchar(11)", "col8"), ("col9", "string", "col9"),
    ]  # fmt: skip
    assert found.storage.serde.endswith("ParquetHiveSerDe")


@pytest.mark.requirement(
    "Doris.Table.CreatePartitioned", differs="The clause is PARTITIONED BY, not PARTITION BY LIST."
)
@pytest.mark.requirement(
    "Doris.Table.LastColumns",
    differs="CREATE TABLE may declare partition columns anywhere among the columns, or in PARTITIONED"
    " BY as in Hive. They are the table's last columns.",
)
def test_a_partitioned_table(doris: Doris) -> None:
    doris.sql("""
        CREATE TABLE partition_table (
          `pt2` VARCHAR(20) COMMENT 'pt2', `col1` BOOLEAN COMMENT 'col1', `col2` INT COMMENT 'col2',
          `col3` BIGINT COMMENT 'col3', `col4` DECIMAL(2,1) COMMENT 'col4', `pt1` VARCHAR(20) COMMENT 'pt1'
        ) PARTITIONED BY (pt1, pt2) TBLPROPERTIES ('file_format' = 'orc', 'compression' = 'zlib')
    """)
    found = doris.hive.get_table("doris", "partition_table")
    assert [c.name for c in found.columns] == ["col1", "col2", "col3", "col4"]
    assert [(c.name, c.type) for c in found.partition_columns] == [("pt1", "varchar(20)"), ("pt2", "varchar(20)")]
    assert found.storage.serde.endswith("OrcSerde")
    assert doris.spark.table("partition_table").columns == ["col1", "col2", "col3", "col4", "pt1", "pt2"]
    doris.sql("CREATE TABLE apart (id INT) PARTITIONED BY (pt1 STRING, pt2 INT) STORED AS ORC")
    assert doris.spark.table("apart").columns == ["id", "pt1", "pt2"]


@pytest.mark.requirement("Doris.Table.ShowCreate", statement="SHOW CREATE TABLE")
def test_the_statement_that_made_a_table(doris: Doris) -> None:
    doris.sql("CREATE TABLE shown (id INT COMMENT 'n', pt STRING) USING orc PARTITIONED BY (pt) COMMENT 'c'")
    ((statement,),) = doris.rows("SHOW CREATE TABLE shown")
    assert statement == (
        "CREATE TABLE lake.doris.shown (\n  id INT COMMENT 'n',\n  pt STRING)\nUSING orc\nCOMMENT 'c'\n"
        "PARTITIONED BY (pt)\n"
    )
    doris.sql("DROP TABLE shown", str(statement))
    assert doris.rows("SHOW CREATE TABLE shown") == [(statement,)]


@pytest.mark.requirement("Doris.Table.Transactional")
def test_tables_are_not_transactional_ones_of_hive(doris: Doris) -> None:
    doris.sql("CREATE TABLE non_acid_table (col1 BOOLEAN, col2 INT) TBLPROPERTIES ('transactional' = 'false')")
    # The metastore keeps no such parameter of a table that does not exist.
    assert doris.hive.get_table("doris", "non_acid_table").parameters.get("transactional", "false") == "false"
    assert ("transactional", "false") in doris.rows("SHOW TBLPROPERTIES non_acid_table")
    with pytest.raises(AnalysisException) as caught:
        doris.sql("CREATE TABLE acid (id INT) TBLPROPERTIES ('transactional' = 'true')")
    assert caught.value.getCondition() == "CATALOG_EXT_ACID_TABLE"


@pytest.mark.requirement(
    "Doris.Table.Drop", statement="DROP TABLE",
    differs="DROP TABLE keeps the files of an external table, as in Hive and Spark, and deletes those"
    " of a managed table.",
)  # fmt: skip
def test_dropping_a_table_deletes_its_data(doris: Doris) -> None:
    doris.sql("CREATE TABLE dropped (id INT, pt STRING) PARTITIONED BY (pt)", "INSERT INTO dropped VALUES (1, 'a')")
    assert len(doris.files("dropped", "parquet")) == 1
    doris.sql("DROP TABLE dropped")
    assert not (doris.folder / "doris.db" / "dropped").exists()
    with pytest.raises(TableNotFoundError):
        doris.hive.get_table("doris", "dropped")


@pytest.mark.requirement(
    "Doris.ColumnTypes", statement="CREATE TABLE all_types", differs="Spark's name for DATETIME is TIMESTAMP.",
)  # fmt: skip
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_every_type_is_hives(doris: Doris, file_format: str) -> None:
    doris.sql(
        "CREATE TABLE all_types (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f DATE, g TIMESTAMP, h FLOAT, "
        "i DOUBLE, j CHAR(3), k VARCHAR(5), l STRING, m DECIMAL(9,4), n ARRAY<INT>, "
        f"o MAP<STRING, INT>, p STRUCT<x: INT>) USING {file_format}"
    )
    types = [c.type for c in doris.hive.get_table("doris", "all_types").columns]
    assert types == [
        "boolean", "tinyint", "smallint", "int", "bigint", "date", "timestamp", "float", "double", "char(3)",
        "varchar(5)", "string", "decimal(9,4)", "array<int>", "map<string,int>", "struct<x:int>",
    ]  # fmt: skip
    row = (
        "true, 1Y, 2S, 3, 4L, DATE'2024-01-02', TIMESTAMP'2024-01-02 03:04:05', CAST(0.5 AS FLOAT), 0.25D, 'a', "
        "'bcdef', 'g', CAST(1.5 AS DECIMAL(9,4)), array(1), map('k', 2), named_struct('x', 3)"
    )
    doris.sql(f"INSERT INTO all_types SELECT {row}", "INSERT INTO all_types (a) VALUES (NULL)")
    found = doris.rows("SELECT * FROM all_types WHERE a IS NOT NULL")
    assert found == doris.rows(f"SELECT {row.replace(chr(39) + 'a' + chr(39), chr(39) + 'a  ' + chr(39), 1)}")
    doris.sql("DROP TABLE all_types")


@pytest.mark.requirement("Doris.Nullable", differs="Columns can be NOT NULL: a write of NULL into such a column fails.")
def test_columns_may_be_null_unless_said_otherwise(doris: Doris) -> None:
    doris.sql("CREATE TABLE nullable (id INT, sure INT NOT NULL)", "INSERT INTO nullable VALUES (NULL, 1)")
    assert doris.rows("SELECT * FROM nullable") == [(None, 1)]
    with pytest.raises(PySparkException):
        doris.sql("INSERT INTO nullable VALUES (1, NULL)")


@pytest.mark.requirement(
    "Doris.DefaultValues", differs="A default is any constant SQL expression, with every release of the metastore."
)
def test_default_values(doris: Doris) -> None:
    doris.sql(
        "CREATE TABLE defaulted (id INT, n INT DEFAULT 40 + 2, pt STRING DEFAULT 'eu') PARTITIONED BY (pt)",
        "INSERT INTO defaulted (id) VALUES (1)", "INSERT INTO defaulted VALUES (2, DEFAULT, 'us')",
    )  # fmt: skip
    assert doris.rows("SELECT * FROM defaulted ORDER BY id") == [(1, 42, "eu"), (2, 42, "us")]


@pytest.mark.requirement(
    "Doris.IncompatibleTypes", statement="INSERT INTO odd",
    differs="A value that does not fit is an error and nothing is written, where Doris writes NULL. "
    "TRY_CAST in the query writes NULL.",
)  # fmt: skip
def test_incompatible_values(doris: Doris) -> None:
    doris.sql("CREATE TABLE odd (id INT)")
    with pytest.raises(PySparkException):
        doris.sql("INSERT INTO odd VALUES ('abc')")
    assert doris.rows("SELECT * FROM odd") == []
    doris.sql("INSERT INTO odd SELECT TRY_CAST('abc' AS INT)")
    assert doris.rows("SELECT * FROM odd") == [(None,)]


@pytest.mark.requirement("Doris.Partitions")
def test_partitions_come_from_the_data(doris: Doris) -> None:
    doris.sql(
        "CREATE TABLE made_by_data (id INT, pt1 STRING, pt2 INT) PARTITIONED BY (pt1, pt2)",
        "INSERT INTO made_by_data VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1)",
    )
    names = ["pt1=a/pt2=1", "pt1=a/pt2=2", "pt1=b/pt2=1"]
    assert doris.rows("SHOW PARTITIONS made_by_data") == [(name,) for name in names]
    assert sorted(doris.hive.partition_names("doris", "made_by_data")) == names


@pytest.mark.requirement(
    "Doris.FileFormats", statement="CREATE TABLE {table}",
    differs="Parquet is the default format. CSV, JSON and text are also supported.",
)  # fmt: skip
@pytest.mark.requirement(
    "Doris.Compression", statement="CREATE TABLE {table}",
    differs="ORC files are written with Snappy by default.",
)  # fmt: skip
@pytest.mark.parametrize(
    ("file_format", "compression", "codec"),
    [
        ("parquet", None, "SNAPPY"), ("parquet", "snappy", "SNAPPY"), ("parquet", "zstd", "ZSTD"),
        ("parquet", "plain", "UNCOMPRESSED"), ("orc", None, "SNAPPY"), ("orc", "snappy", "SNAPPY"),
        ("orc", "zlib", "ZLIB"), ("orc", "zstd", "ZSTD"), ("orc", "plain", "UNCOMPRESSED"),
    ],
)  # fmt: skip
def test_formats_and_compressions(doris: Doris, file_format: str, compression: str | None, codec: str) -> None:
    table = f"packed_{file_format}_{compression or 'default'}"
    packed = f", 'compression' = '{compression}'" if compression else ""
    doris.sql(
        f"CREATE TABLE {table} (id INT) TBLPROPERTIES ('file_format' = '{file_format}'{packed})",
        f"INSERT INTO {table} VALUES (1)",
    )
    (file,) = doris.files(table, file_format)
    found = (
        pq.ParquetFile(file).metadata.row_group(0).column(0).compression
        if file_format == "parquet"
        else orc.ORCFile(file).compression
    )
    assert found == codec
    assert doris.rows(f"SELECT id FROM {table}") == [(1,)]


@pytest.mark.requirement("Doris.Insert", statement="INSERT INTO")
def test_insert_appends(doris: Doris) -> None:
    doris.sql(
        "CREATE TABLE hive_tbl (col1 INT, col2 STRING, pt1 STRING, pt2 STRING) PARTITIONED BY (pt1, pt2)",
        "INSERT INTO hive_tbl VALUES (1, 'a', 'beijing', '2023-12-12')",
        "INSERT INTO lake.doris.hive_tbl SELECT 2, 'b', 'paris', '2023-12-12'",
        "INSERT INTO hive_tbl (col1, col2) VALUES (3, 'c')",
        "INSERT INTO hive_tbl (col1, col2, pt1, pt2) VALUES (4, 'd', 'beijing', '2023-12-12')",
    )
    assert doris.rows("SELECT * FROM hive_tbl ORDER BY col1") == [
        (1, "a", "beijing", "2023-12-12"), (2, "b", "paris", "2023-12-12"), (3, "c", None, None),
        (4, "d", "beijing", "2023-12-12"),
    ]  # fmt: skip


@pytest.mark.requirement(
    "Doris.InsertOverwrite", statement="INSERT OVERWRITE",
    differs="INSERT OVERWRITE of a partitioned table replaces only the partitions that receive rows, "
    "as in Hive.",
)  # fmt: skip
def test_insert_overwrite_replaces(doris: Doris) -> None:
    doris.sql(
        "CREATE TABLE replaced (col1 INT, col2 STRING)", "INSERT INTO replaced VALUES (1, 'a')",
        "INSERT OVERWRITE TABLE replaced VALUES (2, 'b')",
    )  # fmt: skip
    assert doris.rows("SELECT * FROM replaced") == [(2, "b")]
    doris.sql("INSERT OVERWRITE TABLE lake.doris.replaced (col1, col2) SELECT 3, 'c'")
    assert doris.rows("SELECT * FROM replaced") == [(3, "c")]


@pytest.mark.requirement("Doris.CTAS")
@pytest.mark.requirement(
    "Doris.CTAS.Options",
    statement="CREATE TABLE chosen",
    differs="The clause is PARTITIONED BY, not PARTITION BY LIST.",
)
def test_create_table_as_select(doris: Doris) -> None:
    doris.sql(
        "CREATE TABLE hive_ctas AS SELECT 1 AS col1, 'x' AS pt1, 'y' AS pt2",
        "CREATE TABLE by_keys PARTITIONED BY (pt1, pt2) AS SELECT col1, pt1, pt2 FROM hive_ctas WHERE col1 > 0",
        "CREATE TABLE chosen PARTITIONED BY (pt1) TBLPROPERTIES ('file_format' = 'parquet', 'compression' = 'zstd') "
        "AS SELECT col1, pt1 AS col2, pt2 AS pt1 FROM hive_ctas WHERE col1 > 0",
    )
    assert doris.rows("SELECT * FROM by_keys") == [(1, "x", "y")]
    assert doris.rows("SELECT col1, col2, pt1 FROM chosen") == [(1, "x", "y")]
    (file,) = doris.files("chosen", "parquet")
    assert file.parent.name == "pt1=y"
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


def test_altered_and_renamed_tables_are_so_in_the_metastore(doris: Doris) -> None:
    doris.sql(
        "CREATE TABLE altered (id INT, v STRING, pt STRING) PARTITIONED BY (pt)",
        "INSERT INTO altered VALUES (1, 'a', 'x')",
        "ALTER TABLE altered ADD COLUMN note STRING FIRST", "ALTER TABLE altered ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE altered DROP COLUMN v", "CREATE DATABASE lake.doris_other",
        "ALTER TABLE altered RENAME TO doris_other.renamed", "INSERT INTO doris_other.renamed VALUES ('n', 2, 'y')",
    )  # fmt: skip
    found = doris.hive.get_table("doris_other", "renamed")
    assert [(c.name, c.type) for c in found.columns] == [("note", "string"), ("id", "bigint")]
    assert found.table_type == "MANAGED_TABLE"
    assert same_location(found.location, f"file://{doris.folder}/doris.db/altered")
    places = sorted(p.location for p in doris.hive.partitions("doris_other", "renamed"))
    assert len(places) == 2
    for found_place, pt in zip(places, ("x", "y"), strict=True):
        assert same_location(found_place, f"file://{doris.folder}/doris.db/altered/pt={pt}")
    assert "altered" not in doris.hive.list_tables("doris")
    assert doris.rows("SELECT * FROM doris_other.renamed ORDER BY id") == [(None, 1, "x"), ("n", 2, "y")]
    doris.sql("DROP DATABASE doris_other CASCADE")
