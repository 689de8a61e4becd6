"""Vacuum makes old versions unreadable before it deletes their files, and keeps the versions that have tags."""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import VACUUM_POINTS, InjectedFault, armed
from catalog_ext.metastore.commit.partition_plans import DataDeletion, DropPartitions, RelocatePartition
from catalog_ext.metastore.errors import TableLayoutError, VersionExpiredError
from catalog_ext.metastore.index.database.schema import files as file_rows
from catalog_ext.metastore.index.write import claim_checks
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumReport
from tests.kit.index_cases import local_index
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator


K2 = Comparison(Operator.EQ, "k", "2")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture(autouse=True)
def old_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vacuum forgets transactions at once, as if their claims were an hour old."""
    monkeypatch.setattr(claim_checks, "CLAIMS_KEPT_MS", -60_000)


@pytest.fixture
def stand(tmp_path: Path, root: Path) -> Iterator[Stand]:
    """A table of the versions 0 to 3; the last two are relocating overwrites of k=1."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        for content in ("1\n", "2\n", "3\n"):
            stand.write({"k=1": content}, DYNAMIC, options=RELOCATE)
        yield stand


def vacuum(stand: Stand, retention_s: float = 0, **more: bool) -> VacuumReport:
    time.sleep(0.005)  # what is written is older than the retention then
    report = stand.engine.vacuum(stand.table(), retention_s, **more)
    assert report.failed == ()
    return report


def contents(root: Path) -> list[str]:
    return sorted(path.read_text() for path in root.glob("**/*.csv"))


def planned(stand: Stand, version: int) -> list[str]:
    """Return the paths that a query of a version reads, after the checks of the version."""
    at = stand.index.version_lookup.at_version(stand.table(), version)
    return sorted(stand.index.files.plan(at, None).read_all().column("path").to_pylist())


def test_versions_are_unreadable_before_their_files_are_deleted(stand: Stand, root: Path) -> None:
    """paimon#6978. Vacuum deleted first: a query chose a version whose files were gone, and failed in its tasks."""
    chosen = stand.index.version_lookup.at_version(stand.table(), 2)
    refused: list[str] = []

    def read(_: str) -> None:
        assert contents(root) == ["1\n", "2\n", "3\n"]
        with pytest.raises(VersionExpiredError):
            stand.index.files.plan(chosen, None).read_all()
        for version in (1, 2):
            with pytest.raises(VersionExpiredError):
                stand.index.version_lookup.at_version(stand.table(), version)
            refused.append(str(version))
        assert len(planned(stand, 3)) == 1

    with armed("vacuum.floor", read):
        vacuum(stand)
    assert refused == ["1", "2"]
    assert contents(root) == ["3\n"]


def test_preview_leaves_old_versions_readable(stand: Stand, root: Path) -> None:
    preview = vacuum(stand, dry_run=True)
    assert [entry.action for entry in preview.entries] == [VacuumAction.DELETE] * 2 + [VacuumAction.FORGET]
    assert len(planned(stand, 1)) == 1
    assert contents(root) == ["1\n", "2\n", "3\n"]


@pytest.mark.parametrize("point", VACUUM_POINTS)
@pytest.mark.parametrize("meanwhile", ["", "background expiry", "another commit"])
def test_vacuum_continues_after_a_vacuum_that_died(stand: Stand, root: Path, point: str, meanwhile: str) -> None:
    """The rows of the files stay until the files are gone, whatever the background expiry removes meanwhile."""
    with armed(point, "error"), pytest.raises(InjectedFault):
        vacuum(stand)
    with pytest.raises(VersionExpiredError):
        planned(stand, 2)
    if meanwhile == "background expiry":
        # ``WriteMaintenance.expire_versions`` passes at most the version before the first relocating overwrite that
        # has replaced a file.
        stand.index.versions.expire(stand.table().table_id, 1, aborted=False)
    elif meanwhile:
        stand.write({"k=1": "4\n"})
    stand.engine.recover(older_than_s=0)
    vacuum(stand)
    assert contents(root) == (["3\n", "4\n"] if meanwhile == "another commit" else ["3\n"])
    assert stand.rows() == {"k=1": "3\n4\n" if meanwhile == "another commit" else "3\n"}
    assert ended_rows(stand) == 0
    assert stand.strays() == []


