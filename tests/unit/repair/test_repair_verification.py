"""`verify`: a repair looks into the files that it would register, and leaves out those that no reader could read."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import threading
import tracemalloc
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from catalog_ext.cli.main import main
from catalog_ext.context import no_progress
from catalog_ext.metastore.errors import RepairRefusedError
from catalog_ext.metastore.model import batches as file_batches
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.storage import locations
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.repair import verification
from catalog_ext.repair.options import RepairMode
from catalog_ext.repair.verification import Verification, unfitting_header, unreadable_reason
from catalog_ext.scan import scratch as scratches
from catalog_ext.scan.scratch import Scratch
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.repair_cases import indexed, local_catalog, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

ROWS = pa.table({"x": [1, 2, 3]})
HOLDING = (
    verification.__file__, file_batches.__file__, scratches.__file__, locations.__file__, "*/concurrent/futures/*",
)  # fmt: skip
"""The modules that make what a verification holds of its files."""


def whole(path: Path, rows: pa.Table = ROWS) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return path.read_bytes()


def cut(path: Path) -> None:
    path.write_bytes(whole(path)[:-10])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    root.mkdir()
    with local_catalog(tmp_path) as catalog:
        catalog.register_table("s.t", location=str(root), partition_columns={"k": "INT"}, schema="x BIGINT")
        yield catalog


def test_a_new_file_that_cannot_be_read_is_reported_and_not_registered(catalog: Catalog, root: Path) -> None:
    whole(root / "k=1" / "a.parquet")
    cut(root / "k=1" / "b.parquet")
    cut(root / "k=2" / "a.parquet")
    (root / "k=3").mkdir()
    report = catalog.repair_partitions("s.t", verify=True)
    assert {name: list(files) for name, files in indexed(catalog).items()} == {"k=1": ["a.parquet"], "k=3": []}
    reasons = skipped(report)
    assert sorted(reasons) == ["k=1/b.parquet", "k=2/a.parquet"]
    assert all(
        r.startswith("the file cannot be read as parquet: ") and r.endswith("not registered") for r in reasons.values()
    )
    assert [(e.partition, e.files) for e in report.skipped] == [("k=1", 1), ("k=2", 1)]
    again = catalog.repair_partitions("s.t", verify=True)
    assert skipped(again) == reasons
    assert not again.added
    assert not again.changed
    whole(root / "k=2" / "a.parquet")
    assert [e.partition for e in catalog.repair_partitions("s.t", verify=True).added] == ["k=2"]


def test_a_truncated_known_file_is_reported_and_stays_registered(catalog: Catalog, root: Path) -> None:
    size = len(whole(root / "k=1" / "a.parquet"))
    catalog.repair_partitions("s.t")
    cut(root / "k=1" / "a.parquet")
    report = catalog.repair_partitions("s.t", verify=True)
    assert skipped(report)["k=1/a.parquet"].endswith("; what is registered of it stays")
    assert indexed(catalog) == {"k=1": {"a.parquet": size}}
    assert not report.changed
    catalog.repair_partitions("s.t")
    assert indexed(catalog) == {"k=1": {"a.parquet": size - 10}}, "without it a file is taken as it is"
    assert not skipped(catalog.repair_partitions("s.t", verify=True)), "what has not changed is not looked into"


def test_verification_of_relocated_and_of_unpartitioned_files(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    whole(tmp_path / "own" / "a.parquet")
    catalog.partition_commands.add("s.t", [({"k": "7"}, str(tmp_path / "own"))])
    cut(tmp_path / "own" / "b.parquet")
    assert list(skipped(catalog.repair_partitions("s.t", verify=True))) == ["k=7/b.parquet"]
    whole(tmp_path / "flat" / "a.parquet")
    catalog.register_table("s.flat", location=str(tmp_path / "flat"), partition_columns={}, schema="x BIGINT")
    cut(tmp_path / "flat" / "b.parquet")
    assert list(skipped(catalog.repair_partitions("s.flat", verify=True))) == ["b.parquet"]
    assert indexed(catalog, "s.flat")[""].keys() == {"a.parquet"}


def test_strict_preview_and_modes(catalog: Catalog, root: Path) -> None:
    cut(root / "k=1" / "a.parquet")
    with pytest.raises(RepairRefusedError, match=r"k=1/a\.parquet"):
        catalog.repair_partitions("s.t", verify=True, strict=True)
    assert list(skipped(catalog.repair_partitions("s.t", verify=True, dry_run=True))) == ["k=1/a.parquet"]
    assert list(skipped(catalog.repair_partitions("s.t", verify=True, mode="add"))) == ["k=1/a.parquet"]
    assert not skipped(catalog.repair_partitions("s.t", verify=True, mode="drop"))
    assert [e.partition for e in catalog.repair_partitions("s.t").added] == ["k=1"]


def test_the_command_line_has_it(
    catalog: Catalog, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(root / "k=1" / "a.parquet")
    arguments = ["--index", str(tmp_path / "index.db"), "--metastore", "none", "repair", "s.t", "--verify", "--json"]
    assert main(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [entry["path"] for entry in printed["skipped"]] == ["k=1/a.parquet"]


def _orc(path: Path) -> bytes:
    orc.write_table(ROWS, path)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "file_format", "content", "said"),
    [
        ("a.parquet", "parquet", b"", None),
        ("a.parquet", "parquet", b"PAR1 and nothing", "cannot be read as parquet"),
        ("a.parquet", "parquet", b"PARE....PARE", None),
        ("a.orc", "orc", b"ORC and nothing", "cannot be read as orc"),
        ("a.csv", "csv", b"1,2\n", None),
        ("a.csv", "csv", b"PAR1....", "it is a Parquet file"),
        ("a.csv", "csv", b"Obj\x01....", "it is an Avro file"),
        ("a.csv.gz", "csv", gzip.compress(b"1,2\n", mtime=0), None),
        ("a.csv.gz", "csv", b"1,2\n", "it is not compressed as .gz"),
        ("a.json.bz2", "json", b'{"a": 1}', "it is not compressed as .bz2"),
        ("a.json", "json", b'{"a": 1}', None),
        ("a.txt.zst", "text", b"ORC", "it is not compressed as .zst"),
        ("a.txt.snappy", "text", b"anything", None),
        ("a", "text", b"ORC....", "it is an ORC file"),
    ],
)
def test_verification_of_each_format(
    tmp_path: Path, name: str, file_format: str, content: bytes, said: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    reason = unreadable_reason(Storage(), Location.parse(str(tmp_path / name)), file_format)
    assert (reason is None) if said is None else (reason is not None and said in reason)


@pytest.mark.parametrize(
    ("options", "name", "content", "said"),
    [
        ({"header": "true"}, "a.csv", b"1,ann\n2,bob\n", "lacks id, name"),
        ({"header": "true"}, "a.csv", b"id,nom\n1,ann\n", "has nom, no column of the table, and lacks name"),
        ({"header": "true"}, "a.csv.gz", gzip.compress(b"id,nom\n1,ann\n", mtime=0), "lacks name"),
        ({"header": "true", "sep": ";"}, "a.csv", b"id,name\n1,2\n", "lacks id, name"),
        ({"header": "true"}, "a.csv", b"NAME,Id\nann,1\n", None),
        ({"header": "true"}, "a.csv", b"id\n1\n", None),
        ({"header": "true"}, "a.csv", b"id,name,more\n1,ann,x\n", None),
        ({"header": "true"}, "a.csv", b"k,name\n1,ann\n", None),
        ({"header": "true"}, "a.csv", b'"id","name"', None),
        ({"header": "true"}, "a.csv", b"\n", None),
        ({"header": "true"}, "a.csv", b"x" * 20_000, None),
        ({"header": "true"}, "a.csv.snappy", b"1,ann\n", None),
        ({"header": "true", "encoding": "x-JISAutoDetect"}, "a.csv", b"1,ann\n", None),
        ({"header": "true", "enforceSchema": "true"}, "a.csv", b"1,ann\n", None),
        ({"header": "true", "enforceSchema": ""}, "a.csv", b"1,ann\n", None),
        ({"header": "yes"}, "a.csv", b"1,ann\n", None),
        ({"header": "true", "serde": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"}, "a", b"1,ann\n", None),
        ({}, "a.csv", b"1,ann\n", None),
    ],
)
def test_a_csv_header_that_no_query_can_read_is_found(
    tmp_path: Path, options: dict[str, str], name: str, content: bytes, said: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    table = TableDefinition(
        TableIdentifier("s", "t"), TableType.EXTERNAL, "csv", str(tmp_path),
        (Column("id", "int"), Column("name", "string")), (Column("k", "int"),), options=options,
    )  # fmt: skip
    reason = unfitting_header(Storage(), Location.parse(str(tmp_path / name)), table)
    assert (reason is None) if said is None else (reason is not None and said in reason)


def test_verify_leaves_out_a_csv_file_without_its_header(catalog: Catalog, tmp_path: Path) -> None:
    place = tmp_path / "csv"
    for k, text in (("1", "id,name\n1,ann\n"), ("2", "2,bob\n"), ("3", "")):
        (place / f"k={k}").mkdir(parents=True)
        (place / f"k={k}" / "a.csv").write_text(text)
    catalog.register_table(
        "s.csv", location=str(place), format="csv", options={"header": "true"}, schema="id INT, name STRING"
    )
    ((path, reason),) = skipped(catalog.repair_partitions("s.csv", verify=True)).items()
    assert (path, "its header is (2, bob)" in reason) == ("k=2/a.csv", True)
    catalog.repair_partitions("s.csv")
    assert skipped(catalog.repair_partitions("s.csv", verify="all")).keys() == {"k=2/a.csv"}


def test_whole_files_and_files_cut_anywhere_near_their_ends(tmp_path: Path) -> None:
    for name, content in (("parquet", whole(tmp_path / "a")), ("orc", _orc(tmp_path / "a"))):
        place = tmp_path / "f"
        place.write_bytes(content)
        assert unreadable_reason(Storage(), Location.parse(str(place)), name) is None
        for lost in (1, 4, 9, len(content) // 2, len(content) - 2):
            place.write_bytes(content[:-lost])
            assert unreadable_reason(Storage(), Location.parse(str(place)), name), (name, lost)


def test_a_file_that_has_gone_meanwhile_is_skipped(tmp_path: Path) -> None:
    reason = unreadable_reason(Storage(), Location.parse(str(tmp_path / "gone")), "parquet")
    assert reason is not None
    assert reason.startswith("the file cannot be looked at: ")


def held_by_verification() -> int:
    """Bytes that a verification has allocated; other threads of the process, such as those of Spark, do so besides."""
    ours = [tracemalloc.Filter(inclusive=True, filename_pattern=name) for name in HOLDING]
    traces = tracemalloc.take_snapshot().filter_traces(ours)
    return sum(trace.size for trace in traces.traces)


@pytest.mark.slow
def test_many_files_are_looked_into_side_by_side_and_few_are_held(catalog: Catalog) -> None:
    """10,000 files: never more than one chunk of them is in memory, and no more threads than a listing has."""
    storage, table, scratch = Storage(listing_threads=4), catalog.load_table("s.t"), Scratch()
    files = 10_000
    scratch.insert("listed_partitions", (("k=1",) for _ in range(1)))
    scratch.insert("listed_files", (("k=1", f"{i:05d}-{'x' * 300}", 1, 1, None) for i in range(files)))
    looking, most, looks, held = set[int](), 0, 0, 0
    lock = threading.Lock()

    def look(_: Storage, at: Location, __: str) -> str | None:
        nonlocal most, looks, held
        with lock:
            looking.add(threading.get_ident())
            looks += 1
            most = max(most, len(looking))
            if looks % 2500 == 0:
                held = max(held, held_by_verification())
        return None if int(at.name[:5]) % 1000 else "broken"

    tracemalloc.start()
    Verification(storage, table, scratch, no_progress, look).run(RepairMode.SYNC)
    tracemalloc.stop()
    assert looks == files
    assert 1 <= most <= 4
    assert 300_000 < held < 3_300_000, "10,000 such names alone take more, and 1,000 of them take 300,000"
    assert scratch.count("SELECT count(*) FROM skipped") == files // 1000
    scratch.close()


NOW = dt.datetime(2025, 1, 2, tzinfo=dt.timezone.utc)
NESTED = pa.struct({"A": pa.list_(pa.struct({"b": pa.int32()}))})
TWICE = pa.struct([("a", pa.int32()), ("A", pa.int32())])


@pytest.mark.parametrize(
    ("values", "kind", "column", "said"),
    [
        ([NOW], pa.timestamp("ns"), "TIMESTAMP_NTZ", "holds nanoseconds, which Spark cannot read as TIMESTAMP_NTZ"),
        ([NOW], pa.timestamp("ns", "UTC"), "TIMESTAMP", "coerce_timestamps='us'"),
        ([NOW], pa.timestamp("ns"), "BIGINT", None),
        ([NOW], pa.timestamp("us"), "TIMESTAMP", None),
        ([NOW], pa.timestamp("ms", "UTC"), "TIMESTAMP_NTZ", None),
        ([1], pa.int64(), "TIMESTAMP", "is INT64, which Spark does not read as the table's TIMESTAMP"),
        ([1], pa.int64(), "INT", "is INT64, which Spark does not read as the table's INT"),
        ([1], pa.int32(), "BIGINT", None),
        ([1], pa.uint32(), "BIGINT", None),
        ([1], pa.int32(), "STRING", "is INT32"),
        ([1.0], pa.float64(), "FLOAT", "is DOUBLE"),
        ([1.0], pa.float32(), "DOUBLE", None),
        (["a"], pa.string(), "BIGINT", "is BYTE_ARRAY (String), which Spark does not read"),
        (["a"], pa.string(), "VARCHAR(3)", None),
        ([None], pa.int64(), "STRING", "is INT64"),
        ([], pa.int64(), "STRING", None),
        ([[1]], pa.list_(pa.int64()), "ARRAY<STRING>", "column 'C.element' is INT64"),
        ([[1]], pa.list_(pa.int64()), "ARRAY<BIGINT>", None),
        ([[1]], pa.list_(pa.int64()), "MAP<STRING,BIGINT>", "is an ARRAY, which Spark does not read"),
        ([{"A": [{"b": 1}]}], NESTED, "STRUCT<a:ARRAY<STRUCT<B:BIGINT,c:INT>>>", None),
        ([{"A": [{"b": 1}]}], NESTED, "STRUCT<a:ARRAY<STRUCT<B:STRING>>>", "column 'C.A.element.b' is INT32"),
        ([{"a": 1, "A": 2}], TWICE, "STRUCT<a:INT>", "has the columns 'C.a', 'C.A', between which Spark cannot choose"),
        ([{"a": 1, "A": 2}], TWICE, "STRUCT<b:INT>", None),
        ([[("a", 1)]], pa.map_(pa.string(), pa.int32()), "MAP<STRING,STRING>", "column 'C.value' is INT32"),
        ([], pa.list_(pa.int64()), "ARRAY<STRING>", None),
        ([], pa.list_(pa.int64()), "STRUCT<a:INT>", "is an ARRAY"),
        ([1], pa.int32(), "STRUCT<a:INT>", "is a single value, which Spark does not read as the table's STRUCT<A:INT>"),
        ([1], pa.int32(), "DECIMAL(9,0)", "is INT32, which Spark does not read as the table's DECIMAL(9,0)"),
        ([1], pa.int32(), "DECIMAL(10,0)", None),
        ([Decimal("1.00")], pa.decimal128(5, 2), "DECIMAL(5,3)", "(Decimal(5,2)), which Spark does not read"),
        ([Decimal("1.00")], pa.decimal128(5, 2), "DECIMAL(6,3)", None),
        ([Decimal("1.00")], pa.decimal128(5, 2), "DECIMAL(7,2)", None),
        ([True], pa.bool_(), "INT", "is BOOLEAN"),
    ],
)  # fmt: skip
def test_columns_are_compared_as_spark_does(
    tmp_path: Path, values: list[object], kind: pa.DataType, column: str, said: str | None
) -> None:
    pq.write_table(pa.table({"K": ["k"] * len(values), "C": pa.array(values, kind)}), tmp_path / "a.parquet")
    table = [Column("c", column.lower()), Column("missing", "int")]
    reason = unreadable_reason(Storage(), Location.parse(str(tmp_path / "a.parquet")), "parquet", table)
    assert (reason is None) if said is None else (reason is not None and said in reason)


@pytest.mark.parametrize(
    ("file", "columns", "said"),
    [
        ({"C": pa.array([1])}, {"c": "string"}, None),
        ({"C": pa.array([1])}, {"c": "date"}, "its column 'C' is INT64, which Spark does not read as the table's DATE"),
        ({"c": pa.array([NOW.date()])}, {"c": "bigint"}, "is DATE32[DAY]"),
        ({"c": pa.array([NOW.date()])}, {"c": "timestamp"}, None),
        ({"c": pa.array(["1"])}, {"c": "decimal(5,2)"}, None),
        ({"c": pa.array([[b"1"]])}, {"c": "array<int>"}, "its column 'c.element' is BINARY"),
        ({"c": pa.array([[1]])}, {"c": "array<array<int>>"}, "is a single value, which Spark does not read"),
        ({"c": pa.array([1]), "C": pa.array([1])}, {"c": "int"}, "has the columns 'c', 'C'"),
        ({"c": pa.array([1]), "C": pa.array([1])}, {"d": "int"}, None),
        ({"c": pa.array([NOW], pa.timestamp("ns"))}, {"c": "timestamp_ntz"}, "TIMESTAMP where the table has a"),
        # Spark compares the kinds of timestamps by place, and everything else by name.
        ({"a": pa.array([NOW], pa.timestamp("ns"))}, {"c": "timestamp_ntz", "a": "timestamp"}, "in its place"),
        ({"_col0": pa.array([1]), "_col1": pa.array([b"1"])}, {"c": "int", "d": "int"}, "its column '_col1' is BINARY"),
        ({"_col0": pa.array([1]), "_col1": pa.array([b"1"])}, {"c": "int"}, "has 2 columns without names"),
    ],
)  # fmt: skip
def test_orc_columns_are_compared_as_spark_does(
    tmp_path: Path, file: dict[str, pa.Array], columns: dict[str, str], said: str | None
) -> None:
    orc.write_table(pa.table(list(file.values()), names=list(file)), tmp_path / "a.orc")
    table = [Column(name, kind) for name, kind in columns.items()]
    reason = unreadable_reason(Storage(), Location.parse(str(tmp_path / "a.orc")), "orc", table)
    assert (reason is None) if said is None else (reason is not None and said in reason)


def test_nanoseconds_are_named_by_verify(catalog: Catalog, root: Path) -> None:
    whole(root / "k=1" / "a.parquet", pa.table({"x": pa.array([NOW], pa.timestamp("ns"))}))
    with pytest.warns(TableOverlapWarning):
        catalog.register_table("s.ns", location=str(root), partition_columns={"k": "INT"}, schema="x TIMESTAMP")
    (reason,) = skipped(catalog.repair_partitions("s.ns", verify=True)).values()
    assert "its column 'x' holds nanoseconds, which Spark cannot read" in reason


def test_registered_files_are_looked_up_by_an_index(catalog: Catalog) -> None:
    """Without one each of a million registered files reads all that differ."""
    storage, table, scratch = Storage(), catalog.load_table("s.t"), Scratch()
    Verification(storage, table, scratch, no_progress).run_registered([])
    plan = scratch.rows("EXPLAIN QUERY PLAN SELECT 1 FROM differing_files WHERE name = ? AND path = ?", ("k=1", "a"))
    assert [detail.partition(" ")[0] for *_, detail in plan] == ["SEARCH"]
    scratch.close()
