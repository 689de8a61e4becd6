"""Writes to HDFS by renames: they commit, fail and are recovered as on a local disk; one HDFS has several names."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.errors import ConflictError, TableLayoutError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.faults.scenarios import OVERWRITE
from tests.kit.index_cases import empty_index
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import DYNAMIC, TABLE, Stand, definition
from tests.kit.writes import crash_at

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.servers.hdfs import HdfsServer


def test_writes_commit_fail_and_are_recovered(tmp_path: Path, hdfs_server: HdfsServer) -> None:
    (tmp_path / "index.db").write_bytes(empty_index())
    location = f"{hdfs_server.uri}/{secrets.token_hex(4)}/t"
    with Index.open(str(tmp_path / "index.db")) as index:
        stand = Stand(index)
        OVERWRITE.prepare(stand, location)
        with armed("check.after", "storage"):
            assert OVERWRITE.write(stand, location) == "failure"
        OVERWRITE.check(stand, "failure")
        with armed("promote.file", "storage", 2):
            assert OVERWRITE.write(stand, location) == "unknown"
        assert stand.rows() == OVERWRITE.before
        assert stand.engine.recover(older_than_s=0).failed == ()
        OVERWRITE.check(stand, "success")
        stand.engine.delete(stand.table(), Comparison(Operator.EQ, "k", "3"), truncate=False)
        assert stand.listed() == stand.rows() == {"k=1": "3\n", "k=2": "2\n"}


@pytest.mark.filterwarnings("ignore::catalog_ext.tables.locations.TableOverlapWarning")
def test_each_row_has_its_file_where_one_hdfs_has_two_names(tmp_path: Path, hdfs_server: HdfsServer) -> None:
    """The index knew each directory by the name that it was given: files of rows were deleted by the other name."""
    port, other = hdfs_server.uri.rpartition(":")[2], TableIdentifier("s", "o")
    folder = secrets.token_hex(4)
    here, there = f"hdfs://localhost:{port}/{folder}", f"hdfs://LOCALHOST:{port}/{folder}"
    with local_catalog(tmp_path) as catalog:
        stand, commands = Stand(catalog.index), catalog.partition_commands
        stand.create(definition(f"{here}/t"))
        stand.create(definition(f"{here}/o", name="o", external=True))
        stand.write({"k=1": "1\n", "k=2": "2\n"})
        commands.add("s.t", [({"k": "3"}, f"{there}/t/k=2")])
        with pytest.raises(TableLayoutError, match="each partition would also contain the other's rows"):
            stand.write({"k=3": "9\n"}, DYNAMIC)
        stand.engine.delete(stand.table(), Comparison(Operator.EQ, "k", "3"), truncate=False)
        assert stand.rows() == {"k=1": "1\n", "k=2": "2\n"}
        commands.add("s.o", [({"k": "7"}, f"{there}/t/k=1")])
        with pytest.raises(TableLayoutError, match=r"partition 'k=7' of table s\.o lies at"):
            catalog.drop_table("s.t")
        with pytest.raises(TableLayoutError, match=r"partition 'k=7' of table s\.o has"):
            stand.write({"k=1": "9\n"}, DYNAMIC)
        assert stand.rows(other) == {"k=7": "1\n"}
        commands.drop("s.o", [Comparison(Operator.EQ, "k", "7")])
        _drop_and_recover(catalog, stand, f"{there}/t")


def _drop_and_recover(catalog: Catalog, stand: Stand, other_name: str) -> None:
    """A table whose DROP has ended before its files were deleted has its directory by the other name, too."""
    crash_at("drop.before", lambda: catalog.drop_table(str(TABLE)))
    made = definition(other_name, name="u", external=True)
    with pytest.raises(ConflictError, match=r"files of table s\.t, which was dropped"):
        stand.create(made)
    assert catalog.recover(older_than="0s").failed == ()
    stand.create(made)
    stand.write({"k=1": "5\n"}, table=stand.table(made.identifier))
    catalog.recover(older_than="0s")
    assert stand.rows(made.identifier) == {"k=1": "5\n"}
