"""Partition commands on an index on SQLite and a local store: what each does to index, files and directories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore import errors
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.predicates.tree import TRUE, Comparison, Operator
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.repair_cases import indexed, register, write
from tests.kit.writes import begin, insert, stage

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog

EXISTS = "exists already"


def managed(catalog: Catalog, name: str = "t", *, keys: dict[str, str] | None = None, kind: str = "csv") -> Path:
    """A managed table with a key k; its directory."""
    columns = tuple(Column(key, type_) for key, type_ in (keys or {"k": "int"}).items())
    definition = TableDefinition(
        TableIdentifier("s", name), TableType.MANAGED, kind, "", (Column("x", "int"),), columns
    )
    return Path(catalog.create_table(definition).definition.location.removeprefix("file://"))


def external(catalog: Catalog, tmp_path: Path, name: str = "t", keys: dict[str, str] | None = None) -> Path:
    root = tmp_path / name
    register(catalog, root, {"k": "INT"} if keys is None else keys, table=f"s.{name}")
    return root


def equals(column: str, value: str | None, op: str = "=") -> Comparison:
    return Comparison(Operator(op), column, value)


def names(catalog: Catalog, table: str = "s.t") -> list[str]:
    return catalog.partitions(table).column("partition").to_pylist()  # type: ignore[no-any-return]


def state(catalog: Catalog, table: str = "s.t") -> tuple[int, dict[str, dict[str, int]]]:
    return catalog.load_table(table).version, indexed(catalog, table)


def consistent(catalog: Catalog, table: str = "s.t") -> None:
    """Totals are the sums, and a preview of a repair finds nothing to do."""
    loaded = catalog.load_table(table)
    held = indexed(catalog, table)
    assert (loaded.totals.partitions, loaded.totals.files) == (len(held), sum(len(f) for f in held.values()))
    report = catalog.repair_partitions(table, mode="sync", dry_run=True)
    assert [(e.action, e.path) for e in (*report.added, *report.dropped, *report.changed)] == []


def test_add_registers_what_lies_there_and_makes_what_does_not(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    write(root, "k=1/a.csv", "k=1/_hidden", "elsewhere/b.csv")
    outside = tmp_path / "outside"
    write(outside, "c.csv", "d.csv")
    outcome = catalog.partition_commands.add(
        "s.t", [({"K": "1"}, None), ({"k": "2"}, "elsewhere"), ({"k": "3"}, f"file://{outside}"), ({"k": "4"}, None)]
    )
    assert (outcome.operation, outcome.version, outcome.partitions_added, outcome.files_added) == (
        "ADD PARTITION", 1, 4, 4,
    )  # fmt: skip
    assert indexed(catalog) == {"k=1": {"a.csv": 1}, "k=2": {"b.csv": 1}, "k=3": {"c.csv": 1, "d.csv": 1}, "k=4": {}}
    assert catalog.index.partitions.located(catalog.load_table("s.t")) == {
        "k=2": f"file://{root}/elsewhere", "k=3": f"file://{outside}",
    }  # fmt: skip
    assert (root / "k=4").is_dir()
    consistent(catalog)
    entry = catalog.history("s.t")[0]
    assert (entry.operation, entry.summary["partitions_added"]) == ("ADD PARTITION", 4)


def test_add_of_several_is_all_or_nothing(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    write(root, "k=01/a.csv", "k=2/b.csv")
    catalog.partition_commands.add("s.t", [({"k": "2"}, None)])
    catalog.repair_partitions("s.t")
    before = state(catalog)
    both = [({"k": "1"}, None), ({"k": "5"}, None)]
    with pytest.raises(errors.PartitionAlreadyExistsError, match=r"'k=1' of table s\.t exists already, as 'k=01'"):
        catalog.partition_commands.add("s.t", both)
    assert state(catalog) == before
    assert not (root / "k=5").exists(), "nothing is left of what was not added"
    outcome = catalog.partition_commands.add("s.t", both, if_not_exists=True)
    assert outcome.partitions_added == 1
    assert names(catalog) == ["k=01", "k=2", "k=5"]
    again = catalog.partition_commands.add("s.t", both, if_not_exists=True)
    assert (again.partitions_added, again.version) == (0, outcome.version)


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ({}, errors.InvalidPartitionSpecError, "gives no value for k, r; this statement needs one"),
        ({"k": "1"}, errors.InvalidPartitionSpecError, "gives no value for r; this statement needs one"),
        (
            {"k": "1", "r": "a", "q": "1"},
            errors.InvalidPartitionSpecError,
            "'q', which is no partition column",
        ),
        (
            {"k": "1", "K": "1", "r": "a"},
            errors.InvalidPartitionSpecError,
            "'k' of table .* two values",
        ),
        ({"k": "x", "r": "a"}, errors.InvalidValueError, "Partition column k of table s"),
        ({"k": "1", "r": ""}, errors.InvalidPartitionSpecError, "an empty value"),
        ({"k": "1", "r": "y" * 1024}, errors.InvalidPartitionNameError, "1024 characters"),
        ({"k": "1", "r": "/" * 90}, errors.InvalidPartitionSpecError, "longer than the 255 bytes"),
    ],
)
def test_a_spec_that_does_not_fit_is_refused(
    catalog: Catalog, tmp_path: Path, spec: dict[str, str], error: type[errors.CatalogExtError], words: str
) -> None:
    external(catalog, tmp_path, keys={"k": "INT", "r": "STRING"})
    with pytest.raises(error, match=words):
        catalog.partition_commands.add("s.t", [(spec, None)])
    assert state(catalog) == (0, {})


def test_values_are_written_as_a_write_would(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path, keys={"k": "INT", "r": "STRING"})
    specs = [{"k": "007", "r": "a b/c"}, {"k": None, "r": "__HIVE_DEFAULT_PARTITION__"}]
    catalog.partition_commands.add("s.t", [(spec, None) for spec in specs])
    default = "__HIVE_DEFAULT_PARTITION__"
    assert names(catalog) == [f"k={default}/r={default}", "k=7/r=a b%2Fc"]
    assert (root / "k=7" / "r=a b%2Fc").is_dir()


@pytest.mark.parametrize(
    ("location", "error", "words"),
    [
        ("", errors.InvalidInputError, "the location is empty|own directory"),
        (".", errors.InvalidInputError, "own directory"),
        ("_catalog_ext_staging/x", errors.InvalidInputError, "is hidden.*'_catalog_ext_staging'"),
        ("../t2", errors.InvalidInputError, r"'\.\.'"),
        ("file", errors.InvalidInputError, "is a file"),
        ("file:///nowhere/at/all", errors.LocationNotFoundError, "does not exist"),
        ("ftp://x/y", errors.InvalidInputError, "not supported"),
    ],
)
def test_a_location_that_cannot_be_a_partitions_is_refused(
    catalog: Catalog, tmp_path: Path, location: str, error: type[errors.CatalogExtError], words: str
) -> None:
    root = external(catalog, tmp_path)
    write(root, "file", "k=1/a.csv")
    catalog.repair_partitions("s.t")
    with pytest.raises(error, match=f"(?i){words}"):
        catalog.partition_commands.add("s.t", [({"k": "2"}, location)])
    with pytest.raises(error, match=f"(?i){words}"):
        catalog.partition_commands.relocate("s.t", {"k": "1"}, location)
    assert state(catalog) == (1, {"k=1": {"a.csv": 1}})


def test_a_location_of_others_is_a_warning_or_an_error(catalog: Catalog, tmp_path: Path) -> None:
    root, other = external(catalog, tmp_path), managed(catalog, "other")
    write(root, "k=1/a.csv")
    catalog.repair_partitions("s.t")
    with pytest.warns(TableOverlapWarning, match="partition k=1"):
        catalog.partition_commands.add("s.t", [({"k": "2"}, "k=1")])
    write(other, "k=1/x/a.csv")
    with pytest.warns(TableOverlapWarning, match=r"s\.other"):
        catalog.partition_commands.add("s.t", [({"k": "3"}, f"file://{other}/k=1/x")])
    with pytest.raises(errors.InvalidInputError, match=r"s\.t"):
        catalog.partition_commands.add("s.other", [({"k": "2"}, f"file://{root}/k=1")])


def test_drop_deletes_the_data_of_managed_tables_only(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2", "k=3")
    write(root, "k=1/unknown.csv", "k=1/_SUCCESS")
    outside = tmp_path / "outside"
    write(outside, "4/a.csv", "5/a.csv")
    catalog.partition_commands.add(
        "s.t", [({"k": str(n)}, f"file://{outside}/{n}") for n in (4, 5)] + [({"k": "6"}, None)]
    )
    outcome = catalog.partition_commands.drop("s.t", [equals("k", "1"), equals("k", "5", ">=")])
    assert (outcome.operation, outcome.partitions_removed, outcome.files_removed) == ("DROP PARTITION", 3, 2)
    assert names(catalog) == ["k=2", "k=3", "k=4"]
    assert sorted(p.name for p in root.glob("k=*")) == ["k=2", "k=3"], "directories go with the data, empty ones too"
    assert (outside / "5" / "a.csv").exists(), "a location outside the table's root is not deleted"
    consistent(catalog)
    catalog.partition_commands.drop("s.t", [equals("k", "4")], purge=True)
    assert not (outside / "4" / "a.csv").exists()
    assert catalog.vacuum("s.t", retention=0, allow_short_retention=True).failed == ()
    assert (outside / "5" / "a.csv").exists(), "nor by vacuum"


def test_drop_on_an_external_table_leaves_the_files(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    write(root, "k=1/a.csv", "k=01/b.csv", "k=2/c.csv")
    catalog.repair_partitions("s.t")
    outcome = catalog.partition_commands.drop("s.t", [equals("k", "1")], purge=True)
    assert (outcome.partitions_removed, names(catalog)) == (2, ["k=2"])
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert (root / "k=1" / "a.csv").exists()
    assert (root / "k=01" / "b.csv").exists()


def test_drop_of_what_is_not_there(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    write(root, "k=1/a.csv")
    catalog.repair_partitions("s.t")
    before = state(catalog)
    with pytest.raises(errors.PartitionNotFoundError, match=r"no partition 'k=7'.* DROP IF EXISTS PARTITION"):
        catalog.partition_commands.drop("s.t", [equals("k", "1"), equals("k", "7")])
    with pytest.raises(errors.InvalidPredicateError, match="x"):
        catalog.partition_commands.drop("s.t", [equals("x", "1")])
    with pytest.raises(errors.InvalidPartitionSpecError, match="No partition"):
        catalog.partition_commands.drop("s.t", [])
    assert state(catalog) == before
    assert catalog.partition_commands.drop("s.t", [equals("k", "7")], if_exists=True).version == before[0]
    catalog.partition_commands.drop("s.t", [equals("k", "1"), equals("k", "7")], if_exists=True)
    assert names(catalog) == []
    external(catalog, tmp_path, "flat", {})
    with pytest.raises(errors.InvalidPartitionSpecError, match="no partition columns"):
        catalog.partition_commands.drop("s.flat", [TRUE])


def test_a_stale_read_is_a_conflict(catalog: Catalog, tmp_path: Path) -> None:
    managed(catalog)
    insert(catalog, "k=1", "k=2")
    read = catalog.load_table("s.t")
    insert(catalog, "k=1")
    with pytest.raises(errors.ConflictError):
        catalog.partition_commands.drop(read, [equals("k", "1")])
    catalog.partition_commands.drop(read, [equals("k", "2")])
    assert names(catalog) == ["k=1"]


@pytest.mark.parametrize("command", ["drop", "rename", "relocate"])
def test_an_append_that_a_command_overtakes_is_a_conflict(catalog: Catalog, command: str) -> None:
    managed(catalog)
    insert(catalog, "k=1", "k=2")
    commands = catalog.partition_commands
    first, second = begin(catalog), begin(catalog)
    if command == "drop":
        commands.drop("s.t", [equals("k", "1")])
    elif command == "rename":
        commands.rename("s.t", {"k": "1"}, {"k": "3"})
    else:
        commands.relocate("s.t", {"k": "1"}, "other")
    with pytest.raises(errors.ConflictError):
        catalog.writes.transactions.commit(first.transaction_id, [stage(first, "k=1")])
    catalog.writes.transactions.commit(second.transaction_id, [stage(second, "k=2")])
    consistent(catalog)


def test_an_append_and_an_add_of_one_partition_both_commit(catalog: Catalog) -> None:
    managed(catalog)
    begun = begin(catalog)
    catalog.partition_commands.add("s.t", [({"k": "1"}, None)])
    catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "k=1")])
    assert len(indexed(catalog)["k=1"]) == 1
    begun = begin(catalog)
    catalog.partition_commands.add("s.t", [({"k": "2"}, "elsewhere")])
    with pytest.raises(errors.ConflictError, match="another location"):
        catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "k=2")])
    consistent(catalog)


def test_partitions_of_a_managed_table_share_no_directory(catalog: Catalog) -> None:
    root = managed(catalog)
    commands = catalog.partition_commands
    commands.add("s.t", [({"k": "5"}, "k=1")])
    for partitions in (
        [({"k": "1"}, None)],
        [({"k": "2"}, "k=1")],
        [({"k": "3"}, "x"), ({"k": "4"}, "x")],
        [({"k": "3"}, None), ({"k": "4"}, "k=3")],
        [({"k": "4"}, "k=3"), ({"k": "3"}, None)],
    ):
        with pytest.raises(errors.InvalidInputError, match="is that of, in or around partition k="):
            commands.add("s.t", partitions)
    assert names(catalog) == ["k=5"]
    assert sorted(p.name for p in root.iterdir() if "=" in p.name) == ["k=1"]


def test_a_location_is_judged_by_where_its_symbolic_links_lead(catalog: Catalog, tmp_path: Path) -> None:
    root, other = managed(catalog), managed(catalog, "u")
    insert(catalog, "k=1")
    insert(catalog, "k=1", table="s.u")
    write(other, "inside/a.csv")
    write(tmp_path, "own/a.csv")
    for name, target in {"u": other, "t": root, "above": root.parent, "own2": tmp_path / "own"}.items():
        (tmp_path / f"to_{name}").symlink_to(target)
    at = f"file://{tmp_path}"
    catalog.partition_commands.add("s.t", [({"k": "2"}, f"{at}/own")])
    before = state(catalog)
    for place, words in (
        ("to_u/inside", r"that of, in or around s\.u"), ("to_t", "the table's own directory"),
        ("to_above", "the table's own directory"), ("to_t/k=1", "that of, in or around partition k=1"),
        ("to_own2", "that of, in or around partition k=2"),
    ):  # fmt: skip
        with pytest.raises(errors.InvalidInputError, match=words):
            catalog.partition_commands.add("s.t", [({"k": "3"}, f"{at}/{place}")])
        if place != "to_t/k=1":
            with pytest.raises(errors.InvalidInputError, match=words):
                catalog.partition_commands.relocate("s.t", {"k": "1"}, f"{at}/{place}")
    assert state(catalog) == before
