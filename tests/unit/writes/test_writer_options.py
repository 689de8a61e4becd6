"""Options of writers: a write that makes a table gives them to it, and any other may not contradict the table's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.model.alterations import AddColumn
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.writes.writer_options import check_options_of_write, options_of_new_table
from catalog_ext.writes.writes import Batch
from tests.kit.repair_cases import local_catalog, register
from tests.kit.writes import stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import TableDefinition

OWN = {
    "path": "/x", "maxRecordsPerFile": "5", "partitionOverwriteMode": "dynamic", "txn-app-id": "a", "txn-version": "1",
    "write.max-file-size": "1MB", "checkpointLocation": "/c", "fs.s3a.secret.key": "s", "overwriteSchema": "true",
}  # fmt: skip
"""Options that are about one write."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t", {"k": "INT"})
        yield catalog


def definition(catalog: Catalog, format_: str, **options: str) -> TableDefinition:
    there = catalog.load_table("s.t").definition
    return replace(there, format=format_, options=options, table_type=TableType.MANAGED)


@pytest.mark.parametrize(
    ("format_", "statement", "written", "options"),
    [
        ("csv", {}, {"sep": "|", "HEADER": "true"}, {"sep": "|", "header": "true"}),
        ("csv", {"delimiter": ";"}, {"sep": "|"}, {"sep": "|"}),
        ("csv", {"header": "true"}, {"sep": "|"}, {"header": "true", "sep": "|"}),
        ("csv", {"charset": "UTF-16", "Header": "true"}, {"encoding": "UTF-8", "header": "false"},
         {"encoding": "UTF-8", "header": "false"}),
        ("json", {}, {"timestampformat": "yyyy", "sep": "|"}, {"timestampFormat": "yyyy"}),
        ("text", {}, {"lineSep": ";", "timezone": "UTC"}, {"lineSep": ";", "timeZone": "UTC"}),
        ("parquet", {}, {"compression": "zstd", "header": "true", "parquet.block.size": "1"},
         {"compression": "zstd", "parquet.block.size": "1"}),
        ("orc", {}, {"orc.create.index": "false", "compression": "none", "parquet.block.size": "1"},
         {"orc.create.index": "false", "compression": "none"}),
    ],
)  # fmt: skip
def test_new_table_gets_the_options_of_its_format(
    catalog: Catalog, format_: str, statement: dict[str, str], written: dict[str, str], options: dict[str, str]
) -> None:
    made = definition(catalog, format_, **statement)
    assert options_of_new_table(made, written | OWN) == options


READ_ALIKE: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("csv", {}, {"sep": ",", "header": "False", "quote": '"', "escape": "\\", "encoding": "utf8", "lineSep": "\n"}),
    ("csv", {"sep": "\t"}, {"delimiter": "\\t"}),
    ("csv", {"header": "true"}, {"HEADER": "TRUE", "quoteAll": "true", "compression": "gzip", "mode": "FAILFAST"}),
    ("csv", {}, {"comment": "\0", "nullValue": "", "emptyValue": '""', "dateFormat": "yyyy-MM-dd", "timeZone": "UTC"}),
    ("csv", {"timeZone": "UTC"}, {"timeZone": "UTC", "ignoreLeadingWhiteSpace": "false"}),
    ("json", {}, {"sep": "|", "header": "true", "ignoreNullFields": "false", "pretty": "false", "lineSep": "\r\n"}),
    ("text", {"lineSep": ";"}, {"lineSep": ";", "header": "true"}),
    ("parquet", {}, {"compression": "gzip", "header": "true", "encoding": "UTF-16", "datetimeRebaseMode": "LEGACY"}),
    ("orc", {}, {"compression": "zlib", "sep": "|", "orc.create.index": "false"}),
]


@pytest.mark.parametrize(("format_", "own", "written"), READ_ALIKE)
def test_options_that_readers_do_not_need_stay_those_of_the_write(
    catalog: Catalog, format_: str, own: dict[str, str], written: dict[str, str]
) -> None:
    check_options_of_write(definition(catalog, format_, **own), written | OWN)


MISREAD: list[tuple[str, dict[str, str], str, str]] = [
    *(("csv", {}, name, value) for name, value in {
        "sep": "|", "delimiter": "|", "header": "true", "quote": "'", "escape": "/", "comment": "#",
        "nullValue": "NIL", "emptyValue": "", "dateFormat": "dd/MM/yyyy", "timestampFormat": "dd/MM/yyyy",
        "timestampNTZFormat": "dd/MM/yyyy", "timeFormat": "HHmm", "locale": "de", "encoding": "UTF-16",
        "charset": "UTF-16", "lineSep": ";", "multiLine": "true", "charToEscapeQuoteEscaping": "#",
    }.items()),
    ("csv", {"sep": "|"}, "sep", ","),
    ("csv", {"delimiter": "|"}, "SEP", ";"),
    ("csv", {"header": "true"}, "header", "false"),
    ("csv", {"lineSep": ";"}, "lineSep", "\n"),
    *(("json", {}, name, value) for name, value in {
        "dateFormat": "dd/MM/yyyy", "timestampFormat": "dd/MM/yyyy", "timestampNTZFormat": "yyyy", "locale": "de",
        "encoding": "UTF-16", "lineSep": ";", "multiLine": "true", "pretty": "true",
    }.items()),
    ("json", {"multiLine": "true"}, "pretty", "true"),
    ("text", {}, "lineSep", ";"),
    ("text", {}, "encoding", "UTF-16"),
    ("text", {}, "wholetext", "true"),
    ("parquet", {"timeZone": "UTC"}, "timeZone", "Asia/Tokyo"),
]  # fmt: skip


