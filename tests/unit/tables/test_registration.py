"""Registration of what lies on a local folder: what it finds, and the errors of bad input, which change nothing."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import (
    CatalogExtError,
    InvalidConfigurationError,
    InvalidIdentifierError,
    InvalidInputError,
    InvalidTypeError,
    LocationNotFoundError,
    NamespaceNotFoundError,
    StorageAccessDeniedError,
    StorageError,
    TableAlreadyExistsError,
    TableLayoutError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.storage.patterns import escape
from catalog_ext.procedures.registry import find_procedure
from catalog_ext.tables.locations import TableOverlapWarning, warn_of_other_name_node
from tests.kit.repair_cases import write

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table

EU = "ds=2025-01-01/region=eu"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    write(folder, f"{EU}/1.csv", "ds=2025-01-02/region=us/1.csv", content=b"1,a\n")
    return folder


def register(catalog: Catalog, location: Path | str, **arguments: Any) -> Table:
    given = {"format": "csv", "schema": "x INT", "location": str(location), **arguments}
    return catalog.register_table(given.pop("table", "s.t"), **given)


def state(catalog: Catalog) -> object:
    return catalog.list_namespaces(), catalog.list_tables("s"), catalog.index.outbox.pending()


# What is found


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [({}, "virtual"), ({"partition_mode": "declared"}, "declared"),
     ({"partition_mode": "virtual", "properties": {"partition-columns": "declared"}}, "virtual")],
)  # fmt: skip
def test_registering_decides_whether_select_star_shows_the_keys(
    catalog: Catalog, root: Path, arguments: dict[str, Any], mode: str
) -> None:
    register(catalog, root, table="s.python", **arguments)
    assert str(catalog.load_table("s.python").definition.partition_mode) == mode
    catalog.unregister_table("s.python")
    given = {"table": "s.sql", "location": str(root), "format": "csv", "schema": "x INT", **arguments}
    (batch,) = find_procedure("register_table").call(catalog, given).batches
    assert batch.to_pylist()[0]["partition_mode"] == mode
    with pytest.raises(InvalidConfigurationError, match="partition-columns"):
        register(catalog, root, table="s.wrong", partition_mode="hidden")


def test_given_keys_and_columns_are_taken_as_they_are(catalog: Catalog, root: Path) -> None:
    table = register(
        catalog, f"{root}//", partition_columns={"ds": "date", "Region": "varchar(10)"}, comment="c",
        schema="id BIGINT NOT NULL COMMENT 'key', fare DECIMAL(10, 2)", options={"header": "true"},
        properties={"p": "1"},
    )  # fmt: skip
    definition = table.definition
    assert definition.location == f"file://{root}"
    assert definition.table_type is TableType.EXTERNAL
    assert definition.columns == (Column("id", "bigint", False, "key"), Column("fare", "decimal(10,2)"))
    assert definition.partition_columns == (Column("ds", "date"), Column("Region", "varchar(10)"))
    assert (dict(definition.options), definition.comment) == ({"header": "true"}, "c")
    assert definition.properties["p"] == "1"
    assert (table.version, table.totals.partitions) == (0, 0)


def test_keys_are_found_in_the_paths_as_strings(catalog: Catalog, root: Path) -> None:
    write(root, "_SUCCESS", ".crc", "_temporary/0/x", "ds=2025-01-01/_metadata")
    table = register(catalog, root)
    assert table.definition.partition_columns == (Column("ds", "string"), Column("region", "string"))


def test_keys_that_differ_in_case_are_one_in_any_listing_order(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "DS=1/1.csv", "ds=2/1.csv", "Ds=3/1.csv")
    assert [c.name for c in register(catalog, tmp_path / "t").definition.partition_columns] == ["DS"]


def test_plain_files_make_a_table_without_partition_columns(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "1.csv", "2.csv")
    assert register(catalog, tmp_path / "t").definition.partition_columns == ()
    catalog.unregister_table("s.t")
    assert register(catalog, tmp_path / "t", partition_columns={}).definition.partition_columns == ()


def test_an_empty_location_is_fine_where_keys_and_schema_are_given(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "t" / "ds=2025-01-01").mkdir(parents=True)
    register(catalog, tmp_path / "t", partition_columns={"ds": "DATE"})
    assert catalog.list_tables("s") == ["t"]


def test_some_paths_may_not_conform(catalog: Catalog, root: Path) -> None:
    write(root, "stray.csv", "ds=x/region=eu/1.csv", "plain/1.csv")
    register(catalog, root, partition_columns={"ds": "DATE", "region": "STRING"})
    assert catalog.list_tables("s") == ["t"]


def test_a_schema_is_read_from_the_files_without_the_keys(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=1/1.csv", content=b"id,ds,name\n1,2,ada\n")
    table = register(catalog, tmp_path / "t", schema=None, options={"header": "true"})
    assert [c.name for c in table.definition.columns] == ["id", "name"]


def test_the_name_of_the_catalog_may_stand_in_front(catalog: Catalog, root: Path) -> None:
    register(catalog, root, table="lake.s.t")
    assert catalog.load_table("`s`.T").identifier == TableIdentifier.of("s", "t")


# Bad input


def refuse(catalog: Catalog, error: type[CatalogExtError], *words: str, **arguments: Any) -> None:
    """The registration is refused with an error that says these words and is short, and nothing has changed."""
    before = state(catalog)
    with pytest.raises(error) as raised:
        register(catalog, **arguments)
    assert type(raised.value) is error
    for word in words:
        assert word in raised.value.message
    assert len(raised.value.message) < 2500
    assert "\n" not in raised.value.message
    raised.value.message.encode()
    assert state(catalog) == before


def test_a_location_that_is_not_there(catalog: Catalog, tmp_path: Path) -> None:
    refuse(catalog, LocationNotFoundError, "s.t", str(tmp_path / "nowhere"), location=tmp_path / "nowhere")
    keys = {"ds": "DATE"}
    refuse(catalog, LocationNotFoundError, "s.t", location=tmp_path / "nowhere", partition_columns=keys)


def test_a_location_that_is_a_file(catalog: Catalog, root: Path) -> None:
    refuse(catalog, LocationNotFoundError, "s.t", "is a file", location=root / EU / "1.csv")


@pytest.mark.parametrize("keys", [None, {"ds": "DATE"}])
def test_a_location_that_cannot_be_read(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str] | None
) -> None:
    def denied(path: str) -> object:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", denied)
    refuse(catalog, StorageAccessDeniedError, "s.t", "permission", location=root, partition_columns=keys)


@pytest.mark.parametrize("keys", [None, {"ds": "DATE", "region": "STRING"}])
def test_a_location_whose_partitions_cannot_be_read(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, str] | None
) -> None:
    scandir = os.scandir

    def denied(path: str) -> object:
        if "ds=" in str(path):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    refuse(catalog, StorageAccessDeniedError, "s.t", location=root, partition_columns=keys)


def test_no_partition_directories_where_keys_were_promised(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "plain", "1.csv", "2.csv")
    words = "s.t", str(tmp_path / "plain"), "ds=…", "'1.csv'"
    write(tmp_path / "plain", "1.csv")
    (tmp_path / "plain" / "2.csv").unlink()
    refuse(catalog, TableLayoutError, *words, location=tmp_path / "plain", partition_columns={"ds": "DATE"})


@pytest.mark.parametrize(
    ("path", "keys", "word"),
    [
        ("day=1/1.csv", {"ds": "DATE"}, "'day'"),
        ("ds=tomorrow/1.csv", {"ds": "DATE"}, "'tomorrow'"),
        ("region=eu/ds=2025-01-01/1.csv", {"ds": "DATE", "region": "STRING"}, "wrong order"),
        ("ds=2025-01-01/1.csv", {"ds": "DATE", "region": "STRING"}, "above the partition directories"),
        ("ds=2025-01-01/1.csv", {}, "no partition columns"),
    ],
)
def test_keys_that_no_path_has(catalog: Catalog, tmp_path: Path, path: str, keys: dict[str, str], word: str) -> None:
    write(tmp_path / "t", path)
    refuse(catalog, TableLayoutError, "s.t", word, location=tmp_path / "t", partition_columns=keys)


@pytest.mark.parametrize(
    "paths",
    [
        ["a=1/b=2/1.csv", "a=1/c=2/1.csv"],
        ["a=1/b=2/1.csv", "b=2/a=1/1.csv"],
        ["a=1/1.csv", "1.csv"],
        ["a=1/1.csv", "a=1/b=2/1.csv"],
        ["a=1/1.csv", "plain/1.csv"],
    ],
)
def test_leaves_that_disagree_on_the_keys(catalog: Catalog, tmp_path: Path, paths: list[str]) -> None:
    write(tmp_path / "t", *paths)
    refuse(catalog, TableLayoutError, "s.t", "disagree", *(f"'{p}'" for p in paths), location=tmp_path / "t")


def test_leaves_that_disagree_in_a_thousand_ways_are_not_all_named(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", *(f"k{i}=1/{'x' * 100}.csv" for i in range(1000)))
    refuse(catalog, TableLayoutError, "disagree", location=tmp_path / "t")


def test_a_key_that_comes_twice(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "a=1/A=2/1.csv")
    refuse(catalog, TableLayoutError, "s.t", "'A'", "twice", location=tmp_path / "t")


def test_folders_that_are_no_keys(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "2025/1.csv")
    refuse(catalog, TableLayoutError, "s.t", "'2025/1.csv'", location=tmp_path / "t")
    refuse(catalog, TableLayoutError, "s.t", location=tmp_path)


def test_keys_in_the_paths_that_no_column_can_be_named(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "a%2Fb=1/1.csv")
    refuse(catalog, InvalidIdentifierError, "s.t", "'a/b'", location=tmp_path / "t")
    write(tmp_path / "u", "a,b=1/1.csv")
    refuse(catalog, InvalidIdentifierError, "s.t", "'a,b'", location=tmp_path / "u")


def test_an_empty_location_of_which_nothing_is_known(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    refuse(catalog, TableLayoutError, "s.t", "no file", location=tmp_path / "t")
    refuse(catalog, TableLayoutError, "s.t", "no file", location=tmp_path / "t", schema=None)
    keys = {"ds": "DATE"}
    refuse(catalog, InvalidInputError, "s.t", "no file", location=tmp_path / "t", schema=None, partition_columns=keys)


def test_a_name_that_exists(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    register(catalog, root)
    refuse(catalog, TableAlreadyExistsError, "s.t", str(root), location=root)
    refuse(catalog, TableAlreadyExistsError, "s.t", location=tmp_path / "nowhere", table="S.T")


def test_a_namespace_that_is_not_there(catalog: Catalog, root: Path) -> None:
    refuse(catalog, NamespaceNotFoundError, "nosuch", location=root, table="nosuch.t")


@pytest.mark.parametrize("name", ["avro", "", "delta", "parquet; DROP TABLE", "x" * 10_000])
def test_an_unknown_format(catalog: Catalog, root: Path, name: str) -> None:
    refuse(catalog, UnsupportedFormatError, "s.t", repr(name[:60]), "parquet, orc", location=root, format=name)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"partition_columns": {"ds": "nosuch"}}, InvalidTypeError),
        ({"partition_columns": {"ds": "ARRAY<INT>"}}, InvalidTypeError),
        ({"partition_columns": {"ds": "VARIANT"}}, InvalidTypeError),
        ({"partition_columns": {"ds": "INTERVAL DAY"}}, InvalidTypeError),
        ({"partition_columns": {"ds": "STRING COLLATE UTF8_LCASE"}}, InvalidTypeError),
        ({"partition_columns": {"ds": "DATE", "DS": "DATE"}}, InvalidInputError),
        ({"partition_columns": {"": "DATE"}}, InvalidIdentifierError),
        ({"partition_columns": {f"k{i}": "INT" for i in range(65)}}, InvalidInputError),
        ({"schema": ""}, InvalidTypeError),
        ({"schema": "x"}, InvalidTypeError),
        ({"schema": "x NOSUCH"}, InvalidTypeError),
        ({"schema": "x INT, X INT"}, InvalidTypeError),
        ({"schema": "x INT; DROP TABLE tables"}, InvalidTypeError),
        ({"properties": {"partition-columns": "hidden"}}, InvalidConfigurationError),
        ({"properties": {"schema.sample-files": "0"}}, InvalidConfigurationError),
        ({"properties": {"p": 1}}, InvalidConfigurationError),
        ({"options": {"header": True}}, InvalidConfigurationError),
    ],
)
def test_arguments_that_are_wrong(
    catalog: Catalog, root: Path, arguments: dict[str, Any], error: type[CatalogExtError]
) -> None:
    refuse(catalog, error, location=root, **arguments)


HOSTILE = [
    "..", "../..", "a/../../b", "a'b", 'a"b', "a`b", "%2F", "a%2Fb", "a\nb", "a\x00b", "x" * 10_000,
    "'; DROP TABLE tables; --", "\ud800", "\u202eb", "a.b.c.d", "", " ", "s..t", "${jndi}", "*",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_tables_and_namespaces(catalog: Catalog, root: Path, name: str) -> None:
    began = time.monotonic()
    for table in (f"s.{name}", name, f"{name}.t", f"`{name}`.`t`", f"s.`{name}`"):
        before = state(catalog)
        with pytest.raises((InvalidIdentifierError, NamespaceNotFoundError)) as raised:
            register(catalog, root, table=table)
        assert len(raised.value.message) < 1000
        assert state(catalog) == before
    with pytest.raises(InvalidIdentifierError):
        catalog.create_namespace(name)
    for look in (catalog.load_table, catalog.unregister_table, catalog.repair_partitions, catalog.partitions):
        with pytest.raises((InvalidIdentifierError, CatalogExtError)):
            look(f"s.{name}")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["a/b", "a,b", "a:b", "a;b", "a\nb", "a\x00b", "x" * 10_000, ""])
def test_hostile_names_of_columns(catalog: Catalog, root: Path, name: str) -> None:
    refuse(catalog, InvalidIdentifierError, location=root, partition_columns={name: "STRING"})


def test_columns_of_odd_but_possible_names(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "a'b=1/c d=2/1.csv")
    register(catalog, tmp_path / "t", schema="`x' OR 1=1 --` INT")
    catalog.repair_partitions("s.t", where="`a'b` = '1'")
    assert catalog.partitions("s.t", {"a'b": "1", "c d": "2"}).num_rows == 1


@pytest.mark.parametrize(
    "location",
    [
        "..", "relative/path", "/a/../b", "/a\x00b", "", "http://x/y", "s3://", "s3a://key:secret@bucket/t",
        "file://host/x", "\ud800",
    ],
)  # fmt: skip
def test_hostile_locations(catalog: Catalog, location: str) -> None:
    refuse(catalog, InvalidInputError, location=location)


@pytest.mark.parametrize("name", ["a b", "a%20b", "a'b", "a\nb", "ü", "a=b", "a;b", "*", "{x}"])
def test_odd_locations_are_taken_as_they_are(catalog: Catalog, tmp_path: Path, name: str) -> None:
    write(tmp_path / name, "k=1/1.csv")
    # What would be a wildcard of the location stands for itself behind a backslash.
    register(catalog, escape(str(tmp_path / name)))
    catalog.repair_partitions("s.t")
    assert catalog.files("s.t").num_rows == 1
    assert catalog.load_table("s.t").definition.location == f"file://{tmp_path / name}"


@pytest.mark.parametrize("length", [300, 10_000])
def test_a_location_that_is_too_long(catalog: Catalog, length: int) -> None:
    before = state(catalog)
    with pytest.raises((LocationNotFoundError, StorageError)) as raised:
        register(catalog, f"/{'x' * length}")
    assert len(raised.value.message) < 1000
    assert state(catalog) == before


@pytest.mark.slow
@pytest.mark.parametrize("where", [*HOSTILE[:14], "ds = '", "ds = 1 OR", "(" * 5000, "ds IN (" + "'x'," * 5000])
def test_hostile_predicates(catalog: Catalog, root: Path, where: str) -> None:
    register(catalog, root)
    for ask in (catalog.partitions, catalog.files):
        with pytest.raises(InvalidInputError) as raised:
            ask("s.t", where)
        assert len(raised.value.message) < 1500
    with pytest.raises(InvalidInputError):
        catalog.repair_partitions("s.t", where=where)
    assert catalog.load_table("s.t").version == 0


# Overlap


def test_an_external_table_that_shares_its_files_warns(catalog: Catalog, root: Path) -> None:
    register(catalog, root)
    for number, place in enumerate([root, root / "ds=2025-01-01"]):
        with pytest.warns(TableOverlapWarning, match=r"s\.t") as caught:
            register(catalog, place, table=f"s.u{number}")
        assert Path(caught[0].filename).name == "test_registration.py", "the warning points at the caller"
    assert catalog.list_tables("s") == ["t", "u0", "u1"]


def test_a_neighbour_of_a_longer_name_does_not_overlap(catalog: Catalog, tmp_path: Path) -> None:
    for name in ("a", "ab", "a0"):
        write(tmp_path / name, "k=1/1.csv")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            register(catalog, tmp_path / name, table=f"s.{name}")


def test_a_warning_that_is_an_error_changes_nothing(catalog: Catalog, root: Path) -> None:
    register(catalog, root)
    before = state(catalog)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TableOverlapWarning):
            register(catalog, root, table="s.u")
    assert state(catalog) == before


def managed(name: str) -> TableDefinition:
    return TableDefinition(TableIdentifier.of("s", name), TableType.MANAGED, "csv", "", (Column("x", "int"),))


def test_a_managed_table_that_shares_its_files_is_refused(catalog: Catalog, root: Path) -> None:
    register(catalog, root)
    before = state(catalog)
    for place in (root, root / "inside", root.parent):
        with pytest.raises(InvalidInputError, match=r"s\.t"):
            catalog.create_table(managed("m"), str(place))
    assert not (root / "inside").exists()
    assert state(catalog) == before


def test_a_managed_table_needs_an_empty_place(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "full", "1.csv")
    with pytest.raises(InvalidInputError, match="not empty"):
        catalog.create_table(managed("m"), str(tmp_path / "full"))
    (tmp_path / "empty").mkdir()
    catalog.create_table(managed("m"), str(tmp_path / "empty"))
    catalog.drop_table("s.m")
    assert not (tmp_path / "empty").exists()
    assert (tmp_path / "full" / "1.csv").exists()


def test_registering_again_leaves_the_table_as_it_is(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    """In Python and by CALL, so that a cell or a task can run twice; the command line has a test of its own."""
    first = register(catalog, root, comment="ours")
    before = state(catalog)
    for place in (str(root), f"{root}/", f"file://{root}"):
        assert register(catalog, place, schema="y STRING", if_not_exists=True) == first
        arguments = {"table": "s.t", "location": place, "if_not_exists": True}
        (row,) = [
            row
            for batch in find_procedure("register_table").call(catalog, arguments).batches
            for row in batch.to_pylist()
        ]
        assert row["table"] == "s.t"
    assert (catalog.load_table("s.t"), state(catalog)) == (first, before)
    (tmp_path / "other").mkdir()
    with pytest.raises(TableAlreadyExistsError, match=f"at file://{root}"):
        register(catalog, tmp_path / "other", if_not_exists=True)
    with pytest.raises(TableAlreadyExistsError, match=f"at file://{root}"):
        find_procedure("register_table").call(catalog, {**arguments, "location": str(tmp_path / "other")})
    with pytest.raises(TableAlreadyExistsError):
        register(catalog, root)


@pytest.mark.parametrize(
    ("other", "warned"),
    [
        ("hdfs://nn1:8020/lake/t", True), ("hdfs://nn1:8020/lake", True), ("hdfs://nn1/lake/t/k=1", True),
        ("hdfs://ns/lake/t", False), ("hdfs://nn1:8020/lake/t2", False), ("s3a://nn1/lake/t", False),
        ("hdfs://nn1/lake/t*", False),
    ],
)  # fmt: skip
def test_path_of_another_table_by_another_name_node_is_warned_of(other: str, warned: bool) -> None:
    """Iceberg's remove_orphan_files deleted living files when the authority of an HDFS had changed."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_other_name_node("Table s.t", "hdfs://ns/lake/t", ["file:///lake/t", other])
    assert [warning.category for warning in caught] == [TableOverlapWarning] * warned
