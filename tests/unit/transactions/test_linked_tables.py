"""Two tables share a directory that has two names: no statement of one deletes the rows of the other."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.partition_plans import AddPartitions, DataDeletion, DropPartitions, NewPartition
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, TableLayoutError
from catalog_ext.metastore.index.read.spellings import other_spellings
from catalog_ext.metastore.index.tables.dropped import check_location_free
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.runtime.local_paths import PhysicalPaths
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, TABLE, Stand, definition
from tests.kit.writes import crash_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

B = TableIdentifier("s", "b")


def link(real: Path, name: Path) -> None:
    name.symlink_to(real)


def mount(real: Path, name: Path) -> None:
    name.mkdir()
    done = subprocess.run(["mount", "--bind", real, name], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no bind mount can be made here: {done.stderr.strip()}")


@pytest.fixture(params=[link, mount])
def alias(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Another name of the folder ``real``."""
    (tmp_path / "real").mkdir()
    request.param(tmp_path / "real", tmp_path / "alias")
    yield tmp_path / "alias"
    if request.param is mount:
        subprocess.run(["umount", tmp_path / "alias"], check=True)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        yield catalog


@pytest.fixture(params=["table", "partition", "below"])
def stand(catalog: Catalog, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stand]:
    """Table t, and table b that has the rows of t's k=1 by the other name of their directory."""
    stand, real, alias = Stand(catalog.index), tmp_path / "real", tmp_path / "alias"
    real.mkdir()
    is_mount = request.param == "below"
    (mount if is_mount else link)(real, alias)
    stand.create(definition(real / "d" if is_mount else real, external=request.param == "table"))
    stand.write({"k=1": "1\n", "k=2": "2\n"})
    if request.param == "table":
        stand.create(definition(alias, name="b", external=True))
        catalog.repair_partitions("s.b", where={"k": "1"})
    else:
        stand.create(definition(tmp_path / "b", name="b", external=True))
        asked = AddPartitions((NewPartition("k=1", f"file://{alias}{'/d' if is_mount else ''}/k=1"),))
        stand.engine.command(stand.table(B), asked, "ADD PARTITION")
    yield stand
    if is_mount:
        subprocess.run(["umount", alias], check=True)


def overwrite(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, DYNAMIC)


def drop(stand: Stand) -> None:
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.INSIDE), "DROP PARTITION")


def replace_table(stand: Stand) -> None:
    made = stand.table().definition
    stand.write({"k=5": "9\n"}, WriteKind.REPLACE, definition=made, table=stand.table(), operation="RTAS")


@pytest.mark.parametrize("statement", [overwrite, drop, replace_table])
def test_statement_is_refused_when_a_linked_table_has_the_files(
    stand: Stand, statement: Callable[[Stand], None]
) -> None:
    with pytest.raises(TableLayoutError, match=r"partition 'k=1' of table s\.b has it too"):
        statement(stand)
    assert stand.rows(B) == {"k=1": "1\n"}


def test_vacuum_keeps_files_of_a_linked_table(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, DYNAMIC, options=RELOCATE)
    time.sleep(0.005)
    report = stand.engine.vacuum(stand.table(), 0)
    assert "needed by version 1 of table s.b" in " ".join(entry.reason for entry in report.kept)
    assert stand.rows(B) == {"k=1": "1\n"}


def test_linked_files_cannot_be_registered_while_they_are_deleted(catalog: Catalog, alias: Path) -> None:
    stand = Stand(catalog.index)
    stand.create(definition(alias.with_name("real")))
    stand.write({"k=1": "1\n"})
    stand.create(definition(alias.with_name("b"), name="b", external=True))
    crash_at("reserve.after", lambda: overwrite(stand))
    asked = AddPartitions((NewPartition("k=1", f"file://{alias}/k=1"),))
    with pytest.raises(ConflictError, match=r"of table s\.t is deleting"):
        stand.engine.command(stand.table(B), asked, "ADD PARTITION")


def test_drop_is_refused_when_a_table_lies_in_a_mounted_part_of_it(catalog: Catalog, tmp_path: Path) -> None:
    """The mount shows a directory below the dropped table's, so that no directory above the other table is it."""
    stand = Stand(catalog.index)
    stand.create(definition(tmp_path / "t"))
    (tmp_path / "t" / "_part").mkdir()
    mount(tmp_path / "t" / "_part", tmp_path / "m")
    try:
        stand.create(definition(tmp_path / "m", name="b", external=True))
        stand.write({"k=1": "1\n"}, table=stand.table(B))
        with pytest.raises(TableLayoutError, match=r"table s\.b lies at"):
            catalog.drop_table("s.t")
        assert stand.rows(B) == {"k=1": "1\n"}
    finally:
        subprocess.run(["umount", tmp_path / "m"], check=True)


def test_hdfs_addresses_of_one_name_node_are_one_store(catalog: Catalog) -> None:
    for name, location in (("t", "hdfs://nn/d"), ("b", "hdfs://NN:8020/d"), ("c", "hdfs://nn:9000/d")):
        catalog.index.tables.create(definition(location, name=name, external=True), deliver=False)
    with catalog.index._database.reading() as connection:
        found = other_spellings(connection, ["hdfs://nn/d/k=1"])
    assert found == {"hdfs://nn/d/k=1": {"hdfs://NN:8020/d/k=1"}}


