"""What is the same on both sides is compared by digests; the difference is what comparing everything finds."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.model.changes import ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Key
from catalog_ext.repair.difference import StoreDifference
from catalog_ext.repair.mass_drop import found_nothing
from catalog_ext.scan import scratch_comparison
from catalog_ext.scan.scratch import Scratch
from catalog_ext.scan.scratch_comparison import Everything, ScratchComparison
from tests.kit.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.scan.scratch_comparison import FileRow

KEYS = (Key(0, "k", parse_type("STRING")),)
WRITTEN = f"part-0-{'0123456789abcdef' * 2}.parquet"
NAMES = ("k=a", "k=b", "k=A", "k=a b", "k=a%20b", "k=%61", "k=c")
PATHS = ("x", "y", WRITTEN)
STATES = st.tuples(st.integers(1, 2), st.integers(1, 2), st.sampled_from((None, 1, 2)))


class Rows(NamedTuple):
    """The rows of both sides: partitions in batches, so that what is said twice can be far apart."""

    listed: list[list[str]]
    shown: list[str]
    files: list[list[FileRow]]
    indexed: dict[str, str | None]
    registered: list[FileRow]


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    registered = {
        (name, path): draw(STATES)
        for name, path in draw(st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(PATHS))))
    }
    listed = {
        key: draw(STATES) if draw(st.booleans()) else state
        for key, state in registered.items()
        if draw(st.integers(0, 3))
    }
    listed |= dict.fromkeys(
        draw(st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(PATHS)), max_size=2)), (1, 1, None)
    )
    empty = draw(st.sets(st.sampled_from(NAMES)))
    elsewhere = draw(st.sets(st.sampled_from(NAMES), max_size=1))
    indexed = {name: "file:/there" if name in elsewhere else None for name in {n for n, _ in registered} | empty}
    names = sorted({name for name, _ in listed} | draw(st.sets(st.sampled_from(sorted(empty or {"k=c"})))))
    files = [(name, path, *state) for (name, path), state in sorted(listed.items())]
    again = draw(st.lists(st.sampled_from(files), max_size=2)) if files else []
    return Rows(
        [names, draw(st.lists(st.sampled_from(names), max_size=2)) if names else []],
        sorted({name for name, *_ in files}),
        [files, again],
        indexed,
        [(name, path, *state) for (name, path), state in sorted(registered.items())],
    )


def fill(listed: Everything, indexed: Everything, of: Rows) -> None:
    for names in of.listed:
        listed.partitions([(name,) for name in names])
    listed.shown_by_files([(name,) for name in of.shown])
    for files in of.files:
        listed.files(files)
    counts = {name: [row for row in of.registered if row[0] == name] for name in of.indexed}
    indexed.partitions(
        [(name, at, len(counts[name]), sum(r[2] for r in counts[name])) for name, at in of.indexed.items()]
    )
    indexed.files(of.registered)


def found(scratch: Scratch, *, has_directories: bool, with_files: bool) -> tuple[object, ...]:
    difference = StoreDifference(scratch, KEYS, has_directories=has_directories, drops=True)
    nothing = found_nothing(scratch)
    if with_files:
        difference.compare_files()
    proposals = [*difference.dropped(), *difference.added(), *difference.changed()]
    return nothing, difference.loss(), difference.count(adds=True), [(p.change, p.lines) for p in proposals]


@pytest.fixture(params=[0, 1, (1 << 14) - 1], ids=lambda mask: f"{mask + 1}-buckets")
def mask(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(scratch_comparison, "_MASK", request.param)
    return int(request.param)


def compared(of: Rows, *, has_directories: bool, with_files: bool) -> Iterator[Scratch]:
    everything, some = Scratch(), Scratch()
    if not with_files:
        of = of._replace(registered=[])
    fill(Everything(everything, "listed"), Everything(everything, "indexed"), of)
    sides = ScratchComparison(some, with_files=with_files, timeless=not has_directories)
    fill(sides.listed, sides.indexed, of)
    sides.compare()
    sides.close()
    yield from (everything, some)
    everything.close()
    some.close()


@pytest.mark.usefixtures("mask")
@pytest.mark.parametrize("with_files", [True, False], ids=["sync", "add"])
@pytest.mark.parametrize("has_directories", [True, False], ids=["directories", "objects"])
def test_the_difference_is_that_of_everything(has_directories: bool, with_files: bool) -> None:
    @settings(max_examples=examples(20), deadline=None)
    @given(rows())
    def check(of: Rows) -> None:
        everything, some = (
            found(scratch, has_directories=has_directories, with_files=with_files)
            for scratch in compared(of, has_directories=has_directories, with_files=with_files)
        )
        assert some == everything

    check()


def test_what_is_in_sync_is_looked_at_no_further() -> None:
    files = [(name, "x", 1, 1, 7) for name in NAMES]
    scratch = Scratch()
    sides = ScratchComparison(scratch, with_files=True, timeless=False)
    fill(sides.listed, sides.indexed, Rows([list(NAMES)], [], [files], dict.fromkeys(NAMES), files))
    sides.compare()
    sides.close()
    assert scratch.in_sync == len(NAMES)
    for table in ("listed_partitions", "listed_files", "indexed_partitions", "indexed_files", "partitions_in_sync"):
        assert scratch.count(f"SELECT count(*) FROM {table}") == 0, table
    assert not found_nothing(scratch)
    scratch.close()


@pytest.mark.slow
def test_changes_that_are_each_others_opposite_are_seen() -> None:
    """Two files of each of a thousand partitions have swapped their times, and of a thousand others their sizes."""
    scratch = Scratch()
    sides = ScratchComparison(scratch, with_files=True, timeless=False)
    names = [f"k={number}" for number in range(2000)]
    swapped = [(2, 1) if number < 1000 else (1, 2) for number in range(2000)]
    before = [row for name in names for row in ((name, "x", 1, 1, None), (name, "y", 2, 2, None))]
    after = [
        row
        for name, (x, y) in zip(names, swapped, strict=True)
        for row in ((name, "x", y, x, None), (name, "y", 3 - y, 3 - x, None))
    ]
    fill(sides.listed, sides.indexed, Rows([names], [], [after], dict.fromkeys(names), before))
    sides.compare()
    sides.close()
    assert scratch.in_sync == 0
    scratch.close()


def test_names_in_sync_are_there_for_new_ones_alone() -> None:
    files = [(name, "x", 1, 1, 7) for name in NAMES]
    scratch = Scratch()
    sides = ScratchComparison(scratch, with_files=True, timeless=False)
    fill(sides.listed, sides.indexed, Rows([[*NAMES, "k=new"]], [], [files], dict.fromkeys(NAMES), files))
    sides.compare()
    sides.close()
    assert {name for (name,) in scratch.rows("SELECT name FROM partitions_in_sync")} == set(NAMES)
    scratch.close()


def test_times_of_written_files_count_where_the_store_has_directories() -> None:
    def in_sync(path: str, *, timeless: bool) -> int:
        scratch = Scratch()
        sides = ScratchComparison(scratch, with_files=True, timeless=timeless)
        fill(
            sides.listed,
            sides.indexed,
            Rows([["k=a"]], [], [[("k=a", path, 1, 5, None)]], {"k=a": None}, [("k=a", path, 1, 7, None)]),
        )
        sides.compare()
        sides.close()
        scratch.close()
        return scratch.in_sync

    assert in_sync(WRITTEN, timeless=True) == 1
    assert in_sync(WRITTEN, timeless=False) == 0
    assert in_sync("x", timeless=True) == 0


def test_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    scratch = Scratch()
    sides = ScratchComparison(scratch, with_files=True, timeless=False)
    monkeypatch.setattr(scratch_comparison.marshal, "dumps", full)
    with pytest.raises(StorageError, match="TMPDIR") as caught:
        sides.listed.partitions([("k=a",)])
    assert "No space left" in caught.value.message
    sides.close()
    scratch.close()


@pytest.mark.parametrize(
    ("path", "then", "now", "differs", "learned"),
    [
        (WRITTEN, (9, 5, 1), (9, 6, 1), False, None),
        (WRITTEN, (9, 5, 1), (9, 5, 2), True, None),
        (WRITTEN, (9, 5, None), (9, 6, 2), False, 2),
        (WRITTEN, (9, 5, 1), (9, 6, None), False, None),
        (WRITTEN, (9, 5, None), (8, 5, 2), True, None),
        ("x", (9, 5, 1), (9, 5, 2), True, None),
        ("x", (9, 5, None), (9, 5, 2), False, 2),
        ("x", (9, 5, None), (9, 6, 2), True, None),
    ],
)
def test_etag_is_compared_where_both_sides_know_it(
    path: str, then: tuple[int, int, int | None], now: tuple[int, int, int | None], differs: bool, learned: int | None
) -> None:
    """On S3, where a file of ours has the time of its commit in the index."""
    of = Rows([["k=a"]], [], [[("k=a", path, *now)]], {"k=a": None}, [("k=a", path, *then)])
    for scratch in compared(of, has_directories=False, with_files=True):
        difference = StoreDifference(scratch, KEYS, has_directories=False, drops=True)
        difference.compare_files()
        changes = [proposed.change for proposed in difference.changed()]
        new = ReplaceFiles("k=a", (DataFile(path, now[0], now[1], etag=now[2]),), (path,))
        assert changes == ([new] if differs else [])
        assert [file.etag for _, file in difference.new_etags()] == ([] if learned is None else [learned])
