"""Random trees, mutated at random: after a repair the index is what an independent walk finds."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.scan import observe
from tests.kit.examples import examples
from tests.kit.repair_cases import indexed, local_catalog, register, walked, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog

DAYS = ["2025-01-01", "2025-01-02", "2025-1-2", "__HIVE_DEFAULT_PARTITION__"]
REGIONS = ["eu", "a b", "a%20b", "", "x=y", "_z", "%2F", "__HIVE_DEFAULT_PARTITION__", "é", "日本", "a\nb", "'", '"']
FILES = ["1.csv", "2.csv", "_hidden", ".crc", "_k=1.csv", "x y.csv", "ü.csv"]
leaves = st.tuples(st.sampled_from(DAYS), st.sampled_from(REGIONS)).map(lambda v: f"ds={v[0]}/region={v[1]}")
misfits = st.sampled_from(
    ["stray.csv", "ds=2025-01-01/stray.csv", "ds=x/region=eu/1.csv", "plain/1.csv", "region=eu/1.csv", "_tmp/1.csv"]
)
files = st.builds(lambda leaf, name: f"{leaf}/{name}", leaves, st.sampled_from(FILES))
paths = st.one_of(files, files, leaves.map(lambda leaf: f"{leaf}/"), misfits)
tree = st.lists(paths, max_size=25)
removals = st.lists(leaves, max_size=3)
VALID = {"2025-01-01", "2025-01-02", "2025-1-2", "__HIVE_DEFAULT_PARTITION__"}


@contextmanager
def fresh() -> Iterator[tuple[Catalog, Path]]:
    """A catalog with a registered table; hypothesis runs many examples in one test, so that fixtures do not serve."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with local_catalog(folder) as catalog:
            register(catalog, folder / "t")
            yield catalog, folder / "t"


def truth(root: Path) -> dict[str, dict[str, int]]:
    """The naive walk, without the directories that cannot be partitions of this table."""
    return {
        name: held
        for name, held in walked(root, 2).items()
        if name.startswith("ds=") and "/region=" in name and name.split("/")[0].removeprefix("ds=") in VALID
    }


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(tree, removals, tree, st.lists(st.integers(0, 100), max_size=5))
def test_after_a_repair_the_index_is_what_a_walk_finds(
    before: list[str], removed: list[str], after: list[str], touched: list[int]
) -> None:
    with fresh() as (catalog, root):
        write(root, *before)
        catalog.repair_partitions("s.t")
        assert indexed(catalog) == truth(root)
        for leaf in removed:
            shutil.rmtree(root / leaf, ignore_errors=True)
        write(root, *after, content=b"xy")
        present = sorted(p for p in root.rglob("*") if p.is_file())
        for number in touched:
            if present:
                os.utime(present[number % len(present)], (number, number))
        preview = catalog.repair_partitions("s.t", dry_run=True, allow_mass_drop=True)
        applied = catalog.repair_partitions("s.t", allow_mass_drop=True)
        assert list(preview) == list(applied)
        assert indexed(catalog) == truth(root)
        idle = catalog.repair_partitions("s.t")
        assert [e for e in idle if e.action != "skip"] == []
        assert idle.version == applied.version


@settings(max_examples=examples(15))
@given(tree, removals, tree)
def test_adding_and_then_dropping_come_to_the_partitions_of_a_sync(
    before: list[str], removed: list[str], after: list[str]
) -> None:
    with fresh() as (catalog, root):
        write(root, *before)
        catalog.repair_partitions("s.t")
        for leaf in removed:
            shutil.rmtree(root / leaf, ignore_errors=True)
        write(root, *after)
        catalog.repair_partitions("s.t", mode="add")
        catalog.repair_partitions("s.t", mode="drop", allow_mass_drop=True)
        assert set(indexed(catalog)) == set(truth(root))


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_a_listing_and_repetitions_in_it_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    root = tmp_path / "t"
    for day in DAYS:
        for region in chance.sample(REGIONS, 5):
            write(root, *(f"ds={day}/region={region}/{name}" for name in chance.sample(FILES, 3)))
    with local_catalog(tmp_path) as catalog:
        register(catalog, root)

        def shuffled(*args: object, **kwargs: object) -> Iterator[object]:
            events = list(list_tree(*args, **kwargs))  # type: ignore[arg-type]
            events += chance.sample(events, len(events) // 3)
            chance.shuffle(events)
            return (event for event in events)

        monkeypatch.setattr(observe, "list_tree", shuffled)
        monkeypatch.setattr(observe, "_BUFFER_ROWS", 7)
        catalog.repair_partitions("s.t")
        assert indexed(catalog) == truth(root)
        for path in chance.sample([p for p in root.rglob("*") if p.is_file()], 6):
            path.write_bytes(b"changed")
        write(root, "ds=2025-01-02/region=new/1.csv")
        catalog.repair_partitions("s.t")
        assert indexed(catalog) == truth(root)
        assert [e for e in catalog.repair_partitions("s.t") if e.action != "skip"] == []
