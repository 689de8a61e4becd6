"""Tables that DataFrame writers and streams make: their options, formats and databases, in both catalogs."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

CATALOGS = ["lake", "spark_catalog"]
DAY = datetime.date(2024, 1, 2)


@pytest.fixture(scope="module")
def session(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sql]:
    """A session whose two catalogs are one index, and in which Spark's formats make tables of ours."""
    folder = tmp_path_factory.mktemp("options")
    with driver.catalog(
        catalog="spark_catalog", warehouse=str(folder / "ours"), index=str(folder / "index.db"), metastore=None
    ) as spark:
        own = "spark.sql.catalog.spark_catalog"
        spark.conf.set(f"{own}.create.formats", "*")
        spark.conf.set("spark.sql.catalog.lake", sessions.CATALOG_CLASS)
        for key in ("uri", "token-file"):
            spark.conf.set(f"spark.sql.catalog.lake.{key}", spark.conf.get(f"{own}.{key}"))
        yield Sql(spark)


@pytest.fixture
def database(session: Sql) -> Iterator[Sql]:
    """The session with the database ``made``, which is in the index first."""
    session.sql("CREATE DATABASE lake.made")
    yield session
    session.sql("DROP DATABASE lake.made CASCADE", "DROP DATABASE IF EXISTS made CASCADE")


@pytest.fixture(params=CATALOGS)
def made(database: Sql, request: pytest.FixtureRequest) -> Made:
    return Made(database.spark, request.param)


class Made(Sql):
    """A session with the empty database ``made``, and one of its catalogs."""

    catalog: str

    def __init__(self, spark: Any, catalog: str) -> None:
        super().__init__(spark)
        object.__setattr__(self, "catalog", catalog)

    @property
    def table(self) -> str:
        return f"{self.catalog}.made.t"

    def frame(
        self, query: str = "SELECT 1 AS a, 'x,y' AS s, CAST(NULL AS STRING) AS n, date'2024-01-02' AS d"
    ) -> DataFrame:
        return self.spark.sql(query)

    def options(self) -> dict[str, str]:
        return dict(sessions.active_catalog("spark_catalog").load_table("made.t").definition.options)


WRITERS = ["saveAsTable", "overwrite", "create", "createOrReplace", "replace", "toTable"]


def write(made: Made, how: str, folder: Path, data_format: str, **options: Any) -> None:
    frame = made.frame()
    writer = frame.write.format(data_format).options(**options)
    match how:
        case "saveAsTable":
            writer.saveAsTable(made.table)
        case "overwrite":
            made.sql(f"CREATE TABLE {made.table} (z INT) USING orc")
            writer.mode("overwrite").saveAsTable(made.table)
        case "create" | "createOrReplace":
            getattr(frame.writeTo(made.table).using(data_format).options(**options), how)()
        case "replace":
            made.sql(f"CREATE TABLE {made.table} (z INT) USING orc")
            frame.writeTo(made.table).using(data_format).options(**options).replace()
        case "toTable":
            frame.write.format("parquet").save(str(folder / "rows"))
            stream = made.spark.readStream.schema(frame.schema).parquet(str(folder / "rows")).writeStream
            started = stream.format(data_format).options(**options).option("checkpointLocation", str(folder / "c"))
            started.trigger(availableNow=True).toTable(made.table).awaitTermination()


@pytest.mark.parametrize("how", WRITERS)
def test_options_of_the_writer_that_makes_a_table_are_the_tables(made: Made, how: str, tmp_path: Path) -> None:
    options = {"sep": "|", "dateFormat": "dd/MM/yyyy", "nullValue": "NIL", "header": True, "compression": "gzip"}
    write(made, how, tmp_path, "csv", maxRecordsPerFile=5, **options)
    assert made.rows(f"SELECT * FROM {made.table}") == [(1, "x,y", None, DAY)]
    assert made.options() == options | {"header": "true"}
    shown = str(made.rows(f"SHOW CREATE TABLE {made.table}"))
    assert all(name in shown for name in options), shown
    # A later write repeats them, or leaves them out, and is compressed as the first one.
    made.frame().write.mode("append").format("csv").options(**options).saveAsTable(made.table)
    made.sql(f"INSERT INTO {made.table} SELECT * FROM {made.table} LIMIT 1")
    assert made.rows(f"SELECT DISTINCT * FROM {made.table}") == [(1, "x,y", None, DAY)]
    files = made.rows(f"SELECT DISTINCT _metadata.file_name LIKE '%.csv.gz' FROM {made.table}")
    assert files == [(True,)]


