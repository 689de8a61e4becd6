"""CSV columns by the names of each file's header, and JSON keys in any case, whatever the schema comes from."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from catalog_ext.spark import session as sessions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

HEADED = {
    "d=1": "name,age\nAnn,1\nBob,2\n",
    "d=2": "age,name\n3,Cy\n",
    "d=3": "NAME,city,Age\nDi,Oslo,4\n",
    "d=4": "\ufeffage,name\r\n5,Ed\r\n",
    "d=5": '"name",age\n"Fay\nG",6\n'.replace("\nG", " G"),
    "d=6": "age,name\n",
    "d=7": "",
    "d=8": "age\n7\n",
}
PEOPLE = [
    ("1", "Ann", "1", None), ("1", "Bob", "2", None), ("2", "Cy", "3", None), ("3", "Di", "4", "Oslo"),
    ("4", "Ed", "5", None), ("5", "Fay G", "6", None), ("8", None, "7", None),
]  # fmt: skip
KEYS = {
    "d=1": [{"userId": 1, "a": {"Inner": 1, "l": [{"X": 1}]}, "m": {"Key": 1, "key": 2}}],
    "d=2": [{"userid": 2, "A": {"inner": 2, "L": [{"x": 2}, {"X": 3}]}, "M": {"KEY": 3}}, {"USERID": None, "b": 1}],
    "d=3": [{"UserID": 9, "userId": 3}, {"userId": 4, "UserID": 9, "a": {"INNER": 4, "other": {"Inner": 8}}}],
}


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("names")
    with driver.catalog(warehouse=str(root), index=f"sqlite:///{root}/index.db") as session:
        session.sql("CREATE DATABASE IF NOT EXISTS lake.s")
        yield session


def tree(root: Path, files: dict[str, str], suffix: str = "csv") -> str:
    for directory, text in files.items():
        (root / directory).mkdir(parents=True)
        content = text.encode()
        (root / directory / f"f.{suffix}").write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    return str(root)


def registered(spark: SparkSession, name: str, place: str, **more: object) -> str:
    keys = more.pop("partition_columns", {"d": "string"})
    sessions.active_catalog("lake").register_table(
        f"s.{name}", location=place, partition_columns=keys, properties={"partition-columns": "declared"}, **more
    )
    sessions.active_catalog("lake").repair_partitions(f"s.{name}")
    return f"lake.s.{name}"


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=lambda row: json.dumps(row, default=str))


@pytest.mark.parametrize(
    ("name", "schema", "suffix", "separator", "options"),
    [
        ("read", None, "csv", ",", {}),
        ("declared", "name STRING, age STRING, city STRING", "csv", ",", {}),
        ("turned", "city STRING, age STRING, name STRING", "csv.gz", ",", {}),
        ("tabs", None, "tsv", "\t", {"sep": "\t"}),
        ("lines", None, "csv", ",", {"multiLine": "true"}),
        ("plain", None, "csv", "|", {"sep": "|", "quote": ""}),
    ],
)
def test_values_stand_under_their_names(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    schema: str | None,
    suffix: str,
    separator: str,
    options: dict[str, str],
) -> None:
    files = {d: text.replace(",", separator) for d, text in HEADED.items()}
    if name == "plain":
        files["d=5"] = files["d=5"].replace('"', "")
    place = tree(tmp_path / "t", files, suffix)
    table = registered(spark, f"h_{name}", place, format="csv", schema=schema, options={"header": "true", **options})
    assert rows(spark, f"SELECT d, name, age, city FROM {table}") == sorted(PEOPLE, key=lambda r: json.dumps(r))
    assert rows(spark, f"SELECT name FROM {table} WHERE age > '4' AND city IS NULL") == [("Ed",), ("Fay G",), (None,)]
    assert rows(spark, f"SELECT count(*), count(city) FROM {table}") == [(7, 1)]
    assert rows(spark, f"SELECT d FROM {table} WHERE city = 'Oslo'") == [("3",)]
    if name == "read":
        spark.sql(f"INSERT INTO {table} (d, name, age) VALUES ('2', 'New', '8')")
        assert rows(spark, f"SELECT name, age FROM {table} WHERE d = '2'") == [("Cy", "3"), ("New", "8")]
        found = spark.read.option("header", "true").table(table).where("d = '1'").select("age", "name")
        assert sorted(map(tuple, found.collect())) == [("1", "Ann"), ("2", "Bob")]
        paths = spark.sql(
            f"SELECT name, age FROM lake.files(path => '{place}', format => 'csv', options => map('header', 'true'))"
        )
        assert ("Cy", "3") in list(map(tuple, paths.collect()))


def test_a_header_of_other_names_is_refused_with_its_file(spark: SparkSession, tmp_path: Path) -> None:
    place = tree(tmp_path / "t", {"d=1": "name,age\nAnn,1\n", "d=2": "age,name\n3,Cy\n"})
    table = registered(spark, "later", place, format="csv", options={"header": "true"})
    tree(tmp_path / "t", {"d=3": "Bob,41\nCy,3\n"})
    spark.sql("CALL lake.system.repair_partitions(table => 's.later')")
    for query in (
        f"SELECT name FROM {table}",
        f"SELECT count(*) FROM {table}",
        f"SELECT age FROM {table} WHERE d = '3'",
    ):
        with pytest.raises(PySparkException, match=r"header of the file .*d=3/f\.csv is \(Bob, 41\).*enforceSchema"):
            spark.sql(query).collect()
    assert rows(spark, f"SELECT name FROM {table} WHERE d < '3'") == [("Ann",), ("Cy",)]
    turned = tree(tmp_path / "turned", {"d=1": "name,age\nAnn,1\n", "d=2": "age,name\n3,Cy\n"})
    by_position = registered(
        spark, "forced", turned, format="csv", schema="a STRING, b STRING",
        options={"header": "true", "enforceSchema": "true"},
    )  # fmt: skip
    assert rows(spark, f"SELECT a, b FROM {by_position} WHERE d = '2'") == [("3", "Cy")]


def test_blank_lines_and_comments_before_a_header_are_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    place = tree(tmp_path / "t", {"d=1": "name,age\nAnn,1\n", "d=2": "  \n\t\n# age\n\nage,name\n3,Cy\n"})
    table = registered(spark, "late", place, format="csv", options={"header": "true", "comment": "#"})
    assert rows(spark, f"SELECT name, age FROM {table}") == [("Ann", "1"), ("Cy", "3")]


def test_parts_of_a_file_have_the_columns_of_its_header(spark: SparkSession, tmp_path: Path) -> None:
    many = "".join(f"{i},n{i}\n" for i in range(3000))
    place = tree(tmp_path / "t", {"d=1": "name,age\nAnn,1\n", "d=2": f"age,name\n{many}"})
    table = registered(spark, "parts", place, format="csv", options={"header": "true"})
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    try:
        query = spark.sql(f"SELECT name, age FROM {table} WHERE d = '2'")
        assert query.rdd.getNumPartitions() > 3
        assert sorted(int(row.age) for row in query.collect() if row.name == f"n{row.age}") == list(range(3000))
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


@pytest.mark.parametrize("options", [{}, {"multiLine": "true"}])
@pytest.mark.parametrize(
    "schema", [None, "userId BIGINT, a STRUCT<Inner: BIGINT, l: ARRAY<STRUCT<X: BIGINT>>>, m MAP<STRING, BIGINT>"]
)
def test_json_keys_are_found_in_any_case(
    spark: SparkSession, tmp_path: Path, schema: str | None, options: dict[str, str]
) -> None:
    records = dict(KEYS)
    if schema is None:
        # One object with a key in two cases needs the schema.
        records["d=1"] = [{**records["d=1"][0], "m": None}]
        records["d=3"] = [{"userId": 3}, {"USERID": 4, "a": {"INNER": 4}}]
    if options:
        files = {d: json.dumps(found, indent=1) for d, found in records.items()}
    else:
        files = {d: "".join(json.dumps(each) + "\n" for each in found) for d, found in records.items()}
    place = tree(tmp_path / "t", files, "json")
    table = registered(
        spark, f"j_{len(options)}_{schema is None}", place, format="json", schema=schema, options=options
    )
    assert rows(spark, f"SELECT d, userId, a.inner FROM {table}") == [
        ("1", 1, 1), ("2", 2, 2), ("2", None, None), ("3", 3, None), ("3", 4, 4),
    ]  # fmt: skip
    assert rows(spark, f"SELECT x.x FROM {table} LATERAL VIEW explode(a.l) AS x") == [(1,), (2,), (3,)]
    assert rows(spark, f"SELECT d FROM {table} WHERE userId = 2") == [("2",)]
    if schema is not None:
        assert rows(spark, f"SELECT m['Key'], m['key'], m['KEY'] FROM {table} WHERE m IS NOT NULL") == [
            (1, 2, None), (None, None, 3),
        ]  # fmt: skip
    else:
        paths = spark.sql(
            f"SELECT userId FROM lake.files(path => '{place}', format => 'json', "
            f"options => map('multiLine', '{bool(options)}'))"
        )
        assert sorted(row.userId or 0 for row in paths.collect()) == [0, 1, 2, 3, 4]


def test_filters_see_the_value_of_the_last_key(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's parser dropped rows by the value of a key in another case, before it came to the right one."""
    records = [{"A": 2, "a": 1}, {"A": 4, "a": None}, {"A": 6, "AA": 0}]
    place = tree(tmp_path / "t", {"d=1": "".join(json.dumps(each) + "\n" for each in records)}, "json")
    table = registered(spark, "j_twins", place, format="json", schema="a BIGINT")
    assert rows(spark, f"SELECT a FROM {table}") == [(1,), (6,), (None,)]
    for condition, found in (("a = 1", [(1,)]), ("a = 2", []), ("a IS NULL", [(None,)]), ("a > 5", [(6,)])):
        assert rows(spark, f"SELECT a FROM {table} WHERE {condition}") == found, condition
