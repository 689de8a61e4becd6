"""Clean-ups that come late: another engine has written a name again since the commit that replaced its file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from tests.kit.repair_cases import indexed, walked, write
from tests.kit.writes import crash_at, insert
from tests.unit.partitions.test_partition_commands import equals, managed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog

HIVES = "000000_0"
"""Hive gives its files the same names in every partition, at every INSERT OVERWRITE."""


@pytest.fixture
def root(catalog: Catalog) -> Path:
    """A table's directory: Hive's file in two partitions, registered in one."""
    root = managed(catalog)
    write(root, f"k=1/{HIVES}", content=b"1\n")
    catalog.repair_partitions("s.t")
    write(root, f"k=2/{HIVES}", content=b"2\n")
    for name in ("k=1", "k=2"):
        age(root / name / HIVES)
    catalog.repair_partitions("s.t", mode="sync", where="k = 1")
    return root


def age(file: Path, seconds: int = 60) -> None:
    then = file.stat().st_mtime - seconds
    os.utime(file, (then, then))


def overwrite(catalog: Catalog) -> None:
    insert(catalog, "k=1", "k=2", kind=WriteKind.OVERWRITE_PARTITIONS)


def delete(catalog: Catalog) -> None:
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, equals("k", "1"), truncate=False)


def drop(catalog: Catalog) -> None:
    catalog.partition_commands.drop("s.t", [equals("k", "1")])


def rename(catalog: Catalog) -> None:
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})


@pytest.mark.parametrize("statement", [overwrite, delete, drop, rename])
@pytest.mark.parametrize("content", [b"9\n", b"900\n"], ids=["same size", "other size"])
def test_what_hive_wrote_since_stays(
    catalog: Catalog, root: Path, statement: Callable[[Catalog], None], content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    crash_at("clean.before", lambda: statement(catalog))
    write(root, f"k=1/{HIVES}", content=content)
    catalog.recover("s.t", older_than=0)
    assert (root / "k=1" / HIVES).read_bytes() == content
    # What a rename has taken away is not to be deleted.
    assert (f"k=1/{HIVES} was written again since it was replaced" in caplog.text) is (statement is not rename)
    assert not (root / "k=2" / HIVES).exists() or statement is not overwrite, "this one was not written again"
    catalog.repair_partitions("s.t")
    assert indexed(catalog)["k=1"].items() >= {HIVES: len(content)}.items()


@pytest.mark.parametrize("statement", [overwrite, delete, drop, rename])
def test_a_file_that_was_touched_since_it_was_registered_goes(
    catalog: Catalog, root: Path, statement: Callable[[Catalog], None]
) -> None:
    age(root / "k=1" / HIVES, -30)
    crash_at("clean.before", lambda: statement(catalog))
    catalog.recover("s.t", older_than=0)
    assert not (root / "k=1" / HIVES).exists(), "it is what the statement found there"
    catalog.repair_partitions("s.t", mode="sync", where="k != 2")
    there = walked(root, 1)
    assert {name: files for name, files in indexed(catalog).items() if name != "k=2"} == {
        name: files for name, files in there.items() if name != "k=2"
    }


def test_vacuum_uses_no_clock(catalog: Catalog, root: Path) -> None:
    """What Hive wrote after a relocating overwrite, on a store whose clock is behind the database's."""
    insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS, **{"overwrite-mode": "relocate"})
    write(root, f"k=1/{HIVES}", content=b"hive's\n")
    age(root / "k=1" / HIVES, 3600)
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert (root / "k=1" / HIVES).read_bytes() == b"hive's\n"


@pytest.mark.parametrize("how", ["repair", "add"])
def test_a_file_written_under_a_name_that_waits_to_be_deleted_is_seen(catalog: Catalog, root: Path, how: str) -> None:
    crash_at("clean.before", lambda: drop(catalog))
    write(root, f"k=1/{HIVES}", content=b"again\n")
    if how == "repair":
        # Which finishes what dead writers left, but not what a living one has in flight.
        catalog.repair_partitions("s.t", where="k = 1")
    else:
        catalog.partition_commands.add("s.t", [({"k": "1"}, None)])
    assert indexed(catalog) == {"k=1": {HIVES: 6}}
    catalog.recover("s.t", older_than=0)
    assert (root / "k=1" / HIVES).read_bytes() == b"again\n"


def test_a_slow_clean_up_leaves_what_a_rename_has_brought_back(catalog: Catalog) -> None:
    """One write gives its files the same name in every partition."""
    root = managed(catalog)
    insert(catalog, "k=1", "k=3")

    def overtaken(_: str) -> None:
        catalog.recover("s.t", older_than=0)
        catalog.partition_commands.rename("s.t", {"k": "3"}, {"k": "1"})

    with armed("clean.before", overtaken):
        delete(catalog)
    assert indexed(catalog) == walked(root, 1) != {}


@pytest.mark.parametrize("statement", [overwrite, delete, drop])
@pytest.mark.parametrize("when", ["before the statement", "after its commit"])
def test_own_file_that_was_rewritten_stays_unless_the_statement_found_it(
    catalog: Catalog, root: Path, statement: Callable[[Catalog], None], when: str
) -> None:
    """People correct a file in place: its name carries a transaction's id, and its size is what it was."""
    insert(catalog, "k=1")
    (own,) = (root / "k=1").glob("part-*")

    def rewrite() -> None:
        own.write_bytes(bytes(own.stat().st_size))
        age(own, -30)

    if when == "before the statement":
        rewrite()
    crash_at("clean.before", lambda: statement(catalog))
    if when == "after its commit":
        rewrite()
    catalog.recover("s.t", older_than=0)
    assert own.exists() is (when == "after its commit")


@pytest.mark.parametrize("name", [HIVES, "our own"])
def test_rewritten_file_is_seen_after_its_partition_was_renamed(catalog: Catalog, root: Path, name: str) -> None:
    """Its counts and bounds in the index are those of before."""
    if name != HIVES:
        insert(catalog, "k=1")
    (file,) = (path for path in (root / "k=1").iterdir() if (path.name == HIVES) is (name == HIVES))
    file.write_bytes(bytes(file.stat().st_size))
    age(file, -30)
    rename(catalog)
    report = catalog.repair_partitions("s.t", where="k = 7")
    assert [(entry.path, entry.reason) for entry in report] == [
        (f"k=7/{file.name}", "file changed: written again with the same size")
    ]
