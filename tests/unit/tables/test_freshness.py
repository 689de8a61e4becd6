"""``max-staleness``: which partitions a plan lists before it answers, and as of which version it reads them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import MassDropError, StorageError
from catalog_ext.metastore.index.database.schema import verifications
from catalog_ext.metastore.index.read.partition_groups import WantedGroups
from catalog_ext.metastore.model.changes import AddPartition, ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.conditions import Among
from catalog_ext.metastore.predicates.parser import parse_predicate
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.tables.freshness import Staleness
from tests.kit.repair_cases import deny, indexed, local_catalog, register, walked, write
from tests.kit.writes import crash_at, insert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.context import RepairProgress
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location

A, B, C = "ds=2025-01-01/region=eu", "ds=2025-01-01/region=us", "ds=2025-01-02/region=eu"
ALWAYS, AN_HOUR = Staleness(0), Staleness(3_600_000)
DAY = "ds = '2025-01-01'"


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
    """The directories that are listed one by one, below the table."""
    seen: list[str] = []
    whole = Storage.list_directory

    def noted(storage: Storage, location: str | Location) -> list[Entry]:
        seen.append(str(location).removeprefix(f"file://{root}").removeprefix("/"))
        return whole(storage, location)

    monkeypatch.setattr(Storage, "list_directory", noted)
    return seen


def plan(
    catalog: Catalog, where: str | None = None, staleness: Staleness | None = ALWAYS, *, at: int | None = None,
    table: str = "s.t", among: Among | None = None, rows: int | None = None,
) -> set[str]:  # fmt: skip
    """The files of a query as the service plans it, at a version."""
    loaded = catalog.load_table(table)
    version = loaded.version if at is None else at
    condition = None if where is None else parse_predicate(where)
    more = {} if among is None else {"among": among}
    found = catalog.reads.plan_files(loaded.table_id, version, condition, staleness=staleness, rows=rows, **more)
    return {f"{row['partition']}/{row['path']}" for row in found.read_all().to_pylist()}


def forget(catalog: Catalog) -> None:
    """Nothing was ever compared with the store."""
    catalog.index._database.write(lambda connection: connection.execute(sa.delete(verifications)))


def own_rows(catalog: Catalog) -> int:
    with catalog.index._database.reading() as connection:
        count = sa.select(sa.func.count()).select_from(verifications).where(verifications.c.name_hash != "")
        return int(connection.execute(count).scalar_one())


def test_without_it_nothing_is_listed(catalog: Catalog, root: Path, listed: list[str]) -> None:
    write(root, f"{A}/2.csv")
    assert plan(catalog, DAY, None) == {f"{A}/1.csv", f"{B}/1.csv"}
    assert listed == []


def test_a_repair_of_the_whole_table_is_one_row_and_verifies_all(
    catalog: Catalog, root: Path, listed: list[str]
) -> None:
    write(root, f"{A}/2.csv")
    assert plan(catalog, DAY, AN_HOUR) == {f"{A}/1.csv", f"{B}/1.csv"}
    assert listed == []
    assert own_rows(catalog) == 0


def test_what_a_query_selects_is_listed_and_only_that(catalog: Catalog, root: Path, listed: list[str]) -> None:
    write(root, f"{A}/2.csv", f"{C}/2.csv")
    (root / B / "1.csv").unlink()
    assert plan(catalog, DAY) == {f"{A}/1.csv", f"{A}/2.csv"}
    assert sorted(listed) == [A, B]
    assert indexed(catalog)[C] == {"1.csv": 1}
    assert catalog.load_table("s.t").version == 2, "one commit"


def test_what_was_listed_within_the_time_is_not_listed_again(catalog: Catalog, root: Path, listed: list[str]) -> None:
    forget(catalog)
    plan(catalog, "region = 'eu'", AN_HOUR)
    assert sorted(listed) == [A, C]
    plan(catalog, DAY, AN_HOUR)
    assert sorted(listed) == [A, B, C]
    plan(catalog, DAY, AN_HOUR)
    assert len(listed) == 3


def test_a_query_of_everything_lists_the_tree_and_leaves_one_row(
    catalog: Catalog, root: Path, listed: list[str]
) -> None:
    plan(catalog, DAY)
    write(root, "ds=2025-01-03/region=eu/1.csv")
    shutil.rmtree(root / C)
    assert plan(catalog) == {f"{A}/1.csv", f"{B}/1.csv", "ds=2025-01-03/region=eu/1.csv"}
    assert indexed(catalog) == walked(root, 2)
    assert own_rows(catalog) == 0
    assert plan(catalog, None, AN_HOUR) == plan(catalog, None, None)


def test_a_new_partition_that_the_query_spells_out_is_found(catalog: Catalog, root: Path, listed: list[str]) -> None:
    new = "ds=2025-01-09/region=eu"
    write(root, f"{new}/1.csv", "ds=2025-01-08/region=asia/1.csv")
    spelled = "ds IN ('2025-01-09', '2025-01-08') AND region = 'eu'"
    assert plan(catalog, spelled) == {f"{new}/1.csv"}
    assert sorted(listed) == ["ds=2025-01-08/region=eu", new]
    assert set(indexed(catalog)) == {A, B, C, new}
    listed.clear()
    plan(catalog, "ds >= '2025-01-08'")
    assert listed == [new], "what is not spelled out is for a repair"


def test_absent_partitions_that_are_spelled_out_are_not_asked_for_again(catalog: Catalog, listed: list[str]) -> None:
    forget(catalog)
    for _ in range(2):
        assert plan(catalog, "ds = '2030-01-01' AND region = 'eu'", AN_HOUR) == set()
    assert listed == ["ds=2030-01-01/region=eu"]


def test_null_is_spelled_out_too(catalog: Catalog, root: Path) -> None:
    new = "ds=__HIVE_DEFAULT_PARTITION__/region=eu"
    write(root, f"{new}/1.csv")
    assert plan(catalog, "ds IS NULL AND region = 'eu'") == {f"{new}/1.csv"}


def test_a_partition_at_a_place_of_its_own_is_listed_there(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    write(tmp_path / "else", "1.csv", "2.csv")
    catalog.partition_commands.relocate("s.t", {"ds": "2025-01-02", "region": "eu"}, str(tmp_path / "else"))
    write(tmp_path / "else", "3.csv")
    write(root, f"{C}/9.csv")
    assert plan(catalog, "ds = '2025-01-02'") == {f"{C}/{n}.csv" for n in (1, 2, 3)}


def test_a_statement_reads_one_version(catalog: Catalog, root: Path, listed: list[str]) -> None:
    """Its second reference sees what the first has found, and nothing that came later, nor of other writers."""
    table = catalog.load_table("s.t")
    mine = Staleness(0, "statement")
    write(root, f"{A}/2.csv")
    first = plan(catalog, DAY, mine)
    assert first == {f"{A}/1.csv", f"{A}/2.csv", f"{B}/1.csv"}
    write(root, f"{A}/3.csv")
    catalog.index.commits.apply_changes(
        table.table_id, [ReplaceFiles(B, (DataFile("w.csv", 1, 1),)), ReplaceFiles(C, (DataFile("w.csv", 1, 1),))],
        operation="INSERT", deliver=False,
    )  # fmt: skip
    assert plan(catalog, DAY, mine, at=table.version) == first
    assert sorted(listed) == [A, B]
    # C was changed by another writer's commit, no part of which a statement of this version sees.
    write(root, f"{C}/w.csv")
    everything = plan(catalog, None, mine, at=table.version)
    assert everything == first | {f"{C}/1.csv"}
    assert plan(catalog, None, mine, at=table.version) == everything


def test_statement_reads_files_found_by_another_process_meanwhile(
    catalog: Catalog, root: Path, listed: list[str]
) -> None:
    version = catalog.load_table("s.t").version
    write(root, f"{A}/2.csv", "ds=2025-01-01/region=asia/1.csv")
    shutil.rmtree(root / B)
    catalog.repair_partitions("s.t")
    listed.clear()  # the repair looks again at what it drops
    assert plan(catalog, DAY, None, at=version) == {f"{A}/1.csv", f"{B}/1.csv"}
    fresh = {f"{A}/1.csv", f"{A}/2.csv"}
    assert plan(catalog, f"{DAY} AND region IN ('eu', 'us')", AN_HOUR, at=version) == fresh
    assert listed == []
    assert plan(catalog, f"{DAY} AND region IN ('eu', 'us')", ALWAYS, at=version) == fresh
    assert plan(catalog, None, AN_HOUR, at=version) >= fresh


def test_a_repair_that_commits_in_between_makes_no_difference(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finds the same, and commits it first."""
    write(root, f"{A}/2.csv")
    version = catalog.load_table("s.t").version
    whole, raced = catalog.index.commits.apply_changes, []

    def commit(*args: object, **kwargs: object) -> object:
        if not raced:
            raced.append(True)
            catalog.repair_partitions("s.t")
        return whole(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog.index.commits, "apply_changes", commit)
    assert plan(catalog, DAY, at=version) == {f"{A}/1.csv", f"{A}/2.csv", f"{B}/1.csv"}
    assert indexed(catalog) == walked(root, 2)


