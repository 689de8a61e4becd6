"""Tags keep versions: their names, their ends, and the rows of the index that expiry leaves for them."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import (
    AlreadyExistsError,
    InvalidInputError,
    TableNotFoundError,
    UnsupportedTypeChangeError,
    VersionExpiredError,
    VersionNotFoundError,
)
from catalog_ext.metastore.index.database.schema import version_holds
from catalog_ext.metastore.index.write.version_holds import Tag
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from tests.kit.index_cases import create, data_files, local_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with local_index(tmp_path) as index:
        yield index


@pytest.fixture
def table(index: Index) -> Table:
    """A table with the versions 0 to 4: k=1, k=2, then k=1 is dropped, then k=3 comes."""
    table = create(index, keys={"k": "int"})
    for change in (AddPartition("k=1", data_files(2)), AddPartition("k=2", data_files(1)), DropPartition("k=1"),
                   AddPartition("k=3", data_files(1))):  # fmt: skip
        commit(index, table, change)
    return index.tables.load(table.identifier)


def commit(index: Index, table: Table, *changes: AddPartition | DropPartition | ReplaceFiles) -> None:
    index.commits.apply_changes(table.table_id, list(changes), operation="test", deliver=False)


State = list[tuple[str, str, int]]


def state_at(index: Index, table: Table, version: int) -> State:
    """Return the files of a version, and check its totals, its groups and its partitions against them."""
    at = index.version_lookup.at_version(table, version)
    planned = index.files.plan(at, None).read_all().to_pylist()
    names = index.partitions.all(at, None).read_all().column("partition").to_pylist()
    assert at.totals is not None
    assert (at.totals.partitions, at.totals.files) == (len(names), len(planned))
    assert at.totals.bytes == sum(row["size"] for row in planned)
    return sorted((row["partition"], row["path"], row["size"]) for row in planned)


def test_tagged_version_stays_readable(index: Index, table: Table) -> None:
    before = state_at(index, table, 2)
    tag = index.version_holds.tag(table, 2, "before-load")
    assert tag == Tag("before-load", 2, None, tag.user, "yes")
    index.versions.expire(table.table_id, 4)
    assert state_at(index, table, 2) == before
    assert index.version_lookup.at_tag(table, "before-load").version == 2
    for version in (0, 1, 3):
        with pytest.raises(VersionExpiredError, match="the oldest that is kept is 4"):
            index.version_lookup.at_version(table, version)
    assert index.version_holds.tags(table) == [tag]
    assert index.version_holds.rows(table).read_all().to_pylist() == [
        {"name": "before-load", "version": 2, "until": None, "user": tag.user, "readable": "yes"}
    ]
    assert [row.version for row in index.tables.history(table.identifier)] == [4, 2]


def test_version_is_gone_after_its_last_tag(index: Index, table: Table) -> None:
    for name in ("a", "b"):
        index.version_holds.tag(table, 1, name)
    index.versions.expire(table.table_id, 4)
    for name in ("a", "b"):
        assert len(state_at(index, table, 1)) == 2
        assert index.version_holds.untag(table, name).name == name
    with pytest.raises(VersionExpiredError):
        state_at(index, table, 1)
    assert index.versions.expire(table.table_id, 4) > 0
    assert rows_of(index, "files", "end_version <= 4") == rows_of(index, "partitions", "end_version <= 4") == 0
    assert [row.version for row in index.tables.history(table.identifier)] == [4]


def rows_of(index: Index, rows: str, where: str) -> int:
    with index._database.reading() as connection:
        return int(connection.execute(sa.text(f"SELECT count(*) FROM {rows} WHERE {where}")).scalar_one())


def test_time_below_the_floor_names_no_held_version(index: Index, table: Table) -> None:
    """The history between held versions is gone: version 1 was not the newest one at the time of version 2."""
    with index._database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE table_versions SET committed_at_ms = (version + 1) * 1000"))
        connection.execute(sa.text("UPDATE tables SET created_at_ms = 1000"))
    table = index.tables.load(table.identifier)
    index.version_holds.tag(table, 1, "one")
    index.versions.expire(table.table_id, 4)
    with pytest.raises(VersionExpiredError):
        index.version_lookup.at_time(table, 3000)
    assert index.version_lookup.at_time(table, 5000).version == 4


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("41", "only digits"), ("٤١", "only digits"), ("", "is empty"), ("a" * 256, "longer than 255"), (" a", "blank"),
     ("a\nb", "control")],
)  # fmt: skip
def test_names_that_are_no_tag_are_refused(index: Index, table: Table, name: str, wrong: str) -> None:
    with pytest.raises(InvalidInputError, match=wrong):
        index.version_holds.tag(table, 1, name)
    assert index.version_holds.tags(table) == []


def test_tag_of_a_version_that_is_not_there_is_refused(index: Index, table: Table) -> None:
    for version in (-1, 5):
        with pytest.raises(VersionNotFoundError, match=f"no version {version}"):
            index.version_holds.tag(table, version, "x")
    index.versions.raise_floor(table.table_id, 3)
    with pytest.raises(VersionExpiredError):
        index.version_holds.tag(table, 2, "x")
    with pytest.raises(VersionNotFoundError, match=r"has no tag 'x'\. It has no tags"):
        index.version_holds.untag(table, "x")
    index.version_holds.tag(table, 3, "y")
    with pytest.raises(VersionNotFoundError, match=r"no tag 'x'\. Its tags: y"):
        index.version_lookup.at_tag(table, "x")
    with pytest.raises(AlreadyExistsError, match="already has a tag 'y', of version 3"):
        index.version_holds.tag(table, 4, "y")
    index.tables.drop(table.identifier, deliver=False)
    with pytest.raises(TableNotFoundError):
        index.version_holds.tag(table, 3, "z")


def test_tag_ends_at_its_time(index: Index, table: Table) -> None:
    now = index.now_ms()
    with pytest.raises(InvalidInputError, match="in the past"):
        index.version_holds.tag(table, 1, "x", now - 1)
    index.version_holds.tag(table, 1, "x", now + 600_000)
    index.version_holds.tag(table, 2, "y", now + 600_000)
    index.versions.expire(table.table_id, 3)
    assert len(state_at(index, table, 1)) == 2
    end_now(index)
    assert [(tag.name, tag.readable, tag.in_force) for tag in index.version_holds.tags(table)] == [
        ("x", "no", False), ("y", "no", False),
    ]  # fmt: skip
    with pytest.raises(VersionExpiredError):
        state_at(index, table, 1)
    with pytest.raises(VersionExpiredError):
        index.version_holds.tag(table, 1, "x")
    assert index.version_holds.tag(table, 3, "x").version == 3, "the name of a tag that has ended is free"
    index.versions.expire(table.table_id, 4)
    assert [tag.name for tag in index.version_holds.tags(table)] == ["x"]


def end_now(index: Index) -> None:
    with index._database.engine.begin() as connection:
        connection.execute(sa.update(version_holds).values(until_ms=1))


def test_row_counts_that_are_found_later_hold_for_a_held_version(index: Index) -> None:
    table = create(index, keys={"k": "int"}, name="counted")
    for number in (1, 2, 3):
        commit(index, table, AddPartition(f"k={number}", data_files(2, None if number == 1 else 5)))
    table = index.tables.load(table.identifier)
    index.version_holds.tag(table, 1, "one")
    index.versions.expire(table.table_id, 3)
    index.file_statistics.put(table, {"k=1": data_files(2, 7)}, deliver=False)
    index.versions.expire(table.table_id, 3)
    rows = [index.version_lookup.at_version(table, version).totals for version in (1, 3)]
    assert [each.rows for each in rows if each] == [14, 34]


def test_types_of_keys_do_not_change_below_a_tag(index: Index, table: Table) -> None:
    index.version_holds.tag(table, 1, "x")
    with pytest.raises(UnsupportedTypeChangeError, match="while the tag 'x' holds version 1"):
        index.alterations.change_key_types(table, {"k": "bigint"}, deliver=False)
    index.version_holds.untag(table, "x")
    assert index.alterations.change_key_types(table, {"k": "bigint"}, deliver=False).version == 5


def test_tags_go_with_their_table(index: Index, table: Table) -> None:
    index.version_holds.tag(table, 1, "x")
    index.tables.drop(table.identifier, deliver=False)
    assert rows_of(index, "version_holds", "1 = 1") == 0


@pytest.mark.slow
@pytest.mark.parametrize("keys", [{"k": "int"}, {"k": "int", "n": "int"}], ids=["one key", "two keys"])
@pytest.mark.parametrize("seed", range(4))
def test_random_tags_and_floors_keep_exactly_the_held_versions(index: Index, keys: dict[str, str], seed: int) -> None:
    """After each expiry a held version lists the files that it listed before, and other old versions are gone."""
    chance = random.Random(seed)
    table = create(index, keys=keys, name="random")
    listed: dict[int, State] = {}
    tags: dict[str, int] = {}
    floor = 0
    for step in range(40):
        random_commit(index, table, chance, step)
        table = index.tables.load(table.identifier)
        listed[table.version] = state_at(index, table, table.version)
        if chance.random() < 0.3:
            version = chance.randint(floor, table.version)
            if version in listed:
                tags[f"t{step}"] = index.version_holds.tag(table, version, f"t{step}").version
        if tags and chance.random() < 0.15:
            name = chance.choice(sorted(tags))
            index.version_holds.untag(table, name)
            del tags[name]
        if chance.random() < 0.75:
            continue
        floor = chance.randint(floor, table.version)
        index.versions.expire(table.table_id, floor, max_rows=chance.choice([None, 3]))
        for version, state in listed.items():
            if version >= floor or version in tags.values():
                assert state_at(index, table, version) == state, (seed, step, version)
            else:
                with pytest.raises(VersionExpiredError):
                    state_at(index, table, version)
    for name in tags:
        index.version_holds.untag(table, name)
    index.versions.expire(table.table_id, table.version)
    for rows in ("files", "partitions"):
        assert rows_of(index, rows, f"end_version <= {table.version}") == 0, "untag releases every row"
    assert state_at(index, table, table.version) == listed[table.version]


def random_commit(index: Index, table: Table, chance: random.Random, step: int) -> None:
    """Add, drop or change a partition; a changed one keeps some of its files."""
    table = index.tables.load(table.identifier)
    planned = index.files.plan(table, None).read_all().to_pylist()
    there = sorted({row["partition"] for row in planned})
    new = tuple(DataFile(f"f{step}-{number}", 10 + number, 1, None) for number in range(chance.randint(1, 3)))
    if there and chance.random() < 0.7:
        name = chance.choice(there)
        paths = [row["path"] for row in planned if row["partition"] == name and chance.random() < 0.5]
        commit(index, table, DropPartition(name) if chance.random() < 0.3 else ReplaceFiles(name, new, tuple(paths)))
        return
    keys = [key.name for key in table.definition.partition_columns]
    values = [*(str(chance.randint(0, 1)) for _ in keys[1:]), str(100 + step)]
    commit(index, table, AddPartition("/".join(f"{key}={value}" for key, value in zip(keys, values, strict=True)), new))