def ended_rows(stand: Stand) -> int:
    with stand.index._database.reading() as connection:
        f, newest = file_rows.c, stand.table().version
        return int(connection.execute(sa.select(sa.func.count()).where(f.end_version <= newest)).scalar_one())


def test_longer_retention_after_a_vacuum_that_died_keeps_the_files(stand: Stand, root: Path) -> None:
    """The floor of a vacuum does not shorten the retention of a later one; the files are deleted when it is over."""
    with armed("vacuum.floor", "error"), pytest.raises(InjectedFault):
        vacuum(stand)
    vacuum(stand, 3600)
    assert contents(root) == ["1\n", "2\n", "3\n"]
    vacuum(stand)
    assert contents(root) == ["3\n"]


def test_path_that_is_alive_again_is_not_deleted(stand: Stand, root: Path) -> None:
    """After a rollback the row of a replaced file and the row of a current file have one path.

    The rows are made by hand, because they have the directory and the path of version 1.
    """
    before = stand.index.version_lookup.at_version(stand.table(), 1)
    (old,) = stand.index.files.plan(before, None).read_all().to_pylist()
    old_root = old["location"] or f"file://{root}/k=1"
    with stand.index._database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE partitions SET location = :place WHERE end_version > 3"),
                           {"place": old_root})  # fmt: skip
        connection.execute(
            sa.text("UPDATE files SET path = :path, size = :size, modified_ms = :at WHERE end_version > 3"),
            {"path": old["path"], "size": old["size"], "at": old["modified_ms"]},
        )
    report = vacuum(stand)
    assert "1\n" in contents(root)
    assert "2\n" not in contents(root)
    assert stand.rows() == {"k=1": "1\n"}
    assert any(entry.path == old_root for entry in report.kept)


def read(stand: Stand, version: int) -> dict[str, str]:
    """Return the contents of the files of a version, by partition; every file has to be there."""
    table = stand.index.version_lookup.at_version(stand.table(), version)
    parts: dict[str, list[str]] = {}
    for row in stand.index.files.plan(table, None).read_all().to_pylist():
        base = row["location"] or f"{table.definition.location}/{row['partition']}"
        parts.setdefault(row["partition"], []).append(Path(f"{base}/{row['path']}".removeprefix("file://")).read_text())
    return {name: "".join(sorted(contents)) for name, contents in parts.items()}


def test_vacuum_keeps_the_files_of_a_tag_and_names_it(stand: Stand, root: Path) -> None:
    stand.index.version_holds.tag(stand.table(), 1, "before-load")
    preview, report = vacuum(stand, dry_run=True), vacuum(stand)
    for each in (preview, report):
        (kept,) = each.kept
        assert "held by the tag 'before-load' of version 1" in kept.reason
        assert [entry.action for entry in each.entries].count(VacuumAction.DELETE) == 1
    assert contents(root) == ["1\n", "3\n"]
    assert read(stand, 1) == {"k=1": "1\n"}
    with pytest.raises(VersionExpiredError):
        read(stand, 2)
    assert vacuum(stand).kept == report.kept
    stand.index.version_holds.untag(stand.table(), "before-load")
    vacuum(stand)
    assert contents(root) == ["3\n"]
    assert ended_rows(stand) == 0


