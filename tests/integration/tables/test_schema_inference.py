"""The schemas that are read from files are those that Spark's own readers infer."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from catalog_ext.metastore.errors import InvalidInputError, InvalidTypeError
from catalog_ext.metastore.model.types import parse_fields
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.tables.schema_inference import infer_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver


pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(driver: Driver) -> Iterator[SparkSession]:
    with driver.session() as session:
        yield session


def _ours(paths: list[Path], kind: str, options: Mapping[str, str]) -> list[tuple[str, str]]:
    files = [(Location.parse(path.as_uri()), path.stat().st_size) for path in paths]
    return [(c.name, c.type) for c in infer_columns(Storage(), files, kind, options)]


def _sparks(spark: SparkSession, paths: list[Path], kind: str, options: Mapping[str, str]) -> list[tuple[str, str]]:
    schema = spark.read.format(kind).options(**options).load([str(p) for p in paths]).schema
    return [(f.name, str(parse_fields(f"c {f.dataType.simpleString()}")[0].type)) for f in schema.fields]


def _same(spark: SparkSession, paths: list[Path], kind: str, options: Mapping[str, str] | None = None) -> None:
    assert _ours(paths, kind, options or {}) == _sparks(spark, paths, kind, options or {})


_ONE = Decimal("1.00")
ARROW: dict[str, tuple[pa.DataType, object]] = {
    "i8": (pa.int8(), 1),
    "i16": (pa.int16(), 1),
    "i32": (pa.int32(), 1),
    "i64": (pa.int64(), 1),
    "u8": (pa.uint8(), 1),
    "u16": (pa.uint16(), 1),
    "u32": (pa.uint32(), 1),
    "u64": (pa.uint64(), 1),
    "f32": (pa.float32(), 1),
    "f64": (pa.float64(), 1),
    "bool": (pa.bool_(), True),
    "string": (pa.string(), "x"),
    "large": (pa.large_string(), "x"),
    "binary": (pa.binary(), b"x"),
    "fixed": (pa.binary(4), b"abcd"),
    "date32": (pa.date32(), dt.date(2025, 1, 1)),
    "date64": (pa.date64(), dt.date(2025, 1, 1)),
    "ntz": (pa.timestamp("us"), 0),
    "utc": (pa.timestamp("ms", "UTC"), 0),
    "berlin": (pa.timestamp("us", "Europe/Berlin"), 0),
    "seconds": (pa.timestamp("s"), 0),
    "duration": (pa.duration("us"), 0),
    "null": (pa.null(), None),
    "dec9": (pa.decimal128(9, 2), _ONE),
    "dec38": (pa.decimal128(38, 10), _ONE),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), "x"),
    "list": (pa.list_(pa.int32()), [1]),
    "pair": (pa.list_(pa.int32(), 2), [1, 2]),
    "struct": (pa.struct([("B", pa.int32()), ("a", pa.string())]), {"B": 1, "a": "x"}),
    "map": (pa.map_(pa.string(), pa.list_(pa.struct([("u", pa.uint16())]))), [("a", [{"u": 1}])]),
    "json": (pa.json_(), '{"a":1}'),
}


def test_parquet_by_arrow(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({name: pa.array([value], data_type) for name, (data_type, value) in ARROW.items()})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path)
    _same(spark, [path], "parquet")


def test_parquet_int96(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"t": pa.array([0], pa.timestamp("ns"))}), path, use_deprecated_int96_timestamps=True)
    _same(spark, [path], "parquet")


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        (pa.timestamp("ns"), 0),
        (pa.time32("ms"), 0),
        (pa.uuid(), b"0123456789abcdef"),
        (pa.float16(), 1.0),
        (pa.decimal256(50, 2), _ONE),
    ],
)
def test_parquet_types_that_spark_cannot_read(
    spark: SparkSession, tmp_path: Path, data_type: pa.DataType, value: object
) -> None:
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"odd": pa.array([value], data_type)}), path)
    with pytest.raises(InvalidTypeError, match=r"odd\.parquet has a column that Spark cannot read"):
        _ours([path], "parquet", {})
    with pytest.raises(Exception, match=r"PARQUET_TYPE_ILLEGAL|DECIMAL_PRECISION_EXCEEDS"):
        _sparks(spark, [path], "parquet", {})


_ALL_OF_SPARK = """
    SELECT CAST(1 AS TINYINT) t, CAST(1 AS SMALLINT) sm, 1 I, 1L l, CAST(1.5 AS FLOAT) f, 1.5D d,
           CAST(1.5 AS DECIMAL(10,2)) dc, true b, 'x' s, CAST('x' AS BINARY) bi, DATE'2025-01-01' da,
           TIMESTAMP'2025-01-01 00:00:00' ts, TIMESTAMP_NTZ'2025-01-01 00:00:00' tn, array(1) ar, map('a', 1) m,
           named_struct('B', 1, 'a', array(TIMESTAMP_NTZ'2025-01-01 00:00:00')) st, 1 `we ird.`
