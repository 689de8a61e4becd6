"""Which claims collide: the pure part of the table of conflicts in ``docs/spec/commit-protocol.md``."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.commit.claims import Claims, replaces, touched
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    NewPartition,
    RelocatePartition,
    RenamePartition,
    Rollback,
)
from catalog_ext.metastore.commit.plan import (
    Append,
    Asked,
    Checked,
    CheckedWrite,
    Create,
    CreateOrReplace,
    Overwrite,
    OverwritePartitions,
    Promotion,
    Replace,
    WritePlan,
)
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableDefinition, TableType


def appends(*names: str) -> Claims:
    return Claims(exclusive=False, names={name: name for name in names})


def overwrites(*names: str, above: int | None = None) -> Claims:
    """An overwrite of named partitions, and of all whose ``k`` is above a number."""
    covers = None if above is None else lambda name: int(name.removeprefix("k=")) > above
    return Claims(exclusive=True, names={name: name for name in names}, covers=covers)


@pytest.mark.parametrize(
    ("mine", "theirs", "partition"),
    [
        (appends("k=1"), appends("k=1"), None),
        (appends("k=1", "k=2"), overwrites("k=2"), "k=2"),
        (overwrites("k=2"), appends("k=1", "k=2"), "k=2"),
        (overwrites("k=1"), overwrites("k=1"), "k=1"),
        (overwrites("k=1"), overwrites("k=2"), None),
        (appends("k=1"), overwrites("k=2"), None),
        (appends("k=5"), overwrites(above=4), "k=5"),
        (appends("k=4"), overwrites(above=4), None),
        (overwrites(above=4), appends("k=4", "k=7"), "k=7"),
        (overwrites("k=3", above=4), overwrites("k=3"), "k=3"),
        (overwrites(above=4), overwrites("k=9"), "k=9"),
        (appends(), overwrites(above=0), None),
    ],
)
def test_who_collides(mine: Claims, theirs: Claims, partition: str | None) -> None:
    assert mine.collision(theirs) == partition
    assert (theirs.collision(mine) is None) == (partition is None)


def test_two_predicates_meet_in_partitions_that_exist() -> None:
    some, more = overwrites(above=4), overwrites(above=6)
    assert some.collision(more) is None
    assert some.collision(more, ["k=1", "k=5", "k=6"]) is None
    assert some.collision(more, ["k=5", "k=7"]) == "k=7"


NEW = TableDefinition(TableIdentifier("s", "t"), TableType.MANAGED, "csv", "file:///t", ())
ASKED: tuple[Asked, ...] = (
    Append(), OverwritePartitions(), Overwrite(), Create(NEW), Replace(NEW), CreateOrReplace(NEW),
    AddPartitions((NewPartition("k=1"),)), DropPartitions(None, DataDeletion.NONE), RenamePartition("k=1", "k=2"),
    RelocatePartition("k=1", "file:///u"), ExchangePartitions(2, "s.o", 1, None), Rollback(1),
)  # fmt: skip


def planned(change: Asked | Checked) -> WritePlan:
    return WritePlan(change, "file:///t", "_s", "file:///t", Promotion.RENAME)


@pytest.mark.parametrize("asked", ASKED, ids=lambda asked: asked.kind)
def test_what_does_not_only_add_replaces(asked: Asked) -> None:
    adds = asked.kind in (WriteKind.APPEND, WriteKind.ADD_PARTITIONS)
    assert replaces(planned(asked)) != adds
    assert {one.kind for one in ASKED} == set(WriteKind)


def test_a_write_touches_what_it_stages_takes_in_removes_keeps_and_is_due() -> None:
    write = CheckedWrite(
        Append(), static_partition="k=2", found={"k=3": ()}, unknown={"k=4": ()}, waiting=("k=1",), due=("k=5",)
    )
    assert touched(planned(write), ["k=1", "k=1"]) == {f"k={i}" for i in range(1, 6)}
