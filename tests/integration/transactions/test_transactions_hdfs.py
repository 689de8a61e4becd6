"""Writes to HDFS by renames: they commit, fail and are recovered as on a local disk."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.faults.scenarios import OVERWRITE
from tests.index_cases import empty_index
from tests.write_cases import Stand

if TYPE_CHECKING:
    from pathlib import Path

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