def test_vacuum_finds_the_files_of_a_tag_that_is_removed_while_it_runs(stand: Stand, root: Path) -> None:
    """Vacuum kept the files for the tag, so it may not forget their rows, although the tag is gone by then."""
    stand.index.version_holds.tag(stand.table(), 1, "x")
    with armed("vacuum.deleted", lambda _: stand.index.version_holds.untag(stand.table(), "x") and None):
        vacuum(stand)
    assert contents(root) == ["1\n", "3\n"]
    vacuum(stand)
    assert contents(root) == ["3\n"]


def test_version_cannot_be_tagged_while_vacuum_deletes_it(stand: Stand) -> None:
    """hudi PR 8105: a savepoint of a version whose files a clean in flight was deleting."""
    refused: list[VersionExpiredError] = []

    def tag(_: str) -> None:
        with pytest.raises(VersionExpiredError) as error:
            stand.index.version_holds.tag(stand.table(), 2, "late")
        refused.append(error.value)

    with armed("vacuum.floor", tag), armed("vacuum.claimed", tag):
        vacuum(stand)
    assert len(refused) == 2


def test_background_expiry_keeps_what_a_tag_holds(stand: Stand) -> None:
    """The rows of dropped partitions of a table without relocations are removed in the background (iceberg PR 5034)."""
    stand.write({"k=2": "x\n"})
    stand.index.version_holds.tag(stand.table(), 4, "x")
    stand.engine.command(stand.table(), DropPartitions(K2, DataDeletion.NONE), "DROP PARTITION")
    stand.index.versions.expire(stand.table().table_id, 5, aborted=False)
    assert read(stand, 4) == {"k=1": "3\n", "k=2": "x\n"}
    with pytest.raises(VersionExpiredError):
        read(stand, 3)


def test_path_that_was_replaced_twice_stays_for_its_tag(stand: Stand, root: Path) -> None:
    """SET LOCATION brings the path of version 1 back, as a rollback does; it is replaced again by version 5."""
    stand.index.version_holds.tag(stand.table(), 1, "one")
    stand.engine.command(stand.table(), RelocatePartition("k=1", first_directory(stand)), "SET LOCATION")
    assert read(stand, 4) == {"k=1": "1\n"}
    stand.write({"k=1": "5\n"}, DYNAMIC, options=RELOCATE)
    vacuum(stand)
    assert read(stand, 1) == {"k=1": "1\n"}
    assert contents(root) == ["1\n", "3\n", "5\n"], "SET LOCATION made the file of version 3 the user's"
    stand.index.version_holds.untag(stand.table(), "one")
    vacuum(stand)
    assert contents(root) == ["3\n", "5\n"]


def test_file_of_a_tag_that_the_user_took_back_stays_the_users(stand: Stand, root: Path) -> None:
    """SET LOCATION and DROP PARTITION made the file of version 1 the user's; vacuum must know that after ``untag``."""
    stand.index.version_holds.tag(stand.table(), 1, "one")
    stand.engine.command(stand.table(), RelocatePartition("k=1", first_directory(stand)), "SET LOCATION")
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.NONE), "DROP PARTITION")
    for _ in range(2):
        vacuum(stand)
        assert read(stand, 1) == {"k=1": "1\n"}
    stand.index.version_holds.untag(stand.table(), "one")
    for _ in range(2):
        vacuum(stand)
    assert "1\n" in contents(root)
    assert ended_rows(stand) == 0


def first_directory(stand: Stand) -> str:
    (row,) = stand.index.files.plan(
        stand.index.version_lookup.at_version(stand.table(), 1), None
    ).read_all().to_pylist()  # fmt: skip
    return row["location"] or f"{stand.table().definition.location}/k=1"


def test_unknown_writes_leaves_the_directory_of_a_tag(stand: Stand) -> None:
    """A directory that a relocating overwrite wrote and DROP PARTITION took out of the table is a tag's."""
    stand.index.version_holds.tag(stand.table(), 3, "three")
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.NONE), "DROP PARTITION")
    vacuum(stand, unknown_writes=True)
    assert read(stand, 3) == {"k=1": "3\n"}