def in_directory(catalog: Catalog, location: str, kind: str) -> None:
    """Let table b, or a partition of it, lie in a directory."""
    lies = f"{location}/x" if kind == "table" else "hdfs://elsewhere:1/b"
    b = catalog.index.tables.create(definition(lies, name="b", external=True), deliver=False)
    if kind == "partition":
        change = AddPartition("k=1", (), f"{location}/k=1")
        catalog.index.commits.apply_changes(b.table_id, [change], operation="repair", deliver=False)


@pytest.mark.parametrize("kind", ["table", "partition"])
def test_drop_is_refused_when_rows_lie_there_by_another_address(catalog: Catalog, kind: str) -> None:
    """The files of table b went with the directory of t."""
    catalog.index.tables.create(definition("hdfs://nn/d/t"), deliver=False)
    in_directory(catalog, "hdfs://NN:8020/d/t", kind)
    with pytest.raises(TableLayoutError, match=r"table s\.b lies at hdfs://NN:8020/d/t/"):
        catalog.index.tables.drop(TABLE, deliver=False, deletes=True)
    assert catalog.index.tables.drop(TABLE, deliver=False).table_id == 1, "a drop that keeps all files"


def test_directory_of_a_dropped_table_is_kept_free_by_its_other_addresses(catalog: Catalog) -> None:
    """What was written there was deleted by the recovery that finished the DROP."""
    catalog.index.tables.create(definition("hdfs://nn/d/t"), deliver=False)
    catalog.index.tables.drop(TABLE, deliver=False, deletes=True)
    refused = r"files of table s\.t, which was dropped"
    with pytest.raises(ConflictError, match=refused):
        in_directory(catalog, "hdfs://NN:8020/d/t", "table")
    with catalog.index._database.reading() as connection, pytest.raises(ConflictError, match=refused):
        check_location_free(connection, B, "hdfs://NN:8020/d/t/k=1", "k=1")
    in_directory(catalog, "hdfs://nn:8020/d/t2", "table")


def test_directory_of_a_dropped_table_is_kept_free_by_links_and_mounts(catalog: Catalog, alias: Path) -> None:
    stand = Stand(catalog.index)
    stand.create(definition(alias.with_name("real") / "t"))
    crash_at("drop.before", lambda: catalog.drop_table("s.t"))
    with pytest.raises(ConflictError, match=r"files of table s\.t, which was dropped"):
        stand.create(definition(alias / "t", name="b", external=True))


def test_paths_are_compared_as_their_file_system_does(tmp_path: Path) -> None:
    """Where case does not count, both names exist and the directory lists one of them."""
    (tmp_path / "ABC").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert PhysicalPaths().of(f"{tmp_path}/ABC") != PhysicalPaths().of(f"{tmp_path}/abc")
    assert PhysicalPaths().of(f"{tmp_path}/loop/x").endswith("/loop/x")
    assert PhysicalPaths().of(f"{tmp_path}/gone/x").endswith("/gone/x")
    (tmp_path / "abc").mkdir()
    assert PhysicalPaths().of(f"{tmp_path}/ABC/x") != PhysicalPaths().of(f"{tmp_path}/abc/x")


@pytest.mark.parametrize("folder", ["t", "1"])
def test_case_counts_where_the_file_system_distinguishes_it(tmp_path: Path, folder: str) -> None:
    (tmp_path / "T").mkdir()
    with local_catalog(tmp_path) as catalog:
        stand = Stand(catalog.index)
        stand.create(definition(tmp_path / folder, {"k": "string"}))
        stand.write({"k=a": "1\n", "k=A": "2\n"})
        stand.write({"k=A": "3\n"}, DYNAMIC)
        assert stand.rows() == stand.listed() == {"k=a": "1\n", "k=A": "3\n"}


@pytest.mark.parametrize(("dropped", "stays"), [("a", "A"), ("A", "a")])
def test_either_of_two_partitions_in_one_directory_can_be_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropped: str, stays: str
) -> None:
    """A link stands for a disk without case to which a managed table with both was copied: the last takes the files."""
    monkeypatch.setattr("catalog_ext.metastore.transactions.linked_directories._ignores_case", lambda _: True)
    with local_catalog(tmp_path) as catalog:
        stand = Stand(catalog.index)
        stand.create(definition(tmp_path / "t", {"k": "string"}))
        stand.write({"k=a": "1\n", "k=b": "2\n"})
        (tmp_path / "t" / "k=A").symlink_to("k=a")
        (file,) = (path for path in (tmp_path / "t" / "k=a").iterdir() if path.name[0] not in "._")
        added = AddPartition("k=A", (DataFile(file.name, 2, int(file.stat().st_mtime * 1000)),))
        catalog.index.commits.apply_changes(stand.table().table_id, [added], operation="import", deliver=False)

        def drop(operator: Operator, value: str) -> None:
            asked = DropPartitions(Comparison(operator, "k", value), DataDeletion.INSIDE)
            stand.engine.command(stand.table(), asked, "DROP PARTITION")

        with pytest.raises(TableLayoutError, match=r"by a statement of its own"):
            drop(Operator.NE, stays)
        drop(Operator.EQ, dropped)
        assert stand.rows() == {f"k={stays}": "1\n", "k=b": "2\n"}
        drop(Operator.EQ, stays)
        assert stand.rows() == {"k=b": "2\n"}
        assert not file.exists()
