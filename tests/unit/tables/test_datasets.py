"""`catalog.dataset()`: a table's rows with its schema, as pyarrow reads its files."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from pyarrow import orc
from pyarrow import parquet as pq

from catalog_ext.metastore.errors import (
    CatalogExtError,
    FilesLostError,
    InvalidInputError,
    InvalidPredicateError,
    LocationNotFoundError,
    OperationNotSupportedError,
    SchemaConflictError,
    TableNotFoundError,
    VersionNotFoundError,
)
from catalog_ext.metastore.index.read.metadata_groups import Aggregate, Function
from catalog_ext.metastore.model.alterations import AddColumn
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import Column, DataFile
from catalog_ext.tables.arrow_schema import existing_default
from tests.unit.partitions.test_partition_descriptors import ORC, PIPED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.descriptors import PartitionDescriptor

DAY = dt.date(2025, 1, 1)


def put(path: Path, **columns: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.table(columns)
    if path.suffix == ".orc":
        orc.write_table(rows, path)
    else:
        pq.write_table(rows, path)


def table(catalog: Catalog, root: Path, schema: str, keys: Mapping[str, str] | None = None, **arguments: Any) -> None:
    root.mkdir(exist_ok=True)
    catalog.register_table("s.t", location=str(root), partition_columns=keys or {}, schema=schema, **arguments)
    catalog.repair_partitions("s.t")


def rows(dataset: pads.Dataset) -> list[dict[str, Any]]:
    return sorted(dataset.to_table().to_pylist(), key=repr)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


def test_columns_that_came_later_are_null_and_wider_types_hold(catalog: Catalog, root: Path) -> None:
    put(root / "ds=2025-01-01/1.parquet", id=pa.array([1], pa.int32()))
    put(root / "ds=2025-01-02/1.parquet", id=pa.array([5_000_000_000], pa.int64()), channel=["web"])
    table(catalog, root, "id BIGINT, channel STRING", {"ds": "DATE"})
    found = catalog.dataset("s.t")
    assert found.schema == pa.schema([("id", pa.int64()), ("channel", pa.string()), ("ds", pa.date32())])
    assert rows(found) == [
        {"id": 1, "channel": None, "ds": DAY},
        {"id": 5_000_000_000, "channel": "web", "ds": dt.date(2025, 1, 2)},
    ]
    assert found.to_table(filter=pads.field("id") > 4_000_000_000).num_rows == 1
    assert catalog.table("s.t").dataset({"ds": "2025-01-01"}).count_rows() == 1


def test_keys_have_the_values_and_types_of_the_table(catalog: Catalog, root: Path) -> None:
    """Escapes are decoded once, NULL is NULL, and text that looks like a number stays text."""
    keys = {"c": "STRING", "n": "DECIMAL(5,2)", "at": "TIMESTAMP"}
    at = "at=2025-01-01 10%3A00%3A00"
    for name in (f"c=01/n=1.5/{at}", f"c=a%2Fb%25 é/n=2/{at}", f"c=__HIVE_DEFAULT_PARTITION__/n=3/{at}"):
        put(root / name / "1%41.parquet", id=[1])
    table(catalog, root, "id BIGINT", keys)
    found = catalog.dataset("s.t")
    assert [found.schema.field(key).type for key in keys] == [pa.string(), pa.decimal128(5, 2), pa.timestamp("us")]
    moment = dt.datetime(2025, 1, 1, 10)
    assert {tuple(row.values()) for row in rows(found)} == {
        (1, "01", Decimal("1.50"), moment), (1, "a/b% é", Decimal("2.00"), moment), (1, None, Decimal("3.00"), moment),
    }  # fmt: skip
    assert found.to_table(filter=pads.field("c").is_null()).num_rows == 1


def test_files_are_those_of_the_index_in_the_chosen_partitions(catalog: Catalog, root: Path) -> None:
    put(root / "k=1/a.parquet", id=[1])
    put(root / "k=2/a.parquet", id=[2])
    table(catalog, root, "id BIGINT", {"k": "INT"})
    before = catalog.dataset("s.t")
    put(root / "k=1/later.parquet", id=[9])
    assert [row["id"] for row in rows(catalog.dataset("s.t", where="k = 1"))] == [1]
    catalog.repair_partitions("s.t")
    assert [row["id"] for row in rows(before)] == [1, 2], "a dataset is of one version"
    assert [row["id"] for row in rows(catalog.dataset("s.t"))] == [1, 2, 9]


def test_earlier_version_has_its_own_files(catalog: Catalog, root: Path) -> None:
    put(root / "k=1/a.parquet", id=[1])
    table(catalog, root, "id BIGINT", {"k": "INT"})
    first = catalog.history("s.t")[0]
    put(root / "k=2/a.parquet", id=[2])
    catalog.repair_partitions("s.t")
    at = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=first.committed_at_ms)
    catalog.tag("s.t", first.version, "first")
    for of in (catalog, catalog.table("s.t")):
        name = ("s.t",) if of is catalog else ()
        for version in (first.version, at, "first"):
            assert of.partitions(*name, version=version).column("partition").to_pylist() == ["k=1"]
            assert of.files(*name, version=version).num_rows == 1
            assert rows(of.dataset(*name, version=version)) == [{"id": 1, "k": 1}]
            assert of.partitions(*name, "k = 2", version=version).num_rows == 0
        assert of.files(*name).num_rows == 2
    read, table_id = catalog.metadata_tables.read, catalog.load_table("s.t").table_id
    for metadata_table in ("partitions", "files"):
        assert read(table_id, metadata_table).read_all().num_rows == 2
        assert read(table_id, metadata_table, version=first.version).read_all().num_rows == 1
        assert read(table_id, metadata_table, None, [], version=first.version).read_all().num_rows == 1
        counted = catalog.metadata_tables.groups(
            table_id, metadata_table, None, [], [Aggregate(Function.COUNT, None)], version=first.version
        )
        assert sum(row["value_0"] for row in counted.read_all().to_pylist()) == 1
    with pytest.raises(OperationNotSupportedError, match=r"s\.t\.history cannot be read as of an earlier version"):
        read(table_id, "history", version=first.version)


def test_version_without_its_files_or_none_at_all_is_an_error(catalog: Catalog, root: Path) -> None:
    put(root / "k=1/a.parquet", id=[1])
    table(catalog, root, "id BIGINT", {"k": "INT"})
    first = catalog.history("s.t")[0].version
    (root / "k=1/a.parquet").unlink()
    catalog.repair_partitions("s.t", mode="sync")
    assert catalog.files("s.t", version=first).num_rows == 1, "what the version had, there or not"
    with pytest.raises(
        FilesLostError, match=rf"Version {first} of table s\.t had .*, which is gone, .* a newer version"
    ):
        catalog.dataset("s.t", version=first)
    put(root / "k=1/a.parquet", id=[7, 8])
    catalog.repair_partitions("s.t", mode="sync")
    assert rows(catalog.dataset("s.t")) == [{"id": 7, "k": 1}, {"id": 8, "k": 1}]
    with pytest.raises(FilesLostError, match="which was written again since then"):
        catalog.dataset("s.t", version=first)
    with pytest.raises(VersionNotFoundError, match="has no version 99"):
        catalog.files("s.t", version=99)
    with pytest.raises(VersionNotFoundError, match="it was created at"):
        catalog.partitions("s.t", version=dt.datetime(2001, 1, 1, tzinfo=dt.timezone.utc))
    for wrong in (dt.datetime(2001, 1, 1), True, 1.5):
        with pytest.raises(InvalidInputError, match=r"has no zone|is a number, a tag's name or a time"):
            catalog.dataset("s.t", version=wrong)  # type: ignore[arg-type]


def test_relocated_partition_is_read_where_it_lies(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    put(root / "k=1/a.parquet", id=[1])
    put(tmp_path / "elsewhere/a.parquet", id=[2])
    table(catalog, root, "id BIGINT", {"k": "INT"})
    catalog.partition_commands.add("s.t", [({"k": "2"}, str(tmp_path / "elsewhere"))])
    assert rows(catalog.dataset("s.t")) == [{"id": 1, "k": 1}, {"id": 2, "k": 2}]


def test_key_in_the_files_has_the_value_of_the_path(catalog: Catalog, root: Path) -> None:
    put(root / "k=1/a.parquet", id=[1], k=["other"])
    table(catalog, root, "id BIGINT", {"k": "INT"})
    assert rows(catalog.dataset("s.t")) == [{"id": 1, "k": 1}]
    assert catalog.dataset("s.t").to_table(filter=pads.field("k") == 1).num_rows == 1


def test_data_column_hides_a_key_of_its_name(catalog: Catalog, root: Path) -> None:
    put(root / "k=1/a.parquet", id=[1], k=["other"])
    table(catalog, root, "id BIGINT, K STRING", {"k": "INT"})
    assert rows(catalog.dataset("s.t")) == [{"id": 1, "k": "other"}]


@pytest.mark.parametrize("suffix", ["parquet", "orc"])
def test_names_are_spelled_as_in_the_files(catalog: Catalog, root: Path, suffix: str) -> None:
    """Arrow distinguishes `userid` and `userId`, and would give NULL without an error."""
    user = pa.array([{"firstName": "a"}], pa.struct([("firstName", pa.string())]))
    put(root / f"k=1/a.{suffix}", userId=[7], users=user, K=["x"])
    table(catalog, root, "userid BIGINT, users STRUCT<firstname: STRING>", {"k": "INT"}, format=suffix)
    assert rows(catalog.dataset("s.t")) == [{"userId": 7, "users": {"firstName": "a"}, "k": 1}]


def test_files_that_spell_a_column_differently_are_refused(catalog: Catalog, root: Path) -> None:
    put(root / "k=1/a.parquet", userId=[7])
    put(root / "k=2/a.parquet", userid=[8])
    table(catalog, root, "userid BIGINT", {"k": "INT"})
    with pytest.raises(SchemaConflictError, match=r"(?s)userId.*k=1/a.parquet.*userid.*k=2/a.parquet.*where="):
        catalog.dataset("s.t")
    assert rows(catalog.dataset("s.t", where="k = 1")) == [{"userId": 7, "k": 1}]


def test_files_older_than_a_column_have_its_default(catalog: Catalog, root: Path) -> None:
    put(root / "1.parquet", id=[1])
    put(root / "2.parquet", id=[2], n=pa.array([None], pa.int32()))
    table(catalog, root, "id BIGINT")
    catalog.alterations.alter("s.t", [AddColumn(("n",), "int", default="42", existing_default="42")])
    assert rows(catalog.dataset("s.t")) == [{"id": 1, "n": 42}, {"id": 2, "n": None}]


@pytest.mark.parametrize(("text", "type_", "value"), [
    ("5", "int", 5), ("5L", "bigint", 5), ("-1.5D", "double", -1.5), ("1.50BD", "decimal(5,2)", Decimal("1.50")),
    ("'it\\'s'", "string", "it's"), ("DATE '2025-01-01'", "date", DAY), ("true", "boolean", True),
    (r"'a\nb\u00e4\\'", "string", "a\nb\u00e4\\"), ("'it''s'", "string", "it's"),
    ("CAST('1.5' AS FLOAT)", "float", 1.5), ("CAST(1.5 AS FLOAT)", "float", 1.5),
])  # fmt: skip
def test_literals_of_defaults_are_read(text: str, type_: str, value: object) -> None:
    found = existing_default(Column("c", type_, existing_default=text), "s.t")
    assert found is not None
    assert found.as_py() == value


def test_literals_that_depend_on_the_session_are_refused() -> None:
    column = Column("c", "timestamp", existing_default="TIMESTAMP '2025-01-01 00:00:00'")
    with pytest.raises(OperationNotSupportedError, match="has the default TIMESTAMP"):
        existing_default(column, "s.t")


def test_table_without_files_has_a_schema_and_no_rows(catalog: Catalog, root: Path) -> None:
    table(catalog, root, "id BIGINT, n ARRAY<STRUCT<x: INT>>", {"k": "INT"})
    found = catalog.dataset("s.t")
    assert (found.schema.names, found.count_rows(), found.to_table().num_rows) == (["id", "n", "k"], 0, 0)
    put(root / "k=1/a.parquet", id=[1])
    (root / "k=1/empty.parquet").touch()
    catalog.repair_partitions("s.t")
    assert catalog.dataset("s.t").count_rows() == 1, "an empty file has no rows"
    assert catalog.dataset("s.t", where="k = 2").count_rows() == 0


def test_timestamps_before_and_after_the_range_of_nanoseconds(catalog: Catalog, root: Path) -> None:
    root.mkdir()
    at = [dt.datetime(1500, 1, 1), dt.datetime(9999, 12, 31, 23, 59)]
    pq.write_table(
        pa.table({"at": pa.array(at, pa.timestamp("us"))}), root / "a.parquet", use_deprecated_int96_timestamps=True
    )
    table(catalog, root, "at TIMESTAMP")
    found = catalog.dataset("s.t").to_table()["at"]
    assert found.type == pa.timestamp("us", tz="UTC")
    assert [value.replace(tzinfo=None) for value in found.to_pylist()] == at


def described(catalog: Catalog, root: Path, name: str, descriptor: PartitionDescriptor | None) -> None:
    path = next((root / name).iterdir())
    stat = path.stat()
    file = DataFile(path.name, stat.st_size, stat.st_mtime_ns // 1_000_000)
    change = AddPartition(name, (file,), descriptor=descriptor)
    catalog.index.commits.apply_changes(catalog.load_table("s.t").table_id, [change], operation="x", deliver=False)


def test_partitions_of_two_formats_are_one_dataset(catalog: Catalog, root: Path) -> None:
    table(catalog, root, "x INT", {"k": "INT"})
    put(root / "k=1/a.parquet", x=[1])
    put(root / "k=2/a.orc", x=[2])
    put(root / "k=3/a.parquet", x=[3])
    described(catalog, root, "k=1", None)
    described(catalog, root, "k=2", ORC)
    described(catalog, root, "k=3", PIPED)
    assert rows(catalog.dataset("s.t", where="k < 3")) == [{"x": 1, "k": 1}, {"x": 2, "k": 2}]
    assert "format csv" in refusal(catalog).message


def test_timestamps_of_two_formats_are_not_mixed(catalog: Catalog, root: Path) -> None:
    table(catalog, root, "at TIMESTAMP", {"k": "INT"})
    at = pa.array([dt.datetime(2025, 1, 1)], pa.timestamp("us"))
    put(root / "k=1/a.parquet", at=at.cast(pa.timestamp("us", tz="UTC")))
    put(root / "k=2/a.orc", at=at)
    described(catalog, root, "k=1", None)
    described(catalog, root, "k=2", ORC)
    assert "ORC and in Parquet, and a TIMESTAMP column" in refusal(catalog).message
    assert catalog.dataset("s.t", where="k = 1").count_rows() == 1


def refusal(catalog: Catalog, where: str | None = None) -> CatalogExtError:
    with pytest.raises(CatalogExtError) as error:
        catalog.dataset("s.t", where)
    return error.value


def test_file_that_is_gone_is_named_with_the_repair(catalog: Catalog, root: Path) -> None:
    put(root / "k=1/a.parquet", id=[1])
    put(root / "k=2/a.parquet", id=[2])
    table(catalog, root, "id BIGINT", {"k": "INT"})
    (root / "k=1/a.parquet").unlink()
    error = refusal(catalog)
    assert isinstance(error, LocationNotFoundError)
    assert "k=1/a.parquet" in error.message
    assert "repair_partitions('s.t')" in error.message
    catalog.alter_table_properties("s.t", {"missing-files": "skip"})
    assert [row["id"] for row in rows(catalog.dataset("s.t"))] == [2]


def test_file_of_another_format_is_named(catalog: Catalog, root: Path) -> None:
    table(catalog, root, "id BIGINT", {"k": "INT"})
    (root / "k=1").mkdir()
    (root / "k=1/a.csv").write_text("1,2\n")
    catalog.repair_partitions("s.t")
    error = refusal(catalog)
    assert isinstance(error, InvalidInputError)
    assert "k=1/a.csv of table s.t cannot be read as parquet" in error.message


def test_orc_without_names_of_columns_is_refused(catalog: Catalog, root: Path) -> None:
    put(root / "a.orc", _col0=[1], _col1=[2])
    table(catalog, root, "id BIGINT, n BIGINT", format="orc")
    assert "has no names of columns" in refusal(catalog).message


@pytest.mark.parametrize("format_", ["csv", "json", "text"])
def test_formats_with_rules_of_their_own_are_refused(catalog: Catalog, root: Path, format_: str) -> None:
    table(catalog, root, "value STRING", format=format_)
    error = refusal(catalog)
    assert isinstance(error, OperationNotSupportedError)
    assert f"format {format_}" in error.message
    assert "catalog.files" in error.message


def test_type_that_arrow_lacks_is_refused(catalog: Catalog, root: Path) -> None:
    table(catalog, root, "id BIGINT, v VARIANT")
    assert "column 'v' of table s.t: Arrow has no type VARIANT" in refusal(catalog).message


def test_bad_input_is_refused(catalog: Catalog, root: Path) -> None:
    table(catalog, root, "id BIGINT", {"k": "INT"})
    assert isinstance(refusal(catalog, "id = 1"), InvalidPredicateError)
    with pytest.raises(TableNotFoundError):
        catalog.dataset("s.u")
    catalog.close()
    assert "closed" in refusal(catalog).message
