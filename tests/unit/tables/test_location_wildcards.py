"""Tables whose location has wildcards: their keys, their repair, and that nothing writes them."""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    InvalidAlterationError,
    InvalidConfigurationError,
    InvalidInputError,
    InvalidPatternError,
    MassDropError,
    OperationNotSupportedError,
    PathNotFoundError,
    RepairRefusedError,
    TableLayoutError,
)
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.writes.writes import Batch
from tests.kit.repair_cases import deny, indexed, local_catalog, skipped, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        yield catalog


def register(catalog: Catalog, root: Path, pattern: str, table: str = "s.t", **more: object) -> Table:
    given = {"schema": "x INT", "format": "csv", **more}
    return catalog.register_table(table, location=f"{root}/{pattern}", **given)  # type: ignore[arg-type]


def matched(catalog: Catalog, root: Path, pattern: str, **more: object) -> dict[str, list[str]]:
    """The partitions and files of a table that is registered there and repaired."""
    register(catalog, root, pattern, **more)
    catalog.repair_partitions("s.t", strict=True)
    return {name: sorted(files) for name, files in indexed(catalog).items()}


TREE = (
    "a/year=2023/month=01/1.csv",
    "a/year=2023/month=02/1.csv",
    "a/year=2024/month=01/1.csv",
    "b/year=2024/month=01/1.csv",
    "b/year=2024/month=01/1.txt",
)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (
            "*/year=*/**.csv",
            {"year=2023/month=01": [TREE[0]], "year=2023/month=02": [TREE[1]], "year=2024/month=01": [*TREE[2:4]]},
        ),
        ("{a,b}/year=2024/*/1.csv", {"year=2024/month=01": [TREE[2], TREE[3]]}),
        ("a/year=202{3..4}/month=01/*.csv", {
            "year=2023/month=01": ["year=2023/month=01/1.csv"], "year=2024/month=01": ["year=2024/month=01/1.csv"],
        }),
        ("a/year=2023/month=0?/*", {
            "year=2023/month=01": ["month=01/1.csv"], "year=2023/month=02": ["month=02/1.csv"],
        }),
        ("?/year=2024/**.txt", {"year=2024/month=01": ["b/year=2024/month=01/1.txt"]}),
    ],
)  # fmt: skip
def test_the_keys_and_files_are_those_of_the_matched_paths(
    catalog: Catalog, root: Path, pattern: str, found: dict[str, list[str]]
) -> None:
    write(root, *TREE, "a/_hidden/year=2023/month=01/2.csv")
    assert matched(catalog, root, pattern) == found
    table = catalog.load_table("s.t")
    assert table.definition.location == f"file://{root}/{pattern}"
    assert [(c.name, c.type) for c in table.definition.partition_columns] == [("year", "string"), ("month", "string")]
    assert table.definition.table_type is TableType.EXTERNAL