"""


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columnar_by_spark(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    spark.sql(_ALL_OF_SPARK).coalesce(1).write.format(kind).save(str(tmp_path / "t"))
    _same(spark, sorted((tmp_path / "t").glob(f"*.{kind}")), kind)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_char_and_varchar_of_a_table(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    columns = "a CHAR(3), b VARCHAR(5) COMMENT 'cc', c INT NOT NULL"
    spark.sql(f"CREATE TABLE cv_{kind} ({columns}) USING {kind} LOCATION '{tmp_path}/t'")
    spark.sql(f"INSERT INTO cv_{kind} VALUES ('a', 'b', 1)")
    paths = sorted((tmp_path / "t").glob(f"*.{kind}"))
    _same(spark, paths, kind)


def test_orc_by_arrow(spark: SparkSession, tmp_path: Path) -> None:
    names = [
        "i8",
        "i16",
        "i32",
        "i64",
        "f32",
        "f64",
        "bool",
        "string",
        "large",
        "binary",
        "fixed",
        "date32",
        "date64",
        "ntz",
        "utc",
    ]
    names += ["dec9", "dec38", "list", "pair", "struct"]
    path = tmp_path / "a.orc"
    orc.write_table(pa.table({n: pa.array([ARROW[n][1]], ARROW[n][0]) for n in names}), path)
    _same(spark, [path], "orc")


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_union_is_sparks_merged_schema(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    spark.sql("SELECT 1 a, 'x' B, named_struct('x', 1) s").coalesce(1).write.format(kind).save(str(tmp_path / "one"))
    spark.sql("SELECT 'x' B, 2.5D c, named_struct('y', 2) s").coalesce(1).write.format(kind).save(str(tmp_path / "two"))
    paths = [*(tmp_path / "one").glob(f"*.{kind}"), *(tmp_path / "two").glob(f"*.{kind}")]
    assert _ours(paths, kind, {}) == _sparks(spark, paths, kind, {"mergeSchema": "true"})


CSV: dict[str, tuple[str, dict[str, str]]] = {
    "plain": ("a,b\n1,2\n", {}),
    "header": ("a,B,,a,b, c ,A\n1,2\n", {"header": "true"}),
    "short header": ("a,b\n1,2,3\n", {"header": "true"}),
    "short first line": ("1\n1,2,3\n", {}),
    "quotes": ('"a,x","b""y","c\\"z",d\\e, "f",""\n1\n', {"header": "true"}),
    "quote escaped by quote": ('"a""b",c\n', {"header": "true", "escape": '"'}),
    "no quotes": ('"a",b\n', {"header": "true", "quote": "'"}),
    "byte order mark": ("\ufeffa,b\n1,2\n", {"header": "true"}),
    "blank lines and comments": ("\n  \n#x\na,b\n1,2\n", {"header": "true", "comment": "#"}),
    "many lines": ('"a\nb",c\n1,2\n', {"header": "true", "multiLine": "true", "inferSchema": "true"}),
    "long separator": ("a||b\n1||2\n", {"header": "true", "sep": "||"}),
    "tab": ("a\tb\n1\t2\n", {"header": "true", "delimiter": "\\t", "inferSchema": "true"}),
    "header only": ("a,b\n", {"header": "true", "inferSchema": "true"}),
    "trimmed": (
        "x , y\n 5 , 6\n",
        {
            "header": "true",
            "inferSchema": "true",
            "ignoreLeadingWhiteSpace": "true",
            "ignoreTrailingWhiteSpace": "true",
        },
    ),
    "untrimmed": ("x,y\n5 , 6\n", {"header": "true", "inferSchema": "true"}),
    "ragged": ("x,y\n5\n6,7,8\n", {"header": "true", "inferSchema": "true"}),
    "types without header": ("5,a\n6,b\n", {"inferSchema": "true"}),
    "null value": ("x\nNA\n5\n", {"header": "true", "inferSchema": "true", "nullValue": "NA"}),
    "null name": ("NA,b\n1,2\n", {"header": "true", "nullValue": "NA"}),
    "date format": ("x\n31/12/2025\n", {"header": "true", "inferSchema": "true", "dateFormat": "dd/MM/yyyy"}),
    "other date": ("x\n12/31/2025\n", {"header": "true", "inferSchema": "true", "dateFormat": "dd/MM/yyyy"}),
    "timestamp format": (
        "x\n31/12/2025 10:00\n",
        {"header": "true", "inferSchema": "true", "timestampFormat": "dd/MM/yyyy HH:mm"},
    ),
    "no dates": ("x\n2025-01-01\n", {"header": "true", "inferSchema": "true", "preferDate": "false"}),
    "carriage returns": ("a,b\r\n1,2\r\n", {"header": "true", "inferSchema": "true"}),
    "line separator": ("a,b;1,2;", {"header": "true", "lineSep": ";"}),
    "latin": ("a,b\n", {"header": "true", "encoding": "ISO-8859-1"}),
}


@pytest.mark.parametrize("name", CSV)
def test_csv(spark: SparkSession, tmp_path: Path, name: str) -> None:
    text, options = CSV[name]
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    _same(spark, [path], "csv", options)


VALUES = [
    ["1", "+2", "-3"],
    ["1", "3000000000"],
    ["1", "99999999999999999999"],
    ["9" * 39],
    ["1", "1.5"],
    ["1d"],
    ["NaN", "1"],
    ["Inf", "1.5"],
    ["Infinity"],
    ["inf"],
    ["2025-01-01", "2025-02-01"],
    ["2025-01"],
    ["2025-01-01", "2025-01-01 10:00:00"],
    ["2025-01-01T10:00:00Z"],
    ["2025-01-01 10:00:00+01:00"],
    ["2025-01-01 10:00:00 Europe/Berlin"],
    ["2025-01-01 10"],
    ["10:00:00"],
    ["true", "FALSE"],
    ["true", "1"],
    ["yes"],
    ["", ""],
    ["", "5"],
    ["a", "1"],
    ["2025-01-01", "5"],
    [" 5", " 6 "],
    [" 5.5"],
    [" 2025-01-01"],
    ["2025"],
    ["99999999999999999999", "1.5"],
    ["007"],
    ["1_0"],
    ["1,000"],
    ["-0"],
    ["2025-01-01", ""],
    ["2025-01-01 10:00:00", "2025"],
    ["2025-01-01 10:00:00", "5"],
    ["true", "2025-01-01"],
    ["0x1p3"],
    ["epoch"],
    ["1e5"],
    ["1E400"],
    ["+"],
    ["."],
    ["1" * 38],
    ["1" * 38, "1.5"],
    ["99999999999999999999.5"],
    ["99999999999999999999", "1"],
    ["2025-02-30"],
    ["2025-13-01"],
    ["1.", ".5"],
    ["0x1F"],
    ["1 2"],
    ["५"],
]


def test_csv_types(spark: SparkSession, tmp_path: Path) -> None:
    """Each list of values is one column of one file."""
    longest = max(map(len, VALUES))
    header = ",".join(f"c{i}" for i in range(len(VALUES)))
    rows = [",".join(f'"{v[row]}"' if row < len(v) else "" for v in VALUES) for row in range(longest)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    _same(spark, [path], "csv", {"header": "true", "inferSchema": "true"})


JSON: dict[str, tuple[str, dict[str, str]]] = {
    "basic": ('{"b":1,"a":"x","c":1.5,"d":true,"e":null,"f":[1,2],"g":{"z":1,"y":"a"}}\n', {}),
    "big integer": ('{"a":9223372036854775808}\n', {}),
    "big and small": ('{"a":9223372036854775808}\n{"a":1}\n', {}),
    "big and fraction": ('{"a":9223372036854775808}\n{"a":1.5}\n', {}),
    "too big": (f'{{"a":{"9" * 39}}}\n{{"b":{"9" * 5000}}}\n', {}),
    "integer and fraction": ('{"a":1}\n{"a":1.5}\n', {}),
    "integer and text": ('{"a":1}\n{"a":"x"}\n', {}),
    "integer and truth": ('{"a":1}\n{"a":true}\n', {}),
    "mixed array": ('{"a":[1,null,"x"]}\n', {}),
    "empty array": ('{"a":[]}\n', {}),
    "empty object": ('{"a":{},"b":1}\n', {}),
    "empty text": ('{"a":"","b":""}\n{"a":1}\n', {}),
    "corrupt line": ('{"z":1}\n{bad\n{"A":1}\n', {}),
    "dropped line": ('{"a":1}\n{bad\n', {"mode": "DROPMALFORMED"}),
    "corrupt column": ('{"a":1}\n{bad\n', {"columnNameOfCorruptRecord": "oops"}),
    "single quotes": ("{'a':1,'b':'it\\'s \"x\"'}\n", {}),
    "not a number": ('{"a":NaN}\n{"b":Infinity}\n', {}),
    "array of objects": ('[{"a":1},{"b":2}]\n', {}),
    "number and object": ('1\n{"a":1}\n', {}),
    "blank lines": ('\n  \n{"a":1}\n', {}),
    "many lines": ('{"a":\n1}\n', {"multiLine": "true"}),
    "array over lines": ('[{"a":1},\n{"b":1}]\n', {"multiLine": "true"}),
    "all text": ('{"a":1,"b":{"c":true}}\n', {"primitivesAsString": "true"}),
    "decimals": ('{"a":1.5,"b":0.001}\n', {"prefersDecimal": "true"}),
    "timestamps": ('{"a":"2025-01-01T00:00:00","b":"x"}\n', {"inferTimestamp": "true"}),
    "no timestamps": ('{"a":"2025-01-01"}\n', {}),
    "order of names": ('{"b":1,"B2":1,"a":1,"_z":1,"é":1}\n', {}),
    "object and array": ('{"a":{"x":1}}\n{"a":[1]}\n', {}),
    "objects in array": ('{"a":[{"x":1},{"y":"s"}]}\n', {}),
    "empty name": ('{"":1,"a":1}\n', {}),
    "text after": ('{"a":1} {"b":2}\n', {}),
    "exponent": ('{"a":1e2,"b":-0}\n', {}),
    "dots": ('{"a.b":1}\n', {}),
}


@pytest.mark.parametrize("name", JSON)
def test_json(spark: SparkSession, tmp_path: Path, name: str) -> None:
    text, options = JSON[name]
    path = tmp_path / "a.json"
    path.write_text(text)
    _same(spark, [path], "json", options)


def test_json_of_several_files(spark: SparkSession, tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    paths[0].write_text('{"z":1,"s":{"a":1}}\n')
    paths[1].write_text('{"a":"x","z":1.5,"s":{"b":[]}}\n')
    _same(spark, paths, "json")


@pytest.mark.parametrize("suffix", ["gz", "bz2"])
def test_compressed_text(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    compress = {"gz": gzip.compress, "bz2": bz2.compress}[suffix]
    path = tmp_path / f"a.csv.{suffix}"
    path.write_bytes(compress(b"a,b\n") + compress(b"1,x\n"))
    _same(spark, [path], "csv", {"header": "true", "inferSchema": "true"})


def test_text(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n")
    _same(spark, [path], "text")


def test_damaged_files_fail_in_both(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 this is not a footer")
    with pytest.raises(InvalidInputError, match=r"a\.parquet is not a readable Parquet file"):
        _ours([path], "parquet", {})
    with pytest.raises(Exception, match=r"CANNOT_READ|not a Parquet file"):
        _sparks(spark, [path], "parquet", {})
