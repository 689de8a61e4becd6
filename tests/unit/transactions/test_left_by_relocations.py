"""Files that relocating overwrites leave at old places: a read finds them only if it names the place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    NewPartition,
    RelocatePartition,
    RenamePartition,
)
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.index_cases import local_index
from tests.kit.made_once import MadeOnce, making
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, Stand, definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module", params=[False, True], ids=["managed", "external"])
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> MadeOnce:
    """A table whose partition k=1 was relocated: {1} is left at its default place, and {new} lies elsewhere."""
    folder = tmp_path_factory.mktemp("relocated")
    with making(folder) as made, local_index(folder) as index:
        stand = Stand(index)
        stand.create(definition(folder / "t", external=request.param))
        stand.write({"k=1": "1\n", "k=2": "2\n"})
        stand.write({"k=1": "new\n"}, DYNAMIC, options=RELOCATE)
    return made


@pytest.fixture
def tmp_path(made: MadeOnce) -> Path:
    """The folder as it was made."""
    return made.again()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with local_index(tmp_path) as index:
        yield Stand(index)


def drop(stand: Stand) -> None:
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.INSIDE), "DROP PARTITION")


def delete(stand: Stand) -> None:
    stand.engine.delete(stand.table(), K1, False)


def rename(stand: Stand) -> None:
    stand.engine.command(stand.table(), RenamePartition("k=1", "k=4"), "RENAME PARTITION")


def add(stand: Stand, location: str | None = None) -> None:
    asked = AddPartitions((NewPartition("k=1", location),), if_not_exists=False)
    stand.engine.command(stand.table(), asked, "ADD PARTITION")


def append(stand: Stand) -> None:
    stand.write({"k=1": "third\n"})


def overwrite(stand: Stand) -> None:
    stand.write({"k=1": "third\n"}, DYNAMIC)


def beside_an_overwrite(stand: Stand) -> None:
    """Rows that the condition does not cover are added."""
    other = Comparison(Operator.EQ, "k", "2")
    stand.write({"k=1": "third\n", "k=2": "2\n"}, WriteKind.OVERWRITE, predicate=other, adds_others=True)


def nothing(stand: Stand) -> None:
    stand.write({}, WriteKind.OVERWRITE, predicate=K1, keep_emptied=True, static_partition="k=1")


@pytest.mark.parametrize("gone", [drop, delete, rename])
@pytest.mark.parametrize(
    ("back", "rows"),
    [(append, "third\n"), (overwrite, "third\n"), (beside_an_overwrite, "third\n"), (nothing, ""), (add, "")],
)
def test_overwritten_rows_do_not_come_back_with_their_partition(
    stand: Stand, gone: Callable[[Stand], None], back: Callable[[Stand], None], rows: str
) -> None:
    gone(stand)
    back(stand)
    assert stand.rows()["k=1"] == rows
    assert stand.listed()["k=1"] == rows, "engines that list the partition's directory"
    assert stand.engine.vacuum(stand.table(), 0, dry_run=False).failed == ()
    assert (stand.rows()["k=1"], stand.listed()["k=1"]) == (rows, rows)


def set_location(stand: Stand) -> None:
    place = f"{stand.table().definition.location}/k=1"
    stand.engine.command(stand.table(), RelocatePartition("k=1", place), "SET LOCATION")


def add_there(stand: Stand) -> None:
    drop(stand)
    add(stand, f"{stand.table().definition.location}/k=1")


@pytest.mark.parametrize("by_hand", [set_location, add_there])
def test_a_place_that_is_named_by_hand_is_taken_as_it_is(stand: Stand, by_hand: Callable[[Stand], None]) -> None:
    """The overwrite is undone: vacuum spares what the partition has again."""
    by_hand(stand)
    assert (stand.rows()["k=1"], stand.listed()["k=1"]) == ("1\n", "1\n")
    assert stand.engine.vacuum(stand.table(), 0, dry_run=False).failed == ()
    assert (stand.rows()["k=1"], stand.listed()["k=1"]) == ("1\n", "1\n")


def test_a_file_that_another_partition_was_given_by_hand_stays(stand: Stand) -> None:
    drop(stand)
    place = f"{stand.table().definition.location}/k=1"
    stand.engine.command(stand.table(), RelocatePartition("k=2", place), "SET LOCATION")
    add(stand)
    assert stand.rows()["k=2"] == "1\n"


@pytest.mark.parametrize("kind", [WriteKind.CREATE_OR_REPLACE, WriteKind.REPLACE])
def test_a_table_that_takes_the_place_of_another_has_nothing_of_its_past(
    stand: Stand, tmp_path: Path, kind: WriteKind
) -> None:
    # A relocation that was relocated, too.
    stand.write({"k=1": "newer\n"}, DYNAMIC, options=RELOCATE)
    table = stand.table()
    stand.write({"k=3": "3\n"}, kind, table=table, definition=table.definition, operation="RTAS")
    assert stand.rows() == stand.listed() == {"k=3": "3\n"}
    assert [path.parent.name for path in (tmp_path / "t").rglob("*.csv")] == ["k=3"]