OTHER_FORMATS: list[tuple[str, dict[str, str]]] = [
    ("json", {"dateFormat": "dd/MM/yyyy", "lineSep": ";"}),
    ("parquet", {"compression": "gzip"}),
    ("orc", {"compression": "zlib", "orc.create.index": "false"}),
]


@pytest.mark.parametrize(("data_format", "options"), OTHER_FORMATS)
def test_every_format_keeps_its_options(made: Made, data_format: str, options: dict[str, str], tmp_path: Path) -> None:
    write(made, "saveAsTable", tmp_path, data_format, **options)
    assert made.rows(f"SELECT * FROM {made.table}") == [(1, "x,y", None, DAY)]
    assert made.options() == options


def test_text_is_read_by_the_line_separator_of_its_writer(made: Made) -> None:
    made.frame("VALUES ('one'), ('two') AS v(line)").write.format("text").option("lineSep", ";").saveAsTable(made.table)
    assert sorted(made.rows(f"SELECT * FROM {made.table}")) == [("one",), ("two",)]


def test_option_of_a_read_replaces_the_tables_under_either_of_its_names(made: Made) -> None:
    made.sql(f"CREATE TABLE {made.table} (a STRING, b STRING) USING csv OPTIONS (sep '|', encoding 'ISO-8859-1')")
    made.frame("SELECT '\u00e9;x' AS a, 'y' AS b").writeTo(made.table).append()
    for option, value, found in (
        ("delimiter", ";", ("\u00e9", "x|y")),
        ("sep", ";", ("\u00e9", "x|y")),
        ("charset", "UTF-8", ("\ufffd;x", "y")),
        ("encoding", "UTF-8", ("\ufffd;x", "y")),
    ):
        rows = made.spark.read.option(option, value).table(made.table).collect()
        assert list(map(tuple, rows)) == [found], option


def test_later_write_with_another_option_is_refused_and_writes_nothing(made: Made, tmp_path: Path) -> None:
    write(made, "saveAsTable", tmp_path, "csv", sep="|")
    frame, rows = made.frame(), str(tmp_path / "rows")
    frame.write.parquet(rows)
    writes = {
        "append": lambda: frame.write.mode("append").format("csv").option("header", True).saveAsTable(made.table),
        "insertInto": lambda: frame.write.option("header", True).insertInto(made.table),
        "overwrite": lambda: frame.write.option("header", True).insertInto(made.table, overwrite=True),
        "writeTo": lambda: frame.writeTo(made.table).option("header", "true").append(),
        "partitions": lambda: frame.writeTo(made.table).option("header", "true").overwritePartitions(),
        "stream": lambda: (
            made.spark.readStream.schema(frame.schema).parquet(rows).writeStream.option("header", True)
            .option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).toTable(made.table)
            .awaitTermination()
        ),
    }  # fmt: skip
    if made.catalog == "spark_catalog":
        # Spark passes options of insertInto to no session catalog: the rows are written as the table has them.
        for name in ("insertInto", "overwrite"):
            writes.pop(name)()
    for name, one in writes.items():
        with pytest.raises(PySparkException) as caught:
            one()
        assert "the option 'header' = 'true', and the table's is not set" in str(caught.value), name
    assert made.rows(f"SELECT * FROM {made.table}") == [(1, "x,y", None, DAY)]


def test_append_with_another_format_gets_sparks_own_refusal(database: Sql) -> None:
    database.sql("CREATE TABLE made.t (a INT) USING parquet")
    frame = database.spark.sql("SELECT 1 AS a")
    frame.write.mode("append").format("parquet").saveAsTable("made.t")
    frame.write.mode("append").format("catalog_ext").saveAsTable("made.t")
    with pytest.raises(PySparkException, match="doesn't match the specified format `Orc"):
        frame.write.mode("append").format("orc").saveAsTable("made.t")
    assert database.rows("SELECT count(*) FROM made.t") == [(2,)]


def test_format_of_using_catalog_ext_is_an_option_of_the_writer(database: Sql) -> None:
    frame = database.spark.sql("SELECT 1 AS a")
    frame.write.format("catalog_ext").option("format", "csv").option("sep", "|").saveAsTable("made.u")
    frame.writeTo("made.v").using("catalog_ext").option("format", "json").create()
    catalog = sessions.active_catalog("spark_catalog")
    assert [catalog.load_table(f"made.{name}").definition.format for name in "uv"] == ["csv", "json"]
    assert catalog.load_table("made.u").definition.options == {"sep": "|"}


