"""One table of cases: what each command would do where store, index and metastore differ in a known way.

Each case changes one side of a table whose three sides agreed. All previews of one world are asserted together, so
that a rule which one command has and another lacks shows as a row that does not fit.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.metastore.model.tables import Column
from tests.kit.repair_cases import deny, indexed, write
from tests.kit.transaction_cases import begin, plan
from tests.unit.drift.conftest import catalog as catalog
from tests.unit.drift.conftest import made as made
from tests.unit.drift.conftest import tmp_path as tmp_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore


@dataclass(frozen=True)
class World:
    """A table with the partitions ``ds=1`` and ``ds=2``, a file of one byte each, on which all sides agree."""

    catalog: Catalog
    metastore: FakeMetastore
    root: Path
    patched: pytest.MonkeyPatch

    def hive(self, name: str) -> HivePartition:
        (found,) = self.metastore.partitions_by_names("s", "t", [name])
        return found

    def alter(self, name: str, **changes: object) -> None:
        self.metastore.alter_partitions("s", "t", [replace(self.hive(name), **changes)])  # type: ignore[arg-type]

    def alter_table(self, **changes: object) -> None:
        table = self.metastore.get_table("s", "t")
        self.metastore._tables["s", "t"] = replace(table, **changes)  # type: ignore[arg-type]

    def add(self, value: str, place: str) -> None:
        self.metastore.add_partitions("s", "t", [HivePartition((value,), f"file://{place}")])


# Changes of the store.


def store_has_more(world: World) -> None:
    write(world.root, "ds=3/a.csv")


def store_has_less(world: World) -> None:
    shutil.rmtree(world.root / "ds=1")


def store_has_other_files(world: World) -> None:
    write(world.root, "ds=1/b.csv")


def file_of_another_size(world: World) -> None:
    write(world.root, "ds=1/a.csv", content=b"xy")


def file_written_again(world: World) -> None:
    os.utime(world.root / "ds=1" / "a.csv", (1, 1))


def listing_incomplete(world: World) -> None:
    write(world.root, "ds=3/a.csv")
    deny(world.patched, world.root / "ds=1")


def spelled_otherwise(world: World) -> None:
    write(world.root, "ds=%31/a.csv")


def foreign_directory(world: World) -> None:
    write(world.root, "nothing/a.csv")


def write_in_flight(world: World) -> None:
    table = world.catalog.load_table("s.t")
    asked = plan(table, WriteKind.APPEND)
    begun = begin(world.catalog.index, table, asked, "ds=3")
    world.catalog.index.commits.reserve(Commit(begun))
    write(world.root, f"ds=3/part-00000-{begun.transaction_id}-c000.parquet")


# Changes of the metastore.


def metastore_has_more(world: World) -> None:
    write(world.root.parent, "away/a.csv")
    world.add("3", f"{world.root.parent}/away")


def metastore_has_more_and_nothing_lies_there(world: World) -> None:
    world.add("3", f"{world.root}/ds=3")


def metastore_has_less(world: World) -> None:
    world.metastore.drop_partitions("s", "t", ["ds=1"])


def metastore_has_it_elsewhere(world: World) -> None:
    write(world.root.parent, "away/b.csv")
    world.alter("ds=1", location=f"file://{world.root.parent}/away")


def metastore_has_other_statistics(world: World) -> None:
    world.alter("ds=1", parameters={**world.hive("ds=1").parameters, "numFiles": "2", "totalSize": "9"})


def metastore_reads_it_otherwise(world: World) -> None:
    table = world.metastore.get_table("s", "t")
    other = replace(table.storage, serde_parameters={"field.delim": ";"})
    world.alter("ds=1", storage=other, columns=table.columns)


def metastore_cannot_be_read(world: World) -> None:
    table = world.metastore.get_table("s", "t")
    world.alter("ds=1", storage=replace(table.storage, serde="Avro"), columns=table.columns)


def metastore_has_other_columns(world: World) -> None:
    world.alter_table(columns=(*world.metastore.get_table("s", "t").columns, Column("z", "double")))


def metastore_has_another_type(world: World) -> None:
    x, *others = world.metastore.get_table("s", "t").columns
    world.alter_table(columns=(replace(x, type="date"), *others))


def metastore_has_another_parameter(world: World) -> None:
    world.alter_table(parameters={**world.metastore.get_table("s", "t").parameters, "p": "1"})


def metastore_lost_the_table(world: World) -> None:
    world.metastore.drop_table("s", "t")


# Changes of the index whose messages are not delivered yet.


def index_has_more(world: World) -> None:
    write(world.root, "ds=3/a.csv")
    world.metastore.down = True
    world.catalog.repair_partitions("s.t")
    world.metastore.down = False


def index_has_less(world: World) -> None:
    shutil.rmtree(world.root / "ds=1")
    world.metastore.down = True
    world.catalog.repair_partitions("s.t")
    world.metastore.down = False


def expired(world: World) -> None:
    world.catalog.alter_table_properties(
        "s.t", {"partition.retention.period": "30d", "partition.time-extractor.timestamp-pattern": "$ds"}
    )
    write(world.root, "ds=2020-01-01/a.csv")


CASES = [
    # the change, and what would be done by: repair, publish, follow (by comparison), drift, mend by the metastore
    (store_has_more, "add ds=3", "", "", "partition ds=3", ""),
    (store_has_less, "drop ds=1", "", "+0 -0 ~1", "partition ds=1", ""),
    (store_has_other_files, "change ds=1", "", "+0 -0 ~1", "files ds=1", ""),
    (file_of_another_size, "change ds=1", "", "+0 -0 ~1", "files ds=1", ""),
    (file_written_again, "change ds=1", "", "+0 -0 ~1", "files ds=1", ""),
    (listing_incomplete, "skip ds=1, add ds=3", "", "left", "not compared ds=1, partition ds=3", "left alone ds=1"),
    (spelled_otherwise, "add ds=%31", "", "", "partition ds=%31", ""),
    (foreign_directory, "skip nothing", "", "", "", ""),
    (write_in_flight, "", "", "", "", ""),
    (metastore_has_more, "", "partitions, 1 unknown to the index, drop ds=3", "+1 -0 ~0", "partition ds=3", "add ds=3"),
    (
        metastore_has_more_and_nothing_lies_there,
        "",
        "partitions, 1 unknown to the index, drop ds=3",
        "+1 -0 ~0",
        "partition ds=3",
        "left alone ds=3",
    ),
    (metastore_has_less, "", "partitions, 1 missing", "+0 -1 ~0", "partition ds=1", "drop ds=1"),
    (metastore_has_it_elsewhere, "", "partitions, 1 location", "+0 -0 ~1", "partition location ds=1", "move ds=1"),
    (metastore_has_other_statistics, "", "partitions, 1 statistics", "", "statistics ds=1", ""),
    (metastore_reads_it_otherwise, "", "", "+0 -0 ~1", "partition descriptor ds=1", "describe ds=1"),
    (metastore_cannot_be_read, "", "", "skipped", "partition descriptor ds=1", "left alone ds=1"),
    (metastore_has_other_columns, "", "alter, columns or properties", "altered", "column z", "alter z"),
    (metastore_has_another_type, "", "alter, columns or properties", "refused", "column x", "left alone x"),
    (metastore_has_another_parameter, "", "", "altered", "parameter p", "alter p"),
    (metastore_lost_the_table, "", "create, the table is missing", "removed", "table ", "left alone "),
    (index_has_more, "", "partitions, 1 missing", "", "partition ds=3 (pending)", "left alone ds=3"),
    (
        index_has_less,
        "",
        "partitions, 1 unknown to the index, drop ds=1",
        "",
        "partition ds=1 (pending)",
        "left alone ds=1",
    ),
    (expired, "skip ds=2020-01-01", "", "", "", ""),
]


@pytest.mark.parametrize(("change", "repair", "publish", "follow", "drift", "mend"), CASES)
def test_what_each_command_would_do(
    change: Callable[[World], None], repair: str, publish: str, follow: str, drift: str, mend: str,
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    catalog.follower.look()
    change(World(catalog, metastore, tmp_path / "t", monkeypatch))
    before = catalog.load_table("s.t"), indexed(catalog), dict(metastore._partitions), dict(metastore._tables)
    assert ", ".join(repairs(catalog)) == repair
    assert ", ".join(publishes(catalog)) == publish
    assert ", ".join(follows(catalog)) == follow
    assert ", ".join(f"{d.kind} {d.subject}{' (pending)' * d.pending}" for d in catalog.drift("s.t")) == drift
    assert ", ".join(mends(catalog)) == mend
    after = catalog.load_table("s.t"), indexed(catalog), dict(metastore._partitions), dict(metastore._tables)
    assert after == before, "all of them are previews"


def repairs(catalog: Catalog) -> list[str]:
    report = catalog.repair_partitions("s.t", dry_run=True, allow_mass_drop=True)
    return [f"{each.action} {each.partition or each.path}" for each in report]


def publishes(catalog: Catalog) -> list[str]:
    (entry,) = catalog.publish("s.t", dry_run=True)
    if entry.action == "in sync":
        return []
    return [entry.action, *([entry.differs] if entry.differs else []), *(f"drop {name}" for name in entry.drops)]


def follows(catalog: Catalog) -> list[str]:
    (table,) = catalog.follower.look(dry_run=True).tables
    counts = table.added, table.dropped, table.changed
    said = [table.action] * (table.action != "followed")
    said += ["+{} -{} ~{}".format(*counts)] * any(counts)
    return [*said, *["altered"] * table.altered, *["skipped"] * bool(table.skipped)]


def mends(catalog: Catalog) -> list[str]:
    entries = catalog.mend_drift("s.t", source="metastore", drop=True, allow_mass_drop=True, dry_run=True)
    return [f"{each.action} {each.subject}" for each in entries]