@pytest.mark.parametrize(("format_", "own", "name", "value"), MISREAD)
def test_option_that_would_make_rows_misread_is_refused(
    catalog: Catalog, format_: str, own: dict[str, str], name: str, value: str
) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"(?i)option '{name}'"):
        check_options_of_write(definition(catalog, format_, **own), {name: value})


def test_refusal_names_option_both_values_and_the_remedy(catalog: Catalog) -> None:
    with pytest.raises(InvalidConfigurationError) as caught:
        check_options_of_write(definition(catalog, "csv", sep="|"), {"delimiter": ";"})
    text = str(caught.value)
    assert "table s.t has the option 'delimiter' = ';', and the table's is '|'" in text
    assert "Leave the option out of the write" in text
    with pytest.raises(InvalidConfigurationError, match="the table's is not set, which means 'false'"):
        check_options_of_write(definition(catalog, "csv"), {"header": "true"})


def test_creating_write_hands_its_options_to_the_table(catalog: Catalog) -> None:
    made = replace(definition(catalog, "csv"), identifier=TableIdentifier("s", "made"))
    batch = Batch("CTAS", "test@host:1", options={"sep": "|", "compression": "gzip", "maxRecordsPerFile": "5"})
    begun, whole = catalog.writes.begin_creation(WriteKind.CREATE, made, None, batch)
    assert whole.options == {"sep": "|", "compression": "gzip"}
    catalog.writes.transactions.commit(begun.transaction_id, [])
    assert catalog.load_table("s.made").definition.options == whole.options
    pretty = Batch("CTAS", "test@host:1", options={"pretty": "true"})
    with pytest.raises(InvalidConfigurationError, match="pretty"):
        catalog.writes.begin_creation(WriteKind.REPLACE, replace(made, format="json"), None, pretty)


def test_codec_of_the_creating_write_replaces_that_of_the_statement(catalog: Catalog) -> None:
    """For CSV, Spark knows the codec by two names, and takes `compression` before `codec` whichever is newer."""
    made = definition(catalog, "csv", compression="bzip2")
    assert options_of_new_table(made, {"Codec": "gzip"}) == {"codec": "gzip"}
    assert options_of_new_table(definition(catalog, "json", compression="bzip2"), {"codec": "gzip"}) == {
        "compression": "bzip2", "codec": "gzip",
    }  # fmt: skip


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE, WriteKind.OVERWRITE_PARTITIONS])
def test_later_write_of_every_kind_is_refused_before_it_begins(catalog: Catalog, kind: WriteKind) -> None:
    made = catalog.create_table(replace(definition(catalog, "csv"), identifier=TableIdentifier("s", "made")))
    batch = Batch("INSERT", "test@host:1", options={"header": "true"})
    with pytest.raises(InvalidConfigurationError, match="'header'"):
        catalog.writes.begin(kind, made.table_id, made.version, batch)
    assert catalog.index.transactions.all() == []


@pytest.mark.parametrize("is_altered", [False, True])
def test_stream_gives_its_options_to_the_new_table_and_to_no_other(catalog: Catalog, is_altered: bool) -> None:
    made = catalog.create_table(replace(definition(catalog, "csv", quote="'"), identifier=TableIdentifier("s", "made")))
    if is_altered:
        assert catalog.alterations.alter("s.made", [AddColumn(("more",), "int")]).version == made.version + 1

    def epoch(number: int, **options: str) -> None:
        there = catalog.load_table("s.made")
        batch = Batch("STREAMING", "test@host:1", "query", number, options=options)
        begun, _ = catalog.writes.begin(WriteKind.APPEND, made.table_id, there.version, batch)
        catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "k=1")])

    with pytest.raises(InvalidConfigurationError, match="'quote'"):
        epoch(1, quote="|")
    epoch(1, sep="|", checkpointLocation="/c")
    assert catalog.load_table("s.made").definition.options == {"quote": "'", "sep": "|"}
    epoch(2, sep="|")
    with pytest.raises(InvalidConfigurationError, match="'header'"):
        epoch(3, header="true")
    catalog.writes.delete(made.table_id, catalog.load_table("s.made").version, None, truncate=False)
    assert catalog.load_table("s.made").totals.files == 0
    with pytest.raises(InvalidConfigurationError, match="'header'"):
        epoch(3, header="true")