def test_commit_in_between_is_neither_verified_nor_read_in_part(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, listed: list[str]
) -> None:
    forget(catalog)
    write(root, f"{A}/2.csv")
    table = catalog.load_table("s.t")
    whole, raced = catalog.index.commits.apply_changes, []

    def commit(*args: object, **kwargs: object) -> object:
        if not raced:
            raced.append(True)
            new = (DataFile("w.csv", 1, 1),)
            whole(table.table_id, [ReplaceFiles(A, new), ReplaceFiles(C, new)], operation="INSERT", deliver=False)
        return whole(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog.index.commits, "apply_changes", commit)
    assert plan(catalog, DAY, at=table.version) == {f"{A}/1.csv", f"{B}/1.csv"}
    listed.clear()
    write(root, f"{A}/w.csv")
    assert plan(catalog, DAY, AN_HOUR) == {f"{A}/{n}.csv" for n in ("1", "2", "w")} | {f"{B}/1.csv"}
    assert listed == [A], "the next query looks again, at what was left alone"


def test_the_store_refuses(catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root, f"{A}/2.csv", f"{B}/2.csv")
    deny(monkeypatch, root / B)
    with pytest.raises(StorageError, match=r"region=us' cannot be compared with the store: .*max-staleness = none"):
        plan(catalog, DAY)
    assert indexed(catalog)[B] == {"1.csv": 1}
    assert plan(catalog, DAY, None) == {f"{A}/1.csv", f"{A}/2.csv", f"{B}/1.csv"}
    with pytest.raises(StorageError, match="cannot be compared"):
        plan(catalog, DAY, AN_HOUR if forget(catalog) is None else None)


