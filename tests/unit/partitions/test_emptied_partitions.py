"""What commands leave of partitions without files: a repair finds nothing to do after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_commit import POLICY_KIND
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import StorageAccessDeniedError
from catalog_ext.metastore.storage.store import Storage
from tests.kit.repair_cases import write
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import consistent, equals, managed, names

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.storage.locations import Location


def added(catalog: Catalog) -> None:
    catalog.partition_commands.add("s.t", [({"k": "1"}, None)])


def truncated(catalog: Catalog) -> None:
    insert(catalog, "k=1")
    remove(catalog, truncate=True)


def remove(catalog: Catalog, *, truncate: bool = False) -> None:
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, equals("k", "1"), truncate=truncate)


def drop(catalog: Catalog) -> None:
    catalog.partition_commands.drop("s.t", [equals("k", "1")])


def replace(catalog: Catalog) -> None:
    insert(catalog, "k=0", kind=WriteKind.OVERWRITE, predicate=equals("k", "1", "<="))


def rename(catalog: Catalog) -> None:
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})


def exchange(catalog: Catalog) -> None:
    catalog.partition_commands.exchange("s.u", "s.t", [{"k": "1"}])


@pytest.mark.parametrize("command", [remove, drop, replace, rename, exchange])
@pytest.mark.parametrize("emptied", [added, truncated])
def test_a_partition_without_files_leaves_no_directory_and_takes_it_along(
    catalog: Catalog, emptied: Callable[[Catalog], None], command: Callable[[Catalog], None]
) -> None:
    root, _ = managed(catalog), managed(catalog, "u")
    emptied(catalog)
    assert names(catalog) == ["k=1"]
    command(catalog)
    assert not (root / "k=1").exists()
    consistent(catalog)
    consistent(catalog, "s.u")


def test_directory_of_a_write_in_flight_stays(catalog: Catalog) -> None:
    root = managed(catalog)
    added(catalog)
    with armed("clean.before", lambda _: write(root, "k=1/foreign.csv")):
        drop(catalog)
    assert (root / "k=1" / "foreign.csv").exists()


@pytest.mark.parametrize("command", [remove, drop])
def test_what_a_policy_has_written_goes_with_its_partition(
    catalog: Catalog, command: Callable[[Catalog], None]
) -> None:
    root = managed(catalog)
    catalog.alter_table_properties("s.t", {POLICY_KIND: "success-file"})
    insert(catalog, "k=1", "k=2")
    assert (root / "k=1" / "_SUCCESS").exists()
    command(catalog)
    assert [path.name for path in root.glob("k=*")] == ["k=2"]
    consistent(catalog)


def test_a_clean_up_that_comes_late_leaves_what_a_policy_has_written_since(catalog: Catalog) -> None:
    root = managed(catalog)
    catalog.alter_table_properties("s.t", {POLICY_KIND: "success-file"})
    insert(catalog, "k=1", "k=2")

    def made_again(_: str) -> None:
        disarm.clear()
        insert(catalog, "k=1")

    disarm = [made_again]
    with armed("clean.before", lambda point: disarm[0](point) if disarm else None):
        remove(catalog)
    assert sorted(path.name for path in root.glob("k=*/_SUCCESS")) == ["_SUCCESS", "_SUCCESS"]
    consistent(catalog)


def test_a_directory_that_may_not_be_removed_is_in_no_commands_way(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = managed(catalog)
    added(catalog)
    whole = Storage._remove_if_empty

    def denied(storage: Storage, directory: Location) -> bool:
        if directory.name == "k=1":
            raise StorageAccessDeniedError(f"Cannot remove {directory}: Permission denied.")
        return whole(storage, directory)

    monkeypatch.setattr(Storage, "_remove_if_empty", denied)
    remove(catalog)
    assert (names(catalog), (root / "k=1").is_dir()) == ([], True)
    assert catalog.recover(older_than=0).transactions == ()


@pytest.mark.parametrize("command", [rename, exchange])
def test_an_undone_move_leaves_no_directory_of_a_partition_without_files(
    catalog: Catalog, command: Callable[[Catalog], None]
) -> None:
    root, other = managed(catalog), managed(catalog, "u")
    added(catalog)

    def refuse(_: str) -> None:
        raise StorageAccessDeniedError("No.")

    with armed("promote.after", refuse), pytest.raises(StorageAccessDeniedError):
        command(catalog)
    assert [path.name for folder in (root, other) for path in folder.glob("*")] == ["k=1"]
    consistent(catalog)
