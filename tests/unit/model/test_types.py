"""Type strings: Spark's DDL and Hive's dialect of it, canonical text, round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidInputError, InvalidTypeError, UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.hive_types import hive_type
from catalog_ext.metastore.model.alterations import AddColumn, altered
from catalog_ext.metastore.model.definition_checks import check_column_storable, check_keys
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.spark_json import field_from_json, field_to_json
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.model.types import KEY_TYPES, DataType, Field, parse_fields, parse_type, quote_name


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("BIGINT", "bigint"),
        (" long ", "bigint"),
        ("Integer", "int"),
        ("decimal", "decimal(10,0)"),
        ("DEC(5)", "decimal(5,0)"),
        ("numeric( 38 , 38 )", "decimal(38,38)"),
        ("char(3)", "char(3)"),
        ("character(3)", "char(3)"),
        ("VARCHAR(65535)", "varchar(65535)"),
        ("timestamp_ltz", "timestamp"),
        ("TIMESTAMP WITHOUT TIME ZONE", "timestamp_ntz"),
        ("time", "time(6)"),
        ("TIME(3)", "time(3)"),
        ("array<array<int>>", "array<array<int>>"),
        ("map<string, struct<a: int, `b c`: string>>", "map<string,struct<a:int,`b c`:string>>"),
        ("STRUCT<a INT NOT NULL COMMENT 'it\\'s', b: DATE>", "struct<a:int not null comment 'it\\'s',b:date>"),
        ("struct<>", "struct<>"),
        ("struct<$a:int>", "struct<`$a`:int>"),
        ("STRING COLLATE UTF8_BINARY", "string"),
        ("string collate `utf8_binary`", "string"),
        ("CHAR(5) COLLATE UTF8_BINARY", "char(5)"),
        ("string collate utf8_lcase", "string collate UTF8_LCASE"),
        ("varchar(5) COLLATE unicode_ci_rtrim", "varchar(5) collate UNICODE_CI_RTRIM"),
        ("string collate UTF8_BINARY_RTRIM", "string collate UTF8_BINARY_RTRIM"),
        ("array<string collate sr_Cyrl_SRB_AI>", "array<string collate sr_Cyrl_SRB_AI>"),
        ("struct<s: string collate de NOT NULL COMMENT 'x'>", "struct<s:string collate de not null comment 'x'>"),
        ("map<string collate UTF8_BINARY, string collate UNICODE>", "map<string,string collate UNICODE>"),
        ("INTERVAL YEAR TO MONTH", "interval year to month"),
        ("interval month", "interval month"),
        ("interval Day To Second", "interval day to second"),
        ("interval hour to minute", "interval hour to minute"),
        ("struct<a: interval second, b: array<interval day>>", "struct<a:interval second,b:array<interval day>>"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parse_type(text)) == canonical
    assert str(parse_type(canonical)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "blob",
        "int int",
        "int(3)",
        "decimal(39,0)",
        "decimal(5,6)",
        "decimal(0)",
        "decimal(1,2,3)",
        "decimal(a)",
        "char",
        "char(0)",
        "char(65536)",
        "varchar()",
        "array",
        "array<>",
        "array<int",
        "map<int>",
        "map<int,int,int>",
        "struct",
        "struct<a>",
        "struct<a:int,A:int>",
        "time(7)",
        "int; drop table x",
        "uniontype<int,string>",
        "x" * 10_000,
        "array<" * 50,
        "interval",
        "decimal(-1)",
    ],
)
def test_what_is_no_type_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(InvalidTypeError) as caught:
        parse_type(text)
    assert len(caught.value.message) < 500


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="too deep"):
        parse_type("array<" * 5000 + "int" + ">" * 5000)


def test_columns() -> None:
    fields = parse_fields("id BIGINT NOT NULL, `a b`: DECIMAL(10,2) COMMENT 'in USD', tags array<string>")
    assert fields == (
        Field("id", DataType("bigint"), nullable=False),
        Field("a b", DataType("decimal", (10, 2)), comment="in USD"),
        Field("tags", DataType("array", children=(DataType("string"),))),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "id",
        "id BIGINT,",
        ", id BIGINT",
        "id BIGINT, ID INT",
        "id BIGINT name STRING",
        "'id' INT",
        "a.b INT",
        "id BIGINT COMMENT x",
    ],
)
def test_column_lists_that_are_refused(text: str) -> None:
    with pytest.raises(InvalidTypeError):
        parse_fields(text)


def test_a_name_that_comes_twice_is_named() -> None:
    with pytest.raises(InvalidTypeError, match="'ID' comes twice"):
        parse_fields("id INT, ID INT")


_scalars = st.sampled_from(
    [
        *(DataType(n) for n in ("boolean", "tinyint", "int", "string", "binary", "date", "timestamp_ntz", "variant")),
        DataType("decimal", (38, 18)),
        DataType("varchar", (7,)),
        DataType("varchar", (7,), collation="UNICODE_CI"),
        DataType("string", collation="UTF8_LCASE"),
        DataType("interval day to second"),
        DataType("interval year"),
        DataType("time", (3,)),
    ]
)
_names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)


def _may_be_map_key(data_type: DataType) -> bool:
    return not data_type.some(lambda each: each.collation is not None)


def _nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(
        st.builds(Field, _names, inner, st.booleans(), st.none() | st.text(max_size=8)),
        max_size=3,
        unique_by=lambda f: f.name.lower(),
    )
    return (
        st.builds(lambda c: DataType("array", children=(c,)), inner)
        | st.builds(lambda k, v: DataType("map", children=(k, v)), inner.filter(_may_be_map_key), inner)
        | st.builds(lambda fs: DataType("struct", fields=tuple(fs)), fields)
    )


@given(st.recursive(_scalars, _nested, max_leaves=6))
def test_every_type_comes_back_from_its_text(data_type: DataType) -> None:
    assert parse_type(str(data_type)) == data_type


@given(_names)
def test_a_quoted_name_comes_back(name: str) -> None:
    assert parse_fields(f"{quote_name(name)} int")[0].name == name


def test_key_types_are_types() -> None:
    arguments = {"char": "(3)", "varchar": "(3)"}
    assert {parse_type(name + arguments.get(name, "")).name for name in KEY_TYPES} == KEY_TYPES


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("geometry(4326)", "unknown type at 'geometry'."),
        ("interval", "expected more at the end"),
        ("interval week", "expected YEAR, MONTH, DAY, HOUR, MINUTE or SECOND at 'week'"),
        ("interval day to month", "expected hour or minute or second at 'month'"),
        ("interval second to day", "unexpected text at 'to'"),
        ("string collate", "expected more at the end"),
        ("string collate x", "expected a collation such as UTF8_BINARY, UTF8_LCASE or UNICODE_CI at 'x'"),
        ("int collate UTF8_BINARY", "unexpected text at 'collate'"),
        ("map<string collate UNICODE,int>", "a key of a MAP has no collation"),
    ],
)
def test_an_unknown_type_is_pointed_at(text: str, reported: str) -> None:
    with pytest.raises(InvalidTypeError) as caught:
        parse_type(text)
    assert reported in str(caught.value)


def test_key_types_have_no_collation() -> None:
    with pytest.raises(InvalidTypeError, match=r"differ by their bytes.*k COLLATE UNICODE\."):
        check_keys((Column("k", "string collate UNICODE"),), "s.t")


def test_key_that_begins_with_a_dot_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"s\.t cannot be partitioned by '\.k': .*as hidden"):
        check_keys((Column("_a", "int"), Column(".k", "int")), "s.t")


@pytest.mark.parametrize(
    ("data_type", "json_type", "metadata"),
    [
        ("string collate UTF8_LCASE", "string", {"__COLLATIONS": {"c": "spark.UTF8_LCASE"}}),
        (
            "char(3) collate UNICODE_CI",
            "string",
            {"__CHAR_VARCHAR_TYPE_STRING": "char(3) collate UNICODE_CI", "__COLLATIONS": {"c": "icu.UNICODE_CI"}},
        ),
        (
            "array<map<string,string collate de>>",
            {
                "type": "array", "containsNull": True, "elementType": {
                    "type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True,
                },
            },
            {"__COLLATIONS": {"c.element.value": "icu.de"}},
        ),
        ("interval day to second", "interval day to second", {}),
    ],
)  # fmt: skip
def test_spark_schema_keeps_collations_beside_the_type(
    data_type: str, json_type: object, metadata: dict[str, object]
) -> None:
    field = Field("c", parse_type(data_type))
    assert field_to_json(field) == {"name": "c", "type": json_type, "nullable": True, "metadata": metadata}
    assert field_from_json(field_to_json(field)) == field


@given(st.recursive(_scalars, _nested, max_leaves=6))
def test_every_type_comes_back_from_spark_schema(data_type: DataType) -> None:
    field = Field("c", data_type)
    assert str(field_from_json(field_to_json(field)).type) == str(data_type)


def test_explicit_binary_collation_of_spark_schema_is_a_plain_string() -> None:
    item = {"name": "c", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"c": "spark.UTF8_BINARY"}}}
    assert field_from_json(item).type == DataType("string")


@pytest.mark.parametrize(
    ("text", "hive"),
    [
        ("string collate UTF8_LCASE", "string"),
        ("struct<a:array<char(3) collate UNICODE>>", "struct<a:array<char(3)>>"),
        ("interval day", None),
        ("array<interval year to month>", None),
    ],
)
def test_hive_gets_strings_without_collation_and_no_intervals(text: str, hive: str | None) -> None:
    assert hive_type(parse_type(text)) == hive


@pytest.mark.parametrize(
    ("file_format", "data_type", "reason"),
    [
        ("orc", "string collate UNICODE", "cannot be read with in Spark"),
        ("orc", "struct<a:array<string collate UNICODE>>", "cannot be read with in Spark"),
        ("csv", "array<int>", "does not have"),
        ("parquet", "string collate UNICODE", None),
        ("orc", "interval day", None),
        ("csv", "interval day", None),
    ],
)
def test_columns_that_a_format_cannot_hold(file_format: str, data_type: str, reason: str | None) -> None:
    """By CREATE and by ALTER TABLE ADD COLUMN."""
    identifier = TableIdentifier("s", "t")
    there = TableDefinition(identifier, TableType.MANAGED, file_format, "file:///t", (Column("i", "int"),), ())
    for make in (
        lambda: check_column_storable(Column("c", data_type), file_format, {}, "s.t"),
        lambda: altered(there, [AddColumn(("c",), data_type)]),
    ):
        if reason is None:
            make()
        else:
            with pytest.raises(UnsupportedFormatError, match=reason):
                make()
