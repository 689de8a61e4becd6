"""Which partitions of the metastore are read as their table, which by a descriptor of their own, and which not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from catalog_ext.metastore.hive.mapping.conversion import from_hive
from catalog_ext.metastore.hive.mapping.descriptors import (
    FEWER_COLUMNS,
    Descriptors,
    Reading,
    described_partition,
    has_descriptor,
)
from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, HiveDatabase, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.messages import PublishedPartition, SyncPartitions
from catalog_ext.metastore.model.conversions import conversion_problem
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.types import parse_type
from tests.kit.fakes_metastore import FakeMetastore

COLUMNS = (Column("a", "int"), Column("b", "string", comment="said"))
STORAGES = {name: storage_of(name, {}, "file:///t") for name in ("parquet", "orc", "json")}
PIPED = HiveStorage(
    "org.apache.hadoop.mapred.TextInputFormat", "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {"field.delim": "|", "serialization.format": "|"},
)  # fmt: skip


def table(storage: HiveStorage, columns: tuple[Column, ...] = COLUMNS, **parameters: str) -> HiveTable:
    return HiveTable("s", "t", EXTERNAL_TABLE, "file:///t", columns, (Column("k", "int"),), storage, parameters)


def reading(of: HiveTable, storage: HiveStorage | None = None, *columns: Column) -> Reading:
    partition = HivePartition(("1",), "file:///t/k=1", {}, storage or of.storage, columns or of.columns)
    return Descriptors(of, from_hive(of)).reading(partition)


def test_a_format_of_its_own() -> None:
    parquet = table(STORAGES["parquet"])
    assert reading(parquet) == Reading()
    orc = reading(parquet, STORAGES["orc"])
    assert orc.descriptor is not None
    assert (orc.descriptor.format, orc.problem) == ("orc", None)
    assert orc.difference == "its format is orc, and the table's is parquet"
    piped = reading(parquet, PIPED).descriptor
    assert piped is not None
    assert (piped.format, piped.options) == ("csv", {"sep": "|", "quote": "", "nullValue": "\\N", "serde": PIPED.serde})
    assert [(c.name, c.type) for c in piped.columns] == [("a", "int"), ("b", "string")]


@pytest.mark.parametrize(
    ("storage", "setting"),
    [
        (PIPED, {"line.delim": ";"}),
        (STORAGES["parquet"], {"parquet.column.index.access": "true"}),
        (STORAGES["json"], {"mapping.a": "A"}),
    ],
)
def test_a_setting_that_its_table_does_not_have_is_a_problem_by_itself(
    storage: HiveStorage, setting: dict[str, str]
) -> None:
    own = replace(storage, serde_parameters={**storage.serde_parameters, **setting})
    of = table(storage)
    found = reading(of, own)
    assert found.descriptor is None
    assert str(*setting) in (found.problem or "")
    # A table in the metastore that got the setting after its import: its partitions are read as it is.
    altered = replace(of, storage=own)
    assert Descriptors(altered, from_hive(of)).reading(HivePartition(("1",), "file:///t/k=1", {}, own)) == Reading()


def test_fewer_columns() -> None:
    assert reading(table(STORAGES["parquet"]), None, COLUMNS[0]) == Reading()
    fewer = reading(table(PIPED), None, COLUMNS[0])
    assert fewer.difference == FEWER_COLUMNS
    assert fewer.descriptor is not None, "a line may have more values, which Hive does not show"
    assert not fewer.differs_from(None), "until it is read anew the index shows NULL as well"
    assert fewer.differs_from(None, is_known=False)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"storage": replace(PIPED, serde="org.apache.hadoop.hive.serde2.RegexSerDe")}, "its storage is .*RegexSerDe"),
        ({"storage": replace(PIPED, skewed_columns=("a",), skewed_directories=True)}, "SKEWED BY"),
        (
            {"storage": replace(PIPED, bucket_columns=("a",), bucket_count=4)},
            "it is bucketed by a, which",
        ),
        (
            {"storage": replace(PIPED, serde_parameters={"line.delim": "!"})},
            "line.delim='!', which",
        ),
        ({"columns": (Column("b", "string"), Column("a", "int"))}, "its column 1 is 'b', and the table's is 'a'"),
        ({"columns": (Column("a", "bigint"),)}, "'a' is BIGINT, and INT in the table: Hive would cut or round"),
        ({"columns": (Column("a", "string"),)}, "values of the one are not converted"),
        ({"columns": (Column("a", "uniontype<int,string>"),)}, "which Spark cannot read"),
    ],
)
def test_what_is_not_read(change: dict[str, object], problem: str) -> None:
    of = table(STORAGES["parquet"])
    partition = HivePartition(("1",), "file:///t/k=1", {}, STORAGES["parquet"], COLUMNS)
    found = Descriptors(of, from_hive(of)).reading(replace(partition, **change))  # type: ignore[arg-type]
    assert found.descriptor is None
    assert found.problem is not None
    assert re.search(problem, found.problem), found.problem


def test_a_header_of_the_table_is_left_out_of_other_formats_too() -> None:
    found = reading(table(PIPED, **{"skip.header.line.count": "1"}), STORAGES["orc"])
    assert found.problem is not None
    assert "skip.header.line.count" in found.problem


@pytest.mark.parametrize("of", [PIPED, STORAGES["json"]])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "string"), ("int", "bigint"), ("float", "double"), ("date", "string"), ("char(5)", "string"),
        ("varchar(3)", "varchar(5)"), ("varchar(3)", "string"), ("decimal(5,2)", "decimal(7,2)"),
    ],
)  # fmt: skip
def test_text_is_read_by_the_types_of_its_partition(of: HiveStorage, old: str, new: str) -> None:
    found = reading(table(of, (Column("a", new),)), None, Column("a", old))
    assert found.problem is None
    assert found.descriptor is not None, f"007, abcdef and 1.239 are other values of {old}"
    assert [c.type for c in found.descriptor.columns] == [old]
    assert found.differs_from(None)


@pytest.mark.parametrize("of", [PIPED, STORAGES["json"]])
@pytest.mark.parametrize("old", ["boolean", "float", "double", "decimal(5,2)", "timestamp"])
def test_text_that_hive_would_write_otherwise_is_refused(of: HiveStorage, old: str) -> None:
    found = reading(table(of, (Column("a", "string"),)), None, Column("a", old))
    assert found.problem is not None
    assert "values of the one are not converted into the other" in found.problem


@pytest.mark.parametrize("of", ["parquet", "orc"])
def test_blanks_at_the_end_of_char(of: str) -> None:
    """Spark writes them, and Hive shows a CHAR that has become STRING without."""
    for new in ("string", "varchar(5)"):
        assert reading(table(STORAGES[of], (Column("a", new),)), None, Column("a", "char(5)")).descriptor is not None
        assert reading(table(STORAGES[of], (Column("a", new),)), None, Column("a", "varchar(5)")) == Reading()


@pytest.mark.parametrize(
    ("old", "shown"),
    [
        (
            "tinyint",
            {"smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(7,3)", "decimal(10,0)", "string"},
        ),
        ("int", {"bigint", "double", "decimal(10,0)", "string"}),
        ("bigint", {"string"}),
        ("float", {"double"}),
        ("double", set()),
        ("decimal(5,2)", {"decimal(7,3)"}),
        ("date", {"string"}),
        ("varchar(3)", {"varchar(5)", "string"}),
        ("char(3)", {"varchar(3)", "varchar(5)", "string"}),
        ("string", set()),
        ("timestamp", set()),
        ("boolean", set()),
    ],
)
def test_types_that_hive_and_spark_convert_alike(old: str, shown: set[str]) -> None:
    others = {
        "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(7,3)",
        "decimal(10,0)", "string", "char(3)", "varchar(3)", "varchar(5)", "date", "timestamp", "binary",
    }  # fmt: skip
    found = {new for new in others if conversion_problem(parse_type(old), parse_type(new)) is None}
    assert found == {old, *shown}


def test_what_the_metastore_gets() -> None:
    of = table(STORAGES["parquet"])
    own = reading(of, PIPED, COLUMNS[0]).descriptor
    assert own is not None
    sent = described_partition(of, PublishedPartition("k=1", None, {}, own.to_dict()))
    assert sent.storage == PIPED
    assert [(c.name, c.type) for c in sent.columns] == [("a", "int")]
    unsaid, tables = (described_partition(of, PublishedPartition("k=1", None, {}, said)) for said in (None, {}))
    assert (unsaid.storage, unsaid.columns) == (None, ())
    assert tables.columns == COLUMNS
    there = replace(sent, columns=(Column("a", "int"),))
    assert has_descriptor(there, sent)
    assert has_descriptor(there, unsaid)
    assert not has_descriptor(there, tables)
    assert not has_descriptor(replace(there, columns=COLUMNS), sent)


def test_secrets_stay_in_the_metastore() -> None:
    secret = {"fs.s3a.secret.key": "hidden"}
    theirs = replace(PIPED, serde_parameters={**PIPED.serde_parameters, **secret})
    for storage in (theirs, replace(STORAGES["orc"], serde_parameters=secret)):
        of = table(STORAGES["parquet"])
        own = reading(of, storage).descriptor
        assert own is not None
        assert "hidden" not in own.text
        sent = described_partition(of, PublishedPartition("k=1", "file:///t/k=1", {}, own.to_dict()))
        there = replace(sent, storage=storage, columns=of.columns, parameters={"numFiles": "1"})
        assert has_descriptor(there, sent), "nothing is altered for them"
        server = FakeMetastore()
        server.create_database(HiveDatabase("s"))
        server.create_table(of)
        server.add_partitions("s", "t", [there])
        wanted = PublishedPartition("k=1", "file:///t/k=1", {"numFiles": "2"}, own.to_dict())
        message = SyncPartitions(TableIdentifier("s", "t"), (), (wanted,), (), of.location)
        carry_out(server, message)
        (after,) = server.partitions_by_names("s", "t", ["k=1"])
        assert (after.parameters["numFiles"], after.storage) == ("2", storage)


def test_what_counts_is_how_the_index_reads_the_table() -> None:
    before, after = table(PIPED), table(replace(PIPED, serde_parameters={"field.delim": ";"}))
    partition = HivePartition(("1",), "file:///t/k=1", {}, after.storage, after.columns)
    descriptors = Descriptors(after, from_hive(before))
    found = descriptors.reading(partition).descriptor
    assert found is not None, "Hive's table has another delimiter since, and the index reads with that of before"
    assert found.options["sep"] == ";"
    assert descriptors.reading(replace(partition, storage=before.storage)) == Reading()
    text = replace(after, columns=(Column("a", "string"), COLUMNS[1]))
    refused = Descriptors(text, from_hive(before)).reading(replace(partition, columns=text.columns))
    assert refused.problem is not None