def test_a_store_that_is_away_drops_nothing(catalog: Catalog, root: Path) -> None:
    shutil.rmtree(root)
    root.mkdir()
    with pytest.raises(MassDropError):
        plan(catalog, DAY)
    with pytest.raises(MassDropError):
        plan(catalog)
    assert set(indexed(catalog)) == {A, B, C}


def test_a_partition_that_has_gone_is_not_read(catalog: Catalog, root: Path) -> None:
    shutil.rmtree(root / B)
    assert plan(catalog, DAY) == {f"{A}/1.csv"}
    assert set(indexed(catalog)) == {A, C}


def test_a_table_without_partition_columns(catalog: Catalog, tmp_path: Path, listed: list[str]) -> None:
    write(tmp_path / "flat", "1.csv")
    register(catalog, tmp_path / "flat", {}, table="s.flat")
    catalog.repair_partitions("s.flat")
    write(tmp_path / "flat", "2.csv")
    listed.clear()
    assert plan(catalog, table="s.flat") == {"/1.csv", "/2.csv"}
    assert len(listed) == 1


def test_a_location_with_wildcards_is_listed_by_the_predicate(catalog: Catalog, tmp_path: Path) -> None:
    tree = tmp_path / "w"
    write(tree, "eu/ds=2025-01-01/1.csv", "us/ds=2025-01-01/1.csv", "eu/ds=2025-01-02/1.csv")
    catalog.register_table(
        "s.w", location=f"{tree}/*/ds=*/*.csv", partition_columns={"ds": "DATE"}, schema="x INT", format="csv"
    )
    catalog.repair_partitions("s.w")
    write(tree, "us/ds=2025-01-01/2.csv", "us/ds=2025-01-02/2.csv")
    found = plan(catalog, "ds = '2025-01-01'", table="s.w")
    assert {path.partition("/")[2] for path in found} == {
        "eu/ds=2025-01-01/1.csv", "us/ds=2025-01-01/1.csv", "us/ds=2025-01-01/2.csv",
    }  # fmt: skip
    assert "us/ds=2025-01-02/2.csv" not in indexed(catalog, "s.w")["ds=2025-01-02"]
    assert len(plan(catalog, table="s.w")) == 5


