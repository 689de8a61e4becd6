"""Tables and partitions on their way to the metastore and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog_ext.metastore.errors import InvalidPartitionNameError, MetastoreRefusedError, UnsupportedFormatError
from catalog_ext.metastore.hive.mapping.conversion import (
    columns_of,
    from_hive,
    from_hive_database,
    from_hive_partition,
    hive_partition_name,
    to_hive,
    to_hive_database,
    to_hive_partition,
    unrepresentable_reason,
)
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.locations import relative_name, same_location
from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.hive.outbox.alter_table import altered, rebuilt
from catalog_ext.metastore.hive.outbox.compare import definition_differs
from catalog_ext.metastore.messages import AlterTable
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import format_partition_name
from catalog_ext.metastore.model.tables import FORMATS, Column, Namespace, TableDefinition, TableType

LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
QL = "org.apache.hadoop.hive.ql.io"
PARQUET, JSON = storage_of("parquet", {}, ""), storage_of("json", {}, "")


def definition(**changes: object) -> TableDefinition:
    base = TableDefinition(
        TableIdentifier("sales", "trips"),
        TableType.EXTERNAL,
        "parquet",
        "s3a://bucket/trips",
        (Column("Id", "bigint"), Column("fare", "decimal(10,2)", comment="in USD")),
        (Column("ds", "date"), Column("Region", "varchar(20)")),
        comment="what a day costs",
        owner="ada",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def hive_table(**changes: object) -> HiveTable:
    base = HiveTable(
        "sales",
        "old",
        "MANAGED_TABLE",
        "hdfs://nn/warehouse/old",
        (Column("id", "int"), Column("name", "string")),
        (Column("ds", "string"),),
        HiveStorage(TEXT_INPUT, "x", LAZY),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def quoted(settings: dict[str, str]) -> HiveStorage:
    return HiveStorage(TEXT_INPUT, "o", "org.apache.hadoop.hive.serde2.OpenCSVSerde", settings)


def delimited(settings: dict[str, str]) -> HiveStorage:
    return HiveStorage(TEXT_INPUT, "x", LAZY, settings)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("table_type", [TableType.MANAGED, TableType.EXTERNAL])
def test_a_table_comes_back_as_it_was(data_format: str, table_type: TableType) -> None:
    columns = (Column("value", "string"),) if data_format == "text" else definition().columns
    wanted = definition(
        format=data_format,
        table_type=table_type,
        columns=columns,
        options={"header": "true", "Delimiter": ";"} if data_format == "csv" else {},
        properties={"team": "x", "partition-columns": "declared"},
    )
    assert from_hive(to_hive(wanted)) == wanted


def test_buckets_of_hive_and_of_spark_become_a_property() -> None:
    storage = replace(hive_table().storage, bucket_columns=("id", "name"), bucket_count=4)
    bucketed = from_hive(hive_table(storage=storage))
    assert bucketed.properties == {"bucketed-by": "id, name into 4 buckets"}
    assert bucketed.bucketed_by == "id, name into 4 buckets"
    of_spark = {
        "spark.sql.sources.provider": "parquet",
        "spark.sql.sources.schema": '{"type":"struct","fields":['
        '{"name":"id","type":"integer","nullable":true,"metadata":{}},'
        '{"name":"ds","type":"string","nullable":true,"metadata":{}}]}',
        "spark.sql.sources.schema.numPartCols": "1",
        "spark.sql.sources.schema.partCol.0": "ds",
        "spark.sql.sources.schema.numBuckets": "1",
        "spark.sql.sources.schema.numBucketCols": "1",
        "spark.sql.sources.schema.bucketCol.0": "id",
    }
    assert from_hive(hive_table(parameters=of_spark)).properties == {"bucketed-by": "id into 1 bucket"}
    for count in (-1, 0):
        assert from_hive(hive_table(storage=replace(storage, bucket_count=count))).bucketed_by is None


def spark_table(provider: str, fields: str, **changes: object) -> HiveTable:
    """A table that another Spark has made, with buckets."""
    parameters = {
        "spark.sql.create.version": "3.5.1",
        "spark.sql.sources.provider": provider,
        "spark.sql.sources.schema": f'{{"type":"struct","fields":[{fields},'
        '{"name":"ds","type":"string","nullable":true,"metadata":{}}]}',
        "spark.sql.sources.schema.numPartCols": "1",
        "spark.sql.sources.schema.partCol.0": "ds",
        "spark.sql.partitionProvider": "catalog",
        "spark.sql.sources.schema.numBuckets": "4",
        "spark.sql.sources.schema.numBucketCols": "1",
        "spark.sql.sources.schema.bucketCol.0": "id",
        "spark.sql.sources.schema.numSortCols": "1",
        "spark.sql.sources.schema.sortCol.0": "id",
    }
    return hive_table(parameters=parameters, **changes)


ID = '{"name":"id","type":"integer","nullable":true,"metadata":{"kept":"1"}}'
DEEP = (
    '{"name":"s","type":{"type":"struct","fields":[{"name":"A","type":"integer","nullable":true,"metadata":{}}]},'
    '"nullable":true,"metadata":{}}'
)


@pytest.mark.parametrize("provider", ["hive", "parquet"])
def test_an_alteration_keeps_what_no_definition_says(provider: str) -> None:
    storage = replace(to_hive(definition()).storage, serde_parameters={"serialization.format": "1"})
    if provider == "hive":
        storage = replace(storage, bucket_columns=("id",), bucket_count=4)
    found = spark_table(
        provider, f"{ID},{DEEP}", columns=(Column("id", "int"), Column("s", "struct<A:int>")),
        storage=storage,
    )  # fmt: skip
    ours = from_hive(found)
    assert ours.bucketed_by == "id into 4 buckets"
    assert altered(found, AlterTable(ours, rebuild=True)) == found
    assert not definition_differs(found, ours)
    assert "bucketed-by" not in to_hive(ours).parameters

    more = rebuilt(found, replace(ours, columns=(*ours.columns, Column("new", "int"))))
    assert [c.type for c in more.columns] == ["int", "struct<A:int>", "int"]
    changed = {n for n in {*more.parameters, *found.parameters} if more.parameters.get(n) != found.parameters.get(n)}
    assert changed == {"spark.sql.sources.schema"}
    assert from_hive(more).bucketed_by == "id into 4 buckets"


def test_a_table_that_hive_engines_cannot_read_stays_so() -> None:
    placeholder = (Column("col", "array<string>", comment="from deserializer"),)
    found = spark_table("csv", ID, columns=placeholder)
    ours = from_hive(found)
    assert [c.name for c in ours.columns] == ["id"]
    assert not definition_differs(found, ours)
    more = rebuilt(found, replace(ours, columns=(*ours.columns, Column("new", "int"))))
    assert more.columns == placeholder
    assert [c.name for c in from_hive(more).columns] == ["id", "new"]


def test_hive_sees_lower_case_names_its_types_and_its_classes() -> None:
    table = to_hive(definition())
    assert [(c.name, c.type, c.comment) for c in table.columns] == [
        ("id", "bigint", None),
        ("fare", "decimal(10,2)", "in USD"),
    ]
    assert [(c.name, c.type) for c in table.partition_columns] == [("ds", "date"), ("region", "varchar(20)")]
    assert table.storage.serde == "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    assert (table.table_type, table.parameters["EXTERNAL"]) == ("EXTERNAL_TABLE", "TRUE")
    assert "EXTERNAL" not in to_hive(definition(table_type=TableType.MANAGED)).parameters


def test_spark_sees_its_own_schema() -> None:
    parameters = to_hive(definition()).parameters
    fields = json.loads(parameters["spark.sql.sources.schema"])["fields"]
    assert [(f["name"], f["type"]) for f in fields] == [
        ("Id", "long"), ("fare", "decimal(10,2)"), ("ds", "date"), ("Region", "string"),
    ]  # fmt: skip
    assert fields[3]["metadata"] == {"__CHAR_VARCHAR_TYPE_STRING": "varchar(20)"}
    assert (parameters["spark.sql.sources.schema.numPartCols"], parameters["spark.sql.sources.schema.partCol.1"]) == (
        "2",
        "Region",
    )


def test_a_long_schema_is_kept_in_parts() -> None:
    wanted = definition(columns=tuple(Column(f"column_{i:05d}", "array<struct<a:int,b:string>>") for i in range(500)))
    table = to_hive(wanted)
    assert max(len(v) for v in table.parameters.values()) <= 4000
    assert from_hive(table) == wanted
    damaged = {k: v for k, v in table.parameters.items() if k != "spark.sql.sources.schema.part.3"}
    with pytest.raises(UnsupportedFormatError, match=r"sales\.trips is incomplete"):
        from_hive(replace(table, parameters=damaged))


@pytest.mark.parametrize(
    ("spark", "hive"),
    [
        ("timestamp_ntz", "timestamp"),
        ("array<map<string,decimal(3,1)>>", "array<map<string,decimal(3,1)>>"),
        ("struct<A:int,b:timestamp_ntz not null>", "struct<a:int,b:timestamp>"),
        ("char(255)", "char(255)"),
        ("binary", "binary"),
    ],
)
def test_types_that_hive_has_under_its_own_names(spark: str, hive: str) -> None:
    table = to_hive(definition(columns=(Column("c", spark),)))
    assert table.columns[0].type == hive
    assert from_hive(table).columns == (Column("c", spark),)


@pytest.mark.parametrize("spark", ["time(6)", "variant", "void", "array<variant>", "struct<`a b-c`:int>", "char(256)"])
def test_a_column_that_hive_cannot_have_is_refused_by_name(spark: str) -> None:
    wanted = definition(columns=(Column("id", "int"), Column("odd", spark)))
    assert "'odd'" in (unrepresentable_reason(wanted) or "")
    with pytest.raises(MetastoreRefusedError, match=r"sales\.trips .*'odd'"):
        to_hive(wanted)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"columns": (Column("a", "int"), Column("A", "int"))}, "case"),
        ({"columns": (Column("DS", "int"),)}, "at least one column"),
        ({"format": "orc", "columns": (Column("a", "array<struct<b:timestamp_ntz>>"),)}, "TIMESTAMP_NTZ"),
        ({"format": "json", "columns": (Column("a", "map<string,binary>"),)}, "BINARY"),
        ({"format": "csv", "options": {"multiLine": "TRUE"}}, "multiline"),
        ({"format": "csv", "options": {"sep": "||"}}, "several"),
        ({"format": "csv", "options": {"sep": "\xfe"}}, "several bytes"),
        ({"format": "text", "options": {"wholetext": "true"}}, "wholetext"),
        ({"format": "json", "options": {"lineSep": "|"}}, "lineSep"),
    ],
)
def test_what_hive_engines_would_read_wrongly_is_refused(changes: dict[str, object], word: str) -> None:
    assert word in (unrepresentable_reason(definition(**changes)) or "")


def test_a_time_key_is_a_string_and_a_column_of_a_keys_name_is_left_out() -> None:
    table = to_hive(
        definition(
            columns=(Column("id", "int"), Column("DS", "int")),
            partition_columns=(Column("ds", "time(6)"),),
        )
    )
    assert [c.name for c in table.columns] == ["id"]
    assert table.partition_columns == (Column("ds", "string"),)
    assert from_hive(table).partition_columns == (Column("ds", "time(6)"),)


def test_csv_settings_read_by_hive() -> None:
    table = to_hive(definition(format="csv", options={"sep": "\\t", "header": "True", "encoding": "latin1"}))
    settings = table.storage.serde_parameters
    assert (settings["field.delim"], settings["serialization.null.format"]) == ("\t", "")
    assert settings["serialization.encoding"] == "latin1"
    assert table.parameters["skip.header.line.count"] == "1"


def test_tables_of_hive_engines() -> None:
    plain = from_hive(hive_table(parameters={"transient_lastDdlTime": "1", "mine": "kept", "comment": "old one"}))
    assert (plain.format, plain.options, plain.properties, plain.comment) == (
        "csv",
        {"sep": "\x01", "quote": "", "nullValue": "\\N", "serde": LAZY},
        {"mine": "kept"},
        "old one",
    )
    assert plain.table_type is TableType.MANAGED
    orc = replace(storage_of("orc", {}, ""), bucket_columns=("id",), bucket_count=4)
    assert from_hive(hive_table(storage=orc)).format == "orc"
    csv = HiveStorage(TEXT_INPUT, "o", "org.apache.hadoop.hive.serde2.OpenCSVSerde", {"separatorChar": ";"})
    found = from_hive(hive_table(storage=csv, parameters={"skip.header.line.count": "1"}))
    assert found.options == {"sep": ";", "quote": '"', "escape": "\\", "serde": csv.serde, "header": "true"}
    json_table = from_hive(hive_table(storage=replace(csv, serde="org.apache.hadoop.hive.serde2.JsonSerDe")))
    assert json_table.format == "json"
    zoned = hive_table(storage=orc, columns=(Column("t", "timestamp with local time zone"),))
    assert from_hive(zoned).columns == (Column("t", "timestamp"),)


def test_hives_text_keeps_its_serde_and_settings() -> None:
    given = {
        "field.delim": "|", "serialization.format": "|", "escape.delim": "\\", "colelction.delim": ",",
        "mapkey.delim": ":", "serialization.null.format": "nil", "serialization.encoding": "GBK",
        "timestamp.formats": "millis", "serialization.last.column.takes.rest": "true",
    }  # fmt: skip
    lines = {"skip.header.line.count": "2", "skip.footer.line.count": "1"}
    nested = (Column("a", "array<int>"), Column("m", "map<string,int>"), Column("s", "struct<x:int>"))
    found = from_hive(hive_table(storage=delimited(given), parameters=lines, columns=nested))
    assert found.options == {
        "sep": "|", "quote": "", "nullValue": "nil", "serde": LAZY, **lines,
        **{name: text for name, text in given.items() if name not in (
            "field.delim", "serialization.format", "serialization.null.format")},
    }  # fmt: skip
    again = to_hive(found)
    assert (again.storage.serde, dict(again.storage.serde_parameters)) == (LAZY, given)
    assert {name: again.parameters[name] for name in lines} == lines
    assert "spark.sql.sources.provider" not in again.parameters, "Spark reads it by the SerDe too"
    assert from_hive(again).options == found.options


def test_open_csv_is_strings_and_its_declared_types_stay_in_the_metastore() -> None:
    declared = hive_table(storage=quoted({}), columns=(Column("a", "int"), Column("s", "array<int>")))
    found = from_hive(declared)
    assert [c.type for c in found.columns] == ["string", "string"]
    assert columns_of(declared) == tuple(Column(c.name, "string") for c in declared.columns)
    assert rebuilt(declared, found) == declared
    more = rebuilt(declared, replace(found, columns=(*found.columns, Column("b", "string"))))
    assert [c.type for c in more.columns] == ["int", "array<int>", "string"]


def test_the_comment_that_hive_makes_up_for_a_serdes_columns_is_no_change() -> None:
    """Hive writes it into any table whose columns come from its SerDe, as those of ``OpenCSVSerde``."""
    declared = hive_table(storage=quoted({}), columns=(Column("a", "string"),))
    made_up = replace(declared, columns=(Column("a", "string", comment="from deserializer"),))
    assert rebuilt(made_up, from_hive(declared)) == made_up
    assert rebuilt(declared, from_hive(made_up)) == declared
    commented = replace(declared, columns=(Column("a", "string", comment="of a user"),))
    assert rebuilt(made_up, from_hive(commented)).columns == commented.columns


def test_sparks_schema_counts_only_while_it_fits_a_hive_table() -> None:
    ours = to_hive(definition())
    parameters = {k: v for k, v in ours.parameters.items() if k != "spark.sql.sources.provider"}
    assert from_hive(replace(ours, parameters=parameters)).columns[0].name == "Id"
    altered = replace(ours, parameters=parameters, columns=(*ours.columns, Column("new", "int")))
    assert [c.name for c in from_hive(altered).columns] == ["id", "fare", "new"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"table_type": "VIRTUAL_VIEW"}, "a view"),
        ({"parameters": {"transactional": "true"}}, "ACID"),
        ({"parameters": {"table_type": "ICEBERG"}}, "Iceberg"),
        ({"parameters": {"spark.sql.sources.provider": "delta"}}, "delta"),
        ({"parameters": {"storage_handler": "org.x.HBase"}}, "HBase"),
        ({"parameters": {"skip.header.line.count": "-1"}}, "skip.header.line.count='-1', is no number"),
        ({"storage": HiveStorage("a.B", "c.D", "org.x.RegexSerDe")}, "RegexSerDe"),
        ({"columns": (Column("u", "uniontype<int,string>"),)}, "'u'"),
        ({"parameters": {"spark.sql.sources.provider": "orc", "spark.sql.sources.schema": "{}"}}, "cannot be read"),
        ({"location": ""}, "no location"),
        # Tables whose location has lists of files, or files of several versions, of which not all count.
        ({"storage": replace(PARQUET, input_format=f"{QL}.SymlinkTextInputFormat")}, "SymlinkTextInputFormat"),
        ({"storage": replace(PARQUET, input_format="org.apache.hudi.hadoop.HoodieParquetInputFormat")}, "Hoodie"),
        ({"storage": replace(JSON, input_format="org.apache.hadoop.mapred.SequenceFileInputFormat")}, "SequenceFile"),
        # Values that Hive takes out of the same files otherwise than Spark.
        ({"storage": quoted({"serialization.encoding": "GBK"})}, "serialization.encoding='GBK'"),
        ({"storage": quoted({"quoteChar": ""})}, "its quoteChar is empty"),
        ({"storage": delimited({"line.delim": ";"})}, "line.delim=';'"),
        ({"storage": delimited({"field.delim": "-2"})}, "field.delim='-2'"),
        ({"storage": delimited({"field.delim": "\xfe"})}, "field.delim="),
        (
            {"storage": PARQUET, "parameters": {"skip.footer.line.count": "1"}},
            "leaves out 1 rows of each .*skip.footer",
        ),
        ({"storage": PARQUET, "parameters": {"skip.header.line.count": "1"}}, "skip.header.line.count"),
        ({"storage": replace(PARQUET, serde_parameters={"parquet.column.index.access": "true"})}, "index.access"),
        ({"storage": PARQUET, "parameters": {"parquet.column.index.access": "TRUE"}}, "index.access"),
        ({"storage": replace(JSON, serde_parameters={"mapping.id": "ID"})}, "mapping.id='ID'"),
    ],
)
def test_what_cannot_be_imported_says_why(changes: dict[str, object], word: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=word) as caught:
        from_hive(hive_table(**changes))
    assert "sales.old" in caught.value.message


@pytest.mark.parametrize(
    ("setting", "separator"),
    [("||", "|"), ("", "\x01"), ("9", "\t"), ("200", "2"), ("\\t", "\\\\"), (";", ";")],
)
def test_hive_takes_one_character_for_a_delimiter(setting: str, separator: str) -> None:
    """``LazyUtils.getByte``: a number of one byte, else the first character, else the default."""
    assert from_hive(hive_table(storage=delimited({"field.delim": setting}))).options["sep"] == separator


def test_digit_as_separator_is_sent_to_hive_by_its_code() -> None:
    table = to_hive(definition(format="csv", options={"sep": "7", "quote": ""}))
    assert (
        table.storage.serde_parameters["field.delim"] == table.storage.serde_parameters["serialization.format"] == "55"
    )
    parameters = {k: v for k, v in table.parameters.items() if k != "spark.sql.sources.provider"}
    assert from_hive(replace(table, parameters=parameters)).options["sep"] == "7"


def test_namespaces() -> None:
    namespace = Namespace("sales", "s3a://bucket/sales", "all of it", {"team": "x"})
    assert from_hive_database(to_hive_database(namespace)) == namespace


def test_partitions_are_where_their_directories_are() -> None:
    table = to_hive(definition())
    partition = to_hive_partition(table, "DS=2025-01-01/region=a b%2Fc")
    assert partition == HivePartition(("2025-01-01", "a b/c"), "s3a://bucket/trips/DS=2025-01-01/region=a b%2Fc")
    assert hive_partition_name(table, "DS=2025-01-01/region=a%20b%2fc") == "ds=2025-01-01/region=a b%2Fc"
    assert from_hive_partition(table, partition) == ("DS=2025-01-01/region=a b%2Fc", None)
    elsewhere = replace(partition, location="s3a://other/x")
    assert from_hive_partition(table, elsewhere) == ("ds=2025-01-01/region=a b%2Fc", "s3a://other/x")
    swapped = replace(partition, location="s3a://bucket/trips/ds=2025-01-02/region=x")
    assert from_hive_partition(table, swapped)[1] == swapped.location
    null = to_hive_partition(table, "ds=__HIVE_DEFAULT_PARTITION__/region=x", "s3a://other/y")
    assert null.values == ("__HIVE_DEFAULT_PARTITION__", "x")
    assert from_hive_partition(table, null) == ("ds=__HIVE_DEFAULT_PARTITION__/region=x", "s3a://other/y")


@pytest.mark.parametrize("name", ["ds=/region=x", "region=x/ds=1", "ds=1", "ds=1/region=" + "x" * 1024, "", "a"])
def test_partitions_that_the_metastore_cannot_hold(name: str) -> None:
    with pytest.raises(InvalidPartitionNameError):
        to_hive_partition(to_hive(definition()), name)


@given(st.tuples(*[st.none() | st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)] * 2))
def test_any_values_come_back(values: tuple[str | None, str | None]) -> None:
    if "__HIVE_DEFAULT_PARTITION__" in values:
        return
    table = to_hive(definition())
    name = format_partition_name(["ds", "region"], values)
    assert hive_partition_name(table, name) == name
    assert from_hive_partition(table, to_hive_partition(table, name)) == (name, None)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("file:/a/b", "file:///a/b/", True),
        ("s3://b/k", "s3a://b//k", True),
        ("s3a://b/k", "s3a://c/k", False),
        ("hdfs://nn/a", "hdfs://nn/A", False),
        ("/a", "file:/a", True),
    ],
)
def test_spellings_of_locations(left: str, right: str, same: bool) -> None:
    assert same_location(left, right) is same


def test_relative_names() -> None:
    assert relative_name("s3://b/t/", "s3a://b/t/ds=1") == "ds=1"
    assert relative_name("file:/t", "file:///t2/ds=1") is None
