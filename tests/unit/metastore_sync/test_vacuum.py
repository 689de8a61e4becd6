"""Vacuum never deletes what Hive engines read: the metastore is asked where the index has no partition any more."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from catalog_ext.cli.main import cli
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.metastore.model.changes import DropPartition
from catalog_ext.metastore.transactions.reports import VacuumAction
from tests.kit.repair_cases import local_catalog
from tests.kit.writes import insert
from tests.unit.partitions.test_partition_commands import managed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore


@pytest.fixture
def catalog(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        yield catalog


def relocate(catalog: Catalog) -> None:
    insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    time.sleep(0.01)


def vacuum(catalog: Catalog) -> list[VacuumAction]:
    report = catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    return [entry.action for entry in report.entries if entry.action is not VacuumAction.FORGET]


def refused(catalog: Catalog) -> str:
    """Why nothing was removed."""
    (entry,) = catalog.vacuum("s.t", retention=0, allow_short_retention=True).entries
    assert entry.action is VacuumAction.FAILED
    return entry.reason


def without_its_index(folder: Path) -> Catalog:
    """A catalog on a new index, after the first one is lost."""
    (folder / "warehouse" / "_catalog_ext_index").unlink()
    (folder / "again").mkdir()
    return local_catalog(folder / "again", metastore="thrift://fake:9083")


def hive_reads(metastore: FakeMetastore) -> list[int]:
    """The numbers of files in the directories that Hive engines read."""
    places = [Path(p.location.removeprefix("file://")) for p in metastore.partitions("s", "t")]
    return [len(list(place.glob("*.csv"))) if place.exists() else 0 for place in places]


def test_a_change_that_was_skipped_keeps_the_files_until_it_is_published(
    catalog: Catalog, metastore: FakeMetastore
) -> None:
    managed(catalog)
    insert(catalog, "k=1")
    metastore.down = True
    relocate(catalog)
    (delivery,) = catalog.index.outbox.pending(limit=5)
    metastore.down = False
    assert catalog.index.outbox.skip(delivery.outbox_id)
    assert re.search(r"still has partitions of table s\.t at file://.*k=1.* publish s\.t", refused(catalog))
    assert hive_reads(metastore) == [1]
    list(catalog.publish("s.t"))
    assert vacuum(catalog) == [VacuumAction.DELETE]
    assert hive_reads(metastore) == [1]


def test_a_session_without_the_metastore_deletes_nothing_that_it_may_name(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    managed(catalog)
    insert(catalog, "k=1")
    with local_catalog(tmp_path, metastore=None) as alone:
        relocate(alone)
        assert "belongs to the metastore thrift://fake:9083" in refused(alone)
    assert "still has partitions of table s.t" in refused(catalog)
    assert hive_reads(metastore) == [1]
    relocate(catalog)
    assert vacuum(catalog) == [VacuumAction.DELETE, VacuumAction.DELETE]
    assert hive_reads(metastore) == [1]


def test_a_metastore_that_does_not_answer_is_waited_for(catalog: Catalog, metastore: FakeMetastore) -> None:
    managed(catalog)
    insert(catalog, "k=1")
    relocate(catalog)
    metastore.down = True
    assert "no connection" in refused(catalog)
    metastore.down = False
    assert vacuum(catalog) == [VacuumAction.DELETE]
    metastore.calls.clear()
    assert vacuum(catalog) == []
    assert not metastore.calls, "without files to delete the metastore is not asked"


def test_where_there_is_no_metastore_nothing_is_waited_for(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        managed(catalog)
        insert(catalog, "k=1")
        relocate(catalog)
        assert vacuum(catalog) == [VacuumAction.DELETE]


def test_the_command_line_asks_the_metastore_before_it_deletes(catalog: Catalog, tmp_path: Path) -> None:
    """It did not connect to the metastore, and so could never delete a replaced file of an index that has one."""
    root = managed(catalog)
    insert(catalog, "k=1")
    relocate(catalog)
    home = ["--index", str(tmp_path / "index.db"), "--metastore", "thrift://fake:9083"]
    home += ["--warehouse", str(tmp_path / "warehouse")]
    result = CliRunner().invoke(cli, [*home, "vacuum", "s.t", "--retention", "0s", "--force"])
    assert result.exit_code == 0, result.output
    assert not (root / "k=1").exists()


def test_a_partition_of_any_name_keeps_its_directory(catalog: Catalog, metastore: FakeMetastore) -> None:
    """A Hive engine has given a partition of another name the directory of the replaced files."""
    root = managed(catalog)
    insert(catalog, "k=1")
    relocate(catalog)
    metastore.add_partitions("s", "t", [HivePartition(("9",), f"file://{root}/k=1")])
    assert f"still has partitions of table s.t at file://{root}/k=1" in refused(catalog)
    assert len(list(root.glob("k=1/*.csv"))) == 1


def test_other_directories_are_vacuumed_beside_one_that_is_named(catalog: Catalog, metastore: FakeMetastore) -> None:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")
    insert(catalog, "k=1", "k=2", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    time.sleep(0.01)
    metastore.add_partitions("s", "t", [HivePartition(("9",), f"file://{root}/k=1")])
    assert sorted(vacuum(catalog)) == [VacuumAction.DELETE, VacuumAction.FAILED]
    assert (root / "k=1").exists()
    assert not (root / "k=2").exists()


@pytest.mark.slow
def test_a_table_of_a_lost_index_is_in_sync_after_its_import(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    """Trial F14: SET LOCATION took the partition out of an overwrite's directory, which no partition has any more."""
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")
    relocate(catalog)
    catalog.partition_commands.relocate("s.t", {"k": "1"}, str(root / "k=1"))
    insert(catalog, "k=2", kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    catalog.deliver()
    with without_its_index(tmp_path) as again:
        again.import_table("s.t")
        # What it replaced at k=2 lies beside the partition, and is no file of it.
        assert again.repair_partitions("s.t").in_sync
        before = again.files("s.t").to_pylist()
        (skipped,) = again.vacuum("s.t", retention=0, allow_short_retention=True).skipped
        assert "--unknown-writes" in skipped.reason
        again.vacuum("s.t", retention=0, allow_short_retention=True, unknown_writes=True)
        assert not Path(skipped.path.removeprefix("file://")).exists()
        assert again.files("s.t").to_pylist() == before
        assert all(Path(f"{root}/{path}").exists() for path in ("k=1", "_catalog_ext_data"))


@pytest.mark.slow
def test_a_repair_warns_of_relocated_rows_that_only_the_metastore_names(
    catalog: Catalog, metastore: FakeMetastore, tmp_path: Path
) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    relocate(catalog)
    catalog.deliver()
    with without_its_index(tmp_path) as again:
        again.import_table("s.t")
        again.index.commits.apply_changes(
            again.load_table("s.t").table_id, [DropPartition("k=1")], operation="x", deliver=False
        )
        again.index.versions.expire(again.load_table("s.t").table_id, again.load_table("s.t").version)
        assert not again.repair_partitions("s.t", dry_run=True).in_sync
        report = again.vacuum("s.t", retention=0, allow_short_retention=True, unknown_writes=True)
        assert "still has partitions of table s.t" in " ".join(entry.reason for entry in report.failed)
    assert len(list(root.glob("_catalog_ext_data/*/k=1/*.csv"))) == 1