def test_every_file_s_place_is_the_one_it_has(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    matched(catalog, root, "*/year=*/**.csv")
    rows = [row for batch in catalog._context.index.files.plan(catalog.load_table("s.t"), None) for row in
            batch.to_pylist()]  # fmt: skip
    assert {f"{row['location']}/{row['path']}" for row in rows} == {f"file://{root}/{path}" for path in TREE[:4]}


def test_the_location_of_a_partition_is_a_directory(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    matched(catalog, root, "{a,*}/year=*/**.csv")
    for found in (catalog.partitions("s.t"), catalog.files("s.t")):
        assert {str(place) for place in found.column("location").to_pylist()} == {f"file://{root}"}


def test_keys_get_types_and_filter_a_repair(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    columns = {"month": "INT", "year": "INT"}
    register(catalog, root, "*/year=*/**.csv", partition_columns=columns)
    report = catalog.repair_partitions("s.t", where="year = 2024")
    assert [e.partition for e in report.added] == ["month=01/year=2024"]
    catalog.repair_partitions("s.t")
    assert list(indexed(catalog)) == ["month=01/year=2023", "month=01/year=2024", "month=02/year=2023"]
    shutil.rmtree(root / "a/year=2023/month=02")
    assert not catalog.repair_partitions("s.t", where="year = 2024")
    dropped = catalog.repair_partitions("s.t", where="month >= 2").dropped
    assert [(e.partition, e.path) for e in dropped] == [("month=02/year=2023", "month=02/year=2023")]


def test_keys_before_the_first_wildcard_need_not_be_columns(catalog: Catalog, root: Path) -> None:
    write(root, "env=prod/year=2023/1.csv")
    register(catalog, root, "env=prod/year=*/*.csv", partition_columns={"year": "INT"})
    assert [e.partition for e in catalog.repair_partitions("s.t").added] == ["year=2023"]
    catalog.unregister_table("s.t")
    register(catalog, root, "env=prod/year=*/*.csv")
    assert [c.name for c in catalog.load_table("s.t").definition.partition_columns] == ["env", "year"]


def test_a_repair_follows_files_that_come_change_and_go(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    matched(catalog, root, "*/year=*/**.csv")
    write(root, "b/year=2024/month=01/2.csv", "c/year=2025/month=01/1.csv")
    write(root, TREE[0], content=b"1234")
    os.unlink(root / TREE[2])
    report = catalog.repair_partitions("s.t")
    assert [e.partition for e in report.added] == ["year=2025/month=01"]
    assert {e.path: e.reason for e in report.changed} == {
        TREE[0]: "file changed: 1 bytes before, 4 now",
        TREE[2]: "file gone",
        "b/year=2024/month=01/2.csv": "file added",
    }
    assert sorted(indexed(catalog)["year=2024/month=01"]) == [TREE[3], "b/year=2024/month=01/2.csv"]
    assert not len(catalog.repair_partitions("s.t", strict=True))


def test_what_does_not_have_the_keys_is_skipped_with_the_reason(catalog: Catalog, root: Path) -> None:
    write(root, "a/year=2023/1.csv")
    register(catalog, root, "**.csv", partition_columns={"year": "INT"})
    bad = ("loose.csv", "a/1.csv", "a/year=x/1.csv", "a/year=1/year=2/1.csv", "a/year=2023/day=1/1.csv")
    write(root, *bad)
    report = catalog.repair_partitions("s.t")
    assert [e.partition for e in report.added] == ["year=2023"]
    reasons = skipped(report)
    assert sorted(reasons) == sorted(bad)
    assert reasons["loose.csv"] == reasons["a/1.csv"] == "its path has no key 'year'"
    assert "partition column year" in reasons["a/year=x/1.csv"]
    assert reasons["a/year=1/year=2/1.csv"] == "the key 'year' comes twice in its path"
    assert reasons["a/year=2023/day=1/1.csv"] == "the key 'day' in its path is not a partition column"
    with pytest.raises(RepairRefusedError):
        catalog.repair_partitions("s.t", strict=True)


@pytest.mark.parametrize(
    ("pattern", "error", "said"),
    [
        ("{a,missing,gone}/year=*/**.csv", PathNotFoundError, r"2 of the 3 paths.*missing/year.*gone/year"),
        ("a/{2..1}/*", InvalidPatternError, "reversed"),
        ("a/{b", InvalidPatternError, "without its }"),
        ("a/year=1999*/*.csv", PathNotFoundError, "nothing lies at"),
        ("a/**.orc", PathNotFoundError, "nothing lies at"),
    ],
)
def test_what_cannot_be_registered(
    catalog: Catalog, root: Path, pattern: str, error: type[Exception], said: str
) -> None:
    write(root, *TREE)
    with pytest.raises(error, match=said):
        register(catalog, root, pattern)


def test_paths_that_disagree_on_the_keys_are_listed(catalog: Catalog, root: Path) -> None:
    write(root, *TREE, "a/day=1/1.csv")
    with pytest.raises(TableLayoutError, match=r"disagree on the partition columns: day in .*day=1.*; year, month in "):
        register(catalog, root, "*/**.csv")
    with pytest.raises(TableLayoutError, match=r"no file that .* has the partition columns in its path"):
        register(catalog, root, "*/**.csv", partition_columns={"week": "INT"})


def test_a_member_that_goes_missing_is_named_and_what_is_below_it_stays(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    matched(catalog, root, "{a,b}/year=*/**.csv")
    shutil.rmtree(root / "a")
    os.unlink(root / TREE[3])
    write(root, "b/year=2026/month=01/1.csv")
    report = catalog.repair_partitions("s.t")
    assert skipped(report) == {f"file://{root}/a/year=*/**.csv": "the location names it, and nothing lies there"}
    assert [e.partition for e in report.added] == ["year=2026/month=01"]
    assert [(e.path, e.reason) for e in report.changed] == [(TREE[3], "file gone")]
    assert not report.dropped
    assert sorted(indexed(catalog)["year=2024/month=01"]) == [TREE[2]]
    dropping = catalog.repair_partitions("s.t", mode="drop")
    assert not dropping.dropped
    allowed = catalog.repair_partitions("s.t", allow_mass_drop=True)
    assert [e.partition for e in allowed.dropped] == [
        "year=2023/month=01", "year=2023/month=02", "year=2024/month=01",
    ]  # fmt: skip


def test_an_empty_mount_drops_nothing(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    before = matched(catalog, root, "*/year=*/**.csv")
    shutil.rmtree(root)
    report = catalog.repair_partitions("s.t")
    assert list(skipped(report)) == [f"file://{root}/*/year=*/**.csv"]
    assert not report.dropped
    assert indexed(catalog).keys() == before.keys()
    assert len(catalog.repair_partitions("s.t", allow_mass_drop=True).dropped) == 3


def test_more_than_half_of_many_partitions_is_a_mass_drop(catalog: Catalog, root: Path) -> None:
    write(root, *(f"a/k={number}/1.csv" for number in range(20)))
    matched(catalog, root, "*/k=*/*.csv")
    for number in range(11):
        shutil.rmtree(root / f"a/k={number}")
    with pytest.raises(MassDropError, match="11 of 20"):
        catalog.repair_partitions("s.t")
    assert len(indexed(catalog)) == 20


@pytest.mark.parametrize("part", ["a", "a/year=2023"])
@pytest.mark.parametrize("pattern", ["*/year=*/**.csv", "*/year=*/month=*/*.csv"])
def test_a_directory_that_cannot_be_listed_drops_nothing_below_it(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, part: str, pattern: str
) -> None:
    write(root, *TREE)
    matched(catalog, root, pattern)
    os.unlink(root / TREE[0])
    os.unlink(root / TREE[3])
    deny(monkeypatch, root / part)
    report = catalog.repair_partitions("s.t")
    assert list(skipped(report)) == [part]
    assert not report.dropped
    assert [e.path for e in report.changed] == [TREE[3]]
    monkeypatch.undo()
    assert [e.partition for e in catalog.repair_partitions("s.t").dropped] == ["year=2023/month=01"]


def writes(catalog: Catalog) -> dict[str, Callable[[Table], object]]:
    """Everything that would write the table or say which files are whose."""
    commands, batch = catalog.partition_commands, Batch("INSERT", "test")
    spec = {"year": "2023", "month": "01"}
    return {
        "append": lambda t: catalog.writes.begin(WriteKind.APPEND, t.table_id, t.version, batch),
        "overwrite": lambda t: catalog.writes.begin(WriteKind.OVERWRITE_PARTITIONS, t.table_id, t.version, batch),
        "delete": lambda t: catalog.writes.delete(t.table_id, t.version, None, truncate=False),
        "truncate": lambda t: catalog.writes.delete(t.table_id, t.version, None, truncate=True),
        "add": lambda _: commands.add("s.t", [({"year": "1", "month": "1"}, None)]),
        "drop": lambda _: catalog.partition_maintenance.drop("s.t", "year = '2023'"),
        "rename": lambda _: commands.rename("s.t", spec, {"year": "9", "month": "9"}),
        "relocate": lambda _: commands.relocate("s.t", spec, "elsewhere"),
        "exchange in": lambda _: commands.exchange("s.t", "s.other", [spec]),
        "exchange out": lambda _: commands.exchange("s.other", "s.t", [spec]),
        "move": lambda t: catalog.alterations.alter("s.t", location=t.definition.location.partition("*")[0]),
        "release": lambda _: catalog.release_waiting("s.t", dry_run=True),
        "discard": lambda _: catalog.discard_waiting("s.t", dry_run=True),
    }


@pytest.mark.parametrize("what", [
    "append", "overwrite", "delete", "truncate", "add", "drop", "rename", "relocate", "exchange in", "exchange out",
    "move", "release", "discard",
])  # fmt: skip
def test_nothing_writes_it(catalog: Catalog, root: Path, tmp_path: Path, what: str) -> None:
    write(root, *TREE)
    before = matched(catalog, root, "*/year=*/**.csv", properties={"external.table.purge": "true"})
    (tmp_path / "other").mkdir()
    catalog.register_table(
        "s.other", location=str(tmp_path / "other"), format="csv", schema="x INT",
        partition_columns={"year": "STRING", "month": "STRING"},
    )  # fmt: skip
    table = catalog.load_table("s.t")
    with pytest.raises(OperationNotSupportedError, match=re.escape("has wildcards, so that it is what they match")):
        writes(catalog)[what](table)
    assert catalog.load_table("s.t").version == table.version
    assert {name: sorted(files) for name, files in indexed(catalog).items()} == before
    assert all((root / path).exists() for path in TREE)


def test_it_can_be_altered_renamed_and_dropped(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    matched(catalog, root, "*/year=*/**.csv")
    catalog.alter_table_properties("s.t", {"missing-files": "skip"})
    catalog.partition_maintenance.set_partition_columns("s.t", types={"year": "INT"})
    catalog.alterations.rename("s.t", "s.u")
    assert not len(catalog.repair_partitions("s.u"))
    for change in ({"location-wildcards": "false"}, {}):
        with pytest.raises(InvalidConfigurationError, match="cannot be altered"):
            catalog.alter_table_properties("s.u", change, [] if change else ["Location-Wildcards"])
    catalog.drop_table("s.u", purge=True)
    assert all((root / path).exists() for path in TREE)


def test_metastore_gets_no_message_and_state_says_why(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    table = register(catalog, root, "*/year=*/**.csv")
    reason = unrepresentable_reason(table.definition)
    assert reason is not None
    assert "wildcards" in reason


def test_a_character_that_stands_for_itself_is_escaped(catalog: Catalog, root: Path) -> None:
    write(root, "{a}*/k=1/1.csv", "x/k=1/1.csv")
    table = register(catalog, root, r"\{a}\*", partition_columns={"k": "INT"})
    assert table.definition.location == f"file://{root}/{{a}}*"
    assert not table.definition.has_wildcards
    assert register(catalog, root, r"\{a}\*", if_not_exists=True) == table
    assert [e.partition for e in catalog.repair_partitions("s.t").added] == ["k=1"]
    with pytest.raises(InvalidAlterationError, match="has wildcards"):
        catalog.alterations.alter("s.t", location=f"{root}/*")
    with pytest.raises(InvalidConfigurationError, match="has no wildcards"):
        register(catalog, root, "x", table="s.u", properties={"location-wildcards": "true"})


def test_create_table_takes_one_where_it_is_external(catalog: Catalog, root: Path) -> None:
    write(root, *TREE)
    keys = (Column("year", "string"), Column("month", "string"))

    def definition(kind: TableType) -> TableDefinition:
        return TableDefinition(TableIdentifier("s", "t"), kind, "csv", "", (Column("x", "int"),), keys)

    pattern = f"{root}/*/year=*/**.csv"
    with pytest.raises(InvalidInputError, match=r"managed table s\.t cannot lie at"):
        catalog.create_table(definition(TableType.MANAGED), pattern)
    batch = Batch("CTAS", "test")
    with pytest.raises(OperationNotSupportedError, match="AS SELECT is not for"):
        catalog.writes.begin_creation(WriteKind.CREATE, definition(TableType.EXTERNAL), pattern, batch)
    created = catalog.create_table(definition(TableType.EXTERNAL), pattern)
    assert created.definition.has_wildcards
    catalog.repair_partitions("s.t")
    assert list(indexed(catalog)) == ["year=2023/month=01", "year=2023/month=02", "year=2024/month=01"]


def test_a_managed_table_may_lie_where_a_pattern_could_match(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    write(root, *TREE)
    register(catalog, tmp_path, "t/*/year=*/**.csv")
    register(catalog, tmp_path, "*/*/year=2023/**.csv", table="s.wide")
    managed = TableDefinition(TableIdentifier("s", "m"), TableType.MANAGED, "csv", "", (Column("x", "int"),))
    assert catalog.create_table(managed).definition.table_type is TableType.MANAGED


def test_what_is_missing_or_cannot_be_listed_is_not_in_sync(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, *TREE)
    matched(catalog, root, "{a,b}/year=*/**.csv")
    write(root, "b/strange/1.csv")
    assert catalog.repair_partitions("s.t", dry_run=True).in_sync
    (root / "a").rename(root / "away")
    assert not catalog.repair_partitions("s.t", dry_run=True).in_sync
    (root / "away").rename(root / "a")
    assert catalog.repair_partitions("s.t", dry_run=True).in_sync
    deny(monkeypatch, root / "a" / "year=2023")
    assert not catalog.repair_partitions("s.t", dry_run=True).in_sync