def test_table_moves_into_a_database_that_only_spark_has(database: Sql, tmp_path: Path) -> None:
    database.sql("CREATE DATABASE other_place", "CREATE DATABASE third_place")
    try:
        database.sql("CREATE TABLE made.mover (i INT) USING parquet", "INSERT INTO made.mover VALUES (1)")
        database.sql("ALTER TABLE made.mover RENAME TO other_place.mover")
        assert database.rows("SELECT * FROM other_place.mover") == [(1,)]
        database.spark.range(1).write.parquet(f"{tmp_path}/r/k=1")
        database.sql(f"CALL spark_catalog.system.register_table('third_place.r', '{tmp_path.as_uri()}/r')")
        assert [row[1] for row in database.rows("SHOW TABLES IN third_place")] == ["r"]
    finally:
        database.sql("DROP DATABASE other_place CASCADE", "DROP DATABASE third_place CASCADE")


def test_spark_table_is_saved_in_a_database_that_only_the_index_has(database: Sql) -> None:
    database.spark.conf.set("spark.sql.catalog.spark_catalog.create.formats", "none")
    try:
        database.spark.sql("SELECT 1 AS a").write.saveAsTable("made.sparks")
        assert database.rows("SELECT * FROM made.sparks") == [(1,)]
    finally:
        database.spark.conf.set("spark.sql.catalog.spark_catalog.create.formats", "*")


EVOLVING = {"EVOLUTION": [("a", "bigint"), ("b", "int")], "TYPE EVOLUTION": [("a", "bigint")]}


@pytest.mark.parametrize("mode", EVOLVING)
def test_evolving_view_follows_its_table(database: Sql, mode: str) -> None:
    database.sql("CREATE TABLE lake.made.grows (a INT NOT NULL) USING parquet")
    database.sql("INSERT INTO lake.made.grows VALUES (1)")
    database.sql(f"CREATE VIEW lake.made.follows WITH SCHEMA {mode} AS SELECT * FROM lake.made.grows")
    database.sql("CREATE VIEW lake.made.over WITH SCHEMA EVOLUTION AS SELECT a FROM lake.made.follows")
    assert database.rows("SELECT * FROM lake.made.follows") == [(1,)]
    database.sql("ALTER TABLE lake.made.grows ALTER COLUMN a TYPE BIGINT")
    database.sql("ALTER TABLE lake.made.grows ADD COLUMNS (b INT)")
    found = database.sql("SELECT * FROM lake.made.follows")
    assert [(field.name, field.dataType.simpleString()) for field in found.schema] == EVOLVING[mode]
    assert found.collect()[0][0] == 1
    assert database.rows("SELECT a FROM lake.made.follows WHERE a > 0") == [(1,)]
    assert database.rows("SELECT * FROM lake.made.over") == [(1,)]


def test_view_of_a_session_without_binding_modes_is_shown_as_a_statement(database: Sql) -> None:
    database.sql("CREATE TABLE lake.made.t (a INT) USING parquet")
    database.spark.conf.set("spark.sql.legacy.viewSchemaBindingMode", "false")
    try:
        database.sql("CREATE VIEW lake.made.v AS SELECT * FROM lake.made.t")
    finally:
        database.spark.conf.unset("spark.sql.legacy.viewSchemaBindingMode")
    ((shown,),) = database.rows("SHOW CREATE TABLE lake.made.v")
    assert "UNSUPPORTED" not in shown
    database.sql("DROP VIEW lake.made.v", shown)
    assert database.rows("SELECT * FROM lake.made.v") == []


def test_codec_of_a_write_goes_before_that_of_the_table(made: Made) -> None:
    """For CSV, Spark knows the option `compression` as `codec`, too."""
    made.sql(f"CREATE TABLE {made.table} (a INT) USING csv OPTIONS (compression 'bzip2', codec 'deflate')")
    made.sql(f"INSERT INTO {made.table} VALUES (1)")
    made.frame("SELECT 2 AS a").writeTo(made.table).option("codec", "gzip").append()
    rows = made.rows(f"SELECT a, _metadata.file_name FROM {made.table} ORDER BY a")
    assert [(a, name.rpartition(".")[2]) for a, name in rows] == [(1, "bz2"), (2, "gz")]
