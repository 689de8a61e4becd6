"""Schemas read from files, where no Spark is needed to say what is right; the comparison is in tests/integration."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from catalog_ext.metastore.errors import (
    CatalogExtError,
    InvalidConfigurationError,
    InvalidInputError,
    LocationNotFoundError,
    SchemaConflictError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.repair.verification import unreadable_reason
from catalog_ext.scan.parquet_footer import map_keys
from catalog_ext.tables.schema.merge import TypeConflictError, loosen, widen
from catalog_ext.tables.schema_inference import infer_columns, without_keys
from tests.kit.parquet_files import write_optional_map_keys

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def _infer(paths: list[Path], kind: str, options: Mapping[str, str] | None = None) -> dict[str, str]:
    files = [(Location.parse(path.as_uri()), 0) for path in paths]
    return {c.name: c.type for c in infer_columns(Storage(), files, kind, options or {})}


def _parquet(path: Path, **columns: pa.DataType) -> Path:
    pq.write_table(pa.table({name: pa.array([None], data_type) for name, data_type in columns.items()}), path)
    return path


def _text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("left", "right", "both"),
    [
        ("int", "int", "int"),
        ("int", "bigint", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("float", "double", "double"),
        ("int", "double", "double"),
        ("decimal(10,2)", "decimal(12,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("int", "decimal(5,2)", "decimal(12,2)"),
        ("void", "date", "date"),
        ("varchar(3)", "string", "string"),
        ("char(2)", "char(3)", "string"),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("map<string,int>", "map<string,bigint>", "map<string,bigint>"),
        ("struct<a:int,b:string>", "struct<B:string,c:date,A:bigint>", "struct<a:bigint,b:string,c:date>"),
    ],
)
def test_types_that_widen(left: str, right: str, both: str) -> None:
    assert str(widen(parse_type(left), parse_type(right))) == both
    if "struct" not in left:
        assert str(widen(parse_type(right), parse_type(left))) == both


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("int", "string"),
        ("bigint", "double"),
        ("date", "timestamp"),
        ("binary", "string"),
        ("boolean", "int"),
        ("array<int>", "int"),
        ("array<int>", "array<string>"),
        ("timestamp", "timestamp_ntz"),
        ("decimal(38,0)", "decimal(38,10)"),
        ("float", "decimal(5,2)"),
        ("struct<a:int>", "struct<a:string>"),
        ("float", "bigint"),
    ],
)
def test_types_that_do_not(left: str, right: str) -> None:
    with pytest.raises(TypeConflictError):
        widen(parse_type(left), parse_type(right))
    with pytest.raises(TypeConflictError):
        widen(parse_type(right), parse_type(left))


def test_text_has_no_conflict() -> None:
    assert str(loosen(parse_type("date"), parse_type("int"))) == "string"
    assert str(loosen(parse_type("date"), parse_type("timestamp"))) == "timestamp"
    assert str(loosen(parse_type("decimal(38,0)"), parse_type("decimal(38,38)"))) == "double"


def test_the_union_keeps_the_first_spelling_and_order(tmp_path: Path) -> None:
    one = _parquet(tmp_path / "1.parquet", Id=pa.int32(), name=pa.string())
    two = _parquet(tmp_path / "2.parquet", extra=pa.date32(), NAME=pa.string(), ID=pa.int64())
    assert _infer([one, two], "parquet") == {"Id": "bigint", "name": "string", "extra": "date"}


def test_a_conflict_names_both_files_and_the_column(tmp_path: Path) -> None:
    inner = pa.struct([("x", pa.int32())]), pa.struct([("x", pa.string())])
    paths = [_parquet(tmp_path / f"{i}.parquet", s=t) for i, t in enumerate(inner)]
    with pytest.raises(
        SchemaConflictError, match=r"'s\.x' is INT in .*0\.parquet and STRING in .*1\.parquet"
    ) as caught:
        _infer(paths, "parquet")
    assert caught.value.parameters == {"column": "s.x", "file": paths[0].as_uri(), "other_file": paths[1].as_uri()}


def test_many_files_are_read_in_their_order(tmp_path: Path) -> None:
    paths = [_parquet(tmp_path / f"{i}.parquet", **{f"c{i}": pa.int32()}) for i in range(40)]
    assert list(_infer(paths, "parquet")) == [f"c{i}" for i in range(40)]


def test_columns_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "a.parquet", a=pa.int32(), A=pa.int32())
    with pytest.raises(SchemaConflictError, match=r"a\.parquet has the columns 'a' and 'A'"):
        _infer([path], "parquet")


def test_sparks_own_schema_in_the_footer_wins(tmp_path: Path) -> None:
    fields = [
        {"name": "i", "type": "byte", "nullable": False, "metadata": {"comment": "small"}},
        {"name": "c", "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}},
        {
            "name": "s",
            "nullable": True,
            "metadata": {},
            "type": {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": False}]},
        },
    ]
    schema = pa.schema(
        [("i", pa.int32())],
        {"org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": fields})},
    )
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"i": pa.array([1], pa.int32())}, schema), path)
    columns = infer_columns(Storage(), [(Location.parse(path.as_uri()), 0)], "parquet", {})
    assert columns == (Column("i", "tinyint", comment="small"), Column("c", "string"), Column("s", "struct<x:int>"))


@pytest.mark.parametrize(
    ("kind", "content"),
    [("parquet", b"x" * 100), ("orc", b"ORC" + b"x" * 100)],
    ids=["parquet", "orc"],
)
def test_a_damaged_file_is_named(tmp_path: Path, kind: str, content: bytes) -> None:
    path = tmp_path / f"bad.{kind}"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=rf"bad\.{kind} is not a readable") as caught:
        _infer([path], kind)
    assert caught.value.parameters == {"file": path.as_uri()}
    assert re.search(r"[^.]\. Remove it", caught.value.message)


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
def test_empty_files_have_no_columns(tmp_path: Path, kind: str) -> None:
    """Spark reads no row of them, and takes the columns of the other files."""
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(InvalidInputError, match=r"No column was found in 1 .* they are empty"):
        _infer([tmp_path / "empty"], kind)
    _write(tmp_path / "whole", kind)
    assert list(_infer([tmp_path / "empty", tmp_path / "whole"], kind, {"header": "true"})) == ["a"]


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
@pytest.mark.parametrize("bad", [b"PAR1 and nothing", b"ORC and nothing", b"Obj\x01"])
def test_file_of_another_format_is_left_out_with_warning(
    tmp_path: Path, kind: str, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    _write(tmp_path / "whole", kind)
    (tmp_path / "bad").write_bytes(bad)
    assert list(_infer([tmp_path / "bad", tmp_path / "whole"], kind, {"header": "true"})) == ["a"]
    assert f"{(tmp_path / 'bad').as_uri()}. Queries that read these files fail" in caplog.text
    caplog.clear()
    (tmp_path / "bad").unlink()
    assert list(_infer([tmp_path / "bad", tmp_path / "whole"], kind, {"header": "true"})) == ["a"]
    assert "without 1 of 2 sampled files" in caplog.text


def _write(path: Path, kind: str) -> None:
    rows = pa.table({"a": ["x"]})
    if kind == "parquet":
        pq.write_table(rows, path)
    elif kind == "orc":
        orc.write_table(rows, path)
    else:
        path.write_text("a\nx\n" if kind == "csv" else '{"a": "x"}\n', encoding="utf-8")


def test_maps_with_optional_keys_are_read(tmp_path: Path) -> None:
    """Presto, Athena and Hive write them, Spark reads them and Arrow refuses them."""
    kind = pa.map_(pa.string(), pa.map_(pa.int32(), pa.float64()))
    rows = pa.table({"a": [1], "m": pa.array([[("k", [(1, 2.0)])]], kind), "z": ["x"]})
    path = tmp_path / "a.parquet"
    write_optional_map_keys(rows, path)
    with pytest.raises(pa.ArrowInvalid, match="Map keys must be annotated as required"):
        pq.read_metadata(path)
    assert _infer([path], "parquet") == {"a": "bigint", "m": "map<string,map<int,double>>", "z": "string"}
    assert unreadable_reason(Storage(), Location.parse(path.as_uri()), "parquet") is None
    path.write_bytes(path.read_bytes()[:-20] + path.read_bytes()[-8:])
    with pytest.raises(InvalidInputError, match="is not a readable Parquet file"):
        _infer([path], "parquet")


def test_encrypted_footer_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PARE....PARE")
    with pytest.raises(InvalidInputError, match="has an encrypted footer"):
        _infer([tmp_path / "a.parquet"], "parquet")


def test_a_file_of_another_format_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    orc.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(InvalidInputError, match=r"a\.parquet is not a readable Parquet file"):
        _infer([path], "parquet")


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv", "json"])
def test_a_file_that_is_not_there(tmp_path: Path, kind: str) -> None:
    with pytest.raises(LocationNotFoundError, match="gone"):
        _infer([tmp_path / "gone"], kind)


@pytest.mark.parametrize(("kind", "text"), [("csv", ""), ("csv", "\n \n"), ("json", ""), ("json", "{}\n")])
def test_files_without_a_column(tmp_path: Path, kind: str, text: str) -> None:
    with pytest.raises(InvalidInputError, match="Give the schema"):
        _infer([_text(tmp_path / "a", text)], kind)


def test_what_is_no_json_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"a\.json .* no line that is a JSON object"):
        _infer([_text(tmp_path / "a.json", "id,name\n1,x\n")], "json")


def test_failfast_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"a\.json holds malformed JSON in mode FAILFAST"):
        _infer([_text(tmp_path / "a.json", '{"a":1}\n{bad\n')], "json", {"mode": "FAILFAST"})


def test_nesting_without_end_is_a_corrupt_record(tmp_path: Path) -> None:
    deep = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert _infer([_text(tmp_path / "a.json", f'{{"b":1}}\n{deep}\n')], "json") == {
        "_corrupt_record": "string",
        "b": "bigint",
    }


def test_headers_of_several_files_are_united(tmp_path: Path) -> None:
    one = _text(tmp_path / "1.csv", "a,b\n1,x\n")
    two = _text(tmp_path / "2.csv", "B,c\n2025-01-01,1.5\n")
    options = {"header": "true", "inferSchema": "true"}
    assert _infer([one, two], "csv", options) == {"a": "int", "b": "string", "c": "double"}
    assert _infer([one, two], "csv", {"header": "true"}) == {"a": "string", "b": "string", "c": "string"}


def test_only_the_first_part_of_a_text_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w") as out:
        out.write("a,b\n")
        out.writelines(f"1,{'x' * 1000}\n" for _ in range(3000))
        out.write("text,x\n")
    assert _infer([path], "csv", {"header": "true", "inferSchema": "true"}) == {"a": "int", "b": "string"}


def test_options_have_no_case(tmp_path: Path) -> None:
    path = _text(tmp_path / "a.csv", "a;b\n")
    assert list(_infer([path], "csv", {"HEADER": "TRUE", "Delimiter": ";"})) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"header": "yes"}, "'header' is 'yes'; it must be true or false"),
        ({"encoding": "klingon"}, "names no encoding: 'klingon'"),
        ({"sep": ""}, "'sep' is empty"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=message):
        _infer([_text(tmp_path / "a.csv", "a\n")], "csv", options)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.bz2", "a.csv.zst", "a.csv.snappy"])
def test_compressed_text_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(CatalogExtError, match=name.replace(".", r"\.")):
        _infer([_text(tmp_path / name, "a,b\n1,2\n")], "csv", {"header": "true"})


def test_zstd(tmp_path: Path) -> None:
    path = tmp_path / "a.json.zst"
    path.write_bytes(pa.Codec("zstd").compress(b'{"a":1}\n', asbytes=True))
    assert _infer([path], "json") == {"a": "bigint"}


def test_an_unknown_format() -> None:
    with pytest.raises(UnsupportedFormatError):
        infer_columns(Storage(), [], "avro", {})


def test_keys_are_left_out_whatever_their_case() -> None:
    columns = (Column("id", "int"), Column("DS", "string"), Column("x", "int"))
    assert [c.name for c in without_keys(columns, [Column("ds", "date")])] == ["id", "x"]


def test_a_file_whose_header_has_no_column_of_the_others_is_refused(tmp_path: Path) -> None:
    files = [_text(tmp_path / "a.csv", "name,age\nAnn,1\n"), _text(tmp_path / "b.csv", "Age,city\n2,Oslo\n")]
    assert list(_infer(files, "csv", {"header": "true"})) == ["name", "age", "city"]
    empty, other = _text(tmp_path / "c.csv", ""), _text(tmp_path / "d.csv", "Bob,41\nCy,3\n")
    with pytest.raises(SchemaConflictError, match=r"d\.csv is \(Bob, 41\).*a\.csv \(name, age, city\)") as caught:
        _infer([empty, *files, other], "csv", {"header": "true"})
    found = [caught.value.parameters[name].rpartition("/")[2] for name in ("file", "other_file")]
    assert found == ["a.csv", "d.csv"]


def test_keys_of_json_in_other_cases_are_one_column(tmp_path: Path) -> None:
    lines = '{"userId": 1, "a": [{"X": 1}]}\n{"userid": 2.5, "A": [{"x": 2, "y": 3}]}\n'
    assert _infer([_text(tmp_path / "a.json", lines)], "json", {}) == {
        "a": "array<struct<X:bigint,y:bigint>>", "userId": "double",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line", ['{"Osv": 1, "osv": "x"}', '{"a": {"Osv": 1, "osv": 2}}', '[{"a": [{"Osv": 1, "osv": null}]}]']
)
def test_an_object_with_a_key_in_two_cases_is_refused_with_its_file(tmp_path: Path, line: str) -> None:
    with pytest.raises(SchemaConflictError, match=r"b\.json has an object with the keys 'Osv' and 'osv'"):
        _infer([_text(tmp_path / "a.json", '{"osv": 1}\n'), _text(tmp_path / "b.json", f"{line}\n")], "json", {})


def test_number_without_an_end_is_no_footer() -> None:
    field_of_a_number = b"\x15"
    with pytest.raises(ValueError, match="a number that is too long"):
        map_keys(field_of_a_number + b"\xff" * 1000)
