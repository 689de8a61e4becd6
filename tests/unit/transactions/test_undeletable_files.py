"""A replaced file that its store never lets be deleted, by an object lock or a policy: what waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.partition_plans import ExchangePartitions, RenamePartition
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.local.files import LocalFiles
from tests.kit.index_cases import local_index
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OTHER = TableIdentifier("s", "o")


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    """A table whose k=1 was overwritten, and whose old file stays; and another table."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        stand.create(definition(tmp_path / "o", name="o"))
        stand.write({"k=1": "1\n", "k=2": "2\n", "k=3": "3\n"})
        (locked,) = (tmp_path / "t" / "k=1").glob("*.csv")
        whole = LocalFiles.delete_file

        def refused(files: LocalFiles, path: str) -> None:
            if path == str(locked):
                raise PermissionError(13, "Permission denied", path)
            whole(files, path)

        monkeypatch.setattr(LocalFiles, "delete_file", refused)
        stand.write({"k=1": "new\n"}, WriteKind.OVERWRITE_PARTITIONS)
        yield stand


def rename(stand: Stand, name: str, to: str) -> None:
    stand.engine.command(stand.table(), RenamePartition(name, to), "RENAME PARTITION")


def exchange(stand: Stand, value: str) -> None:
    source, which = stand.table(), Comparison(Operator.EQ, "k", value)
    asked = ExchangePartitions(source.table_id, "s.t", source.version, which)
    stand.engine.command(stand.table(OTHER), asked, "EXCHANGE PARTITION")


def test_other_partitions_move(stand: Stand) -> None:
    rename(stand, "k=2", "k=22")
    exchange(stand, "3")
    assert stand.rows() == {"k=1": "new\n", "k=22": "2\n"}
    assert stand.rows(OTHER) == {"k=3": "3\n"}


def test_the_partition_itself_waits(stand: Stand) -> None:
    """Its old file would go with it."""
    with pytest.raises(ConflictError, match="is deleting what it replaced"):
        rename(stand, "k=1", "k=4")
    with pytest.raises(ConflictError, match="is deleting what it replaced"):
        exchange(stand, "1")
    assert stand.rows()["k=1"] == "new\n"
