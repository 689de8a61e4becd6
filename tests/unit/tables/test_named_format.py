"""The format that a CREATE TABLE names, in Spark's words, in Hive's and in Doris'."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    OperationNotSupportedError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.hive.mapping.clauses import StorageClauses, hive_clauses
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableDefinition, TableType
from catalog_ext.tables.serde import NamedFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

HIVE = "org.apache.hadoop.hive"
TEXT = {"sep": "\x01", "quote": "", "nullValue": "\\N", "serde": f"{HIVE}.serde2.lazy.LazySimpleSerDe"}
QUOTED = {"sep": ",", "quote": '"', "escape": "\\", "serde": f"{HIVE}.serde2.OpenCSVSerde"}
DEFINITION = TableDefinition(TableIdentifier("s", "t"), TableType.MANAGED, "", "", ())


def resolved(
    named: NamedFormat, options: Mapping[str, str] | None = None, properties: Mapping[str, str] | None = None
) -> tuple[str, Mapping[str, str], Mapping[str, str]]:
    found = named.of(replace(DEFINITION, options=options or {}, properties=properties or {}))
    return found.format, found.options, found.properties


@pytest.mark.parametrize(
    ("clauses", "settings", "file_format", "options"),
    [
        (StorageClauses("PARQUET"), {}, "parquet", {}),
        (StorageClauses("Orc"), {"orc.x": "y", "serialization.format": "1"}, "orc", {"orc.x": "y"}),
        (StorageClauses("jsonfile"), {}, "json", {}),
        (StorageClauses("TEXTFILE"), {}, "csv", TEXT),
        (StorageClauses(), {"field.delim": "\t"}, "csv", {**TEXT, "sep": "\t"}),
        (StorageClauses(), {"colelction.delim": ","}, "csv", {**TEXT, "colelction.delim": ","}),
        (StorageClauses("TEXTFILE"), {"serialization.format": "9"}, "csv", {**TEXT, "sep": "\t"}),
        (StorageClauses("TEXTFILE"), {"serialization.null.format": "-"}, "csv", {**TEXT, "nullValue": "-"}),
        (StorageClauses("TEXTFILE"), {"field.delim": "|", "line.delim": "\n"}, "csv", {**TEXT, "sep": "|"}),
        (StorageClauses(serde=f"{HIVE}.serde2.lazy.LazySimpleSerDe"), {}, "csv", TEXT),
        (StorageClauses(serde=f"{HIVE}.ql.io.orc.OrcSerde"), {}, "orc", {}),
        (StorageClauses(serde=f"{HIVE}.ql.io.parquet.serde.ParquetHiveSerDe"), {}, "parquet", {}),
        (StorageClauses(serde="org.apache.hive.hcatalog.data.JsonSerDe"), {}, "json", {}),
        (StorageClauses(serde="org.openx.data.jsonserde.JsonSerDe"), {"case": "x"}, "json", {"case": "x"}),
        (StorageClauses(serde=f"{HIVE}.serde2.OpenCSVSerde"), {}, "csv", QUOTED),
        (StorageClauses(serde="OpenCSVSerde"), {"separatorChar": ";", "quoteChar": "'", "escapeChar": "!"}, "csv",
         {**QUOTED, "sep": ";", "quote": "'", "escape": "!"}),
        (StorageClauses("TEXTFILE", f"{HIVE}.serde2.OpenCSVSerde"), {}, "csv", QUOTED),
        (StorageClauses(input_format=f"{HIVE}.ql.io.orc.OrcInputFormat", output_format="any"), {}, "orc", {}),
        (StorageClauses(input_format=f"{HIVE}.ql.io.parquet.MapredParquetInputFormat"), {}, "parquet", {}),
        (StorageClauses(input_format="org.apache.hadoop.mapred.TextInputFormat"), {}, "csv", TEXT),
    ],
)  # fmt: skip
def test_hives_clauses_name_a_format_and_the_readers_options(
    clauses: StorageClauses, settings: Mapping[str, str], file_format: str, options: Mapping[str, str]
) -> None:
    assert resolved(NamedFormat(None, clauses, "json"), settings) == (file_format, options, {})


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("parquet", {}),
        ("orc", {}),
        ("json", {}),
        ("csv", TEXT),
        ("csv", {**TEXT, "sep": "|", "nullValue": "-"}),
        ("csv", QUOTED),
        ("csv", {**TEXT, "escape.delim": "!"}),
    ],
)
def test_the_clauses_of_a_format_name_it_again(file_format: str, options: Mapping[str, str]) -> None:
    clauses, settings = hive_clauses("s.t", file_format, options)
    assert resolved(NamedFormat(None, clauses), settings) == (file_format, options, {})


@pytest.mark.parametrize(
    ("file_format", "options"), [("csv", {}), ("csv", {"sep": ";", "quote": '"'}), ("text", {"quote": ""})]
)
def test_a_format_that_hive_has_no_clauses_for(file_format: str, options: Mapping[str, str]) -> None:
    with pytest.raises(OperationNotSupportedError, match=rf"s\.t AS SERDE.* the format {file_format} "):
        hive_clauses("s.t", file_format, options)


@pytest.mark.parametrize(("clauses", "header"), [("TEXTFILE", True), ("PARQUET", False)])
def test_a_line_at_the_head_is_a_header_of_text(clauses: str, header: bool) -> None:
    one, two = {"skip.header.line.count": "1"}, {"skip.header.line.count": "2"}
    _, options, properties = resolved(NamedFormat(None, StorageClauses(clauses)), {}, one)
    assert (options.get("header"), properties) == ("true" if header else None, one)
    assert "header" not in resolved(NamedFormat(None, StorageClauses(clauses)), {}, two)[1]


@pytest.mark.parametrize(
    ("clauses", "settings", "part"),
    [
        (StorageClauses("AVRO"), {}, "cannot be stored as 'AVRO'. Use PARQUET, ORC, TEXTFILE or JSONFILE"),
        (StorageClauses(serde="com.acme.Serde"), {}, "'com.acme.Serde'"),
        (StorageClauses("PARQUET", "com.acme.Serde"), {}, "'com.acme.Serde'"),
        (StorageClauses(serde="OpenCSVSerde"), {"quoteChar": ""}, "its quoteChar is empty"),
        (StorageClauses("TEXTFILE"), {"line.delim": ";"}, "LINES TERMINATED BY"),
    ],
)
def test_what_clauses_name_and_no_table_can_have_is_refused(
    clauses: StorageClauses, settings: Mapping[str, str], part: str
) -> None:
    with pytest.raises(UnsupportedFormatError) as caught:
        resolved(NamedFormat(None, clauses, "parquet"), settings)
    assert part in caught.value.message
    assert caught.value.parameters["table"] == "s.t"


def test_using_goes_first_and_keeps_its_options() -> None:
    assert resolved(NamedFormat("CSV", default="orc"), {"field.delim": ";"}) == ("csv", {"field.delim": ";"}, {})
    assert resolved(NamedFormat("orc"), {}, {"File_Format": " ORC ", "a": "b"}) == ("orc", {}, {"a": "b"})


def test_a_property_names_the_format_where_nothing_else_does_and_goes() -> None:
    assert resolved(NamedFormat(None, default="orc"), {"a": "1"}, {"file_format": "JSON"}) == ("json", {"a": "1"}, {})
    assert resolved(NamedFormat(None, default="orc"), {"a": "1"}) == ("orc", {"a": "1"}, {})
    with pytest.raises(InvalidInputError, match=r"format of table s\.t"):
        resolved(NamedFormat(None))


@pytest.mark.parametrize("named", [NamedFormat("orc"), NamedFormat(None, StorageClauses("ORC"))])
def test_two_formats_are_refused(named: NamedFormat) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        resolved(named, {}, {"file_format": "parquet"})
    assert caught.value.message == (
        "Table s.t has the format 'orc' and the property 'file_format' = 'parquet'. Say one of them."
    )