def test_partition_is_not_recreated_over_files_of_a_tag(stand: Stand) -> None:
    """The write would delete them, because engines that list the directory would read the overwritten rows again."""
    stand.write({"k=2": "4\n"})
    stand.write({"k=2": "5\n"}, DYNAMIC, options=RELOCATE)
    stand.index.version_holds.tag(stand.table(), 4, "four")
    stand.engine.command(stand.table(), DropPartitions(K2, DataDeletion.NONE), "DROP PARTITION")
    with pytest.raises(TableLayoutError, match="which the tag 'four' holds"):
        stand.write({"k=2": "7\n"})
    assert read(stand, 4) == {"k=1": "3\n", "k=2": "4\n"}
    stand.index.version_holds.untag(stand.table(), "four")
    stand.write({"k=2": "7\n"})
    assert stand.rows() == stand.listed() == {"k=1": "3\n", "k=2": "7\n"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_tags_floors_and_relocations(tmp_path: Path, seed: int) -> None:
    """After each vacuum every held version lists exactly the files that it listed before, and each exists."""
    chance = random.Random(seed)
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=True))
        states: dict[int, dict[str, str]] = {0: {}}
        tags: dict[str, int] = {}
        for step in range(25):
            random_change(stand, chance, step)
            version = stand.table().version
            states.setdefault(version, read(stand, version))
            kept = [each for each in states if readable(stand, each)]
            if chance.random() < 0.4:
                tags[f"t{step}"] = chance.choice(kept)
                index.version_holds.tag(stand.table(), tags[f"t{step}"], f"t{step}")
            if tags and chance.random() < 0.2:
                name = chance.choice(sorted(tags))
                index.version_holds.untag(stand.table(), name)
                del tags[name]
            if chance.random() < 0.4:
                with contextlib.ExitStack() as stack:
                    if chance.random() < 0.3:
                        stack.enter_context(contextlib.suppress(InjectedFault))
                        stack.enter_context(armed(chance.choice(VACUUM_POINTS), "error"))
                    vacuum(stand)
                stand.engine.recover(older_than_s=0)
                assert not any(readable(stand, each) for each in states if each < version and each not in tags.values())
            for each in {*tags.values(), version}:
                assert read(stand, each) == states[each], (seed, step, each)
        for name in tags:
            index.version_holds.untag(stand.table(), name)
        vacuum(stand)
        assert ended_rows(stand) == 0
        assert read(stand, version) == states[version]


def readable(stand: Stand, version: int) -> bool:
    try:
        stand.index.version_lookup.at_version(stand.table(), version)
    except VersionExpiredError:
        return False
    return True


def random_change(stand: Stand, chance: random.Random, step: int) -> None:
    """Relocate, append, drop, or give a partition the directory of an earlier version that a tag may hold."""
    name = f"k={chance.randint(1, 2)}"
    kind = chance.choice(["relocate", "relocate", "append", "drop", "back"])
    if kind == "append":
        with contextlib.suppress(TableLayoutError):  # a tag holds files in the directory
            stand.write({name: f"{step}\n"})
    elif kind == "drop":
        predicate = Comparison(Operator.EQ, "k", name[2:])
        stand.engine.command(stand.table(), DropPartitions(predicate, DataDeletion.NONE), "DROP PARTITION")
    elif kind == "back" and name in stand.rows():
        earlier = chance.choice([at for at in range(stand.table().version + 1) if readable(stand, at)])
        table = stand.index.version_lookup.at_version(stand.table(), earlier)
        for row in stand.index.files.plan(table, None).read_all().to_pylist():
            if row["partition"] == name and row["location"]:
                stand.engine.command(stand.table(), RelocatePartition(name, row["location"]), "SET LOCATION")
                return
    else:
        stand.write({name: f"{step}\n"}, DYNAMIC, options=RELOCATE)
