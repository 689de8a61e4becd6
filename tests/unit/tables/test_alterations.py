"""Which alterations of columns there are, what they come to, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf.table_keys import ORC_BY_POSITION
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ColumnAlreadyExistsError,
    ColumnNotFoundError,
    InvalidAlterationError,
    PartitionColumnAlterationError,
    UnsupportedTypeChangeError,
)
from catalog_ext.metastore.model.alterations import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeNullability,
    ChangeType,
    ColumnChange,
    DropColumn,
    MoveColumn,
    Position,
    RenameColumn,
    altered,
)
from catalog_ext.metastore.model.conversions import widening_problem
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.tables.alter import check_places
from tests.kit.repair_cases import local_catalog, write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.fakes_metastore import FakeMetastore

NESTED = "struct<a:int,b:array<struct<x:int>>,c:map<string,float>>"


def table(file_format: str = "parquet", **columns: str) -> TableDefinition:
    return TableDefinition(
        TableIdentifier("s", "t"), TableType.MANAGED, file_format, "file:///t",
        tuple(Column(name, kind) for name, kind in (columns or {"id": "int", "v": "string", "n": NESTED}).items()),
        (Column("ds", "date"),),
    )  # fmt: skip


def after(*changes: ColumnChange, file_format: str = "parquet") -> dict[str, str]:
    return {c.name: c.type for c in altered(table(file_format), changes).columns}


class TestColumns:
    def test_come_at_the_end_first_or_behind_another(self) -> None:
        changed = after(
            AddColumn(("e",), "INT"), AddColumn(("f",), "int", position=Position()),
            AddColumn(("g",), "decimal(5)", position=Position("ID")),
        )  # fmt: skip
        assert list(changed) == ["f", "id", "g", "v", "n", "e"]
        assert (changed["e"], changed["g"]) == ("int", "decimal(5,0)")

    def test_keep_what_they_are_given(self) -> None:
        new = AddColumn(("e",), "int", nullable=False, comment="c", default="1 + 1", existing_default="2")
        assert altered(table(), [new]).columns[-1] == Column("e", "int", False, "c", "1 + 1", "2")
        changes = [ChangeDefault(("e",), None), ChangeComment(("E",), None), ChangeNullability(("e",), True)]
        assert altered(altered(table(), [new]), changes).columns[-1] == Column("e", "int", existing_default="2")

    def test_are_renamed_moved_dropped_and_widened(self) -> None:
        changed = after(
            RenameColumn(("ID",), "Key"), MoveColumn(("v",), Position()), DropColumn(("n",)),
            ChangeType(("key",), "bigint"), DropColumn(("gone",), if_exists=True), RenameColumn(("v",), "V"),
        )  # fmt: skip
        assert changed == {"V": "string", "Key": "bigint"}
        assert list(changed) == ["V", "Key"]

    def test_fields_inside_of_them_change_as_well(self) -> None:
        changed = after(
            AddColumn(("n", "d"), "date", position=Position("a")), RenameColumn(("n", "b", "element", "x"), "y"),
            ChangeType(("n", "c", "value"), "double"), AddColumn(("n", "b", "element", "z"), "int", comment="new"),
            ChangeComment(("n", "a"), "first"),
        )  # fmt: skip
        assert changed["n"] == (
            "struct<a:int comment 'first',d:date,b:array<struct<y:int,z:int comment 'new'>>,c:map<string,double>>"
        )
        assert after(DropColumn(("n", "a")))["n"] == "struct<b:array<struct<x:int>>,c:map<string,float>>"

    def test_the_comment_and_the_default_of_a_partition_column_are_free(self) -> None:
        changed = altered(table(), [ChangeComment(("DS",), "day"), ChangeDefault(("ds",), "current_date()")])
        assert changed.partition_columns == (Column("ds", "date", comment="day", default="current_date()"),)


REFUSED: list[tuple[ColumnChange, type[CatalogExtError], str]] = [
    (AddColumn(("V",), "int"), ColumnAlreadyExistsError, "has a column 'V' already"),
    (AddColumn(("n", "A"), "int"), ColumnAlreadyExistsError, "n.A"),
    (RenameColumn(("id",), "v"), ColumnAlreadyExistsError, "'v' already"),
    (AddColumn(("x",), "int", position=Position("y")), InvalidAlterationError, "no column 'y'"),
    (AddColumn(("x",), "int", nullable=False), InvalidAlterationError, "Give a DEFAULT"),
    (ChangeNullability(("id",), False), InvalidAlterationError, "may hold NULL"),
    (ChangeDefault(("n", "a"), "1"), InvalidAlterationError, "only a column of the table itself"),
    (DropColumn(("n", "b", "element", "x")), InvalidAlterationError, "no field left"),
    (DropColumn(("x",)), ColumnNotFoundError, "no column or field 'x'"),
    (RenameColumn(("x", "y"), "z"), ColumnNotFoundError, "'x'"),
    (ChangeType(("n", "b", "value"), "int"), ColumnNotFoundError, "'value'"),
    (ChangeType(("n", "b", "element", "q"), "int"), ColumnNotFoundError, "n.b.element.q"),
    (AddColumn(("Ds",), "int"), PartitionColumnAlterationError, "has a partition column 'Ds' already"),
    (RenameColumn(("id",), "ds"), PartitionColumnAlterationError, "cannot have its name"),
    (DropColumn(("ds",)), PartitionColumnAlterationError, "set_partition_columns"),
    (RenameColumn(("ds",), "day"), PartitionColumnAlterationError, "set_partition_columns"),
    (ChangeType(("ds",), "string"), PartitionColumnAlterationError, "set_partition_columns"),
    (MoveColumn(("ds",), Position()), PartitionColumnAlterationError, "set_partition_columns"),
    (ChangeType(("id",), "smallint"), UnsupportedTypeChangeError, "from INT to SMALLINT: only wider types"),
    (ChangeType(("id",), "string"), UnsupportedTypeChangeError, "in a form that is no text"),
    (ChangeType(("n",), "string"), UnsupportedTypeChangeError, "only wider"),
]


@pytest.mark.parametrize(("change", "error", "message"), REFUSED)
def test_what_is_refused_says_why(change: ColumnChange, error: type[CatalogExtError], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        altered(table(), [change])
    assert "s.t" in str(caught.value)


def test_no_table_loses_its_last_column() -> None:
    with pytest.raises(InvalidAlterationError, match="no column left"):
        altered(table(id="int"), [DropColumn(("id",))])
    swapped = altered(table(id="int"), [DropColumn(("id",)), AddColumn(("new",), "int")])
    assert [c.name for c in swapped.columns] == ["new"]


def test_replaced_columns_must_still_be_readable() -> None:
    replaced = altered(table(), [DropColumn(("id",)), DropColumn(("n",)), AddColumn(("ID",), "bigint")])
    assert [(c.name, c.type) for c in replaced.columns] == [("v", "string"), ("ID", "bigint")]
    with pytest.raises(UnsupportedTypeChangeError, match="cannot change from INT to DATE"):
        altered(table(), [DropColumn(("id",)), AddColumn(("ID",), "date")])


def test_files_without_names_take_columns_at_the_end_only() -> None:
    assert list(after(AddColumn(("e",), "int"), RenameColumn(("id",), "key"), file_format="csv"))[-1] == "e"
    assert "e" in after(AddColumn(("e",), "int", position=Position("N")), file_format="csv")
    for change in (
        AddColumn(("e",), "int", position=Position()), DropColumn(("n",)), MoveColumn(("id",), Position("v")),
    ):  # fmt: skip
        with pytest.raises(InvalidAlterationError, match="read by the positions"):
            after(change, file_format="csv")
    with pytest.raises(InvalidAlterationError, match="has one column"):
        after(AddColumn(("e",), "int"), file_format="text")


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("tinyint", "smallint", "all"), ("smallint", "int", "all"), ("int", "bigint", "all"), ("bigint", "int", ""),
        ("float", "double", "all"), ("double", "float", ""), ("decimal(5,2)", "decimal(9,2)", "all"),
        ("decimal(5,2)", "decimal(9,3)", ""), ("decimal(5,2)", "decimal(4,2)", ""), ("char(3)", "varchar(3)", "all"),
        ("varchar(9)", "varchar(8)", ""), ("char(3)", "string", "all"), ("string", "varchar(9)", ""),
        ("int", "string", "csv json"), ("date", "string", "csv json"), ("date", "timestamp", ""), ("int", "int", "all"),
        ("array<int>", "string", ""),
    ],
)  # fmt: skip
def test_types_widen_where_the_readers_follow(old: str, new: str, fits: str) -> None:
    for file_format in ("parquet", "orc", "csv", "json"):
        problem = widening_problem(file_format, parse_type(old), parse_type(new))
        assert (problem is None) == (fits == "all" or file_format in fits.split())


class TestOrc:
    """Hive reads its files by position from release 3.1 on."""

    @pytest.mark.parametrize(
        "changes",
        [
            [RenameColumn(("v",), "w")], [DropColumn(("v",))], [DropColumn(("n",))],
            [AddColumn(("e",), "int", position=Position("id"))], [MoveColumn(("n",), Position())],
            [DropColumn(("n",)), AddColumn(("e",), "int")],
        ],
    )  # fmt: skip
    def test_columns_keep_names_and_places(self, changes: list[ColumnChange]) -> None:
        before = table("orc")
        after = altered(before, changes)
        with pytest.raises(InvalidAlterationError, match="added to at the end only"):
            check_places(before, after)
        check_places(before, replace(after, properties={ORC_BY_POSITION.key: "FALSE"}))
        check_places(table(), altered(table(), changes))

    def test_what_stays_in_place_is_free(self) -> None:
        before = table("orc")
        for changes in (
            [AddColumn(("e",), "int")], [ChangeType(("id",), "bigint")], [RenameColumn(("n", "a"), "z")],
            [DropColumn(("n", "a"))], [RenameColumn(("v",), "V")],
            # REPLACE COLUMNS with the same ones
            [*(DropColumn((c.name,)) for c in before.columns), *(AddColumn((c.name,), c.type) for c in before.columns)],
        ):  # fmt: skip
            check_places(before, altered(before, changes))


@pytest.mark.parametrize("uri", [None, "thrift://fake:9083"])
def test_without_a_metastore_no_hive_reads_it(tmp_path: Path, metastore: FakeMetastore, uri: str | None) -> None:
    assert metastore
    write(tmp_path / "t", "ds=1/a.orc")
    with local_catalog(tmp_path, metastore=uri) as catalog:
        catalog.register_table(
            "s.t", location=str(tmp_path / "t"), partition_columns={"ds": "STRING"}, schema="id INT, v STRING",
            format="orc",
        )  # fmt: skip
        renamed = [RenameColumn(("v",), "w")]
        if uri is not None:
            with pytest.raises(InvalidAlterationError, match=r"'v' has been.*'orc.force.positional.evolution' = 'fal"):
                catalog.alterations.alter("s.t", renamed)
            assert [c.name for c in catalog.load_table("s.t").definition.columns] == ["id", "v"]
            catalog.alterations.alter("s.t", set_={ORC_BY_POSITION.key: "false"})
        altered_table = catalog.alterations.alter("s.t", renamed)
        assert [c.name for c in altered_table.definition.columns] == ["id", "w"]


@pytest.mark.parametrize(
    ("options", "is_refused"),
    [
        ({"header": "true"}, True),
        ({"Header": "TRUE", "sep": ";"}, True),
        ({"header": "true", "enforceSchema": "true"}, False),
        ({"header": "true", "serde": "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"}, False),
        ({"header": "false"}, False),
    ],
)
def test_columns_of_csv_with_a_header_keep_their_names(options: dict[str, str], is_refused: bool) -> None:
    definition = replace(table("csv"), options=options)
    change = [RenameColumn(("id",), "key")]
    if is_refused:
        with pytest.raises(InvalidAlterationError, match="have headers, by whose names they are read"):
            altered(definition, change)
    else:
        assert altered(definition, change).columns[0].name == "key"
