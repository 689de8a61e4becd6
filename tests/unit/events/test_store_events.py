"""Events of a store: what is listed for them, and what the index comes to."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from catalog_ext.events.notifications import StoreEvent
from catalog_ext.metastore.errors import MassDropError
from catalog_ext.metastore.model.changes import ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.tables.freshness import Staleness
from tests.kit.examples import examples
from tests.kit.repair_cases import deny, indexed, local_catalog, register, walked, write
from tests.kit.writes import crash_at, insert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location

A, B, C = "ds=2025-01-01/region=eu", "ds=2025-01-01/region=us", "ds=2025-01-02/region=eu"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    write(root, f"{A}/1.csv", f"{B}/1.csv", f"{C}/1.csv")
    with local_catalog(tmp_path) as catalog:
        register(catalog, root)
        catalog.repair_partitions("s.t")
        yield catalog


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, root: Path) -> list[str]:
    """The directories that are listed, below the table."""
    seen: list[str] = []
    whole = Storage.list_directory

    def noted(storage: Storage, location: str | Location) -> list[Entry]:
        seen.append(str(location).removeprefix(f"file://{root}").removeprefix("/"))
        return whole(storage, location)

    monkeypatch.setattr(Storage, "list_directory", noted)
    return seen


def created(path: Path, sequencer: str | None = None) -> StoreEvent:
    there = path.stat()
    return StoreEvent(f"file://{path}", False, there.st_size, there.st_mtime_ns // 1_000_000, sequencer)


def removed(path: Path, sequencer: str | None = None, *, of_version: bool = False) -> StoreEvent:
    return StoreEvent(f"file://{path}", True, None, None, sequencer, of_version)


def test_what_came_and_went(catalog: Catalog, root: Path, listed: list[str]) -> None:
    write(root, f"{A}/2.csv", "ds=2025-01-03/region=eu/1.csv", f"{C}/9.csv")
    (root / B / "1.csv").unlink()
    outcome = catalog.events.take([
        created(root / A / "2.csv"), created(root / A / "2.csv"), removed(root / B / "1.csv"),
        created(root / "ds=2025-01-03/region=eu/1.csv"),
    ])  # fmt: skip
    (done,) = outcome.tables
    assert (done.checked, done.added, done.changed, done.version) == (3, 1, 2, 2)
    assert sorted(listed) == [A, B, "ds=2025-01-03/region=eu"]
    expected = walked(root, 2)
    del expected[C]["9.csv"]
    assert indexed(catalog) == expected, "no event names the other"


def test_what_the_index_has_costs_no_listing(catalog: Catalog, root: Path, listed: list[str]) -> None:
    outcome = catalog.events.take([
        created(root / A / "1.csv"), created(root / B / "1.csv"),
    ])  # fmt: skip
    assert (listed, [each.checked for each in outcome.tables], outcome.left) == ([], [0], [])
    catalog.events.take([removed(root / A / "gone.csv")])
    assert listed == [A], "a repair under way may have seen it"


def test_an_object_that_is_written_again_is_looked_at(catalog: Catalog, root: Path) -> None:
    file = root / A / "1.csv"
    old = created(file)
    file.write_bytes(b"yy")
    catalog.events.take([created(file)])
    assert indexed(catalog)[A] == {"1.csv": 2}
    file.write_bytes(b"z")
    os.utime(file, (2_000_000_000, 2_000_000_000))
    catalog.events.take([created(file), old])
    assert indexed(catalog)[A] == {"1.csv": 1}


def test_foreign_file_named_by_a_checksum_is_read_when_it_changes(catalog: Catalog, root: Path) -> None:
    name = "d41d8cd98f00b204e9800998ecf8427e.csv"
    write(root, f"{A}/{name}")
    catalog.events.take([created(root / A / name, "01")])
    write(root, f"{A}/{name}", content=b"z")
    os.utime(root / A / name, (2_000_000_000, 2_000_000_000))
    outcome = catalog.events.take([created(root / A / name, "02")])
    assert [each.changed for each in outcome.tables] == [1], "its size is what it was"


@pytest.mark.parametrize("numbers", [(None, None), ("05", None)])
def test_a_removal_is_not_lost_to_an_event_without_order(
    catalog: Catalog, root: Path, numbers: tuple[str | None, str | None]
) -> None:
    write(root, f"{A}/2.csv")
    catalog.repair_partitions("s.t")
    file = root / A / "1.csv"
    late = created(file, numbers[1])
    file.unlink()
    catalog.events.take([removed(file, numbers[0]), late])
    assert indexed(catalog)[A] == {"2.csv": 1}


def test_our_own_writes_cost_no_listing(catalog: Catalog, root: Path, listed: list[str]) -> None:
    crash_at("promote.after", lambda: insert(catalog, A))
    (file,) = (root / A).glob("part-*")
    first = created(file)
    assert catalog.events.take([first]).left == [], "it has not committed yet"
    assert indexed(catalog)[A] == {"1.csv": 1}
    catalog.write_maintenance.recover(older_than=0)
    late = StoreEvent(first.uri, False, first.size, (first.at_ms or 0) + 60_000)
    assert catalog.events.take([late]).left == []
    assert listed == []
    assert len(indexed(catalog)[A]) == 2


def test_own_file_is_looked_at_when_its_etag_changes(catalog: Catalog, root: Path, listed: list[str]) -> None:
    insert(catalog, A)
    (file,) = (root / A).glob("part-*")
    first = created(file)
    known = DataFile(file.name, first.size or 0, first.at_ms or 0, etag=1)
    catalog.index.file_statistics.note_etags(catalog.load_table("s.t"), [(A, known)])
    for etag in (1, None):
        catalog.events.take([replace(first, etag=etag)])
        assert listed == []
    catalog.events.take([replace(first, etag=2)])
    assert listed == [A], "it has the size and the time that it had"


def test_hidden_names_and_what_is_no_partition(catalog: Catalog, root: Path, listed: list[str], tmp_path: Path) -> None:
    paths = [
        f"{A}/_SUCCESS", f"{A}/.x.crc", f"{A}/_temporary/0/1.csv", f"{A}/sub/1.csv", "ds=2025-01-01/1.csv", "1.csv",
        "ds=nodate/region=eu/1.csv", "region=eu/ds=2025-01-01/1.csv", f"_catalog_ext_data/x/{A}/1.csv",
    ]  # fmt: skip
    write(root, *paths)
    write(tmp_path, "t2/1.csv")
    found = [created(root / path) for path in paths]
    found += [created(tmp_path / "t2" / "1.csv"), StoreEvent(f"file://{root / A}/", False, 0, 1)]
    outcome = catalog.events.take(found)
    assert (outcome.ignored, outcome.tables, listed) == (len(found), [], [])


def test_a_partition_at_a_place_of_its_own(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    write(tmp_path / "else", "1.csv", "2.csv")
    catalog.partition_commands.relocate("s.t", {"ds": "2025-01-02", "region": "eu"}, str(tmp_path / "else"))
    write(tmp_path / "else", "3.csv")
    write(root, f"{C}/9.csv")
    catalog.events.take([created(root / C / "9.csv")])
    assert set(indexed(catalog)[C]) == {"1.csv", "2.csv", "3.csv"}
    (tmp_path / "else" / "1.csv").unlink()
    catalog.events.take([removed(tmp_path / "else" / "1.csv")])
    assert set(indexed(catalog)[C]) == {"2.csv", "3.csv"}


def test_tables_within_each_other_and_without_partition_columns(catalog: Catalog, root: Path) -> None:
    with pytest.warns(UserWarning, match="shares files"):
        register(catalog, root / A, {}, table="s.flat")
    catalog.repair_partitions("s.flat")
    write(root, f"{A}/2.csv")
    outcome = catalog.events.take([created(root / A / "2.csv")])
    assert sorted(each.table for each in outcome.tables) == ["s.flat", "s.t"]
    assert indexed(catalog, "s.flat") == {"": {"1.csv": 1, "2.csv": 1}}
    assert indexed(catalog) == walked(root, 2)


def test_a_location_with_wildcards_is_repaired_whole(catalog: Catalog, tmp_path: Path) -> None:
    tree = tmp_path / "w"
    write(tree, "eu/ds=2025-01-01/1.csv", "eu/ds=2025-01-01/1.txt")
    catalog.register_table(
        "s.w", location=f"{tree}/*/ds=*/*.csv", partition_columns={"ds": "DATE"}, schema="x INT", format="csv"
    )
    catalog.repair_partitions("s.w")
    write(tree, "us/ds=2025-01-01/2.csv", "us/ds=2025-01-02/2.csv", "us/other/2.csv")
    assert catalog.events.take([created(tree / "us/other/2.csv")]).tables == []
    catalog.events.take([created(tree / "us/ds=2025-01-01/2.csv")])
    assert {name: len(files) for name, files in indexed(catalog, "s.w").items()} == {
        "ds=2025-01-01": 2,
        "ds=2025-01-02": 1,
    }


def test_what_cannot_be_listed_is_left_and_the_rest_is_not(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, f"{A}/2.csv", f"{B}/2.csv")
    found = [created(root / A / "2.csv", "01"), created(root / B / "2.csv", "01")]
    with monkeypatch.context() as denied:
        deny(denied, root / B)
        outcome = catalog.events.take(found)
    assert [event.uri for event in outcome.left] == [found[1].uri]
    assert "Permission denied" in str(outcome.tables[0].error)
    assert indexed(catalog)[B] == {"1.csv": 1}
    again = catalog.events.take(found)
    assert (again.left, again.ignored) == ([], 1)
    assert indexed(catalog) == walked(root, 2)


def test_commit_by_another_writer_in_between_is_kept(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, f"{A}/2.csv", f"{A}/w.csv", f"{B}/2.csv")
    table = catalog.load_table("s.t")
    whole, raced = catalog.index.commits.apply_changes, []

    def commit(*args: object, **kwargs: object) -> object:
        if not raced:
            raced.append(True)
            change = ReplaceFiles(A, (DataFile("w.csv", 1, 1),))
            whole(table.table_id, [change], operation="INSERT", deliver=False)
        return whole(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog.index.commits, "apply_changes", commit)
    outcome = catalog.events.take([created(root / A / "2.csv"), created(root / B / "2.csv")])
    assert (outcome.left, outcome.tables[0].error) == ([], None)
    assert indexed(catalog) == walked(root, 2)


@pytest.mark.slow
def test_mass_drop_is_refused_and_a_retention_job_is_applied(tmp_path: Path, root: Path) -> None:
    names = [f"ds=2025-01-01/region={i:03d}" for i in range(100)]
    write(root, *(f"{name}/1.csv" for name in names))
    with local_catalog(tmp_path) as catalog:
        register(catalog, root)
        catalog.repair_partitions("s.t")
        for name in names[:40]:
            shutil.rmtree(root / name)
        outcome = catalog.events.take([removed(root / name / "1.csv") for name in names[:40]])
        assert (outcome.left, outcome.tables[0].dropped) == ([], 40)
        for name in names[40:80]:
            shutil.rmtree(root / name)
        outcome = catalog.events.take([removed(root / name / "1.csv") for name in names[40:80]])
        assert isinstance(outcome.tables[0].error, MassDropError)
        assert len(outcome.left) == 40
        assert len(indexed(catalog)) == 60


def test_a_table_that_is_dropped_is_nobodys(catalog: Catalog, root: Path) -> None:
    event = created(root / A / "1.csv")
    catalog.drop_table("s.t")
    assert catalog.events.take([event]).ignored == 1


def test_what_an_event_has_looked_at_is_fresh(catalog: Catalog, root: Path, listed: list[str]) -> None:
    write(root, f"{A}/2.csv")
    catalog.events.take([created(root / A / "2.csv")])
    assert len(catalog.metadata_tables.read(catalog.load_table("s.t").table_id, "repairs").read_all()) == 2


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "remove", "rmtree", "take", "insert"]), st.integers(0, 3), st.integers(0, 2),
        st.sampled_from(["once", "once", "twice", "late", "lost"]),
    ),
    max_size=25,
)  # fmt: skip
PLACES = [A, B, C, "ds=2025-01-09/region=x y"]


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(steps=STEPS, seed=st.integers(0, 2**32), mended=st.sampled_from(["repair", "staleness"]))
def test_any_history_ends_where_a_repair_does(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int, str]], seed: int, mended: str
) -> None:
    """Objects come, change and go; events are lost, doubled, late and disordered; the rest is ``mended``."""
    folder = tmp_path_factory.mktemp("history")
    root, order = folder / "t", random.Random(seed)
    write(root, f"{A}/0.csv", f"{B}/0.csv")
    waiting: list[StoreEvent] = []
    late: list[StoreEvent] = []
    clock, lost = 0, False
    with local_catalog(folder) as catalog:
        register(catalog, root)
        catalog.repair_partitions("s.t")
        for action, place, number, fate in steps:
            clock += 1
            directory = root / PLACES[place]
            files = [directory / f"{number}.csv"]
            reported: list[StoreEvent] = []
            if action == "put":
                write(root, f"{PLACES[place]}/{number}.csv", content=b"x" * (1 + clock % 3))
                os.utime(files[0], (1_700_000_000 + clock, 1_700_000_000 + clock))
                reported = [created(files[0], f"{clock:06X}")]
            elif action == "remove" and files[0].exists():
                files[0].unlink()
                if not any(directory.iterdir()):
                    directory.rmdir()  # stores that send notifications have no directories
                reported = [removed(files[0], f"{clock:06X}")]
            elif action == "rmtree" and directory.exists():
                reported = [removed(file, f"{clock:06X}") for file in sorted(directory.iterdir())]
                shutil.rmtree(directory)
            elif action == "insert":
                before = set(directory.glob("*"))
                insert(catalog, PLACES[place])
                reported = [created(file, f"{clock:06X}") for file in set(directory.glob("*")) - before]
            elif action == "take":
                order.shuffle(waiting)
                assert catalog.events.take(waiting).left == []
                waiting = []
            if fate == "lost":
                lost = lost or bool(reported)
            elif fate == "late":
                late += reported
            else:
                waiting += reported * (2 if fate == "twice" else 1)
        order.shuffle(late)
        for batch in (waiting, late, late[:3]):
            assert catalog.events.take(batch).left == []
        if lost and mended == "repair":
            catalog.repair_partitions("s.t", allow_mass_drop=True)
        # Where nothing at all is left, a query refuses to drop it.
        elif lost and any(entry.is_file() for entry in root.rglob("*")):
            table = catalog.load_table("s.t")
            catalog.reads.plan_files(table.table_id, table.version, staleness=Staleness(0)).read_all()
        elif lost:
            catalog.repair_partitions("s.t", allow_mass_drop=True)
        held = indexed(catalog)
        catalog.repair_partitions("s.t", allow_mass_drop=True)
        assert held == indexed(catalog)
        assert held == walked(root, 2)