def test_only_the_partitions_of_these_numbers(catalog: Catalog, root: Path, listed: list[str]) -> None:
    """A client that has evaluated a filter by itself names them."""
    write(root, f"{A}/2.csv", f"{C}/2.csv")
    there = catalog.index.partitions.all(catalog.load_table("s.t"), None).read_all().to_pylist()
    of = Among(tuple(row["partition_id"] for row in there if row["partition"] == C))
    assert plan(catalog, None, among=of) == {f"{C}/1.csv", f"{C}/2.csv"}
    assert listed == [C]


def test_a_limit_never_loses_rows_where_something_was_found(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/2.csv")
    assert plan(catalog, None, rows=1) == {f"{A}/1.csv", f"{A}/2.csv", f"{B}/1.csv", f"{C}/1.csv"}


@pytest.mark.parametrize("wanted", list(WantedGroups))
def test_groups_are_of_what_was_found_too(catalog: Catalog, root: Path, wanted: WantedGroups) -> None:
    new = "ds=2025-01-05/region=eu"
    write(root, f"{new}/1.csv", f"{A}/2.csv")
    shutil.rmtree(root / C)
    table = catalog.load_table("s.t")
    keys = [] if wanted is WantedGroups.EACH else ["ds"]
    groups = catalog.reads.groups(
        table.table_id, table.version, None, keys, wanted, staleness=Staleness(0, "s")
    ).read_all().to_pylist()  # fmt: skip
    assert {row["partition"] for row in groups} == {A, B, new}
    assert sum(row["files"] for row in groups) == 4


def test_many_stale_partitions_are_one_listing_of_the_tree(tmp_path: Path, root: Path, listed: list[str]) -> None:
    write(root, *(f"ds=2025-01-01/region={i}/1.csv" for i in range(120)))
    with local_catalog(tmp_path) as catalog:
        register(catalog, root)
        catalog.repair_partitions("s.t")
        listed.clear()
        assert len(plan(catalog, "ds IS NOT NULL")) == 120
        assert listed == []
        assert len(plan(catalog, "region < '10'")) < 10
        assert 0 < len(listed) < 10


def test_a_limited_an_adding_and_a_previewed_repair_verify_nothing(
    catalog: Catalog, root: Path, listed: list[str]
) -> None:
    forget(catalog)
    catalog.repair_partitions("s.t", where=DAY)
    catalog.repair_partitions("s.t", mode="add")
    catalog.repair_partitions("s.t", dry_run=True)
    listed.clear()
    plan(catalog, DAY, AN_HOUR)
    assert sorted(listed) == [A, B]


def test_a_repair_with_a_part_it_could_not_list_verifies_nothing(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, listed: list[str]
) -> None:
    forget(catalog)
    with monkeypatch.context() as denied:
        deny(denied, root / C)
        catalog.repair_partitions("s.t")
    plan(catalog, DAY, AN_HOUR)
    assert sorted(listed) == [A, B]


def test_queries_that_find_nothing_are_no_repairs_and_no_versions(catalog: Catalog) -> None:
    def repairs() -> int:
        return catalog.metadata_tables.read(catalog.load_table("s.t").table_id, "repairs").read_all().num_rows

    before, version = repairs(), catalog.load_table("s.t").version
    plan(catalog, DAY)
    assert (repairs(), catalog.load_table("s.t").version) == (before, version)


def test_files_of_a_write_that_has_not_committed_are_not_found(catalog: Catalog, root: Path) -> None:
    crash_at("promote.after", lambda: insert(catalog, A))
    assert len(list((root / A).glob("part-*"))) == 1
    assert plan(catalog, DAY) == {f"{A}/1.csv", f"{B}/1.csv"}


def test_a_dropped_table_leaves_no_rows(catalog: Catalog) -> None:
    plan(catalog, DAY)
    assert own_rows(catalog) == 2
    catalog.drop_table("s.t")
    assert own_rows(catalog) == 0


def test_old_rows_are_forgotten_with_the_repairs(catalog: Catalog) -> None:
    plan(catalog, DAY)
    table = catalog.load_table("s.t")
    catalog.index.repairs.expire(table.table_id, catalog.index.now_ms() + 1)
    assert own_rows(catalog) == 0


def test_location_of_another_table_is_left_alone(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    """The directory that a query spells out is the place of another partition."""
    table, new = catalog.load_table("s.t"), "ds=2025-02-01/region=eu"
    write(root, f"{new}/1.csv")
    other = AddPartition("ds=2025-02-02/region=eu", (DataFile("1.csv", 1, 1),), f"{table.definition.location}/{new}")
    catalog.index.commits.apply_changes(table.table_id, [other], operation="ADD PARTITION", deliver=False)
    assert plan(catalog, "ds = '2025-02-01' AND region = 'eu'") == set()
    assert new not in indexed(catalog)


def test_what_was_fresh_for_a_statement_stays_so(catalog: Catalog, root: Path, listed: list[str]) -> None:
    """Neither the time that passes nor a repair in between changes what it has decided."""
    version, mine = catalog.load_table("s.t").version, Staleness(3_600_000, "statement")
    assert plan(catalog, DAY, mine) == {f"{A}/1.csv", f"{B}/1.csv"}
    write(root, f"{A}/2.csv")
    catalog.repair_partitions("s.t")
    assert plan(catalog, None, mine, at=version) == {f"{A}/1.csv", f"{B}/1.csv", f"{C}/1.csv"}
    forget(catalog)
    other = Staleness(3_600_000, "other")
    assert plan(catalog, f"{DAY} AND region = 'us'", other, at=version) == {f"{B}/1.csv"}
    write(root, f"{B}/2.csv", f"{C}/2.csv")
    catalog.repair_partitions("s.t")
    forget(catalog)
    assert plan(catalog, None, other, at=version) == {
        f"{A}/1.csv", f"{A}/2.csv", f"{B}/1.csv", f"{C}/1.csv", f"{C}/2.csv",
    }  # fmt: skip


def test_an_older_listing_undoes_nothing_that_a_query_has_seen(catalog: Catalog, root: Path) -> None:
    """A repair has listed a file that is gone by now, as a query has found meanwhile: the index never gets it."""
    write(root, f"{A}/2.csv", f"{B}/2.csv")

    def meanwhile(progress: RepairProgress) -> None:
        if progress.phase == "comparing":
            (root / A / "2.csv").unlink()
            assert plan(catalog, "ds = '2025-01-01' AND region = 'eu'") == {f"{A}/1.csv"}

    report = catalog.repair_partitions("s.t", progress=meanwhile)
    assert {entry.partition for entry in report.skipped} == {A}
    assert indexed(catalog) == walked(root, 2)
